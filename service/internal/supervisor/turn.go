package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/store"
)

// reportGrace is how long after the deadline a guard may take to say how the
// turn ended: its tree is gone 8 s after the deadline.
const reportGrace = 12 * time.Second

// schedule asks the rules what to do next, when there is something to decide.
func (w *worker) schedule() {
	if w.fault != nil && !w.heal() || w.calling || w.rec.Phase.Terminal() {
		return
	}
	now := w.s.Now()
	if w.guard == nil {
		w.expire(now)
		return
	}
	switch w.rec.Phase {
	case mission.Waiting:
		if w.rec.Held == mission.Paused { // before an update ended its guard
			if err := w.step(mission.EvPause, func(r *Record) { r.Held = "" }); err != nil {
				w.fail("that a mission stays paused could not be journaled", err, nil)
			}
			return
		}
		if w.inFlight() {
			// The guard has a turn that this phase forgot, as after a block or
			// a quarantine: there can't be another beside it.
			if err := w.step(mission.EvTurnStarted, nil); err != nil {
				w.fail("a turn in flight could not be journaled", err, nil)
			}
			return
		}
	case mission.Paused, mission.Blocked, mission.Working:
		if w.rec.Phase == mission.Blocked && w.rec.EndReason != "" {
			return // it was being ended already, and a person has to look
		}
		// Only the deadline and what the turn in flight spends matter. The guard
		// keeps the deadline by itself, and the turn gets the time to report its
		// end.
		due := now
		if w.rec.Phase == mission.Working {
			due.Wall, due.Boot = due.Wall.Add(-reportGrace), due.Boot-reportGrace
		}
		if w.rec.Deadline.Passed(due) {
			_ = w.end(mission.EndDeadline)
			return
		}
		if w.rec.Phase == mission.Working && w.rec.Terms.Budget.Ends(w.rec.Spent()) {
			_ = w.end(mission.EndBudget)
			return
		}
		w.timer.Reset(max(time.Second, min(5*time.Second, w.rec.Deadline.Remaining(now))))
		return
	default:
		return
	}
	d := mission.Schedule(w.input(now))
	switch d.Act {
	case mission.Run:
		w.beginTurn()
	case mission.Stop:
		_ = w.end(d.End) // a failure is a fault, which is shown
	case mission.Block:
		w.block(d.Code, d.Reason)
	case mission.Wait:
		if !w.rec.NextTurn.Equal(d.Until.UTC()) {
			w.rec.NextTurn = d.Until.UTC()
			w.touch()
		}
		// Timers stand still while the machine sleeps, so look again soon.
		w.timer.Reset(max(time.Millisecond, min(5*time.Second, d.Until.Sub(now.Wall))))
	}
}

func (w *worker) input(now mission.Instant) mission.ScheduleInput {
	r := &w.rec
	if r.LastEnded.After(now.Wall) {
		// The clock was set back. Waiting for it to come around again would
		// leave the agent idle for as long as it was set back.
		r.LastEnded = now.Wall.Round(0).UTC()
	}
	return mission.ScheduleInput{
		Now: now, Deadline: r.Deadline, Project: mission.ProjectStarted, ContactKnown: true,
		SteeringQueued: r.queued(), First: len(r.Turns) == 0, Last: r.Last, LastEnded: r.LastEnded,
		Failures: r.Failures, Spent: r.Spent(), Budget: r.Terms.Budget, Limits: r.Terms.Limits, CPUSeconds: r.Use.cpu(), Quiet: w.quiet,
		Updating: w.s.updating.Load(), WaitForReset: r.Terms.WaitForReset, News: mission.News{Unread: w.unread()},
	}
}

// beginTurn journals the turn with the steering it carries, then has the guard
// run it.
func (w *worker) beginTurn() {
	r := &w.rec
	turn := Turn{ID: NewID("t"), Number: r.TurnCount() + 1, StartedAt: w.s.now(), Reconcile: r.Reconcile}
	var steering []string
	for _, s := range r.Steering {
		if s.State == SteerReceived {
			steering = append(steering, s.Text)
		}
	}
	in := mission.PromptInput{
		Scope: r.Terms.Scope, EndsAt: r.Deadline.At, Turn: turn.Number, Steering: steering,
		Continuation: continuation(r), Recovered: r.Reconcile,
	}
	if err := w.news(&turn, &in); err != nil {
		w.block(mission.PrivateStateFailure, "What is new for the agent could not be read: "+err.Error())
		return
	}
	prompt := mission.TurnPrompt(in)
	w.quiet = mission.Jitter(mission.QuietInterval, rand.Float64())
	tree, _ := w.guarded()
	err := w.step(mission.EvTurnStarted, func(r *Record) {
		r.Turns = append(r.Turns, turn)
		r.fold()
		r.NextTurn, r.Failure, r.Reconcile = time.Time{}, nil, false
		r.Activity = &Activity{At: turn.StartedAt, Detail: "starting the agent"}
		for i := range r.Steering {
			if r.Steering[i].State == SteerReceived {
				r.Steering[i].State, r.Steering[i].Turn = SteerApplied, turn.Number
			}
		}
	}, func(tx *store.Tx) error {
		return checkout.Mark(tx, r.Folder(), r.ID, tree.Root, turn.ID)
	})
	if err != nil {
		w.block(mission.PrivateStateFailure, "The start of a turn could not be recorded: "+err.Error())
		return
	}
	fault.Point("service.turn-journaled")
	w.calling = true
	g, resume := w.guard, w.rec.ProviderSession
	w.async(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		err := g.Turn(ctx, wire.TurnParams{Turn: turn.ID, Number: turn.Number, Prompt: prompt, Steering: steering, Resume: resume, Room: turn.Room})
		fault.Point("service.turn-sent")
		return err
	}, func(err error) {
		w.calling = false
		if err == nil {
			if w.pausing {
				w.interrupt()
			}
			return
		}
		w.s.Log.Warn("the guard did not take a turn", "mission", w.rec.ID, "turn", turn.ID, "err", err)
		// Only a refusal says that nothing began. After anything else the
		// guard's log, or its end, tells.
		var refused *wire.Error
		if errors.As(err, &refused) && w.rec.Phase == mission.Working && w.inFlight() && w.rec.turn().ID == turn.ID {
			w.turnRefused(turn.ID)
		}
	})
}

// callLimit bounds a call that a guard answers at once.
const callLimit = 30 * time.Second

// turnRefused ends a turn that the guard would not begin.
func (w *worker) turnRefused(turn string) {
	t := wire.TurnFinished{Turn: turn, Outcome: string(mission.Failed), Stage: string(mission.StageExecution), Code: string(mission.LocalExecutionFailure), Retryable: true}
	if err := w.turnFinished(t, 0); err != nil {
		w.fail("the end of a turn could not be journaled", err, func() { w.turnRefused(turn) })
	}
}

// inFlight says whether a turn was begun and its end is not known yet.
func (w *worker) inFlight() bool {
	t := w.rec.turn()
	return t != nil && t.Outcome == nil
}

func continuation(r *Record) string {
	switch {
	case r.Last == nil:
		return ""
	case r.Last.Outcome == mission.Interrupted:
		return "The last turn was interrupted before it ended. Work may have been partly completed; inspect the checkout before you repeat anything."
	case r.Last.Outcome != mission.Succeeded:
		return "The last turn failed before it ended. Work may have been partly completed; inspect the checkout before you repeat anything."
	}
	return ""
}
