package supervisor

import (
	"bytes"
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
	"github.com/reevehq/reeve/service/internal/checkout"
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
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	var recs []Record
	if err := s.DB.View(func(tx *store.Tx) (err error) { recs, err = LoadLive(tx); return }); err != nil {
		return nil, err
	}
	recs = slices.DeleteFunc(recs, func(r Record) bool { return r.Phase == mission.Proposed })
	type said struct {
		of   int
		note string
	}
	notes := make(chan said, len(recs))
	out := make([]string, 0, len(recs))
	for i, r := range recs {
		out = append(out, fmt.Sprintf("Mission %q: %s", r.Title, notLooked))
		w, err := s.worker(r, ended)
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
			notes <- said{i, note}
		})
	}
	for range recs {
		select {
		case x := <-notes:
			out[x.of] = x.note
		case <-ctx.Done(): // whatever holds up the others
		}
	}
	slices.Sort(out)
	return out, nil
}

// notLooked is said of a mission that a service which was told to end did not
// come to. Nothing is decided then: what failed may have failed for that.
const notLooked = "it was not looked at, because the service was told to end."

// adopt runs on the mission's goroutine, before anybody can ask for it.
func (w *worker) adopt(ctx context.Context) string {
	if w.rec.Phase == mission.Blocked && w.rec.Awaits {
		w.start() // nothing of it ran yet
		return "it waits for a credential."
	}
	dir := w.s.attemptDir(w.rec.Attempt)
	rec, err := awaitRecord(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return w.adoptUnrecorded(ctx)
	}
	if err != nil {
		return w.quarantine(err, rec)
	}
	w.setTree(guardedBy(rec))
	switch proc.ID(rec.Process).State() {
	case proc.Gone:
		return w.reap(ctx, rec)
	case proc.Unknown:
		return w.quarantine(fmt.Errorf("whether process %d still is the guard can't be told", rec.PID), rec)
	}
	boot, err := guard.ReadBootstrap(dir)
	if err != nil {
		return w.quarantine(err, rec)
	}
	claiming, forgo := context.WithCancel(w.s.ctx)
	claims := w.claim(claiming, dir, boot.Token)
	limit := time.NewTimer(claimLimit)
	defer limit.Stop()
	select {
	case c := <-claims:
		forgo()
		return w.takeOver(ctx, c, rec)
	case <-ctx.Done():
		forgo()
		(<-claims).close()
		return notLooked
	case <-limit.C:
		w.s.wg.Go(func() {
			defer forgo()
			w.claimedLate(<-claims, rec)
		})
		return w.quarantine(errSilent, rec)
	}
}

// errSilent is why a guard is quarantined that does not answer its claim.
var errSilent = errors.New("it does not answer; it is taken over as soon as it does")

// adoptUnrecorded takes over what is left of an attempt without a record of its
// guard. Either that never served its socket: then it ran nothing, and without
// a claim it ends by itself. Or the record is lost: then the claim of the
// checkout names who owns it.
func (w *worker) adoptUnrecorded(ctx context.Context) string {
	owner, err := w.owner()
	if err == nil && owner.State() == proc.Gone {
		return w.reap(ctx, wire.GuardRecord{})
	}
	if err == nil {
		w.setTree(proc.Guarded{Root: owner})
		err = errors.New("the record of it in " + w.s.attemptDir(w.rec.Attempt) + " is gone")
	}
	return w.quarantine(err, wire.GuardRecord{Process: wire.Process(owner)})
}

// owner is the process that has the checkout for this attempt, as the claim of
// that tells; zero before the guard was started.
func (w *worker) owner() (id proc.ID, err error) {
	err = w.s.DB.View(func(tx *store.Tx) error {
		c, _, err := checkout.Owned(tx, w.rec.ID)
		if c.Attempt == w.rec.Attempt {
			id = c.Owner
		}
		return err
	})
	return id, err
}

// claim is a guard's answer to a claim.
type claim struct {
	guard *guard.Client // nil on an error
	res   wire.ClaimResult
	err   error
}

func (c claim) close() {
	if c.guard != nil {
		_ = c.guard.Close()
	}
}

// claim claims the guard, which may answer at any time.
func (w *worker) claim(ctx context.Context, dir, token string) <-chan claim {
	answer := make(chan claim, 1)
	w.s.wg.Go(func() {
		g, err := guard.Connect(ctx, dir)
		if err != nil {
			answer <- claim{err: err}
			return
		}
		res, err := g.Claim(ctx, token, w.s.Generation)
		if err != nil {
			_ = g.Close()
			answer <- claim{err: err}
			return
		}
		answer <- claim{g, res, nil}
	})
	return answer
}

// claimedLate adopts a guard that answers after it was quarantined, unless
// something else became of it or of the mission.
func (w *worker) claimedLate(c claim, rec wire.GuardRecord) {
	adopted := w.post(func() {
		switch {
		case w.s.ctx.Err() != nil:
		case c.err != nil:
			w.s.Log.Warn("a guard that did not answer can't be claimed", "mission", w.rec.ID, "err", c.err)
		case w.rec.Attempt == c.res.Attempt && w.guard == nil && w.alive == mission.GuardUncertain:
			w.s.Log.Info("a guard that did not answer does now", "mission", w.rec.ID, "so", w.takeOver(w.s.ctx, c, rec))
			return
		}
		c.close()
	})
	if !adopted {
		c.close()
	}
}

// takeOver goes on with a guard that answered: its log is read from where the
// journal ends, and what it never heard of is told it.
func (w *worker) takeOver(ctx context.Context, c claim, rec wire.GuardRecord) string {
	g, res := c.guard, c.res
	switch {
	case errors.Is(c.err, guard.ErrGone):
		return w.reap(ctx, rec)
	case c.err != nil && ctx.Err() != nil:
		return notLooked
	case c.err != nil:
		return w.quarantine(c.err, rec)
	}
	fault.Point("service.adopt-claimed")
	if err := w.replay(ctx, res.LastSeq); err != nil && w.fault == nil {
		_ = g.Close()
		if ctx.Err() != nil {
			return "its guard was claimed, but its log was not read to the end."
		}
		return w.quarantine(err, rec)
	}
	fault.Point("service.adopt-replayed")
	w.guard, w.alive, w.claimed = g, mission.GuardAnswers, &res
	w.follow(g)
	w.catchUp()
	if w.fault != nil {
		return "its guard was claimed, but that can't be journaled yet; nothing was interrupted."
	}
	if w.damaged > 0 {
		return fmt.Sprintf("its guard was adopted; nothing was interrupted, but %d entries of its log are damaged.", w.damaged)
	}
	if !g.Measures() {
		return "its guard was adopted; nothing was interrupted. It is of an earlier Reeve: what its worker uses is not measured."
	}
	return "its guard was adopted; nothing was interrupted."
}

// awaitRecord reads the guard's record. A guard that the earlier service had
// spawned just before it ended gets a moment to write it.
func awaitRecord(ctx context.Context, dir string) (wire.GuardRecord, error) {
	rec, err := guard.ReadRecord(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return rec, err
	}
	if b, err := guard.ReadBootstrap(dir); err != nil || time.Since(b.CreatedAt) > time.Minute {
		return rec, fs.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	g, err := guard.Connect(ctx, dir)
	if err != nil {
		return rec, fs.ErrNotExist
	}
	defer g.Close()
	return g.Record, nil
}

// replay ingests what the log holds after the journal, up to a sequence (0: to
// its end).
func (w *worker) replay(ctx context.Context, upTo uint64) error {
	attempt, missing := w.rec.Attempt, uint64(0)
	_, err := session.History(ctx, w.s.LogPath(attempt), w.rec.Ingested, func(r runlog.Record) bool {
		if upTo > 0 && r.Seq > upTo {
			return false
		}
		missing += r.Seq - w.rec.Ingested - 1
		w.ingest(wire.Entry{Log: attempt, Seq: r.Seq, At: r.Time.UTC(), Kind: r.Kind, Data: bytes.Clone(r.Data)})
		return w.fault == nil
	})
	w.damaged += missing
	if missing > 0 {
		w.s.Log.Error("a guard's log is damaged; entries of it are lost", "mission", w.rec.ID, "attempt", attempt, "entries", missing)
	}
	return errors.Join(err, w.fault)
}

// catchUp brings journal and guard together after a claim: what the journal
// decided and the guard never heard of is told it again. It compares with the
// guard as it was claimed, so nothing that came later may be ingested before;
// while there is a fault it is put off, see heal.
func (w *worker) catchUp() {
	if w.claimed == nil || w.fault != nil {
		return
	}
	res := *w.claimed
	if err := w.takeUp(); err != nil {
		w.fail("an adopted mission could not be journaled", err, nil)
		return
	}
	var unheard, orphans []approvals.Record
	var unknown []string
	err := w.s.DB.Update(context.WithoutCancel(w.s.ctx), func(tx *store.Tx) error {
		unheard, orphans, unknown = nil, nil, nil
		for _, id := range res.Pending {
			if _, ok, err := approvals.Get(tx, id); err != nil {
				return err
			} else if !ok {
				unknown = append(unknown, id)
			}
		}
		answered, err := approvals.Unheard(tx, w.rec.ID)
		if err != nil {
			return err
		}
		for _, a := range answered {
			if a.Attempt == w.rec.Attempt {
				unheard = append(unheard, a)
			}
		}
		waiting, err := approvals.Pending(tx, w.rec.ID)
		if err != nil {
			return err
		}
		for _, a := range waiting {
			if a.Attempt != w.rec.Attempt || slices.Contains(res.Pending, a.ID) || a.Effect != "" {
				continue
			}
			closed, _, err := approvals.Close(tx, a.ID, approval.Withdrawn, "turn", w.s.now())
			if err != nil {
				return err
			}
			orphans = append(orphans, closed)
		}
		return nil
	})
	if err != nil {
		w.fail("approvals could not be compared with the guard", err, nil)
		return
	}
	w.claimed = nil
	for _, a := range orphans {
		w.s.Announce.Approval(a)
	}
	for _, a := range unheard {
		w.deliver(a)
	}
	if len(unknown) > 0 {
		w.cutShort("A request of the agent was lost with a damaged part of the worker's log, so nobody can answer it.")
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

// takeUp goes on with the phase that a mission had before its guard could not
// be talked to. A turn in flight is seen by the scheduler.
func (w *worker) takeUp() error {
	err := w.commit(func(r *Record) { r.Generation = w.s.Generation })
	if err == nil && w.rec.Phase == mission.Blocked && w.rec.Held != "" && w.rec.EndReason == "" {
		event, then := mission.EvResume, w.rec.Held
		if then == mission.Starting {
			event = mission.EvRecover
		}
		took := func(r *Record) { r.BlockedBy, r.Held = "", "" }
		if then == mission.Blocked { // before that, by something else
			err = w.commit(func(r *Record) {
				r.BlockedBy, r.Held = "The guard of this mission answers again. Look at the checkout, then resume or stop the mission.", ""
			})
		} else {
			err = w.step(event, took)
		}
		if err == nil && then == mission.Paused {
			err = w.step(mission.EvPause, nil)
		}
		if err == nil && then == mission.Working && w.inFlight() {
			err = w.step(mission.EvTurnStarted, nil)
		}
	}
	if err == nil && w.rec.Phase == mission.Blocked && w.rec.EndReason != "" {
		_ = w.end(w.rec.EndReason) // it was to end when its guard did not answer
	}
	return err
}

// unbegin takes back a turn that was journaled but never reached the guard: it
// did nothing, and its steering is still to be applied.
func (w *worker) unbegin(turn string) {
	var done aftermath
	err := w.step(mission.EvTurnEnded, func(r *Record) {
		if r.turn().Begun {
			// It began and is over, and only its end is lost.
			w.closeTurn(r)
			r.Last, r.LastEnded = r.turn().Outcome, r.turn().EndedAt
			return
		}
		r.unheard()
		r.Turns = r.Turns[:len(r.Turns)-1]
		r.Activity = nil
	}, func(tx *store.Tx) (err error) { done, err = w.conclude(tx, mission.Interrupted, ""); return })
	w.announce(done, err)
	if err != nil {
		w.fail("a turn that never began could not be taken back", err, func() {
			if w.rec.Phase == mission.Working && w.inFlight() && w.rec.turn().ID == turn {
				w.unbegin(turn)
			}
		})
	}
}

// quarantine leaves a guard alone that may be alive: nothing is taken over,
// nothing is killed, nothing is doubled. Should its process end, the mission
// goes on as after any loss of a guard.
func (w *worker) quarantine(cause error, rec wire.GuardRecord) string {
	w.alive = mission.GuardUncertain
	if rec.PID != 0 {
		w.awaitEnd(rec)
	}
	why := "Its guard may still be running, but it can't be talked to: " + cause.Error() + ". Nothing was taken over and nothing was killed; at its deadline it ends by itself."
	if rec.PID != 0 {
		why += fmt.Sprintf(" To end it before that, end process %d.", rec.PID)
	}
	w.hold(why)
	return why
}

// hold parks a mission whose guard can't be talked to, in words.
func (w *worker) hold(why string) {
	var err error
	switch held := w.rec.Phase; held {
	case mission.Stopping:
		w.settle([]string{"the guard, which can't be talked to"})
	case mission.Blocked:
		err = w.commit(func(r *Record) {
			r.BlockedBy = why
			if r.Held == "" {
				r.Held = mission.Blocked
			}
		})
	default:
		err = w.step(mission.EvBlock, func(r *Record) { r.BlockedBy, r.NextTurn, r.Held = why, time.Time{}, held })
	}
	if err != nil {
		w.fail("that a guard can't be talked to could not be journaled", err, func() { w.hold(why) })
	}
}

// awaitEnd settles a mission whose guard could not be talked to, once the
// guard's process has ended.
func (w *worker) awaitEnd(rec wire.GuardRecord) {
	attempt := w.rec.Attempt
	var left []string
	w.async(func(ctx context.Context) error {
		if err := proc.ID(rec.Process).Wait(ctx); err != nil {
			return err
		}
		left = w.clear(ctx, rec)
		return nil
	}, func(err error) {
		if err != nil {
			w.s.Log.Warn("the end of a guard can't be awaited", "mission", w.rec.ID, "err", err)
			return
		}
		if w.rec.Attempt == attempt && w.guard == nil && w.alive == mission.GuardUncertain {
			w.finished(left)
		}
	})
}

// finished reads the rest of the log of a guard that is gone, and lets the
// mission end or wait for a person.
func (w *worker) finished(left []string) {
	if err := w.replay(w.s.ctx, 0); err != nil {
		w.s.Log.Error("the log of a dead guard could not be read to its end", "mission", w.rec.ID, "err", err)
	}
	w.settleLost("", left)
}

// lookAgain finds out whether a guard that may be alive is gone by now, for a
// mission that is to end.
func (w *worker) lookAgain() {
	w.losing = true
	dir := w.s.attemptDir(w.rec.Attempt)
	var left []string
	w.async(func(ctx context.Context) error {
		rec, err := guard.ReadRecord(dir)
		if errors.Is(err, fs.ErrNotExist) {
			var owner proc.ID
			owner, err = w.owner()
			rec = wire.GuardRecord{Process: wire.Process(owner)}
		}
		switch {
		case err != nil:
			left = []string{"the guard: " + err.Error()}
		case proc.ID(rec.Process).State() != proc.Gone:
			left = []string{fmt.Sprintf("the guard, process %d, which can't be talked to", rec.PID)}
		default:
			left = w.clear(ctx, rec)
		}
		return nil
	}, func(error) {
		w.losing = false
		if w.rec.Phase != mission.Stopping {
			return
		}
		if w.guard != nil { // it answered meanwhile
			w.stopGuard(string(w.rec.EndReason))
			return
		}
		if len(left) > 0 {
			w.settle(left)
			return
		}
		w.finished(nil)
	})
}

// reap clears away what a dead guard left, reads the rest of its log, and lets
// the mission end or wait for a person.
func (w *worker) reap(ctx context.Context, rec wire.GuardRecord) string {
	left := w.clear(ctx, rec)
	if ctx.Err() != nil {
		return notLooked
	}
	w.finished(left)
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
