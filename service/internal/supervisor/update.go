package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/store"
)

// What a mission says whose guard an update ended.
const (
	endedForUpdate    = "Its worker was ended for an update of Reeve, whose next version could not talk to it. The mission goes on by itself once the update is done; if it doesn't, recover or stop it."
	endedWhileBlocked = "Its worker was ended for an update of Reeve meanwhile; recover or stop the mission."
)

// endLimit is how long a guard may take to end for an update, and its end to be
// taken in: the 12 s that its tree gets, and some for the journal.
const endLimit = stopLimit + 5*time.Second

// UpdateReport is what was done to prepare an update.
type UpdateReport struct {
	GoOn        int      // workers that the next service adopts
	Finished    int      // turns that ended by themselves before their guard was ended
	Interrupted int      // turns that the update ended
	Idle        int      // guards that were ended between two turns
	Left        []string // what is not as it should be, in a sentence each
	Missions    []mission.UpdateEntry
}

// PrepareUpdate keeps every mission from beginning a turn until Thaw, and ends
// the guards that a next service with guard protocols from oldest on could not
// talk to. Their turns get patience to end by themselves; once undo is done
// they get no more, and what was not ended by then goes on. All else is left
// alone.
//
// It returns when nothing of that is under way any more. ctx is the life of the
// service.
func (s *Supervisor) PrepareUpdate(ctx, undo context.Context, oldest int, patience time.Duration) UpdateReport {
	s.updating.Store(true)
	s.mu.Lock()
	var workers []*worker
	for _, w := range s.workers {
		workers = append(workers, w)
	}
	s.mu.Unlock()
	results := make(chan drained, len(workers))
	for _, w := range workers {
		s.wg.Go(func() { results <- w.drain(ctx, undo, oldest, patience) })
	}
	var out UpdateReport
	for range workers {
		d := <-results
		switch {
		case d.entry.Mission == "":
			continue
		case d.entry.GoesOn:
			out.GoOn++
		case d.entry.Interrupted:
			out.Interrupted++
		case d.ended && d.turn:
			out.Finished++
		case d.ended:
			out.Idle++
		}
		if d.left != "" {
			out.Left = append(out.Left, d.left)
		}
		out.Missions = append(out.Missions, d.entry)
	}
	slices.Sort(out.Left)
	return out
}

// Thaw lets missions begin turns again.
func (s *Supervisor) Thaw() {
	s.updating.Store(false)
	s.mu.Lock()
	var workers []*worker
	for _, w := range s.workers {
		workers = append(workers, w)
	}
	s.mu.Unlock()
	for _, w := range workers {
		w.post(func() {}) // and the scheduler looks again
	}
}

// drained is what became of one mission; the zero value is one that had
// nothing to prepare.
type drained struct {
	entry mission.UpdateEntry
	turn  bool // one was in flight at the beginning
	ended bool // its guard was ended
	left  string
}

// act says what the update does about a mission. It may be called anywhere.
func (s *Supervisor) act(r Record, oldest int) mission.UpdateAct {
	asks := false
	err := s.DB.View(func(tx *store.Tx) error {
		waiting, err := approvals.Pending(tx, r.ID)
		for _, a := range waiting {
			asks = asks || a.Attempt == r.Attempt && a.Kind != approval.MissionRecover
		}
		return err
	})
	if err != nil {
		s.Log.Error("what waits could not be read", "mission", r.ID, "err", err)
	}
	t := r.turn()
	return mission.UpdateWorker{Phase: r.Phase, Guard: r.Guard, Protocol: r.Protocol, Turn: t != nil && t.Outcome == nil, Asks: asks}.Act(oldest)
}

func (w *worker) drain(ctx, undo context.Context, oldest int, patience time.Duration) (d drained) {
	waiting, cancel := context.WithTimeout(undo, patience)
	defer cancel()
	var seen Record
	err := w.do(ctx, func(w *worker) error {
		w.show() // so that what is known of the guard is in the record
		seen, d.turn = w.rec.clone(), w.inFlight()
		return nil // from here on no turn begins
	})
	if err == nil && seen.Phase.Live() {
		seen, err = w.await(waiting, func(r Record) bool { return w.s.act(r, oldest) != mission.UpdateWait })
	}
	if seen.Phase == mission.Proposed || seen.Phase.Terminal() || ctx.Err() != nil {
		return drained{}
	}
	d.entry = entryOf(seen)
	late := errors.Is(err, context.DeadlineExceeded)
	switch act := w.s.act(seen, oldest); {
	case undo.Err() != nil:
		return d
	case act == mission.UpdateGoesOn:
		d.entry.GoesOn = true
		return d
	case act == mission.UpdateLeave:
		return d // it needs a person, who sees why
	case err != nil && !late:
		d.left = fmt.Sprintf("Mission %q could not be looked at: %v.", seen.Title, err)
		return d
	case act == mission.UpdateWait && (seen.Phase == mission.Starting || seen.Phase == mission.Stopping):
		d.left = fmt.Sprintf("Mission %q still is %s.", seen.Title, seen.Phase)
		return d
	}
	w.endForUpdate(ctx, &d)
	return d
}

// endForUpdate ends the guard of a mission, and with it a turn that took too
// long or that can't end.
func (w *worker) endForUpdate(ctx context.Context, d *drained) {
	var before Record
	cut := false
	err := w.do(ctx, func(w *worker) error {
		before, cut = w.rec.clone(), w.inFlight()
		if w.guard == nil || w.rec.Phase == mission.Stopping {
			return nil // its end is under way
		}
		w.draining = true
		g := w.guard
		w.async(func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, stopLimit)
			defer cancel()
			_, err := g.Stop(ctx, wire.GuardStopParams{Reason: "update"})
			return err
		}, func(err error) {
			if err != nil && w.guard == g {
				w.draining = false
				w.s.Log.Warn("ending a guard for an update", "mission", w.rec.ID, "err", err)
			}
		})
		return nil
	})
	r := before
	if err == nil {
		ending, cancel := context.WithTimeout(ctx, endLimit)
		defer cancel()
		r, err = w.await(ending, func(r Record) bool { return r.Phase.Terminal() || r.Guard != mission.GuardAnswers })
	}
	switch {
	case ctx.Err() != nil:
		d.entry = mission.UpdateEntry{}
		return
	case r.Phase.Terminal():
		d.entry = mission.UpdateEntry{} // a person, or the deadline, ended it
		return
	case err != nil || r.Guard != mission.GuardGone:
		d.left = fmt.Sprintf("The worker of mission %q could not be ended; the next service may not be able to talk to it.", r.Title)
		return
	}
	d.ended, d.entry = true, entryOf(r)
	d.entry.Phase = before.Phase
	d.entry.Interrupted = cut && r.turn().Outcome.Outcome != mission.Succeeded
	d.entry.Resume = mission.ResumesAfterUpdate(before.Phase, len(r.Secrets) > 0)
	if !d.entry.Resume && len(r.Secrets) > 0 {
		d.left = fmt.Sprintf("Mission %q can't go on by itself: its secret variables were only in memory. Recover it from a terminal with %s in its environment.", r.Title, strings.Join(r.Secrets, ", "))
	}
}

func entryOf(r Record) mission.UpdateEntry {
	e := mission.UpdateEntry{Mission: r.ID, Attempt: r.Attempt, Phase: r.Phase, Turn: r.TurnCount(), Queued: []int{}}
	for _, x := range r.Steering {
		if x.State == SteerReceived {
			e.Queued = append(e.Queued, x.ID)
		}
	}
	return e
}

// GoOn continues, without asking, the missions whose guards an update ended:
// terms and deadline stay, and the agent is told that its work may be half done.
// What can't go on needs the recovery approval as after any loss. It returns a
// sentence for each of them.
func (s *Supervisor) GoOn(ctx context.Context, entries []mission.UpdateEntry) []string {
	var notes []string
	for _, e := range entries {
		if !e.Resume {
			continue
		}
		var r Record
		err := s.do(ctx, e.Mission, func(w *worker) error {
			r = w.rec.clone()
			err := w.goOn(ctx, e)
			if err != nil && w.rec.Phase == mission.Blocked && w.rec.Attempt == e.Attempt {
				why := "Its worker was ended for an update of Reeve, and it can't go on by itself: " + err.Error() + " Look at the checkout, then recover or stop the mission."
				if err := w.commit(func(r *Record) { r.BlockedBy = why }); err != nil {
					s.Log.Error("why a mission does not go on could not be journaled", "mission", e.Mission, "err", err)
				}
			}
			return err
		})
		switch {
		case err != nil && r.ID == "":
			notes = append(notes, fmt.Sprintf("Mission %s did not go on after the update: %v", e.Mission, err))
		case err != nil:
			notes = append(notes, fmt.Sprintf("Mission %q did not go on after the update: %v", r.Title, err))
		default:
			notes = append(notes, fmt.Sprintf("Mission %q goes on after the update.", r.Title))
		}
	}
	return notes
}

// goOn makes the next attempt of a mission whose guard an update ended, if the
// journal still has it as the manifest says.
func (w *worker) goOn(ctx context.Context, e mission.UpdateEntry) error {
	if have := entryOf(w.rec); !e.Fits(have.Attempt, have.Turn, have.Queued) {
		return wire.Errorf(wire.CodeConflict, "The mission changed since.")
	}
	if err := w.recoverable(w.rec.Ref()); err != nil {
		return err
	}
	if _, err := w.s.refill(w.rec, nil); err != nil {
		return err
	}
	if err := w.unchanged(ctx); err != nil {
		return err
	}
	var closed []approvals.Record
	err := w.nextAttempt("goes on after an update", "", func(r *Record) {
		r.Held, r.Renewed = "", false // a session that was lost with the turn is no fault of the agent's
		if e.Phase == mission.Paused {
			r.Held = mission.Paused
		}
		if e.Interrupted {
			r.Reconcile, r.Last, r.LastEnded = true, r.turn().Outcome, r.turn().EndedAt
		}
	}, func(tx *store.Tx) (err error) {
		closed, err = approvals.CloseAll(tx, w.rec.ID, approval.Withdrawn, "turn", w.s.now())
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range closed {
		w.s.Announce.Approval(a)
	}
	w.start()
	return nil
}
