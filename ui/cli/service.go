package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) service() *cobra.Command {
	c := &cobra.Command{
		Use: "service", Short: "Run, start, stop and look at the service",
		Long:    "The service runs missions in the background. Agents and their turns outlive it.",
		Example: "  reeve service start\n  reeve service status\n  reeve service stop --workers\n  reeve service logs",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.serviceRun(), a.serviceStart(), a.serviceStop(), a.serviceStatus(), a.serviceLogs())
	return c
}

func (a *app) serviceRun() *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Run the service in the foreground",
		Long:    "Run the service in the foreground until Ctrl-C, SIGTERM or `reeve service stop`. Its log is printed on standard error and kept in the state directory.",
		Example: "  reeve service run\n  REEVE_STATE=/tmp/reeve-trial reeve service run",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			state, err := sock.StateDir(a.Getenv)
			if err != nil {
				return err
			}
			path, err := sock.Path(a.Getenv)
			if err != nil {
				return err
			}
			return a.Serve(ctx, ServeOptions{StateDir: state, Socket: path, Log: a.Stderr})
		},
	}
}

// serviceInfo is the service in JSON, running or not.
type serviceInfo struct {
	Registered bool `json:"registered"` // with the system's own service manager
	Running    bool `json:"running"`
	wire.Service
	StartedAt *time.Time `json:"started_at"` // null when it does not run
}

type serviceResult struct {
	Service serviceInfo `json:"service"`
}

func (a *app) serviceStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Tell whether the service runs",
		Long:    "Tell whether the service runs, since when and with which state. Exits with 3 when it does not.",
		Example: "  reeve service status\n  reeve service status --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := call[wire.Service](c.Context(), a, wire.MethodServiceStatus, nil)
			if errors.Is(err, client.ErrNotRunning) && a.json {
				info := serviceInfo{}
				info.State = "stopped"
				info.Socket, _ = sock.Path(a.Getenv)
				info.StateDir, _ = sock.StateDir(a.Getenv)
				if err := a.printJSON(serviceResult{info}); err != nil {
					return err
				}
				return &Failure{Exit: ExitUnreachable}
			}
			if err != nil {
				return err
			}
			return a.printService(s)
		},
	}
}

func (a *app) printService(s wire.Service) error {
	if a.json {
		return a.printJSON(serviceResult{serviceInfo{Running: true, Service: s, StartedAt: &s.StartedAt}})
	}
	now := a.Now()
	home := a.Getenv("HOME")
	fmt.Fprintf(a.Stdout, "%s  %s · generation %d · pid %d · since %s\n", a.style.done("Service "+model.Clean(s.State)), model.Clean(s.Version), s.Generation, s.PID, model.Clock(s.StartedAt, now))
	fmt.Fprintf(a.Stdout, "%s, %s\n", model.Count(s.Live, "live mission", "live missions"), model.Count(s.Pending, "approval waits for you", "approvals wait for you"))
	fmt.Fprintf(a.Stdout, "Socket %s\nState  %s\n", model.Path(s.Socket, home), model.Path(s.StateDir, home))
	if s.Refusals > 0 && s.LastRefusal != nil {
		fmt.Fprintf(a.Stdout, "%s\n", a.style.wrong(fmt.Sprintf("Workers were refused %d times; last: %s", s.Refusals, model.RefusalText(*s.LastRefusal))))
	}
	for _, n := range s.Notes {
		fmt.Fprintln(a.Stdout, model.Clean(n))
	}
	return nil
}

func (a *app) serviceStop() *cobra.Command {
	var workers bool
	c := &cobra.Command{
		Use: "stop", Short: "End the service",
		Long:    "End the service. Turns that are under way go on in their guards; --workers ends every mission, too.",
		Example: "  reeve service stop\n  reeve service stop --workers",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := a.stopService(c.Context(), workers)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			text := "The service has ended."
			if r.Stopped > 0 {
				text += " " + model.Count(r.Stopped, "mission was", "missions were") + " stopped."
			}
			if r.GoingOn > 0 {
				text += " " + model.Count(r.GoingOn, "worker goes", "workers go") + " on."
			}
			fmt.Fprintln(a.Stdout, text)
			if len(r.Left) > 0 {
				return &Failure{Exit: ExitFailed, What: "Could not be ended: " + model.Clean(strings.Join(r.Left, ", ")) + "."}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&workers, "workers", false, "end every mission, too")
	return c
}

// stopService asks the service to end and waits until its connection does.
func (a *app) stopService(ctx context.Context, workers bool) (wire.ServiceStopResult, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c, err := a.dial(ctx)
	if err != nil {
		return wire.ServiceStopResult{}, err
	}
	defer c.Close()
	r, err := client.Do[wire.ServiceStopResult](ctx, c, wire.MethodServiceStop, wire.ServiceStopParams{Workers: workers})
	if err != nil {
		return r, err
	}
	select {
	case <-c.Done():
		return r, nil
	case <-ctx.Done():
		return r, fmt.Errorf("wait for the service to end: %w", ctx.Err())
	}
}

// startLimit is how long a service may take until it answers.
const startLimit = 15 * time.Second

func (a *app) serviceStart() *cobra.Command {
	return &cobra.Command{
		Use: "start", Short: "Start the service in the background",
		Long:    "Start the service in the background, in a session of its own, and wait until it answers. Nothing happens when it runs already.",
		Example: "  reeve service start",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			s, err := call[wire.Service](ctx, a, wire.MethodServiceStatus, nil)
			switch {
			case err == nil:
				if !a.json {
					fmt.Fprintln(a.Stdout, "The service runs already.")
				}
				return a.printService(s)
			case !errors.Is(err, client.ErrNotRunning):
				return err
			}
			if err := a.spawnService(ctx); err != nil {
				return err
			}
			if s, err = call[wire.Service](ctx, a, wire.MethodServiceStatus, nil); err != nil {
				return err
			}
			return a.printService(s)
		},
	}
}

// spawnService starts the service detached from this terminal and returns when
// its socket answers. What it says before that goes through a file, not a pipe,
// so that it never depends on this program.
func (a *app) spawnService(ctx context.Context) error {
	said, err := os.CreateTemp("", "reeve-start-")
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	defer func() {
		_ = said.Close()
		_ = os.Remove(said.Name())
	}()
	cmd := exec.Command(a.Exe, "service", "run")
	cmd.Stderr = said
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	defer func() { _ = cmd.Process.Release() }()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		c, err := a.dial(ctx)
		if err == nil {
			c.Close()
			return nil
		}
		if ctx.Err() != nil {
			return &Failure{Exit: ExitTimedOut, What: fmt.Sprintf("The service (pid %d) was started but does not answer.", cmd.Process.Pid),
				Next: "Look at its log with `reeve service logs`."}
		}
		if !errors.Is(err, client.ErrNotRunning) {
			return err
		}
		if code, ended := exited(cmd.Process); ended {
			return startFailure(said, code)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// startFailure passes on what a service said that ended at once.
func startFailure(said *os.File, code int) error {
	text, _ := io.ReadAll(io.NewSectionReader(said, 0, 64<<10))
	last := ""
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	if code <= 0 || code > ExitOwned {
		code = ExitFailed
	}
	if last == "" {
		last = "Run `reeve service run` to see why."
	}
	return &Failure{Exit: code, What: "The service ended at once.", Next: strings.TrimPrefix(model.Clean(last), "reeve: ")}
}
