package approvals

import (
	"errors"
	"fmt"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/service/internal/store"
)

// MaxRules is how many rules there may be. Every request is held against those
// of its mission and project.
const MaxRules = 1024

const rules = "rules"

// Reasons why a rule is not made, changed or used.
var (
	ErrNoRule   = errors.New("there is no such rule; it may have been revoked")
	ErrMaxRules = fmt.Errorf("there are %d rules already; revoke some first", MaxRules)
	ErrAsked    = errors.New("it denies more than may be allowed without anybody seeing it")
	ErrWider    = errors.New("a rule can only be made narrower; make another one for more")
)

// AddRule journals a new rule, beside the answer that made it when there is one.
func AddRule(tx *store.Tx, r approval.Rule) error {
	n := 0
	if err := tx.Scan(rules, nil, func(_, _ []byte) (bool, error) { n++; return n < MaxRules, nil }); err != nil {
		return err
	}
	if n >= MaxRules {
		return ErrMaxRules
	}
	return putRule(tx, r, "made", r.By)
}

// Rules returns every rule, oldest first.
func Rules(tx *store.Tx) ([]approval.Rule, error) {
	var out []approval.Rule
	err := store.EachJSON(tx, rules, func(_ string, r approval.Rule) (bool, error) { out = append(out, r); return true, nil })
	return out, err
}

// GetRule returns one rule by its whole id.
func GetRule(tx *store.Tx, id string) (approval.Rule, bool, error) {
	return store.GetJSON[approval.Rule](tx, rules, id)
}

// EditRule gives a rule another effect or a narrower pattern.
func EditRule(tx *store.Tx, id string, effect approval.Effect, pattern, by string) (approval.Rule, error) {
	r, ok, err := GetRule(tx, id)
	switch {
	case err != nil:
		return r, err
	case !ok:
		return r, ErrNoRule
	}
	if effect == approval.Allow && r.Effect == approval.Deny && !r.MayAllow() {
		return r, ErrAsked
	}
	if effect != "" {
		r.Effect = effect
	}
	if pattern != "" {
		if !r.Narrower(pattern) {
			return r, ErrWider
		}
		r.Pattern = pattern
	}
	return r, putRule(tx, r, "changed", by)
}

// RevokeRule removes a rule. No request that is read later is decided by it.
func RevokeRule(tx *store.Tx, id, by string) (approval.Rule, error) {
	r, ok, err := GetRule(tx, id)
	switch {
	case err != nil:
		return r, err
	case !ok:
		return r, ErrNoRule
	}
	return r, dropRule(tx, r, "revoked", by)
}

// EndRules removes the rules that were for one mission.
func EndRules(tx *store.Tx, mission string) error {
	all, err := Rules(tx)
	for _, r := range all {
		if err == nil && r.Reach == approval.ForMission && r.Mission == mission {
			err = dropRule(tx, r, "ended with its mission", "")
		}
	}
	return err
}

// Apply settles a request by a rule and counts the use, or returns ErrNoRule
// when the rule is not as it was when it was found to match. The request never
// waits, but it stands in the journal and the audit like any other.
func Apply(tx *store.Tx, ask Record, found approval.Rule, at time.Time) (Record, error) {
	if old, ok, err := Get(tx, ask.ID); err != nil || ok {
		return old, err
	}
	r, ok, err := GetRule(tx, found.ID)
	switch {
	case err != nil:
		return ask, err
	case !ok || r.Effect != found.Effect || r.Pattern != found.Pattern:
		return ask, ErrNoRule
	}
	r.Uses, r.UsedAt = r.Uses+1, at
	if err := store.PutJSON(tx, rules, r.ID, r); err != nil {
		return ask, err
	}
	a := Answer{Answer: approval.Answer{Allow: r.Effect == approval.Allow, For: approval.ForOnce}, Who: Who{Via: "rule", Rule: r.ID}, At: at}
	ask.State = approval.Allowed
	if !a.Allow {
		ask.State = approval.Denied
		a.Reason = "A standing rule of the person denies this (" + r.About() + "). Do not try it in another form; go on without it."
	}
	ask.Answer = &a
	return ask, settle(tx, ask)
}

func putRule(tx *store.Tx, r approval.Rule, what, by string) error {
	if err := store.PutJSON(tx, rules, r.ID, r); err != nil {
		return err
	}
	return auditRule(tx, r, what, by)
}

func dropRule(tx *store.Tx, r approval.Rule, what, by string) error {
	if err := tx.Delete(rules, []byte(r.ID)); err != nil {
		return err
	}
	return auditRule(tx, r, what, by)
}

func auditRule(tx *store.Tx, r approval.Rule, what, by string) error {
	return tx.Audit(store.AuditEntry{Kind: store.AuditRule, Mission: r.Mission, Approval: r.From, Actor: by,
		Text: "rule " + r.ID + " " + what, Data: auditData(r)})
}
