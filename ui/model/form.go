package model

import (
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// Form is a new mission while a person fills it in. What can be said without
// the service is checked at every change, the rest by mission.check.
type Form struct {
	Terms mission.Terms
	Env   map[string]string // the proposer's variables, PATH above all

	checked *wire.MissionStartParams // what the service's answer is about
	checks  []wire.FieldCheck
	touched map[string]bool
}

// NewForm returns a form with the defaults: an hour, reads and the room unasked.
func NewForm() *Form {
	return &Form{Terms: mission.Terms{Minutes: mission.DefaultMinutes, Unasked: mission.DefaultUnasked()}, touched: map[string]bool{}}
}

// Touch says that the person was in a field, so that an empty one counts as
// wrong and not as not filled in yet.
func (f *Form) Touch(field string) { f.touched[field] = true }

// Allow ticks or unticks what needs no asking.
func (f *Form) Allow(rule mission.Unasked, on bool) {
	list := slices.DeleteFunc(append([]mission.Unasked{}, f.Terms.Unasked...), func(u mission.Unasked) bool { return u == rule })
	if on {
		list = append(list, rule)
	}
	f.Terms.Unasked = list
}

// Ends says how long the mission would last and when it would end: "1 h",
// "ends at 16:08".
func (f *Form) Ends(now time.Time) (length, end string) {
	d := time.Duration(f.Terms.Minutes) * time.Minute
	return Duration(d), say.T("ends at %s", Clock(now.Add(d), now))
}

// Params are what the service is asked, for mission.check and mission.start.
func (f *Form) Params() wire.MissionStartParams {
	t := f.Terms.Normalize()
	p := wire.MissionStartParams{Provider: t.Provider, Model: strings.TrimSpace(t.Model), Endpoint: strings.TrimSpace(t.Endpoint),
		Folder: t.Folder, Scope: t.Scope, Minutes: t.Minutes, Budget: wire.Budget(t.Budget), Limits: wire.Limits(t.Limits), Worktree: t.Worktree, WaitForReset: t.WaitForReset,
		Unasked: []string{}, Env: f.Env}
	for _, u := range t.Unasked {
		p.Unasked = append(p.Unasked, string(u))
	}
	return p
}

// Checked takes the service's answer about params. An answer about what the
// form held earlier is dropped.
func (f *Form) Checked(params wire.MissionStartParams, r wire.MissionCheckResult) {
	if same(params, f.Params()) {
		f.checked, f.checks = &params, r.Checks
	}
}

func same(a, b wire.MissionStartParams) bool {
	return a.Provider == b.Provider && a.Model == b.Model && a.Endpoint == b.Endpoint && a.Folder == b.Folder &&
		a.Scope == b.Scope && a.Minutes == b.Minutes && a.Budget == b.Budget && a.Limits == b.Limits && a.Worktree == b.Worktree &&
		a.WaitForReset == b.WaitForReset && slices.Equal(a.Unasked, b.Unasked)
}

// NeedsCheck reports whether the service has not judged the form as it is.
func (f *Form) NeedsCheck() bool { return f.checked == nil || !same(*f.checked, f.Params()) }

// Problem returns what is wrong with a field by local rules, nil when it is
// fine or was not filled in yet.
func (f *Form) Problem(field string) *mission.Problem {
	for _, p := range f.Terms.Normalize().Check() {
		if p.Field == field && (f.touched[field] || f.filled(field)) {
			return &p
		}
	}
	return nil
}

func (f *Form) filled(field string) bool {
	switch field {
	case "provider":
		return f.Terms.Provider != ""
	case "folder":
		return f.Terms.Folder != ""
	case "scope":
		return f.Terms.Scope != ""
	}
	return true
}

// Checks lists every rule and how the form stands with it, failed ones first:
// what local rules refuse now, then what the service said last. Fields that
// were not filled in yet are left out.
func (f *Form) Checks() []wire.FieldCheck {
	var out []wire.FieldCheck
	bad := map[string]bool{}
	for _, p := range f.Terms.Normalize().Check() {
		bad[p.Field] = true
		if f.Problem(p.Field) != nil {
			out = append(out, wire.FieldCheck{Field: p.Field, Name: say.Word(fieldNames[p.Field]), Message: p.Message, Fix: p.Fix})
		}
	}
	var fine []wire.FieldCheck
	for _, c := range f.checks {
		// An answer about an older value of the field says nothing.
		if bad[c.Field] || f.changed(c.Field) {
			continue
		}
		if c.OK {
			fine = append(fine, c)
		} else {
			out = append(out, c)
		}
	}
	return append(out, fine...)
}

var fieldNames = map[string]string{
	"provider": say.Key("Agent"), "model": say.Key("Model"), "endpoint": say.Key("Endpoint"), "folder": say.Key("Checkout"), "scope": say.Key("What should be done"),
	"minutes": say.Key("For how long"), "budget": say.Key("Budget"), "limits": say.Key("Limits"), "worktree": say.Key("Worktree"), "unasked": say.Key("Allowed without asking"),
}

// changed reports whether a field differs from what the service judged.
func (f *Form) changed(field string) bool {
	if f.checked == nil {
		return true
	}
	was, is := *f.checked, f.Params()
	switch field {
	case "provider":
		return was.Provider != is.Provider
	case "model":
		return was.Provider != is.Provider || was.Model != is.Model
	case "endpoint":
		return was.Provider != is.Provider || was.Endpoint != is.Endpoint
	case "folder", "worktree":
		return was.Folder != is.Folder || was.Worktree != is.Worktree
	case "scope":
		return was.Scope != is.Scope
	case "minutes":
		return was.Minutes != is.Minutes
	case "budget":
		return was.Budget != is.Budget
	case "limits":
		return was.Limits != is.Limits
	}
	return !same(was, is)
}

// CanContinue reports whether the form as it is was judged by the service and
// nothing is wrong with it.
func (f *Form) CanContinue() bool {
	if len(f.Terms.Normalize().Check()) > 0 || f.NeedsCheck() {
		return false
	}
	return !slices.ContainsFunc(f.checks, func(c wire.FieldCheck) bool { return !c.OK })
}

// WorktreeNote says where the worktree would be, as far as the service said so
// for the form as it is; otherwise what a worktree is for.
func (f *Form) WorktreeNote() string {
	if f.Terms.Worktree {
		for _, c := range f.Checks() {
			if c.Field == "worktree" && c.OK {
				return strings.TrimSuffix(oneLine(c.Message), ".")
			}
		}
	}
	return say.T("your own files stay as they are")
}

// otherMission is the service's name of the check that another mission works in
// the checkout.
const otherMission = "nobody else works here"

// NeedsWorktree tells whether a worktree would settle what is wrong with a
// check.
func (f *Form) NeedsWorktree(c wire.FieldCheck) bool {
	return !c.OK && !f.Terms.Worktree && c.Field == "folder" && c.Name == otherMission
}

// CheckTitle names a check that failed.
func CheckTitle(c wire.FieldCheck) string {
	if c.Name == otherMission {
		return say.T("Somebody else works here")
	}
	return capitalWord(oneLine(c.Name))
}

// Status says beside the button why one cannot go on yet, "" when one can.
func (f *Form) Status() string {
	failed := 0
	for _, c := range f.Checks() {
		if !c.OK {
			failed++
		}
	}
	switch {
	case failed > 0:
		return say.N(failed, "%d check to settle first", "%d checks to settle first")
	case f.Terms.Provider == "" || f.Terms.Folder == "" || strings.TrimSpace(f.Terms.Scope) == "":
		return say.T("Choose a checkout and an agent, and say what should be done")
	case f.NeedsCheck():
		return say.T("Checking")
	}
	return ""
}
