package service

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

func who(a server.Actor) approvals.Who {
	return approvals.Who{Via: "program", Program: a.Program, PID: a.PID, TTY: a.TTY, Client: a.Client}
}

// hidden reports whether an approval is only in the transcript and the audit: a
// rule allowed it, or it repeats one that is shown.
func hidden(a approvals.Record) bool {
	return a.Joins != "" || a.State == approval.Allowed && a.Answer != nil && a.Answer.Who.Via == "rule"
}

// offers are the rules that an answer to q may make: exactly q first.
func offers(q approval.Request) []wire.Offer {
	out := []wire.Offer{{Sentence: approval.Rule{Command: q.Command, Files: q.Files}.Sentence()}}
	for _, p := range approval.Suggest(q) {
		out = append(out, wire.Offer{Pattern: p.Text, Sentence: p.Sentence})
	}
	return out
}

// RuleList returns every rule, oldest first.
func (s *Service) RuleList(ctx context.Context, p wire.RuleListParams) (wire.RuleListResult, error) {
	out := wire.RuleListResult{Rules: []wire.Rule{}}
	if p.Mission != "" {
		var err error
		if p.Mission, err = s.missionID(p.Mission); err != nil {
			return out, err
		}
	}
	var all []approval.Rule
	err := s.db.View(func(tx *store.Tx) (err error) { all, err = approvals.Rules(tx); return })
	for _, r := range all {
		if (p.Mission == "" || r.Mission == p.Mission) && (p.Project == "" || r.Project == p.Project) {
			out.Rules = append(out.Rules, ruleView(r))
		}
	}
	return out, err
}

// RuleAdd makes a rule by hand.
func (s *Service) RuleAdd(ctx context.Context, a server.Actor, p wire.RuleAddParams) (wire.RuleResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.RuleResult{}, err
	}
	defer leave()
	if (p.Mission == "") == (p.Folder == "") {
		return wire.RuleResult{}, wire.Errorf(wire.CodeInvalidParams, "A rule is for one mission or for the project of one folder; name one of them.").With(map[string]string{"field": "folder"})
	}
	r, err := approval.HandRule(approval.Effect(p.Effect), p.Change, p.About)
	if err != nil {
		return wire.RuleResult{}, wire.Errorf(wire.CodeInvalidParams, "No rule was made: %v.", err).With(map[string]string{"field": "about"})
	}
	r.ID, r.CreatedAt, r.By = supervisor.NewID("r"), s.o.Now().Wall.Round(0).UTC(), who(a).String()
	if p.Folder != "" {
		tree, err := checkout.Inspect(ctx, p.Folder, s.o.StateDir)
		if err != nil {
			return wire.RuleResult{}, supervisor.Refuse(err)
		}
		r.Reach, r.Project = approval.ForProject, tree.Repository()
		return s.changed(ctx, func(tx *store.Tx) (approval.Rule, error) { return r, approvals.AddRule(tx, r) })
	}
	id, err := s.missionID(p.Mission)
	if err != nil {
		return wire.RuleResult{}, err
	}
	r.Reach, r.Mission = approval.ForMission, id
	return s.changed(ctx, func(tx *store.Tx) (approval.Rule, error) {
		m, _, err := supervisor.Load(tx, id)
		if err == nil && m.Phase.Terminal() {
			err = wire.Errorf(wire.CodeConflict, "The mission has ended, so a rule for it would do nothing.")
		}
		if err != nil {
			return r, err
		}
		return r, approvals.AddRule(tx, r)
	})
}

// RuleEdit changes a rule's effect, or its pattern to a narrower one.
func (s *Service) RuleEdit(ctx context.Context, a server.Actor, p wire.RuleEditParams) (wire.RuleResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.RuleResult{}, err
	}
	defer leave()
	if e := approval.Effect(p.Effect); e != "" && e != approval.Allow && e != approval.Deny || p.Effect == "" && p.Pattern == "" {
		return wire.RuleResult{}, wire.Errorf(wire.CodeInvalidParams, "The effect of a rule is allow or deny.").With(map[string]string{"field": "effect"})
	}
	id, err := s.ruleID(p.ID)
	if err != nil {
		return wire.RuleResult{}, err
	}
	return s.changed(ctx, func(tx *store.Tx) (approval.Rule, error) {
		return approvals.EditRule(tx, id, approval.Effect(p.Effect), p.Pattern, who(a).String())
	})
}

// RuleRevoke removes a rule; what is asked from then on is not decided by it.
func (s *Service) RuleRevoke(ctx context.Context, a server.Actor, p wire.RuleRevokeParams) (wire.RuleResult, error) {
	id, err := s.ruleID(p.ID)
	if err != nil {
		return wire.RuleResult{}, err
	}
	return s.changed(ctx, func(tx *store.Tx) (approval.Rule, error) {
		return approvals.RevokeRule(tx, id, who(a).String())
	})
}

func (s *Service) ruleID(id string) (string, error) {
	return s.complete("rule", "rules", "r-", id, "reeve rules")
}

// changed journals a change of a rule and tells how it is now.
func (s *Service) changed(ctx context.Context, fn func(tx *store.Tx) (approval.Rule, error)) (wire.RuleResult, error) {
	var r approval.Rule
	err := s.db.Update(ctx, func(tx *store.Tx) (err error) { r, err = fn(tx); return })
	switch {
	case errors.Is(err, approvals.ErrNoRule):
		err = wire.Errorf(wire.CodeNotFound, "There is no such rule; it may have been revoked. Run reeve rules to see them.")
	case errors.Is(err, approvals.ErrWider), errors.Is(err, approvals.ErrAsked):
		err = wire.Errorf(wire.CodeInvalidParams, "The rule was not changed: %v.", err)
	case errors.Is(err, approvals.ErrMaxRules):
		err = wire.Errorf(wire.CodeLimitExceeded, "No rule was made: %v.", err)
	}
	if err == nil {
		s.announceRule(r.ID)
	}
	return wire.RuleResult{Rule: ruleView(r)}, err
}

// announceRules tells of the rules that an approval made or used.
func (s *Service) announceRules(a approvals.Record) {
	if a.Rule != "" {
		s.announceRule(a.Rule)
	}
	if a.Answer != nil && strings.HasPrefix(a.Answer.Who.Rule, "r-") { // else it is one of the mission's terms
		s.announceRule(a.Answer.Who.Rule)
	}
}

// announceRule tells how a rule is now.
func (s *Service) announceRule(id string) {
	s.ruling.Lock()
	defer s.ruling.Unlock()
	c := wire.RuleChange{ID: id}
	err := s.db.View(func(tx *store.Tx) error {
		r, ok, err := approvals.GetRule(tx, id)
		if ok {
			v := ruleView(r)
			c.Rule = &v
		}
		return err
	})
	if err != nil {
		s.log.Error("a rule can't be read", "rule", id, "err", err)
		return
	}
	s.topics.rules.Publish(wire.EvRule, c)
}

// ruleSnapshot is every rule.
func (s *Service) ruleSnapshot() ([]json.RawMessage, error) {
	r, err := s.RuleList(s.life, wire.RuleListParams{})
	if err != nil {
		return nil, err
	}
	return encodeAll(r.Rules)
}

func ruleView(r approval.Rule) wire.Rule {
	return wire.Rule{
		ID: r.ID, Effect: string(r.Effect), For: r.Reach, Mission: r.Mission, Project: r.Project, Class: r.Class, Tool: r.Tool, Server: r.Server,
		Command: r.Command, Cwd: r.Cwd, Files: r.Files, Pattern: r.Pattern, About: r.About(), Sentence: r.Sentence(),
		CreatedAt: r.CreatedAt, By: r.By, Approval: r.From, Uses: r.Uses, LastUsedAt: timePtr(r.UsedAt),
	}
}
