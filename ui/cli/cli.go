// Package cli is the command line: short tables and sentences for people, JSON
// for programs, and exit codes that scripts can rely on.
//
// It talks to the service like every other client. What a command needs beyond
// that (the service itself, the guard, the demo agent) is handed in by the
// program, because the user interface imports none of it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitUnreachable = 3 // the service can't be reached
	ExitRefused     = 4 // invalid, in conflict or not allowed
	ExitDenied      = 5 // a person said no, or nobody said yes
	ExitTimedOut    = 6
	ExitOwned       = 7 // another service owns this state
)

// Env is the world that a command runs in.
type Env struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	// InTerminal and OutTerminal tell whether a person types and reads.
	InTerminal  func() bool
	OutTerminal func() bool
	// ReadSecret reads a line that a person types, without showing it.
	ReadSecret func() (string, error)
	Version    string
	Exe        string           // this program, to start the service with
	Now        func() time.Time // nil: the machine's clock
	// OldestGuard is the oldest guard protocol that this program's service
	// speaks; 0: as the one that runs.
	OldestGuard int
	// Serve runs the service until ctx ends.
	Serve func(ctx context.Context, o ServeOptions) error
	// Guard, DemoAgent and MCP are internal programs; they return exit codes.
	Guard     func(ctx context.Context, args []string) int
	DemoAgent func(ctx context.Context) int
	MCP       func(ctx context.Context) int
	// CheckState checks the state of a service that does not run, and changes
	// nothing.
	CheckState func(ctx context.Context, stateDir string) []wire.Check
	// Manager is the system's own service manager.
	Manager Manager
	// Outlived returns the process numbers of the workers that live on with the
	// state of a service that does not run.
	Outlived func(stateDir string) ([]string, error)
	// PurgeState removes the state of a service that does not run, for good, and
	// returns what it left there because it is not Reeve's.
	PurgeState func(stateDir string) (left []string, err error)
	// Sample makes the sample repository of the demo in a new directory.
	Sample func(dir string) error
}

// ServeOptions is what the service is run with.
type ServeOptions struct {
	StateDir string
	Socket   string
	Log      io.Writer
}

// Failure is an error that decides the exit code. Next says what to do and may
// be empty; with neither What nor Next nothing is printed.
type Failure struct {
	Exit int
	What string
	Next string
}

func (f *Failure) Error() string { return strings.TrimSpace(f.What + " " + f.Next) }

func usage(next, format string, args ...any) error {
	return &Failure{Exit: ExitUsage, What: fmt.Sprintf(format, args...), Next: next}
}

// app is one run of the command line.
type app struct {
	Env
	json  bool
	style style
	began bool // a command was found and its flags were read
}

// Main runs one command and returns its exit code.
func Main(ctx context.Context, env Env) int {
	if env.Now == nil {
		env.Now = time.Now
	}
	a := &app{Env: env}
	root := a.root()
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	f := a.failure(err)
	if text := f.Error(); text != "" {
		fmt.Fprintln(env.Stderr, "reeve: "+text)
	}
	return f.Exit
}

// failure turns any error into a sentence, the next step and an exit code.
func (a *app) failure(err error) *Failure {
	var f *Failure
	var refused *wire.Error
	var mismatch *client.MismatchError
	switch {
	case errors.As(err, &f):
		return f
	case !a.began:
		return &Failure{Exit: ExitUsage, What: sentence(err.Error()), Next: "Run `reeve --help` to see the commands, or `reeve COMMAND --help` for one."}
	case errors.As(err, &mismatch):
		return &Failure{Exit: ExitUnreachable, What: sentence(mismatch.Error())}
	case errors.Is(err, client.ErrNotRunning):
		return &Failure{Exit: ExitUnreachable, What: "The service is not running.", Next: "Run `reeve service start`."}
	case errors.As(err, &refused):
		return &Failure{Exit: exitOf(refused.Code), What: model.Clean(refused.Message)} // it may hold names of processes
	case errors.Is(err, client.ErrClosed):
		return &Failure{Exit: ExitUnreachable, What: "The service ended the connection.", Next: "Run `reeve service status`."}
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Exit: ExitTimedOut, What: sentence(err.Error()), Next: "Run `reeve service status` to see whether the service answers."}
	}
	return &Failure{Exit: ExitFailed, What: sentence(err.Error())}
}

// exitOf maps the codes of the wire to exit codes. What is not named is a
// refusal: the service understood and said no.
func exitOf(code wire.Code) int {
	switch code {
	case wire.CodeInternal, wire.CodeUnavailable:
		return ExitFailed
	case wire.CodeUnsupportedVersion, wire.CodeShuttingDown, wire.CodeUpdateInProgress:
		return ExitUnreachable
	case wire.CodeApprovalRequired:
		return ExitDenied
	}
	return ExitRefused
}

func sentence(s string) string {
	if s = model.Clean(s); s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "reeve",
		Short: "Hand bounded work to coding agents and stay in charge of it",
		Long: `Reeve lets you hand bounded work to a coding agent and stay in charge of it:
you approve what it may do and for how long, it asks before every command,
and it is stopped in time.`,
		Example: `  reeve service start
  reeve demo
  reeve start --provider claude --folder . --scope "Fix the flaky date test" --minutes 60
  reeve approvals`,
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.began = true
			a.style = style(a.OutTerminal() && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb")
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.Version = a.Version
	root.SetVersionTemplate(a.versionLine() + "\n")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON for programs")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		a.start(), a.demo(), a.ls(), a.show(), a.watch(), a.logs(), a.changes(), a.worktree(),
		a.approvals(), a.allow(), a.deny(), a.rules(), a.room(), a.effects(),
		a.steer(), a.control("pause"), a.control("resume"), a.control("stop"), a.recover(), a.control("cancel"),
		a.service(), a.doctor(), a.providers(), a.credentials(), a.audit(), a.version(),
		a.hidden("guard", func(ctx context.Context, args []string) int { return a.Guard(ctx, args) }),
		a.hidden("demo-agent", func(ctx context.Context, _ []string) int { return a.DemoAgent(ctx) }),
		a.hidden("mcp", func(ctx context.Context, _ []string) int { return a.MCP(ctx) }),
	)
	helpOf(root)
	return root
}

// hidden is a command that only Reeve itself runs.
func (a *app) hidden(name string, run func(context.Context, []string) int) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if code := run(c.Context(), args); code != 0 {
				return &Failure{Exit: code}
			}
			return nil
		}}
}

// interruptible ends the context at Ctrl-C or when the system asks the program
// to end. Commands that ask a question do without: there Ctrl-C ends the
// program at once, which answers nothing.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
