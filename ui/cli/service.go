package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) service() *cobra.Command {
	c := &cobra.Command{
		Use: "service", Short: "Run, register, start, stop and look at the service",
		Long:    "The service runs missions in the background. Agents and their turns outlive it. Registered with the system, it is started at each log-on and again after a crash.",
		Example: "  reeve service install\n  reeve service start\n  reeve service status\n  reeve service restart\n  reeve service stop --workers\n  reeve service logs\n  reeve service uninstall",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.serviceRun(), a.serviceInstall(), a.serviceUninstall(), a.serviceStart(), a.serviceStop(), a.serviceRestart(), a.serviceStatus(), a.serviceLogs(), a.serviceLaunch())
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

func (a *app) serviceStop() *cobra.Command {
	var workers bool
	c := &cobra.Command{
		Use: "stop", Short: "End the service",
		Long:    "End the service. Turns that are under way go on in their guards; --workers ends every mission, too. A registered service is started again at the next log-on.",
		Example: "  reeve service stop\n  reeve service stop --workers",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := a.stopService(c.Context(), workers)
			none := errors.Is(err, client.ErrNotRunning) && !workers
			if none {
				_, err = a.stopRegistered(c.Context())
			}
			if stranger(err) && !workers {
				err = a.stopStranger(c.Context(), err)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			text := "The service has ended."
			if none {
				text = "The service does not run."
			}
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
		return r, a.awaitStopped(ctx)
	case <-ctx.Done():
		return r, fmt.Errorf("wait for the service to end: %w", ctx.Err())
	}
}
