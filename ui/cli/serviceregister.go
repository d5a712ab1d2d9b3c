package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// Manager is the system's own service manager, as the program hands it in.
// Without Look there is none.
type Manager struct {
	Look      func(context.Context) (Registration, error)
	Install   func(context.Context, Unit) error
	Uninstall func(context.Context) error
	Start     func(context.Context) error
	Stop      func(context.Context) error
	// Launch and RemoveLauncher are the launcher of Windows, and taking it away
	// from all users, as the program's own uninstaller does.
	Launch         func(context.Context) error
	RemoveLauncher func() error
}

// Unit is what the manager is told to run.
type Unit struct {
	Exe  string
	Args []string
	Env  map[string]string
}

// Registration is how the service stands with the manager. Its fields are those
// of the type of this name in service/osservice, which says what they mean.
type Registration struct {
	Manager    string
	Why, Fix   string
	Registered bool
	File       string
	Exe        string
	Args       []string
	Env        map[string]string
	Edited     bool
	Overrides  []string
	AtLogon    bool
	State      string
	PID        int
	Restarts   int
	GaveUp     bool
	Exit       int
	Said       string
}

// active says that the manager has a process of the service, or starts one.
func (r Registration) active() bool {
	return r.State == "starting" || r.State == "running" || r.State == "stopping"
}

func (a *app) look(ctx context.Context) (Registration, error) {
	if a.Manager.Look == nil {
		return Registration{State: "stopped", Why: "This program knows no service manager.", Fix: "Start the service with `reeve service start`."}, nil
	}
	r, err := a.Manager.Look(ctx)
	if err != nil {
		return r, fmt.Errorf("ask the system's service manager: %w", err)
	}
	return r, nil
}

// registered is the registration if it can be used and is for this state.
func (a *app) registered(ctx context.Context) (Registration, bool) {
	r, err := a.look(ctx)
	return r, err == nil && r.Registered && r.Manager != "" && a.ours(r)
}

// ours says whether what is registered serves the state of this command.
func (a *app) ours(r Registration) bool {
	mine, err := sock.StateDir(a.Getenv)
	its, wrong := a.stateOf(r)
	return err == nil && wrong == nil && mine == its
}

// stateOf is the state that the registered service would have.
func (a *app) stateOf(r Registration) (string, error) {
	return sock.StateDir(func(name string) string {
		switch name {
		case "REEVE_STATE", "XDG_STATE_HOME":
			return r.Env[name]
		}
		return a.Getenv(name)
	})
}

// unit is what this command would register: this program, and where its state
// is if that is not the usual place.
func (a *app) unit() (Unit, error) {
	u := Unit{Exe: a.Exe, Args: []string{"service", "run"}}
	// A package may keep the program elsewhere for each version; then the name
	// on the PATH is what stays.
	if named, err := exec.LookPath(filepath.Base(a.Exe)); err == nil && filepath.IsAbs(named) && sameFile(named, a.Exe) {
		u.Exe = named
	}
	state, err := sock.StateDir(a.Getenv)
	if err != nil {
		return u, err
	}
	switch {
	case a.Getenv("REEVE_STATE") != "":
		u.Env = map[string]string{"REEVE_STATE": state}
	case filepath.Dir(state) == a.Getenv("XDG_STATE_HOME"):
		u.Env = map[string]string{"XDG_STATE_HOME": filepath.Dir(state)}
	}
	return u, nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// registrationChanges are sentences about what registering u changes.
func (a *app) registrationChanges(old Registration, u Unit) []string {
	if !old.Registered {
		return nil
	}
	var out []string
	home := a.Getenv("HOME")
	say := func(what, was, is string) {
		if was != is {
			out = append(out, fmt.Sprintf("%s was %s and is now %s.", what, model.Path(was, home), model.Path(is, home)))
		}
	}
	say("The program", old.Exe, u.Exe)
	was, err := a.stateOf(old)
	is, wrong := a.stateOf(Registration{Env: u.Env})
	if err == nil && wrong == nil {
		say("The state", was, is)
	}
	switch {
	case old.Edited:
		out = append(out, model.Path(old.File, home)+" had been edited by hand, which is undone.")
	case len(out) == 0 && (!slices.Equal(old.Args, u.Args) || !maps.Equal(old.Env, u.Env)):
		out = append(out, "The registration is written anew.")
	}
	if !old.AtLogon {
		out = append(out, "It was not started at log-on, and is now.")
	}
	return out
}

// registrationChecks says how the registration stands, and of each problem what
// to do. s is the service that answers, nil when none does.
func (a *app) registrationChecks(r Registration, s *wire.Service) []wire.Check {
	home := a.Getenv("HOME")
	file, exe := model.Path(r.File, home), model.Path(r.Exe, home)
	one := func(ok bool, fix, format string, args ...any) wire.Check {
		return wire.Check{Name: "registration", OK: ok, Message: fmt.Sprintf(format, args...), Fix: fix}
	}
	if !r.Registered {
		if r.Manager == "" {
			return []wire.Check{one(true, r.Fix, "The service is not started at log-on: %s", r.Why)}
		}
		return []wire.Check{one(true, "To have it started at log-on and after a crash, run `reeve service install`.", "The service is not registered with %s: it runs when somebody starts it.", r.Manager)}
	}
	if r.Manager == "" {
		return []wire.Check{one(false, r.Fix, "The service is registered in %s, but nobody looks after it. %s", file, r.Why)}
	}
	if !a.ours(r) {
		state, _ := a.stateOf(r)
		return []wire.Check{one(true, "`reeve service install` registers this one instead.", "The service that %s starts has another state: %s.", r.Manager, model.Path(state, home))}
	}
	var out []wire.Check
	add := func(ok bool, fix, format string, args ...any) { out = append(out, one(ok, fix, format, args...)) }
	if _, err := os.Stat(r.Exe); err != nil {
		add(false, "Run `reeve service install` with the reeve that is there now.", "The program that is registered is gone: %s.", exe)
	} else if !sameFile(r.Exe, a.Exe) {
		add(false, "To change that, run `reeve service install`.", "%s is registered, and this is %s.", exe, model.Path(a.Exe, home))
	}
	if r.Edited {
		add(false, "`reeve service install` writes it anew. On systemd, `systemctl --user edit reeve` makes changes that stay.", "%s was edited by hand.", file)
	}
	if len(r.Overrides) > 0 {
		add(true, "", "The registration is changed by %s.", strings.Join(r.Overrides, ", "))
	}
	if !r.AtLogon {
		add(false, "Run `reeve service install`.", "The service is registered but not started at log-on.")
	}
	said := ""
	if r.Said != "" {
		said = " It said: " + sentence(r.Said)
	}
	switch {
	case s != nil && r.PID != s.PID && r.Manager != "windows":
		add(false, "`reeve service restart` hands it over; missions go on.", "The service that runs was started by hand, so %s does not start it again after a crash.", r.Manager)
	case s != nil:
	case r.GaveUp:
		add(false, "See `reeve service logs`; then `reeve service start` tries it again.", "%s gave the service up, because it ended in error again and again.%s", r.Manager, said)
	case r.State == "failed":
		add(false, "See `reeve service logs`; then `reeve service start` tries it again.", "The service ended in error (exit code %d).%s", r.Exit, said)
	case r.State == "starting":
		add(false, "Wait a moment; if that lasts, see `reeve service logs`.", "%s starts the service; it does not answer yet.%s", r.Manager, said)
	case r.State == "running":
		add(false, "See `reeve service logs`; then `reeve service stop` and `reeve service start`.", "%s runs the service with pid %d, but it does not answer.", r.Manager, r.PID)
	}
	if len(out) == 0 {
		add(true, "", "%s starts the service at log-on and after a crash.", r.Manager)
	}
	return out
}

// stopRegistered ends a service that does not answer but that the manager has,
// or is about to start again. did says whether there was one.
func (a *app) stopRegistered(ctx context.Context) (did bool, err error) {
	r, ours := a.registered(ctx)
	if !ours || !r.active() {
		return false, nil
	}
	if err := a.Manager.Stop(ctx); err != nil {
		return true, err
	}
	return true, a.awaitStopped(ctx)
}

// stranger says that the service that runs speaks no protocol of this program.
func stranger(err error) bool {
	var mismatch *client.MismatchError
	return errors.As(err, &mismatch)
}

// stopStranger has the manager end a service that can't be asked to. Where the
// manager has none, mismatch stands.
func (a *app) stopStranger(ctx context.Context, mismatch error) error {
	did, err := a.stopRegistered(ctx)
	if err != nil || did {
		return err
	}
	return mismatch
}

// awaitStopped waits until the manager has seen the end of the service, so that
// whoever starts it next is not taken for its ghost.
func (a *app) awaitStopped(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	for {
		r, ours := a.registered(ctx)
		if !ours || !r.active() || r.PID == 0 {
			return nil
		}
		if err := pause(ctx); err != nil {
			return errors.New("the service ended its connections, but not itself")
		}
	}
}
