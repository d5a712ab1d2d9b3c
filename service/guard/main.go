package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/runlog"
)

// keeperVar carries the keeper's identity to the guard, which cannot ask for
// it: a parent that has ended already is not its parent any more. It is no
// part of a worker's environment.
const keeperVar = "REEVE_GUARD_KEEPER"

// Exit codes of a guard.
const (
	exitOK      = 0
	exitFailed  = 1 // it could not begin, or could not write its log
	exitLeft    = 2 // processes are left that the system would not end
	memoryLimit = 48 << 20
)

// Main runs the guard of the attempt directory dir and returns the exit code
// of the process. Without o.Inner it is the keeper.
func Main(ctx context.Context, dir string, o Options) int {
	o = o.withDefaults()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A guard waits for most of its life, so memory matters more than speed.
	debug.SetGCPercent(40)
	debug.SetMemoryLimit(memoryLimit)
	code := exitFailed
	dir, err := filepath.Abs(dir)
	switch {
	case err != nil:
	case o.Inner:
		code, err = run(ctx, dir, o)
	default:
		code, err = keep(ctx, dir, o)
	}
	if err != nil {
		o.Logger.Error("the guard failed", "keeper", !o.Inner, "error", err)
		code = max(code, exitFailed)
	}
	return code
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = machineNow
	}
	if o.Protocols == nil {
		o.Protocols = []int{wire.GuardProtocol, wire.OldestGuardProtocol}
	}
	if o.MaxLog <= 0 {
		o.MaxLog = 1 << 30
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	for _, d := range []struct {
		d     *time.Duration
		usual time.Duration
	}{{&o.StartWithin, 30 * time.Second}, {&o.Adopt, 5 * time.Minute}, {&o.Check, 5 * time.Second}, {&o.Look, 5 * time.Second}} {
		if *d.d <= 0 {
			*d.d = d.usual
		}
	}
	return o
}

func machineNow() mission.Instant {
	now := mission.Instant{Wall: time.Now()}
	// Without a boot clock the wall clock alone decides.
	if d, id, err := proc.BootTime(); err == nil {
		now.Boot, now.BootID = d, id
	}
	return now
}

// keep is the keeper.
func keep(ctx context.Context, dir string, o Options) (int, error) {
	var b wire.Bootstrap
	if err := readJSON(filepath.Join(dir, bootstrapFile), &b); err != nil {
		return exitFailed, err
	}
	if err := checkBootstrap(b); err != nil {
		return exitFailed, fmt.Errorf("bootstrap record: %w", err)
	}
	self, err := proc.Self()
	if err != nil {
		return exitFailed, err
	}
	// The guard keeps the deadline, but a worker can stop it, and it can hang.
	late, watched := make(chan struct{}), make(chan struct{})
	defer close(watched)
	go func() {
		if o.awaitDeadline(deadlineOf(b), watched, func() {}) {
			close(late)
		}
	}()
	return keepGuard(ctx, o.Exe, self, proc.Keeper{Name: b.Attempt, Scope: true, Dir: dir, Late: late}, "--inner", dir)
}

func deadlineOf(b wire.Bootstrap) mission.Deadline {
	return mission.Deadline{At: b.DeadlineAt, Boot: b.Boot, BootID: b.BootID}
}

// awaitDeadline looks at both clocks every Check and at the exact moment of the
// deadline, and calls looked after each look before that. Timers stop while a
// machine sleeps, so one for the moment alone would be late. It says whether the
// deadline has passed; else quit is closed.
func (o Options) awaitDeadline(d mission.Deadline, quit <-chan struct{}, looked func()) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-quit:
			return false
		}
		left := d.Remaining(o.Now())
		if left == 0 {
			return true
		}
		looked()
		timer.Reset(min(max(left, time.Millisecond), o.Check))
	}
}

// keepGuard keeps the guard `exe guard args...`, which finds the identity of
// this keeper in its environment.
func keepGuard(ctx context.Context, exe string, self proc.ID, k proc.Keeper, args ...string) (code int, err error) {
	if exe == "" {
		if exe, err = os.Executable(); err != nil {
			return exitFailed, err
		}
	}
	raw, err := json.Marshal(self)
	if err != nil {
		return exitFailed, err
	}
	k.Argv = append([]string{exe, "guard"}, args...)
	k.Env = append(withoutVar(os.Environ(), keeperVar), keeperVar+"="+string(raw))
	for _, name := range proc.ScopeVars { // for the keeper's own use
		k.Env = withoutVar(k.Env, name)
	}
	return k.Run(ctx)
}

// keeperID reads who the keeper of this guard is.
func keeperID() (keeper proc.ID, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(keeperVar)), &keeper); err != nil {
		return keeper, errors.New("find the keeper: start a guard without --inner")
	}
	return keeper, nil
}

func withoutVar(env []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(s string) bool { return strings.HasPrefix(s, name+"=") })
}

// run is the guard itself.
func run(ctx context.Context, dir string, o Options) (code int, err error) {
	g := &guard{
		o: o, dir: dir, logger: o.Logger,
		asked: make(map[string]*question), settled: make(map[string]settlement),
		commands: make(map[string]*command), peers: make(map[*peer]bool),
		endAsked: make(chan struct{}), lookNow: make(chan struct{}, 1), looks: make(chan chan<- struct{}), ended: make(chan struct{}), noted: make(chan struct{}),
	}
	if g.keeper, err = keeperID(); err != nil {
		return exitFailed, err
	}
	if err := readJSON(filepath.Join(dir, bootstrapFile), &g.boot); err != nil {
		return exitFailed, err
	}
	if err := checkBootstrap(g.boot); err != nil {
		return exitFailed, fmt.Errorf("bootstrap record: %w", err)
	}
	if g.protocol, err = commonProtocol(o.Protocols, g.boot.Protocols); err != nil {
		return exitFailed, err
	}
	g.deadline = deadlineOf(g.boot)
	if err := readJSON(filepath.Join(dir, fenceFile), &g.fence); err != nil && !errors.Is(err, os.ErrNotExist) {
		return exitFailed, err
	}
	if g.claimers, err = newClaimers(dir, g.keeper, g.logger); err != nil {
		return exitFailed, err
	}
	defer g.claimers.Close()
	if err := private.EnsureDir(filepath.Join(dir, privateDir)); err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(dir, privateDir))) }()

	if g.tree, err = g.newTree(); err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, g.currentTree().Close()) }()
	g.logID = g.boot.Attempt // one log an attempt
	if g.log, err = runlog.Create(filepath.Join(dir, logFile), g.logID); err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, g.log.Close()) }()
	listener, err := sock.Listen(g.boot.Socket)
	if err != nil {
		return exitFailed, err
	}
	defer listener.Close()
	self, err := proc.Self()
	if err != nil {
		return exitFailed, err
	}
	record := wire.GuardRecord{
		Process: wire.Process(self), Keeper: wire.Process(g.keeper), Socket: g.boot.Socket,
		Protocol: g.protocol, Tree: g.tree.Method(), Cgroup: g.tree.Cgroup(),
	}
	if err := writeJSON(filepath.Join(dir, recordFile), record); err != nil {
		return exitFailed, err
	}

	fault.Point("guard.recorded")
	g.live(ctx, listener)

	switch {
	case g.logErr != nil:
		return exitFailed, g.logErr
	case len(g.result.Left) > 0:
		return exitLeft, nil
	}
	return exitOK, nil
}

// live serves until the guard has ended and its owner, if it has one, knows.
func (g *guard) live(ctx context.Context, listener net.Listener) {
	var cancel context.CancelFunc
	g.ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.wg.Go(func() { g.accept(listener) })
	g.wg.Go(g.watchClock)
	g.wg.Go(g.watchUse)
	go g.watchFolder() // nobody waits for it: it may hang
	g.wg.Go(g.end)
	g.wg.Go(func() {
		if g.keeper.Wait(g.ctx) == nil {
			g.askToEnd(causeKeeper, reasonKeeper)
		}
	})
	g.wg.Go(func() {
		select {
		case <-ctx.Done():
			g.askToEnd(causeSignal, reasonTerminated)
		case <-g.ctx.Done():
		}
	})
	start := time.AfterFunc(g.o.StartWithin, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.launch == nil {
			g.askToEndLocked(causeStop, reasonNoStart)
		}
	})
	defer start.Stop()

	<-g.ended
	g.linger()
	_ = listener.Close() // ends accept
	g.mu.Lock()
	peers := g.peers
	g.peers = nil
	g.unownedLocked()
	g.mu.Unlock()
	for p := range peers {
		p.finish()
	}
	cancel()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		g.wg.Wait()
	}()
	select {
	case <-settled:
	case <-time.After(adapterFor):
		g.logger.Error("an adapter does not return; the guard ends without it")
	}
}
