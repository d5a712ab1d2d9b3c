package view

import (
	"fmt"
	"strings"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// draw lays the dialog out anew.
func (w *approvalWindow) draw() {
	v := w.v
	heading := kit.Row(5, kit.Body(v.Sentence.Text), kit.Shrink(kit.Body(v.Sentence.Code, kit.Mono).CutMiddle()), kit.Spring())
	head := kit.Pad(20, 24, 14, 24, kit.Col(6,
		kit.Row(10, kit.NewIcon(kit.ShapeNeeds, 16, kit.Waiting), kit.Shrink(kit.Title(v.Title).CutEnd()), kit.Spring(), kit.Row(2, w.prev, w.counter, w.next)),
		heading, kit.Row(0, kit.Grow(kit.Note(v.About).CutEnd()))))
	w.drawBody()
	w.drawFoot()
	w.dropMenu()
	page := kit.Col(0, head, kit.Grow(w.page()))
	w.root.Objects = []fyne.CanvasObject{kit.NewFill(kit.Surface), kit.Col(0, kit.Grow(kit.Sized(0, 0, page, w.over)), kit.HLine(),
		kit.Over(kit.Side, kit.Pad(14, 24, 14, 24, w.foot)))}
	w.changed()
	w.root.Refresh()
}

func (w *approvalWindow) drawBody() {
	v := w.v
	var all []fyne.CanvasObject
	if w.problem != "" {
		all = append(all, problemBox(say.T("The answer was not taken"), w.problem))
	}
	if v.Unverified != "" {
		all = append(all, problemBox(say.T("This can't be allowed"), v.Unverified))
	}
	if !w.ready && w.problem == "" {
		all = append(all, kit.Note(say.T("Reading what it asks for")))
	}
	w.parts = map[int]fyne.CanvasObject{}
	draws := func(o fyne.CanvasObject, parts ...int) fyne.CanvasObject {
		for _, i := range parts {
			w.parts[i] = o
		}
		return o
	}
	for i := 0; i < len(v.Parts); i++ {
		p := v.Parts[i]
		if p.Label == "File" && i+1 < len(v.Parts) && v.Parts[i+1].Kind == model.PartDiff {
			i++
			all = append(all, draws(w.part(i, v.Parts[i], &p), i-1, i)) // the file heads its change
			continue
		}
		if w.question != nil && p.Label == "Question" {
			all = append(all, draws(w.part(i, p, nil), i), w.question.root)
			continue
		}
		all = append(all, draws(w.part(i, p, nil), i))
	}
	if n := v.HiddenCount(); n > 0 {
		all = append(all, legend(v.Hidden, n))
	}
	var facts []fyne.CanvasObject
	for _, f := range v.Facts {
		facts = append(facts, w.fact(f))
	}
	all = append(all, kit.Col(0, facts...))
	var spaced []fyne.CanvasObject
	for i, o := range all {
		if i > 0 {
			spaced = append(spaced, kit.Gap(12))
		}
		spaced = append(spaced, o)
	}
	kit.Set(w.body, spaced...)
}

// longPart is from how many lines an open part scrolls by itself.
const longPart = 300

// part draws a piece of what would happen; head is the file of a change.
func (w *approvalWindow) part(i int, p model.Part, head *model.Part) fyne.CanvasObject {
	lines := spans(p.Shown.Lines)
	total := len(lines)
	shown := p.Preview()
	if !p.Open {
		lines = cutLines(lines, shown)
		if !p.Required {
			lines, shown = nil, 0
		}
	}
	var rows []fyne.CanvasObject
	if head != nil || p.Kind == model.PartDiff {
		counts := kit.Row(10, kit.NewText(fmt.Sprintf("+%d", p.Plus), kit.SizeSmall, kit.Done, kit.Mono), kit.NewText(fmt.Sprintf("−%d", p.Minus), kit.SizeSmall, kit.Wrong, kit.Mono))
		var name fyne.CanvasObject = kit.Small(say.Word(p.Label), kit.Bold)
		if head != nil {
			name = kit.PlainCode(spans(head.Shown.Lines), kit.SizeSmall, 18)
		}
		rows = append(rows, kit.Over(kit.Sunken, kit.Pad(7, 12, 7, 12, kit.Row(10, kit.Grow(name), counts))), kit.HLine())
	}
	ground := kit.Sunken
	switch {
	case shown == 0:
	case p.Kind == model.PartDiff:
		ground = kit.Surface
		diff := kit.ParseDiff(lines)
		if len(diff) > longPart {
			rows = append(rows, kit.Sized(0, 360, kit.DiffList(diff, 20)))
		} else {
			rows = append(rows, kit.Diff(diff, 20))
		}
	case len(lines) > longPart:
		rows = append(rows, kit.Sized(0, 360, kit.Pad(8, 0, 8, 0, kit.CodeList(lines, kit.SizeSmall, 18))))
	case p.Kind == model.PartCommand:
		rows = append(rows, kit.Pad(8, 12, 8, 0, kit.Code(lines, kit.SizeBody, 24)))
	case p.Kind == model.PartText && len(p.Shown.Hidden) == 0 && p.Open && !strings.HasPrefix(p.Label, "File"):
		rows = append(rows, kit.Pad(8, 12, 8, 12, kit.Wrapped(p.Raw)))
	default:
		rows = append(rows, kit.Pad(8, 12, 8, 12, kit.PlainCode(lines, kit.SizeSmall, 18)))
	}
	if !p.Open {
		rows = append(rows, w.opener(i, p, total, shown))
	}
	box := kit.Box(ground, kit.Line, 6, kit.Pad(1, 1, 1, 1, kit.Col(0, rows...)))
	if p.Label == "" || p.Kind == model.PartDiff || !p.Open && !p.Required {
		return box
	}
	return kit.Col(5, kit.Note(say.Word(p.Label)), box)
}

// opener is the bar that shows the rest of a part.
func (w *approvalWindow) opener(i int, p model.Part, total, shown int) fyne.CanvasObject {
	open := func() {
		w.v.OpenPart(i)
		w.draw()
		w.focus()
	}
	label := say.T("Show all")
	if total > 1 {
		label = say.N(total, "Show all %d lines", "Show all %d lines")
	}
	if !p.Required {
		return kit.Pad(4, 8, 4, 12, kit.Row(8, kit.Small(say.Word(p.Label), kit.Bold), kit.Note(say.N(total, "%d line", "%d lines")), kit.Spring(), kit.NewButton(kit.Plain, say.T("Show"), open).Small().NoEnter()))
	}
	text := say.T("The rest of the line is hidden")
	if total > shown {
		text = say.N(total-shown, "%d more line is hidden", "%d more lines are hidden")
	}
	return kit.Col(0, kit.HLine(), kit.Over(kit.WaitingTint, kit.Pad(4, 12, 4, 12, kit.Row(8,
		kit.NewIcon(kit.ShapeNeeds, 11, kit.Waiting), kit.Small(text, kit.Bold), kit.Spring(), kit.NewButton(kit.Plain, label, open).Small().NoEnter()))))
}

// previewWidth is how much of a line a closed part shows, in characters.
const previewWidth = 400

func cutLines(lines [][]kit.Span, n int) [][]kit.Span {
	out := make([][]kit.Span, 0, n)
	for _, l := range lines[:min(n, len(lines))] {
		left := previewWidth
		var cut []kit.Span
		for _, s := range l {
			r := []rune(s.Text)
			if left <= 0 {
				break
			}
			if s.Token == "" && len(r) > left {
				s.Text = string(r[:left])
			}
			left -= len(r)
			cut = append(cut, s)
		}
		out = append(out, cut)
	}
	return out
}

// legend explains the tokens that stand for what would be invisible.
func legend(hidden []approval.Hidden, n int) fyne.CanvasObject {
	var rows, row []fyne.CanvasObject
	for _, h := range hidden {
		code := h.Codepoint
		if h.Count > 1 {
			code = fmt.Sprintf("%s ×%d", code, h.Count)
		}
		row = append(row, kit.Fix(340, kit.Row(6, kit.Chip(h.Token, 14), kit.Small(code, kit.Mono), kit.Grow(kit.Note(model.Told(h.Name)).CutEnd()))))
		if len(row) == 2 {
			rows = append(rows, kit.Row(12, row...))
			row = nil
		}
	}
	if len(row) > 0 {
		rows = append(rows, kit.Row(12, row...))
	}
	return kit.Box(kit.WaitingTint, kit.WaitingLine, 6, kit.Pad(10, 12, 10, 12, kit.Col(6,
		kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 12, kit.Waiting), kit.Small(say.N(n, "%d character here would be invisible or mistaken", "%d characters here would be invisible or mistaken"), kit.Bold)),
		kit.Pad(0, 0, 0, 20, kit.Col(2, rows...)))))
}

// shortFact is how many characters fit one line behind a label.
const shortFact = 88

func (w *approvalWindow) fact(f model.Fact) fyne.CanvasObject {
	d := f.Detail
	label := kit.Col(0, kit.Sized(0, 24, kit.Row(0, kit.Note(say.Word(f.Label)))))
	text := func(s string) *kit.Text {
		if f.Label == "Why" {
			return kit.Body(s, kit.Italic)
		}
		return kit.Small(s)
	}
	var value fyne.CanvasObject
	switch {
	case f.Label == "Digest":
		copied := kit.NewButton(kit.QuietButton, say.T("Copy"), func() { w.d.app.Clipboard().SetContent(w.v.Digest) }).Icon(kit.ShapeCopy).Small().NoEnter()
		value = kit.Columns(8, kit.Grow(kit.Pad(3, 0, 3, 0, kit.NewParagraph(d.Text+" "+d.Code, kit.SizeSmall, kit.Ink, kit.Mono))), kit.Col(0, kit.Pad(-2, 0, -2, 0, copied)))
	case f.Label == "Runs" && len([]rune(d.String())) <= shortFact-30:
		value = runs(w.v.Runs)
	case len([]rune(d.String())) <= shortFact:
		cells := []fyne.CanvasObject{}
		if d.Text != "" {
			cells = append(cells, text(d.Text))
		}
		if d.Code != "" {
			cells = append(cells, kit.Small(d.Code, kit.Mono))
		}
		if d.Tail != "" {
			cells = append(cells, kit.Note(d.Tail))
		}
		value = kit.Sized(0, 24, kit.Row(8, append(cells, kit.Spring())...))
	default:
		var cells []fyne.CanvasObject
		if d.Text != "" {
			cells = append(cells, kit.NewParagraph(d.Text, kit.SizeSmall, kit.Ink))
		}
		switch {
		case f.Label == "Variables": // names, of which none is cut in two
			cells = append(cells, kit.NewParagraph(d.Code, kit.SizeSmall, kit.Ink, kit.Mono))
		case d.Code != "":
			cells = append(cells, kit.PlainCode([][]kit.Span{{{Text: d.Code}}}, kit.SizeSmall, 18))
		}
		if d.Tail != "" {
			cells = append(cells, kit.NewParagraph(d.Tail, kit.SizeSmall, kit.Quiet))
		}
		value = kit.Pad(3, 0, 3, 0, kit.Col(0, cells...))
	}
	return kit.Columns(0, kit.Fix(92, label), kit.Grow(kit.Col(0, value)))
}

// drawFoot chooses the buttons.
func (w *approvalWindow) drawFoot() {
	w.deny, w.allow, w.more, w.others = nil, nil, nil, nil
	if w.settled != "" {
		label := say.T("Close")
		if len(w.d.st.Pending("")) > 0 {
			label = say.T("Next")
		}
		kit.Set(w.foot, kit.Row(8, kit.NewIcon(kit.ShapeStopped, 12, kit.Quiet), kit.Grow(kit.Body(capital(w.settled)).CutEnd()), kit.NewButton(kit.Plain, label, w.forward).Least(84)))
		return
	}
	denyLabel, allowLabel := say.T("Deny"), say.T("Allow once")
	if w.v.Start {
		allowLabel = say.T("Start")
		if a, _ := w.d.st.Approval(w.id); a.Kind == string(approval.MissionRecover) {
			allowLabel = say.T("Recover")
		}
	}
	if w.question != nil {
		denyLabel, allowLabel = say.T("Don't answer"), say.T("Answer")
	}
	w.deny = kit.NewGatedButton(w.gate, kit.Plain, denyLabel, func() { w.answer(say.T("Denying"), wire.AnswerParams{}) }).Wide(84)
	if w.reason {
		w.why = newEntry()
		w.why.SetPlaceHolder(say.T("Why not? The agent is told this."))
		w.why.SetText(w.said)
		w.why.OnChanged = func(text string) { w.said = text }
		send := func() { w.answer(say.T("Denying"), wire.AnswerParams{Reason: w.why.Text}) }
		w.why.OnSubmitted = func(string) { send() }
		cancel := kit.NewButton(kit.QuietButton, say.T("Cancel"), w.escape).Tall()
		ok := kit.NewButton(kit.Plain, say.T("Deny"), send).Tall().Least(84)
		w.others = append(w.others, ok, w.why)
		kit.Set(w.foot, kit.Row(8, kit.Grow(kit.FieldFor(w.why, false, 0)), cancel, ok), kit.Gap(10), w.hint)
		w.deny = nil
		if w.win != nil {
			w.win.Canvas().Focus(w.why)
		}
		return
	}
	w.allow = kit.NewGatedButton(w.gate, kit.Tint, allowLabel, func() {
		if w.question != nil {
			w.answerQuestion()
			return
		}
		w.answer(say.T("Allowing"), wire.AnswerParams{Allow: true, For: approval.ForOnce})
	}).Wide(108)
	w.allow.Disable()
	row := []fyne.CanvasObject{w.deny, kit.Gap(4)}
	w.others = append(w.others, w.deny)
	if !w.v.Start {
		why := kit.NewGatedButton(w.gate, kit.QuietButton, say.T("Deny and say why…"), func() {
			if w.armed() {
				w.reason = true
				w.draw()
			}
		})
		stop := kit.NewGatedButton(w.gate, kit.QuietDanger, say.T("Deny and stop"), func() { w.answer(say.T("Denying and stopping"), wire.AnswerParams{Stop: true}) })
		w.others = append(w.others, why, stop)
		row = append(row, why, stop)
	}
	row = append(row, kit.Spring())
	if w.more = w.moreButton(); w.more != nil {
		row = append(row, w.more)
	}
	row = append(row, w.allow)
	kit.Set(w.foot, kit.Row(8, row...), kit.Gap(10), w.hint)
}
