package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/store"
)

// end begins the ending of a live mission: what waits is closed, the guard
// ends its tree, and the mission settles when that is done. If it can't be
// journaled the guard ends its tree all the same, since nobody should have to
// wait for room on a disk to stop a worker; the record follows later.
func (w *worker) end(why mission.EndReason) error {
	if w.rec.Phase == mission.Stopping || w.rec.Phase.Terminal() {
		return nil
	}
	event := why.Event()
	if w.rec.Phase == mission.Blocked && event == mission.EvDone {
		event = mission.EvStop // the claim was stuck at the first end
	}
	state, via := approval.Withdrawn, "stop"
	if why == mission.EndDeadline {
		state, via = approval.Expired, "deadline"
	}
	var closed []approvals.Record
	err := w.step(event, func(r *Record) {
		r.EndReason, r.NextTurn = why, time.Time{}
		r.BlockedBy = ""
		if why == mission.EndBudget {
			r.Failure = &Failure{Stage: mission.StageExecution, Code: mission.BudgetReached, Message: mission.BudgetReached.Sentence()}
			if l := r.Terms.Limits; l.CPUReached(r.Use.cpu()) {
				r.Failure.Message = l.OverCPU().Sentence()
			}
		}
	}, func(tx *store.Tx) (err error) {
		if closed, err = approvals.CloseAll(tx, w.rec.ID, state, via, w.s.now()); err != nil {
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: w.rec.ID, Text: "stopping: " + string(why)})
	})
	var refused *wire.Error
	if errors.As(err, &refused) {
		return err // the phase does not allow it
	}
	if err != nil {
		w.fail("the end of a mission could not be journaled", err, func() { _ = w.end(why) })
		if w.guard != nil {
			w.stopGuard(string(why))
		}
		return wire.Errorf(wire.CodeUnavailable, "The end could not be journaled: %v. The worker was told to end; the mission settles when the journal can be written again.", err)
	}
	fault.Point("service.end-journaled")
	for _, a := range closed {
		w.s.Announce.Approval(a)
	}
	w.stopGuard(string(why))
	return nil
}

// stopLimit is how long a guard may take to end its tree, which takes it 12 s
// at most, before a person is told that it doesn't answer.
const stopLimit = 20 * time.Second

// stopGuard brings a stopping mission to its end: through its guard, or, when
// that is gone, by proof that it is.
func (w *worker) stopGuard(reason string) {
	switch {
	case w.starting, w.losing:
		if w.forgo != nil {
			w.forgo()
		}
		return // what is under way settles the mission
	case w.guard != nil:
	case w.rec.Attempt == "" || w.alive == mission.GuardGone:
		w.settle(nil)
		return
	default:
		w.lookAgain()
		return
	}
	g := w.guard
	w.async(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		_, err := g.Stop(ctx, wire.GuardStopParams{Reason: reason})
		return err
	}, func(err error) {
		if err == nil {
			return // the end of its connection follows
		}
		w.s.Log.Warn("stopping a guard", "mission", w.rec.ID, "err", err)
		if errors.Is(err, context.DeadlineExceeded) && w.guard == g && w.rec.Phase == mission.Stopping {
			w.settle([]string{fmt.Sprintf("the guard, process %d, which does not answer", g.Record.PID)})
		}
	})
}

// settle enters the terminal phase: the tree is empty, the claim is released.
// What the kernel refused to end keeps the claim, and a person has to look.
func (w *worker) settle(left []string) {
	if len(left) > 0 {
		err := w.step(mission.EvClaimStuck, func(r *Record) {
			r.Left = left
			r.BlockedBy = "The checkout is kept, because these could not be ended: " + strings.Join(left, ", ") + ". Stop the mission again to look again."
		})
		if err != nil {
			w.fail("what is left of a worker could not be journaled", err, func() { w.settle(left) })
		}
		return
	}
	fault.Point("service.tree-empty")
	again := func() {
		if w.rec.Phase == mission.Stopping {
			w.settle(nil)
		}
	}
	if w.pictureEnd(again) {
		return
	}
	var done aftermath
	err := w.step(w.rec.EndReason.Settled(), func(r *Record) {
		r.Left, r.BlockedBy, r.End = nil, "", w.endTree
		w.closeTurn(r)
	}, func(tx *store.Tx) (err error) {
		if err := checkout.Release(tx, w.rec.Folder(), w.rec.ID); err != nil {
			return err
		}
		if done, err = w.loseAll(tx, "its mission ended"); err != nil {
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: w.rec.ID, Text: "ended: " + string(w.rec.EndReason)})
	})
	w.announce(done, err)
	if err != nil {
		w.fail("a mission could not settle", err, again)
	}
}

// closeTurn marks a turn that never reported its end.
func (w *worker) closeTurn(r *Record) {
	if t := r.turn(); t != nil && t.Outcome == nil {
		out := mission.TurnOutcome{Outcome: mission.Interrupted}
		if r.EndReason == mission.EndDeadline {
			out.Outcome = mission.TimedOut
		}
		if t.Spending != nil {
			out.Usage = *t.Spending
		}
		r.ended(&out, w.s.now())
		for i := range r.Steering {
			if r.Steering[i].Turn == t.Number {
				r.Steering[i].State = SteerUnconfirmed
			}
		}
	}
}
