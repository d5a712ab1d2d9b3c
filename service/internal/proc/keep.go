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

// ScopeVars are the environment variables by which a keeper finds the systemd
// user manager. Neither guards nor workers need them.
var ScopeVars = []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}

// Keeper is the process above a guard, which outlives it and ends what it
// left. It needs a process of its own, since that process adopts and reaps
// everything below it.
type Keeper struct {
	// Name is the name of the guard's tree.
	Name string
	// Scope moves keeper and guard into a systemd scope of their own first,
	// where there is a user manager.
	Scope bool
	// Argv is the guard's program and its arguments, Env its complete
	// environment, and Dir its working directory.
	Argv, Env []string
	Dir       string
}

// Run is the whole life of a keeper: it starts the guard in a session of its
// own, with the keeper's own standard input, output and error, and waits. When
// the guard ends, however it ends, everything that is left below the keeper and
// in the control group of the guard's tree is killed before Run returns the
// guard's exit code (128 plus the signal's number if a signal ended it).
//
// When ctx ends the guard is asked to end, and killed 10 s later. An error
// means that the guard could not be started or that processes are left; it
// names them.
func (k Keeper) Run(ctx context.Context) (exit int, err error) {
	if len(k.Argv) == 0 {
		return 0, errors.New("keep a guard: no program given")
	}
	tree, err := NewTreeWith(k.Name, Options{Scope: k.Scope, keeper: true})
	if err != nil {
		return 0, fmt.Errorf("keep a guard: %w", err)
	}
	defer func() { err = errors.Join(err, tree.Close()) }()

	cmd := exec.Command(k.Argv[0], k.Argv[1:]...)
	cmd.Env, cmd.Dir = k.Env, k.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	guard, err := tree.Start(cmd)
	if err != nil {
		return 0, fmt.Errorf("keep a guard: start %s: %w", k.Argv[0], err)
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
