package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// installResult is what an installation did, in JSON.
type installResult struct {
	Changes []string    `json:"changes"` // to an earlier registration
	Service serviceInfo `json:"service"`
}

func (a *app) serviceInstall() *cobra.Command {
	return &cobra.Command{
		Use: "install", Short: "Register the service with the system and start it",
		Long: "Register the service with the system's service manager for the current user, and start it if it does not run. It is then started at each log-on and again after a crash. " +
			"Repeating it changes nothing; after the program was moved it says what it changed.",
		Example: "  reeve service install\n  reeve service install --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			before, err := a.look(ctx)
			if err != nil {
				return err
			}
			if before.Manager == "" {
				return &Failure{Exit: ExitFailed, What: before.Why, Next: before.Fix}
			}
			u, err := a.unit()
			if err != nil {
				return err
			}
			changes := a.registrationChanges(before, u)
			if err := a.Manager.Install(ctx, u); err != nil {
				return fmt.Errorf("register the service with %s: %w", before.Manager, err)
			}
			if before.Registered && !a.ours(before) && before.active() {
				if err := a.Manager.Stop(ctx); err != nil {
					return err
				}
				changes = append(changes, "The service with that state was ended; its workers go on to the end of their turns.")
			}
			_, err = call[wire.Service](ctx, a, wire.MethodServiceStatus, nil)
			if errors.Is(err, client.ErrNotRunning) {
				if err = a.bringUp(ctx); err != nil && !before.Registered {
					// Whatever is wrong, it is not left behind.
					err = errors.Join(err, a.Manager.Uninstall(context.WithoutCancel(ctx)))
				}
			}
			if err != nil {
				return err
			}
			info, err := a.serviceInfo(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(installResult{append([]string{}, changes...), info})
			}
			if before.Registered && len(changes) == 0 {
				fmt.Fprintf(a.Stdout, "The service is registered with %s already.\n", before.Manager)
			} else {
				fmt.Fprintf(a.Stdout, "The service is registered with %s: it is started at each log-on, and again after a crash.\n", before.Manager)
			}
			for _, text := range changes {
				fmt.Fprintln(a.Stdout, text)
			}
			a.printInfo(info)
			return nil
		},
	}
}

// uninstallResult is what was taken away, in JSON.
type uninstallResult struct {
	Registered bool     `json:"registered"`      // always false
	Stopped    int      `json:"stopped_workers"` // missions that were ended
	Forgotten  []string `json:"forgotten"`       // what was removed from the keychain, by name
	InKeychain []string `json:"in_keychain"`     // what is still there and no longer known to Reeve, by name
	State      string   `json:"state_dir"`
	Kept       bool     `json:"state_kept"`
	Left       []string `json:"left"` // what is there that is not Reeve's to remove
	// Outlived are the processes of workers that go on, since no service could be
	// started that ends them.
	Outlived []string `json:"outlived"`
}

func (a *app) serviceUninstall() *cobra.Command {
	var stop, purge, keychain, yes bool
	c := &cobra.Command{
		Use: "uninstall", Short: "End the service and take its registration away",
		Long: "End the service and take its registration away. The journal and the transcripts are kept unless --purge is given, and what Reeve keeps in the keychain unless --purge-keychain is. " +
			"No checkout is touched. Missions that run are ended only with --stop-missions, or after asking on a terminal.",
		Example: "  reeve service uninstall\n  reeve service uninstall --stop-missions\n  reeve service uninstall --purge --yes",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context() // it may ask: then Ctrl-C ends the program at once
			state, err := sock.StateDir(a.Getenv)
			if err != nil {
				return err
			}
			before, err := a.look(ctx)
			if err != nil {
				return err
			}
			if before.Registered && !a.ours(before) {
				other, _ := a.stateOf(before)
				return &Failure{Exit: ExitRefused, What: "The registered service has another state: " + model.Path(other, a.Getenv("HOME")) + ".", Next: "Set REEVE_STATE to that, and try again."}
			}
			if purge && !yes {
				if !a.interactive() {
					return usage("Add --yes.", "--purge removes the journal and all transcripts in %s for good.", state)
				}
				if names, err := a.inKeychain(ctx); err == nil && len(names) > 0 && !keychain {
					fmt.Fprintln(a.human(), "In the keychain: "+strings.Join(names, ", ")+". Afterwards Reeve can't remove that; --purge-keychain does.")
				}
				if !a.yes("Remove the journal and all transcripts in " + model.Path(state, a.Getenv("HOME")) + " for good?") {
					return &Failure{Exit: ExitDenied, What: "Nothing was changed."}
				}
			}
			r := uninstallResult{State: state, Kept: true, Forgotten: []string{}, InKeychain: []string{}, Left: []string{}, Outlived: []string{}}
			if err = a.stopForGood(ctx, before, stop, keychain, purge, &r); err != nil {
				return err
			}
			if before.Registered {
				if err := a.Manager.Uninstall(ctx); err != nil {
					return fmt.Errorf("take the registration away: %w", err)
				}
			}
			if purge {
				left, err := a.PurgeState(state)
				if err != nil {
					return fmt.Errorf("the service is not registered any more, but its state is still there: %w", err)
				}
				r.Kept, r.Left = false, append(r.Left, left...)
			}
			r.Left = append(r.Left, before.Overrides...)
			if a.json {
				err = a.printJSON(r)
			} else {
				a.printUninstalled(before, r)
			}
			if err == nil && len(r.Outlived) > 0 {
				return &Failure{Exit: ExitFailed, What: outlived(r.Outlived) + ", since no service could be started that ends them.", Next: endThem}
			}
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&stop, "stop-missions", false, "end the missions that run")
	f.BoolVar(&purge, "purge", false, "remove the journal and all transcripts, too")
	f.BoolVar(&keychain, "purge-keychain", false, "remove what Reeve keeps in the keychain, too")
	f.BoolVar(&yes, "yes", false, "do not ask whether to remove the state")
	return c
}

func (a *app) printUninstalled(before Registration, r uninstallResult) {
	home := a.Getenv("HOME")
	if before.Registered {
		fmt.Fprintln(a.Stdout, "The service is no longer registered, and does not run.")
	} else {
		fmt.Fprintln(a.Stdout, "The service was not registered, and does not run.")
	}
	if r.Stopped > 0 {
		fmt.Fprintln(a.Stdout, model.Count(r.Stopped, "mission was", "missions were")+" stopped.")
	}
	if len(r.Forgotten) > 0 {
		fmt.Fprintln(a.Stdout, "Removed from the keychain: "+strings.Join(r.Forgotten, ", ")+".")
	}
	if len(r.InKeychain) > 0 {
		fmt.Fprintln(a.Stdout, "Still in the keychain: "+strings.Join(r.InKeychain, ", ")+". Reeve no longer knows of that; remove it with the passwords program of your desktop.")
	}
	if r.Kept {
		fmt.Fprintf(a.Stdout, "The journal and the transcripts are kept in %s.\n", model.Path(r.State, home))
	}
	for _, l := range r.Left {
		fmt.Fprintf(a.Stdout, "Left, since it is not Reeve's: %s\n", model.Path(l, home))
	}
}

// stopForGood ends the service and its missions, and before that removes what is
// in the keychain if that is asked for. A service that does not run is started
// first, since it alone knows what outlived it and what it keeps where.
func (a *app) stopForGood(ctx context.Context, reg Registration, stop, keychain, purge bool, done *uninstallResult) error {
	s, err := call[wire.Service](ctx, a, wire.MethodServiceStatus, nil)
	if errors.Is(err, client.ErrNotRunning) {
		if reg.active() {
			if err := a.Manager.Stop(ctx); err != nil {
				return err
			}
		}
		if !a.hasState() {
			return nil
		}
		if err := a.spawnService(ctx); err != nil {
			return a.withoutService(err, keychain, purge, done)
		}
		s, err = call[wire.Service](ctx, a, wire.MethodServiceStatus, nil)
	}
	if err != nil {
		return err
	}
	if s.Live > 0 && !stop {
		missions := model.Count(s.Live, "mission runs", "missions run")
		if !a.interactive() {
			return &Failure{Exit: ExitRefused, What: missions + ", and would be ended.", Next: "See `reeve ls`; then run `reeve service uninstall --stop-missions`."}
		}
		if !a.yes(missions + ". End them and uninstall?") {
			return &Failure{Exit: ExitDenied, What: "Nothing was changed."}
		}
	}
	switch {
	case keychain:
		if done.Forgotten, err = a.forgetCredentials(ctx); err != nil {
			return fmt.Errorf("remove what is in the keychain: %w", err)
		}
	case purge:
		if done.InKeychain, err = a.inKeychain(ctx); err != nil {
			return fmt.Errorf("see what stays in the keychain: %w", err)
		}
	}
	r, err := a.stopService(ctx, true)
	if done.Stopped = r.Stopped; err != nil {
		return err
	}
	if len(r.Left) > 0 {
		return &Failure{Exit: ExitFailed, What: "Could not be ended: " + model.Clean(strings.Join(r.Left, ", ")) + ".", Next: "The registration is as before."}
	}
	return nil
}

// endThem is what to do about workers that no service can end.
const endThem = "They end at their deadlines at the latest; who ends these processes ends all that they started."

func outlived(processes []string) string {
	return "Workers that outlived the service go on (" + strings.Join(processes, ", ") + ")"
}

// withoutService says what an uninstallation may still do when the service can't
// be started for it, because of err. What runs is never left without the state
// that tells how to end it.
func (a *app) withoutService(err error, keychain, purge bool, done *uninstallResult) error {
	var f *Failure
	if errors.As(err, &f) && f.Exit == ExitOwned {
		return err // another service has the state: it does run
	}
	if keychain {
		return fmt.Errorf("the service can't be started, and it alone knows what is in the keychain; leave --purge-keychain out, or mend this: %w", err)
	}
	live, lookErr := a.Outlived(done.State)
	switch {
	case lookErr != nil && purge:
		return lookErr
	case len(live) > 0 && purge:
		return &Failure{Exit: ExitRefused, What: outlived(live) + ", and the service can't be started to end them. " + sentence(err.Error()), Next: endThem + " Then try again."}
	}
	fmt.Fprintln(a.Stderr, "The service can't be started. "+sentence(err.Error()))
	if purge {
		fmt.Fprintln(a.Stderr, "What it kept in the keychain, if anything, is still there; look with the passwords program of your desktop.")
	}
	if lookErr != nil {
		fmt.Fprintln(a.Stderr, sentence(lookErr.Error()))
	}
	done.Outlived = append(done.Outlived, live...)
	return nil
}

// forgetCredentials removes from the keychain what the service keeps there.
func (a *app) forgetCredentials(ctx context.Context) ([]string, error) {
	gone := []string{}
	names, err := a.inKeychain(ctx)
	for _, name := range names {
		r, err := call[wire.CredentialListResult](ctx, a, wire.MethodCredentialRemove, wire.CredentialRemoveParams{Name: name})
		switch {
		case err != nil:
			return gone, fmt.Errorf("%s: %w", name, err)
		case r.Note != "":
			fmt.Fprintln(a.Stderr, oneLine(r.Note))
		default:
			gone = append(gone, name)
		}
	}
	return gone, err
}

// inKeychain names what the service keeps in the keychain.
func (a *app) inKeychain(ctx context.Context) ([]string, error) {
	names := []string{}
	r, err := call[wire.CredentialListResult](ctx, a, wire.MethodCredentialList, nil)
	for _, c := range r.Credentials {
		if c.In == wire.InKeychain {
			names = append(names, c.Name)
		}
	}
	return names, err
}

// hasState says whether there is a journal that could know of workers.
func (a *app) hasState() bool {
	dir, err := sock.StateDir(a.Getenv)
	if err != nil {
		return false
	}
	_, err = os.Stat(dir + string(os.PathSeparator) + "reeve.db")
	return err == nil
}

// yes asks on the terminal; nothing but yes is yes.
func (a *app) yes(question string) bool {
	fmt.Fprintf(a.human(), "%s [y/N] ", a.style.bold(question))
	// A key that was pressed before the question was shown answers nothing.
	if f, ok := a.Stdin.(*os.File); ok {
		flush(f)
	}
	line, err := bufio.NewReader(a.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return err == nil
	}
	return false
}

// serviceLaunch is what Windows runs at log-on.
func (a *app) serviceLaunch() *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use: "launch", Hidden: true, Args: noArgs, Short: "Start the service for who logs on (Windows)",
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Manager.Launch == nil {
				return usage("Use `reeve service start`.", "There is nothing to launch here.")
			}
			if remove {
				return a.Manager.RemoveLauncher()
			}
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			return a.Manager.Launch(ctx)
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "end the desktop beside this program and take the launcher of all users away, for an uninstaller")
	return c
}
