package guard

import (
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
)

// Limits of the socket.
const (
	maxPeers    = 16
	maxCommands = 512 // remembered for repeats
)

// later is the part of a command that runs without the lock.
type later func() (any, error)

// command is a command that took effect, kept for repeats.
type command struct {
	method string
	done   chan struct{}
	result any
	err    *wire.Error
}

// accept takes connections until the listener is closed.
func (g *guard) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			g.logger.Warn("a connection could not be accepted", "error", err)
			select {
			case <-time.After(100 * time.Millisecond): // descriptors may be short
				continue
			case <-g.ctx.Done():
				return
			}
		}
		who, err := sock.PeerOf(conn)
		if err != nil || !sock.SameUser(who) {
			g.logger.Warn("a connection of another user was refused", "user", who.UID, "error", err)
			closePeer(conn, who)
			continue
		}
		p := &peer{conn: conn, who: who, version: g.protocol, log: filepath.Join(g.dir, logFile), gone: make(chan struct{}), wake: make(chan struct{}, 1)}
		g.mu.Lock()
		full := g.peers == nil || len(g.peers) >= maxPeers
		if !full {
			g.peers[p] = true
		}
		g.mu.Unlock()
		if full {
			closePeer(conn, who)
			continue
		}
		g.wg.Go(p.write)
		g.wg.Go(func() { g.read(p) })
	}
}

// refusal is a response without a version: that is the connection's.
func refusal(id string, err *wire.Error) wire.Response { return wire.Fail(0, id, err) }

func closePeer(conn net.Conn, who sock.Peer) {
	_ = conn.Close()
	if who.Pidfd != nil {
		_ = who.Pidfd.Close()
	}
}

// read serves one connection to its end.
func (g *guard) read(p *peer) {
	_ = p.conn.SetReadDeadline(time.Now().Add(claimWithin))
	lines := wire.NewLineReader(p.conn)
	for {
		line, err := lines.Next()
		if errors.Is(err, wire.ErrNotText) {
			p.reply(refusal(wire.SalvageID(line), wire.Errorf(wire.CodeInvalidParams, "Unreadable command: %v.", err)))
			continue
		}
		if err != nil {
			break
		}
		req, bad := wire.DecodeRequest(line)
		if bad == nil && !p.speak(req.Version, g.o.Protocols) {
			bad = wire.Errorf(wire.CodeUnsupportedVersion, "This guard speaks the protocols %v, one for each connection.", g.o.Protocols)
		}
		switch {
		case bad != nil:
			p.reply(refusal(req.ID, bad))
		case req.Method == wire.GuardClaim:
			g.claim(p, req)
		default:
			g.command(p, req)
		}
	}
	p.finish()
	close(p.gone)
	g.mu.Lock()
	delete(g.peers, p)
	if g.owner == p {
		g.owner = nil
		g.orphanLocked()
	}
	g.mu.Unlock()
	if p.who.Pidfd != nil {
		_ = p.who.Pidfd.Close()
	}
}

// orphanLocked starts the time that a guard lives without an owner.
func (g *guard) orphanLocked() {
	if g.ending != "" || g.peers == nil {
		return
	}
	g.unownedLocked()
	var timer *time.Timer
	timer = time.AfterFunc(g.o.Adopt, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.orphan != timer || g.owner != nil {
			return
		}
		if g.turn != nil {
			g.orphaned = true
			return
		}
		g.askToEndLocked(causeStop, reasonNoOwner)
	})
	g.orphan = timer
}

// unownedLocked stops that time.
func (g *guard) unownedLocked() {
	if g.orphan != nil {
		g.orphan.Stop()
		g.orphan = nil
	}
	g.orphaned = false
}

// claim makes a connection the owner's.
func (g *guard) claim(p *peer, req wire.Request) {
	var c wire.ClaimParams
	refuse := func(e *wire.Error) {
		g.logger.Warn("a claim was refused", "pid", p.who.PID, "generation", c.Generation, "code", e.Code)
		p.reply(refusal(req.ID, e))
	}
	if e := wire.DecodeParams(req.Params, &c); e != nil {
		refuse(e)
		return
	}
	if subtle.ConstantTimeCompare([]byte(c.Token), []byte(g.boot.Token)) != 1 {
		refuse(wire.Errorf(wire.CodeInvalidParams, "The token is not the one of this attempt."))
		return
	}
	owner := proc.ID(c.Owner)
	if id, err := proc.Identify(p.who.PID); err != nil || id != owner {
		refuse(wire.Errorf(wire.CodeInvalidParams, "The owner named in the claim is not the process that connected."))
		return
	}
	// Whatever runs as the same user can read the token, so that it has one says
	// little. The last look proves that the process still is who connected.
	forbid := func(why string) {
		refuse(wire.Errorf(wire.CodeForbiddenForWorkers, "The claim was refused: %s.", why))
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refusedLocked(p, why)
	}
	if err := g.claimers.check(p.who.PID); err != nil {
		forbid(err.Error())
		return
	}
	guarded := proc.Guarded{Root: g.keeper}
	if group := g.currentTree().Cgroup(); group != "" {
		guarded.Cgroups = []string{group}
	}
	if v := proc.DescendsFromGuard(p.who.PID, p.who.Pidfd, []proc.Guarded{guarded}); v.Worker {
		forbid(v.Why)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.peers == nil {
		refuse(wire.Errorf(wire.CodeShuttingDown, "The guard has ended."))
		return
	}
	if c.Generation <= g.fence.Generation {
		refuse(wire.Errorf(wire.CodeStaleGeneration, "Generation %d has claimed this guard; %d is not above it.", g.fence.Generation, c.Generation))
		return
	}
	fence := wire.Fence{Generation: c.Generation, Owner: c.Owner}
	if err := writeJSON(filepath.Join(g.dir, fenceFile), fence); err != nil {
		g.logger.Error("the fence can't be written", "error", err)
		refuse(wire.Errorf(wire.CodeInternal, "The claim could not be recorded; see the guard's log."))
		return
	}
	fault.Point("guard.fence-written")
	g.fence = fence
	if old := g.owner; old != nil && old != p {
		_ = old.conn.Close()
	}
	g.owner = p
	g.unownedLocked()
	_ = p.conn.SetReadDeadline(time.Time{})
	p.own()
	g.wg.Go(func() { watchOwner(g.ctx, owner, p) })
	res := wire.ClaimResult{Attempt: g.boot.Attempt, LastSeq: g.seq, Pending: []string{}, Phase: g.phaseLocked(), Turn: g.turnIDLocked()}
	for id := range g.asked {
		res.Pending = append(res.Pending, id)
	}
	slices.Sort(res.Pending)
	// Under the lock, so that the entries after LastSeq follow it.
	p.reply(wire.Response{ID: req.ID, OK: true, Result: rawJSON(res)})
}

// watchOwner ends the connection of an owner that has ended, even if another
// process still holds its end.
func watchOwner(ctx context.Context, owner proc.ID, p *peer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		select {
		case <-p.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	if owner.Wait(ctx) == nil {
		_ = p.conn.Close()
	}
	cancel()
	<-stop
}

// command runs one command of the owner.
func (g *guard) command(p *peer, req wire.Request) {
	var cmd wire.Command
	var effect func() (any, later, error)
	var bad *wire.Error
	switch req.Method {
	case wire.GuardStart:
		var x wire.StartParams
		bad = wire.DecodeParams(req.Params, &x)
		cmd, effect = x.Command, func() (any, later, error) { return g.startLocked(p, x) }
	case wire.GuardTurn:
		var x wire.TurnParams
		bad = wire.DecodeParams(req.Params, &x)
		cmd, effect = x.Command, func() (any, later, error) { return nil, nil, g.turnLocked(x) }
	case wire.GuardInterrupt:
		var x wire.InterruptParams
		bad = wire.DecodeParams(req.Params, &x)
		cmd, effect = x.Command, func() (any, later, error) { return nil, g.interruptLocked(), nil }
	case wire.GuardResolve:
		var x wire.ResolveParams
		bad = wire.DecodeParams(req.Params, &x)
		cmd, effect = x.Command, func() (any, later, error) { return g.resolveLocked(x) }
	case wire.GuardStop:
		var x wire.GuardStopParams
		bad = wire.DecodeParams(req.Params, &x)
		cmd, effect = x.Command, func() (any, later, error) { return nil, g.stopLocked(x), nil }
	default:
		bad = wire.Errorf(wire.CodeUnsupportedMethod, "A guard has no method %q.", short(req.Method, 64))
	}
	if bad == nil && cmd.CommandID == "" {
		bad = wire.InvalidField("command_id", "is missing")
	}
	if bad != nil {
		p.reply(refusal(req.ID, bad))
		return
	}

	g.mu.Lock()
	if err := g.ownerLocked(p, cmd.Generation); err != nil {
		g.mu.Unlock()
		p.reply(refusal(req.ID, err))
		return
	}
	c, repeat := g.commands[cmd.CommandID]
	if repeat {
		g.mu.Unlock()
	} else {
		c = &command{method: req.Method, done: make(chan struct{})}
		g.rememberLocked(cmd.CommandID, c)
		result, rest, err := effect()
		g.mu.Unlock()
		switch {
		case rest == nil:
			c.finish(result, err)
		case req.Method == wire.GuardStart:
			c.finish(rest()) // before what follows on this connection
		default:
			g.wg.Go(func() { c.finish(rest()) })
		}
	}
	reply := func() {
		<-c.done
		r := wire.Response{ID: req.ID, OK: true}
		switch {
		case c.method != req.Method:
			r = refusal(req.ID, wire.Errorf(wire.CodeConflict, "The command id %s was used for %s.", short(cmd.CommandID, 64), c.method))
		case c.err != nil:
			r = refusal(req.ID, c.err)
		case c.result != nil:
			r.Result = rawJSON(c.result)
		}
		p.reply(r)
		if req.Method == wire.GuardStop {
			g.notedOne.Do(func() { close(g.noted) })
		}
	}
	select {
	case <-c.done:
		reply()
	default:
		g.wg.Go(reply)
	}
}

// ownerLocked refuses a command of whoever does not own the guard (any more).
func (g *guard) ownerLocked(p *peer, generation uint64) *wire.Error {
	if p != g.owner || generation != g.fence.Generation {
		return wire.Errorf(wire.CodeStaleGeneration, "Generation %d does not own this guard.", generation)
	}
	return nil
}

func (c *command) finish(result any, err error) {
	c.result = result
	if err != nil && !errors.As(err, &c.err) {
		c.err = wire.Errorf(wire.CodeInternal, "The guard could not do it; see its log.")
	}
	close(c.done)
}

// rememberLocked keeps a command for repeats and forgets the oldest that is
// done.
func (g *guard) rememberLocked(id string, c *command) {
	g.commands[id] = c
	g.order = append(g.order, id)
	if len(g.order) <= maxCommands {
		return
	}
	for i, old := range g.order {
		select {
		case <-g.commands[old].done:
			delete(g.commands, old)
			g.order = slices.Delete(g.order, i, i+1)
			return
		default:
		}
	}
}

// readyLocked says why nothing new can begin.
func (g *guard) readyLocked() error {
	if g.expiredLocked() {
		return wire.Errorf(wire.CodeDeadlinePassed, "The deadline of the mission has passed.")
	}
	if g.ending != "" {
		return wire.Errorf(wire.CodeShuttingDown, "The guard is ending.")
	}
	return nil
}

// startLocked leaves all that takes a look at the checkout for later.
func (g *guard) startLocked(by *peer, p wire.StartParams) (any, later, error) {
	if err := g.startableLocked(); err != nil {
		return nil, nil, err
	}
	return nil, func() (any, error) { return nil, g.start(by, p) }, nil
}

func (g *guard) startableLocked() error {
	if err := g.readyLocked(); err != nil {
		return err
	}
	if g.launch != nil {
		return wire.Errorf(wire.CodeAlreadyRunning, "The guard was started already.")
	}
	return nil
}

func (g *guard) start(by *peer, p wire.StartParams) error {
	l := p.Launch
	if _, err := g.o.Providers(l.Provider); err != nil {
		return wire.Errorf(wire.CodeNotFound, "There is no provider %s.", short(l.Provider, 64))
	}
	if !filepath.IsAbs(l.Folder) {
		return wire.InvalidField("folder", "is not an absolute path")
	}
	folder, ok := beside(folderFor, func() os.FileInfo {
		info, err := os.Stat(l.Folder)
		if err != nil || !info.IsDir() {
			return nil
		}
		// On Windows this is what finds out which folder it is: later another
		// may have its name.
		os.SameFile(info, info)
		return info
	})
	switch {
	case !ok:
		return wire.InvalidField("folder", "does not answer; check the disk or the network mount that it is on")
	case folder == nil:
		return wire.InvalidField("folder", "is not a directory any more; start the mission in one that exists")
	}
	if err := checkInstructions(l); err != nil {
		return wire.InvalidField("instructions", "can't be used: "+err.Error())
	}
	limits := mission.Limits(p.Limits)
	if bad := mission.CheckLimits(limits); bad != nil {
		return wire.InvalidField("limits", "can't be kept: "+bad.Message)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// Another may have claimed the guard during the look at the folder.
	if err := g.ownerLocked(by, p.Generation); err != nil {
		return err
	}
	if err := g.startableLocked(); err != nil {
		return err
	}
	g.launch, g.folder = &l, folder
	g.meter.limits, g.meter.before = limits, p.UsedCPU
	g.limitTreeLocked()
	g.redact.Store(redactor(l.Env))
	return nil
}

func (g *guard) turnLocked(p wire.TurnParams) error {
	if err := g.readyLocked(); err != nil {
		return err
	}
	switch {
	case g.launch == nil:
		return wire.Errorf(wire.CodeConflict, "The guard was not started yet; send guard.start first.")
	case g.turn != nil:
		return wire.Errorf(wire.CodeAlreadyRunning, "The turn %s is in flight.", g.turn.p.Turn)
	case p.Turn == "" || p.Prompt == "":
		return wire.InvalidField("prompt", "and turn must be given")
	}
	t := &turn{
		p: p, begun: g.o.Now(), halted: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{}),
		begins: make(map[string]mission.Instant),
	}
	err := g.appendLocked(wire.KindTurnStarted, wire.TurnStarted{Turn: p.Turn, Number: p.Number, Prompt: p.Prompt, Steering: p.Steering})
	if err == nil {
		err = g.syncLocked()
	}
	if err != nil {
		return err
	}
	fault.Point("guard.turn-logged")
	g.turn = t
	if g.meter.over() == causeCPU {
		g.haltLocked(causeCPU)
	}
	select {
	case g.lookNow <- struct{}{}:
	default:
	}
	g.wg.Go(func() { g.runTurn(t) })
	return nil
}

func (g *guard) interruptLocked() later {
	t := g.turn
	if t == nil {
		return nil
	}
	g.haltLocked(causeInterrupt)
	return func() (any, error) {
		<-t.ended
		return nil, nil
	}
}

func (g *guard) stopLocked(p wire.GuardStopParams) later {
	reason := p.Reason
	if reason == "" {
		reason = "stop"
	}
	// A stop that comes when the time is over is the deadline's.
	if !g.expiredLocked() {
		g.askToEndLocked(causeStop, reason)
	}
	return func() (any, error) {
		<-g.ended
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.result, nil
	}
}
