package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// tool has Reeve's own bridge call a tool that has to work, and returns what the
// agent is told.
func (r *remote) tool(name, input string) string {
	r.t.Helper()
	got := r.do(order{Tool: name, Input: []byte(input)})
	if got.Error != "" {
		r.t.Errorf("%s %s: %s", name, input, got.Error)
	}
	return got.Text
}

func (r *remote) noTool(name, input, says string) {
	r.t.Helper()
	if got := r.do(order{Tool: name, Input: []byte(input)}); !strings.Contains(got.Error, says) {
		r.t.Errorf("%s %s: %q %q; want a refusal with %q", name, input, got.Text, got.Error, says)
	}
}

// TestOwnBridge has a worker use reeve mcp: it reads its mission and its room,
// writes there, asks the person across two ends of the service, and answers the
// message that woke it once.
func TestOwnBridge(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	if got := m.run("mcp"); got.code == 0 || !strings.Contains(got.err, "only Reeve's guard starts this program") || got.out != "" {
		t.Errorf("reeve mcp for a person: %+v", got)
	}
	demo := v.begin(m.demoTerms(m.repo("demo"), `demo:mcp send_message {"text":"canary-demo"}`))
	a, _ := v.asked(demo.ID, "send_message")
	v.answer(a, wire.AnswerParams{Allow: true})
	v.phase(demo.ID, "completed")
	if said := v.said(demo.ID); len(said) != 1 || said[0].Text != "canary-demo" || said[0].From != "agent" || said[0].Kind != wire.RoomText {
		t.Errorf("the demo agent's room: %+v", said)
	}
	if e := v.effect(demo.ID, "send_message"); e.State != wire.EffectCompleted || e.Turn == "" || e.TurnNo != 1 {
		t.Errorf("its effect: %+v", e)
	}

	r := v.worker(m.repo("repo"), waitsForNews)
	id := r.mission.ID
	if got := r.tool("get_mission", `{}`); !strings.Contains(got, id) || !strings.Contains(got, `"remaining_seconds"`) {
		t.Errorf("get_mission: %s", got)
	}
	if got := r.tool("get_project", `{}`); !strings.Contains(got, "repo") {
		t.Errorf("get_project: %s", got)
	}
	r.tool("record_intent", `{"text":"canary-intent"}`)
	r.tool("send_message", `{"text":"canary-hello"}`)
	r.noTool("spawn_worker", `{"scope":"x"}`, "no subagents yet")
	r.noTool("join_room", `{"room_id":"r-nowhere"}`, "")
	r.noTool("complete_room_turn", `{"text":"x"}`, "No message of the room woke this turn")
	r.noTool("send_message", `{"text":"x","reply_to":"msg_99"}`, "no message of the room")

	// A question waits for its person, whoever serves it meanwhile.
	for _, c := range []struct {
		end    syscall.Signal
		answer wire.AnswerParams
		says   string
	}{
		{syscall.SIGKILL, wire.AnswerParams{Allow: true}, "allow"},
		{syscall.SIGTERM, wire.AnswerParams{Reason: "canary-reason"}, "canary-reason"},
	} {
		question := fmt.Sprintf("May I, after %v?", c.end)
		r.order(order{Tool: "request_approval", Input: fmt.Appendf(nil, `{"title":%q,"details":"canary-details"}`, question)})
		v.asked(id, question)
		next := v.serving() + 1
		m.signal(c.end)
		m.start()
		v.generation(next)
		a, subject := v.asked(id, question)
		if !contains(subject, "canary-details") {
			t.Errorf("the person is shown %+v", subject)
		}
		v.answer(a, c.answer)
		if got := r.heard(); got.Error != "" || !strings.Contains(got.Text, c.says) {
			t.Errorf("%s %+v", question, got)
		}
	}

	// News come while it waits for them, and what it acknowledges is read.
	r.order(order{Tool: "get_updates", Input: []byte(`{"wait_seconds":45}`)})
	news := do[wire.RoomSendResult](v, wire.MethodRoomSend, wire.RoomSendParams{Room: id, Text: "canary-news"}).Message
	if got := r.heard(); got.Error != "" || !strings.Contains(got.Text, "canary-news") {
		t.Errorf("get_updates: %+v", got)
	}
	if got := r.tool("get_updates", `{}`); !strings.Contains(got, "canary-news") {
		t.Errorf("what nobody acknowledged is gone: %s", got)
	}
	if got := r.tool("get_updates", fmt.Sprintf(`{"after_message_id":%q}`, news.ID)); strings.Contains(got, "canary-news") {
		t.Errorf("after the news: %s", got)
	}
	read := func() string {
		return do[wire.RoomMessagesResult](v, wire.MethodRoomMessages, wire.RoomMessagesParams{Room: id}).Room.Read
	}
	for late := time.After(waitLimit); read() != news.ID; { // the checkpoint follows the answer
		select {
		case <-late:
			t.Fatalf("the room is read up to %q, not %s", read(), news.ID)
		case <-time.After(tick):
		}
	}
	r.leave()
	v.phase(id, "waiting")

	// A message wakes the next turn, which answers it once, whatever the agent does.
	question := do[wire.RoomSendResult](v, wire.MethodRoomSend, wire.RoomSendParams{Room: id, Text: "canary-question"}).Message
	r.join(v)
	if got := r.tool("send_message", fmt.Sprintf(`{"text":"canary-early","reply_to":%q}`, question.ID)); !strings.Contains(got, "Nothing was sent") || !strings.Contains(got, question.ID) {
		t.Errorf("an answer by message: %s", got)
	}
	if got := r.tool("complete_room_turn", `{"text":"canary-answer"}`); !strings.Contains(got, question.ID) {
		t.Errorf("complete_room_turn: %s", got)
	}
	r.leave()
	v.wait("the second turn", func() bool { x := v.missions[id]; return x.Phase == "waiting" && len(x.Turns) == 2 })
	var kinds, texts []string
	for _, x := range v.said(id) {
		kinds, texts = append(kinds, x.Kind), append(texts, x.Text)
		if x.Kind == wire.RoomAnswer && x.Answers != question.ID {
			t.Errorf("the answer: %+v", x)
		}
	}
	if fmt.Sprint(kinds) != "[intent text text text answer]" || fmt.Sprint(texts) != "[canary-intent canary-hello canary-news canary-question canary-answer]" {
		t.Errorf("the room: %v %q", kinds, texts)
	}
	for _, e := range v.effects(id) {
		if e.State == wire.EffectExecuting || e.State == wire.EffectUncertain {
			t.Errorf("left: %+v", e)
		}
	}
}

// serving is the generation of the service that is shown.
func (v *view) serving() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.service.Generation
}
