package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// bridgeCalls are complete params for each method of the bridge, of mission m1.
func bridgeCalls() map[string]map[string]any {
	with := func(fields map[string]any) map[string]any {
		maps.Copy(fields, map[string]any{"entry_id": "m1", "work_attempt_id": "a1", "execution_generation_id": "x1"})
		return fields
	}
	bind := map[string]any{"room_id": "r1", "agent_session_id": "s1", "agent_session_token": "secret", "api_url": "https://example.org/api"}
	tool := map[string]any{"provider_turn_id": "t1", "daemon_generation": 7, "mcp_request_id": "1", "tool_name": "send_message", "input": map[string]any{}}
	prepare := maps.Clone(tool)
	prepare["mutation"] = true
	return map[string]map[string]any{
		wire.MethodBindWorker: with(maps.Clone(bind)), wire.MethodVerifyWorker: with(maps.Clone(bind)),
		wire.MethodCheckpoint:  with(map[string]any{"agent_session_id": "s1", "room_cursor": "msg_1"}),
		wire.MethodBorrow:      with(map[string]any{"room_id": "r1", "agent_session_id": "s1", "daemon_generation": 7, "api_url": "http://[::1]:80"}),
		wire.MethodExecuteTool: with(tool), wire.MethodPrepareEffect: with(prepare),
		wire.MethodCompleteEffect: with(map[string]any{"daemon_generation": 7, "effect_id": "e1", "result": map[string]any{}}),
	}
}

// The bridge hears workers of the mission that they speak for, and nobody else.
// What it refuses to other workers is recorded; what is right is not.
func TestBridgeHearsItsOwnWorkers(t *testing.T) {
	calls := bridgeCalls()
	if n := len(calls); n != 7 {
		t.Fatalf("%d methods of the bridge", n)
	}
	for name, m := range methods {
		if (m.class == worker) != (calls[name] != nil) {
			t.Errorf("%s: is it of the bridge?", name)
		}
	}
	for who, c := range map[string]struct {
		actor    Actor
		code     wire.Code
		recorded bool
	}{
		"own worker":      {Actor{Worker: true, Mission: "m1"}, "", false},
		"another mission": {Actor{Worker: true, Mission: "m2"}, wire.CodeForbiddenForWorkers, true},
		"unknown mission": {Actor{Worker: true}, wire.CodeForbiddenForWorkers, true},
		"person":          {Actor{}, wire.CodeConflict, false},
		"doubtful":        {Actor{Doubtful: true}, wire.CodeConflict, false},
	} {
		t.Run(who, func(t *testing.T) {
			f := newFake()
			f.actor = c.actor
			_, path := serve(t, f)
			p := dial(t, path)
			for name, params := range calls {
				if l := p.call(name, params); l.Code != c.code || l.OK != (c.code == "") {
					t.Errorf("%s: %+v", name, l.Response)
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if (len(f.refused) > 0) != c.recorded || c.code != "" && len(f.called) > 0 {
				t.Errorf("recorded %v, did %v", f.refused, f.called)
			}
		})
	}
}

// Every field that is missing or wrong is refused by its name.
func TestBridgeChecksFields(t *testing.T) {
	f := newFake()
	f.actor = Actor{Worker: true, Mission: "m1"}
	_, path := serve(t, f)
	p := dial(t, path)
	optional := []string{"provider_turn_id", "input", "mutation", "result"}
	bad := map[string][]any{
		"room_id":             {"", "a\nb", strings.Repeat("é", 1025), 3},
		"api_url":             {"http://example.org", "http://127.0.0.2", "http://localhost.evil", "https://u@example.org", "ftp://localhost", "https://", "x"},
		"agent_session_token": {"", strings.Repeat("x", 9000)},
		"tool_name":           {"", "a b", "ä", strings.Repeat("x", 151)},
		"mcp_request_id":      {"", strings.Repeat("x", 129), 1.5, true},
		"daemon_generation":   {0, "7", -1},
		"input":               {[]any{}, "text"},
		"work_attempt_id":     {"", strings.Repeat("x", 129), "a\x00b"},
		"provider_turn_id":    {strings.Repeat("x", 129)},
		"mutation":            {"yes"},
	}
	for name, params := range bridgeCalls() {
		for field := range params {
			values := bad[field]
			if !slices.Contains(optional, field) {
				values = append([]any{nil}, values...)
			}
			for _, v := range values {
				wrong := maps.Clone(params)
				if wrong[field] = v; v == nil {
					delete(wrong, field)
				}
				l := p.call(name, wrong)
				var d map[string]string
				_ = json.Unmarshal(l.Details, &d)
				if l.Code != wire.CodeInvalidParams || d["field"] != field {
					t.Errorf("%s with %s %v: %+v, %s", name, field, v, l.Response, l.Details)
				}
			}
		}
	}
	both := bridgeCalls()[wire.MethodCompleteEffect]
	both["error"] = "no"
	if l := p.call(wire.MethodCompleteEffect, both); l.Code != wire.CodeInvalidParams {
		t.Errorf("an effect that happened and did not: %+v", l.Response)
	}
	id := bridgeCalls()[wire.MethodExecuteTool]
	id["mcp_request_id"] = 12
	if l := p.call(wire.MethodExecuteTool, id); !l.OK || !slices.Contains(f.calls(), "execute send_message 12") {
		t.Errorf("a number as an id: %+v, %v", l.Response, f.calls())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.refused) > 0 {
		t.Errorf("recorded %v", f.refused)
	}
}

// Who leaves cancels what only waited for it; what changes something has begun
// and goes on.
func TestBridgeAfterItsClientLeft(t *testing.T) {
	f := newFake()
	f.actor = Actor{Worker: true, Mission: "m1"}
	hold := make(chan struct{})
	f.gates["1"], f.gates["e1"] = hold, hold
	srv, path := serve(t, f)
	p := dial(t, path)
	calls := bridgeCalls()
	for _, name := range []string{wire.MethodExecuteTool, wire.MethodCompleteEffect} {
		p.send(name, calls[name])
		<-f.started
	}
	_ = p.nc.Close()
	if got := <-f.started; got != "left send_message" {
		t.Fatal(got)
	}
	close(hold)
	srv.Close(wire.ClosingShutdown)
	if !slices.Contains(f.calls(), "complete e1") {
		t.Errorf("did %v", f.calls())
	}
}
