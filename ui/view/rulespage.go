package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// rulesAge is how old the list of rules may get while it is looked at, should
// the service not tell of a change.
const rulesAge = 3 * time.Second

// rulesPage lists the standing rules, changes and revokes them; below, the audit
// log is verified.
type rulesPage struct {
	d      *desk
	root   fyne.CanvasObject
	filter *kit.Select
	count  *kit.Text
	head   *fyne.Container
	list   *fyne.Container
	scroll fyne.CanvasObject
	audit  *auditBar

	rules    []wire.Rule
	known    bool
	asking   bool
	asked    time.Time // when the list was asked for last
	problem  string    // why it could not be read
	projects []string
	project  string // the filter; "" is all
	limit    int

	question string // the rule that is about to be revoked
	busy     string // the rule that is being revoked
	refused  string // why a rule was not revoked
	shown    string
	keep     *kit.Button // of the question
	editing  *ruleEdit   // the rule that is being changed; nil: none
	rows     map[string]ruleCell
}

// ruleCell is a row as it is drawn. It stays the same object while nothing in
// it changes, so that the focus stays on its button.
type ruleCell struct {
	key string
	o   fyne.CanvasObject
}

func newRulesPage(d *desk) *rulesPage {
	p := &rulesPage{d: d, list: kit.Col(0), count: kit.Note(""), limit: moreRows, rows: map[string]ruleCell{}, audit: newAuditBar(d)}
	p.filter = kit.NewSelect(say.T("Project"), nil, 0, func(i int) {
		p.project = ""
		if i > 0 {
			p.project = p.projects[i-1]
		}
		p.limit = moreRows
		p.draw()
	}).Small()
	p.head = kit.Row(12, kit.Title(say.T("Rules and audit")), p.count, kit.Spring(), kit.Fix(240, p.filter))
	p.scroll = scroll(kit.Pad(4, 20, 12, 20, p.list))
	p.root = kit.Col(0, kit.Pad(18, 20, 10, 20, kit.Sized(0, 32, p.head)), kit.Grow(p.scroll), kit.HLine(), kit.Pad(12, 20, 12, 20, p.audit.root))
	return p
}

// refresh keeps the list fresh while the page is looked at.
func (p *rulesPage) refresh() {
	if link, _ := p.d.st.Link(); link == model.Running && !p.asking && p.d.now().Sub(p.asked) >= rulesAge {
		p.read()
	}
	p.draw()
	p.audit.refresh()
}

// rulesChanged has the list read anew at once, if it is looked at, and else when
// it is.
func (d *desk) rulesChanged() {
	if d.main != nil {
		d.main.rules.asked = time.Time{}
	}
}

func (p *rulesPage) read() {
	p.asking, p.asked = true, p.d.now()
	task(p.d, func(ctx context.Context) (wire.RuleListResult, error) {
		var r wire.RuleListResult
		err := p.d.call(ctx, wire.MethodRuleList, wire.RuleListParams{}, &r)
		return r, err
	}, func(r wire.RuleListResult, err error) {
		p.asking, p.problem = false, sentence(err)
		if err == nil {
			p.rules, p.known = r.Rules, true
		}
		if p.asked.IsZero() && err == nil { // something changed meanwhile
			p.read()
		}
		p.draw()
	})
}

// draw lays the list out anew where something changed.
func (p *rulesPage) draw() {
	rows := model.RuleRows(p.rules, p.project, p.d.st.Mission, p.d.o.Home, p.d.now())
	key := fmt.Sprint(rows, p.known, p.problem, p.project, p.limit, p.question, p.busy, p.refused, p.editing.key())
	if key == p.shown {
		return
	}
	p.shown = key
	p.projects = model.RuleProjects(p.rules)
	options := []kit.Option{{Label: say.T("All projects")}}
	for _, folder := range p.projects {
		options = append(options, kit.Option{Label: model.Folder(folder), Note: model.Path(folder, p.d.o.Home)})
	}
	p.filter.SetOptions(options, 1+slices.Index(p.projects, p.project))
	visible(p.filter, len(p.projects) > 0)
	p.count.SetText("")
	if len(p.rules) > 0 {
		p.count.SetText(say.N(len(p.rules), "%d rule", "%d rules"))
	}
	p.head.Refresh()

	var all []fyne.CanvasObject
	if p.problem != "" {
		all = append(all, problemBox(say.T("The rules could not be read"), p.problem), kit.Gap(12))
	}
	switch {
	case len(p.rules) == 0 && p.known:
		all = append(all, noRules())
	case len(p.rules) == 0:
		if p.problem == "" {
			all = append(all, kit.Gap(40), centered(kit.Note(say.T("Reading the rules"))))
		}
	case len(rows) == 0:
		all = append(all, kit.Gap(40), centered(kit.Note(say.T("There is no rule of this project any more."))))
	}
	listed := map[string]bool{}
	more := max(len(rows)-p.limit, 0)
	shown := rows[:len(rows)-more]
	for _, group := range []struct {
		name string
		deny bool
	}{{say.T("Denied without asking"), true}, {say.T("Allowed without asking"), false}} {
		var cells []fyne.CanvasObject
		for _, r := range shown {
			if r.Deny == group.deny {
				cells = append(cells, p.cell(r))
				listed[r.ID] = true
			}
		}
		if len(cells) == 0 {
			continue
		}
		if len(all) > 0 {
			all = append(all, kit.Gap(12))
		}
		all = append(all, kit.Pad(0, 0, 0, 2, kit.Row(6, kit.Note(group.name, kit.Bold), kit.Note(fmt.Sprint(len(cells))))),
			kit.Gap(6), kit.Rows(38, cells...))
	}
	if more > 0 {
		all = append(all, kit.Gap(8), kit.Row(0, kit.NewButton(kit.Plain, say.T("Show %d more", min(more, moreRows)), func() {
			p.limit += moreRows
			p.draw()
		}).Small()))
	}
	maps.DeleteFunc(p.rows, func(id string, _ ruleCell) bool { return !listed[id] })
	kit.Set(p.list, all...)
	p.scroll.Refresh()
}

func (p *rulesPage) cell(r model.RuleRow) fyne.CanvasObject {
	key := fmt.Sprint(r, p.busy, p.question == r.ID, p.refused)
	if p.editing != nil && p.editing.rule.ID == r.ID {
		key += p.editing.key()
	}
	if c, ok := p.rows[r.ID]; ok && c.key == key {
		return c.o
	}
	c := ruleCell{key, p.row(r)}
	p.rows[r.ID] = c
	return c.o
}

// row is one rule: what it stands for in code and words, how far it reaches,
// who made it and when it was used.
func (p *rulesPage) row(r model.RuleRow) fyne.CanvasObject {
	state := kit.Succeeded
	if r.Deny {
		state = kit.Failed
	}
	revoke := kit.NewButton(kit.Plain, say.T("Revoke…"), func() { p.ask(r.ID) }).Small().Least(84)
	edit := kit.NewButton(kit.Plain, say.T("Edit…"), func() { p.edit(&r) }).Small()
	editing := p.editing != nil && p.editing.rule.ID == r.ID
	if p.question == r.ID || p.busy != "" || editing {
		revoke.Disable()
		edit.Disable()
	}
	about := kit.Col(1,
		kit.PlainCode(spans(r.Code.Lines), kit.SizeBody, 21),
		kit.NewParagraph(capital(r.Words), kit.SizeSmall, kit.Quiet),
		kit.Fix(18, kit.Row(6, kit.Shrink(kit.Small(capital(r.Reach)).CutMiddle()), kit.Note("·"), kit.Small(r.Used), kit.Note("·"),
			kit.Shrink(kit.Note(r.Made).CutEnd()), kit.Spring())))
	lines := []fyne.CanvasObject{kit.Columns(0,
		kit.Fix(26, kit.Col(0, kit.Gap(3), kit.Row(0, state.Icon(14), kit.Spring()))),
		kit.Grow(about), kit.Gap(16), kit.Col(0, edit), kit.Gap(6), kit.Col(0, revoke))}
	switch {
	case editing:
		lines = append(lines, kit.Gap(10), kit.Pad(0, 0, 0, 26, p.editing.draw()))
	case p.busy == r.ID:
		lines = append(lines, kit.Gap(8), kit.Pad(0, 0, 0, 26, kit.Row(0, kit.Note(say.T("Revoking the rule")))))
	case p.question == r.ID:
		lines = append(lines, kit.Gap(10), kit.Pad(0, 0, 0, 26, p.sure(r)))
	}
	return kit.Pad(10, 14, 10, 12, kit.Col(0, lines...))
}

// sure asks once more before a rule is revoked.
func (p *rulesPage) sure(r model.RuleRow) fyne.CanvasObject {
	p.keep = kit.NewButton(kit.Plain, say.T("Keep it"), func() { p.ask("") }).Small()
	revoke := kit.NewButton(kit.Danger, say.T("Revoke the rule"), func() { p.revoke(r.ID) }).Small().NoEnter()
	lines := []fyne.CanvasObject{kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 12, kit.Wrong), kit.Small(say.T("Revoke this rule?"), kit.Bold),
		kit.Grow(kit.Note(say.T("Then another rule decides, or you do.")).CutEnd()), p.keep, revoke)}
	if p.refused != "" {
		lines = append(lines, kit.NewParagraph(p.refused, kit.SizeSmall, kit.Wrong))
	}
	return kit.Box(kit.WrongTint, kit.WrongLine, 6, kit.Pad(6, 8, 6, 12, kit.Col(6, lines...)))
}

// ask puts the question to a rule, or takes it back with "".
func (p *rulesPage) ask(id string) {
	p.question, p.refused, p.keep, p.editing = id, "", nil, nil
	p.draw()
	if p.keep != nil {
		p.d.focus(p.keep)
	}
}

func (p *rulesPage) revoke(id string) {
	if p.busy != "" {
		return
	}
	p.busy, p.refused = id, ""
	p.draw()
	task(p.d, func(ctx context.Context) (wire.RuleResult, error) {
		var r wire.RuleResult
		err := p.d.call(ctx, wire.MethodRuleRevoke, wire.RuleRevokeParams{RequestKey: requestKey(), ID: id}, &r)
		return r, err
	}, func(_ wire.RuleResult, err error) {
		p.busy, p.refused = "", sentence(err)
		if err == nil {
			p.question = ""
			p.rules = slices.DeleteFunc(p.rules, func(r wire.Rule) bool { return r.ID == id })
			p.read()
		}
		p.draw()
	})
}

// noRules teaches how a rule is made.
func noRules() fyne.CanvasObject {
	all := []fyne.CanvasObject{kit.Gap(80),
		centered(kit.Box(kit.Sunken, kit.None, 16, kit.Sized(64, 64, middle(kit.NewIcon(kit.ShapeRules, 30, kit.Quiet))))), kit.Gap(20),
		centered(kit.Strong(say.T("There are no rules"))), kit.Gap(8)}
	for _, line := range []string{
		say.T("Everything is asked, except what each mission was allowed at its start."),
		say.T("To have a request answered for you from then on, choose “Allow for this mission” in its approval."),
		say.T("The rule is listed here with every use, and can be revoked.")} {
		all = append(all, centered(kit.NewText(line, kit.SizeBody, kit.Quiet)), kit.Gap(3))
	}
	return kit.Col(0, all...)
}
