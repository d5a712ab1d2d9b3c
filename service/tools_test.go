//go:build unix

package service

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// What the service does itself happens exactly once, however often it is asked.
func TestTools(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := h.execute(r, "1", wire.MCPSendMessage, `{"text":"Hello."}`)
			if err != nil || string(got.Result) != `{"message_id":"msg_1"}` || got.Room != r.Bridge.Room {
				t.Errorf("executed %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	prepared := must(h.prepare(r, 1, "2", wire.MCPRecordIntent, `{"text":"I will mend it."}`))(t)
	_, err := h.finish(r, 1, prepared.Effect, "")
	refused(t, err, wire.CodeConflict, "executed") // nothing is invented
	h.restart()
	must(h.execute(r, "2", wire.MCPRecordIntent, `{"text":"I will mend it."}`))(t)
	must(h.finish(r, 1, prepared.Effect, ""))(t)
	h.restart()
	must(h.execute(r, "1", wire.MCPSendMessage, `{"text":"Hello."}`))(t)
	if got := h.messages(r.ID); len(got) != 2 || got[0].Kind != wire.RoomText || got[1].Kind != wire.RoomIntent || got[0].From != room.Agent {
		t.Errorf("the room has %+v", got)
	}
	_, err = h.execute(r, "1", wire.MCPSendMessage, `{"text":"Other."}`)
	refused(t, err, wire.CodeConflict, "another tool, input")

	for _, bad := range []struct{ tool, input, says string }{
		{wire.MCPSendMessage, `{}`, "input.text"}, {wire.MCPSendMessage, `{"text":"x","reply_to":"3"}`, "input.reply_to"},
		{wire.MCPSendMessage, `{"text":"x","reply_to":"msg_99"}`, "input.reply_to"}, {wire.MCPSendMessage, `{"text":7}`, "input.text must be a string"},
		{wire.MCPGetUpdates, `{"after_message_id":"msg_40"}`, "input.after_message_id is msg_40, but the newest message of the room " + r.Bridge.Room + " is msg_2"},
		{wire.MCPGetUpdates, `{"wait_seconds":301}`, "input.wait_seconds"}, {wire.MCPRequestApproval, `{}`, "input.title"}, {wire.MCPJoinRoom, `{}`, "input.room_id"},
	} {
		_, err := h.execute(r, "bad", bad.tool, bad.input)
		refused(t, err, wire.CodeInvalidParams, bad.says)
	}
	_, err = h.execute(r, "3", wire.MCPSpawnWorker, `{}`)
	refused(t, err, wire.CodeConflict, "no subagents yet")
	_, err = h.execute(r, "4", "deploy", `{}`)
	refused(t, err, wire.CodeNotFound, "no tool deploy")
	_, err = h.execute(r, "5", wire.MCPCompleteTurn, `{"text":"Done."}`)
	refused(t, err, wire.CodeConflict, "none to answer")
	for _, id := range []string{r.Bridge.Room, "r-none"} {
		_, err = h.prepare(r, 1, "6", wire.MCPJoinRoom, `{"room_id":"`+id+`"}`)
		if err == nil {
			t.Errorf("joined %s", id)
		}
	}

	var project project
	if err := json.Unmarshal(must(h.execute(r, "7", wire.MCPGetProject, `{}`))(t).Result, &project); err != nil || len(project.Rooms) != 1 || project.Rooms[0].Workers[0] != r.ID {
		t.Errorf("the project is %+v, %v", project, err)
	}
	var own ownMission
	if err := json.Unmarshal(must(h.execute(r, "8", wire.MCPGetMission, ``))(t).Result, &own); err != nil || own.ID != r.ID || own.Seconds <= 0 || own.Scope != asksAndWaits {
		t.Errorf("the mission is %+v, %v", own, err)
	}

	// Two that wait for news share one wait, and hear of it together.
	results := make(chan string, 2)
	for range 2 {
		wg.Go(func() {
			got, err := h.execute(r, "9", wire.MCPGetUpdates, `{"after_message_id":"msg_2","wait_seconds":300}`)
			if err != nil {
				t.Error(err)
			}
			results <- string(got.Result)
		})
	}
	h.send(r.ID, "News.")
	wg.Wait()
	a, b := <-results, <-results
	if a != b || !strings.Contains(a, `"cursor":"msg_3"`) || !strings.Contains(a, `"News."`) {
		t.Errorf("news are %s and %s", a, b)
	}
	// One whose client has gone waits no longer.
	leaving, leave := context.WithCancel(ctx)
	wg.Go(func() {
		if _, err := h.s.ExecuteTool(leaving, actor(r, 1), h.call(r, "10", wire.MCPGetUpdates, `{"after_message_id":"msg_3","wait_seconds":300}`)); err == nil {
			t.Error("it got something")
		}
	})
	leave()
	wg.Wait()
}

// An agent that waits for what comes after its own words gets what others said
// before them, which it was not told, and reads that first.
func TestUntoldComesFirst(t *testing.T) {
	h := newHouse(t)
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	read := func(cursor string) string {
		t.Helper()
		return must(h.s.CheckpointWorker(context.Background(), actor(r, 1), wire.CheckpointParams{Coordinates: at(r), Session: r.Bridge.Session, Cursor: cursor}))(t).Cursor
	}
	h.send(r.ID, "Stop that.")
	must(h.execute(r, "1", wire.MCPSendMessage, `{"text":"Shall I go on?"}`))(t) // msg_2
	if got := read("msg_2"); got != "" {
		t.Errorf("it has read up to %s, and was told nothing", got)
	}
	for i, id := range []string{"2", "3"} {
		got := string(must(h.execute(r, id, wire.MCPGetUpdates, `{"after_message_id":"msg_2"}`))(t).Result)
		if told := strings.Contains(got, "Stop that."); told != (i == 0) || !strings.Contains(got, `"cursor":"msg_2"`) {
			t.Errorf("asked %d times, it is told %s", i+1, got)
		}
	}
	must(h.execute(r, "4", wire.MCPRecordIntent, `{"text":"I stop."}`))(t) // msg_3
	if got := read("msg_3"); got != "msg_3" {
		t.Errorf("it has read up to %s, and was told all", got)
	}
}

// The agent's question waits for the person through a restart of the service,
// and the answer reaches whoever asks again.
func TestRequestApproval(t *testing.T) {
	h := newHouse(t)
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	const input = `{"title":"Delete the old data?","details":"All of it."}`
	asked := func(id string) approvals.Record { t.Helper(); return h.askedFor(r, id) }
	ctx, leave := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = h.s.ExecuteTool(ctx, actor(r, 1), h.call(r, "1", wire.MCPRequestApproval, input)) })
	before := asked("1")
	leave()
	wg.Wait()
	h.restart()
	a := asked("1")
	if a.ID != before.ID {
		t.Errorf("it is asked as %s and %s", before.ID, a.ID)
	}
	result := make(chan string, 1)
	wg.Go(func() {
		got, err := h.execute(r, "1", wire.MCPRequestApproval, input)
		if err != nil {
			t.Error(err)
		}
		result <- string(got.Result)
	})
	h.answer(a, approval.Answer{Allow: false, Reason: "Keep it."})
	want := `{"allowed":false,"reason":"Keep it.","text":""}`
	if got := <-result; got != want {
		t.Errorf("the answer is %s", got)
	}
	if got := must(h.execute(r, "1", wire.MCPRequestApproval, input))(t); string(got.Result) != want {
		t.Errorf("asked again, the answer is %s", got.Result)
	}
	// With the turn it is withdrawn, and the agent is told.
	wg.Go(func() {
		if _, err := h.execute(r, "2", wire.MCPRequestApproval, input); err == nil {
			t.Error("an answer that nobody gave")
		}
	})
	b := asked("2")
	h.goOn(r.ID)
	wg.Wait()
	h.until(r.ID, "end of the turn", func(r supervisor.Record) bool { return r.Phase == mission.Waiting })
	if err := h.s.db.View(func(tx *store.Tx) (err error) { b, _, err = approvals.Get(tx, b.ID); return }); err != nil || b.State != approval.Withdrawn {
		t.Errorf("after the turn it is %s, %v", b.State, err)
	}
	if e := h.effect(b.Effect); e.State != effects.Failed {
		t.Errorf("after the turn its effect is %s", e.State)
	}
}

// A person's message wakes the worker, its prompt tells it, the final answer is
// published once, and after it the worker moves to the room that it chose.
func TestRoom(t *testing.T) {
	h := newHouse(t)
	r := h.start(h.checkout("a"), asksAndWaits, "/repo")
	other := h.start(h.checkout("b"), asksAndWaits, "/repo")
	elsewhere := h.start(h.checkout("c"), asksAndWaits, "/elsewhere")
	elsewhere = h.asking(elsewhere.ID, 1)
	other = h.asking(other.ID, 1)
	r = h.asking(r.ID, 1)
	h.goOn(r.ID)
	r = h.until(r.ID, "wait", func(r supervisor.Record) bool { return r.Phase == mission.Waiting })
	if got := h.messages(r.ID); len(got) != 0 {
		t.Errorf("a turn that no message woke published %+v", got)
	}
	m := h.send(r.ID, "What have you done?")
	r = h.asking(r.ID, 2)
	if turn := r.Turns[1]; turn.Source != 1 || turn.Read != 1 || !strings.Contains(h.prompt(r, 2), "msg_1, from the person:\n   What have you done?") {
		t.Errorf("the turn is %+v", turn)
	}
	if e := must(h.prepare(r, 1, "1", wire.MCPSendMessage, `{"text":"This.","reply_to":"msg_1"}`))(t); e.Action != wire.ActionFinalAnswer || e.SourceMessage != m.ID {
		t.Errorf("an answer to the message that woke it is %+v", e)
	}
	e := must(h.prepare(r, 1, "2", wire.MCPCompleteTurn, `{"text":"All of it."}`))(t)
	if e.Action != wire.ActionFinalAnswer || e.SourceMessage != m.ID {
		t.Errorf("the final answer is %+v", e)
	}
	_, err := h.prepare(r, 1, "3", wire.MCPJoinRoom, `{"room_id":"`+elsewhere.Bridge.Room+`"}`)
	refused(t, err, wire.CodeNotFound, "in this project")
	join := `{"room_id":"` + other.Bridge.Room + `"}`
	e = must(h.prepare(r, 1, "4", wire.MCPJoinRoom, join))(t)
	if e.Action != wire.ActionRoomMove || e.Destination != other.Bridge.Room || e.Room != r.Bridge.Room {
		t.Errorf("the move is %+v", e)
	}
	if again := must(h.prepare(r, 1, "4", wire.MCPJoinRoom, join))(t); again.Effect != e.Effect {
		t.Error("a repeat is another move")
	}
	ctx, here := context.Background(), at(r)
	here.Turn = ""
	lent := must(h.s.BorrowCredential(ctx, actor(r, 1), wire.BorrowParams{Coordinates: here, Room: r.Bridge.Room, Session: r.Bridge.Session, Generation: h.s.id.Generation, APIURL: wire.LocalOrigin + "/api"}))(t)
	must(h.s.BindWorker(ctx, actor(r, 1), wire.BindParams{Coordinates: here, WorkerSession: wire.WorkerSession{Room: r.Bridge.Room, Session: r.Bridge.Session, Token: lent.Credential, APIURL: wire.LocalOrigin}}))(t)
	read := wire.CheckpointParams{Coordinates: here, Session: r.Bridge.Session, Cursor: "msg_1"}
	must(h.s.CheckpointWorker(ctx, actor(r, 1), read))(t)
	h.restart()
	h.goOn(r.ID)
	r = h.until(r.ID, "wait", func(r supervisor.Record) bool { return r.Phase == mission.Waiting && len(r.Turns) == 2 })
	got := h.messages(r.ID)
	if len(got) != 2 || got[1].Kind != wire.RoomAnswer || got[1].Answers != m.ID || got[1].Text != "All of it." {
		t.Errorf("the room has %+v", got)
	}
	if r.Bridge.Room != other.Bridge.Room {
		t.Errorf("the worker is in %s", r.Bridge.Room)
	}
	if now := h.effect(e.Effect); now.State != effects.Completed {
		t.Errorf("the move is %s", now.State)
	}
	if in := h.s.sup.InRooms()[other.Bridge.Room]; len(in) != 2 {
		t.Errorf("in that room are %v", in)
	}
	// What another agent says wakes nobody, what a person says wakes both.
	must(h.execute(other, "1", wire.MCPSendMessage, `{"text":"Welcome."}`))(t)
	h.send(other.Bridge.Room, "Both of you.")
	r = h.asking(r.ID, 3)
	if turn := r.Turns[2]; turn.Source != 2 || turn.Read != 2 || turn.Room != other.Bridge.Room {
		t.Errorf("the turn is %+v", turn)
	}
	// What was read in the room of before is nothing of this one's.
	read.Coordinates = at(r)
	_, err = h.s.CheckpointWorker(ctx, actor(r, 1), read)
	refused(t, err, wire.CodeCredentialStale, "moved to another room")
	view := must(h.s.RoomList(context.Background()))(t)
	if len(view.Rooms) != 3 {
		t.Errorf("rooms: %+v", view.Rooms)
	}
}
