package view

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
)

// serviceControl registers, starts and stops the service, one thing at a time.
// busy and problem are shown where the buttons are.
type serviceControl struct {
	busy    string // "Starting the service"
	problem string
	starts  string // what has the service started; "" while that is not known
	logon   bool   // it is started at log-on
	asked   bool   // starts is known, or being asked for
}

// startLimit is how long a command that starts the service may take; a restart
// waits for turns.
const startLimit = 2 * time.Minute

func (s *serviceControl) connected() { s.problem, s.asked = "", false }

// start runs `reeve service start`, which leaves the service running on its own.
func (s *serviceControl) start(d *desk) {
	s.run(d, say.T("Starting the service"), func(ctx context.Context) error { return d.reeve(ctx, "service", "start") })
}

// install registers the service with the system, which starts it at each log-on
// and now.
func (s *serviceControl) install(d *desk) {
	s.run(d, say.T("Registering the service"), func(ctx context.Context) error { return d.reeve(ctx, "service", "install") })
}

// restart ends the service and starts it again, as after an update. Work goes on
// in between.
func (s *serviceControl) restart(d *desk) {
	s.run(d, say.T("Restarting the service"), func(ctx context.Context) error { return d.reeve(ctx, "service", "restart") })
}

// look finds out what starts the service, once, and again after each change.
func (s *serviceControl) look(d *desk) {
	if s.asked || d.o.Reeve == "" {
		return
	}
	s.asked = true
	task(d, func(ctx context.Context) (registration, error) { return readRegistration(ctx, d.o.Reeve) }, func(r registration, err error) {
		s.starts, s.logon = "", err == nil && r.AtLogon
		d.st.Unmanaged = err == nil && r.Manager == ""
		switch {
		case err != nil: // an older program beside this one, say: nothing is claimed
		case r.AtLogon:
			s.starts = say.T("at log-on and after a crash, by %s", r.Manager)
		case r.Manager == "":
			s.starts = say.T("when somebody starts it; this system has no service manager for it")
		default:
			s.starts = say.T("when somebody starts it")
		}
		d.changed()
	})
}

// registration is what this program reads of `reeve service status --json`.
type registration struct {
	Manager string `json:"manager"`
	AtLogon bool   `json:"at_logon"`
}

func readRegistration(ctx context.Context, reeve string) (registration, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, reeve, "service", "status", "--json")
	hide(cmd)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output() // a service that does not run is an exit code, and described all the same
	var r struct {
		Service *registration `json:"service"`
	}
	if wrong := json.Unmarshal(out, &r); wrong != nil || r.Service == nil {
		return registration{}, errors.Join(err, wrong, errors.New("reeve service status says nothing of the service"))
	}
	return *r.Service, nil
}

// stop asks the service to end; workers go on under their guards.
func (s *serviceControl) stop(d *desk) {
	s.run(d, say.T("Stopping the service"), func(ctx context.Context) error {
		var r wire.ServiceStopResult
		return d.call(ctx, wire.MethodServiceStop, wire.ServiceStopParams{}, &r)
	})
}

func (s *serviceControl) run(d *desk, what string, f func(context.Context) error) {
	if s.busy != "" {
		return
	}
	s.busy, s.problem = what, ""
	task(d, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, func(_ struct{}, err error) {
		s.busy, s.problem, s.asked = "", sentence(err), false
		if err != nil {
			d.notifier.send(model.Note{Title: say.T("%s did not work", what), Body: s.problem, Do: model.DoOpen})
		}
		d.changed()
	})
	d.changed()
}

// reeve runs the command line program beside this one and returns what it said
// when it fails.
func (d *desk) reeve(ctx context.Context, args ...string) error {
	if d.o.Reeve == "" {
		return errors.New(say.T("the program reeve was not found beside this one or on the PATH; install both from one package"))
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, d.o.Reeve, args...)
	hide(cmd)
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // the service may keep the pipe
		return nil
	}
	if text := lastLine(said.String()); text != "" {
		return errors.New(strings.TrimPrefix(text, "reeve: "))
	}
	return fmt.Errorf("run reeve %s: %w", strings.Join(args, " "), err)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(model.Clean(s)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
