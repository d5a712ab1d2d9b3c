//go:build unix

package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
)

func TestGitLimits(t *testing.T) {
	t.Parallel()
	g := repository(t)
	var failed *guard.GitError
	g.sh("echo begun; trap '' TERM; sleep 300; sleep 300")
	out, err := g.run(within(t), guard.GitRun{Args: []string{"sh"}, Limit: time.Second})
	if !errors.As(err, &failed) || !failed.TimedOut || failed.TooMuch || string(out) != "begun\n" {
		t.Errorf("%q %v", out, err)
	}
	g.sh("yes")
	out, err = g.run(within(t), guard.GitRun{Args: []string{"sh"}, MaxOutput: 100_001})
	if !errors.As(err, &failed) || failed.TimedOut || !failed.TooMuch || len(out) != 100_001 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	g.sh("printf 12345")
	if out, err := g.run(within(t), guard.GitRun{Args: []string{"sh"}, MaxOutput: 5}); string(out) != "12345" || err != nil {
		t.Errorf("exactly the limit: %q %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	known := g.trees.Load()
	if _, err := g.run(ctx, guard.GitRun{Args: []string{"status"}}); !errors.Is(err, context.Canceled) || g.trees.Load() != known {
		t.Errorf("after the end: %v", err)
	}
	// The end can come while the service still takes note of the tree.
	g.sh("echo ran >ran")
	ctx, g.before = context.WithCancel(t.Context())
	if _, err := g.run(ctx, guard.GitRun{Args: []string{"sh"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(g.dir, "ran")); err == nil {
		t.Error("git ran after the end")
	}
}

// A guard that does nothing of what it should is ended in the end.
func TestDeafGuardOfGit(t *testing.T) {
	t.Parallel()
	g := repository(t)
	exe := g.write("deaf", "#!/bin/sh\ntrap '' TERM\necho '{\"ready\":{\"guard\":{\"pid\":0}}}'\nexec sleep 300\n")
	ctx, cancel := context.WithCancel(within(t))
	known := func(tree proc.Guarded) func() {
		g.trees.Store(&[]proc.Guarded{tree})
		cancel()
		return func() { t.Error("forgotten") }
	}
	if _, err := runGit(ctx, exe, g.env, guard.GitRun{Dir: g.dir, Args: []string{"status"}}, known); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if id := (*g.trees.Load())[0].Root; id.State() != proc.Gone {
		t.Errorf("%v is left", id)
	}
}

// serviceOfGit is a service that runs one git command.
func serviceOfGit(dir string) int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	_, err = runGit(context.Background(), exe, os.Environ(), guard.GitRun{Dir: dir, Args: []string{"add", "file"}}, func(tree proc.Guarded) func() {
		raw, err := json.Marshal(tree)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(raw))
		return func() {}
	})
	fmt.Println(err)
	return 0
}

func TestServiceDiesWhileGitRuns(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	t.Parallel()
	g := repository(t)
	pipes := []string{"plain", "session", "double"}
	for _, p := range append(pipes, "go", "never") {
		mkfifo(t, filepath.Join(g.dir, p))
	}
	g.filter(attackers)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "git-service", g.dir)
	cmd.Env = g.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var tree proc.Guarded
	if err := json.NewDecoder(out).Decode(&tree); err != nil {
		t.Fatal(err)
	}
	g.trees.Store(&[]proc.Guarded{tree})
	keeper, inner := g.processes()
	ids := []proc.ID{keeper, inner}
	for _, p := range pipes {
		ids = append(ids, g.pid(p))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for i, name := range slices.Concat([]string{"keeper", "guard"}, pipes) {
		ends(t, name, ids[i])
	}
}
