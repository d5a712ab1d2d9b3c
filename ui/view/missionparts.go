package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// steerBox takes an instruction for the next turn and lists those that wait.
type steerBox struct {
	w      *missionWindow
	root   *fyne.Container
	queued *fyne.Container
	entry  *entry
	button *kit.Button
	shown  string
}

func newSteerBox(w *missionWindow) *steerBox {
	s := &steerBox{w: w, queued: kit.Col(4)}
	s.entry = newEntry()
	s.entry.OnSubmitted = func(string) { s.queue() }
	s.entry.OnChanged = func(string) { s.enable() }
	s.button = kit.NewButton(kit.Plain, say.T("Queue"), s.queue).Icon(kit.ShapeQueue).Tall()
	s.root = kit.Pad(12, 20, 12, 20, kit.Col(0, s.queued, kit.Row(8, kit.Grow(kit.FieldFor(s.entry, false, 0)), s.button)))
	return s
}

// queue sends what stands in the field. It stays there until it was taken.
func (s *steerBox) queue() {
	text := s.entry.Text
	if link, _ := s.w.d.st.Link(); link != model.Running || s.w.busy != "" {
		return
	}
	if bad := mission.CheckSteering(text); bad != nil {
		if text != "" {
			s.w.strip.tell(problemBox(bad.Message, bad.Fix, kit.NewButton(kit.Plain, say.T("Close"), s.w.strip.dismiss).Small()))
		}
		return
	}
	s.w.control(say.Key("Steer"), wire.MethodMissionSteer, wire.SteerParams{RequestKey: requestKey(), ID: s.w.id, Text: text}, func() {
		if s.entry.Text == text { // else it is the next one already
			s.entry.SetText("")
		}
	})
}

func (s *steerBox) enable() {
	m, _ := s.w.d.st.Mission(s.w.id)
	link, _ := s.w.d.st.Link()
	live := canStop(m.Phase)
	enable(s.entry, live)
	enable(s.button, live && link == model.Running && s.w.busy == "" && s.entry.Text != "")
}

func (s *steerBox) set(m wire.Mission) {
	s.enable()
	hint := say.T("Steer at the next turn")
	if !canStop(m.Phase) {
		hint = say.T("This mission has ended")
	}
	s.entry.SetPlaceHolder(hint)
	var waiting []wire.Steering
	for _, st := range m.Steering {
		if st.State != "applied" {
			waiting = append(waiting, st)
		}
	}
	if !canStop(m.Phase) {
		waiting = nil
	}
	key := fmt.Sprint(waiting)
	if key == s.shown {
		return
	}
	s.shown = key
	var rows []fyne.CanvasObject
	for _, st := range waiting[max(0, len(waiting)-3):] {
		text := say.T("waits for the next turn")
		if st.State == "unconfirmed" {
			text = say.T("sent; the agent has not confirmed it")
		}
		rows = append(rows, kit.Row(8, kit.NewIcon(kit.ShapeQueue, 12, kit.Accent), kit.Grow(kit.Small(oneLine(st.Text)).CutEnd()), kit.Note(text)))
	}
	if len(rows) > 0 {
		rows = append(rows, kit.Gap(6))
	}
	kit.Set(s.queued, rows...)
	s.root.Refresh()
}

// missionRail says what was agreed and what it took.
type missionRail struct {
	root  fyne.CanvasObject
	body  *fyne.Container
	shown string
}

func newMissionRail() *missionRail {
	r := &missionRail{body: kit.Col(0)}
	r.root = kit.Over(kit.Side, scroll(kit.Pad(16, 20, 16, 20, r.body)))
	return r
}

// railTurns is how many turns the rail lists.
const railTurns = 12

func (r *missionRail) set(m wire.Mission) {
	key := fmt.Sprint(m.Scope, m.Turns, m.Unasked, m.UnaskedUses, m.Denials.Count, m.Refusals, m.Attempt, m.Generation, m.ProviderVersion, m.LastResult, m.Budget, model.Tokens(m.Usage))
	if key == r.shown {
		return
	}
	r.shown = key
	var all []fyne.CanvasObject
	head := func(name, right string) {
		if len(all) > 0 {
			all = append(all, kit.Gap(20))
		}
		all = append(all, kit.Row(0, kit.Note(name, kit.Bold), kit.Spring(), kit.Note(right)), kit.Gap(6))
	}
	head(say.T("Scope"), "")
	all = append(all, kit.NewParagraph(model.Clean(m.Scope), kit.SizeSmall, kit.Ink))
	if m.LastResult != "" && mission.Phase(m.Phase).Terminal() {
		head(say.T("Result"), "")
		all = append(all, kit.NewParagraph(model.Result(m.LastResult), kit.SizeSmall, kit.Ink))
	}
	if len(m.Turns) > 0 {
		head(say.T("Turns"), model.Tokens(m.Usage))
		all = append(all, turnBars(m.Turns)...)
	}
	head(say.T("Allowed without asking"), "")
	if len(m.Unasked) == 0 {
		all = append(all, kit.Small(say.T("Nothing; it asks for everything")))
	}
	for _, u := range m.Unasked {
		uses := ""
		if n := m.UnaskedUses[u]; n > 0 {
			uses = say.N(n, "%d use", "%d uses")
		}
		all = append(all, kit.Columns(6, kit.Col(0, kit.Gap(3), kit.NewIcon(kit.ShapeCheck, 12, kit.Done)),
			kit.Grow(kit.NewParagraph(capital(model.Unasked([]string{u})), kit.SizeSmall, kit.Ink)),
			kit.Col(0, kit.Sized(0, 18, kit.Row(0, kit.Note(uses))))), kit.Gap(4))
	}
	if m.Denials.Count > 0 || m.Refusals > 0 {
		head(say.T("Refused"), "")
		if m.Denials.Count > 0 {
			all = append(all, kit.Small(say.N(m.Denials.Count, "%d request denied by you", "%d requests denied by you")))
		}
		if m.Refusals > 0 {
			all = append(all, kit.Row(6, kit.NewIcon(kit.ShapeFailed, 12, kit.Wrong), kit.Small(say.N(m.Refusals, "%d try of a worker to decide itself", "%d tries of a worker to decide itself"))))
		}
	}
	var about []string
	if m.ProviderVersion != "" {
		about = append(about, model.ProviderTitle(m.Provider)+" "+model.Clean(m.ProviderVersion))
	}
	if m.Generation > 0 {
		about = append(about, say.T("generation %d", m.Generation))
	}
	all = append(all, kit.Gap(20))
	for _, a := range about {
		all = append(all, kit.Row(0, kit.Grow(kit.Note(a).CutEnd())), kit.Gap(2))
	}
	kit.Set(r.body, all...)
	r.root.Refresh()
}

// turnBars draws the last turns with what each used, and says how many were
// before them.
func turnBars(turns []wire.TurnInfo) []fyne.CanvasObject {
	turns = turns[max(0, len(turns)-railTurns):]
	tokens := func(t wire.TurnInfo) int64 {
		u := t.Usage
		return mission.Usage{Semantics: u.Semantics, Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}.Tokens()
	}
	most := int64(1)
	for _, t := range turns {
		most = max(most, tokens(t))
	}
	var out []fyne.CanvasObject
	if before := turns[0].Number - 1; before > 0 {
		out = append(out, kit.Small(say.T("%d more before", before)), kit.Gap(2))
	}
	for i, t := range turns {
		color, style := kit.Quiet, kit.Style(0)
		length := say.T("now")
		if t.EndedAt != nil {
			length = model.Duration(t.EndedAt.Sub(t.StartedAt).Round(time.Second))
		}
		if i == len(turns)-1 && t.EndedAt == nil {
			color, style = kit.Accent, kit.Bold
		}
		count := model.Tokens(t.Usage)
		out = append(out, kit.Sized(0, 22, kit.Row(8, kit.Fix(16, kit.Small(fmt.Sprint(t.Number), style)),
			kit.Grow(kit.NewTimeBar(float32(tokens(t))/float32(most), color).NoTrack()),
			kit.Fix(76, kit.Small(count, style).Right()), kit.Fix(48, kit.Note(length).Right()))))
	}
	return out
}

// missionFoot says what the mission used.
type missionFoot struct {
	root              fyne.CanvasObject
	turn, used, right *kit.Text
	row               *fyne.Container
}

func newMissionFoot() *missionFoot {
	f := &missionFoot{turn: kit.Small(""), used: kit.Note(""), right: kit.Note("").CutEnd().Right()}
	f.row = kit.Row(8, f.turn, f.used, kit.Grow(f.right))
	f.root = kit.Over(kit.Side, kit.Col(0, kit.HLine(), kit.Sized(0, 28, kit.Pad(0, 20, 0, 20, f.row))))
	return f
}

func (f *missionFoot) set(m wire.Mission, log *transcriptView) {
	f.turn.SetText(say.T("No turn yet"))
	if m.Turn > 0 {
		f.turn.SetText(say.T("Turn %d", m.Turn))
	}
	used := ""
	add := func(s string) {
		if s != "" {
			used += "·  " + s + "  "
		}
	}
	if m.ToolCalls > 0 {
		add(say.N(m.ToolCalls, "%d tool", "%d tools"))
	}
	add(model.Tokens(m.Usage))
	if cost := model.Cost(m.Usage.CostUSD); cost != "" && m.Budget.CostUSD > 0 {
		add(say.T("%s of %s", cost, model.Cost(&m.Budget.CostUSD)))
	} else {
		add(cost)
	}
	f.used.SetText(used)
	f.right.SetText(strings.Join(append(model.Resources(m), log.about(mission.Phase(m.Phase).Terminal())), "  ·  "))
	f.row.Refresh()
}

// sameIDs tells whether two lists of approvals are the same ones.
func sameIDs(a, b []wire.Approval) bool {
	return slices.EqualFunc(a, b, func(x, y wire.Approval) bool { return x.ID == y.ID })
}
