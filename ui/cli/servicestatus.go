package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// serviceInfo is the service in JSON, running or not.
type serviceInfo struct {
	Registered bool `json:"registered"` // with the system's own service manager
	Running    bool `json:"running"`
	wire.Service
	StartedAt *time.Time   `json:"started_at"` // null when it does not run
	Manager   string       `json:"manager"`    // systemd, launchd or windows; "" where there is none
	AtLogon   bool         `json:"at_logon"`
	Restarts  int          `json:"restarts"` // by the manager, since it was started
	Checks    []wire.Check `json:"checks"`   // how the registration stands, what a logout ends, and what to do
}

type serviceResult struct {
	Service serviceInfo `json:"service"`
}

func (a *app) serviceStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Tell whether the service runs and how it is registered",
		Long:    "Tell whether the service runs, since when and with which state, how it is registered with the system, what a logout ends, and what to do about each problem. Exits with 3 when it does not run.",
		Example: "  reeve service status\n  reeve service status --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			info, err := a.serviceInfo(c.Context())
			if err != nil {
				return err
			}
			if !a.json {
				if info.Running {
					a.printInfo(info)
					return nil
				}
				a.printRegistration(a.Stderr, info)
				return client.ErrNotRunning
			}
			if err := a.printJSON(serviceResult{info}); err != nil || info.Running {
				return err
			}
			return &Failure{Exit: ExitUnreachable}
		},
	}
}

// serviceInfo asks the service and the manager. A service that does not run is
// no error.
func (a *app) serviceInfo(ctx context.Context) (serviceInfo, error) {
	s, err := call[wire.Service](ctx, a, wire.MethodServiceStatus, nil)
	if errors.Is(err, client.ErrNotRunning) {
		return a.describe(ctx, nil), nil
	}
	if err != nil {
		return serviceInfo{}, err
	}
	return a.describe(ctx, &s), nil
}

// describe adds to the service, nil when none runs, what the system knows of it.
func (a *app) describe(ctx context.Context, s *wire.Service) serviceInfo {
	info := serviceInfo{Running: s != nil}
	if s != nil {
		info.Service, info.StartedAt = *s, &s.StartedAt
	} else {
		info.State = "stopped"
		info.Socket, _ = sock.Path(a.Getenv)
		info.StateDir, _ = sock.StateDir(a.Getenv)
	}
	if c, ok := a.lingers(); ok {
		info.Checks = append(info.Checks, c)
	}
	r, err := a.look(ctx)
	if err != nil {
		info.Checks = append(info.Checks, wire.Check{Name: "registration", Message: sentence(err.Error()), Fix: "Run `reeve service status` again in a moment."})
		return info
	}
	info.Manager, info.Checks = r.Manager, append(a.registrationChecks(r, s), info.Checks...)
	if s != nil && s.Version != a.Version {
		info.Checks = append(info.Checks, a.versionCheck(s.Version))
	}
	if r.Registered && a.ours(r) {
		info.Registered, info.AtLogon, info.Restarts = true, r.AtLogon, r.Restarts
	}
	return info
}

// versionCheck is about a service that is not of this program's version.
func (a *app) versionCheck(its string) wire.Check {
	return wire.Check{Name: "version", Message: fmt.Sprintf("The service is version %s and this program is %s.", its, a.Version), Fix: "Run `reeve service restart`; missions go on."}
}

// printInfo prints a service that runs.
func (a *app) printInfo(info serviceInfo) {
	s, now, home := info.Service, a.Now(), a.Getenv("HOME")
	fmt.Fprintf(a.Stdout, "%s  %s · generation %d · pid %d · since %s\n", a.style.done("Service "+model.Clean(s.State)), model.Clean(s.Version), s.Generation, s.PID, model.Clock(s.StartedAt, now))
	fmt.Fprintf(a.Stdout, "%s, %s\n", model.Count(s.Live, "live mission", "live missions"), model.Count(s.Pending, "approval waits for you", "approvals wait for you"))
	fmt.Fprintf(a.Stdout, "Socket %s\nState  %s\n", model.Path(s.Socket, home), model.Path(s.StateDir, home))
	if s.Refusals > 0 && s.LastRefusal != nil {
		fmt.Fprintf(a.Stdout, "%s\n", a.style.wrong(fmt.Sprintf("Workers were refused %d times; last: %s", s.Refusals, model.RefusalText(*s.LastRefusal))))
	}
	for _, n := range s.Notes {
		fmt.Fprintln(a.Stdout, model.Clean(n))
	}
	a.printRegistration(a.Stdout, info)
}

func (a *app) printRegistration(w io.Writer, info serviceInfo) {
	if info.Restarts > 0 {
		fmt.Fprintf(w, "%s started it again %s.\n", model.Clean(info.Manager), model.Count(info.Restarts, "time", "times"))
	}
	for _, c := range info.Checks {
		text := oneLine(c.Message)
		if !c.OK {
			text = a.style.needs("▲ " + text)
		}
		fmt.Fprintln(w, text)
		if c.Fix != "" {
			fmt.Fprintln(w, a.style.quiet("  "+oneLine(c.Fix)))
		}
	}
}

// printService prints a service that runs, or its JSON.
func (a *app) printService(ctx context.Context, s wire.Service) error {
	info := a.describe(ctx, &s)
	if a.json {
		return a.printJSON(serviceResult{info})
	}
	a.printInfo(info)
	return nil
}
