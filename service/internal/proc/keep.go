package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// keeperGrace is how long a guard may take to end by itself after the keeper
// was told to end. A guard needs 8 s to end its tree.
const keeperGrace = 10 * time.Second

// What a guard started may be there for lateGrace after its time is over, and
// for lateKill more while it is killed; after that the guard goes, too.
const (
	lateGrace = 8 * time.Second
	lateKill  = 5 * time.Second
)

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
	// Late is closed when the guard's time is over, nil for one that has no
	// limit. A guard that is well ends everything by itself then.
	Late <-chan struct{}
}

// Run is the whole life of a keeper: it starts the guard in a session of its
// own, with the keeper's own standard input, output and error, and waits. When
// the guard ends, however it ends, everything that is left below the keeper and
// in the control group of the guard's tree is killed before Run returns the
// guard's exit code (128 plus the signal's number if a signal ended it).
//
// When ctx ends the guard is asked to end, and killed 10 s later. When Late is
// closed the guard is woken, should somebody have stopped it; what it started is
// killed 8 s later, and so is the guard if it does not end after that. An error
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
	await, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = guard.Wait(await) // what can't be waited for is ended
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = askToEnd(guard)
		closedWithin(ended, keeperGrace)
	case <-k.Late:
		Wake(guard)
		if !closedWithin(ended, lateGrace) && tree.killBut(guard) {
			Wake(guard) // it may still say how it ended
			closedWithin(ended, keeperGrace)
		}
	}
	// Everything goes, the guard included if it is still there.
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), keeperGrace)
	defer stop()
	left, err := tree.Kill(last)
	if err != nil {
		return 0, fmt.Errorf("keep a guard: end what it left (%v): %w", left, err)
	}
	_ = cmd.Wait() // reports the exit code below; a non-zero one is no error here
	return exitCode(cmd.ProcessState), nil
}

func closedWithin(c <-chan struct{}, d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-c:
		return true
	case <-late.C:
		return false
	}
}

// killBut kills every member but guard and says whether none is left.
func (t *Tree) killBut(guard ID) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lateKill)
	defer cancel()
	for {
		members, err := t.Members()
		members = slices.DeleteFunc(members, func(id ID) bool { return id == guard })
		if err == nil && len(members) == 0 {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		t.killGroup()
		for _, id := range members {
			_ = id.Signal(os.Kill) // a refusal shows as one that is left
		}
		waitAny(ctx, members, rescan)
	}
}
