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
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// startLimit is how long a service may take until it answers.
const startLimit = 15 * time.Second

func (a *app) serviceStart() *cobra.Command {
	return &cobra.Command{
		Use: "start", Short: "Start the service in the background",
		Long:    "Start the service in the background and wait until it answers: by the system's service manager where it is registered there, else in a session of its own. Nothing happens when it runs already.",
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
				return a.printService(ctx, s)
			case !errors.Is(err, client.ErrNotRunning):
				return err
			}
			if err := a.bringUp(ctx); err != nil {
				return err
			}
			if s, err = call[wire.Service](ctx, a, wire.MethodServiceStatus, nil); err != nil {
				return err
			}
			return a.printService(ctx, s)
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
	return a.awaitAnswer(ctx, func() error {
		if code, ended := exited(cmd.Process); ended {
			return startFailure(said, code)
		}
		return nil
	})
}

// awaitAnswer returns when the service answers, or with the first error of
// ended, which is asked now and then whether it came to an end instead.
func (a *app) awaitAnswer(ctx context.Context, ended func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		c, err := a.dial(ctx)
		if err == nil {
			c.Close()
			return nil
		}
		if ctx.Err() != nil {
			return &Failure{Exit: ExitTimedOut, What: "The service was started but does not answer.", Next: "Look at its log with `reeve service logs`."}
		}
		if !errors.Is(err, client.ErrNotRunning) {
			return err
		}
		if err := ended(); err != nil {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// bringUp starts the service, which must not run, and returns when it answers:
// by the manager where it is registered.
func (a *app) bringUp(ctx context.Context) error {
	if _, ours := a.registered(ctx); ctx.Err() != nil {
		return ctx.Err() // it was not looked at: a service beside the manager's would be wrong
	} else if !ours {
		return a.spawnService(ctx)
	}
	if err := a.Manager.Start(ctx); err != nil {
		return a.managedFailure(ctx, err)
	}
	return a.awaitAnswer(ctx, func() error {
		r, err := a.look(ctx)
		switch {
		case err != nil:
			return err
		case r.State == "failed":
			return a.managedFailure(ctx, errors.New("it ended in error"))
		case r.State == "stopped" && r.Manager != "windows":
			// What the manager took for running was the end of the last one.
			return a.Manager.Start(ctx)
		}
		return nil
	})
}

// managedFailure passes on what a service said to its manager that ended at
// once.
func (a *app) managedFailure(ctx context.Context, err error) error {
	r, wrong := a.look(ctx)
	if wrong != nil || r.Exit == 0 && r.Said == "" {
		return fmt.Errorf("start the service: %w", err)
	}
	f := &Failure{Exit: r.Exit, What: "The service ended at once.", Next: "See `reeve service logs`, or run `reeve service run` to see why."}
	if f.Exit <= 0 || f.Exit > ExitOwned {
		f.Exit = ExitFailed
	}
	if r.Said != "" {
		f.Next = sentence(model.Clean(r.Said))
	}
	return f
}

// pause waits for a moment before the next look at something.
func pause(ctx context.Context) error {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
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
