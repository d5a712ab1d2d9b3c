package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// ingest applies one entry of the guard's log. What decides something is
// journaled together with the entry's sequence; the entry is announced after
// that. Reading an entry twice changes nothing.
func (w *worker) ingest(e wire.Entry) {
	if e.Seq <= w.rec.Ingested {
		return
	}
	if w.fault == nil { // else it is read from the log once that is over
		if err := w.apply(e); err != nil {
			var bad *unreadable
			if errors.As(err, &bad) {
				w.unreadable(e, bad)
			} else {
				w.fail(fmt.Sprintf("entry %d of the guard (%s) could not be applied", e.Seq, e.Kind), err, nil)
			}
		} else {
			w.rec.Ingested = e.Seq // with what it changed, at the next write
		}
	}
	if e.Seq > w.told {
		w.told = e.Seq
		e.Log = w.rec.Attempt
		w.s.Announce.Entry(w.rec.Session, e)
	}
}

func (w *worker) apply(e wire.Entry) error {
	switch e.Kind {
	case wire.KindSessionStarted:
		return applyTo(e, w.sessionStarted)
	case wire.KindTurnStarted:
		return applyTo(e, func(t wire.TurnStarted) error {
			if turn := w.rec.turn(); turn != nil && turn.ID == t.Turn {
				turn.Begun = true
			}
			return nil
		})
	case wire.KindToolStarted:
		return applyTo(e, func(t wire.ToolStarted) error {
			w.rec.ToolCalls++
			if turn := w.rec.turn(); turn != nil {
				turn.Tools++
			}
			w.active(e, t.Tool, toolDetail(t))
			return nil
		})
	case wire.KindToolFinished, wire.KindText, wire.KindThought, wire.KindPlan:
		w.active(e, "", "")
		return nil
	case wire.KindUsage:
		return applyTo(e, func(u wire.UsageEntry) error {
			if turn := w.rec.turn(); turn != nil && turn.ID == u.Turn && turn.Outcome == nil {
				usage := usageOf(u.Usage)
				turn.Spending = &usage // whether it is too much is for the schedule
			}
			return nil
		})
	case wire.KindPermissionAsked:
		return applyTo(e, func(p wire.Permission) error { return w.asked(e, p) })
	case wire.KindPermissionResolved:
		return applyTo(e, func(p wire.PermissionResolved) error { return w.resolved(e, p) })
	case wire.KindTurnFinished:
		return applyTo(e, func(t wire.TurnFinished) error { return w.turnFinished(t, e.Seq) })
	case wire.KindSessionEnded:
		return applyTo(e, func(s wire.SessionEnded) error {
			w.rec.Ended = &s
			return nil
		})
	}
	return nil
}

func applyTo[T any](e wire.Entry, fn func(T) error) error {
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		return &unreadable{err}
	}
	return fn(v)
}

// unreadable is an entry that no later try will read.
type unreadable struct{ err error }

// unreadable shows that an entry is passed over. What depended on it, such as
// an answer that the agent waits for, needs a person.
func (w *worker) unreadable(e wire.Entry, why error) {
	w.s.Log.Error("an entry of a guard is passed over", "mission", w.rec.ID, "seq", e.Seq, "kind", e.Kind, "err", why)
	w.rec.Ingested = e.Seq
	if _, err := w.rec.Phase.On(mission.EvBlock); err == nil {
		w.cutShort(fmt.Sprintf("Entry %d of the worker's log (%s) can't be read.", e.Seq, e.Kind))
	}
}

// cutShort blocks a mission whose agent may wait for what nobody knows of, and
// ends the turn in which it does.
func (w *worker) cutShort(why string) {
	w.block(mission.PrivateStateFailure, why+" The turn was interrupted; look at the checkout, then resume or stop the mission.")
	if w.inFlight() {
		w.interrupt()
	}
}

func (u *unreadable) Error() string { return "it can't be read: " + u.err.Error() }

// active notes what the worker does right now, for the lists.
func (w *worker) active(e wire.Entry, tool, detail string) {
	if w.rec.Phase != mission.Working {
		return
	}
	// Words between tools change nothing but the time; before the first tool
	// they say that the agent is there.
	if a := w.rec.Activity; tool == "" && a != nil && a.Tool != "" {
		tool, detail = a.Tool, a.Detail
	}
	w.rec.Activity = &Activity{Tool: tool, Detail: detail, At: e.At}
	w.touch()
}

func toolDetail(t wire.ToolStarted) string {
	switch {
	case t.Command != "":
		return t.Command
	case len(t.Paths) > 0:
		return filepath.Base(t.Paths[0])
	}
	return t.Title
}

func (w *worker) sessionStarted(s wire.SessionStarted) error {
	return w.commit(func(r *Record) {
		r.ProviderSession = s.ProviderSession
		if t := r.turn(); t != nil {
			t.Heard = true
		}
		if s.Model != "" {
			r.ActualModel = s.Model
		}
	})
}

// asked puts a permission request before the rules that deny, those of the
// terms and those that allow, and before a person when none of them decides.
func (w *worker) asked(e wire.Entry, p wire.Permission) error {
	var subject approval.Subject
	if err := json.Unmarshal(p.Subject, &subject); err != nil {
		return &unreadable{err}
	}
	packed, err := packSubject(subject, w.s.Blobs)
	if err != nil {
		return err
	}
	ask := approvals.Record{
		ID: p.Request, Kind: approval.Kind(p.Kind), Mission: w.rec.ID, Attempt: w.rec.Attempt, Turn: p.Turn,
		Tool: subject.Tool, Subject: packed, Digest: p.Digest, CreatedAt: e.At,
	}
	if t := w.rec.turn(); t != nil {
		ask.TurnNo = t.Number
	}
	call := approval.Call{Kind: p.Class, Own: p.Own}
	for _, path := range p.Paths {
		call.Paths = append(call.Paths, approval.Path{Asked: path.Asked, Resolved: path.Resolved, Err: path.Err})
	}
	request := approval.NewRequest(ask.Kind, subject, call, w.rec.Folder())
	request.Mission, request.Project = w.rec.ID, w.rec.project()
	ask.Same = request.Exact
	if approval.Standing(request) {
		ask.Request = &request
	}
	if done, err := w.ruled(e, ask, request, approval.Deny); done || err != nil {
		return err
	}
	unasked := make([]string, 0, len(w.rec.Terms.Unasked))
	for _, u := range w.rec.Terms.Unasked {
		unasked = append(unasked, string(u))
	}
	if rule, ok := approval.Unasked(unasked, w.rec.Folder(), call); ok && ask.Kind != approval.QuestionAsked {
		err := w.commit(func(r *Record) {
			r.Ingested = e.Seq
			if r.Unasked == nil {
				r.Unasked = map[string]int{}
			}
			r.Unasked[rule]++
		}, func(tx *store.Tx) (err error) {
			ask, err = approvals.Rule(tx, ask, rule, w.s.now())
			return err
		})
		if err != nil {
			return err
		}
		w.deliverRuled(ask)
		return nil
	}
	if done, err := w.ruled(e, ask, request, approval.Allow); done || err != nil {
		return err
	}
	fault.Point("service.request-read")
	joined := false
	err = w.commit(func(r *Record) {
		r.Ingested = e.Seq
		r.Activity = &Activity{Tool: subject.Tool, Detail: wants(subject), At: e.At}
	}, func(tx *store.Tx) (err error) {
		if joined, err = approvals.Join(tx, ask); joined || err != nil {
			return err
		}
		return approvals.Ask(tx, ask)
	})
	if errors.Is(err, approvals.ErrFull) {
		return w.tooMany(e, ask, err)
	}
	if err != nil {
		return err
	}
	fault.Point("service.request-journaled")
	if !joined {
		ask.State = approval.Pending
		w.s.Announce.Approval(ask)
	}
	return nil
}

// tooMany refuses a request that found no place in the queue. It is journaled
// and counted like a person's denial.
func (w *worker) tooMany(e wire.Entry, ask approvals.Record, full error) error {
	why := approvals.Answer{Answer: approval.Answer{Reason: full.Error()}, Who: approvals.Who{Via: "limit"}, At: w.s.now()}
	err := w.commit(func(r *Record) {
		r.Ingested = e.Seq
		r.denied(ask.Tool, why.At)
	}, func(tx *store.Tx) (err error) {
		ask, err = approvals.Refuse(tx, ask, why)
		return err
	})
	if err != nil {
		return err
	}
	w.s.Announce.Approval(ask)
	w.deliver(ask)
	return nil
}

func wants(s approval.Subject) string {
	switch {
	case s.Command != "":
		return s.Command
	case len(s.Paths) > 0:
		return s.Paths[0]
	case s.Question != nil:
		return s.Question.Text
	}
	return s.Title
}

// deliver brings a journaled answer to the guard. It is idempotent there, and
// sent again after the next claim when no acknowledgement came.
func (w *worker) deliver(a approvals.Record) {
	if w.guard == nil || a.Answer == nil {
		return
	}
	g := w.guard
	p := wire.ResolveParams{
		Command: wire.Command{CommandID: "answer-" + a.ID},
		Request: a.ID, Digest: a.Digest, Allow: a.Answer.Allow, Message: a.Answer.Reason, Text: a.Answer.Text, By: a.Answer.Who.String(),
	}
	var gone bool
	w.async(func(ctx context.Context) error {
		res, err := g.Resolve(ctx, p)
		gone = res.State == "gone"
		fault.Point("service.answer-delivered")
		return err
	}, func(err error) {
		if err != nil {
			w.s.Log.Warn("an answer did not reach the guard", "mission", w.rec.ID, "approval", a.ID, "err", err)
			return
		}
		var after approvals.Record
		err = w.s.DB.Update(context.WithoutCancel(w.s.ctx), func(tx *store.Tx) (err error) {
			after, err = approvals.Delivered(tx, a.ID, gone)
			return err
		})
		if err != nil {
			w.s.Log.Error("an acknowledgement could not be journaled", "approval", a.ID, "err", err)
		} else if gone {
			w.s.Announce.Approval(after)
		}
	})
}

// resolved closes an approval that ended without an answer.
func (w *worker) resolved(e wire.Entry, p wire.PermissionResolved) error {
	var state approval.State
	switch p.Outcome {
	case "withdrawn":
		state = approval.Withdrawn
	case "expired":
		state = approval.Expired
	default:
		w.active(e, "", "")
		return nil
	}
	var closed approvals.Record
	var repeats []approvals.Record
	var changed bool
	err := w.commit(func(r *Record) { r.Ingested = e.Seq }, func(tx *store.Tx) (err error) {
		if closed, changed, err = approvals.Close(tx, p.Request, state, "turn", e.At); err != nil {
			return err
		}
		repeats, err = approvals.Together(tx, closed)
		return err
	})
	if err == nil && changed {
		w.s.Announce.Approval(closed)
		for _, a := range repeats {
			if a.State == approval.Pending && a.Joins == "" {
				w.s.Announce.Approval(a) // it is the one to answer now
			}
		}
	}
	return err
}

// turnFinished journals the outcome of a turn and what follows from it.
// Nothing is changed when that fails. seq is the entry that says so, 0 if none
// does.
func (w *worker) turnFinished(t wire.TurnFinished, seq uint64) error {
	if turn := w.rec.turn(); turn == nil || turn.ID != t.Turn || turn.Outcome != nil {
		return nil // of a turn that is settled otherwise
	}
	out := mission.TurnOutcome{
		Outcome: mission.Outcome(t.Outcome), Stage: mission.Stage(t.Stage), Code: mission.Code(t.Code), Retryable: t.Retryable,
		Next: mission.WorkNext(t.Next), Usage: usageOf(t.Usage), Seconds: t.Seconds,
		Why: cmp.Or(why(w.rec.Terms.Limits, t), t.Why),
	}
	if t.ResetAt != nil {
		out.ResetAt = *t.ResetAt
	}
	event := mission.EvTurnEnded
	if w.pausing {
		event = mission.EvPause
	}
	change := func(r *Record) {
		r.Ingested = max(r.Ingested, seq)
		r.ended(&out, w.s.now())
		turn := r.turn()
		if !turn.Heard && out.Outcome != mission.Succeeded {
			r.unheard()
		}
		r.Last, r.LastEnded, r.Result, r.Activity = &out, turn.EndedAt, t.Result, nil
		if t.Resources != nil {
			r.Use.take(*t.Resources)
		}
		switch {
		case out.Code == mission.MissingSession && !r.Renewed:
			// One fresh session replaces it, at once and without counting as
			// a failure.
			r.ProviderSession, r.Renewed, r.Last = "", true, nil
		case out.Code == mission.MissingSession:
			// A resume by a person begins a fresh one: this one never opens.
			out.Code, r.ProviderSession = mission.SessionRecoveryFailed, ""
			fallthrough
		case out.Outcome == mission.Failed:
			r.Failures++
			r.Failure = &Failure{Stage: out.Stage, Code: out.Code, Message: out.Sentence(), Retryable: out.Retryable}
		case out.Outcome == mission.Succeeded:
			r.Failures, r.Failure, r.Renewed = 0, nil, false
		}
		r.Left = slices.Clone(t.Left)
	}
	var done aftermath
	mark := func(tx *store.Tx) (err error) {
		if done, err = w.conclude(tx, out.Outcome, t.Result); err != nil {
			return err
		}
		tree, _ := w.guarded()
		return checkout.Mark(tx, w.rec.Folder(), w.rec.ID, tree.Root, "")
	}
	if w.rec.Phase != mission.Working {
		err := w.commit(change, mark)
		w.announce(done, err)
		w.pausing = w.pausing && err != nil
		return err
	}
	fault.Point("service.turn-end-read")
	err := w.step(event, change, mark)
	w.announce(done, err)
	w.pausing = w.pausing && err != nil
	fault.Point("service.turn-end-journaled")
	return err
}

// lost is called when the connection to the guard has ended.
func (w *worker) lost(g *guard.Client) {
	_ = g.Close()
	if w.guard != g || w.s.ctx.Err() != nil {
		return
	}
	w.guard, w.losing, w.claimed = nil, true, nil
	var left []string
	w.async(func(ctx context.Context) error {
		// A killed process closes its connections a little before it is gone.
		ending, cancel := context.WithTimeout(ctx, claimLimit)
		defer cancel()
		if err := proc.ID(g.Record.Process).Wait(ending); err != nil {
			return err
		}
		left = w.clear(ctx, g.Record)
		return nil
	}, func(err error) {
		w.losing = false
		if err != nil {
			w.quarantine(fmt.Errorf("the connection broke (%w); restart the service to claim it again", errors.Join(g.Err(), err)), g.Record)
			return
		}
		w.finished(left)
	})
}

// contextLimit is how long the disk of a checkout may take to remove two files.
const contextLimit = 2 * time.Second

// removeContext takes the files for the bridges of Codex out of the checkout,
// which a guard does itself unless it was killed. A disk that doesn't answer
// holds up nothing: they are removed when it does, or stay.
func (w *worker) removeContext() {
	if b := w.s.bridge(w.rec); b == nil || b.Provider != "codex" {
		return
	}
	done := make(chan struct{})
	folder, attempt, mission, log := w.rec.Folder(), w.rec.Attempt, w.rec.ID, w.s.Log
	go func() {
		defer close(done)
		if err := contextfile.Remove(folder, attempt); err != nil {
			log.Warn("the files for a bridge were not removed", "mission", mission, "err", err)
		}
	}()
	limit := time.NewTimer(contextLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	case <-w.s.ctx.Done():
	}
}

// stillLeft names what the guard could not end and may still be running. Of what
// it only had words for nobody can look again, so a person is told once.
func (w *worker) stillLeft() (left []string) {
	e := w.rec.Ended
	if e == nil || len(e.Left) == 0 {
		return nil
	}
	if len(e.Processes) == 0 {
		told := *e
		told.Left, w.rec.Ended = nil, &told
		return e.Left
	}
	for i, p := range e.Processes {
		if proc.ID(p).State() != proc.Gone {
			left = append(left, e.Left[min(i, len(e.Left)-1)])
		}
	}
	return left
}

// settleLost decides what becomes of a mission whose guard is gone. cause tells
// of one that never came up, and left names what could not be ended.
func (w *worker) settleLost(cause string, left []string) {
	if w.rec.Phase.Terminal() {
		return
	}
	if w.fault != nil {
		// The log may say how it ended, and can't be taken in yet.
		w.again = append(w.again, func() { w.settleLost(cause, left) })
		return
	}
	w.removeContext()
	left = append(left, w.stillLeft()...)
	w.alive = mission.GuardGone
	if len(left) == 0 {
		w.setTree(proc.Guarded{})
	} else {
		w.alive = mission.GuardUncertain
	}
	if w.rec.Phase != mission.Stopping && w.rec.Ended != nil && w.rec.Ended.Reason == string(mission.EndDeadline) {
		_ = w.end(mission.EndDeadline) // settles at once: there is no guard any more
		return
	}
	if w.rec.Phase == mission.Blocked && w.rec.EndReason != "" && len(left) == 0 {
		_ = w.end(w.rec.EndReason) // it was to end, and now nothing is in the way
		return
	}
	if w.rec.Phase == mission.Stopping {
		w.settle(left)
		return
	}
	// The mission keeps its claim, and needs a person unless it is an update
	// that ended its guard.
	why := cmp.Or(cause, "The guard of this mission ended unexpectedly. Its processes are gone; the last turn may have done work that it could not report. Look at the checkout, then recover or stop the mission.")
	if w.rec.Ended != nil && w.rec.Ended.Reason == guard.ReasonFull {
		why = "The transcript of this mission reached its limit of 1 GiB, so its worker was ended. See what filled it, then recover or stop the mission."
	}
	if w.rec.Ended != nil && w.rec.Ended.Reason == guard.ReasonMemory {
		why = fmt.Sprintf("Between two turns the agent passed the mission's memory limit of %s, so its worker was ended. See what needed it, then recover or stop the mission.", mission.Memory(w.rec.Terms.Limits.MemoryMB<<20))
	}
	asked := w.draining && len(left) == 0
	if asked {
		why = endedForUpdate
		if w.rec.Phase == mission.Blocked {
			why = w.rec.BlockedBy + " " + endedWhileBlocked
		}
	}
	if len(left) > 0 {
		why = "The guard of this mission ended unexpectedly, and these are left: " + strings.Join(left, ", ") + "."
	}
	change := func(r *Record) {
		w.closeTurn(r)
		r.BlockedBy, r.Held = why, ""
		if !asked {
			r.Failure = &Failure{Stage: mission.StageExecution, Code: mission.LocalExecutionFailure, Message: why}
		}
		r.Left, r.Activity, r.NextTurn = left, nil, time.Time{}
		r.LostAt = w.s.now()
	}
	var closed []approvals.Record
	var done aftermath
	closeAll := func(tx *store.Tx) (err error) {
		if done, err = w.loseAll(tx, "its worker ended unexpectedly"); err != nil {
			return err
		}
		closed, err = approvals.CloseAll(tx, w.rec.ID, approval.Withdrawn, "turn", w.s.now())
		return err
	}
	save := func() error { return w.commit(change, closeAll) }
	if w.rec.Phase != mission.Blocked {
		save = func() error { return w.step(mission.EvBlock, change, closeAll) }
	}
	if err := save(); err != nil {
		w.fail("the loss of a guard could not be journaled", err, func() { w.settleLost(cause, left) })
		return
	}
	w.pausing, w.draining = false, false
	w.announce(done, nil)
	for _, a := range closed {
		w.s.Announce.Approval(a)
	}
	if len(left) == 0 && !asked { // else it goes on at once, or the next service looks
		w.pictureLoss()
	}
}

func usageOf(u wire.Usage) mission.Usage {
	return mission.Usage{
		Provider: u.Provider, Model: u.Model, ModelSource: u.ModelSource, Semantics: u.Semantics,
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		ModelCalls: u.ModelCalls, ToolCalls: u.ToolCalls, ToolCounts: u.ToolCounts, CostUSD: u.CostUSD, Seconds: u.Seconds,
	}
}
