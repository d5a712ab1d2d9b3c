package supervisor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/store"
)

// Answer settles an approval for a person: the answer is journaled first, then
// announced, then brought to whoever waits for it.
func (s *Supervisor) Answer(ctx context.Context, id, digest string, a approvals.Answer) (approvals.Record, error) {
	var r approvals.Record
	var ok bool
	err := s.DB.View(func(tx *store.Tx) (err error) { r, ok, err = approvals.Get(tx, id); return })
	if err != nil {
		return r, err
	}
	if !ok {
		return r, wire.Errorf(wire.CodeNotFound, "There is no approval %s; run reeve approvals to see what waits.", id)
	}
	if r.State != approval.Pending {
		return r, refusal(r, settledErr(r))
	}
	a.At = s.now()
	if _, err := newRule(r, a); err != nil {
		return r, err
	}
	var out approvals.Record
	err = s.do(ctx, r.Mission, func(w *worker) (err error) {
		switch r.Kind {
		case approval.MissionStart:
			out, err = w.answerStart(ctx, r, digest, a)
		case approval.MissionRecover:
			out, err = w.answerRecovery(ctx, r, digest, a)
		default:
			out, err = w.answerTool(r, digest, a)
		}
		return err
	})
	return out, err
}

func settledErr(r approvals.Record) error {
	if r.State == approval.Allowed || r.State == approval.Denied {
		return approvals.ErrAnswered
	}
	return approvals.ErrStale
}

// refusal turns the queue's reasons into what clients are told.
func refusal(r approvals.Record, err error) error {
	switch {
	case errors.Is(err, approvals.ErrNotFound):
		return wire.Errorf(wire.CodeNotFound, "There is no such approval; run reeve approvals to see what waits.")
	case errors.Is(err, approvals.ErrMismatch):
		return wire.Errorf(wire.CodeApprovalMismatch, "The digest is not that of this approval. Look at it again, then answer what you saw.")
	case errors.Is(err, approvals.ErrAnswered):
		by := "somebody"
		if r.Answer != nil {
			by = r.Answer.Who.String()
		}
		return wire.Errorf(wire.CodeAlreadyAnswered, "This approval was %s already, by %s. Nothing was changed.", r.State, by).
			With(map[string]any{"state": r.State, "answer": r.Answer})
	case errors.Is(err, approvals.ErrMaxRules):
		return wire.Errorf(wire.CodeLimitExceeded, "%v.", err)
	case errors.Is(err, approvals.ErrStale):
		return wire.Errorf(wire.CodeApprovalStale, "This request is gone (%s), so nothing was decided.", r.State).
			With(map[string]any{"state": r.State})
	}
	return err
}

// answerStart allows or denies the start of a proposed mission.
func (w *worker) answerStart(ctx context.Context, ask approvals.Record, digest string, a approvals.Answer) (approvals.Record, error) {
	var out approvals.Record
	decide := func(tx *store.Tx) (err error) {
		out, err = approvals.Decide(tx, ask.ID, digest, a, nil)
		return refusal(out, err)
	}
	if !a.Allow {
		err := w.step(mission.EvDenied, func(r *Record) { r.EndReason = mission.EndDenied }, decide)
		if err == nil {
			w.s.Announce.Approval(out)
		}
		return out, err
	}
	if !w.s.haveSecrets(w.rec) {
		return out, wire.Errorf(wire.CodeConflict, "The service was restarted since the mission was proposed and no longer has %s; propose the mission again.", strings.Join(w.rec.Secrets, ", "))
	}
	if err := w.unchanged(ctx); err != nil {
		return out, err
	}
	seen, err := w.s.look(ctx, w.rec)
	if err != nil {
		return out, err
	}
	start := w.s.Now()
	attempt := NewID("a")
	err = w.step(mission.EvAllowed, func(r *Record) {
		r.StartedAt = start.Wall.Round(0).UTC()
		r.Deadline = mission.NewDeadline(start, r.Terms.Minutes)
		r.Session, r.Attempt = "s-"+r.ID[2:], attempt
		r.Bridge = newBridge(*r)
	}, decide, func(tx *store.Tx) error {
		// Each live mission has one claim, so two starts at once can't both
		// be the last.
		if n, err := checkout.Count(tx); err != nil {
			return err
		} else if n >= MaxLive {
			return wire.Errorf(wire.CodeLimitExceeded, "%d missions are live already; stop one first.", MaxLive)
		}
		if err := w.s.take(tx, w.rec, attempt, seen); err != nil {
			return err
		}
		if err := w.openRoom(tx); err != nil {
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: w.rec.ID, Actor: a.Who.String(), Text: "started"})
	})
	if err != nil {
		return out, err
	}
	fault.Point("service.start-journaled")
	w.s.Announce.Approval(out)
	w.start()
	return out, nil
}

// answerTool decides a permission request of the agent.
func (w *worker) answerTool(ask approvals.Record, digest string, a approvals.Answer) (approvals.Record, error) {
	rule, err := newRule(ask, a)
	if err != nil {
		return ask, err
	}
	if w.rec.Deadline.Passed(w.s.Now()) {
		return ask, wire.Errorf(wire.CodeDeadlinePassed, "The mission's time is over; nothing is allowed any more.")
	}
	var out approvals.Record
	var repeats []approvals.Record
	var asked effects.Record // the effect of a tool that asked
	err = w.commit(func(r *Record) {
		if !a.Allow {
			r.denied(ask.Tool, a.At)
		}
	}, func(tx *store.Tx) (err error) {
		if out, err = approvals.Decide(tx, ask.ID, digest, a, rule); err != nil {
			return refusal(out, err)
		}
		if out.Effect != "" {
			asked, err = w.answerEffect(tx, out)
			return err
		}
		repeats, err = approvals.Together(tx, out)
		return err
	})
	if err != nil {
		return out, err
	}
	fault.Point("service.answer-journaled")
	w.s.Announce.Approval(out)
	if out.Effect != "" {
		w.s.Announce.Effect(asked)
	} else {
		w.deliver(out)
	}
	for _, r := range repeats {
		w.deliver(r)
	}
	if a.Stop && !a.Allow {
		err = w.end(mission.EndPerson)
	}
	return out, err
}

// Steer queues an instruction for the next turn.
func (s *Supervisor) Steer(ctx context.Context, id, text string) (Record, error) {
	var out Record
	err := s.do(ctx, id, func(w *worker) error {
		if len(w.rec.Steering) >= mission.MaxInstructions {
			return wire.Errorf(wire.CodeLimitExceeded, "A mission takes at most %d instructions; this one has them all.", mission.MaxInstructions)
		}
		if w.rec.Phase == mission.Stopping {
			return wire.Errorf(wire.CodeConflict, "The mission is stopping; it takes no more instructions.")
		}
		if !w.rec.StartedAt.IsZero() && w.rec.Deadline.Passed(s.Now()) {
			return wire.Errorf(wire.CodeDeadlinePassed, "The mission's time is over.")
		}
		err := w.commit(func(r *Record) {
			r.Steering = append(r.Steering, Steering{ID: len(r.Steering) + 1, Text: text, State: SteerReceived, At: s.now()})
		})
		out = w.rec.clone()
		return err
	})
	return out, err
}

// settleLimit bounds how long pause and stop wait for what they asked for.
const settleLimit = 30 * time.Second

// Pause interrupts the turn in flight and answers when the mission is paused.
// The deadline stands.
func (s *Supervisor) Pause(ctx context.Context, id string) (Record, error) {
	var target *worker
	err := s.do(ctx, id, func(w *worker) error {
		target = w
		switch w.rec.Phase {
		case mission.Paused:
			return nil
		case mission.Waiting:
			return w.step(mission.EvPause, func(r *Record) { r.NextTurn = time.Time{} })
		case mission.Working:
			if w.guard == nil {
				return wire.Errorf(wire.CodeConflict, "The guard of this mission is being looked for; try again in a moment.")
			}
			w.pausing = true
			if !w.calling {
				w.interrupt() // else once the guard has the turn
			}
			return nil
		}
		return wire.Errorf(wire.CodeConflict, "Only a running mission can be paused; this one is %s.", w.rec.Phase)
	})
	if err != nil {
		return Record{}, err
	}
	return s.settled(ctx, target, "paused", func(r Record) bool {
		return r.Phase == mission.Paused || r.Phase == mission.Blocked || r.Phase.Terminal()
	})
}

// interrupt asks the guard to end the turn in flight. A turn that is still on
// its way to the guard would not be reached.
func (w *worker) interrupt() {
	g := w.guard
	if g == nil {
		return
	}
	w.async(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		return g.Interrupt(ctx, wire.InterruptParams{Reason: "paused by a person"})
	}, func(err error) {
		if err != nil {
			w.s.Log.Warn("interrupting a turn", "mission", w.rec.ID, "err", err)
		}
	})
}

func (s *Supervisor) settled(ctx context.Context, w *worker, what string, ok func(Record) bool) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	r, err := w.await(ctx, ok)
	if errors.Is(err, context.DeadlineExceeded) {
		err = wire.Errorf(wire.CodeUnavailable, "The mission was not %s within %d seconds; it is %s. Look at it again, or stop it.", what, int(settleLimit.Seconds()), r.Phase)
	}
	return r, err
}

// Resume lets a paused or blocked mission go on.
func (s *Supervisor) Resume(ctx context.Context, id string) (Record, error) {
	var out Record
	err := s.do(ctx, id, func(w *worker) error {
		switch {
		case w.rec.Phase != mission.Paused && w.rec.Phase != mission.Blocked:
			return wire.Errorf(wire.CodeConflict, "Only a paused or blocked mission can be resumed; this one is %s.", w.rec.Phase)
		case w.rec.Deadline.Passed(s.Now()):
			return wire.Errorf(wire.CodeDeadlinePassed, "The mission's time is over; start a new one.")
		case w.rec.Awaits:
			return wire.Errorf(wire.CodeConflict, "The mission goes on by itself once it has what it waits for. %s", w.rec.BlockedBy)
		case w.guard == nil:
			return wire.Errorf(wire.CodeConflict, "The mission's guard is gone, so it can't be resumed. Recover it or stop it.")
		case len(w.rec.Left) > 0:
			return wire.Errorf(wire.CodeConflict, "Processes of the mission could not be ended (%s); stop the mission.", w.rec.Left[0])
		}
		err := w.step(mission.EvResume, func(r *Record) {
			r.BlockedBy, r.Failure, r.Failures, r.Held = "", nil, 0, ""
			if r.Last != nil && r.Last.Outcome != mission.Interrupted && r.Last.Outcome != mission.Succeeded {
				r.Last = nil
			}
		})
		out = w.rec.clone()
		return err
	})
	return out, err
}

// Stop ends a mission and answers when its tree is empty and its checkout
// released. Stopping one that has ended is no error.
func (s *Supervisor) Stop(ctx context.Context, id string) (Record, error) {
	if r, err := s.Get(id); err != nil || r.Phase.Terminal() {
		return r, err
	}
	var target *worker
	err := s.do(ctx, id, func(w *worker) error {
		target = w
		return w.end(mission.EndPerson)
	})
	if err != nil {
		if r, e := s.Get(id); e == nil && r.Phase.Terminal() {
			return r, nil
		}
		return Record{}, err
	}
	return s.settled(ctx, target, "stopped", func(r Record) bool {
		return r.Phase.Terminal() || r.Phase == mission.Blocked && len(r.Left) > 0
	})
}

// Refused notes that a worker of the mission tried n times what only a person
// may do.
func (s *Supervisor) Refused(ctx context.Context, id string, n int) error {
	err := s.do(ctx, id, func(w *worker) error { return w.commit(func(r *Record) { r.Refusals += n }) })
	if err == nil {
		return nil
	}
	// A mission that has ended has no goroutine, and nothing else changes it.
	var r Record
	var ended bool
	if e := s.DB.Update(ctx, func(tx *store.Tx) (err error) {
		var ok bool
		r, ok, err = Load(tx, id)
		if ended = ok && r.Phase.Terminal(); err != nil || !ended {
			return err
		}
		r.Refusals += n
		r.Revision++
		return save(tx, r)
	}); e != nil || !ended {
		return errors.Join(err, e)
	}
	s.Announce.Mission(r)
	return nil
}

// Refuse turns a checkout's refusal into what clients are told.
func Refuse(err error) error {
	var r *checkout.Refusal
	if !errors.As(err, &r) {
		return err
	}
	code := wire.CodeInvalidParams
	if r.Owner != "" {
		code = wire.CodeConflict
	}
	return wire.Errorf(code, "%s %s", r.What, r.Fix).With(map[string]any{"field": "folder", "rule": r.Name, "mission_id": r.Owner})
}
