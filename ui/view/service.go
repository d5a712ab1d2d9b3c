package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// serviceControl starts and stops the service, one thing at a time. busy and
// problem are shown where the buttons are.
type serviceControl struct {
	busy    string // "Starting the service"
	problem string
}

// startLimit is how long the command that starts the service may take.
const startLimit = 30 * time.Second

func (s *serviceControl) connected() { s.problem = "" }

// start runs `reeve service start`, which leaves the service running on its own.
func (s *serviceControl) start(d *desk) {
	s.run(d, "Starting the service", func(ctx context.Context) error { return d.reeve(ctx, "service", "start") })
}

// restart ends the service and starts it again. Work goes on in between.
func (s *serviceControl) restart(d *desk) {
	s.run(d, "Restarting the service", func(ctx context.Context) error {
		if err := d.reeve(ctx, "service", "stop"); err != nil {
			return err
		}
		return d.reeve(ctx, "service", "start")
	})
}

// stop asks the service to end; workers go on under their guards.
func (s *serviceControl) stop(d *desk) {
	s.run(d, "Stopping the service", func(ctx context.Context) error {
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
		s.busy, s.problem = "", sentence(err)
		if err != nil {
			d.notifier.send(model.Note{Title: what + " did not work", Body: s.problem, Do: model.DoOpen})
		}
		d.changed()
	})
	d.changed()
}

// reeve runs the command line program beside this one and returns what it said
// when it fails.
func (d *desk) reeve(ctx context.Context, args ...string) error {
	if d.o.Reeve == "" {
		return errors.New("the program reeve was not found beside this one or on the PATH; install both from one package")
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, d.o.Reeve, args...)
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
