package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/internal/session"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

var _ server.Backend = (*Service)(nil)

// Identity names this incarnation of the service.
func (s *Service) Identity() wire.NegotiateResult { return s.id }

// Status is the state of the service.
func (s *Service) Status(context.Context) (wire.Service, error) { return s.status(), nil }

// stopLimit is how long a stop waits for workers to settle.
const stopLimit = 25 * time.Second

// Stop ends the service; with Workers every mission is stopped first. The
// answer is given before the socket closes.
func (s *Service) Stop(ctx context.Context, a server.Actor, p wire.ServiceStopParams) (wire.ServiceStopResult, error) {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.topics.service.Publish(wire.EvService, s.status())
	var r wire.ServiceStopResult
	if p.Workers {
		ctx, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		r.Stopped, r.Left = s.sup.StopAll(ctx)
	}
	r.GoingOn, r.Stopping = s.sup.Live(), true
	s.log.Info("told to end", "program", a.Program, "pid", a.PID, "workers", p.Workers)
	if err := s.audit(ctx, fmt.Sprintf("told to end by %s (pid %d)", a.Program, a.PID)); err != nil {
		s.log.Error("the end could not be journaled", "err", err)
	}
	s.stop()
	return r, nil
}

// AuditVerify checks the whole audit chain.
func (s *Service) AuditVerify(ctx context.Context) (wire.AuditVerifyResult, error) {
	rep, err := s.db.VerifyAudit(ctx)
	return wire.AuditVerifyResult{Entries: rep.Entries, Head: rep.Head, OK: rep.BrokenAt == 0, BrokenAt: rep.BrokenAt, Detail: rep.Detail}, err
}

// auditPage is how many bytes of entries a page of the audit log has at most,
// unless one entry alone has more: a line holds it.
const auditPage = 900 << 10

// AuditRead returns a page of the audit log.
func (s *Service) AuditRead(_ context.Context, p wire.AuditReadParams) (wire.AuditReadResult, error) {
	page, err := s.db.AuditPage(p.After, p.Limit, auditPage)
	var damaged *store.DamagedError
	if errors.As(err, &damaged) {
		err = wire.Errorf(wire.CodeUnavailable, "The audit log is damaged: %s. Run `reeve audit verify`.", damaged.Detail)
	}
	return wire.AuditReadResult{Entries: page.Entries, Next: page.Last, More: page.More}, err
}

// MissionStart proposes a mission.
func (s *Service) MissionStart(ctx context.Context, a server.Actor, p wire.MissionStartParams) (wire.MissionStartResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.MissionStartResult{}, err
	}
	defer leave()
	prop, checks, err := s.propose(ctx, p)
	if err != nil {
		return wire.MissionStartResult{}, err
	}
	for _, c := range checks {
		if !c.OK {
			code := wire.CodeInvalidParams
			if c.Name == "nobody else works here" {
				code = wire.CodeConflict
			}
			return wire.MissionStartResult{}, wire.Errorf(code, "%s %s", c.Message, c.Fix).With(map[string]any{"field": c.Field, "checks": checks})
		}
	}
	r, ask, err := s.sup.Propose(ctx, prop)
	if err != nil {
		return wire.MissionStartResult{}, err
	}
	return wire.MissionStartResult{Mission: s.missionView(r), Approval: approvalView(ask, r)}, nil
}

// MissionList pages through all missions, newest first.
func (s *Service) MissionList(_ context.Context, p wire.MissionListParams) (wire.MissionListResult, error) {
	limit := p.Limit
	if limit <= 0 || limit > 200 {
		limit = 200
	}
	recs, more, err := s.sup.List(p.Before, limit)
	if err != nil {
		return wire.MissionListResult{}, err
	}
	out, waiting := wire.MissionListResult{Missions: make([]wire.Mission, 0, len(recs)), More: more}, s.waiting()
	for _, r := range recs {
		out.Missions = append(out.Missions, s.missionWith(r, waiting))
	}
	return out, nil
}

// MissionGet returns one mission by id or unique suffix.
func (s *Service) MissionGet(_ context.Context, p wire.IDParams) (wire.MissionResult, error) {
	id, err := s.missionID(p.ID)
	if err != nil {
		return wire.MissionResult{}, err
	}
	return s.mission(s.sup.Get(id))
}

func (s *Service) mission(r supervisor.Record, err error) (wire.MissionResult, error) {
	if err != nil {
		return wire.MissionResult{}, err
	}
	return wire.MissionResult{Mission: s.missionView(r)}, nil
}

// command has the supervisor do one thing to the mission that a client names.
func (s *Service) command(ctx context.Context, name string, do func(ctx context.Context, id string) (supervisor.Record, error)) (wire.MissionResult, error) {
	id, err := s.missionID(name)
	if err != nil {
		return wire.MissionResult{}, err
	}
	return s.mission(do(ctx, id))
}

// MissionSteer queues an instruction for the next turn.
func (s *Service) MissionSteer(ctx context.Context, _ server.Actor, p wire.SteerParams) (wire.MissionResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.MissionResult{}, err
	}
	defer leave()
	id, err := s.missionID(p.ID)
	if err != nil {
		return wire.MissionResult{}, err
	}
	text := strings.TrimSpace(p.Text)
	if bad := mission.CheckSteering(text); bad != nil {
		return wire.MissionResult{}, wire.Errorf(wire.CodeInvalidParams, "%s %s", bad.Message, bad.Fix).With(map[string]string{"field": "text"})
	}
	return s.mission(s.sup.Steer(ctx, id, text))
}

// MissionPause interrupts the turn in flight; the deadline stands.
func (s *Service) MissionPause(ctx context.Context, _ server.Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return s.command(ctx, p.ID, s.sup.Pause)
}

// MissionResume lets a paused or blocked mission go on.
func (s *Service) MissionResume(ctx context.Context, _ server.Actor, p wire.MissionParams) (wire.MissionResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.MissionResult{}, err
	}
	defer leave()
	return s.command(ctx, p.ID, s.sup.Resume)
}

// MissionStop ends a mission and answers when its tree is empty.
func (s *Service) MissionStop(ctx context.Context, _ server.Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return s.command(ctx, p.ID, s.sup.Stop)
}

// MissionRecover asks whether a mission whose guard is gone may go on.
func (s *Service) MissionRecover(ctx context.Context, _ server.Actor, p wire.RecoverParams) (wire.MissionStartResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.MissionStartResult{}, err
	}
	defer leave()
	id, err := s.missionID(p.ID)
	if err != nil {
		return wire.MissionStartResult{}, err
	}
	r, ask, err := s.sup.Recover(ctx, id, p.Ref, mission.Terms{Provider: p.Provider, Model: p.Model, Folder: p.Folder, Scope: p.Scope}, p.Env)
	if err != nil {
		return wire.MissionStartResult{}, err
	}
	return wire.MissionStartResult{Mission: s.missionView(r), Approval: approvalView(ask, r)}, nil
}

// MissionCancel ends a mission whose guard is gone; it kills nothing.
func (s *Service) MissionCancel(ctx context.Context, _ server.Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return s.command(ctx, p.ID, s.sup.Cancel)
}

// ApprovalList is the queue.
func (s *Service) ApprovalList(_ context.Context, p wire.ApprovalListParams) (wire.ApprovalListResult, error) {
	id := p.Mission
	if id != "" {
		var err error
		if id, err = s.missionID(id); err != nil {
			return wire.ApprovalListResult{}, err
		}
	}
	list, err := s.approvals(id, p.All)
	return wire.ApprovalListResult{Approvals: list}, err
}

// ApprovalGet returns one approval by id or unique suffix.
func (s *Service) ApprovalGet(_ context.Context, p wire.IDParams) (wire.ApprovalResult, error) {
	id, err := s.approvalID(p.ID)
	if err != nil {
		return wire.ApprovalResult{}, err
	}
	var a approvals.Record
	if err := s.db.View(func(tx *store.Tx) (err error) { a, _, err = approvals.Get(tx, id); return }); err != nil {
		return wire.ApprovalResult{}, err
	}
	return s.approval(a)
}

func (s *Service) approval(a approvals.Record) (wire.ApprovalResult, error) {
	r, err := s.sup.Get(a.Mission)
	return wire.ApprovalResult{Approval: approvalView(a, r)}, err
}

// ApprovalAnswer settles an approval for the person behind a.
func (s *Service) ApprovalAnswer(ctx context.Context, a server.Actor, p wire.AnswerParams) (wire.ApprovalResult, error) {
	id, err := s.approvalID(p.ID)
	if err != nil {
		return wire.ApprovalResult{}, err
	}
	switch {
	case p.Digest == "":
		return wire.ApprovalResult{}, wire.Errorf(wire.CodeInvalidParams, "An answer must repeat the digest of what was seen.").With(map[string]string{"field": "digest"})
	case !slices.Contains([]string{"", approval.ForOnce, approval.ForMission, approval.ForProject}, p.For):
		return wire.ApprovalResult{}, wire.Errorf(wire.CodeInvalidParams, "An answer is for once, mission or project.").With(map[string]string{"field": "for"})
	case p.Pattern != "" && (p.For == "" || p.For == approval.ForOnce):
		return wire.ApprovalResult{}, wire.Errorf(wire.CodeInvalidParams, "A pattern makes a rule, so the answer must be for the mission or the project.").With(map[string]string{"field": "pattern"})
	case p.Allow && p.Stop:
		return wire.ApprovalResult{}, wire.Errorf(wire.CodeInvalidParams, "Only a denial can stop the mission.").With(map[string]string{"field": "stop"})
	case len(p.Reason) > 8000 || len(p.Text) > 64000:
		return wire.ApprovalResult{}, wire.Errorf(wire.CodeInvalidParams, "The reason is too long; keep it under 8,000 bytes.").With(map[string]string{"field": "reason"})
	}
	if p.Allow {
		leave, err := s.enter()
		if err != nil {
			return wire.ApprovalResult{}, err
		}
		defer leave()
	}
	if p.For == "" {
		p.For = approval.ForOnce
	}
	rec, err := s.sup.Answer(ctx, id, p.Digest, approvals.Answer{
		Answer: approval.Answer{Allow: p.Allow, Reason: p.Reason, Stop: p.Stop, For: p.For, Pattern: p.Pattern},
		Who:    who(a),
		Text:   p.Text,
	})
	if err != nil {
		return wire.ApprovalResult{}, err
	}
	return s.approval(rec)
}

// Session resolves a session or mission id.
func (s *Service) Session(_ context.Context, id string) (server.SessionRef, error) {
	if rest, ok := strings.CutPrefix(id, "s-"); ok {
		id = "m-" + rest
	}
	id, err := s.missionID(id)
	if err != nil {
		return server.SessionRef{}, err
	}
	r, err := s.sup.Get(id)
	if err != nil {
		return server.SessionRef{}, err
	}
	if r.Session == "" {
		return server.SessionRef{}, wire.Errorf(wire.CodeNotFound, "The mission has not started, so it has no transcript yet.")
	}
	return server.SessionRef{Session: r.Session, Mission: r.ID}, nil
}

// History reads the logs of a session, one for each attempt.
func (s *Service) History(ctx context.Context, id string, after *wire.Cursor, emit func(wire.Entry) bool) (wire.Cursor, error) {
	ref, err := s.Session(ctx, id)
	if err != nil {
		return wire.Cursor{}, err
	}
	r, err := s.sup.Get(ref.Mission)
	if err != nil {
		return wire.Cursor{}, err
	}
	attempts, at := r.Attempts(), wire.Cursor{}
	if after != nil {
		i := slices.Index(attempts, after.Log)
		if i < 0 {
			return wire.Cursor{}, wire.Errorf(wire.CodeUnavailable, "The cursor belongs to another transcript.")
		}
		attempts, at = attempts[i:], *after
	}
	for _, attempt := range attempts {
		if at.Log != attempt {
			at = wire.Cursor{Log: attempt}
		}
		more := true
		at.Sequence, err = session.History(ctx, s.sup.LogPath(attempt), at.Sequence, func(rec runlog.Record) bool {
			more = emit(wire.Entry{Log: attempt, Seq: rec.Seq, At: rec.Time.UTC(), Kind: rec.Kind, Data: rec.Data})
			return more
		})
		if errors.Is(err, session.ErrBeyond) {
			err = wire.Errorf(wire.CodeUnavailable, "The transcript does not reach that cursor.")
		}
		if err != nil || !more {
			break
		}
	}
	return at, err
}

// BlobRead returns a piece of a long value.
func (s *Service) BlobRead(_ context.Context, p wire.BlobReadParams) (wire.BlobReadResult, error) {
	data, total, paged := s.sup.Page(p.Digest, p.Offset, wire.BlobPiece)
	var err error
	if !paged {
		data, total, err = s.blobs.ReadAt(p.Digest, p.Offset, wire.BlobPiece)
	}
	if err != nil {
		return wire.BlobReadResult{}, wire.Errorf(wire.CodeNotFound, "There is no such value: %v.", err)
	}
	return wire.BlobReadResult{Data: data, Bytes: total, EOF: p.Offset+int64(len(data)) >= total}, nil
}

// missionID completes a mission id from a unique suffix.
func (s *Service) missionID(id string) (string, error) {
	return s.complete("mission", "missions", "m-", id, "reeve ls")
}

func (s *Service) approvalID(id string) (string, error) {
	return s.complete("approval", "approvals", "p-", id, "reeve approvals")
}

// minSuffix keeps short strings from matching by accident.
const minSuffix = 4

func (s *Service) complete(what, bucket, prefix, id, list string) (string, error) {
	if id == "" {
		return "", wire.Errorf(wire.CodeInvalidParams, "The %s id is missing.", what).With(map[string]string{"field": "id"})
	}
	id = strings.ToLower(id)
	var found []string
	err := s.db.View(func(tx *store.Tx) error {
		if strings.HasPrefix(id, prefix) && tx.Get(bucket, []byte(id)) != nil {
			found = []string{id}
			return nil
		}
		if len(id) < minSuffix {
			return nil
		}
		return tx.ScanReverse(bucket, nil, func(k, _ []byte) (bool, error) {
			if strings.HasSuffix(string(k), id) {
				found = append(found, string(k))
			}
			return len(found) < 10, nil
		})
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", wire.Errorf(wire.CodeNotFound, "There is no %s %q; run %s to see them. At least %d characters of an id are needed.", what, id, list, minSuffix)
	case len(found) > 1:
		return "", wire.Errorf(wire.CodeAmbiguous, "More than one %s ends in %q; give more characters.", what, id).With(map[string]any{"candidates": found})
	}
	return found[0], nil
}
