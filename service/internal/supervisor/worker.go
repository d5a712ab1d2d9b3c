package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// worker owns one live mission. Everything but the snapshot is touched by its
// goroutine alone.
type worker struct {
	s    *Supervisor
	cmds chan func()
	done chan struct{} // closed when the goroutine has ended

	mu   sync.Mutex
	seen Record       // what was last journaled or shown
	tree proc.Guarded // the guard's processes, zero before it runs

	rec      Record
	guard    *guard.Client
	alive    mission.GuardState // what is known of the guard
	starting bool               // a guard is being brought up
	calling  bool               // a guard call for a turn is under way
	pausing  bool               // the turn in flight is to end in paused
	ended    *wire.SessionEnded
	watch    []*watcher // who waits for a condition
	timer    *time.Timer
	quiet    time.Duration // jittered, drawn anew for each wait
	fault    error         // why nothing is started now; see fault.go
	again    []func()      // what is done again once the journal can be written
	told     uint64        // the last entry of the attempt's log that was announced
	expired  bool          // what waited was expired; see expire
	damaged  uint64        // entries of the log that could not be read
	losing   bool          // the guard's connection ended; whether it lives is being found out
	dirty    bool          // activity changed since the last announcement
	flush    *time.Timer
	messages map[string]string // texts of answers to questions, by approval
}

// watcher is a call that answers when the record satisfies a condition.
type watcher struct {
	ok   func(Record) bool
	done chan Record
}

func newWorker(s *Supervisor, r Record) *worker {
	w := &worker{s: s, rec: r, seen: r, told: r.Ingested, cmds: make(chan func()), done: make(chan struct{}), timer: time.NewTimer(time.Hour), flush: time.NewTimer(time.Hour), quiet: mission.Jitter(mission.QuietInterval, rand.Float64()), messages: map[string]string{}}
	w.timer.Stop()
	w.flush.Stop()
	return w
}

func (w *worker) run() {
	defer close(w.done)
	defer func() {
		w.timer.Stop()
		w.flush.Stop()
		if w.guard != nil {
			w.guard.Close()
		}
		for _, x := range w.watch {
			close(x.done)
		}
	}()
	for !w.rec.Phase.Terminal() {
		select {
		case <-w.s.ctx.Done():
			return
		case fn := <-w.cmds:
			w.protect(fn)
		case <-w.timer.C:
		case <-w.flush.C:
			w.show()
		}
		w.protect(w.schedule)
	}
	w.s.forget(w.rec.ID)
}

// do runs fn on the goroutine and waits for it.
func (w *worker) do(ctx context.Context, fn func(w *worker) error) error {
	result := make(chan error, 1)
	select {
	case w.cmds <- func() {
		err := errors.New("the mission's goroutine failed; the log of the service tells more")
		defer func() { result <- err }()
		err = fn(w)
	}:
		return <-result
	case <-w.done:
		return w.gone()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *worker) gone() error {
	if w.s.ctx.Err() != nil {
		return wire.Errorf(wire.CodeShuttingDown, "The service is shutting down; the mission goes on in its guard.")
	}
	return wire.Errorf(wire.CodeConflict, "The mission has ended; start a new one.")
}

// post hands fn to the goroutine without waiting for its result.
func (w *worker) post(fn func()) bool {
	select {
	case w.cmds <- fn:
		return true
	case <-w.done:
		return false
	}
}

// async runs call beside the goroutine and then done on it. Once the service
// ends, a failure may only mean that; the next service looks for itself.
func (w *worker) async(call func(ctx context.Context) error, done func(error)) {
	w.s.wg.Go(func() {
		err := call(w.s.ctx)
		if w.s.ctx.Err() == nil {
			w.post(func() { done(err) })
		}
	})
}

// await returns when ok holds for the record, or with an error when the
// mission's goroutine ended first.
func (w *worker) await(ctx context.Context, ok func(Record) bool) (Record, error) {
	x := &watcher{ok: ok, done: make(chan Record, 1)}
	err := w.do(ctx, func(w *worker) error {
		if ok(w.rec) {
			x.done <- w.rec
			return nil
		}
		w.watch = append(w.watch, x)
		return nil
	})
	if err != nil {
		if r := w.snapshot(); ok(r) {
			return r, nil
		}
		return w.snapshot(), err
	}
	select {
	case r, good := <-x.done:
		if good {
			return r, nil
		}
		return w.snapshot(), w.gone()
	case <-ctx.Done():
		return w.snapshot(), ctx.Err()
	}
}

func (w *worker) snapshot() Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.clone()
}

func (w *worker) guarded() (proc.Guarded, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tree, w.tree.Root.PID != 0
}

func (w *worker) setTree(t proc.Guarded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree = t
}

// commit changes a copy of the record, journals it together with what more
// adds, and only then keeps and announces it.
func (w *worker) commit(change func(r *Record), more ...func(tx *store.Tx) error) error {
	next := w.rec.clone()
	change(&next)
	next.Revision++
	err := w.s.DB.Update(context.WithoutCancel(w.s.ctx), func(tx *store.Tx) error {
		for _, fn := range more {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return save(tx, next)
	})
	if err != nil {
		return err
	}
	w.rec = next
	w.show()
	return nil
}

// step is commit for one event of the phase machine.
func (w *worker) step(e mission.Event, change func(r *Record), more ...func(tx *store.Tx) error) error {
	next, err := w.rec.Phase.On(e)
	if err != nil {
		return wire.Errorf(wire.CodeConflict, "That can't be done now: the mission is %s.", w.rec.Phase)
	}
	return w.commit(func(r *Record) {
		r.Phase = next
		if next.Terminal() {
			r.EndedAt, r.Activity, r.NextTurn = w.s.now(), nil, time.Time{}
		}
		if change != nil {
			change(r)
		}
	}, more...)
}

// show publishes the record as it stands.
func (w *worker) show() {
	w.dirty = false
	w.flush.Stop()
	w.rec.Guard, w.rec.Fault = w.alive, w.faultText()
	w.mu.Lock()
	w.seen = w.rec.clone()
	w.mu.Unlock()
	w.s.Announce.Mission(w.rec.clone())
	keep := w.watch[:0]
	for _, x := range w.watch {
		if x.ok(w.rec) {
			x.done <- w.rec.clone()
		} else {
			keep = append(keep, x)
		}
	}
	w.watch = keep
}

// touch notes that something changed which is not worth a journal entry; it is
// shown a little later, together with what follows.
func (w *worker) touch() {
	if !w.dirty {
		w.dirty = true
		w.flush.Reset(200 * time.Millisecond)
	}
}

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
		// Only the deadline matters. The guard keeps it by itself, and a turn
		// in flight gets the time to report its end.
		due := now
		if w.rec.Phase == mission.Working {
			due.Wall, due.Boot = due.Wall.Add(-reportGrace), due.Boot-reportGrace
		}
		if w.rec.Deadline.Passed(due) {
			_ = w.end(mission.EndDeadline)
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
	in := mission.ScheduleInput{
		Now: now, Deadline: r.Deadline, Project: mission.ProjectStarted, ContactKnown: true,
		SteeringQueued: r.queued(), First: len(r.Turns) == 0, Last: r.Last, LastEnded: r.LastEnded,
		Failures: r.Failures, TurnsUsed: len(r.Turns), Budget: r.Terms.Budget, Quiet: w.quiet,
	}
	// A turn whose usage is unknown must not hide what the others used.
	for _, t := range r.Turns {
		if t.Outcome == nil {
			continue
		}
		in.TokensUsed += t.Outcome.Usage.Tokens()
		if c := t.Outcome.Usage.CostUSD; c != nil {
			in.CostUsed += *c
		}
	}
	return in
}

// beginTurn journals the turn with the steering it carries, then has the guard
// run it.
func (w *worker) beginTurn() {
	r := &w.rec
	turn := Turn{ID: NewID("t"), Number: len(r.Turns) + 1, StartedAt: w.s.now()}
	var steering []string
	for _, s := range r.Steering {
		if s.State == SteerReceived {
			steering = append(steering, s.Text)
		}
	}
	prompt := mission.TurnPrompt(mission.PromptInput{
		Scope: r.Terms.Scope, EndsAt: r.Deadline.At, Turn: turn.Number, Steering: steering, Local: true,
		Continuation: continuation(r), Recovered: r.Reconcile,
	})
	w.quiet = mission.Jitter(mission.QuietInterval, rand.Float64())
	tree, _ := w.guarded()
	err := w.step(mission.EvTurnStarted, func(r *Record) {
		r.Turns = append(r.Turns, turn)
		r.NextTurn, r.Failure, r.Reconcile = time.Time{}, nil, false
		r.Activity = &Activity{At: turn.StartedAt, Detail: "starting the agent"}
		for i := range r.Steering {
			if r.Steering[i].State == SteerReceived {
				r.Steering[i].State, r.Steering[i].Turn = SteerApplied, turn.Number
			}
		}
	}, func(tx *store.Tx) error {
		return checkout.Mark(tx, r.Terms.Folder, r.ID, tree.Root, turn.ID)
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
		err := g.Turn(ctx, wire.TurnParams{Turn: turn.ID, Number: turn.Number, Prompt: prompt, Steering: steering, Resume: resume})
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

// block parks the mission until a person acts.
func (w *worker) block(code mission.Code, why string) {
	err := w.step(mission.EvBlock, func(r *Record) {
		r.BlockedBy, r.NextTurn, r.Activity = why, time.Time{}, nil
		if code != "" && r.Failure == nil {
			r.Failure = &Failure{Stage: mission.StageExecution, Code: code, Message: code.Sentence(), Retryable: code.Retryable()}
		}
	})
	if err != nil {
		w.fail("a mission could not be blocked ("+why+")", err, func() {
			if _, err := w.rec.Phase.On(mission.EvBlock); err == nil {
				w.block(code, why)
			}
		})
	}
}

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
	err := w.step(w.rec.EndReason.Settled(), func(r *Record) {
		r.Left, r.BlockedBy = nil, ""
		w.closeTurn(r)
	}, func(tx *store.Tx) error {
		if err := checkout.Release(tx, w.rec.Terms.Folder, w.rec.ID); err != nil {
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: w.rec.ID, Text: "ended: " + string(w.rec.EndReason)})
	})
	if err != nil {
		w.fail("a mission could not settle", err, func() {
			if w.rec.Phase == mission.Stopping {
				w.settle(nil)
			}
		})
	}
}

// closeTurn marks a turn that never reported its end.
func (w *worker) closeTurn(r *Record) {
	if t := r.turn(); t != nil && t.Outcome == nil {
		out := mission.TurnOutcome{Outcome: mission.Interrupted}
		if r.EndReason == mission.EndDeadline {
			out.Outcome = mission.TimedOut
		}
		t.EndedAt, t.Outcome = w.s.now(), &out
		for i := range r.Steering {
			if r.Steering[i].Turn == t.Number {
				r.Steering[i].State = SteerUnconfirmed
			}
		}
	}
}
