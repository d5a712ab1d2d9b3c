package mcp

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestBinding: the credential is borrowed once and bound; what a service
// confirmed is only verified with it; its successor gets a new bind.
func TestBinding(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	wait := func(want ...string) {
		t.Helper()
		before := len(methods(s))
		a.must("get_updates", args{}, "done")
		if got := methods(s)[before:]; !slices.Equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
	}
	wait("negotiate", "borrow_worker_credential", "bind_worker_session", "execute_bounded_tool")
	borrow, bind := s.of(wire.MethodBorrow)[0].p, s.of(wire.MethodBindWorker)[0].p
	if borrow["room_id"] != "r-1" || borrow["agent_session_id"] != "s-1" || borrow["daemon_generation"] != 1.0 || borrow["api_url"] != "http://127.0.0.1:1" {
		t.Errorf("borrow: %v", borrow)
	}
	if bind["agent_session_token"] != "token" || bind["room_id"] != "r-1" || bind["agent_session_id"] != "s-1" || bind["api_url"] != "http://127.0.0.1:1" {
		t.Errorf("bind: %v", bind)
	}
	if bind["provider_turn_id"] != nil || bind["daemon_generation"] != nil {
		t.Errorf("bind carries a turn or a generation: %v", bind)
	}
	wait("verify_worker_session", "execute_bounded_tool")
	if v := s.of(wire.MethodVerifyWorker)[0].p; fmt.Sprint(v) != fmt.Sprint(bind) {
		t.Errorf("verify: %v, bind: %v", v, bind)
	}
	s.stop()
	s.next()
	wait("negotiate", "bind_worker_session", "execute_bounded_tool")
	wait("verify_worker_session", "execute_bounded_tool")
}

// TestUnnamedService: without generation, pid and start a service can't be told
// from its successor, so every wait binds.
func TestUnnamedService(t *testing.T) {
	for name, id := range map[string]wire.NegotiateResult{
		"no pid":        {ProtocolVersion: 2, Generation: 1, StartedAt: time.Unix(1, 0)},
		"no start":      {ProtocolVersion: 2, Generation: 1, PID: 10},
		"no generation": {ProtocolVersion: 2, PID: 10, StartedAt: time.Unix(1, 0)},
	} {
		s := newStandIn(t)
		s.id = id
		a := connect(t, s, nil)
		for range 3 {
			a.must("get_updates", args{}, "done")
		}
		if n, v := len(s.of(wire.MethodBindWorker)), len(s.of(wire.MethodVerifyWorker)); n != 3 || v != 0 {
			t.Errorf("%s: %d binds, %d verifications", name, n, v)
		}
	}
}

// TestSlowVerify: a verification gets 250 ms, then the session is bound anew.
func TestSlowVerify(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	a.must("get_updates", args{}, "done")
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodVerifyWorker {
			return nil, errSilent
		}
		return happy(q)
	}
	var wg sync.WaitGroup
	wg.Go(func() { a.must("get_updates", args{}, "done") })
	s.wait(wire.MethodVerifyWorker, 1)
	a.c.pass(250*time.Millisecond - 1)
	if n := len(s.of(wire.MethodBindWorker)); n != 1 {
		t.Errorf("bound %d times before the limit", n)
	}
	a.c.pass(1)
	wg.Wait()
	if n := len(s.of(wire.MethodBindWorker)); n != 2 {
		t.Errorf("bound %d times", n)
	}
}

// TestOldToken: a token that the service has dropped is borrowed anew.
func TestOldToken(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	token := "token-1"
	s.answer = func(q asked) (any, error) {
		switch {
		case q.Method == wire.MethodBorrow:
			return wire.BorrowResult{Status: wire.BorrowAvailable, Credential: token}, nil
		case q.p["agent_session_token"] != nil && q.p["agent_session_token"] != token:
			return nil, wire.Errorf(wire.CodeConflict, "Another token is bound.")
		}
		return happy(q)
	}
	a.must("get_updates", args{}, "done")
	token = "token-2"
	a.must("get_updates", args{}, "done")
	if n := len(s.of(wire.MethodBorrow)); n != 2 {
		t.Errorf("borrowed %d times", n)
	}
}

func TestNoCredential(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	status := wire.BorrowDeferred
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodBorrow {
			return wire.BorrowResult{Status: status}, nil
		}
		return happy(q)
	}
	a.fails("get_updates", args{"after_message_id": "msg_3"}, "Your inbox is kept")
	status = "anything"
	a.fails("get_updates", args{}, "lends this worker's session no more")
	for _, m := range []string{wire.MethodBindWorker, wire.MethodCheckpoint} {
		if got := s.of(m); len(got) > 0 {
			t.Errorf("%s was asked: %v", m, got)
		}
	}
	for _, q := range s.of(wire.MethodExecuteTool) {
		if q.p["tool_name"] == "get_updates" {
			t.Errorf("read without a session: %v", q.p)
		}
	}
	status = wire.BorrowAvailable // without a credential
	a.fails("get_updates", args{}, "lends this worker's session no more")
}

// TestMoved: a worker that was moved finds its room from any answer, and binds
// there.
func TestMoved(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	s.answer = func(q asked) (any, error) {
		switch {
		case q.Method == wire.MethodExecuteTool:
			return wire.ToolResult{Room: "r-2", Result: []byte(`{}`)}, nil
		case q.p["room_id"] != "r-2":
			return nil, wire.Errorf(wire.CodeStaleGeneration, "Stale room.")
		}
		return happy(q)
	}
	a.must("get_updates", args{}, "{}")
	if b := s.of(wire.MethodBindWorker); len(b) != 1 || b[0].p["room_id"] != "r-2" {
		t.Errorf("bound %v", b)
	}
}

// TestCheckpoints: only what the agent acknowledged is checkpointed, off the
// path of its answers, the newest alone.
func TestCheckpoints(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	release := make(chan struct{})
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodCheckpoint {
			<-release
		}
		return happy(q)
	}
	a.must("get_updates", args{}, "done")
	if got := s.of(wire.MethodCheckpoint); len(got) > 0 {
		t.Errorf("checkpointed what nobody acknowledged: %v", got)
	}
	for _, id := range []string{"msg_3", "msg_5", "msg_9", "msg_12", "msg_7"} {
		a.must("get_updates", args{"after_message_id": id}, "done") // though no checkpoint is answered
	}
	close(release)
	got := s.wait(wire.MethodCheckpoint, 2)
	if p := got[0].p; p["room_cursor"] != "msg_3" || p["agent_session_id"] != "s-1" || p["room_id"] != nil || p["provider_turn_id"] != nil || p["daemon_generation"] != nil {
		t.Errorf("the first: %v", p)
	}
	if got[1].p["room_cursor"] != "msg_12" {
		t.Errorf("the second: %v", got[1].p)
	}
	// What is on record is not sent again, and the server waits for its checkpoints.
	a.must("get_updates", args{"after_message_id": "msg_12"}, "done")
	a.must("get_updates", args{"after_message_id": "msg_2"}, "done")
	a.end()
	if n := len(s.of(wire.MethodCheckpoint)); n != 2 {
		t.Errorf("%d checkpoints", n)
	}
}

// TestCheckpointRetries: 250, 1,000 and 3,000 ms, then it is left until the
// agent acknowledges again; a newer cursor takes the place of an older.
func TestCheckpointRetries(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodCheckpoint {
			return nil, wire.Errorf(wire.CodeShuttingDown, "The service is ending.")
		}
		return happy(q)
	}
	over := make(chan struct{})
	a.c.onSleep = func(n int) {
		if n == 3 {
			close(over)
		}
	}
	a.must("get_updates", args{"after_message_id": "msg_1"}, "done")
	<-over
	s.wait(wire.MethodCheckpoint, 4)
	if want := []time.Duration{250 * time.Millisecond, time.Second, 3 * time.Second}; !slices.Equal(a.c.sleeps(), want) {
		t.Errorf("it waited %v", a.c.sleeps())
	}
	a.end()
	if n := len(s.of(wire.MethodCheckpoint)); n != 4 {
		t.Errorf("%d checkpoints", n)
	}

	s = newStandIn(t)
	a = connect(t, s, nil)
	asleep, awake := make(chan struct{}), make(chan struct{})
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodCheckpoint && q.p["room_cursor"] == "msg_1" {
			return nil, wire.Errorf(wire.CodeShuttingDown, "The service is ending.")
		}
		return happy(q)
	}
	a.c.onSleep = func(int) { close(asleep); <-awake }
	a.must("get_updates", args{"after_message_id": "msg_1"}, "done")
	<-asleep
	a.must("get_updates", args{"after_message_id": "msg_8"}, "done")
	close(awake)
	if got := s.wait(wire.MethodCheckpoint, 2); got[1].p["room_cursor"] != "msg_8" {
		t.Errorf("tried again: %v", got[1].p)
	}
}

// TestRefusedCheckpoint: it is not tried again, and the next wait binds anew and
// checkpoints then.
func TestRefusedCheckpoint(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	refuse := true
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodCheckpoint && refuse {
			return nil, wire.Errorf(wire.CodeStaleGeneration, "Stale binding.")
		}
		return happy(q)
	}
	a.must("get_updates", args{"after_message_id": "msg_4"}, "done")
	s.wait(wire.MethodCheckpoint, 1)
	// The refusal is heard of a moment later.
	for len(s.of(wire.MethodBindWorker)) == 1 {
		if len(s.of(wire.MethodVerifyWorker)) > 1000 {
			t.Fatal("no new bind")
		}
		a.must("get_updates", args{}, "done")
	}
	refuse = false
	a.must("get_updates", args{"after_message_id": "msg_4"}, "done")
	if got := s.wait(wire.MethodCheckpoint, 2); got[1].p["room_cursor"] != "msg_4" {
		t.Errorf("checkpointed %v", got[1].p)
	}
	if len(a.c.sleeps()) > 0 {
		t.Errorf("it tried again by itself: %v", a.c.sleeps())
	}
}
