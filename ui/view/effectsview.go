package view

import (
	"context"
	"fmt"
	"maps"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// doubtLines is how many lines of an uncertain effect's input are shown before
// it is opened.
const doubtLines = 6

// effectsView lists what a mission's workers did beyond its checkout. On top
// stands what nobody knows of; three buttons each say what became of it. As in
// an approval, they count only when they were in sight for a while, and nothing
// is decided by Enter or by a key that was down before.
type effectsView struct {
	w      *missionWindow
	root   *fyne.Container
	list   *fyne.Container
	scroll fyne.CanvasObject
	empty  fyne.CanvasObject
	gate   *kit.Gate

	look    bool      // a person has it before them
	since   time.Time // since when the buttons are where they are; zero: they are not in sight
	asked   string    // which effects the buttons are of
	buttons []*kit.GatedButton
	busy    string // the effect that is being settled
	refused map[string]string
	opened  map[string]bool
	limit   int
	shown   string
	cells   map[string]effectCell
}

// effectCell is an effect as it is drawn. It stays the same object while
// nothing in it changes, so that the focus stays on its button.
type effectCell struct {
	key     string
	o       fyne.CanvasObject
	buttons []*kit.GatedButton
}

func newEffectsView(w *missionWindow) *effectsView {
	v := &effectsView{w: w, list: kit.Col(0), refused: map[string]string{}, opened: map[string]bool{}, limit: moreRows, cells: map[string]effectCell{}}
	v.gate = &kit.Gate{Open: v.armed}
	v.scroll = scroll(kit.Pad(14, 20, 16, 20, v.list))
	v.empty = noEffects()
	v.root = kit.Sized(0, 0, v.scroll)
	return v
}

// seen says whether a person has the effects before them.
func (v *effectsView) seen(on bool) {
	if on == v.look {
		return
	}
	v.look, v.since = on, time.Time{}
	if on {
		v.moved()
	}
}

// moved starts the delay anew: the buttons are somewhere else now.
func (v *effectsView) moved() {
	v.gate.Reset()
	v.since = v.w.d.now()
	v.w.d.after(armDelay+10*time.Millisecond, v.enable)
	v.enable()
}

// armed reports whether the buttons were in sight, in their place, long enough.
func (v *effectsView) armed() bool {
	return v.look && !v.since.IsZero() && v.w.d.now().Sub(v.since) >= armDelay
}

func (v *effectsView) enable() {
	link, _ := v.w.d.st.Link()
	for _, b := range v.buttons {
		enable(b, v.armed() && v.busy == "" && link == model.Running)
	}
}

// refresh lays the list out anew where something changed.
func (v *effectsView) refresh() {
	now := v.w.d.now()
	var rows []model.EffectRow
	doubts := ""
	for _, e := range v.w.d.st.Effects(v.w.id) {
		r := model.EffectRowOf(e, now)
		rows = append(rows, r)
		if r.Uncertain {
			doubts += r.ID + fmt.Sprint(r.Revision, v.opened[r.ID], v.refused[r.ID], " ")
		}
	}
	known := v.w.d.st.Known(wire.TopicEffects)
	if key := fmt.Sprint(rows, known, v.busy, v.refused, v.opened, v.limit); key != v.shown {
		v.shown = key
		v.draw(rows, known)
	}
	if doubts != v.asked {
		v.asked = doubts
		if v.look {
			v.moved()
		}
	}
	v.enable()
}

func (v *effectsView) draw(rows []model.EffectRow, known bool) {
	if len(rows) == 0 && known {
		show(v.root, v.empty)
		return
	}
	show(v.root, v.scroll)
	var all []fyne.CanvasObject
	v.buttons = nil
	listed := map[string]bool{}
	head := func(name string, n int, color kit.Color) {
		if len(all) > 0 {
			all = append(all, kit.Gap(14))
		}
		all = append(all, kit.Pad(0, 0, 0, 2, kit.Row(6, kit.NewText(name, kit.SizeSmall, color, kit.Bold), kit.NewText(fmt.Sprint(n), kit.SizeSmall, color))), kit.Gap(6))
	}
	var doubts, settled []fyne.CanvasObject
	more := 0
	for _, r := range rows {
		switch {
		case r.Uncertain:
			doubts = append(doubts, v.cell(r, v.card))
		case len(settled) < v.limit:
			settled = append(settled, v.cell(r, v.row))
		default:
			more++
			continue
		}
		listed[r.ID] = true
	}
	if len(doubts) > 0 {
		head(say.T("Nobody knows whether they happened"), len(doubts), kit.Waiting)
		for i, o := range doubts {
			if i > 0 {
				all = append(all, kit.Gap(10))
			}
			all = append(all, o)
		}
	}
	if len(settled) > 0 {
		head(say.T("Effects"), len(settled)+more, kit.Quiet)
		all = append(all, kit.Rows(40, settled...))
	}
	if more > 0 {
		all = append(all, kit.Gap(8), kit.Row(0, kit.NewButton(kit.Plain, say.T("Show %d more", min(more, moreRows)), func() {
			v.limit += moreRows
			v.refresh()
		}).Small()))
	}
	if len(rows) == 0 {
		all = append(all, kit.Gap(40), centered(kit.Note(say.T("Reading the effects"))))
	}
	maps.DeleteFunc(v.cells, func(id string, _ effectCell) bool { return !listed[id] })
	kit.Set(v.list, all...)
	v.scroll.Refresh()
}

func (v *effectsView) cell(r model.EffectRow, draw func(model.EffectRow) effectCell) fyne.CanvasObject {
	key := fmt.Sprint(r, v.busy == r.ID, v.refused[r.ID], v.opened[r.ID])
	c, ok := v.cells[r.ID]
	if !ok || c.key != key {
		c = draw(r)
		c.key = key
		v.cells[r.ID] = c
	}
	v.buttons = append(v.buttons, c.buttons...)
	return c.o
}

// card is an uncertain effect: all that is known of it, and the buttons that
// say what became of it.
func (v *effectsView) card(r model.EffectRow) effectCell {
	at := r.When
	if r.Turn != "" {
		at = r.Turn + "  ·  " + at
	}
	lines := []fyne.CanvasObject{
		kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 14, kit.Waiting), kit.Shrink(kit.Body(r.Tool, kit.Mono).CutEnd()), kit.NewText(say.T("Uncertain"), kit.SizeSmall, kit.Waiting, kit.Bold), kit.Spring(), kit.Note(at)),
		kit.Pad(0, 0, 0, 22, kit.AtMost(760, kit.Wrapped(r.Known))),
		kit.Pad(2, 0, 2, 22, v.input(r, doubtLines)),
	}
	var c effectCell
	var row []fyne.CanvasObject
	for _, b := range []struct{ label, outcome string }{
		{say.T("It happened"), wire.EffectHappened}, {say.T("It did not happen"), wire.EffectDidNot}, {say.T("Leave it at that"), wire.EffectLeft},
	} {
		button := kit.NewGatedButton(v.gate, kit.Plain, b.label, func() { v.settle(r, b.outcome) })
		button.Disable()
		c.buttons = append(c.buttons, button)
		row = append(row, button)
	}
	note := say.T("Its worker is told what you say. Reeve does nothing else by it.")
	if v.busy == r.ID {
		note = say.T("Recording what you said")
	}
	lines = append(lines, kit.Pad(0, 0, 0, 22, kit.Row(8, append(row, kit.Gap(4), kit.Grow(kit.Note(note).CutEnd()))...)))
	if text := v.refused[r.ID]; text != "" {
		lines = append(lines, kit.Pad(0, 0, 0, 22, kit.NewParagraph(text, kit.SizeSmall, kit.Wrong)))
	}
	c.o = kit.Box(kit.WaitingTint, kit.WaitingLine, 8, kit.Pad(12, 14, 14, 14, kit.Col(8, lines...)))
	return c
}

// input shows what the tool was given, at first no more than n lines of it.
func (v *effectsView) input(r model.EffectRow, n int) fyne.CanvasObject {
	lines := spans(r.Input.Lines)
	more := len(lines) - n
	if v.opened[r.ID] || more <= 1 {
		return kit.Box(kit.Surface, kit.Line, 6, kit.Pad(8, 12, 8, 12, kit.PlainCode(lines, kit.SizeSmall, 18)))
	}
	open := kit.NewButton(kit.Plain, say.N(len(lines), "Show all %d lines", "Show all %d lines"), func() { v.toggle(r.ID) }).Small()
	return kit.Box(kit.Surface, kit.Line, 6, kit.Pad(8, 12, 8, 12, kit.Col(6, kit.PlainCode(lines[:n], kit.SizeSmall, 18), kit.Row(0, open, kit.Spring()))))
}

func (v *effectsView) toggle(id string) {
	v.opened[id] = !v.opened[id]
	if !v.opened[id] {
		delete(v.opened, id)
	}
	v.refresh()
}

// row is an effect that needs nobody: a line, and on a press all of it.
func (v *effectsView) row(r model.EffectRow) effectCell {
	state := kitState(r.Shape)
	twoLines := func(top, bottom fyne.CanvasObject) *fyne.Container {
		return kit.Col(0, kit.Fix(21, top), kit.Fix(18, bottom))
	}
	known := kit.Note(r.Known).CutEnd()
	line := kit.Sized(0, 52, kit.Pad(6, 14, 6, 14, kit.Row(0, state.Icon(13), kit.Gap(13),
		kit.Grow(twoLines(
			kit.Row(8, kit.Small(r.Tool, kit.Mono, kit.Bold), kit.Shrink(kit.NewText(r.Brief, kit.SizeSmall, kit.Quiet, kit.Mono).CutEnd()), kit.Spring()),
			kit.Row(6, kit.NewText(capital(r.Word), kit.SizeSmall, state.Color(), kit.Bold), kit.Grow(known)))),
		kit.Gap(16),
		kit.Fix(96, twoLines(kit.Row(0, kit.Spring(), kit.Small(r.When)), kit.Row(0, kit.Spring(), kit.Note(r.Turn)))),
		kit.Gap(8), kit.NewIcon(chevron(v.opened[r.ID]), 12, kit.Quiet))))
	press := kit.NewPress(line, 7, func() { v.toggle(r.ID) })
	if !v.opened[r.ID] {
		return effectCell{o: press}
	}
	var open []fyne.CanvasObject
	if r.Known != "" {
		open = append(open, kit.NewParagraph(r.Known, kit.SizeSmall, kit.Ink))
	}
	open = append(open, kit.Note(say.T("Input")), kit.Box(kit.Sunken, kit.Line, 6, kit.Pad(8, 12, 8, 12, kit.PlainCode(spans(r.Input.Lines), kit.SizeSmall, 18))))
	if r.Result.Lines != nil {
		open = append(open, kit.Note(say.T("Result")), kit.Box(kit.Sunken, kit.Line, 6, kit.Pad(8, 12, 8, 12, kit.PlainCode(spans(r.Result.Lines), kit.SizeSmall, 18))))
	}
	return effectCell{o: kit.Col(0, press, kit.Pad(0, 14, 12, 40, kit.Col(6, open...)))}
}

// settle tells the service what a person said became of an effect.
func (v *effectsView) settle(r model.EffectRow, outcome string) {
	if !v.armed() || v.busy != "" {
		return
	}
	v.busy = r.ID
	delete(v.refused, r.ID)
	v.refresh()
	task(v.w.d, func(ctx context.Context) (wire.EffectResult, error) {
		var done wire.EffectResult
		err := v.w.d.call(ctx, wire.MethodEffectSettle, wire.EffectSettleParams{RequestKey: requestKey(), ID: r.ID, Revision: r.Revision, Outcome: outcome}, &done)
		return done, err
	}, func(_ wire.EffectResult, err error) {
		v.busy = ""
		if err != nil {
			v.refused[r.ID] = sentence(err)
		}
		v.w.d.changed() // the effect itself comes with the topic
	})
}

// openEffects shows a mission's effects. The focus is on none of the buttons
// that decide.
func (d *desk) openEffects(mission string) {
	d.openMission(mission)
	if w := d.missions[mission]; w != nil {
		w.open(tabEffects)
		w.win.Canvas().Focus(w.tabs)
	}
}

// noEffects says what would be listed.
func noEffects() fyne.CanvasObject {
	all := []fyne.CanvasObject{kit.Spring(), centered(kit.Strong(say.T("No effects"))), kit.Gap(8)}
	for _, line := range []string{
		say.T("What its worker does beyond the checkout through Reeve is listed here: what it writes into rooms,"),
		say.T("records or asks for, and what tools of others announced. Where nobody can tell whether something"),
		say.T("happened, you are asked what became of it.")} {
		all = append(all, centered(kit.NewText(line, kit.SizeBody, kit.Quiet)), kit.Gap(3))
	}
	return kit.Col(0, append(all, kit.Spring(), kit.Gap(30))...)
}
