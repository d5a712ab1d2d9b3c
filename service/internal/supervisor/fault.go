package supervisor

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/store"
)

// A mission has a fault while its journal can't be written, as on a full disk.
// Then it starts nothing and takes nothing from its guard's log, so that what
// is in memory never runs ahead of what could be journaled. The fault is shown
// with the mission. Every faultRetry the journal is tried; when it takes a
// write, the guard's log is read on from where the journal ends, and what
// could not be journaled is done again, in order.

// faultRetry is how often a journal that failed is tried.
const faultRetry = 2 * time.Second

// fail notes a fault. again, if there is one, is done once it is healed.
func (w *worker) fail(what string, err error, again func()) {
	w.s.Log.Error(what+"; the mission starts nothing until the journal can be written", "mission", w.rec.ID, "err", err)
	if w.fault == nil {
		w.fault = fmt.Errorf("%s: %w", what, err)
	}
	if again != nil {
		w.again = append(w.again, again)
	}
	w.show()
	w.timer.Reset(faultRetry)
}

func (w *worker) faultText() string {
	if w.fault == nil {
		return ""
	}
	return "The record of this mission can't be written, so nothing new is started: " + w.fault.Error() + ". Make room on the disk or mend the private state; it is tried again every few seconds."
}

// heal tries the journal, and makes up for what was missed. It says whether
// the fault is over.
func (w *worker) heal() bool {
	w.timer.Reset(faultRetry)
	if err := w.commit(func(*Record) {}); err != nil {
		return false
	}
	again := w.again
	w.fault, w.again = nil, nil
	w.s.Log.Info("the journal can be written again", "mission", w.rec.ID)
	if w.claimed != nil { // first the guard as it was claimed
		w.readOn(w.claimed.LastSeq)
		w.catchUp()
	}
	w.readOn(0)
	for _, fn := range again {
		if w.fault != nil {
			w.again = append(w.again, fn)
		} else if !w.rec.Phase.Terminal() {
			fn()
		}
	}
	w.show()
	return w.fault == nil
}

// readOn ingests what is in the guard's log up to a sequence (0: to its end),
// unless there is a fault again.
func (w *worker) readOn(upTo uint64) {
	if w.fault != nil || w.rec.Attempt == "" {
		return
	}
	if err := w.replay(w.s.ctx, upTo); err != nil && w.fault == nil {
		w.fail("the log of the guard could not be read", err, nil)
	}
}

// protect keeps a failure of one mission from ending the service.
func (w *worker) protect(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			w.s.Log.Error("a mission's goroutine panicked", "mission", w.rec.ID, "panic", p, "stack", string(debug.Stack()))
			if w.fault == nil {
				w.fault = fmt.Errorf("an internal error (%v); the log of the service tells more", p)
			}
			w.timer.Reset(faultRetry)
		}
	}()
	fn()
}

// expire looks after a mission without a guard: what waits for a person
// expires with the deadline.
func (w *worker) expire(now mission.Instant) {
	if w.rec.Phase == mission.Blocked && w.rec.Awaits && w.rec.Deadline.Passed(now) {
		_ = w.end(mission.EndDeadline) // it never began, so nothing is to recover
		return
	}
	if w.rec.Phase != mission.Blocked || w.expired {
		return
	}
	if !w.rec.Deadline.Passed(now) {
		w.timer.Reset(max(time.Second, min(5*time.Second, w.rec.Deadline.Remaining(now))))
		return
	}
	var closed []approvals.Record
	// The mission itself does not change: what a person saw of it still holds.
	err := w.s.DB.Update(context.WithoutCancel(w.s.ctx), func(tx *store.Tx) (err error) {
		closed, err = approvals.CloseAll(tx, w.rec.ID, approval.Expired, "deadline", w.s.now())
		return err
	})
	if err != nil {
		w.fail("what waited could not be expired", err, nil)
		return
	}
	w.expired = true
	w.show()
	for _, a := range closed {
		w.s.Announce.Approval(a)
	}
}

// Faults says in a sentence each what can't be journaled now.
func (s *Supervisor) Faults() []string {
	s.mu.Lock()
	workers := make([]*worker, 0, len(s.workers))
	for _, w := range s.workers {
		workers = append(workers, w)
	}
	s.mu.Unlock()
	var out []string
	for _, w := range workers {
		if r := w.snapshot(); r.Fault != "" {
			out = append(out, fmt.Sprintf("Mission %q: %s", r.Title, r.Fault))
		}
	}
	slices.Sort(out)
	return out
}
