// Command reeve is the command line, the background service and the guard of
// Reeve in one program without cgo.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/service"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/keychain"
	"github.com/reevehq/reeve/service/mcp"
	"github.com/reevehq/reeve/service/osservice"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
	"github.com/reevehq/reeve/service/provider/claude"
	"github.com/reevehq/reeve/service/provider/codex"
	"github.com/reevehq/reeve/service/provider/demo"
	"github.com/reevehq/reeve/ui/cli"
)

func main() {
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reeve: this program can't find its own file:", err)
		os.Exit(cli.ExitFailed)
	}
	known := providers(exe)
	os.Exit(cli.Main(context.Background(), cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		InTerminal:  func() bool { return term.IsTerminal(int(os.Stdin.Fd())) },
		OutTerminal: func() bool { return term.IsTerminal(int(os.Stdout.Fd())) },
		ReadSecret: func() (string, error) {
			b, err := term.ReadPassword(int(os.Stdin.Fd()))
			return string(b), err
		},
		Version: assets.Version, Exe: exe, OldestGuard: oldestGuard(),
		Serve: func(ctx context.Context, o cli.ServeOptions) error {
			private, err := sock.PrivateState(os.Getenv)
			if err != nil {
				return err
			}
			err = service.Run(ctx, service.Options{
				StateDir: o.StateDir, Socket: o.Socket, Version: assets.Version, Exe: exe, GuardEnv: guardEnv(),
				Providers: known, Keychain: keychain.Open(private), Now: now, Log: o.Log,
			})
			var running *service.RunningError
			if errors.As(err, &running) {
				return &cli.Failure{Exit: cli.ExitOwned, What: running.Error()}
			}
			var newer *service.StateError
			if errors.As(err, &newer) {
				return &cli.Failure{Exit: cli.ExitRefused, What: newer.Error()}
			}
			return err
		},
		Guard:      func(ctx context.Context, args []string) int { return runGuard(ctx, exe, known, args) },
		DemoAgent:  demoAgent,
		MCP:        mcpServer,
		Sample:     demo.Sample,
		CheckState: service.CheckState,
		Outlived:   service.Outlived,
		PurgeState: service.PurgeState,
		Manager: cli.Manager{
			Look: func(ctx context.Context) (cli.Registration, error) {
				r, err := osservice.Look(ctx)
				return cli.Registration(r), err
			},
			Install:   func(ctx context.Context, u cli.Unit) error { return osservice.Install(ctx, osservice.Unit(u)) },
			Uninstall: osservice.Uninstall, Start: osservice.Start, Stop: osservice.Stop,
			Launch: osservice.Launch, RemoveLauncher: func() error { return osservice.RemoveLauncher(exe) },
		},
	}))
}

func providers(exe string) []provider.Provider {
	list := []provider.Provider{claude.New(), codex.New(), acp.Demo(exe)}
	for _, a := range acp.Ready() {
		list = append(list, acp.New(a))
	}
	return list
}

func demoAgent(ctx context.Context) int {
	if err := demo.Main(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reeve demo-agent:", err)
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// mcpServer speaks for the worker whose agent started it.
func mcpServer(ctx context.Context) int {
	dir, err := os.Getwd()
	if err == nil {
		err = mcp.Serve(ctx, mcp.Options{
			In: os.Stdin, Out: os.Stdout, Getenv: os.Getenv, Dir: dir, Version: assets.Version,
			Socket: func() (string, error) { return sock.Path(os.Getenv) },
			Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reeve mcp:", err)
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// guardEnv is all that a guard gets of the service's environment: what a
// provider gets comes with the mission. The last two end with the keeper, which
// asks the systemd user manager for a scope.
func guardEnv() []string {
	out := passOn()
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT", "LOCALAPPDATA", "USERPROFILE", "TEMP", "TMP", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"} {
		if v := os.Getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

func runGuard(ctx context.Context, exe string, known []provider.Provider, args []string) int {
	rest := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--inner" })
	o := guard.Options{Inner: len(rest) < len(args), Exe: exe, Now: now, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if slices.Equal(rest, []string{"--git"}) {
		return guard.GitMain(ctx, o)
	}
	if len(rest) != 1 {
		fmt.Fprintln(os.Stderr, "reeve guard is run by the service: reeve guard [--inner] --git|DIR; got", strings.Join(args, " "))
		return cli.ExitUsage
	}
	o.Providers = func(name string) (provider.Provider, error) {
		for _, p := range known {
			if p.Name() == name {
				return p, nil
			}
		}
		// An agent of the person's own: all about it comes with the launch.
		if own, ok := strings.CutPrefix(name, "acp:"); ok {
			return acp.New(acp.Agent{Name: own, Title: own}), nil
		}
		return nil, fmt.Errorf("there is no provider %q", name)
	}
	return guard.Main(ctx, rest[0], o)
}
