package view

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/dialog"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// checkDelay is how long the form waits after a change before it asks the
// service about all rules.
const checkDelay = 300 * time.Millisecond

// recentFolders is how many checkouts the form offers.
const recentFolders = 8

// checksWidth is the width of the column of checks.
const checksWidth = 316

// formWindow proposes a mission. Nothing starts before the approval that
// follows.
type formWindow struct {
	d    *desk
	win  fyne.Window
	root fyne.CanvasObject
	form *model.Form
	body *container.Scroll

	folder   *entry
	recent   *kit.Select
	recents  []string
	agents   *fyne.Container
	radios   []*kit.Radio
	group    *kit.Radios
	listed   []wire.Provider
	worktree *kit.CheckBox
	tree     *kit.Text
	treeRow  *fyne.Container
	model    *entry
	budget   *kit.Select
	unasked  map[mission.Unasked]*kit.CheckBox
	limits   *limitsRow
	scope    *entry
	count    *kit.Text
	length   *kit.Text
	ends     *kit.Text
	slider   *kit.Slider
	timeRow  *fyne.Container
	checks   *fyne.Container
	fine     *kit.Text
	fineRow  *fyne.Container
	status   *kit.Text
	cancel   *kit.Button
	next     *kit.Button
	footRow  *fyne.Container
	checking int // changes so far: an answer about an older one starts no new check
	busy     bool
	problem  string
	drawn    string // of the agents
	checked  string // of the checks
}

// openForm shows the form, in front.
func (d *desk) openForm() {
	if d.form != nil {
		d.form.win.Show()
		d.form.win.RequestFocus()
		return
	}
	f := newFormWindow(d)
	d.form = f
	f.win = d.window(say.T("New mission"), "form", f.root, mainSize)
	f.win.SetOnClosed(func() {
		d.rememberSize("form", f.win)
		d.form = nil
		d.afterClose()
	})
	f.win.Canvas().SetOnTypedKey(func(e *fyne.KeyEvent) {
		if e.Name == fyne.KeyEscape {
			f.win.Close()
		}
	})
	f.win.Show()
	f.win.Canvas().Focus(f.folder)
	d.probe()
	d.withEnv(f.changed)
}

// openFormFor shows the form, filled in with the terms of an earlier mission.
func (d *desk) openFormFor(m wire.Mission) {
	d.openForm()
	d.form.fill(m)
}

func (f *formWindow) fill(m wire.Mission) {
	f.form.Terms.Provider = m.Provider
	f.drawn = "" // the agents are chosen among anew
	f.form.Terms.Worktree = m.Worktree != nil
	f.worktree.Set(f.form.Terms.Worktree)
	f.slider.Set(m.Minutes)
	f.form.Terms.Budget = mission.Budget(m.Budget)
	f.budget.Hint(model.BudgetNote(f.form.Terms.Budget)) // of one that is not offered
	f.budget.Set(slices.IndexFunc(budgets, func(usd float64) bool { return f.form.Terms.Budget == mission.Budget{CostUSD: usd} }))
	f.budget.Refresh()
	for rule, box := range f.unasked {
		box.Set(slices.Contains(m.Unasked, string(rule)))
		f.form.Allow(rule, box.On())
	}
	f.limits.fill(mission.Limits(m.Limits), m.WaitForReset)
	f.model.SetText(m.RequestedModel)
	f.scope.SetText(m.Scope)
	f.folder.SetText(model.Path(m.Folder, f.d.o.Home))
}

func newFormWindow(d *desk) *formWindow {
	f := &formWindow{d: d, form: model.NewForm()}
	f.limits = newLimitsRow(f)
	head := kit.Pad(16, 24, 14, 24, kit.Row(10, kit.Title(say.T("New mission")), kit.Spring(),
		kit.Row(8, kit.Small(say.T("1  Plan"), kit.Bold), kit.NewIcon(kit.ShapeRight, 11, kit.Quiet), kit.Note(say.T("2  Approve")))))
	f.body = kit.Scroll(kit.Pad(20, 24, 16, 24, kit.Col(22,
		f.folderRow(), f.agentRow(), f.scopeRow(), f.lengthRow(), f.unaskedRow(), f.limits.root)))
	body := kit.Columns(0,
		kit.Grow(container.NewThemeOverride(f.body, flat{})),
		kit.VLine(), kit.Fix(checksWidth, f.checksColumn()))
	f.status = kit.Note("").CutEnd().Right()
	f.cancel = kit.NewButton(kit.Plain, say.T("Cancel"), func() { f.win.Close() })
	f.next = kit.NewButton(kit.Primary, say.T("Continue to approval"), f.propose)
	f.footRow = kit.Row(8, kit.Note(say.T("Nothing starts before you approve it on the next page.")), kit.Grow(f.status), kit.Gap(4), f.cancel, f.next)
	foot := kit.Col(0, kit.HLine(), kit.Over(kit.Side, kit.Pad(12, 20, 12, 24, f.footRow)))
	f.root = kit.Over(kit.Ground, kit.Col(0, head, kit.HLine(), kit.Grow(body), foot))
	f.refresh()
	return f
}

// field is a labelled part of the form.
func field(label fyne.CanvasObject, objects ...fyne.CanvasObject) fyne.CanvasObject {
	return kit.Col(6, append([]fyne.CanvasObject{label}, objects...)...)
}

func (f *formWindow) folderRow() fyne.CanvasObject {
	f.folder = newEntry()
	f.folder.SetPlaceHolder(say.T("A git checkout, such as ~/code/project"))
	f.folder.OnChanged = func(string) { f.changed() }
	f.folder.onFocus = func(bool) {
		if f.folder.Text != "" {
			f.form.Touch("folder")
		}
	}
	f.recents = f.d.st.Folders(recentFolders)
	var options []kit.Option
	for _, r := range f.recents {
		options = append(options, kit.Option{Label: model.Path(r, f.d.o.Home)})
	}
	choose := kit.NewButton(kit.Plain, say.T("Choose…"), f.choose).Tall()
	row := []fyne.CanvasObject{kit.Grow(kit.FieldFor(f.folder, false, 0))}
	if len(options) > 0 {
		f.recent = kit.NewSelect("", options, -1, func(i int) { f.folder.SetText(model.Path(f.recents[i], f.d.o.Home)) }).Hint(say.T("Recent"))
		row = append(row, kit.Fix(150, f.recent))
	}
	f.tree = kit.Note("").CutMiddle()
	f.worktree = kit.NewSwitch(kit.Body(say.T("Work in a separate worktree")), false, func(on bool) {
		f.form.Terms.Worktree = on
		f.changed()
	})
	f.treeRow = kit.Row(10, f.worktree, kit.Shrink(f.tree), kit.Spring())
	return field(kit.Small(say.T("Checkout"), kit.Bold), kit.Row(8, append(row, choose)...), kit.Sized(0, 26, f.treeRow))
}

// choose opens a folder picker.
func (f *formWindow) choose() {
	picker := dialog.NewFolderOpen(func(u fyne.ListableURI, err error) {
		if err == nil && u != nil {
			f.folder.SetText(model.Path(u.Path(), f.d.o.Home))
		}
	}, f.win)
	picker.Resize(fyne.NewSize(760, 560))
	picker.Show()
}

func (f *formWindow) agentRow() fyne.CanvasObject {
	f.agents = kit.Col(8)
	f.model = newEntry()
	f.model.SetPlaceHolder(say.T("The agent's own default"))
	f.model.OnChanged = func(string) { f.changed() }
	return field(kit.Small(say.T("Agent"), kit.Bold), f.agents,
		kit.Row(8, kit.Note(say.T("Model")), kit.Fix(240, kit.FieldFor(f.model, false, 32)), kit.Gap(8), kit.Fix(200, f.budgetChoice())))
}

// budgets are the limits of cost that the form offers, in US dollars; turns and
// tokens are limited from the command line.
var budgets = []float64{0, 1, 2, 5, 10, 20, 50}

func (f *formWindow) budgetChoice() *kit.Select {
	var options []kit.Option
	for _, usd := range budgets {
		label := say.T("no limit")
		if usd > 0 {
			label = model.Cost(&usd)
		}
		options = append(options, kit.Option{Label: label})
	}
	f.budget = kit.NewSelect(say.T("Budget"), options, 0, func(i int) {
		f.form.Terms.Budget = mission.Budget{CostUSD: budgets[i]}
		f.changed()
	}).Small()
	return f.budget
}

func (f *formWindow) scopeRow() fyne.CanvasObject {
	f.scope = newTextArea()
	f.scope.SetPlaceHolder(say.T("What the agent may work on, and what it should leave alone"))
	f.count = kit.Note("")
	f.scope.OnChanged = func(string) { f.changed() }
	f.scope.onFocus = func(bool) { f.form.Touch("scope") }
	return field(kit.Row(8, kit.Small(say.T("What should be done"), kit.Bold), kit.Spring(), f.count), kit.FieldFor(f.scope, true, 104))
}

func (f *formWindow) lengthRow() fyne.CanvasObject {
	f.length, f.ends = kit.Body("", kit.Bold), kit.Note("")
	f.slider = kit.NewSlider(mission.MinMinutes, mission.MaxMinutes, mission.StepMinutes,
		[]kit.Tick{{Value: 15, Label: say.T("15 min")}, {Value: 60, Label: say.T("1 h")}, {Value: 120, Label: say.T("2 h")}, {Value: 180, Label: say.T("3 h")}, {Value: 240, Label: say.T("4 h")}},
		func(int) { f.changed() })
	f.slider.Set(f.form.Terms.Minutes)
	f.timeRow = kit.Row(8, kit.Small(say.T("For how long"), kit.Bold), kit.Spring(), f.length, f.ends)
	return field(f.timeRow, f.slider)
}

func (f *formWindow) unaskedRow() fyne.CanvasObject {
	f.unasked = map[mission.Unasked]*kit.CheckBox{}
	check := func(text string, rule mission.Unasked, on bool) fyne.CanvasObject {
		f.unasked[rule] = kit.NewCheckBox(kit.Body(text), on, func(on bool) {
			f.form.Allow(rule, on)
			f.changed()
		})
		return f.unasked[rule]
	}
	return field(kit.Small(say.T("Allowed without asking"), kit.Bold), kit.Row(16,
		check(say.T("Read and search"), mission.UnaskedReads, true),
		check(say.T("Edit in the checkout"), mission.UnaskedEdits, false),
		check(say.T("Its task list"), mission.UnaskedPlan, false),
		check(say.T("The room"), mission.UnaskedRoom, true)))
}

func (f *formWindow) checksColumn() fyne.CanvasObject {
	f.checks, f.fine = kit.Col(14), kit.Note("")
	f.fineRow = kit.Row(0, kit.Note(say.T("Checks"), kit.Bold), kit.Spring(), f.fine)
	return kit.Over(kit.Side, kit.Col(0, kit.Pad(18, 20, 0, 20, f.fineRow), kit.Grow(scroll(kit.Pad(14, 20, 18, 20, f.checks)))))
}

// changed takes what the person filled in, and asks the service a moment later.
func (f *formWindow) changed() {
	t := &f.form.Terms
	t.Folder = f.path(f.folder.Text)
	t.Model, t.Scope, t.Minutes = f.model.Text, f.scope.Text, f.slider.Value()
	f.form.Env = f.d.env
	f.problem = ""
	f.checking++
	n := f.checking
	f.refresh()
	if !f.askable() {
		return
	}
	f.d.after(checkDelay, func() {
		if f.checking == n && f.d.form == f {
			f.check()
		}
	})
}

// askable tells whether enough is filled in for the service to judge.
func (f *formWindow) askable() bool {
	return f.form.Terms.Folder != "" || f.form.Terms.Provider != ""
}

// path is the folder as the service takes it: absolute, ~ written out.
func (f *formWindow) path(s string) string {
	s = strings.TrimSpace(s)
	if s == "~" || strings.HasPrefix(s, "~/") {
		s = f.d.o.Home + s[1:]
	}
	if filepath.IsAbs(s) {
		s = filepath.Clean(s)
	}
	return s
}

func (f *formWindow) check() {
	if f.d.env == nil {
		return // changed is called again when it is known
	}
	params := f.form.Params()
	task(f.d, func(ctx context.Context) (wire.MissionCheckResult, error) {
		var r wire.MissionCheckResult
		err := f.d.call(ctx, wire.MethodMissionCheck, params, &r)
		return r, err
	}, func(r wire.MissionCheckResult, err error) {
		if err != nil {
			f.problem = sentence(err)
		} else {
			f.form.Checked(params, r)
		}
		f.refresh()
	})
}

// propose asks the service for the mission and turns to its approval.
func (f *formWindow) propose() {
	if f.busy || !f.form.CanContinue() {
		return
	}
	f.busy = true
	f.refresh()
	params := f.form.Params()
	params.RequestKey = requestKey()
	task(f.d, func(ctx context.Context) (wire.MissionStartResult, error) {
		var r wire.MissionStartResult
		err := f.d.call(ctx, wire.MethodMissionStart, params, &r)
		return r, err
	}, func(r wire.MissionStartResult, err error) {
		f.busy = false
		if err != nil {
			f.problem = sentence(err)
			f.refresh()
			return
		}
		f.d.proposed(r)
		if f.win != nil {
			f.win.Close()
		}
	})
}

// proposed opens the approval of a mission that this program proposed.
func (d *desk) proposed(r wire.MissionStartResult) {
	d.took(r)
	d.openMission(r.Mission.ID)
	d.review(r.Approval.ID)
	d.changed()
}

// took takes the answer to what this program asked for, which may be here
// before the events that tell of it.
func (d *desk) took(r wire.MissionStartResult) {
	for ev, v := range map[string]any{wire.EvMission: r.Mission, wire.EvApproval: r.Approval} {
		if raw, err := encode(v); err == nil {
			// The person is about to see it: no notification.
			_, _ = d.st.Delta(wire.Event{Event: ev, Data: raw})
		}
	}
}

// refresh brings the form in line with what is known.
func (f *formWindow) refresh() {
	now := f.d.now()
	f.listAgents()
	n := len([]rune(strings.TrimSpace(f.scope.Text)))
	f.count.SetText(say.T("%d of %d", n, mission.MaxScope))
	if n > mission.MaxScope {
		f.count.SetColor(kit.Wrong)
	} else {
		f.count.SetColor(kit.Quiet)
	}
	f.tree.SetText(f.form.WorktreeNote())
	f.treeRow.Refresh()
	length, end := f.form.Ends(now)
	f.length.SetText(length)
	f.ends.SetText(end)
	f.timeRow.Refresh()
	f.drawChecks()
	status := f.form.Status()
	link, text := f.d.st.Link()
	switch {
	case link != model.Running:
		status = text
	case f.busy:
		status = say.T("Proposing the mission")
	}
	f.status.SetText(status)
	enable(f.next, f.form.CanContinue() && !f.busy && link == model.Running)
}

// agentsInRow is how many agents stand side by side.
const agentsInRow = 4

// listAgents draws a card for each agent, again when what was found changed.
func (f *formWindow) listAgents() {
	p := &f.d.providers
	key := fmt.Sprint(p.list, p.known, p.problem)
	if key == f.drawn {
		return
	}
	f.drawn, f.listed, f.radios = key, p.offered(), nil
	if len(f.listed) == 0 {
		text := say.T("Looking for agents")
		if p.problem != "" {
			text = p.problem
		}
		kit.Set(f.agents, kit.Sized(0, 62, kit.Row(0, kit.Note(text))))
		return
	}
	chosen := -1
	var cells []fyne.CanvasObject
	for i, a := range f.listed {
		shape, color, text, usable := providerStanding(a)
		card := kit.NewRadioCard(kit.Col(4,
			kit.Row(8, kit.Shrink(kit.Body(providerTitle(a), kit.Bold).CutEnd()), kit.Spring(), kit.Note(model.Clean(a.Version), kit.Mono)),
			kit.Row(5, kit.NewIcon(shape, 11, color), kit.Grow(kit.Note(text).CutEnd()))))
		if !usable {
			card.Disable()
		}
		if a.Name == f.form.Terms.Provider || f.form.Terms.Provider == "" && usable && chosen < 0 {
			chosen = i
		}
		f.radios = append(f.radios, card)
		cells = append(cells, kit.Grow(kit.Sized(1, 62, card)))
	}
	f.group = kit.NewRadios(chosen, f.pick, f.radios...)
	var rows []fyne.CanvasObject
	for row := range slices.Chunk(cells, agentsInRow) {
		rows = append(rows, kit.Columns(8, row...))
	}
	kit.Set(f.agents, rows...)
	if chosen >= 0 && f.form.Terms.Provider != f.listed[chosen].Name {
		f.form.Terms.Provider = f.listed[chosen].Name
		f.d.do(f.changed)
	}
}

func (f *formWindow) pick(i int) {
	f.form.Terms.Provider = f.listed[i].Name
	f.changed()
}

// drawChecks lists every rule: what is to be settled in full, what is fine
// below.
func (f *formWindow) drawChecks() {
	checks := f.form.Checks()
	key := fmt.Sprint(f.problem, checks, f.listed, f.form.Terms.Provider)
	if key == f.checked {
		return
	}
	f.checked = key
	var all []fyne.CanvasObject
	if f.problem != "" {
		all = append(all, problemBox(say.T("The service refused"), f.problem))
	}
	fine := 0
	for _, c := range checks {
		if !c.OK {
			var mend []fyne.CanvasObject
			if f.form.NeedsWorktree(c) {
				mend = append(mend, kit.NewButton(kit.Plain, say.T("Use a worktree"), func() {
					f.worktree.Set(true)
					f.worktree.OnChanged(true)
				}).Small())
			}
			all = append(all, problemBox(model.CheckTitle(c), model.Clean(strings.TrimSpace(c.Message+" "+c.Fix)), mend...))
			continue
		}
		fine++
		lines := []fyne.CanvasObject{kit.Wrapped(capital(strings.TrimSuffix(oneLine(c.Message), ".")))}
		if c.Fix != "" {
			lines = append(lines, kit.NewParagraph(model.Clean(c.Fix), kit.SizeSmall, kit.Quiet))
		}
		all = append(all, kit.Columns(8, kit.Col(0, kit.Gap(3), kit.NewIcon(kit.ShapeCheck, 14, kit.Done)), kit.Grow(kit.Col(3, lines...))))
	}
	text := ""
	if len(checks) > 0 {
		text = say.T("%d of %d fine", fine, len(checks))
	}
	for _, a := range f.listed {
		if a.Name == f.form.Terms.Provider || a.Found && a.Problem == "" || a.Fix == "" {
			continue
		}
		said, _ := model.Mend(a)
		all = append(all, kit.Col(3, kit.Note(providerTitle(a), kit.Bold), kit.NewParagraph(said, kit.SizeSmall, kit.Quiet)))
	}
	if len(all) == 0 {
		all = append(all, kit.NewParagraph(say.T("Every rule is checked while you fill in the form."), kit.SizeSmall, kit.Quiet))
	}
	f.fine.SetText(text)
	f.fineRow.Refresh()
	kit.Set(f.checks, all...)
}
