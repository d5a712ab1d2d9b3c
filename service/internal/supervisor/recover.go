package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// maxInstructions bounds the instruction file when it is read back, in bytes.
const maxInstructions = 1 << 20

// Recover asks a person whether a mission whose guard is gone may go on. The
// terms are those that were allowed, and the deadline stays; ref names exactly
// the record that the caller saw. env are the caller's variables: of them come
// the mission's secrets that a restart of the service lost.
func (s *Supervisor) Recover(ctx context.Context, id, ref string, same mission.Terms, env map[string]string) (Record, approvals.Record, error) {
	var ask approvals.Record
	var out Record
	err := s.do(ctx, id, func(w *worker) (err error) {
		if err := w.recoverable(ref); err != nil {
			return err
		}
		if t := w.rec.Terms; t.Provider != same.Provider || t.Model != same.Model || t.Scope != same.Scope || t.Folder != same.Folder {
			return wire.Errorf(wire.CodeConflict, "A recovery has the same provider, model, scope and folder as the mission. Look at the mission again, or start a new one.")
		}
		waiting, err := w.pendingRecovery()
		if err != nil {
			return err
		}
		var before map[string]string
		asked := waiting.ID != "" && waiting.Ref == w.rec.Ref()
		if asked {
			before = w.handed.of(waiting.ID)
			env = merged(before, env)
		}
		secrets, err := s.refill(w.rec, env)
		if err != nil {
			return err
		}
		if asked && maps.Equal(secrets, before) {
			ask, out = waiting, w.rec.clone()
			return nil
		}
		if ask, err = w.askRecovery(waiting); err == nil {
			w.handed = handed{ask.ID, secrets}
		}
		out = w.rec.clone()
		return err
	})
	return out, ask, err
}

// recoverable says why the mission can't be recovered now, or nil.
func (w *worker) recoverable(ref string) error {
	r := &w.rec
	switch mission.Recover(r.Phase, w.alive, r.Deadline.Passed(w.s.Now())) {
	case mission.ApprovalRequired:
	case mission.RecoveryExpired:
		return wire.Errorf(wire.CodeDeadlinePassed, "The mission's time is over, and recovering doesn't extend it. Start a new mission.")
	case mission.OwnerUncertain:
		return wire.Errorf(wire.CodeConflict, "A worker of this mission may still be running: %s Nothing can be taken over until that is certain.", r.BlockedBy)
	default:
		return wire.Errorf(wire.CodeConflict, "Only a mission whose worker is gone can be recovered; this one is %s.", r.Phase)
	}
	if ref != r.Ref() {
		return wire.Errorf(wire.CodeConflict, "The mission changed since you looked at it. Look again, then recover it.").With(map[string]string{"recovery_ref": r.Ref()})
	}
	if len(r.Left) > 0 {
		return wire.Errorf(wire.CodeConflict, "Processes of the mission could not be ended (%s); end them first.", r.Left[0])
	}
	text, err := private.ReadFile(w.s.instructionsPath(r.Attempt), maxInstructions)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wire.Errorf(wire.CodeConflict, "The mission's instruction file can't be trusted: %v", err)
	}
	if err == nil && mission.InstructionDigest(string(text)) != r.Instructions {
		return wire.Errorf(wire.CodeConflict, "The mission's instruction file was changed after the mission was allowed. Start a new mission.")
	}
	if _, err := w.s.instructions(*r); err != nil {
		return err
	}
	return nil
}

func (w *worker) pendingRecovery() (approvals.Record, error) {
	var found approvals.Record
	err := w.s.DB.View(func(tx *store.Tx) error {
		waiting, err := approvals.Pending(tx, w.rec.ID)
		for _, a := range waiting {
			if a.Kind == approval.MissionRecover {
				found = a
			}
		}
		return err
	})
	return found, err
}

// askRecovery puts the recovery before a person. An earlier question about
// another state of the record is withdrawn.
func (w *worker) askRecovery(old approvals.Record) (approvals.Record, error) {
	s, r := w.s, &w.rec
	text, err := s.instructions(*r)
	if err != nil {
		return approvals.Record{}, err
	}
	notes := w.uncertain()
	if secrets := r.secrets(); len(secrets) > 0 {
		notes = append(notes, CouldRead(secrets))
	}
	subject := approval.Subject{
		Title: "Recover a mission", Cwd: r.Folder(),
		Mission: missionSubject(*r, text, mission.PromptInput{EndsAt: r.Deadline.At, Turn: r.TurnCount() + 1, Recovered: true}, notes),
	}
	ask := approvals.Record{ID: NewID("p"), Kind: approval.MissionRecover, Mission: r.ID, Attempt: r.Attempt, TurnNo: r.TurnCount(), CreatedAt: s.now(), Ref: r.Ref()}
	if ask.Digest, err = approval.Digest(approval.Envelope{ID: ask.ID, Kind: ask.Kind, Mission: r.ID, Attempt: r.Attempt, Turn: ask.TurnNo, Subject: subject}); err != nil {
		return ask, err
	}
	if ask.Subject, err = packSubject(subject, s.Blobs); err != nil {
		return ask, err
	}
	var withdrawn approvals.Record
	err = s.DB.Update(context.WithoutCancel(s.ctx), func(tx *store.Tx) (err error) {
		if old.ID != "" {
			if withdrawn, _, err = approvals.Close(tx, old.ID, approval.Withdrawn, "turn", s.now()); err != nil {
				return err
			}
		}
		return approvals.Ask(tx, ask)
	})
	if errors.Is(err, approvals.ErrFull) {
		err = wire.Errorf(wire.CodeLimitExceeded, "%v.", err)
	}
	if err != nil {
		return ask, err
	}
	fault.Point("service.recovery-asked")
	if old.ID != "" {
		s.Announce.Approval(withdrawn)
	}
	ask.State = approval.Pending
	s.Announce.Approval(ask)
	return ask, nil
}

// uncertain says in sentences what is not known about the last attempt.
func (w *worker) uncertain() []string {
	r := &w.rec
	notes := []string{r.BlockedBy}
	if t := r.turn(); t != nil && t.Outcome != nil && t.Outcome.Outcome == mission.Interrupted {
		notes = append(notes, fmt.Sprintf("Turn %d may have finished work without recording it.", t.Number))
	}
	for _, x := range r.Steering {
		if x.State == SteerUnconfirmed {
			notes = append(notes, fmt.Sprintf("It is not known whether the agent saw your instruction %q.", x.Text))
		}
	}
	return notes
}

// answerRecovery continues a mission in a new attempt, if the record still is
// the one that the question was about.
func (w *worker) answerRecovery(ctx context.Context, ask approvals.Record, digest string, a approvals.Answer) (approvals.Record, error) {
	var out approvals.Record
	decide := func(tx *store.Tx) (err error) {
		out, err = approvals.Decide(tx, ask.ID, digest, a, nil)
		return refusal(out, err)
	}
	if !a.Allow {
		err := w.s.DB.Update(context.WithoutCancel(ctx), decide)
		if err == nil {
			w.handed = handed{}
			w.s.Announce.Approval(out)
			if a.Stop {
				err = w.end(mission.EndPerson)
			}
		}
		return out, err
	}
	if err := w.recoverable(ask.Ref); err != nil {
		return out, err
	}
	secrets, err := w.s.refill(w.rec, w.handed.of(ask.ID))
	if err != nil {
		return out, err
	}
	if err := w.unchanged(ctx); err != nil {
		return out, err
	}
	err = w.nextAttempt("recovered", a.Who.String(), func(r *Record) {
		r.Failures, r.Last, r.Held, r.Reconcile = 0, nil, "", true
		r.Renewed = false // a session that was lost with the guard is no fault of the agent's
	}, decide)
	if err != nil {
		return out, err
	}
	w.s.keep(w.rec.ID, secrets)
	w.handed = handed{}
	w.s.Announce.Approval(out)
	w.start()
	return out, nil
}

// nextAttempt journals that a mission whose guard is gone goes on in a new one,
// which start brings up then.
func (w *worker) nextAttempt(text, actor string, change func(*Record), more ...func(*store.Tx) error) error {
	seen, err := w.s.look(w.s.ctx, w.rec)
	if err != nil {
		return err
	}
	attempt, old := NewID("a"), w.rec.Attempt
	err = w.step(mission.EvRecover, func(r *Record) {
		r.Earlier = append(r.Earlier, old)
		r.Attempt, r.Ingested = attempt, 0
		r.Bridge = newBridge(*r)
		r.BlockedBy, r.Failure, r.Ended = "", nil, nil
		r.Recovered, r.LostAt = true, time.Time{}
		r.Use.nextAttempt()
		change(r)
	}, append(more, func(tx *store.Tx) error {
		if err := w.s.take(tx, w.rec, attempt, seen); err != nil {
			return err
		}
		if err := w.openRoom(tx); err != nil { // of a mission from before there were rooms
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: w.rec.ID, Actor: actor, Text: text})
	})...)
	if err != nil {
		return err
	}
	fault.Point("service.recovery-journaled")
	w.alive, w.told, w.expired = "", 0, false
	w.setTree(proc.Guarded{})
	return nil
}

// unchanged checks that what a person allowed still is so: the instructions are
// those, the folder leads to the same place, and the agent's program is the one
// that was approved.
func (w *worker) unchanged(ctx context.Context) error {
	if _, err := w.s.instructions(w.rec); err != nil {
		return err
	}
	folder := w.rec.Folder()
	if w.rec.Worktree != nil && !w.rec.Worktree.Made {
		folder = w.rec.Terms.Folder
	}
	tree, err := checkout.Inspect(ctx, folder, w.s.StateDir)
	if err != nil {
		return Refuse(err)
	}
	if tree.Path != folder {
		return wire.Errorf(wire.CodeConflict, "%s now leads to %s; propose the mission again.", folder, tree.Path)
	}
	p := w.s.Provider(w.rec.Terms.Provider)
	if p == nil {
		return wire.Errorf(wire.CodeConflict, "The provider %s is no longer configured.", w.rec.Terms.Provider)
	}
	was := w.rec.Provider
	if found := p.Probe(ctx, w.rec.Env); found.Path != was.Path || found.Version != was.Version {
		return wire.Errorf(wire.CodeConflict, "The agent program changed since the mission was proposed (%s %s, now %s %s); propose it again.", was.Path, was.Version, found.Path, found.Version)
	}
	return nil
}

// Cancel ends a recoverable mission. It is a change of the record alone: it
// proves that no process owns the checkout, and never kills one.
func (s *Supervisor) Cancel(ctx context.Context, id string) (Record, error) {
	var target *worker
	err := s.do(ctx, id, func(w *worker) error {
		target = w
		switch mission.Recover(w.rec.Phase, w.alive, w.rec.Deadline.Passed(s.Now())) {
		case mission.ApprovalRequired, mission.RecoveryExpired:
		case mission.OwnerUncertain:
			return wire.Errorf(wire.CodeConflict, "A worker of this mission may still be running: %s", w.rec.BlockedBy)
		default:
			return wire.Errorf(wire.CodeConflict, "Only a mission whose worker is gone can be cancelled; this one is %s. Stop it instead.", w.rec.Phase)
		}
		return w.end(mission.EndPerson)
	})
	if err != nil {
		return Record{}, err
	}
	return s.settled(ctx, target, "cancelled", func(r Record) bool { return r.Phase.Terminal() })
}
