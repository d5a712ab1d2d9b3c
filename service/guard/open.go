package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/provider"
)

// open starts the provider, with all of its events going to the log.
func (g *guard) open(t *turn) (*conversation, error) {
	g.mu.Lock()
	l := *g.launch
	g.mu.Unlock()
	if err := checkInstructions(l); err != nil {
		return nil, &provider.OpenError{Code: mission.PrivateStateFailure, Err: err}
	}
	p, err := g.o.Providers(l.Provider)
	if err != nil {
		return nil, fmt.Errorf("find the provider %s: %w", l.Provider, err)
	}
	if err := g.renewTree(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(g.ctx)
	talk := &conversation{resume: p.Capabilities().Resume, cancel: cancel, closed: make(chan struct{})}
	slow := time.AfterFunc(openFor, cancel)
	defer slow.Stop()

	opened := make(chan struct{})
	g.wg.Go(func() {
		select {
		case <-t.halted:
			cancel()
		case <-opened:
		}
	})
	spec := provider.Spec{
		Path: l.Path, Args: l.Args, Folder: l.Folder, Mode: l.Mode, Model: l.Model, Endpoint: l.Endpoint,
		Instructions: l.Instructions, PrivateDir: filepath.Join(g.dir, privateDir),
		Env:    slices.Concat(l.Env, g.marks()),
		Resume: t.p.Resume,
		Launch: func(cmd *exec.Cmd) error { return g.launchProcess(ctx, t, cmd) },
	}
	if b := g.bridgeOf(l, t, talk.resume); b != nil {
		spec.Env = slices.Concat(spec.Env, b.environment(ourPrefix), b.environment(theirPrefix))
		server, err := b.server(g.o.Exe, g.marks())
		if err != nil {
			cancel()
			return nil, fmt.Errorf("find Reeve's own program: %w", err)
		}
		spec.Servers = []provider.Server{server}
		g.putContext(l.Folder, b)
	}
	talk.conn, err = openWithin(ctx, p, spec)
	close(opened)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open the provider %s: %w", l.Provider, err)
	}
	if !talk.resume {
		talk.base = g.members()
	}
	g.mu.Lock()
	g.talk = talk
	g.mu.Unlock()
	g.wg.Go(func() { g.pump(talk) })
	return talk, nil
}

// openWithin opens a provider and, once ctx has ended, no longer waits for it:
// its adapter may hang in a file of the checkout.
func openWithin(ctx context.Context, p provider.Provider, spec provider.Spec) (provider.Conn, error) {
	type opened struct {
		conn provider.Conn
		err  error
	}
	answer := make(chan opened, 1)
	go func() {
		conn, err := p.Open(ctx, spec)
		answer <- opened{conn, err}
	}()
	select {
	case o := <-answer:
		return o.conn, o.err
	case <-ctx.Done():
	}
	late := time.NewTimer(stopGrace)
	defer late.Stop()
	select {
	case o := <-answer:
		return o.conn, o.err
	case <-late.C:
	}
	go func() { // its process, if there is one, ends with the tree
		if o := <-answer; o.err == nil {
			go func() {
				for range o.conn.Events() {
				}
			}()
			_ = o.conn.Close(ctx)
		}
	}()
	return nil, fmt.Errorf("the adapter does not come back: %w", ctx.Err())
}

// members are the processes of the current tree.
func (g *guard) members() map[proc.ID]bool {
	list, err := g.currentTree().Members()
	if err != nil {
		g.logger.Error("the process tree can't be read", "error", err)
	}
	all := make(map[proc.ID]bool, len(list))
	for _, id := range list {
		all[id] = true
	}
	return all
}

func (g *guard) newTree() (*proc.Tree, error) {
	return proc.NewTreeWith(g.boot.Attempt, proc.Options{NoCgroup: g.o.NoCgroup})
}

// renewTree gives a provider a tree of its own. A cgroup that was killed once
// cannot be used again: Linux 6.18 kills what is born into it later.
func (g *guard) renewTree() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.providerPID == 0 {
		return nil // none used it yet
	}
	if err := g.tree.Close(); err != nil {
		g.logger.Warn("the last provider's process tree could not be put away", "error", err)
	}
	g.meter.closeTree()
	tree, err := g.newTree()
	if err != nil {
		return err
	}
	g.tree = tree
	g.limitTreeLocked()
	return nil
}

// launchProcess is the Spec.Launch of every provider: nothing starts after the
// deadline or a stop, and nothing lives whose identity is not on record.
func (g *guard) launchProcess(ctx context.Context, t *turn, cmd *exec.Cmd) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.expiredLocked() {
		return errors.New("the deadline of the mission has passed")
	}
	if g.ending != "" || g.turn != t || t.cause != "" || ctx.Err() != nil {
		return errors.New("the turn is being ended")
	}
	id, err := g.tree.Start(cmd)
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(g.dir, providerFile), wire.Process(id)); err != nil {
		_ = id.Signal(os.Kill)
		_ = cmd.Wait()
		return &provider.OpenError{Code: mission.PrivateStateFailure, Err: fmt.Errorf("record the provider's process: %w", err)}
	}
	g.providerPID = id.PID
	fault.Point("guard.provider-recorded")
	return nil
}

// checkInstructions proves that the instruction file is the approved one.
func checkInstructions(l wire.Launch) error {
	raw, err := private.ReadFile(l.Instructions, maxRecord)
	if err != nil {
		return err
	}
	if got := mission.InstructionDigest(string(raw)); got != l.Digest {
		return fmt.Errorf("the instruction file %s was changed after it was approved (digest %s, not %s); start a new mission", l.Instructions, got, l.Digest)
	}
	return nil
}
