package service

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// missionView is a mission as clients see it.
func (s *Service) missionView(r supervisor.Record) wire.Mission {
	return s.missionWith(r, s.waiting())
}

func (s *Service) missionWith(r supervisor.Record, waiting map[string]int) wire.Mission {
	m := wire.Mission{
		ID: r.ID, Title: r.Title, Phase: string(r.Phase), EndReason: string(r.EndReason),
		Provider: r.Terms.Provider, ProviderPath: r.Provider.Path, ProviderVersion: r.Provider.Version,
		RequestedModel: r.Terms.Model, ActualModel: r.ActualModel, Model: r.Terms.Model, Endpoint: r.Terms.Endpoint,
		Folder: r.Terms.Folder, Scope: r.Terms.Scope, Minutes: r.Terms.Minutes, Budget: wire.Budget(r.Terms.Budget), Limits: wire.Limits(r.Terms.Limits), Resources: r.Resources(),
		Unasked: []string{}, CreatedAt: r.CreatedAt, StartedAt: timePtr(r.StartedAt), EndedAt: timePtr(r.EndedAt), NextTurnAt: timePtr(r.NextTurn),
		Session: r.Session, Attempt: r.Attempt, Generation: r.Generation, Turn: r.TurnCount(), ToolCalls: r.ToolCalls,
		Usage: wire.Usage(r.Usage), BlockedBy: r.BlockedBy, Steering: []wire.Steering{},
		Denials:  wire.Denials{Count: r.Denials.Count, Tools: r.Denials.Tools, LastAt: timePtr(r.Denials.LastAt)},
		Refusals: r.Refusals, ContactKnown: true, CheckoutOwned: r.Phase.Live(), LastResult: r.Result,
		UnaskedUses: r.Unasked, Left: r.Left, Revision: r.Revision,
	}
	m.Pending = waiting[r.ID]
	m.Recovered = r.Recovered
	m.Recovery = string(mission.Recover(r.Phase, r.Guard, r.Deadline.Passed(s.o.Now())))
	if m.Recovery == string(mission.ApprovalRequired) {
		m.RecoveryRef = r.Ref()
	}
	if m.ActualModel != "" {
		m.Model = m.ActualModel
	}
	if m.Recovery != "" {
		m.LostAt = timePtr(r.LostAt)
	}
	if wt := r.Worktree; wt != nil {
		m.Worktree = &wire.Worktree{Path: wt.Path, Branch: wt.Branch, Base: wt.Base, State: "planned", Merged: wt.Merged}
		switch {
		case wt.Removed:
			m.Worktree.State = "removed"
		case wt.Made:
			m.Worktree.State = "made"
		}
	}
	m.WaitForReset = r.Terms.WaitForReset
	if last := r.Last; last != nil && last.Code == mission.RateLimited && (r.Phase == mission.Waiting || r.Phase == mission.Blocked) {
		m.LimitedUntil = timePtr(last.ResetAt)
	}
	for _, u := range r.Terms.Unasked {
		m.Unasked = append(m.Unasked, string(u))
	}
	if !r.StartedAt.IsZero() {
		m.DeadlineAt = timePtr(r.Deadline.At.Round(0).UTC())
		if !r.Phase.Terminal() {
			m.RemainingSeconds = int64(r.Deadline.Remaining(s.o.Now()).Seconds())
		}
	}
	if a := r.Activity; a != nil {
		m.Activity = &wire.Activity{Tool: a.Tool, Detail: cut(a.Detail, 400), At: a.At}
	}
	if f := r.Failure; f != nil {
		m.Failure = &wire.Failure{Stage: string(f.Stage), Code: string(f.Code), Message: f.Message, Retryable: f.Retryable}
	}
	if r.Fault != "" {
		m.BlockedBy = r.Fault
		m.Failure = &wire.Failure{Stage: string(mission.StageExecution), Code: string(mission.PrivateStateFailure), Message: r.Fault}
	}
	for _, x := range r.Steering {
		m.Steering = append(m.Steering, wire.Steering{ID: x.ID, Text: x.Text, State: x.State, At: x.At, Turn: x.Turn})
	}
	for _, t := range r.Turns {
		info := wire.TurnInfo{ID: t.ID, Number: t.Number, StartedAt: t.StartedAt, EndedAt: timePtr(t.EndedAt), Tools: t.Tools}
		if t.Outcome != nil {
			info.Outcome, info.Code, info.Next = string(t.Outcome.Outcome), string(t.Outcome.Code), string(t.Outcome.Next)
			info.Usage = wire.Usage(t.Outcome.Usage)
		}
		m.Turns = append(m.Turns, info)
	}
	return m
}

// approvalView is an approval as clients see it, with what they need of its
// mission.
func approvalView(a approvals.Record, r supervisor.Record) wire.Approval {
	v := wire.Approval{
		ID: a.ID, Kind: string(a.Kind), Mission: a.Mission, Title: r.Title, Provider: r.Terms.Provider, Folder: r.Terms.Folder,
		Attempt: a.Attempt, Turn: a.Turn, TurnNo: a.TurnNo, Subject: a.Subject, Digest: a.Digest, CreatedAt: a.CreatedAt, State: string(a.State),
	}
	if !r.StartedAt.IsZero() {
		v.ExpiresAt = timePtr(r.Deadline.At.Round(0).UTC())
	}
	if x := a.Answer; x != nil {
		v.Answer = &wire.Answer{
			At: x.At, Via: x.Who.Via, Program: x.Who.Program, PID: x.Who.PID, TTY: x.Who.TTY, Client: x.Who.Client, Rule: x.Who.Rule,
			For: x.For, Pattern: x.Pattern, Made: a.Rule, Reason: x.Reason, Stop: x.Stop,
		}
	}
	if a.State == approval.Pending && a.Request != nil {
		v.Offers = offers(*a.Request)
	}
	return v
}

func (s *Service) announceApproval(a approvals.Record) {
	s.announceRules(a)
	if hidden(a) {
		return
	}
	r, err := s.sup.Get(a.Mission)
	if err != nil {
		s.log.Error("an approval without its mission", "approval", a.ID, "err", err)
		return
	}
	s.topics.approvals.Publish(wire.EvApproval, approvalView(a, r))
	s.topics.service.Publish(wire.EvService, s.status())
}

// recentMissions is how many finished missions a snapshot carries.
const recentMissions = 200

// missionSnapshot is every live mission and the last finished ones, pending
// counts included, newest first.
func (s *Service) missionSnapshot() ([]json.RawMessage, error) {
	recs, _, err := s.sup.List("", recentMissions)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, r := range recs {
		seen[r.ID] = true
	}
	var old []supervisor.Record
	if err := s.db.View(func(tx *store.Tx) (err error) { old, err = supervisor.LoadLive(tx); return }); err != nil {
		return nil, err
	}
	for _, r := range old {
		if !seen[r.ID] {
			recs = append(recs, r)
		}
	}
	out, waiting := make([]wire.Mission, 0, len(recs)), s.waiting()
	for _, r := range recs {
		out = append(out, s.missionWith(r, waiting))
	}
	return encodeAll(out)
}

// approvalSnapshot is what waits, and what was settled lately.
func (s *Service) approvalSnapshot() ([]json.RawMessage, error) {
	list, err := s.approvals("", true)
	if err != nil {
		return nil, err
	}
	return encodeAll(list)
}

// recentApprovals is how many settled approvals a list carries.
const recentApprovals = 200

// approvals lists what waits, oldest first; with all, the newest settled ones
// come along. What a rule allowed unasked is in the audit, not in this list.
func (s *Service) approvals(missionID string, all bool) ([]wire.Approval, error) {
	var recs []approvals.Record
	missions := map[string]supervisor.Record{}
	err := s.db.View(func(tx *store.Tx) error {
		waiting, err := approvals.Pending(tx, missionID)
		if err != nil {
			return err
		}
		recs = waiting
		if all {
			recent, err := approvals.Recent(tx, missionID, recentApprovals)
			if err != nil {
				return err
			}
			recs = nil
			listed := map[string]bool{}
			for i := len(recent) - 1; i >= 0; i-- {
				if a := recent[i]; !hidden(a) {
					recs = append(recs, a)
					listed[a.ID] = true
				}
			}
			for _, a := range waiting {
				if !listed[a.ID] {
					recs = append(recs, a)
				}
			}
		}
		recs = slices.DeleteFunc(recs, hidden)
		for _, a := range recs {
			if _, ok := missions[a.Mission]; !ok {
				if missions[a.Mission], ok, err = supervisor.Load(tx, a.Mission); err != nil {
					return err
				} else if !ok {
					return errors.New("an approval names a mission that does not exist: " + a.Mission)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]wire.Approval, 0, len(recs))
	for _, a := range recs {
		out = append(out, approvalView(a, missions[a.Mission]))
	}
	return out, nil
}

func (s *Service) status() wire.Service {
	s.mu.Lock()
	v := wire.Service{
		State: "running", Version: s.id.AppVersion, Generation: s.id.Generation, PID: s.id.PID, Socket: s.o.Socket,
		StateDir: s.o.StateDir, StartedAt: s.id.StartedAt, Notes: s.notes, Refusals: s.refusals, LastRefusal: s.refused,
	}
	switch {
	case s.stopping:
		v.State = "stopping"
	case s.update != nil:
		v.State = "updating"
	}
	s.mu.Unlock()
	v.Notes = slices.Concat(v.Notes, s.sup.Faults())
	if s.db.FencedBy() != nil {
		v.State, v.Notes = "fenced", []string{s.fencedText()}
	}
	v.Live = s.sup.Live()
	for _, n := range s.waiting() {
		v.Pending += n
	}
	return v
}

// waiting counts the approvals that wait, by mission.
func (s *Service) waiting() map[string]int {
	var out map[string]int
	err := s.db.View(func(tx *store.Tx) (err error) { out, err = approvals.Waiting(tx); return })
	if err != nil {
		s.log.Error("count what waits", "err", err)
	}
	return out
}

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func cut(s string, n int) string {
	for i := range s {
		if i >= n {
			return s[:i] + "…"
		}
	}
	return s
}
