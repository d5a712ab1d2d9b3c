package view

import (
	"slices"
	"strings"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// foreignLines is how many lines of a change that the agent did not make the
// window shows; the rest opens in a window of its own.
const foreignLines = 12

// foreignFiles is how many such changes it shows, and foreignBytes how much of
// each: they are laid out at once.
const (
	foreignFiles = 5
	foreignBytes = 16 << 10
)

// drawLeft lays out what is uncertain, what was happening, and what others
// changed.
func (w *recoverWindow) drawLeft(r model.Recovery) {
	var all []fyne.CanvasObject
	if r.Reason != "" && !r.Can {
		all = append(all, reasonBox(r))
	}
	if w.tailProblem != "" {
		all = append(all, problemBox(say.T("The transcript can't be read"), w.tailProblem, kit.NewButton(kit.Plain, say.T("Try again"), w.load).Small()))
	}
	if len(r.Unsure) > 0 && w.tail != nil {
		all = append(all, unsureCard(r))
	}
	all = append(all, w.happenedCard(r))
	foreign := 0
	for _, f := range model.ChangedFiles(w.data.ChangesResult) {
		if !f.NotAgent {
			continue
		}
		if foreign++; foreign <= foreignFiles {
			all = append(all, w.foreignCard(f))
		}
	}
	if more := foreign - foreignFiles; more > 0 {
		all = append(all, kit.Note(say.N(more, "and %d more file that the agent did not change", "and %d more files that the agent did not change")))
	}
	kit.Set(w.left, all...)
}

func reasonBox(r model.Recovery) fyne.CanvasObject {
	title := say.T("Nothing can be done at present")
	if r.New {
		title = say.T("Its time is over")
	}
	return kit.Box(kit.WaitingTint, kit.WaitingLine, 8, kit.Pad(12, 16, 12, 16, kit.Col(6,
		kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 14, kit.Waiting), kit.Body(title, kit.Bold)),
		kit.AtMost(680, kit.Wrapped(r.Reason)))))
}

// unsureCard lists what nobody knows.
func unsureCard(r model.Recovery) fyne.CanvasObject {
	head := kit.Row(8, kit.Body(say.N(len(r.Unsure), "%d thing is uncertain", "%d things are uncertain"), kit.Bold), kit.Spring(),
		kit.NewText(say.T("look before you recover"), kit.SizeSmall, kit.Waiting))
	parts := []fyne.CanvasObject{head}
	for i, u := range r.Unsure {
		parts = append(parts, kit.Gap(10))
		if i > 0 {
			parts = append(parts, kit.Sized(0, 1, kit.NewFill(kit.WaitingLine)), kit.Gap(10))
		}
		switch {
		case u.Code != "" && u.Mono:
			parts = append(parts, kit.PlainCode(kit.Lines(u.Code), kit.SizeBody, 22), kit.Gap(4))
		case u.Code != "":
			parts = append(parts, kit.AtMost(680, kit.Wrapped(say.T("“%s”", u.Code), kit.Italic)), kit.Gap(4))
		}
		parts = append(parts, kit.AtMost(680, kit.Wrapped(u.Text)))
	}
	return kit.Box(kit.WaitingTint, kit.WaitingLine, 8, kit.Pad(12, 16, 14, 16, kit.Col(0, parts...)))
}

// happenedCard is the timeline of the last turn.
func (w *recoverWindow) happenedCard(r model.Recovery) fyne.CanvasObject {
	rows := []fyne.CanvasObject{kit.Row(8, kit.Body(say.T("What was happening"), kit.Bold), kit.Spring(), kit.Note(r.Turn)), kit.Gap(6)}
	switch {
	case w.tail == nil:
		rows = append(rows, kit.Note(say.T("Reading the transcript")))
	case len(r.Happened) == 0:
		rows = append(rows, kit.Note(say.T("The transcript tells of nothing.")))
	}
	if w.tail != nil {
		if r.Earlier > 0 {
			rows = append(rows, kit.Sized(0, 28, kit.Row(0, kit.Gap(92), kit.Note(say.T("%d more before", r.Earlier)))))
		}
		for _, h := range r.Happened {
			rows = append(rows, w.happened(h)...)
		}
	}
	return kit.Card(kit.Pad(12, 16, 8, 16, kit.Col(0, rows...)))
}

// happened is one line of the timeline, and what was said below it.
func (w *recoverWindow) happened(h model.Happened) []fyne.CanvasObject {
	now := w.d.now()
	shape, color, size := kit.ShapeWorking, kit.Accent, float32(12)
	switch h.Shape {
	case model.ShapeDone:
		shape, color, size = kit.ShapeCheck, kit.Done, 12
	case model.ShapeFailed:
		shape, color, size = kit.ShapeFailed, kit.Wrong, 11
	case model.ShapeNeeds:
		shape, color, size = kit.ShapeNeeds, kit.Waiting, 12
	case model.ShapeStopped:
		shape, color, size = kit.ShapeStopped, kit.Quiet, 9
	}
	mark := kit.Fix(16, middle(kit.NewIcon(shape, size, color)))
	cells := []fyne.CanvasObject{kit.Fix(60, kit.Note(h.At.In(now.Location()).Format("15:04:05"), kit.Mono)), kit.Gap(8), kit.Stretch(mark), kit.Gap(8), kit.Body(h.Text)}
	if h.Code != "" {
		cells = append(cells, kit.Gap(9), kit.Shrink(kit.Small(h.Code, kit.Mono).CutEnd()))
	}
	if h.Tail != "" {
		cells = append(cells, kit.Gap(9), kit.Note(h.Tail, kit.Mono))
	}
	out := []fyne.CanvasObject{kit.Sized(0, 28, kit.Row(0, cells...))}
	if h.Quote != "" {
		out = append(out, kit.Pad(0, 0, 6, 92, kit.AtMost(600, kit.Wrapped(say.T("“%s”", h.Quote), kit.Italic))))
	}
	return out
}

// foreignCard shows what somebody else changed while no worker was there.
func (w *recoverWindow) foreignCard(f model.ChangedFile) fyne.CanvasObject {
	head := kit.Sized(0, 40, kit.Pad(0, 16, 0, 16, kit.Row(10, kit.Body(say.T("Not made by the agent"), kit.Bold), kit.Shrink(kit.Small(f.Name, kit.Mono).CutMiddle()), kit.Spring(), kit.Note(f.Word))))
	patch := w.data.patches[f.Path]
	// Only the start is laid out here: what is cut off is counted, not parsed.
	lines := strings.Split(strings.TrimSuffix(patch, "\n"), "\n")
	start := strings.Join(lines[:min(len(lines), foreignLines+1)], "\n")
	more := len(lines) - 1 - foreignLines
	if len(start) > foreignBytes {
		start, more = "", len(lines)
	}
	shown := diffLines(start)
	parts := []fyne.CanvasObject{head, kit.HLine()}
	switch {
	case patch != "" && start == "":
		parts = append(parts, kit.Pad(8, 16, 10, 16, kit.Row(0, kit.Note(say.T("Its lines are very long.")))))
	case patch == "":
		parts = append(parts, kit.Pad(8, 16, 10, 16, kit.Row(0, kit.Note(say.T("There is nothing to show of it as text.")))))
	default:
		// The first hunk's heading says little here.
		if i := slices.IndexFunc(shown, func(l kit.DiffLine) bool { return l.Kind != kit.DiffHunk }); i > 0 {
			shown = shown[i:]
		}
		parts = append(parts, kit.Pad(0, 1, 0, 1, kit.Diff(shown, 20)))
	}
	if more > 0 {
		parts = append(parts, kit.HLine(), kit.Pad(4, 8, 4, 8, kit.Row(6, kit.NewButton(kit.QuietButton, say.N(more, "Show %d more line", "Show %d more lines"), func() {
			w.d.openPatch(f.Name, patch)
		}).Small())))
	} else {
		parts = append(parts, kit.Gap(6))
	}
	return kit.Card(kit.Col(0, parts...))
}

// drawRight lists what changed, and what the two ways out do.
func (w *recoverWindow) drawRight(r model.Recovery) {
	files := model.ChangedFiles(w.data.ChangesResult)
	count := ""
	if w.read && w.dataProblem == "" {
		count, _ = model.ChangesSummary(w.data.ChangesResult)
	}
	all := []fyne.CanvasObject{kit.Row(8, kit.Note(say.T("Changed since the worker started"), kit.Bold), kit.Spring(), kit.Note(count)), kit.Gap(6)}
	switch {
	case !w.read:
		all = append(all, kit.Note(say.T("Reading what changed")))
	case w.dataProblem != "":
		all = append(all, problemBox(say.T("The changes can't be read"), w.dataProblem, kit.NewButton(kit.Plain, say.T("Try again"), w.load).Small()))
	case len(files) == 0:
		all = append(all, kit.Small(say.T("Nothing in the checkout changed.")))
	}
	const most = 14
	for _, f := range files[:min(len(files), most)] {
		all = append(all, kit.Sized(0, 26, fileLine(f, 8)))
	}
	if n := len(files) - most; n > 0 {
		all = append(all, kit.Gap(4), kit.Note(say.T("and %d more", n)))
	}
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		all = append(all, kit.Gap(18), kit.Row(0, kit.Note(title, kit.Bold)), kit.Gap(8))
		for _, l := range lines {
			all = append(all, kit.Columns(8, kit.Col(0, kit.Gap(7), kit.NewIcon(kit.ShapeWorking, 5, kit.Quiet)), kit.Grow(kit.NewParagraph(l, kit.SizeSmall, kit.Ink))), kit.Gap(6))
		}
	}
	if len(r.Gives)+len(r.Cancels) > 0 {
		all = append(all, kit.Gap(16), kit.HLine())
	}
	list(say.T("Recovering"), r.Gives)
	list(say.T("Cancelling"), r.Cancels)
	kit.Set(w.right, all...)
}
