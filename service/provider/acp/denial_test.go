package acp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

func announced(call, title string) string {
	return update(`{"sessionUpdate":"tool_call","toolCallId":"` + call + `","title":"` + title + `","kind":"execute","status":"pending"}`)
}

func over(call, status string) string {
	return update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + call + `","status":"` + status + `"}`)
}

func said(text string) string {
	return update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}`)
}

func asks(id, call, title string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"yes","name":"Y","kind":"allow_once"},
		{"optionId":"no","name":"N","kind":"reject_once"}],"toolCall":{"toolCallId":"` + call + `","title":"` + title + `","kind":"execute"}}}`
}

// ends is the end of the n-th prompt.
func ends(n string) string {
	return `{"jsonrpc":"2.0","id":` + n + `,"result":{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":2,"totalTokens":7}}}`
}

// What the protocol's answer can't say to an agent it hears as the next message
// of the same turn, whose usage is that of both.
func TestDenialIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		after  []string // what the agent does when it was denied
		hears  bool
		told   bool
	}{
		"it goes on":                     {"", []string{over("c", "failed"), said("well then"), ends("3")}, false, false},
		"it stops":                       {"", []string{over("c", "failed"), ends("3")}, false, true},
		"it goes on and there is more":   {"use \"b\"", []string{said("well then"), ends("3")}, false, true},
		"it stops, and knows the reason": {"use \"b\"", []string{over("c", "failed"), ends("3")}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			say := canned{"session/new": {opens(`"models":null`)}, "answer": c.after,
				"session/prompt 1": {line(asks("7", "c", "rm a"))}, "session/prompt 2": {said("I see\\n\\nWORK_NEXT: done"), ends("4")}}
			if c.hears {
				say["initialize"] = []string{strings.Replace(initialized, `"protocolVersion"`, `"_meta":{"reeve.message":true},"protocolVersion"`, 1)}
			}
			w, heard := cannedWorld(t, "", say)
			s := conform.Open(t, w.p, w.spec)
			turn := s.Do("go", s.Decide(func(provider.PermissionRequested) provider.Answer { return provider.Answer{Message: c.reason} }))
			next, input := mission.NextWaiting, int64(5)
			if c.told {
				next, input = mission.NextDone, 10
			}
			want(t, turn, mission.Succeeded, "", next)
			if u := turn.Finished.Outcome.Usage; *u.Input != input {
				t.Errorf("usage %+v", u)
			}
			if done := conform.Of[provider.ToolFinished](turn); len(done) != 1 || done[0].Status != "denied" {
				t.Errorf("finished %+v", done)
			}
			var text string
			if prompts := prompts(heard()); len(prompts) > 1 {
				text = prompts[1]
			}
			if told := strings.Contains(text, "1. rm a\n") && strings.Contains(text, c.reason); told != c.told {
				t.Errorf("it was told %q", text)
			}
		})
	}
}

// An agent that with one call refuses all that wait: for those nobody is asked in
// vain, and it learns that nobody denied them.
func TestDenialOfOneCall(t *testing.T) {
	w, heard := cannedWorld(t, "", canned{
		"session/new":      {opens(`"models":null`)},
		"session/prompt 1": {announced("a", "touch a"), announced("b", "touch b"), line(asks("7", "a", "touch a"))},
		"answer 1":         {over("a", "failed"), line(asks("8", "b", "touch b"))},
		"answer 2":         {over("b", "failed"), ends("3")},
		"session/prompt 2": {announced("b2", "touch b"), line(asks("9", "b2", "touch b"))},
		"answer 3":         {over("b2", "completed"), ends("4")},
	})
	w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{all: true, joint: true}})
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("go", s.Decide(func(e provider.PermissionRequested) provider.Answer {
		return provider.Answer{Allow: e.Tool.Command == "touch b"}
	}))
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if asked := conform.Of[provider.PermissionRequested](turn); len(asked) != 2 || asked[1].Tool.Call != "b2" {
		t.Errorf("asked %+v", asked)
	}
	var status []string
	for _, e := range conform.Of[provider.ToolFinished](turn) {
		status = append(status, e.Call+" "+e.Status)
	}
	if !slices.Equal(status, []string{"a denied", "b cancelled", "b2 ok"}) {
		t.Errorf("calls ended %v", status)
	}
	if all := prompts(heard()); len(all) != 2 || !strings.Contains(all[1], "Not denied, only refused along with it\n1. touch b\n") {
		t.Errorf("the agent heard %q", all)
	}
}

// A call that ends while it is asked for is no longer asked for, and one that
// somebody else answered is a violation.
func TestCallThatEndsUnanswered(t *testing.T) {
	for status, code := range map[string]mission.Code{"failed": "", "completed": mission.PermissionRequired} {
		t.Run(status, func(t *testing.T) {
			w, _ := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)},
				"session/prompt": {announced("a", "touch a"), line(asks("7", "a", "touch a")), over("a", status)}, "answer": {ends("3")}})
			w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{all: true}})
			s := conform.Open(t, w.p, w.spec)
			turn := s.Do("go", nil)
			outcome := mission.Succeeded
			if code != "" {
				outcome = mission.Failed
			}
			if f := turn.Finished.Outcome; f.Outcome != outcome || f.Code != code {
				t.Errorf("the turn ended %+v", f)
			}
			if len(conform.Of[provider.PermissionWithdrawn](turn)) != len(conform.Of[provider.PermissionRequested](turn)) {
				t.Errorf("events %+v", turn.Events)
			}
		})
	}
}

func line(s string) string { return strings.Join(strings.Fields(s), " ") }

// prompts are the texts by which an agent was prompted.
func prompts(heard string) (all []string) {
	for l := range strings.Lines(heard) {
		var m struct {
			Method string
			Params struct {
				Prompt []struct{ Text string }
			}
		}
		if json.Unmarshal([]byte(l), &m) == nil && m.Method == "session/prompt" {
			all = append(all, m.Params.Prompt[0].Text)
		}
	}
	return all
}
