package view

import (
	"context"
	"fmt"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// ruleEdit makes a rule narrower or turns it round, in its row. As it may make
// something allowed, its button counts only when it was in sight for a while,
// and not by Enter.
type ruleEdit struct {
	p       *rulesPage
	rule    model.RuleRow
	since   time.Time
	effects *kit.Segments
	pattern *entry // nil: the rule stands for exactly one thing, which has no narrower one
	confirm *kit.GatedButton
	cancel  *kit.Button
	busy    bool
	problem string
}

func newRuleEdit(p *rulesPage, r model.RuleRow) *ruleEdit {
	e := &ruleEdit{p: p, rule: r, since: p.d.now()}
	chosen := 0
	if r.Deny {
		chosen = 1
	}
	e.effects = kit.NewSegments(chosen, func(int) { e.changed() }, say.T("Allow"), say.T("Deny"))
	if r.Pattern != "" {
		e.pattern = newEntry()
		e.pattern.SetText(r.Pattern)
		e.pattern.OnChanged = func(string) { e.changed() }
		e.pattern.onEscape = func() { p.edit(nil) }
	}
	e.confirm = kit.NewGatedButton(&kit.Gate{Open: e.armed}, kit.Tint, say.T("Change the rule"), e.send)
	e.confirm.Disable()
	e.cancel = kit.NewButton(kit.Plain, say.T("Keep it"), func() { p.edit(nil) })
	p.d.after(armDelay+10*time.Millisecond, e.changed)
	return e
}

func (e *ruleEdit) armed() bool { return e.p.d.now().Sub(e.since) >= armDelay }

// params is what is to be changed; ok is false while that is nothing.
func (e *ruleEdit) params() (p wire.RuleEditParams, ok bool) {
	p.ID = e.rule.ID
	if deny := e.effects.Chosen() == 1; deny != e.rule.Deny {
		p.Effect = string(approval.Allow)
		if deny {
			p.Effect = string(approval.Deny)
		}
	}
	if e.pattern != nil && e.pattern.Text != e.rule.Pattern {
		if p.Pattern = e.pattern.Text; p.Pattern == "" {
			return p, false
		}
	}
	return p, p.Effect != "" || p.Pattern != ""
}

func (e *ruleEdit) changed() {
	_, something := e.params()
	enable(e.confirm, something && e.armed() && !e.busy)
}

func (e *ruleEdit) send() {
	params, something := e.params()
	if !something || !e.armed() || e.busy {
		return
	}
	params.RequestKey = requestKey()
	e.busy, e.problem = true, ""
	e.changed()
	task(e.p.d, func(ctx context.Context) (wire.RuleResult, error) {
		var r wire.RuleResult
		err := e.p.d.call(ctx, wire.MethodRuleEdit, params, &r)
		return r, err
	}, func(r wire.RuleResult, err error) {
		e.busy, e.problem = false, sentence(err)
		e.changed()
		if err == nil && e.p.editing == e {
			for i, old := range e.p.rules {
				if old.ID == r.Rule.ID {
					e.p.rules[i] = r.Rule
				}
			}
			e.p.edit(nil)
			e.p.read()
		}
		e.p.draw()
	})
}

// key changes with what draw draws.
func (e *ruleEdit) key() string {
	if e == nil {
		return ""
	}
	return fmt.Sprint(e.rule.ID, e.busy, e.problem)
}

func (e *ruleEdit) draw() fyne.CanvasObject {
	note := say.T("A rule can only become narrower; for more, make another one.")
	if e.pattern == nil {
		note = say.T("It stands for exactly this; only its effect can be changed.")
	}
	lines := []fyne.CanvasObject{kit.Row(10, kit.Small(say.T("What it answers"), kit.Bold), e.effects, kit.Grow(kit.Note(note).CutEnd()))}
	last := []fyne.CanvasObject{kit.Spring(), e.cancel, e.confirm}
	if e.pattern != nil {
		lines = append(lines, kit.FieldFor(e.pattern, false, 0))
	}
	if e.problem != "" {
		lines = append(lines, kit.NewParagraph(e.problem, kit.SizeSmall, kit.Wrong))
	}
	return kit.Box(kit.Sunken, kit.Line, 6, kit.Pad(10, 12, 10, 12, kit.Col(8, append(lines, kit.Row(8, last...))...)))
}

// edit opens a rule for changing, or closes it with nil. The focus goes to what
// decides nothing.
func (p *rulesPage) edit(r *model.RuleRow) {
	p.question, p.refused, p.editing = "", "", nil
	if r != nil {
		p.editing = newRuleEdit(p, *r)
	}
	p.draw()
	if p.editing != nil {
		p.d.focus(p.editing.cancel)
	}
}
