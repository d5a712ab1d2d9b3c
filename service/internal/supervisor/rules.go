package supervisor

import (
	"errors"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/store"
)

// project is what rules for a project are kept under.
func (r Record) project() string {
	if r.Project == "" { // of a mission from before there were rules
		return r.Terms.Folder
	}
	return r.Project
}

// ruled settles a request by a standing rule of the given effect, if there is
// one. The use is journaled in the transaction that finds the rule still there.
func (w *worker) ruled(e wire.Entry, ask approvals.Record, q approval.Request, effect approval.Effect) (done bool, err error) {
	for {
		var all []approval.Rule
		if err := w.s.DB.View(func(tx *store.Tx) (err error) { all, err = approvals.Rules(tx); return }); err != nil {
			return false, err
		}
		rule, ok := approval.Judge(all, q)
		if !ok || rule.Effect != effect {
			return false, nil
		}
		at := w.s.now()
		err := w.commit(func(r *Record) {
			r.Ingested = e.Seq
			if rule.Effect == approval.Deny {
				r.denied(ask.Tool, at)
			}
		}, func(tx *store.Tx) (err error) {
			ask, err = approvals.Apply(tx, ask, rule, at)
			return err
		})
		if errors.Is(err, approvals.ErrNoRule) {
			continue // it was revoked or changed meanwhile
		}
		if err != nil {
			return false, err
		}
		w.s.Announce.Approval(ask)
		w.deliverRuled(ask)
		return true, nil
	}
}

// deliverRuled brings what a rule decided to the guard.
func (w *worker) deliverRuled(ask approvals.Record) {
	fault.Point("service.rule-journaled")
	w.deliver(ask)
}

// newRule is the rule that an answer makes, nil if it is for this once.
func newRule(ask approvals.Record, a approvals.Answer) (*approval.Rule, error) {
	if a.For == "" || a.For == approval.ForOnce {
		return nil, nil
	}
	effect := approval.Deny
	if a.Allow {
		effect = approval.Allow
	}
	var q approval.Request
	if ask.Request != nil {
		q = *ask.Request
	}
	r, err := approval.NewRule(effect, a.For, q, a.Pattern)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "No rule was made, and nothing was decided: %v.", err).With(map[string]string{"field": "for"})
	}
	r.ID, r.CreatedAt, r.By, r.From = NewID("r"), a.At, a.Who.String(), ask.ID
	return &r, nil
}
