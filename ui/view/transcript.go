package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// transcriptView shows a transcript as a list that builds only what is in
// sight. Entries are taken at once and drawn in one go by flush.
type transcriptView struct {
	d       *desk
	root    *fyne.Container
	list    *kit.List
	log     *model.Transcript
	empty   *kit.Text
	folder  string
	loaded  bool
	loading int          // loads so far: only the last one counts
	later   []wire.Entry // not nil: entries that came while one is under way
	changed bool

	drawn     int          // rows the list has
	unsettled map[int]bool // rows that may still change
	pending   []wire.Approval
	now       time.Time
}

func newTranscriptView(d *desk, folder string) *transcriptView {
	v := &transcriptView{d: d, folder: folder, log: model.NewTranscript(folder), unsettled: map[int]bool{}, now: d.now()}
	v.list = kit.NewList(26, v.build)
	v.empty = kit.NewText("", kit.SizeBody, kit.Quiet)
	v.root = kit.Sized(0, 0, kit.Pad(10, 4, 4, 20, v.list), middle(v.empty))
	return v
}

// aside is from how many entries on a transcript is put together beside the UI
// goroutine: 100,000 take half a second.
const aside = 5000

// load replaces everything.
func (v *transcriptView) load(entries []wire.Entry) {
	v.loading++
	if len(entries) < aside {
		v.log.Load(entries)
		v.take(v.log)
		return
	}
	n := v.loading
	v.later = []wire.Entry{}
	task(v.d, func(context.Context) (*model.Transcript, error) {
		log := model.NewTranscript(v.folder)
		log.Load(entries)
		return log, nil
	}, func(log *model.Transcript, _ error) {
		if v.loading == n { // no newer one came
			v.take(log)
			v.d.changed()
		}
	})
}

// take shows a transcript, and what came while it was put together.
func (v *transcriptView) take(log *model.Transcript) {
	follow, top := !v.loaded || v.list.Following(), 0
	if !follow {
		top, _ = v.list.InView()
	}
	v.log, v.loaded = log, true
	for _, e := range v.later {
		v.log.Add(e)
	}
	v.later = nil
	v.reset()
	if follow {
		v.list.Follow()
	} else {
		v.list.ScrollTo(min(top, max(v.drawn-1, 0))) // where the person was reading
	}
}

func (v *transcriptView) reset() {
	v.drawn = v.log.Len()
	v.list.Reset(v.drawn)
	clear(v.unsettled)
	v.watch(0)
	v.changed = false
}

func (v *transcriptView) add(e wire.Entry) {
	if v.later != nil {
		v.later = append(v.later, e)
		return
	}
	v.loaded = true
	if v.log.Add(e) {
		v.changed = true
	}
}

func (v *transcriptView) problem(text string) {
	v.empty.SetText(text)
	v.root.Refresh()
}

// watch remembers which of the rows from one on may still change.
func (v *transcriptView) watch(from int) {
	for i := from; i < v.drawn; i++ {
		if v.open(i) {
			v.unsettled[i] = true
		}
	}
}

func (v *transcriptView) open(i int) bool {
	if i == v.drawn-1 {
		return true
	}
	it := v.log.Row(i)
	switch {
	case it.Tool != nil:
		return it.Tool.Status == "running"
	case it.Permission != nil:
		return it.Permission.State == "pending"
	case it.Heading != nil:
		return it.Heading.To == nil
	}
	return false
}

// flush draws what changed since the last time.
func (v *transcriptView) flush(m wire.Mission, pending []wire.Approval, now time.Time) {
	v.now = now
	if !sameIDs(pending, v.pending) {
		v.pending = slices.Clone(pending)
		v.changed = true
	}
	if v.changed {
		v.changed = false
		was := v.drawn
		for _, i := range sorted(v.unsettled) {
			v.list.Changed(i)
		}
		v.drawn = v.log.Len()
		if v.drawn < was { // a turn was folded by what came
			v.reset()
		}
		v.list.Append(v.drawn - was)
		for _, i := range sorted(v.unsettled) {
			if !v.open(i) {
				delete(v.unsettled, i)
			}
		}
		v.watch(was)
	}
	text := v.empty.Text()
	switch {
	case v.drawn > 0:
		text = ""
	case m.Session == "" && m.StartedAt == nil:
		text = say.T("Nothing runs before you approve it.")
		if m.EndedAt != nil {
			text = say.T("Nothing ran.")
		}
	case !v.loaded:
		text = say.T("Reading the transcript")
	default:
		text = say.T("The agent is starting.")
	}
	if text != v.empty.Text() {
		v.empty.SetText(text)
		v.root.Refresh()
	}
}

func sorted(set map[int]bool) []int {
	out := make([]int, 0, len(set))
	for i := range set {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

// about says how much there is, for the footer.
func (v *transcriptView) about(ended bool) string {
	text := say.N(v.log.Entries(), "%d entry", "%d entries")
	if !ended {
		text += ", " + say.T("live")
	}
	return text
}

// toggle opens or closes a row, and keeps what is above it where it is.
func (v *transcriptView) toggle(i int) {
	before := v.log.Len()
	v.log.Toggle(i)
	after := v.log.Len()
	switch {
	case after > before:
		v.list.Insert(i+1, after-before)
	case after < before:
		v.list.Remove(i+1, before-after)
	}
	v.drawn = after
	if after != before {
		clear(v.unsettled)
		v.watch(0)
		v.list.Rebuild(i) // the rows below know their old places
	}
	v.list.Changed(i)
}

// build draws row i.
func (v *transcriptView) build(i int) fyne.CanvasObject {
	it := v.log.Row(i)
	switch it.Kind {
	case model.ItemEarlier, model.ItemTurn:
		return v.heading(i, it)
	case model.ItemSteering:
		return v.at(it.At, kit.Pad(2, 0, 2, 0, kit.Box(kit.AccentTint, kit.None, 8, kit.Pad(6, 12, 6, 12, kit.Columns(8,
			kit.Col(0, kit.Sized(0, 20, kit.Row(0, kit.NewText(say.T("You"), kit.SizeSmall, kit.Accent, kit.Bold)))),
			kit.Grow(kit.Wrapped(it.Text)), kit.Col(0, kit.Sized(0, 20, kit.Row(0, kit.Note(it.Note)))))))))
	case model.ItemText:
		return v.at(it.At, kit.Pad(2, 0, 2, 0, kit.AtMost(760, kit.Wrapped(strings.TrimRight(it.Text, "\n ")))))
	case model.ItemThought:
		return v.thought(i, it)
	case model.ItemPlan:
		return v.at(it.At, kit.Pad(3, 0, 3, 0, planSteps(it.Plan)))
	case model.ItemTool:
		return v.tool(i, it)
	case model.ItemPermission:
		return v.permission(it)
	}
	shape, color, ink := kit.ShapeRight, kit.Quiet, kit.Quiet
	switch it.Note {
	case "warning":
		shape, color, ink = kit.ShapeNeeds, kit.Waiting, kit.Ink
	case "error":
		shape, color, ink = kit.ShapeFailed, kit.Wrong, kit.Ink
	default:
		shape = ""
	}
	if shape == "" {
		return v.at(it.At, kit.Pad(3, 0, 3, 0, kit.NewParagraph(it.Text, kit.SizeSmall, ink)))
	}
	return v.at(it.At, kit.Pad(3, 0, 3, 0, kit.Columns(6, kit.Col(0, kit.Gap(3), kit.NewIcon(shape, 12, color)), kit.Grow(kit.NewParagraph(it.Text, kit.SizeSmall, ink)))))
}

// at puts the time of day before a row.
func (v *transcriptView) at(t time.Time, o fyne.CanvasObject) fyne.CanvasObject {
	clock := kit.Sized(0, 24, kit.Row(0, kit.Note(t.In(v.now.Location()).Format("15:04"), kit.Mono)))
	return kit.Pad(0, 10, 2, 0, kit.Columns(8, kit.Fix(44, kit.Col(0, clock)), kit.Grow(kit.Col(0, o))))
}

func (v *transcriptView) heading(i int, it model.Item) fyne.CanvasObject {
	h := it.Heading
	clock := func(t time.Time) string { return t.In(v.now.Location()).Format("15:04") }
	span := say.T("since %s", clock(h.From))
	if h.To != nil {
		span = say.T("%s to %s", clock(h.From), clock(*h.To))
	}
	if h.Outcome != "" {
		span = h.Outcome + "  ·  " + span
	}
	if h.Tools > 0 {
		span += "  ·  " + say.N(h.Tools, "%d tool", "%d tools")
	}
	if h.Tokens != "" {
		span += "  ·  " + h.Tokens
	}
	row := kit.Row(8, kit.NewIcon(chevron(it.Open), 12, kit.Quiet), kit.Small(h.Text, kit.Bold), kit.Grow(kit.HLine()), kit.Note(span))
	return kit.Pad(1, 10, 1, 0, kit.NewPress(kit.Sized(0, 28, kit.Pad(0, 0, 0, 4, row)), 6, func() { v.toggle(i) }))
}

func chevron(open bool) kit.Shape {
	if open {
		return kit.ShapeDown
	}
	return kit.ShapeRight
}

func (v *transcriptView) thought(i int, it model.Item) fyne.CanvasObject {
	if it.Open {
		return v.at(it.At, kit.Col(0, kit.NewPress(kit.Sized(0, 24, kit.Row(6, kit.NewIcon(kit.ShapeDown, 12, kit.Quiet), kit.Note(say.T("Thought"), kit.Bold), kit.Spring())), 6, func() { v.toggle(i) }),
			kit.Pad(0, 0, 2, 18, kit.AtMost(740, kit.NewParagraph(it.Text, kit.SizeSmall, kit.Quiet)))))
	}
	return v.at(it.At, kit.NewPress(kit.Sized(0, 24, kit.Row(6, kit.NewIcon(kit.ShapeRight, 12, kit.Quiet), kit.Note(say.T("Thought"), kit.Bold), kit.Grow(kit.Note(oneLine(it.Text), kit.Italic).CutEnd()))), 6, func() { v.toggle(i) }))
}

func planSteps(steps []wire.PlanStep) fyne.CanvasObject {
	var rows []fyne.CanvasObject
	for _, s := range steps {
		shape, color, ink := kit.ShapeNews, kit.Quiet, kit.Quiet
		switch s.Status {
		case "completed":
			shape, color = kit.ShapeCheck, kit.Done
		case "in_progress":
			shape, color, ink = kit.ShapeWorking, kit.Accent, kit.Ink
		}
		rows = append(rows, kit.Sized(0, 20, kit.Row(8, kit.NewIcon(shape, 11, color), kit.Grow(kit.NewText(s.Text, kit.SizeSmall, ink).CutEnd()))))
	}
	return kit.Col(0, rows...)
}

// permission is the card of a question that waits, or one line on its outcome.
func (v *transcriptView) permission(it model.Item) fyne.CanvasObject {
	p := it.Permission
	if i := slices.IndexFunc(v.pending, func(a wire.Approval) bool { return a.ID == p.Approval }); i >= 0 {
		return kit.Pad(4, 10, 6, 52, waitingCard(v.d, v.pending[i], v.now))
	}
	shape, color, text := kit.ShapeNews, kit.Quiet, capital(p.State)
	switch p.State {
	case "allowed":
		shape, color, text = kit.ShapeCheck, kit.Done, say.T("Allowed")
	case "denied":
		shape, color, text = kit.ShapeFailed, kit.Wrong, say.T("Denied")
	case "expired":
		text = say.T("Expired")
	case "withdrawn":
		text = say.T("Withdrawn")
	case "stale":
		text = say.T("Stale")
	case "pending":
		text = say.As("it was", "Asked")
	}
	if rule, ok := strings.CutPrefix(p.By, "rule "); ok && p.State == "allowed" {
		// Nobody had to look at it; it is told, quietly.
		return v.at(it.At, kit.Sized(0, 24, kit.Row(6, kit.NewIcon(kit.ShapeCheck, 10, kit.Quiet), kit.Note(say.T("allowed unasked (%s)", rule)), kit.Shrink(kit.NewText(p.Asks.Code, kit.SizeSmall, kit.Quiet, kit.Mono).CutEnd()))))
	}
	if p.By != "" && strings.Contains(p.By, fmt.Sprintf("(pid %d)", v.d.o.PID)) {
		text = say.T("%s by you", text)
	} else if p.By != "" && p.By != "person" {
		text = say.T("%s by %s", text, p.By)
	}
	if p.Reason != "" {
		text = say.T("%s: “%s”", text, p.Reason)
	}
	return v.at(it.At, kit.Sized(0, 24, kit.Row(6, kit.NewIcon(shape, 12, color), kit.NewText(text, kit.SizeSmall, color, kit.Bold), kit.Shrink(kit.Small(p.Asks.Code, kit.Mono).CutEnd()))))
}

// cardLines is how many lines of a command the card of a waiting question
// shows; the dialog shows all.
const cardLines = 2

// waitingCard is a question that waits, with the button that opens its dialog.
func waitingCard(d *desk, a wire.Approval, now time.Time) fyne.CanvasObject {
	v := model.NewApproval(a, d.o.Home, now)
	wants := d.st.Wants(a)
	note := model.ProviderTitle(a.Provider) + " " + wants.Text
	if len(v.Parts) > 0 && v.Parts[0].Kind == model.PartCommand {
		note = say.T("%s wants to run a command", model.ProviderTitle(a.Provider))
	}
	note += "  ·  " + say.T("asked %s", a.CreatedAt.In(now.Location()).Format("15:04:05"))
	if a.ExpiresAt != nil {
		note += ", " + say.T("expires at %s", model.Clock(*a.ExpiresAt, now))
	}
	lines := []fyne.CanvasObject{kit.Row(8, kit.NewText(say.T("Waits for you"), kit.SizeSmall, kit.Waiting, kit.Bold), kit.Grow(kit.Note(note).CutEnd()))}
	if len(v.Parts) > 0 && v.Parts[0].Kind == model.PartCommand {
		shown := spans(v.Parts[0].Shown.Lines)
		lines = append(lines, kit.PlainCode(shown[:min(cardLines, len(shown))], kit.SizeSmall, 18))
		if more := len(shown) - cardLines; more > 0 {
			lines = append(lines, kit.Note(say.N(more, "and %d more line", "and %d more lines")))
		}
	} else if wants.Code != "" {
		tail := wants.Tail
		lines = append(lines, kit.Row(8, kit.Shrink(kit.Small(wants.Code, kit.Mono).CutEnd()), kit.Note(tail)))
	}
	return kit.Box(kit.WaitingTint, kit.WaitingLine, 8, kit.Pad(10, 12, 10, 12, kit.Row(0,
		kit.Start(kit.Pad(2, 0, 0, 0, kit.NewIcon(kit.ShapeNeeds, 14, kit.Waiting))), kit.Gap(10),
		kit.Grow(kit.Col(4, lines...)), kit.Gap(16),
		kit.NewButton(kit.Primary, say.T("Review"), func() { d.review(a.ID) }))))
}
