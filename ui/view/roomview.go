package view

import (
	"context"
	"fmt"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// roomPage is how many messages are read at once.
const roomPage = 200

// roomView shows the room of a mission and writes into it. It reads when a
// person looks: at first the newest messages, then what comes.
type roomView struct {
	w      *missionWindow
	root   fyne.CanvasObject
	place  *fyne.Container
	list   *kit.List
	empty  *kit.Text
	entry  *entry
	button *kit.Button

	log     *model.RoomLog
	open    bool // a person looks
	loaded  bool
	asking  bool
	stale   bool   // there is something to read
	redraw  bool   // what is new is something else now
	asked   string // what was known when it was read last
	earlier bool   // the first row offers earlier messages
	problem string
	sending bool
	now     time.Time
}

func newRoomView(w *missionWindow) *roomView {
	v := &roomView{w: w, now: w.d.now()}
	v.list = kit.NewList(56, v.build)
	v.empty = kit.NewText("", kit.SizeBody, kit.Quiet)
	v.entry = newEntry()
	v.entry.OnSubmitted = func(string) { v.send() }
	v.entry.OnChanged = func(string) { v.enable() }
	v.button = kit.NewButton(kit.Plain, say.T("Send"), v.send).Icon(kit.ShapeQueue).Tall().Least(92)
	v.place = kit.Sized(0, 0, kit.Pad(10, 4, 4, 20, v.list), middle(v.empty))
	v.root = kit.Col(0, kit.Grow(v.place), kit.HLine(),
		kit.Pad(12, 20, 12, 20, kit.Row(8, kit.Grow(kit.FieldFor(v.entry, false, 0)), v.button)))
	return v
}

// look says whether a person has the room before them.
func (v *roomView) look(on bool) {
	if on == v.open {
		return
	}
	v.open = on
	switch {
	case on && v.log == nil:
		room, _ := v.w.d.st.RoomOf(v.w.id)
		v.log = model.NewRoomLog(v.w.d.st.Looked(room.ID))
	case on:
		v.log.Came()
		v.stale, v.redraw = true, true
	}
}

// set brings the room in line with what is known of it.
func (v *roomView) set(m wire.Mission) {
	v.now = v.w.d.now()
	v.enable()
	hint := say.T("Write to the worker; it wakes, and answers here")
	if !v.heard() {
		hint = say.T("This mission has ended: nobody reads what is written here")
	}
	v.entry.SetPlaceHolder(hint)
	if !v.open {
		return
	}
	room, _ := v.w.d.st.RoomOf(v.w.id)
	link, _ := v.w.d.st.Link()
	// With a turn of the worker, what it has read moves.
	known := fmt.Sprint(link, room.ID, room.Last, m.Turn, m.Phase)
	if known != v.asked {
		v.asked, v.stale = known, true
	}
	if v.stale && !v.asking && link == model.Running {
		v.read(v.log.Last())
	}
	v.words()
}

// words says why there is nothing to see.
func (v *roomView) words() {
	text := ""
	switch {
	case v.log.Len() > 0:
	case v.problem != "":
		text = say.T("The room can't be read at present. %s", v.problem)
	case !v.loaded:
		text = say.T("Reading the room")
	case v.heard():
		text = say.T("Nothing was written here yet. What you write wakes the worker, and it answers here.")
	default:
		text = say.T("Nothing was written here.")
	}
	if text != v.empty.Text() {
		v.empty.SetText(text)
		v.place.Refresh()
	}
}

// heard tells whether a worker reads the room.
func (v *roomView) heard() bool {
	m, _ := v.w.d.st.Mission(v.w.id)
	return !mission.Phase(m.Phase).Terminal() || v.log != nil && len(v.log.Room.Workers) > 0
}

// read asks for what comes after a message; "" for the newest.
func (v *roomView) read(after string) {
	v.asking, v.stale = true, false
	p := wire.RoomMessagesParams{Room: v.w.id, After: after, Limit: roomPage}
	task(v.w.d, func(ctx context.Context) (wire.RoomMessagesResult, error) {
		var r wire.RoomMessagesResult
		err := v.w.d.call(ctx, wire.MethodRoomMessages, p, &r)
		return r, err
	}, func(r wire.RoomMessagesResult, err error) {
		v.asking, v.problem = false, sentence(err)
		if err == nil {
			v.take(r)
			v.stale = v.stale || r.More && after != ""
		}
		v.w.refresh()
	})
}

// take shows what was read. A page from before what is shown leaves the rows in
// sight where they are.
func (v *roomView) take(r wire.RoomMessagesResult) {
	follow := !v.loaded || v.list.Following()
	was, first := v.log.Len(), v.log.First()
	reset := v.log.Room.ID != r.Room.ID
	read := v.log.Room.Read
	brought := v.log.Take(r)
	v.loaded = true
	if v.open {
		v.w.d.st.MarkRead(r.Room.ID)
	}
	if !brought && !reset && !v.redraw && read == r.Room.Read {
		return
	}
	v.redraw = false
	earlier, _ := v.log.Earlier(roomPage)
	before := 0
	if was > 0 && first != v.log.First() {
		before = v.log.Len() - was
	}
	v.earlier = earlier > 0
	top, _ := v.list.InView()
	v.list.Reset(v.log.Len() + v.head())
	if follow && before == 0 {
		v.list.Follow()
	} else {
		v.list.ScrollTo(min(top+before, max(v.list.Len()-1, 0)))
	}
}

// head is how many rows stand before the messages.
func (v *roomView) head() int {
	if v.earlier {
		return 1
	}
	return 0
}

// build draws row i.
func (v *roomView) build(i int) fyne.CanvasObject {
	if i < v.head() {
		n, after := v.log.Earlier(roomPage)
		more := kit.NewButton(kit.Plain, say.T("Show %d earlier", min(n, roomPage)), func() {
			if !v.asking {
				v.read(after)
			}
		}).Small()
		return kit.Pad(4, 10, 8, 0, centered(more))
	}
	i -= v.head()
	r := v.log.Row(i, v.now)
	var lines []fyne.CanvasObject
	if r.New {
		lines = append(lines, kit.Pad(4, 10, 4, 0, kit.Row(8, kit.NewText(say.T("New"), kit.SizeSmall, kit.Accent, kit.Bold), kit.Grow(kit.Sized(0, 1, kit.NewFill(kit.AccentLine))))))
	}
	return kit.Col(0, append(lines, kit.Pad(0, 10, 6, 0, kit.Columns(8,
		kit.Fix(44, kit.Col(0, kit.Sized(0, 24, kit.Row(0, kit.Note(r.When, kit.Mono))))), kit.Grow(kit.Col(0, message(r))))))...)
}

// message draws what was written, by whom, and what it answers.
func message(r model.RoomRow) fyne.CanvasObject {
	name := func(color kit.Color) *kit.Text { return kit.NewText(r.Who, kit.SizeSmall, color, kit.Bold) }
	head := func(cells ...fyne.CanvasObject) fyne.CanvasObject { return kit.Sized(0, 22, kit.Row(8, cells...)) }
	body := kit.AtMost(760, kit.Wrapped(r.Text))
	switch {
	case r.You:
		note := kit.Note("")
		if r.Waits {
			note = kit.Note(say.T("not read yet"))
		}
		return kit.Box(kit.AccentTint, kit.None, 8, kit.Pad(6, 12, 8, 12, kit.Col(0, head(name(kit.Accent), kit.Spring(), note), body)))
	case r.Reeve:
		return kit.Pad(3, 0, 3, 0, kit.Columns(6, kit.Col(0, kit.Gap(2), kit.NewIcon(kit.ShapeMark, 13, kit.Quiet)), kit.Grow(kit.NewParagraph(r.Text, kit.SizeSmall, kit.Quiet))))
	case r.Kind == wire.RoomIntent:
		return kit.Box(kit.Sunken, kit.None, 8, kit.Pad(6, 12, 8, 12, kit.Col(0, head(kit.NewIcon(kit.ShapeRight, 11, kit.Quiet), name(kit.Ink), kit.Note(say.T("is about to")), kit.Spring()), body)))
	case r.Answers != "":
		return kit.Box(kit.Surface, kit.Line, 8, kit.Pad(6, 12, 8, 12, kit.Col(0, head(kit.Shrink(name(kit.Ink).CutEnd()), kit.Note(say.T("answers")), kit.Grow(kit.Note(r.Answers, kit.Italic).CutEnd())), body)))
	}
	return kit.Box(kit.Surface, kit.Line, 8, kit.Pad(6, 12, 8, 12, kit.Col(0, head(kit.Shrink(name(kit.Ink).CutEnd()), kit.Spring()), body)))
}

func (v *roomView) enable() {
	link, _ := v.w.d.st.Link()
	enable(v.entry, v.heard() && !v.sending)
	enable(v.button, v.heard() && !v.sending && link == model.Running && v.entry.Text != "")
}

// send writes what stands in the field. It stays there until it was taken.
func (v *roomView) send() {
	text := v.entry.Text
	if text == "" || v.sending {
		return
	}
	v.sending = true
	v.button.SetLabel(say.T("Sending"))
	v.enable()
	task(v.w.d, func(ctx context.Context) (wire.RoomSendResult, error) {
		var r wire.RoomSendResult
		err := v.w.d.call(ctx, wire.MethodRoomSend, wire.RoomSendParams{RequestKey: requestKey(), Room: v.w.id, Text: text}, &r)
		return r, err
	}, func(_ wire.RoomSendResult, err error) {
		v.sending = false
		v.button.SetLabel(say.T("Send"))
		if err != nil {
			v.w.strip.tell(problemBox(say.T("The message was not written"), sentence(err), kit.NewButton(kit.Plain, say.T("Close"), v.w.strip.dismiss).Small()))
		} else {
			v.entry.SetText("")
			v.list.Follow()
			v.stale = true
		}
		v.w.refresh()
	})
}
