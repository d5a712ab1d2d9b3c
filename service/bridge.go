package service

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// ofThis refuses what was meant for another generation of the service. Clients
// match on how the message begins: they negotiate anew and try again.
func (s *Service) ofThis(generation uint64) error {
	if generation != s.id.Generation || s.db.FencedBy() != nil {
		return staleDaemon(generation)
	}
	return nil
}

func staleDaemon(generation uint64) error {
	return wire.Errorf(wire.CodeStaleGeneration, "Stale daemon generation %d: negotiate again, then repeat the request.", generation)
}

// bridged is db.Update for a request of a worker: a service that was fenced
// meanwhile is stale, which the worker's bridge knows what to do about.
func (s *Service) bridged(ctx context.Context, fn func(tx *store.Tx) error) error {
	err := s.db.Update(ctx, fn)
	if errors.Is(err, store.ErrFenced) {
		return staleDaemon(s.id.Generation)
	}
	return err
}

// runBegins forgets the session of a run that is over, and has those look who
// wait for something of the mission.
func (s *Service) runBegins(r supervisor.Record) {
	execution := r.Bridge.Execution
	if r.Phase.Terminal() {
		execution = ""
	}
	s.bindings.runIs(r.ID, execution)
	s.pulse.beat()
}

// runOf returns the mission whose run the coordinates name, from memory.
func (s *Service) runOf(c wire.Coordinates) (supervisor.Record, error) {
	r, _ := s.sup.Current(c.Entry)
	return r, r.Holds(c)
}

// BindWorker binds an agent session to a worker's run.
func (s *Service) BindWorker(ctx context.Context, _ server.Actor, p wire.BindParams) (wire.BindResult, error) {
	r, err := s.runOf(p.Coordinates)
	if err != nil {
		return wire.BindResult{}, err
	}
	if err := s.bindings.bind(ctx, p, r.Bridge); err != nil {
		if errors.Is(err, store.ErrFenced) {
			err = staleDaemon(s.id.Generation)
		}
		return wire.BindResult{}, err
	}
	return wire.BindResult{Bound: true, Entry: p.Entry, Session: p.Session}, nil
}

// VerifyWorker says whether exactly this binding is current. It touches neither
// the journal nor a lock that anybody holds while they do.
func (s *Service) VerifyWorker(_ context.Context, _ server.Actor, p wire.BindParams) (wire.BindResult, error) {
	r, err := s.runOf(p.Coordinates)
	if err != nil {
		return wire.BindResult{}, err
	}
	if p.Room != r.Bridge.Room || !s.bindings.verify(p) {
		return wire.BindResult{}, wire.Errorf(wire.CodeCredentialStale, "This binding is not current; bind again.")
	}
	return wire.BindResult{Bound: true, Entry: p.Entry, Session: p.Session}, nil
}

// BorrowCredential lends the token of a session.
func (s *Service) BorrowCredential(ctx context.Context, _ server.Actor, p wire.BorrowParams) (wire.BorrowResult, error) {
	if err := s.ofThis(p.Generation); err != nil {
		return wire.BorrowResult{}, err
	}
	r, err := s.runOf(p.Coordinates)
	if err != nil {
		return wire.BorrowResult{}, err
	}
	out, err := s.bindings.borrow(ctx, p, r.Bridge)
	if errors.Is(err, store.ErrFenced) {
		err = staleDaemon(p.Generation)
	}
	return out, err
}

// CheckpointWorker records how far the agent has read its room, which is never
// beyond what it was told.
func (s *Service) CheckpointWorker(ctx context.Context, _ server.Actor, p wire.CheckpointParams) (wire.CheckpointResult, error) {
	n, err := room.ParseCursor(p.Cursor)
	if err != nil {
		return wire.CheckpointResult{}, wire.InvalidField("room_cursor", "must be msg_<n>, n from 1 to 2147483647")
	}
	r, err := s.runOf(p.Coordinates)
	if err != nil {
		return wire.CheckpointResult{}, err
	}
	cursor, elsewhere, err := s.bindings.checkpoint(ctx, p, n)
	if err == nil && !elsewhere {
		if p.Session != r.Bridge.Session {
			return wire.CheckpointResult{}, wire.Errorf(wire.CodeCredentialStale, "This session is not the worker's; bind it first.")
		}
		err = s.bridged(ctx, func(tx *store.Tx) error {
			r, _, err := supervisor.Load(tx, p.Entry)
			if err == nil {
				err = r.Holds(p.Coordinates)
			}
			if err != nil {
				return err
			}
			if b, bound := s.bindings.get(p.Entry); bound && b.Session == p.Session && b.Room != r.Bridge.Room {
				return wire.Errorf(wire.CodeCredentialStale, "The worker has moved to another room since this session was bound; bind it anew.")
			}
			read, err := told(tx, r, n)
			if err == nil {
				cursor, err = room.Acknowledge(tx, r.Bridge.Room, p.Entry, read)
			}
			return err
		})
	}
	switch {
	case errors.Is(err, room.ErrBeyond):
		err = wire.InvalidField("room_cursor", "is beyond the newest message of the room")
	case errors.Is(err, store.ErrFenced):
		err = staleDaemon(s.id.Generation)
	}
	return wire.CheckpointResult{Cursor: room.Cursor(cursor)}, err
}

// PrepareEffect journals what a worker is about to do, and says how it is to be
// done.
func (s *Service) PrepareEffect(ctx context.Context, a server.Actor, p wire.PrepareParams) (wire.PrepareResult, error) {
	if err := s.ofThis(p.Generation); err != nil {
		return wire.PrepareResult{}, err
	}
	if !p.Mutation {
		if err := s.calls.take(p.Entry, s.o.Now().Wall); err != nil {
			return wire.PrepareResult{}, err
		}
	}
	leave, err := s.calls.alone(ctx, keyOf(p.ToolParams, ""))
	if err != nil {
		return wire.PrepareResult{}, err
	}
	defer leave()
	e, at, made, err := s.journal(ctx, a, p)
	if err == nil {
		err = s.lookAgain(ctx, p.Coordinates, e, made)
	}
	if err != nil {
		return wire.PrepareResult{}, err
	}
	return prepared(e, at)
}

// journal writes down what a worker is about to do, and in which room it is.
// made says that this very call did so first.
func (s *Service) journal(ctx context.Context, a server.Actor, p wire.PrepareParams) (e effects.Record, at string, made bool, err error) {
	fault.Point("bridge.prepare-deciding")
	var changed bool
	var r supervisor.Record
	err = s.bridged(ctx, func(tx *store.Tx) (err error) {
		e, r, changed, err = s.prepare(tx, a, p.ToolParams, p.Mutation, false)
		return err
	})
	if err != nil {
		return e, "", false, effectRefusal(err)
	}
	fault.Point("bridge.prepare-journaled")
	if changed {
		s.announceEffect(e)
	}
	return e, r.Bridge.Room, changed && e.Revision == 1, nil
}

// lookAgain refuses an effect whose turn ended, or whose mission's time did,
// while it was written. What the refused call itself has made did not happen:
// nobody was told to do it, as calls for the same are answered one after another.
// Of an effect that an earlier call made, nobody knows whether that one was heard.
func (s *Service) lookAgain(ctx context.Context, c wire.Coordinates, e effects.Record, made bool) error {
	c.Turn = e.Turn // by now another may be in flight
	now, _ := s.sup.Current(c.Entry)
	_, no := now.Authority(c, s.o.Now())
	if no == nil || !made || !e.Mutation || e.Own {
		return no
	}
	var changed bool
	err := s.bridged(context.WithoutCancel(ctx), func(tx *store.Tx) (err error) {
		e, changed, err = effects.Refuse(tx, e.ID, "its turn or the mission's time was over before it could begin", s.now())
		return err
	})
	if err != nil {
		s.log.Error("an effect that was refused is not on record as one that did not happen", "effect", e.ID, "err", err)
	} else if changed {
		s.announceEffect(e)
	}
	return no
}

// prepared tells a bridge what to do about an effect.
func prepared(e effects.Record, room string) (wire.PrepareResult, error) {
	out := wire.PrepareResult{State: wire.EffectPrepared, Room: room, Effect: e.ID}
	switch e.State {
	case effects.Executing:
		out.Action, out.SourceMessage, out.Destination = e.Action, e.Source, e.Destination
	case effects.Completed:
		out.State, out.Result = wire.EffectCompleted, orNull(e.Result)
	case effects.Failed:
		return wire.PrepareResult{}, didNotHappen(e)
	default:
		out.State, out.Error = wire.EffectUncertain, e.Known()+" It is not done again."
	}
	return out, nil
}

// didNotHappen repeats how an effect failed.
func didNotHappen(e effects.Record) error {
	why := e.Known()
	if e.Error != "" {
		why = e.Error
	}
	return wire.Errorf(wire.CodeConflict, "%s", why).With(map[string]string{"effect_id": e.ID, "state": string(e.State)})
}

// CompleteEffect records how an effect ended. What the service does itself, it
// also completes itself.
func (s *Service) CompleteEffect(ctx context.Context, a server.Actor, p wire.CompleteParams) (wire.CompleteResult, error) {
	if err := s.ofThis(p.Generation); err != nil {
		return wire.CompleteResult{}, err
	}
	c := p.Coordinates
	c.Turn = "" // what happened is true after its turn, too
	fault.Point("bridge.complete-deciding")
	var e effects.Record
	var r supervisor.Record
	var closed approvals.Record // what was asked as part of it
	var changed, unasked bool
	err := s.bridged(ctx, func(tx *store.Tx) (err error) {
		if r, _, err = supervisor.Load(tx, p.Entry); err == nil {
			err = r.Holds(c)
		}
		if err != nil {
			return err
		}
		of := effects.Coordinates{Mission: p.Entry, Attempt: p.Attempt, Execution: p.Execution}
		changed, unasked = false, false
		if have, ok, err := effects.Get(tx, p.Effect); err != nil {
			return err
		} else if ok && have.Coordinates.Execution == p.Execution && have.Mission == p.Entry && have.Own && have.State == effects.Executing {
			if e = have; have.Action != wire.ActionExecute {
				return nil // it happens at the end of the turn
			}
			if p.Error == "" {
				return wire.Errorf(wire.CodeConflict, "Reeve does %s itself: have it executed, then complete it.", have.Tool)
			}
		}
		end := effects.End{Result: p.Result, Error: p.Error, By: effects.Process(a.Process), At: s.now()}
		if string(end.Result) == "null" {
			end.Result = nil
		}
		if e, changed, err = effects.Complete(tx, of, p.Effect, end); err != nil || end.Error == "" {
			return err
		}
		closed, unasked, err = supervisor.Unask(tx, e, end.At)
		return err
	})
	if err != nil {
		return wire.CompleteResult{}, effectRefusal(err)
	}
	fault.Point("bridge.complete-journaled")
	if changed {
		s.announceEffect(e)
	}
	if unasked {
		s.announceApproval(closed)
		s.sup.Show(e.Mission)
	}
	return wire.CompleteResult{Effect: e.ID, State: string(e.State), Room: r.Bridge.Room}, nil
}

// meter holds each mission's worker to a pace. Every call writes to the journal
// and to the audit, which nothing shortens, so a worker that reads in a loop
// would fill the disk. Effects are counted: an attempt may only have so many.
// Calls for the same are let in one after another. Its zero value is ready to use.
type meter struct {
	mu    sync.Mutex
	full  map[string]time.Time // when all calls may be made again at once
	lines map[effects.Key]*line
}

// line is where calls for the same stand.
type line struct {
	calls int
	turn  chan struct{} // full while one is let in
}

// alone returns when no other call for the same is let in. leave lets the next in.
func (m *meter) alone(ctx context.Context, key effects.Key) (leave func(), err error) {
	m.mu.Lock()
	l := m.lines[key]
	if l == nil {
		if m.lines == nil {
			m.lines = map[effects.Key]*line{}
		}
		l = &line{turn: make(chan struct{}, 1)}
		m.lines[key] = l
	}
	l.calls++
	m.mu.Unlock()
	gone := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.calls--; l.calls == 0 {
			delete(m.lines, key)
		}
	}
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}

// The pace: so many calls at once, and one more each time.
const (
	burstCalls = 120
	callEvery  = 250 * time.Millisecond
)

// take counts one call of a mission at now, whose monotonic reading counts. The
// refusal is a *wire.Error.
func (m *meter) take(mission string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full == nil {
		m.full = map[string]time.Time{}
	}
	maps.DeleteFunc(m.full, func(_ string, at time.Time) bool { return !at.After(now) })
	at, busy := m.full[mission]
	if !busy {
		at = now
	}
	if at.Sub(now) > (burstCalls-1)*callEvery {
		return wire.Errorf(wire.CodeRateLimited, "This worker calls too often. Wait %v between calls; get_updates can wait for news by itself.", callEvery)
	}
	m.full[mission] = at.Add(callEvery)
	return nil
}

// pulse tells whoever waits that something changed, so that they look again.
type pulse struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed at the next beat. Take it before looking.
func (p *pulse) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch == nil {
		p.ch = make(chan struct{})
	}
	return p.ch
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch != nil {
		close(p.ch)
		p.ch = nil
	}
}
