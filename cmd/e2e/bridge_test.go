package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

type params = map[string]any

// waitsForNews is a mission that ends each turn with waiting.
const waitsForNews = "demo:wait"

func (v *view) effects(mission string) []wire.Effect {
	v.m.t.Helper()
	return do[wire.EffectListResult](v, wire.MethodEffectList, wire.EffectListParams{Mission: mission, All: true}).Effects
}

// effect is the one of a tool, which there has to be once.
func (v *view) effect(mission, tool string) wire.Effect {
	v.m.t.Helper()
	list := slices.DeleteFunc(v.effects(mission), func(e wire.Effect) bool { return e.Tool != tool })
	if len(list) != 1 {
		v.m.t.Fatalf("%d effects of %s: %+v", len(list), tool, list)
	}
	return list[0]
}

func (v *view) said(room string) []wire.RoomMessage {
	v.m.t.Helper()
	return do[wire.RoomMessagesResult](v, wire.MethodRoomMessages, wire.RoomMessagesParams{Room: room}).Messages
}

// restart kills the service and starts its successor.
func (v *view) restart() {
	v.m.t.Helper()
	next := v.serving() + 1
	v.m.signal(syscall.SIGKILL)
	v.m.start()
	v.generation(next)
}

// stale demands a refusal that a client doesn't take for a service that was
// replaced.
func (r *remote) stale(method string, p params) {
	r.t.Helper()
	got := r.call(method, p)
	if got.Code != wire.CodeStaleGeneration {
		r.t.Errorf("%s with %v: %q (%s)", method, p, got.Error, got.Code)
	}
	for _, word := range []string{"daemon", "supervisor", "handoff"} {
		if strings.Contains(strings.ToLower(got.Error), word) {
			r.t.Errorf("%s with %v: %q names a %s", method, p, got.Error, word)
		}
	}
}

// TestThirdPartyBridge has a bridge that others ship use each of its seven
// methods, the service's end in the middle of them included.
func TestThirdPartyBridge(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	other := v.begin(m.demoTerms(m.repo("other"), "demo:wait"))
	r := v.worker(m.repo("repo"), waitsForNews)
	id := r.mission.ID

	env := r.ok("", nil)
	now := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: id}).Mission
	base, room := env["base"].(params), env["room"].(params)
	if base["entry_id"] != id || base["work_attempt_id"] != now.Attempt || !strings.HasPrefix(fmt.Sprint(base["execution_generation_id"]), "x-") ||
		env["socket"] != m.socket() || env["profile"] != "supervised_room_turn" || env["bounded"] != "1" || env["provider"] != "demo" {
		t.Errorf("the environment: %v", env)
	}
	hello := r.ok("daemon.negotiate", nil)
	if hello["protocol_version"] != 2.0 || hello["generation"] != 1.0 || hello["pid"] != float64(m.cmd.Process.Pid) || hello["started_at"] == nil {
		t.Errorf("negotiated: %v", hello)
	}

	// A session of its own, at a service of its own.
	session := params{"agent_session_id": "their-session", "agent_session_token": "canary-their-token", "api_url": "https://rooms.example.org/api"}
	with := func(p params, more ...any) params {
		out := params{}
		for k, v := range p {
			out[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i].(string)] = more[i+1]
		}
		return out
	}
	lent := with(session, "agent_session_token", nil)
	if got := r.ok(wire.MethodBorrow, lent); got["status"] == "available" {
		t.Errorf("borrowed before anything was bound: %v", got)
	}
	for range 2 {
		if got := r.ok(wire.MethodBindWorker, session); !same(got, params{"bound": true, "entry_id": id, "agent_session_id": "their-session"}) {
			t.Errorf("bound: %v", got)
		}
	}
	r.ok(wire.MethodVerifyWorker, session)
	r.ok(wire.MethodVerifyWorker, with(session, "api_url", "https://ROOMS.example.org:443/")) // the same origin
	for name, change := range map[string]params{
		"token":   with(session, "agent_session_token", "another"),
		"session": with(session, "agent_session_id", "another"),
		"room":    with(session, "room_id", "r-another"),
		"origin":  with(session, "api_url", "https://rooms.example.com"),
	} {
		for _, method := range []string{wire.MethodVerifyWorker, wire.MethodBindWorker} {
			if got := r.call(method, change); got.Error == "" || got.Lost {
				t.Errorf("%s with another %s: %+v", method, name, got)
			}
		}
	}
	r.refused(wire.MethodBindWorker, with(session, "api_url", "http://rooms.example.org"), wire.CodeInvalidParams, "api_url")
	r.ok(wire.MethodVerifyWorker, session)

	// The cursor only goes forward, by number.
	for _, c := range [][2]string{{"msg_9", "msg_9"}, {"msg_12", "msg_12"}, {"msg_9", "msg_12"}, {"msg_12", "msg_12"}} {
		if got := r.ok(wire.MethodCheckpoint, params{"agent_session_id": "their-session", "room_cursor": c[0]}); got["room_cursor"] != c[1] {
			t.Errorf("after %s the cursor is %v, not %s", c[0], got["room_cursor"], c[1])
		}
	}
	for _, c := range []string{"msg_0", "msg_012", "msg_2147483648", "12", ""} {
		r.refused(wire.MethodCheckpoint, params{"agent_session_id": "their-session", "room_cursor": c}, wire.CodeInvalidParams, "room_cursor")
	}

	if got := r.ok(wire.MethodBorrow, lent); !same(got, params{"status": "available", "credential": "canary-their-token"}) {
		t.Errorf("borrowed: %v", got)
	}
	for _, change := range []params{with(lent, "agent_session_id", "another"), with(lent, "room_id", "r-another"), with(lent, "api_url", "https://rooms.example.com")} {
		if got := r.ok(wire.MethodBorrow, change); got["status"] != "stale" || got["credential"] != nil {
			t.Errorf("borrowed with %v: %v", change, got)
		}
	}

	// What the service runs itself, and the room that it names.
	read := params{"mcp_request_id": 7, "tool_name": "get_mission", "input": params{}}
	first := r.ok(wire.MethodExecuteTool, read)
	if first["room_id"] != room["room_id"] || first["result"].(params)["id"] != id {
		t.Errorf("get_mission gave %v", first)
	}
	if again := r.ok(wire.MethodExecuteTool, read); !same(again, first) {
		t.Errorf("the same request gave %v", again)
	}
	r.refused(wire.MethodExecuteTool, with(read, "mcp_request_id", "x", "tool_name", "rm"), wire.CodeNotFound, "rm")

	// What it runs itself: announced, and put on record.
	deploy := params{"mcp_request_id": "d-1", "tool_name": "deploy", "input": params{"to": "staging", "n": 1}, "mutation": true}
	p := r.ok(wire.MethodPrepareEffect, deploy)
	if p["state"] != "prepared" || p["action"] != "execute" || p["room_id"] != room["room_id"] {
		t.Fatalf("prepared: %v", p)
	}
	if again := r.ok(wire.MethodPrepareEffect, with(deploy, "input", json.RawMessage(`{ "n": 1.0, "to":"staging" }`))); !same(again, p) {
		t.Errorf("prepared again: %v", again)
	}
	r.refused(wire.MethodPrepareEffect, with(deploy, "input", params{"to": "production", "n": 1}), wire.CodeConflict, "another")
	r.refused(wire.MethodPrepareEffect, with(deploy, "tool_name", "undeploy"), wire.CodeConflict, "another")
	done := params{"effect_id": p["effect_id"], "result": params{"url": "https://staging"}}
	for range 2 {
		if got := r.ok(wire.MethodCompleteEffect, done); got["state"] != "completed" || got["room_id"] != room["room_id"] {
			t.Errorf("completed: %v", got)
		}
	}
	r.refused(wire.MethodCompleteEffect, params{"effect_id": p["effect_id"], "error": "it failed"}, wire.CodeConflict, "other way")
	if got := r.ok(wire.MethodPrepareEffect, deploy); got["state"] != "completed" || !same(got["result"], done["result"]) || got["room_id"] != room["room_id"] {
		t.Errorf("prepared once more: %v", got)
	}
	broken := with(deploy, "mcp_request_id", "d-2")
	p = r.ok(wire.MethodPrepareEffect, broken)
	r.ok(wire.MethodCompleteEffect, params{"effect_id": p["effect_id"], "error": "no such host"})
	r.refused(wire.MethodCompleteEffect, with(done, "effect_id", p["effect_id"]), wire.CodeConflict, "other way")
	r.refused(wire.MethodPrepareEffect, broken, wire.CodeConflict, "no such host")
	// A read may be done again by whoever comes, a mutation only by who began it.
	look := with(deploy, "mcp_request_id", "d-3", "tool_name", "look", "mutation", false)
	if a, b := r.ok(wire.MethodPrepareEffect, look), r.do(order{Method: wire.MethodPrepareEffect, Params: look, Process: "another"}); b.Error != "" || !same(a, json.RawMessage(b.Result)) {
		t.Errorf("a read prepared by two: %v, %+v", a, b)
	}

	// Nobody else speaks for this worker, and it for nobody else.
	b := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: other.ID}).Mission
	for method, p := range map[string]params{wire.MethodBindWorker: session, wire.MethodExecuteTool: read, wire.MethodPrepareEffect: with(deploy, "mcp_request_id", "d-9"), wire.MethodBorrow: lent} {
		r.refused(method, with(p, "entry_id", other.ID, "work_attempt_id", b.Attempt), wire.CodeForbiddenForWorkers, "own mission")
		r.stale(method, with(p, "work_attempt_id", "a-old"))
		r.stale(method, with(p, "execution_generation_id", "x-old"))
		line, _ := json.Marshal(params{"version": 2, "id": "1", "method": method, "params": with(base, "room_id", "r")})
		if resp := m.raw().ask(string(line)); resp.OK || resp.Code != wire.CodeConflict || !strings.Contains(resp.Error, "not_supervised") {
			t.Errorf("a person's %s: %+v", method, resp)
		}
	}
	r.stale(wire.MethodPrepareEffect, with(deploy, "provider_turn_id", "t-old"))
	r.refused(wire.MethodPrepareEffect, with(deploy, "daemon_generation", 77), wire.CodeStaleGeneration, "Stale daemon generation")
	v.wait("the refusals", func() bool { return len(v.refusals) >= 4 })
	if list := v.effects(other.ID); len(list) > 0 {
		t.Errorf("the other mission has effects: %+v", list)
	}

	// The service dies with an effect under way and comes back.
	moved := with(deploy, "mcp_request_id", "d-4")
	p = r.ok(wire.MethodPrepareEffect, moved)
	m.signal(syscall.SIGKILL)
	r.order(order{Method: wire.MethodCompleteEffect, Params: with(done, "effect_id", p["effect_id"])})
	m.start()
	got := r.heard()
	for late := time.Now().Add(waitLimit); got.Lost && time.Now().Before(late); { // a service under test may need more than that client's budget
		got = r.call(wire.MethodCompleteEffect, with(done, "effect_id", p["effect_id"]))
	}
	if got.Error != "" || !strings.Contains(string(got.Result), `"completed"`) {
		t.Errorf("completed with the successor: %+v", got)
	}
	v.generation(2)
	if e := v.effects(id); e[0].ID != p["effect_id"] || e[0].State != wire.EffectCompleted || !same(e[0].Result, done["result"]) {
		t.Errorf("on record: %+v", e[0])
	}
	r.ok(wire.MethodVerifyWorker, session) // its token is recognised, though nobody has it any more
	if got := r.ok(wire.MethodBorrow, lent); !same(got, params{"status": "deferred"}) {
		t.Errorf("borrowed after the restart: %v", got)
	}
	r.refused(wire.MethodBindWorker, with(session, "agent_session_token", "another"), wire.CodeConflict, "bound")
	r.ok(wire.MethodBindWorker, session)
	if got := r.ok(wire.MethodBorrow, lent); got["credential"] != "canary-their-token" {
		t.Errorf("borrowed after it was bound again: %v", got)
	}
	r.refused(wire.MethodBorrow, with(lent, "daemon_generation", 1), wire.CodeStaleGeneration, "Stale daemon generation")
	if got := r.ok(wire.MethodCheckpoint, params{"agent_session_id": "their-session", "room_cursor": "msg_1"}); got["room_cursor"] != "msg_12" {
		t.Errorf("the cursor went back to %v", got["room_cursor"])
	}
	if again := r.ok(wire.MethodExecuteTool, read); !same(again, first) {
		t.Errorf("the same request gave %v after the restart", again)
	}
	m.noSecrets(t, "canary-their-token")
	r.leave()
}

// TestUncertainEffect is an effect whose worker goes away in the middle: nobody
// does it again, a person says what became of it, and the worker hears of that.
func TestUncertainEffect(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	r := v.worker(m.repo("repo"), waitsForNews)
	id := r.mission.ID
	prepare := func(tool string) params {
		return params{"mcp_request_id": tool, "tool_name": tool, "input": params{"canary": tool}, "mutation": true}
	}
	for _, tool := range []string{"deploy", "publish", "notify"} {
		if p := r.ok(wire.MethodPrepareEffect, prepare(tool)); p["action"] != "execute" {
			t.Fatalf("prepared: %v", p)
		}
	}
	// Another process asks for the same: who began it is not the one who knows.
	other := r.do(order{Method: wire.MethodPrepareEffect, Params: prepare("notify"), Process: "another"})
	var p wire.PrepareResult
	if err := json.Unmarshal(other.Result, &p); err != nil || p.State != wire.EffectUncertain || p.Error == "" || p.Room == "" || p.Effect != v.effect(id, "notify").ID {
		t.Errorf("another process: %+v", other)
	}
	v.restart() // which alone makes nothing uncertain
	if e := v.effect(id, "deploy"); e.State != wire.EffectExecuting {
		t.Errorf("after the restart: %+v", e)
	}
	r.leave()
	v.phase(id, "waiting")
	for _, tool := range []string{"deploy", "publish", "notify"} {
		if e := v.effect(id, tool); e.State != wire.EffectUncertain || e.Known == "" {
			t.Errorf("after the turn: %+v", e)
		}
	}
	deploy := v.effect(id, "deploy")
	settle := wire.EffectSettleParams{ID: deploy.ID, Revision: deploy.Revision, Outcome: wire.EffectHappened}
	early := settle
	early.Revision--
	if _, err := try[wire.EffectResult](v, wire.MethodEffectSettle, early); err == nil {
		t.Error("an effect was settled by who did not see it as it is")
	}
	if e := do[wire.EffectResult](v, wire.MethodEffectSettle, settle).Effect; e.State != wire.EffectSettled || e.Settled != wire.EffectHappened || e.By == "" {
		t.Errorf("settled: %+v", e)
	}
	if _, err := try[wire.EffectResult](v, wire.MethodEffectSettle, settle); wire.CodeOf(err) != wire.CodeAlreadyAnswered {
		t.Errorf("settled twice: %v", err)
	}
	notify := v.effect(id, "notify")
	do[wire.EffectResult](v, wire.MethodEffectSettle, wire.EffectSettleParams{ID: notify.ID, Revision: notify.Revision, Outcome: wire.EffectDidNot})

	do[wire.MissionResult](v, wire.MethodMissionSteer, wire.SteerParams{ID: id, Text: "Go on."})
	prompt := entry(v, r.mission, wire.KindTurnStarted, func(x wire.TurnStarted) bool { return x.Number == 2 }).Prompt
	for _, want := range []string{
		`deploy {"canary":"deploy"}: It happened`, `notify {"canary":"notify"}: It did not happen`, `publish {"canary":"publish"}: It was begun, and it may have happened or not`,
	} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the worker is not told %q:\n%s", want, prompt)
		}
	}
	// The second turn can't do again what the first one began, nor complete it.
	r.join(v)
	if got := r.call(wire.MethodCompleteEffect, params{"effect_id": v.effect(id, "publish").ID, "result": params{}}); got.Error == "" {
		t.Errorf("an effect that is uncertain was completed: %s", got.Result)
	}
	if e := v.effect(id, "publish"); e.State != wire.EffectUncertain {
		t.Errorf("publish: %+v", e)
	}
	r.leave()
	v.phase(id, "waiting", "completed") // it waits for news once only
}

// struck arms a fault point of the service and kills the service there; what it
// returns waits until that was done and the successor serves.
func (v *view) struck(pipes, point string) func() {
	v.m.t.Helper()
	pipe := filepath.Join(pipes, point)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		v.m.t.Fatal(err)
	}
	reached := make(chan *os.File, 1)
	go func() {
		f, _ := os.OpenFile(pipe, os.O_WRONLY, 0) // when the service stands there
		reached <- f
	}()
	return func() {
		v.m.t.Helper()
		select {
		case f := <-reached:
			v.restart()
			_ = f.Close()
		case <-time.After(waitLimit):
			v.m.t.Fatalf("%s was not reached", point)
		}
	}
}

// TestBridgeKills kills the service at each step of an effect, before and after
// its journal write: whatever the worker asked happens at most once, is not lost
// and not invented.
func TestBridgeKills(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	pipes := filepath.Join(m.dir, "faults")
	if err := os.Mkdir(pipes, 0o700); err != nil {
		t.Fatal(err)
	}
	m.env = append(m.env, "REEVE_TEST_FAULT="+pipes)
	m.start()
	v := m.watch()
	r := v.worker(m.repo("repo"), waitsForNews)
	id := r.mission.ID
	tool := func(point string, o order) report {
		t.Helper()
		wait := v.struck(pipes, point)
		r.order(o)
		wait()
		return r.heard()
	}

	// Through Reeve's own bridge, whose calls outlast the service.
	if got := tool("bridge.bound-deciding", order{Tool: "get_updates"}); got.Error != "" {
		t.Errorf("get_updates: %s", got.Error)
	}
	var texts []string
	for _, point := range []string{
		"bridge.prepare-deciding", "bridge.prepare-journaled", "bridge.executed-deciding", "bridge.executed-journaled", "bridge.complete-deciding", "bridge.complete-journaled",
	} {
		texts = append(texts, point)
		if got := tool(point, order{Tool: "send_message", Input: fmt.Appendf(nil, `{"text":%q}`, point)}); got.Error != "" {
			t.Errorf("%s: %s", point, got.Error)
		}
	}
	// A second process has to borrow anew, as the last service left no token.
	if got := tool("bridge.bound-journaled", order{Tool: "get_updates", Process: "second"}); got.Error != "" {
		t.Errorf("get_updates of another process: %s", got.Error)
	}
	if got := r.do(order{Tool: "get_updates"}); got.Error != "" { // with the token that counts no more
		t.Errorf("get_updates of the first process: %s", got.Error)
	}
	var said []string
	for _, x := range v.said(id) {
		said = append(said, x.Text)
	}
	if !slices.Equal(said, texts) {
		t.Errorf("the room holds %q", said)
	}

	// Through one that others ship: a prepare is repeated by hand, a completion by itself.
	for _, point := range []string{"bridge.prepare-deciding", "bridge.prepare-journaled", "bridge.complete-deciding", "bridge.complete-journaled"} {
		for _, name := range []string{point, point + ".fired"} {
			if err := os.Remove(filepath.Join(pipes, name)); err != nil {
				t.Fatal(err)
			}
		}
		r.ok("daemon.negotiate", nil)
		prepare := order{Method: wire.MethodPrepareEffect, Params: params{"mcp_request_id": point, "tool_name": "deploy", "input": params{}, "mutation": true}}
		if strings.Contains(point, "prepare") {
			if got := tool(point, prepare); !got.Lost {
				t.Errorf("%s: %+v", point, got)
			}
			r.ok("daemon.negotiate", nil)
		}
		p := r.ok(prepare.Method, prepare.Params)
		if p["state"] != "prepared" || p["action"] != "execute" {
			t.Fatalf("%s: %v", point, p)
		}
		complete := order{Method: wire.MethodCompleteEffect, Params: params{"effect_id": p["effect_id"], "result": point}}
		var got report
		if strings.Contains(point, "complete") {
			got = tool(point, complete)
		} else {
			got = r.do(complete)
		}
		for late := time.Now().Add(waitLimit); got.Lost && time.Now().Before(late); { // see TestThirdPartyBridge
			got = r.do(complete)
		}
		if got.Error != "" {
			t.Errorf("%s: %+v", point, got)
		}
	}
	count := map[string]int{}
	for _, e := range v.effects(id) {
		if count[e.Tool]++; e.State != wire.EffectCompleted {
			t.Errorf("left: %+v", e)
		}
	}
	if count["send_message"] != len(texts) || count["deploy"] != 4 {
		t.Errorf("effects: %v", count)
	}
	r.leave()
	v.phase(id, "waiting")
}
