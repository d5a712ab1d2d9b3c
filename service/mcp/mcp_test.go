package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reevehq/reeve/ipc/wire"
)

type args map[string]any

func methods(s *standIn) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, q := range s.asked {
		out = append(out, q.Method[strings.LastIndex(q.Method, ".")+1:])
	}
	return out
}

func TestToolsAreOffered(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	list, err := a.cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range list.Tools {
		names = append(names, x.Name)
		reads := strings.HasPrefix(x.Name, "get_")
		if x.Description == "" || x.Annotations == nil || x.Annotations.ReadOnlyHint != reads {
			t.Errorf("%s: %q, %+v", x.Name, x.Description, x.Annotations)
		}
	}
	slices.Sort(names)
	if want := "complete_room_turn get_mission get_project get_updates join_room record_intent request_approval send_message spawn_worker"; strings.Join(names, " ") != want {
		t.Errorf("tools: %v", names)
	}
	// What a schema forbids never reaches the service.
	a.fails("send_message", args{}, "text")
	a.fails("send_message", args{"text": ""}, "text")
	a.fails("send_message", args{"text": "x", "as": "person"}, "as")
	a.fails("get_updates", args{"after_message_id": "msg_07"}, "after_message_id")
	a.fails("get_updates", args{"after_message_id": "msg_2147483648"}, "msg_2147483648")
	a.fails("get_updates", args{"wait_seconds": -1}, "wait_seconds")
	if got := methods(s); len(got) > 0 {
		t.Errorf("the service was asked %v", got)
	}
}

// TestMutation follows one effect: announced, done, put on record, each with the
// worker's coordinates and the generation that was negotiated.
func TestMutation(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	a.must("send_message", args{"text": "hello"}, `{"done":true}`)
	if got := fmt.Sprint(methods(s)); got != "[negotiate prepare_bounded_effect execute_bounded_tool complete_bounded_effect]" {
		t.Fatalf("asked: %s", got)
	}
	for _, q := range s.asked[1:] {
		if q.p["entry_id"] != "m-1" || q.p["work_attempt_id"] != "a-1" || q.p["execution_generation_id"] != "x-1" || q.p["provider_turn_id"] != "t-1" || q.p["daemon_generation"] != 1.0 {
			t.Errorf("%s: %v", q.Method, q.p)
		}
	}
	prepare, execute, complete := s.asked[1].p, s.asked[2].p, s.asked[3].p
	if prepare["tool_name"] != "send_message" || prepare["mutation"] != true || fmt.Sprint(prepare["input"]) != "map[text:hello]" {
		t.Errorf("prepare: %v", prepare)
	}
	if id := prepare["mcp_request_id"]; id == "" || execute["mcp_request_id"] != id || fmt.Sprint(execute["input"]) != fmt.Sprint(prepare["input"]) {
		t.Errorf("execute: %v after %v", execute, prepare)
	}
	if complete["effect_id"] != "e-1" || fmt.Sprint(complete["result"]) != "map[done:true]" || complete["error"] != nil {
		t.Errorf("complete: %v", complete)
	}
	// A read is no effect of anybody.
	a.must("get_mission", args{}, "done")
	if got := fmt.Sprint(methods(s)[4:]); got != "[execute_bounded_tool]" {
		t.Errorf("a read: %s", got)
	}
}

// TestRequestIDs: no two calls, and no two processes, have one.
func TestRequestIDs(t *testing.T) {
	s := newStandIn(t)
	seen := map[any]bool{}
	for range 3 {
		a := connect(t, s, nil)
		for range 3 {
			a.must("record_intent", args{"text": "the same"}, "done")
		}
		a.end()
	}
	for _, q := range s.of(wire.MethodPrepareEffect) {
		seen[q.p["mcp_request_id"]] = true
	}
	if len(seen) != 9 {
		t.Errorf("%d ids for 9 calls", len(seen))
	}
}

func TestWhatPrepareSays(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	var p wire.PrepareResult
	var no error
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodPrepareEffect {
			return p, no
		}
		return happy(q)
	}
	p = wire.PrepareResult{State: wire.EffectPrepared, Action: wire.ActionFinalAnswer, Effect: "e-1", Room: "r-1", SourceMessage: "msg_4"}
	a.must("send_message", args{"text": "x", "reply_to": "msg_4"}, "the final answer of this turn is published as the answer to msg_4")
	a.must("complete_room_turn", args{"text": "x"}, "Your text is published as the answer to msg_4")
	p = wire.PrepareResult{State: wire.EffectPrepared, Action: wire.ActionRoomMove, Effect: "e-1", Room: "r-1", Destination: "r-2"}
	a.must("join_room", args{"room_id": "r-2"}, "room r-2 once")
	p = wire.PrepareResult{State: wire.EffectCompleted, Room: "r-1", Result: json.RawMessage(`"It was sent."`)}
	a.must("send_message", args{"text": "x"}, "It was sent.")
	p = wire.PrepareResult{State: wire.EffectUncertain, Effect: "e-7", Room: "r-1", Error: "its worker died"}
	a.fails("send_message", args{"text": "x"}, "(effect e-7): its worker died. Don't do it again")
	p = wire.PrepareResult{State: "new state", Room: "r-1"}
	a.fails("send_message", args{"text": "x"}, "does not know")
	p = wire.PrepareResult{State: wire.EffectPrepared, Action: wire.ActionExecute, Effect: "e-1", Room: "r\n1"}
	a.fails("send_message", args{"text": "x"}, "no valid room")
	no = wire.Errorf(wire.CodeConflict, "You are in that room already.")
	a.fails("join_room", args{"room_id": "r-1"}, "You are in that room already.")
	for _, m := range []string{wire.MethodExecuteTool, wire.MethodCompleteEffect} {
		if got := s.of(m); len(got) > 0 {
			t.Errorf("%s was asked: %v", m, got)
		}
	}
}

// TestRefusedTool: what the service won't do is on record as not done.
func TestRefusedTool(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodExecuteTool {
			return nil, wire.Errorf(wire.CodeConflict, "Subagents are not there yet.")
		}
		return happy(q)
	}
	a.fails("spawn_worker", args{"scope": "x"}, "Subagents are not there yet.")
	got := s.of(wire.MethodCompleteEffect)
	if len(got) != 1 || got[0].p["error"] != "Subagents are not there yet." || got[0].p["result"] != nil {
		t.Errorf("complete: %v", got)
	}
	// A turn that is over completes nothing more, and nothing is tried again.
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodExecuteTool {
			return nil, wire.Errorf(wire.CodeStaleGeneration, "Stale execution: this worker's run is over.")
		}
		return happy(q)
	}
	a.fails("send_message", args{"text": "x"}, "run is over")
	if n := len(s.of(wire.MethodCompleteEffect)); n != 1 || len(s.of(wire.MethodExecuteTool)) != 2 || len(a.c.sleeps()) > 0 {
		t.Errorf("%d completions; asked %v", n, methods(s))
	}
}

// TestRestart: the service dies in each step of an effect, and its successor is
// asked with the same request id and its own generation.
func TestRestart(t *testing.T) {
	for _, at := range []string{wire.MethodPrepareEffect, wire.MethodExecuteTool, wire.MethodCompleteEffect} {
		t.Run(at, func(t *testing.T) {
			s := newStandIn(t)
			a := connect(t, s, nil)
			s.answer = func(q asked) (any, error) {
				if q.Method == at && q.n == 1 {
					return nil, errLost
				}
				return happy(q)
			}
			// It is away for three tries.
			a.c.onSleep = func(n int) {
				switch n {
				case 1:
					s.stop()
				case 3:
					s.next()
				}
			}
			a.must("send_message", args{"text": "x"}, "done")
			got := s.of(at)
			if len(got) != 2 || got[0].p["daemon_generation"] != 1.0 || got[1].p["daemon_generation"] != 2.0 {
				t.Fatalf("%s: %v", at, got)
			}
			if got[0].p["mcp_request_id"] != got[1].p["mcp_request_id"] || got[0].p["effect_id"] != got[1].p["effect_id"] {
				t.Errorf("another request: %v and %v", got[0].p, got[1].p)
			}
			want := []time.Duration{25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}
			if !slices.Equal(a.c.sleeps(), want) {
				t.Errorf("it waited %v", a.c.sleeps())
			}
		})
	}
}

// TestRefusedAfterALostAnswer: the effect may have happened when its answer was
// lost, so a refusal of the next try does not make it a failure, and the same
// call again is the same request. So is a fault in the service.
func TestRefusedAfterALostAnswer(t *testing.T) {
	for _, c := range []struct {
		lost bool
		code wire.Code
	}{{true, wire.CodeLimitExceeded}, {true, wire.CodeUnavailable}, {true, wire.CodeConflict}, {true, wire.CodeInternal}, {false, wire.CodeInternal}} {
		t.Run(fmt.Sprintf("%s, lost before: %v", c.code, c.lost), func(t *testing.T) {
			for _, at := range []string{wire.MethodPrepareEffect, wire.MethodExecuteTool} {
				s := newStandIn(t)
				a := connect(t, s, nil)
				s.answer = func(q asked) (any, error) {
					n := q.n
					if !c.lost {
						n++
					}
					switch {
					case q.Method == at && n == 1:
						return nil, errLost
					case q.Method == at && n == 2:
						return nil, wire.Errorf(c.code, "No.")
					}
					return happy(q)
				}
				a.fails("send_message", args{"text": "x"}, "What became of the call is not known")
				if n := len(s.of(wire.MethodCompleteEffect)); n > 0 {
					t.Errorf("%s: it was put on record as failed", at)
				}
				a.must("send_message", args{"text": "x"}, "done")
				got := s.of(at)
				for _, q := range got {
					if q.p["mcp_request_id"] != got[0].p["mcp_request_id"] {
						t.Errorf("%s: another request: %v and %v", at, got[0].p, q.p)
					}
				}
			}
		})
	}
}

// TestAway: a service that doesn't come back is told of, after half a minute or,
// where a person is asked, five; what became of the call is not known, and the
// same call again is the same request.
func TestAway(t *testing.T) {
	for tool, patience := range map[string]time.Duration{"send_message": 30 * time.Second, "request_approval": 5 * time.Minute} {
		s := newStandIn(t)
		a := connect(t, s, nil)
		s.answer = func(q asked) (any, error) {
			if q.Method == wire.MethodExecuteTool && q.n == 1 {
				return nil, errLost
			}
			return happy(q)
		}
		a.c.onSleep = func(n int) {
			if n == 1 {
				s.stop()
			}
		}
		in := args{"text": "x"}
		if tool == "request_approval" {
			in = args{"title": "x", "details": "y"}
		}
		a.fails(tool, in, "exactly the same arguments")
		var total time.Duration
		for i, d := range a.c.sleeps() {
			if total += d; d != delay(i) {
				t.Errorf("%s: wait %d is %v", tool, i, d)
			}
		}
		if total < patience || total > patience+time.Second {
			t.Errorf("%s: it gave up after %v", tool, total)
		}
		s.next()
		a.must(tool, in, "done")
		a.must(tool, in, "done")
		got := s.of(wire.MethodPrepareEffect)
		if len(got) != 3 || got[0].p["mcp_request_id"] != got[1].p["mcp_request_id"] || got[1].p["mcp_request_id"] == got[2].p["mcp_request_id"] {
			t.Errorf("%s: %v", tool, got)
		}
	}
}

// TestCancelledCall: an agent that gives up on a question joins it when it asks
// again.
func TestCancelledCall(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodExecuteTool && q.n == 1 {
			return nil, errSilent
		}
		return happy(q)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := a.cs.CallTool(ctx, &sdk.CallToolParams{Name: "request_approval", Arguments: args{"title": "a", "details": "b"}})
		if err == nil {
			t.Error("a call that was cancelled was answered")
		}
	})
	s.wait(wire.MethodExecuteTool, 1)
	// Hours go by: there is no limit on how long a person thinks.
	a.c.pass(5 * time.Hour)
	a.must("get_project", args{}, "done")
	cancel()
	wg.Wait()
	// The server learns of it by a notification of its own.
	for {
		a.must("request_approval", args{"details": "b", "title": "a"}, "done")
		got := s.of(wire.MethodPrepareEffect)
		if got[0].p["mcp_request_id"] == got[len(got)-1].p["mcp_request_id"] {
			break
		}
		if len(got) > 1000 {
			t.Fatal("the question was never joined")
		}
	}
	if n := len(s.of(wire.MethodNegotiate)); n != 1 {
		t.Errorf("%d connections: one call's end ended the others'", n)
	}
}

// TestSilentService: a request gets five seconds, then another connection.
func TestSilentService(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodPrepareEffect && q.n == 1 {
			return nil, errSilent
		}
		return happy(q)
	}
	var wg sync.WaitGroup
	wg.Go(func() { a.must("send_message", args{"text": "x"}, "done") })
	s.wait(wire.MethodPrepareEffect, 1)
	a.c.pass(5*time.Second - 1)
	if n := len(s.of(wire.MethodPrepareEffect)); n != 1 {
		t.Errorf("asked %d times before the limit", n)
	}
	a.c.pass(1)
	wg.Wait()
	got := s.of(wire.MethodPrepareEffect)
	if len(got) != 2 || got[0].conn == got[1].conn || got[0].p["mcp_request_id"] != got[1].p["mcp_request_id"] {
		t.Errorf("%+v", got)
	}
}

// TestCompletionBudget: a completion negotiates anew on a loss and on a stale
// generation, in five seconds altogether, and on nothing else.
func TestCompletionBudget(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		again bool
	}{
		"a lost connection":            {errLost, true},
		"a stale generation":           {wire.Errorf(wire.CodeStaleGeneration, "Stale daemon generation: 1 is over."), true},
		"a stale execution":            {wire.Errorf(wire.CodeStaleGeneration, "Stale execution: this worker's run is over."), false},
		"a conflict":                   {wire.Errorf(wire.CodeConflict, "It ended the other way."), false},
		"an error that only holds it":  {wire.Errorf(wire.CodeConflict, "This is no Stale daemon generation."), false},
		"an internal error of its own": {wire.Errorf(wire.CodeInternal, "Something broke (ref 1)."), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStandIn(t)
			a := connect(t, s, nil)
			s.answer = func(q asked) (any, error) {
				if q.Method == wire.MethodCompleteEffect {
					return nil, c.err
				}
				return happy(q)
			}
			a.must("send_message", args{"text": "x"}, "done") // it did happen
			got, slept := s.of(wire.MethodCompleteEffect), a.c.sleeps()
			if !c.again {
				if len(got) != 1 || len(slept) > 0 {
					t.Errorf("asked %d times, waited %v", len(got), slept)
				}
				return
			}
			var total time.Duration
			for i, d := range slept {
				if total += d; d != min(25*time.Millisecond<<min(i, 10), 250*time.Millisecond) {
					t.Errorf("wait %d is %v", i, d)
				}
			}
			if len(got) != len(slept) || total < 5*time.Second || total > 5*time.Second+250*time.Millisecond {
				t.Errorf("asked %d times in %v", len(got), total)
			}
			if n := len(s.of(wire.MethodNegotiate)); n != len(got) {
				t.Errorf("negotiated %d times for %d tries", n, len(got))
			}
		})
	}
}

func TestNotSupervised(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, func(env map[string]string) { delete(env, "REEVE_EXECUTION_PROFILE") })
	a.fails("send_message", args{"text": "x"}, "not_supervised")
	a.must("get_mission", args{}, "done")
	a = connect(t, s, func(env map[string]string) { env["REEVE_SUPERVISED_BOUNDED_TURNS"] = "true" })
	a.fails("get_updates", args{}, "not_supervised")
	a.must("send_message", args{"text": "x"}, "done")
	if got := s.of(wire.MethodBorrow); len(got) > 0 {
		t.Errorf("it borrowed: %v", got)
	}
}

// TestAgentLeaves: what waits for nobody ends, and the server with it.
func TestAgentLeaves(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, nil)
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodExecuteTool {
			return nil, errSilent
		}
		return happy(q)
	}
	var wg sync.WaitGroup
	cs := a.cs
	wg.Go(func() {
		_, _ = cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "request_approval", Arguments: args{"title": "a", "details": "b"}})
	})
	s.wait(wire.MethodExecuteTool, 1)
	_ = a.nc.Close()
	if err := a.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	wg.Wait()
}
