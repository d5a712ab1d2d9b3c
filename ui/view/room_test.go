package view

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// roomRig is a mission's window with a service that keeps its room in memory.
func roomRig(t *testing.T) (*rig, *missionWindow, *wire.RoomMessagesResult) {
	t.Helper()
	r := newRig(t, kit.Light)
	busy(t, r)
	page := talk()
	know(r, wire.TopicRooms, page.Room)
	r.reply = func(method string, params any) (any, error) {
		r.mu.Lock() // calls come from tasks
		defer r.mu.Unlock()
		switch p := params.(type) {
		case wire.RoomMessagesParams:
			i := slices.IndexFunc(page.Messages, func(m wire.RoomMessage) bool { return m.ID == p.After })
			out := page
			out.Messages = page.Messages[i+1:]
			return out, nil
		case wire.RoomSendParams:
			return wire.RoomSendResult{}, nil
		}
		return nil, nil
	}
	r.openMission("m-parser")
	w := r.missions["m-parser"]
	t.Cleanup(func() {
		if r.missions["m-parser"] == w {
			w.win.Close()
		}
	})
	return r, w, &page
}

// come adds a message of the worker.
func come(r *rig, page *wire.RoomMessagesResult, text string) {
	m := wire.RoomMessage{ID: fmt.Sprintf("msg_%d", len(page.Messages)+1), Room: "r-parser", Kind: wire.RoomText, From: "agent", Name: "Codex", Mission: "m-parser", Text: text, At: r.clock}
	r.mu.Lock()
	page.Messages = append(page.Messages, m)
	page.Room.Last = m.ID
	r.mu.Unlock()
	if _, err := r.st.Delta(wire.Event{Event: wire.EvRoom, Data: raw(r.t, m)}); err != nil {
		r.t.Fatal(err)
	}
	r.changed()
}

func TestRoomIsReadWhenLookedAt(t *testing.T) {
	r, w, page := roomRig(t)
	r.changed()
	if n := len(r.called(wire.MethodRoomMessages)); n > 0 {
		t.Fatalf("read %d times before anybody looked", n)
	}
	come(r, page, "Now the tests.")
	if row, _ := r.st.Row("m-parser", r.clock); row.Messages != 1 {
		t.Errorf("%d unread", row.Messages)
	}
	w.open(tabRoom)
	r.until("the room", func() bool { return w.room.loaded })
	if n := w.room.log.Len(); n != 7 || w.win.Canvas().Focused() != fyne.Focusable(w.room.entry) {
		t.Errorf("%d messages; focus on %T", n, w.win.Canvas().Focused())
	}
	if row, _ := r.st.Row("m-parser", r.clock); row.Messages != 0 {
		t.Error("what was looked at is still unread")
	}
	if !w.room.log.Row(6, r.clock).New {
		t.Error("what came before somebody looked is not marked as new")
	}
	come(r, page, "They pass.")
	r.until("the next message", func() bool { return w.room.log.Len() == 8 })
	if got := r.called(wire.MethodRoomMessages); got[len(got)-1].(wire.RoomMessagesParams).After != "msg_7" {
		t.Errorf("read %+v", got)
	}
	if r.st.Unread("m-parser") != 0 {
		t.Error("what came before their eyes is unread")
	}
	w.open(tabTranscript)
	come(r, page, "Done.")
	r.hop()
	if n := r.st.Unread("m-parser"); n != 1 || w.room.log.Len() != 8 {
		t.Errorf("with the transcript in front %d are unread, %d read", n, w.room.log.Len())
	}
}

func TestRoomSends(t *testing.T) {
	r, w, page := roomRig(t)
	w.open(tabRoom)
	r.until("the room", func() bool { return w.room.loaded })
	if !w.room.button.Disabled() {
		t.Error("nothing can be sent")
	}
	test.Type(w.room.entry, "And the tests?")
	reply := r.reply
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodRoomSend {
			return nil, errors.New("the disk is full")
		}
		return reply(method, params)
	}
	test.Tap(w.room.button)
	r.until("the refusal", func() bool { return w.strip.told != nil && !w.room.sending })
	if w.room.entry.Text != "And the tests?" {
		t.Errorf("a text that was not taken is gone: %q", w.room.entry.Text)
	}
	r.reply = func(method string, params any) (any, error) {
		if p, ok := params.(wire.RoomSendParams); ok {
			r.mu.Lock()
			page.Messages = append(page.Messages, wire.RoomMessage{ID: "msg_7", Room: "r-parser", From: "person", Text: p.Text, At: day})
			r.mu.Unlock()
		}
		return reply(method, params)
	}
	w.room.entry.OnSubmitted("")
	r.until("the message", func() bool { return w.room.log.Len() == 7 })
	sent := r.called(wire.MethodRoomSend)
	if p := sent[1].(wire.RoomSendParams); p.Room != "m-parser" || p.Text != "And the tests?" || p.RequestKey == "" || p.RequestKey == sent[0].(wire.RoomSendParams).RequestKey || w.room.entry.Text != "" {
		t.Errorf("sent %+v, left %q", p, w.room.entry.Text)
	}
	if row := w.room.log.Row(6, r.clock); !row.Waits {
		t.Error("what the worker has not read looks read")
	}
	r.st.SetLink(model.NoService, "")
	test.Type(w.room.entry, "x")
	r.changed()
	if !w.room.button.Disabled() {
		t.Error("a message can be sent with no service")
	}
}

// A room of an ended mission that nobody else is in takes no messages.
func TestRoomOfAnEndedMission(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	page := talk()
	page.Room.Workers = nil
	r.reply = func(string, any) (any, error) { return page, nil }
	w := newMissionWindow(r.desk, "m-parser")
	m, _ := r.st.Mission("m-parser")
	m.Phase, m.EndedAt, m.Revision = "completed", clockPtr(15, 5), 2
	know(r, wire.TopicMissions, m)
	w.open(tabRoom)
	r.until("the room", func() bool { return w.room.loaded })
	if !w.room.entry.Disabled() {
		t.Error("nobody reads it, and it can be written into")
	}
}

// unsettled is a mission's window with its effects in front, at the moment they
// appear.
func unsettled(t *testing.T) (*rig, *missionWindow) {
	t.Helper()
	r := newRig(t, kit.Light)
	busy(t, r)
	know(r, wire.TopicEffects, journal(t)...)
	r.act(model.DoSettle, "m-parser")
	w := r.missions["m-parser"]
	t.Cleanup(func() {
		if r.missions["m-parser"] == w {
			w.win.Close()
		}
	})
	if w.tabs.Chosen() != tabEffects || len(w.done.buttons) != 3 {
		t.Fatalf("tab %d with %d buttons", w.tabs.Chosen(), len(w.done.buttons))
	}
	return r, w
}

func (r *rig) settlements() []wire.EffectSettleParams {
	var out []wire.EffectSettleParams
	for _, p := range r.called(wire.MethodEffectSettle) {
		out = append(out, p.(wire.EffectSettleParams))
	}
	return out
}

// later lets time pass for the window's buttons.
func later(r *rig, w *missionWindow, d time.Duration) {
	r.clock = r.clock.Add(d)
	w.done.enable()
}

func TestSettlingArms(t *testing.T) {
	r, w := unsettled(t)
	if f, ok := w.win.Canvas().Focused().(*kit.GatedButton); ok {
		t.Errorf("the focus is on %q", f.Label())
	}
	happened := w.done.buttons[0]
	later(r, w, armDelay-time.Millisecond)
	test.Tap(happened)
	w.done.settle(model.EffectRow{ID: "e-4"}, wire.EffectHappened)
	if !happened.Disabled() || w.done.busy != "" {
		t.Fatal("it can be settled before the delay")
	}
	later(r, w, time.Millisecond)
	if happened.Disabled() {
		t.Fatal("it can't be settled after the delay")
	}
	// Another one appears above what the pointer is on: the delay begins anew.
	above := journal(t)[0]
	above.ID, above.CreatedAt = "e-0", clock(14, 1)
	know(r, wire.TopicEffects, append(journal(t), above)...)
	r.changed()
	if len(w.done.buttons) != 6 || !w.done.buttons[0].Disabled() || !w.done.buttons[3].Disabled() {
		t.Error("buttons that moved are still armed")
	}
	later(r, w, armDelay)
	w.open(tabTranscript)
	if w.done.settle(model.EffectRow{ID: "e-4"}, wire.EffectHappened); w.done.busy != "" {
		t.Error("what is not in sight can be settled")
	}
	w.open(tabEffects)
	if !w.done.buttons[0].Disabled() {
		t.Error("armed at once when it is in sight again")
	}
	if n := len(r.settlements()); n > 0 {
		t.Errorf("%d settled", n)
	}
}

func TestSettlingKeys(t *testing.T) {
	r, w := unsettled(t)
	later(r, w, armDelay)
	c := w.win.Canvas()
	c.Focus(w.done.buttons[1])
	key := func(name fyne.KeyName, typed int) {
		b := w.done.buttons[1]
		b.KeyDown(&fyne.KeyEvent{Name: name})
		for range typed {
			b.TypedKey(&fyne.KeyEvent{Name: name})
		}
		b.KeyUp(&fyne.KeyEvent{Name: name})
	}
	key(fyne.KeyReturn, 1)
	key(fyne.KeySpace, 3) // held
	if w.done.busy != "" {
		t.Fatal("Enter, or a key that was held, settled it")
	}
	key(fyne.KeySpace, 1)
	if w.done.busy != "e-4" {
		t.Fatal("Space does not settle it")
	}
	r.until("the answer", func() bool { return w.done.busy == "" })
	if got := r.settlements(); len(got) != 1 || got[0].ID != "e-4" || got[0].Outcome != wire.EffectDidNot || got[0].Revision != 1 || got[0].RequestKey == "" {
		t.Errorf("%+v", got)
	}
	done := journal(t)[0]
	done.State, done.Settled, done.Revision = wire.EffectSettled, wire.EffectDidNot, 2
	if _, err := r.st.Delta(wire.Event{Event: wire.EvEffect, Data: raw(t, done)}); err != nil {
		t.Fatal(err)
	}
	r.changed()
	if len(w.done.buttons) != 0 {
		t.Error("what was settled can be settled again")
	}
}

func TestRefusedSettlementIsShownThere(t *testing.T) {
	r, w := unsettled(t)
	r.reply = func(string, any) (any, error) {
		return nil, wire.Errorf(wire.CodeConflict, "the effect changed; look at it again")
	}
	later(r, w, armDelay)
	test.Tap(w.done.buttons[2])
	r.until("the refusal", func() bool { return w.done.refused["e-4"] != "" })
	if got := r.settlements(); got[0].Outcome != wire.EffectLeft || w.done.refused["e-4"] != "The effect changed; look at it again." {
		t.Errorf("%+v, %q", got, w.done.refused)
	}
	if !w.done.buttons[0].Disabled() {
		t.Error("the buttons moved, and are armed at once")
	}
}

// A notification about uncertain effects is taken back when none is left.
func TestDoubtNoteIsTakenBack(t *testing.T) {
	r := newRig(t, kit.Light)
	know(r, wire.TopicEffects, journal(t)...)
	r.send(model.Note{Do: model.DoSettle, ID: "m-parser"})
	r.settleNotes()
	if len(r.notes) != 1 {
		t.Fatal("taken back while it waits")
	}
	know[wire.Effect](r, wire.TopicEffects)
	r.settleNotes()
	if len(r.notes) != 0 {
		t.Error("it stays when nothing is uncertain any more")
	}
}
