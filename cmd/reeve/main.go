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
	"github.com/reevehq/reeve/service"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
	"github.com/reevehq/reeve/service/provider/claude"
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
		Version:     assets.Version, Exe: exe,
		Serve: func(ctx context.Context, o cli.ServeOptions) error {
			err := service.Run(ctx, service.Options{
				StateDir: o.StateDir, Socket: o.Socket, Version: assets.Version, Exe: exe, GuardEnv: guardEnv(),
				Providers: known, Now: now, Log: o.Log,
			})
			var running *service.RunningError
			if errors.As(err, &running) {
				return &cli.Failure{Exit: cli.ExitOwned, What: running.Error()}
			}
			return err
		},
		Guard:     func(ctx context.Context, args []string) int { return runGuard(ctx, exe, known, args) },
		DemoAgent: demoAgent,
		Sample:    demo.Sample,
	}))
}

func providers(exe string) []provider.Provider {
	return []provider.Provider{claude.New(), acp.Demo(exe)}
}

func demoAgent(ctx context.Context) int {
	if err := demo.Main(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reeve demo-agent:", err)
		return cli.ExitFailed
	}
	return cli.ExitOK
}

// guardEnv is all that a guard gets of the service's environment: what a
// provider gets comes with the mission.
func guardEnv() []string {
	out := passOn()
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT", "LOCALAPPDATA"} {
		if v := os.Getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

func runGuard(ctx context.Context, exe string, known []provider.Provider, args []string) int {
	inner := false
	if i := slices.Index(args, "--inner"); i >= 0 {
		inner = true
		args = slices.Delete(slices.Clone(args), i, i+1)
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "reeve guard is run by the service: reeve guard [--inner] DIR; got", strings.Join(args, " "))
		return cli.ExitUsage
	}
	return guard.Main(ctx, args[0], guard.Options{
		Inner: inner, Exe: exe, Now: now, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Providers: func(name string) (provider.Provider, error) {
			for _, p := range known {
				if p.Name() == name {
					return p, nil
				}
			}
			return nil, fmt.Errorf("there is no provider %q", name)
		},
	})
}
