package view

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// pageRig is the page of rules as a person opens it, in a window, with a service
// that has the standing rules.
func pageRig(t *testing.T) (*rig, *rulesPage) {
	t.Helper()
	r := newRig(t, kit.Light)
	busy(t, r)
	rules := standing()
	r.reply = func(method string, params any) (any, error) {
		switch method {
		case wire.MethodRuleList:
			return wire.RuleListResult{Rules: rules}, nil
		case wire.MethodRuleRevoke:
			id := params.(wire.RuleRevokeParams).ID
			for i := range rules {
				if rules[i].ID == id {
					gone := rules[i]
					rules = append(append([]wire.Rule{}, rules[:i]...), rules[i+1:]...)
					return wire.RuleResult{Rule: gone}, nil
				}
			}
			return nil, wire.Errorf(wire.CodeNotFound, "there is no such rule")
		case wire.MethodAuditVerify:
			return wire.AuditVerifyResult{Entries: 9, Head: "abcd", OK: true}, nil
		}
		return nil, nil
	}
	r.main = newMainWindow(r.desk)
	win := test.NewTempWindow(t, r.main.root)
	win.Resize(mainSize)
	r.main.open(pageRules)
	r.until("the rules", func() bool { return len(r.main.rules.rules) == len(rules) })
	return r, r.main.rules
}

// buttons finds every button that is shown, by its label.
func buttons(o fyne.CanvasObject) map[string][]*kit.Button {
	out := map[string][]*kit.Button{}
	var walk func(o fyne.CanvasObject)
	walk = func(o fyne.CanvasObject) {
		if !o.Visible() {
			return
		}
		switch v := o.(type) {
		case *kit.Button:
			out[v.Label()] = append(out[v.Label()], v)
		case *fyne.Container:
			for _, c := range v.Objects {
				walk(c)
			}
		}
	}
	walk(o)
	return out
}

func TestRulesAreReadWhileLookedAt(t *testing.T) {
	r, p := pageRig(t)
	r.changed()
	r.changed()
	if n := len(r.called(wire.MethodRuleList)); n != 1 {
		t.Errorf("asked %d times at one moment", n)
	}
	r.clock = r.clock.Add(rulesAge)
	r.changed()
	r.until("the second look", func() bool { return len(r.called(wire.MethodRuleList)) == 2 && !p.asking })
	r.main.open(pageMissions)
	r.clock = r.clock.Add(rulesAge)
	r.changed()
	r.hop()
	if n := len(r.called(wire.MethodRuleList)); n != 2 {
		t.Error("asked while nobody looks")
	}
}

// What another program did with the rules is seen at once, also while the list
// is being read.
func TestRulesChangeElsewhere(t *testing.T) {
	r, p := pageRig(t)
	in := newInbox(r.desk)
	reads := func(n int) func() bool {
		return func() bool { return len(r.called(wire.MethodRuleList)) == n && !p.asking }
	}
	changed := wire.Event{Event: wire.EvRule, Data: raw(t, wire.RuleChange{ID: "r-1"})}
	in.Delta(wire.TopicRules, changed)
	r.until("the second look", reads(2))
	hold := make(chan struct{})
	r.mu.Lock()
	reply := r.reply
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodRuleList {
			<-hold
		}
		return reply(method, params)
	}
	r.mu.Unlock()
	in.Delta(wire.TopicRules, changed)
	r.until("that it is read", func() bool { return p.asking })
	in.Delta(wire.TopicRules, changed)
	r.hop()
	close(hold)
	r.until("the look after the next change", reads(4))
	in.Snapshot(wire.TopicRules, nil, "")
	r.until("the look after a resync", reads(5))
	r.main.open(pageMissions)
	in.Delta(wire.TopicRules, changed)
	r.hop()
	if n := len(r.called(wire.MethodRuleList)); n != 5 {
		t.Error("asked while nobody looks")
	}
	r.main.open(pageRules)
	r.until("the look when the page is opened", reads(6))
}

func TestRevokeAsksFirst(t *testing.T) {
	r, p := pageRig(t)
	revoke := buttons(p.list)["Revoke…"]
	if len(revoke) != 5 {
		t.Fatalf("%d rules can be revoked", len(revoke))
	}
	test.Tap(revoke[0])
	r.hop()
	if p.question != "r-1" || len(r.called(wire.MethodRuleRevoke)) > 0 {
		t.Fatalf("asks about %q", p.question)
	}
	if c := fyne.CurrentApp().Driver().CanvasForObject(p.keep); c == nil || c.Focused() != fyne.Focusable(p.keep) {
		t.Error("the focus is not on keeping the rule")
	}
	test.Tap(p.keep)
	if p.question != "" {
		t.Error("keeping does not take the question back")
	}
	test.Tap(buttons(p.list)["Revoke…"][0])
	test.Tap(buttons(p.list)["Revoke the rule"][0])
	r.until("the end of the rule", func() bool { return p.busy == "" && p.question == "" })
	if got := r.called(wire.MethodRuleRevoke)[0].(wire.RuleRevokeParams); got.ID != "r-1" || got.RequestKey == "" {
		t.Errorf("%+v", got)
	}
	r.until("the list without it", func() bool { return len(buttons(p.list)["Revoke…"]) == 4 })
}

func TestRefusedRevocationIsShownThere(t *testing.T) {
	r, p := pageRig(t)
	r.reply = func(string, any) (any, error) { return nil, errors.New("the disk is full") }
	p.ask("r-2")
	p.revoke("r-2")
	r.until("the refusal", func() bool { return p.refused != "" })
	if p.refused != "The disk is full." || p.question != "r-2" || len(p.rules) != 5 {
		t.Errorf("%q about %q", p.refused, p.question)
	}
}

func TestRulesByProject(t *testing.T) {
	_, p := pageRig(t)
	p.filter.OnChanged(2) // parser, shop-api, shop-web by name
	if n := len(buttons(p.list)["Revoke…"]); p.project != "/home/me/code/shop-api" || n != 3 {
		t.Errorf("%d rules of %s", n, p.project)
	}
	p.filter.OnChanged(0)
	if n := len(buttons(p.list)["Revoke…"]); n != 5 {
		t.Errorf("%d rules of all", n)
	}
}

// The focus stays where it is while only the uses of another rule grow.
func TestFocusStaysOnARule(t *testing.T) {
	_, p := pageRig(t)
	first := buttons(p.list)["Revoke…"][0]
	p.rules[1].Uses++
	p.draw()
	again := buttons(p.list)["Revoke…"]
	if again[0] != first {
		t.Error("a row was drawn anew though nothing in it changed")
	}
}

func TestRulesThatCannotBeRead(t *testing.T) {
	r, p := pageRig(t)
	r.reply = func(string, any) (any, error) { return nil, errors.New("busy") }
	p.read()
	r.until("the problem", func() bool { return p.problem != "" })
	if len(buttons(p.list)["Revoke…"]) != 5 {
		t.Error("what is known is gone")
	}
}

func TestManyRulesAreShownInSteps(t *testing.T) {
	_, p := pageRig(t)
	for range 2 * moreRows {
		rule := standing()[1]
		rule.ID = requestKey()
		p.rules = append(p.rules, rule)
	}
	p.draw()
	if n := len(buttons(p.list)["Revoke…"]); n != moreRows {
		t.Errorf("%d rows at first", n)
	}
	test.Tap(buttons(p.list)["Show 50 more"][0])
	if n := len(buttons(p.list)["Revoke…"]); n != 2*moreRows {
		t.Errorf("%d rows after more", n)
	}
}

func TestAuditIsVerified(t *testing.T) {
	r, p := pageRig(t)
	test.Tap(p.audit.verify)
	if !p.audit.verify.Disabled() {
		t.Error("it can be verified twice at once")
	}
	r.until("the result", func() bool { return p.audit.result != nil })
	test.Tap(p.audit.copy)
	if got := r.app.Clipboard().Content(); got != "abcd" {
		t.Errorf("copied %q", got)
	}
	r.reply = func(string, any) (any, error) { return nil, errors.New("no audit here") }
	test.Tap(p.audit.verify)
	r.until("the problem", func() bool { return p.audit.problem != "" })
	if p.audit.result != nil {
		t.Error("an earlier result stands beside the problem")
	}
	r.st.SetLink(model.NoService, "")
	p.audit.refresh()
	if !p.audit.verify.Disabled() {
		t.Error("it can be verified without a service")
	}
}

func TestAgentsAreMended(t *testing.T) {
	r := newRig(t, kit.Light)
	drawSettings(t, r)
	copies := buttons(r.agentRows(newAgentsCard(r.desk).own))["Copy"]
	if len(copies) != 2 {
		t.Fatalf("%d commands to copy", len(copies))
	}
	for i, want := range []string{"codex login", "npm install -g opencode-ai"} {
		test.Tap(copies[i])
		if got := r.app.Clipboard().Content(); got != want {
			t.Errorf("copied %q, want %q", got, want)
		}
	}
}

func TestAgentsAreLookedForAgain(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	r.main = newMainWindow(r.desk)
	r.main.open(pageSettings)
	if n := len(r.called(wire.MethodProviderList)); n != 0 {
		t.Errorf("looked %d times for what is known", n)
	}
	r.reply = func(string, any) (any, error) { return nil, errors.New("the service is busy") }
	test.Tap(r.main.settings.agents.look)
	r.until("the look", func() bool { return !r.providers.asking })
	if !strings.Contains(r.providers.problem, "busy") || len(r.called(wire.MethodProviderList)) != 1 {
		t.Errorf("problem %q", r.providers.problem)
	}
	r.changed()
	r.hop()
	if n := len(r.called(wire.MethodProviderList)); n != 1 {
		t.Errorf("a refusal is asked for %d times", n)
	}
}

func TestRuleIsEdited(t *testing.T) {
	r, p := pageRig(t)
	reply := r.reply
	r.reply = func(method string, params any) (any, error) {
		if q, ok := params.(wire.RuleEditParams); ok {
			if q.Pattern == "git *" {
				return nil, errors.New("that stands for more")
			}
			rule := standing()[0]
			rule.Pattern, rule.About = q.Pattern, q.Pattern
			return wire.RuleResult{Rule: rule}, nil
		}
		return reply(method, params)
	}
	test.Tap(buttons(p.list)["Edit…"][0])
	e := p.editing
	if e == nil || e.rule.ID != "r-1" || e.effects.Chosen() != 1 || e.pattern.Text != "git push *" || !e.confirm.Disabled() {
		t.Fatalf("editing %+v", e)
	}
	if c := fyne.CurrentApp().Driver().CanvasForObject(e.cancel); c == nil || c.Focused() != fyne.Focusable(e.cancel) {
		t.Error("the focus is not on keeping the rule")
	}
	r.clock = r.clock.Add(armDelay)
	e.changed()
	if !e.confirm.Disabled() {
		t.Error("nothing is changed, and it can be sent")
	}
	r.clock = r.clock.Add(-time.Millisecond)
	e.pattern.SetText("git *")
	if e.send(); e.busy || !e.confirm.Disabled() {
		t.Error("it can be sent before the delay")
	}
	r.clock = r.clock.Add(time.Millisecond)
	e.changed()
	test.Tap(e.confirm)
	r.until("the refusal", func() bool { return e.problem != "" })
	if p.editing != e || e.pattern.Text != "git *" {
		t.Error("a refusal closes the form")
	}
	e.pattern.SetText("git push origin *")
	test.Tap(e.confirm)
	r.until("the change", func() bool { return p.editing == nil })
	got := r.called(wire.MethodRuleEdit)[1].(wire.RuleEditParams)
	if got.ID != "r-1" || got.Pattern != "git push origin *" || got.Effect != "" || got.RequestKey == "" {
		t.Errorf("sent %+v", got)
	}
	// One without a pattern can only be turned round.
	p.edit(&model.RuleRow{ID: "r-3"})
	e = p.editing
	r.clock = r.clock.Add(armDelay)
	e.effects.Set(1)
	if q, ok := e.params(); e.pattern != nil || !ok || q.Effect != "deny" || q.Pattern != "" {
		t.Errorf("%+v %v", q, ok)
	}
	test.Tap(e.cancel)
	if p.editing != nil {
		t.Error("keeping it does not close the form")
	}
}
