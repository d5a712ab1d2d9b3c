package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/internal/session"
	"github.com/reevehq/reeve/service/internal/store"
)

const (
	// claimLimit is how long a guard of an earlier service may take to answer
	// before it is quarantined.
	claimLimit = 3 * time.Second
	// reapLimit is how long a keeper may take to end what a dead guard left.
	reapLimit = 15 * time.Second
)

// Adopt takes over what an earlier service left, all missions at once: a guard
// that answers is claimed and its log read from where the journal ends; what a
// dead guard left is cleared away; a guard that may be alive but doesn't
// answer is left alone and shown. It returns a sentence for each mission.
// Nothing but a recorded process is ever signalled.
func (s *Supervisor) Adopt(ctx context.Context) ([]string, error) {
	var recs []Record
	if err := s.DB.View(func(tx *store.Tx) (err error) { recs, err = LoadLive(tx); return }); err != nil {
		return nil, err
	}
	recs = slices.DeleteFunc(recs, func(r Record) bool { return r.Phase == mission.Proposed })
	notes := make(chan string, len(recs))
	for _, r := range recs {
		w, err := s.worker(r)
		if err != nil {
			return nil, err
		}
		s.wg.Go(func() {
			note := fmt.Sprintf("Mission %q was not looked at.", r.Title)
			err := w.do(ctx, func(w *worker) error {
				note = fmt.Sprintf("Mission %q: %s", r.Title, w.adopt(ctx))
				return nil
			})
			if err != nil {
				note = fmt.Sprintf("Mission %q could not be looked at: %v", r.Title, err)
			}
			notes <- note
		})
	}
	out := make([]string, 0, len(recs))
	for range recs {
		out = append(out, <-notes)
	}
	slices.Sort(out)
	return out, nil
}

// adopt runs on the mission's goroutine, before anybody can ask for it.
func (w *worker) adopt(ctx context.Context) string {
	dir := w.s.attemptDir(w.rec.Attempt)
	rec, err := guard.ReadRecord(dir)
	if errors.Is(err, fs.ErrNotExist) {
		// It never served its socket, so it ran nothing; it ends by itself.
		return w.reap(ctx, wire.GuardRecord{})
	}
	if err != nil {
		return w.quarantine(err)
	}
	w.setTree(guardedBy(rec))
	switch proc.ID(rec.Process).State() {
	case proc.Gone:
		return w.reap(ctx, rec)
	case proc.Unknown:
		return w.quarantine(fmt.Errorf("whether process %d still is the guard can't be told", rec.PID))
	}
	claiming, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	boot, err := guard.ReadBootstrap(dir)
	if err != nil {
		return w.quarantine(err)
	}
	g, err := guard.Connect(claiming, dir)
	if errors.Is(err, guard.ErrGone) {
		return w.reap(ctx, rec)
	}
	if err != nil {
		return w.quarantine(err)
	}
	res, err := g.Claim(claiming, boot.Token, w.s.Generation)
	if err != nil {
		_ = g.Close()
		return w.quarantine(err)
	}
	fault.Point("service.adopt-claimed")
	if err := w.replay(ctx, res.LastSeq); err != nil {
		_ = g.Close()
		return w.quarantine(err)
	}
	fault.Point("service.adopt-replayed")
	w.guard, w.alive = g, mission.GuardAnswers
	w.follow(g)
	w.catchUp(res)
	return "its guard was adopted; nothing was interrupted."
}

// replay ingests what the log holds after the journal, up to a sequence (0: to
// its end).
func (w *worker) replay(ctx context.Context, upTo uint64) error {
	attempt := w.rec.Attempt
	_, err := session.History(ctx, w.s.LogPath(attempt), w.rec.Ingested, func(r runlog.Record) bool {
		if upTo > 0 && r.Seq > upTo {
			return false
		}
		w.ingest(wire.Entry{Log: attempt, Seq: r.Seq, At: r.Time.UTC(), Kind: r.Kind, Data: r.Data})
		return w.fault == nil
	})
	return errors.Join(err, w.fault)
}

// catchUp brings journal and guard together after a claim: what the journal
// decided and the guard never heard of is told it again.
func (w *worker) catchUp(res wire.ClaimResult) {
	w.must(func(r *Record) { r.Generation = w.s.Generation })
	var unheard, orphans []approvals.Record
	err := w.s.DB.Update(context.WithoutCancel(w.s.ctx), func(tx *store.Tx) error {
		unheard, orphans = nil, nil
		recent, err := approvals.Recent(tx, w.rec.ID, approvals.MaxPending)
		if err != nil {
			return err
		}
		for _, a := range recent {
			switch {
			case a.Attempt != w.rec.Attempt || a.Delivered:
			case a.State == approval.Allowed || a.State == approval.Denied:
				unheard = append(unheard, a)
			case a.State == approval.Pending && !slices.Contains(res.Pending, a.ID):
				closed, _, err := approvals.Close(tx, a.ID, approval.Withdrawn, "turn", w.s.now())
				if err != nil {
					return err
				}
				orphans = append(orphans, closed)
			}
		}
		return nil
	})
	if err != nil {
		w.fault = err
		w.s.Log.Error("approvals could not be compared with the guard", "mission", w.rec.ID, "err", err)
		return
	}
	for _, a := range orphans {
		w.s.Announce.Approval(a)
	}
	for _, a := range unheard {
		w.deliver(a)
	}
	switch w.rec.Phase {
	case mission.Starting:
		w.handOver(res.Phase == "new")
	case mission.Stopping:
		w.stopGuard(string(w.rec.EndReason))
	case mission.Working:
		if t := w.rec.turn(); t != nil && t.Outcome == nil && res.Turn != t.ID {
			w.unbegin(t.ID)
		}
	}
}

// unbegin takes back a turn that was journaled but never reached the guard: it
// did nothing, and its steering is still to be applied.
func (w *worker) unbegin(turn string) {
	err := w.step(mission.EvTurnEnded, func(r *Record) {
		n := r.turn().Number
		r.Turns = r.Turns[:len(r.Turns)-1]
		r.Activity = nil
		for i := range r.Steering {
			if r.Steering[i].Turn == n {
				r.Steering[i].State, r.Steering[i].Turn = SteerReceived, 0
			}
		}
	})
	if err != nil {
		w.fault = err
		w.s.Log.Error("a turn that never began could not be taken back", "mission", w.rec.ID, "turn", turn, "err", err)
	}
}

// quarantine leaves a guard alone that may be alive: nothing is taken over,
// nothing is killed, nothing is doubled.
func (w *worker) quarantine(cause error) string {
	w.alive = mission.GuardUncertain
	why := "Its guard may still be running, but it can't be talked to: " + cause.Error() + ". Nothing was taken over and nothing was killed; at its deadline it ends by itself."
	if w.rec.Phase == mission.Stopping {
		w.show()
		return why
	}
	if w.rec.Phase == mission.Blocked {
		w.must(func(r *Record) { r.BlockedBy = why })
	} else if err := w.step(mission.EvBlock, func(r *Record) { r.BlockedBy, r.NextTurn = why, time.Time{} }); err != nil {
		w.fault = err
	}
	return why
}

// reap clears away what a dead guard left, reads the rest of its log, and lets
// the mission end or wait for a person.
func (w *worker) reap(ctx context.Context, rec wire.GuardRecord) string {
	left := w.clear(ctx, rec)
	if err := w.replay(ctx, 0); err != nil {
		w.s.Log.Error("the log of a dead guard could not be read to its end", "mission", w.rec.ID, "err", err)
	}
	w.settleLost(left)
	switch {
	case w.rec.Phase.Terminal():
		return fmt.Sprintf("it had ended (%s).", w.rec.EndReason)
	case len(left) > 0:
		return "its guard ended, but left processes that could not be ended."
	}
	return "its guard ended with the service; it can be recovered."
}

// clear waits until the keeper has ended everything below it, and ends what is
// left in the control group. It returns what is still there, in words.
func (w *worker) clear(ctx context.Context, rec wire.GuardRecord) (left []string) {
	ctx, cancel := context.WithTimeout(ctx, reapLimit)
	defer cancel()
	if keeper := proc.ID(rec.Keeper); keeper.PID != 0 && keeper.State() != proc.Gone {
		if err := keeper.Wait(ctx); err != nil {
			left = append(left, fmt.Sprintf("the keeper, process %d", keeper.PID))
		}
	}
	ids, err := proc.EndGroup(ctx, rec.Cgroup)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, id := range ids {
		left = append(left, id.String())
	}
	return left
}
