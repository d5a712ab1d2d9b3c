package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check everything and say what to do",
		Long:    "Check the state directory, the socket, the service, the agents and the desktop session. It changes nothing. Exits with 1 when something is wrong.",
		Example: "  reeve doctor\n  reeve doctor --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r := wire.CheckResult{Checks: a.checks(c.Context())}
			wrong := 0
			for _, ch := range r.Checks {
				if !ch.OK {
					wrong++
				}
			}
			if a.json {
				if err := a.printJSON(r); err != nil {
					return err
				}
			} else {
				a.printChecks(r.Checks)
			}
			if wrong > 0 {
				return &Failure{Exit: ExitFailed, What: model.Count(wrong, "thing needs", "things need") + " to be mended; see above."}
			}
			return nil
		},
	}
}

// printChecks marks what is well, what is wrong, and with a dash what is neither:
// nothing has to be mended, but something more could be had.
func (a *app) printChecks(checks []wire.Check) {
	width := 18
	for _, c := range checks {
		width = max(width, columns(model.Clean(c.Name)))
	}
	for _, c := range checks {
		mark := a.style.done("✓")
		switch {
		case !c.OK:
			mark = a.style.wrong("✕")
		case c.Fix != "":
			mark = a.style.quiet("–")
		}
		name := model.Clean(c.Name)
		fmt.Fprintf(a.Stdout, "%s %s  %s\n", mark, a.style.bold(name)+strings.Repeat(" ", width-columns(name)), oneLine(c.Message))
		if c.Fix != "" {
			fmt.Fprintf(a.Stdout, "  %*s  %s\n", width, "", a.style.quiet(oneLine(c.Fix)))
		}
	}
}

// checks are this program's own and, where it runs, the service's.
func (a *app) checks(ctx context.Context) []wire.Check {
	var out []wire.Check
	add := func(name string, err error, fine, fix string) {
		c := wire.Check{Name: name, OK: err == nil, Message: fine}
		if err != nil {
			c.Message, c.Fix = sentence(err.Error()), fix
		}
		out = append(out, c)
	}
	path, err := sock.Path(a.Getenv)
	add("socket path", err, path, "Set HOME, or REEVE_STATE to an absolute path.")
	if err != nil {
		return out
	}
	_, err = exec.LookPath("git")
	add("git", err, "Git was found.", "Install git and make sure that it is on your PATH.")
	out = append(out, a.display())
	if c, ok := a.lingers(); ok {
		out = append(out, c)
	}

	checking, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	r, err := patientCall[wire.CheckResult](checking, a, wire.MethodServiceCheck, nil)
	switch {
	case err == nil:
		s, err := call[wire.Service](ctx, a, wire.MethodServiceStatus, nil)
		add("service", err, fmt.Sprintf("Version %s runs with pid %d.", s.Version, s.PID), "Run `reeve service status`.")
		if err == nil && s.Version != a.Version {
			out = append(out, a.versionCheck(s.Version))
		}
		if reg, wrong := a.look(ctx); err == nil && wrong == nil {
			out = append(out, a.registrationChecks(reg, &s)...)
		}
		// Of two that look at the same thing, the service knows more.
		for _, c := range r.Checks {
			if c.Name != "git" {
				out = append(out, c)
			}
		}
		return out
	case errors.Is(err, client.ErrNotRunning):
		add("service", errors.New("the service is not running"), "", "Run `reeve service start`.")
	default:
		add("service", err, "", "Run `reeve service status`, and restart the service if it does not answer.")
	}
	if reg, err := a.look(ctx); err == nil {
		out = append(out, a.registrationChecks(reg, nil)...)
	}
	dir, err := sock.StateDir(a.Getenv)
	if err != nil {
		add("private state", err, "", "")
		return out
	}
	return append(out, a.CheckState(ctx, dir)...)
}

// checkLimit is how long the service may take to check everything: it reads
// every session log, and one may have 1 GiB.
const checkLimit = 15 * time.Minute

// display tells what the desktop would find. Being without is no fault: the
// command line does everything.
func (a *app) display() wire.Check {
	c := wire.Check{Name: "desktop session", OK: true, Message: "There is a display, so reeve-desktop can run."}
	if runtime.GOOS != "linux" {
		return c
	}
	switch {
	case a.Getenv("DISPLAY") == "" && a.Getenv("WAYLAND_DISPLAY") == "":
		c.Message = "There is no display here; use the command line."
	case a.Getenv("DBUS_SESSION_BUS_ADDRESS") == "":
		c.Message = "There is a display but no session bus, so there will be no tray icon and no notifications."
		c.Fix = "Start the desktop from your desktop session, or set DBUS_SESSION_BUS_ADDRESS."
	}
	return c
}

func (a *app) versionLine() string {
	return fmt.Sprintf("reeve %s (%s, %s/%s)", a.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  reeve version --json", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]string{"version": a.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			fmt.Fprintln(a.Stdout, a.versionLine())
			return nil
		},
	}
}
