package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// keeperGrace is how long a guard may take to end by itself after the keeper
// was told to end. A guard needs 8 s to end its tree.
const keeperGrace = 10 * time.Second

// Keep is the whole life of a keeper: it starts the guard argv (a program and
// its arguments) in a session of its own, with the keeper's own standard
// output and error, and waits. When the guard ends, however it ends, everything
// that is left below the keeper is killed before Keep returns the guard's exit
// code (128 plus the signal's number if a signal ended it).
//
// When ctx ends the guard is asked to end, and killed 10 s later. An error
// means that the guard could not be started or that processes are left; it
// names them. Keep needs a process of its own, since that process adopts and
// reaps everything below it.
func Keep(ctx context.Context, argv []string, env []string, dir string) (exit int, err error) {
	if len(argv) == 0 {
		return 0, errors.New("keep a guard: no program given")
	}
	tree, err := NewTreeWith(fmt.Sprintf("keeper-%d", os.Getpid()), Options{NoCgroup: true})
	if err != nil {
		return 0, fmt.Errorf("keep a guard: %w", err)
	}
	defer func() { err = errors.Join(err, tree.Close()) }()

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	guard, err := tree.Start(cmd)
	if err != nil {
		return 0, fmt.Errorf("keep a guard: start %s: %w", argv[0], err)
	}
	if guard.Wait(ctx) != nil {
		_ = askToEnd(guard)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeperGrace)
		_ = guard.Wait(late)
		cancel()
	}
	// Everything goes, the guard included if it is still there.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeperGrace)
	defer cancel()
	left, err := tree.Kill(last)
	if err != nil {
		return 0, fmt.Errorf("keep a guard: end what it left (%v): %w", left, err)
	}
	_ = cmd.Wait() // reports the exit code below; a non-zero one is no error here
	return exitCode(cmd.ProcessState), nil
}
