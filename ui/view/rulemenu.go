package view

import (
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// Sizes of the menu: its width, and how high the list of what a rule may be
// about gets before it scrolls.
const (
	menuWidth = 500
	menuList  = 200
)

// ruleMenu asks which rule an answer is to make. Nothing is chosen when it
// opens, and choosing makes nothing yet: what the rule would settle is said in
// words first, and a button of the menu makes it.
type ruleMenu struct {
	w     *approvalWindow
	root  fyne.CanvasObject
	since time.Time // since when it is open

	allow  bool
	reach  string
	chosen int // of the offers, -1: none yet

	effects *kit.Segments
	reaches *kit.Segments
	first   *kit.Radio
	offers  *kit.Radios
	promise *kit.Paragraph
	cancel  *kit.Button
	confirm *kit.GatedButton
}

func newRuleMenu(w *approvalWindow) *ruleMenu {
	m := &ruleMenu{w: w, since: w.d.now(), allow: true, reach: approval.ForMission, chosen: -1}
	m.promise = kit.NewParagraph("", kit.SizeSmall, kit.Ink)
	m.effects = kit.NewSegments(0, func(i int) { m.allow = i == 0; m.changed() }, say.T("Allow"), say.T("Deny"))
	far := []string{approval.ForMission, approval.ForProject}
	m.reaches = kit.NewSegments(0, func(i int) { m.reach = far[i]; m.changed() }, say.T("Until the mission ends"), say.T("Always in this project"))
	var radios []*kit.Radio
	var rows []fyne.CanvasObject
	for _, o := range w.v.Offers {
		lines := []fyne.CanvasObject{kit.NewParagraph(capital(o.Sentence), kit.SizeSmall, kit.Ink)}
		if o.Pattern != "" {
			lines = append([]fyne.CanvasObject{kit.PlainCode(spans(approval.VisibleCommand(o.Pattern).Lines), kit.SizeSmall, 18)}, lines...)
		}
		r := kit.NewRadioCard(kit.Col(0, lines...))
		radios = append(radios, r)
		rows = append(rows, r)
	}
	m.first = radios[0]
	m.offers = kit.NewRadios(-1, func(i int) { m.chosen = i; m.changed() }, radios...)
	list := kit.Pad(6, 8, 6, 8, kit.Col(8, rows...)) // room for the focus ring
	height := min(kit.HeightFor(list, menuWidth-12), menuList)
	m.cancel = kit.NewButton(kit.QuietButton, say.T("Cancel"), w.closeMenu).NoEnter()
	m.confirm = kit.NewGatedButton(w.gate, kit.Tint, "", m.make).Wide(190)
	m.root = kit.Sized(0, 0, kit.NewBackdrop(w.closeMenu), kit.Pad(8, 24, 8, 24, kit.Col(0, kit.Spring(), kit.Row(0, kit.Spring(),
		kit.Fix(menuWidth, kit.Menu(kit.Pad(14, 0, 14, 0, kit.Col(0,
			kit.Pad(0, 14, 0, 14, kit.Row(0, kit.Body(say.T("Answer this from now on"), kit.Bold), kit.Spring(), m.effects)), kit.Gap(4),
			kit.Pad(0, 6, 0, 6, kit.Sized(0, height, scroll(list))), kit.Gap(4),
			kit.Pad(0, 14, 0, 14, kit.Col(10, kit.Row(0, m.reaches, kit.Spring()), kit.Sized(0, 54, m.promise),
				kit.Row(8, kit.Spring(), m.cancel, m.confirm)))))))))))
	m.changed()
	return m
}

// changed says what would be settled.
func (m *ruleMenu) changed() {
	kind, label := kit.Danger, say.T("Deny for this mission")
	switch {
	case m.allow && m.reach == approval.ForMission:
		kind, label = kit.Tint, say.T("Allow for this mission")
	case m.allow:
		kind, label = kit.Tint, say.T("Always allow")
	case m.reach == approval.ForProject:
		label = say.T("Always deny")
	}
	m.confirm.SetKind(kind)
	m.confirm.SetLabel(label)
	text := say.T("Choose what is answered without asking you again.")
	if m.chosen >= 0 {
		text = m.w.v.Promise(m.allow, m.reach, m.w.v.Offers[m.chosen])
	}
	m.promise.SetText(text)
	m.w.changed()
}

// armed reports whether the menu's own button may count: something is chosen,
// and the menu was there long enough to be read.
func (m *ruleMenu) armed() bool {
	return m.chosen >= 0 && m.w.d.now().Sub(m.since) >= armDelay
}

func (m *ruleMenu) make() {
	if !m.armed() || !m.w.v.CanAllow() {
		return
	}
	doing := say.T("Denying, and making a rule")
	if m.allow {
		doing = say.T("Allowing, and making a rule")
	}
	m.w.answer(doing, wire.AnswerParams{Allow: m.allow, For: m.reach, Pattern: m.w.v.Offers[m.chosen].Pattern})
}

// openMenu opens or closes the menu.
func (w *approvalWindow) openMenu() {
	switch {
	case w.menu != nil:
		w.closeMenu()
	case w.armed() && w.v.CanAllow() && len(w.v.Offers) > 0:
		w.menu = newRuleMenu(w)
		show(w.over, w.menu.root)
		w.changed()
		if w.win != nil {
			w.win.Canvas().Focus(w.menu.first)
		}
		w.d.after(armDelay+10*time.Millisecond, w.changed)
	}
}

// closeMenu closes the menu; nothing was decided.
func (w *approvalWindow) closeMenu() {
	w.dropMenu()
	w.changed()
	if w.win != nil && w.more != nil {
		w.win.Canvas().Focus(w.more)
	}
}

func (w *approvalWindow) dropMenu() {
	w.menu = nil
	w.over.Objects = nil
	w.over.Refresh()
}

// moreButton opens the menu, where the approval offers rules.
func (w *approvalWindow) moreButton() *kit.GatedButton {
	if len(w.v.Offers) == 0 {
		return nil
	}
	b := kit.NewGatedButton(w.gate, kit.Plain, say.T("Allow for this mission"), w.openMenu)
	b.After(kit.ShapeDown)
	b.Disable()
	return b
}

// runs names every program that a command would run, and how they are joined.
func runs(s approval.Structure) fyne.CanvasObject {
	var cells []fyne.CanvasObject
	for _, p := range s.Programs {
		if join := model.Join(p.Join); join != "" {
			cells = append(cells, kit.Note(join))
		}
		cells = append(cells, kit.Small(approval.VisibleCommand(p.Program).Plain(), kit.Mono))
	}
	if len(s.Programs) > 1 {
		cells = append(cells, kit.Shrink(kit.Note(say.T("·  a rule for one does not cover the others")).CutEnd()))
	}
	return kit.Sized(0, 24, kit.Row(8, append(cells, kit.Spring())...))
}
