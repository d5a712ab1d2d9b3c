package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// prepareLimit bounds the preparation of an update, which undoes itself after
// 90 s.
const prepareLimit = 2 * time.Minute

// restartResult is what a restart did, in JSON. Update is null when no service
// ran.
type restartResult struct {
	Update  *wire.PrepareUpdateResult `json:"update"`
	Service serviceInfo               `json:"service"`
}

func (a *app) serviceRestart() *cobra.Command {
	return &cobra.Command{
		Use: "restart", Short: "Restart the service, as after an update of Reeve",
		Long: "Restart the service with this program, as after an update of Reeve. Workers and their turns go on, and the new service takes them over. " +
			"A worker that is too old for this program is ended after its turn, and its mission goes on by itself. Interrupting this command undoes all of it.",
		Example: "  reeve service restart\n  reeve service restart --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			prepared, err := a.replaceService(ctx)
			if errors.Is(err, client.ErrNotRunning) {
				a.step("The service did not run.")
				err = nil
			}
			if stranger(err) {
				err = a.stopStranger(ctx, err)
			}
			if err != nil {
				return err
			}
			if err := a.succeed(ctx); err != nil {
				return err
			}
			s, err := call[wire.Service](ctx, a, wire.MethodServiceStatus, nil)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(restartResult{prepared, a.describe(ctx, &s)})
			}
			return a.printService(ctx, s)
		},
	}
}

// replaceService brings the running service to its end. The update is this
// connection's: should this program end before the commit, nothing happened.
func (a *app) replaceService(ctx context.Context) (*wire.PrepareUpdateResult, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	c, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	a.step("Preparing the service for its end.")
	p, err := client.Do[wire.PrepareUpdateResult](ctx, c, wire.MethodServicePrepareUpdate, wire.PrepareUpdateParams{OldestGuard: a.OldestGuard})
	if wire.CodeOf(err) == wire.CodeUnsupportedMethod {
		return nil, &Failure{Exit: ExitRefused, What: "The service that runs is of an earlier Reeve, which can't prepare an update.",
			Next: "Run `reeve service stop`, then `reeve service start`; workers and their turns go on meanwhile."}
	}
	if err != nil {
		return nil, err
	}
	a.step("Prepared: " + preparedText(p) + ".")
	for _, l := range p.Left {
		a.step(model.Clean(l))
	}
	if _, err := client.Do[wire.UpdateResult](ctx, c, wire.MethodServiceCommitUpdate, nil); err != nil {
		return nil, err
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the service to end: %w", ctx.Err())
	}
	a.step("The service has ended. Starting it anew.")
	return &p, nil
}

// endLimit is how long a service may take from its last word until it has let
// go of the state.
const endLimit = 10 * time.Second

// succeed starts the next service, as soon as the last one has let go.
func (a *app) succeed(ctx context.Context) error {
	ending, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	for {
		err := a.bringUp(ctx)
		var f *Failure
		if !errors.As(err, &f) || f.Exit != ExitOwned || ending.Err() != nil {
			return err
		}
	}
}

// step tells a person how far it is.
func (a *app) step(text string) {
	if !a.json {
		fmt.Fprintln(a.Stdout, text)
	}
}

func preparedText(p wire.PrepareUpdateResult) string {
	var parts []string
	add := func(n int, one, many string) {
		if n > 0 {
			parts = append(parts, model.Count(n, one, many))
		}
	}
	add(p.GoOn, "worker goes on", "workers go on")
	add(p.Finished, "finished its turn first", "finished their turns first")
	add(p.Interrupted, "was interrupted and will go on by itself", "were interrupted and will go on by themselves")
	add(p.Idle, "idle worker was ended", "idle workers were ended")
	if len(parts) == 0 {
		return "no worker runs"
	}
	return strings.Join(parts, ", ")
}
