package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reevehq/reeve/ipc/wire"
)

func asksFor(seconds string) func(map[string]string) {
	return func(env map[string]string) { env["REEVE_QUESTIONS"] = seconds }
}

// An agent that can ask the person by itself gets no other tool for it.
func TestQuestionIsOfferedWhereItIsNeeded(t *testing.T) {
	s := newStandIn(t)
	for env, offered := range map[string]bool{"": false, "0": false, "-1": false, "soon": false, "60": true} {
		a := connect(t, s, asksFor(env))
		list, err := a.cs.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, x := range list.Tools {
			found = found || x.Name == wire.MCPAskQuestion
		}
		if found != offered {
			t.Errorf("%q: offered %v", env, found)
		}
		if offered {
			a.fails("ask_question", args{}, "question")
			a.fails("ask_question", args{"question": ""}, "question")
			a.fails("ask_question", args{"question": "x", "options": []string{""}}, "options")
		}
		a.end()
	}
	if got := methods(s); len(got) > 0 {
		t.Errorf("the service was asked %v", got)
	}
}

// A call that takes as long as it may says that there is no answer yet, and the
// same call goes on with the same request. The person is not asked twice.
func TestQuestionGoesOn(t *testing.T) {
	s := newStandIn(t)
	a := connect(t, s, asksFor("60"))
	answered := make(chan struct{})
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodExecuteTool {
			if q.n == 1 {
				return nil, errSilent
			}
			<-answered
		}
		return happy(q)
	}
	in := args{"question": "Which colour?", "options": []string{"red", "blue"}}
	said := make(chan string, 1)
	ask := func() {
		text, bad := a.call("ask_question", in)
		said <- fmt.Sprint(bad, " ", text)
	}
	go ask()
	s.wait(wire.MethodExecuteTool, 1)
	a.c.pass(time.Minute)
	if got := <-said; !strings.Contains(got, "false The person has not answered yet") {
		t.Errorf("after a minute: %s", got)
	}
	go ask()
	got := s.wait(wire.MethodExecuteTool, 2)
	close(answered)
	if got := <-said; got != `false {"done":true}` {
		t.Errorf("the answer: %s", got)
	}
	if got[0].p["mcp_request_id"] != got[1].p["mcp_request_id"] {
		t.Errorf("two requests: %v and %v", got[0].p, got[1].p)
	}
	// Once it is answered, the same question is another one.
	go ask()
	if got := s.wait(wire.MethodExecuteTool, 3); got[2].p["mcp_request_id"] == got[1].p["mcp_request_id"] {
		t.Error("an answered question was not asked again")
	}
	<-said
}

// A question is taken back when the agent breaks off its call: nobody would hear
// the answer. One of an agent that is gone ends with its turn.
func TestQuestionIsTakenBack(t *testing.T) {
	s := newStandIn(t)
	s.answer = func(q asked) (any, error) {
		if q.Method == wire.MethodExecuteTool {
			return nil, errSilent
		}
		return happy(q)
	}
	a := connect(t, s, asksFor("60"))
	ctx, cut := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	call := func(ctx context.Context) {
		_, err := a.cs.CallTool(ctx, &sdk.CallToolParams{Name: "ask_question", Arguments: args{"question": "Which?"}})
		ended <- err
	}
	go call(ctx)
	s.wait(wire.MethodExecuteTool, 1)
	cut()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	back := s.wait(wire.MethodCompleteEffect, 1)
	if why, _ := back[0].p["error"].(string); !strings.Contains(why, "broke off its call") || back[0].p["effect_id"] != "e-1" {
		t.Errorf("it was taken back with %v", back[0].p)
	}
	go call(t.Context())
	s.wait(wire.MethodExecuteTool, 2)
	_ = a.nc.Close()
	<-ended
	a.end()
	if n := len(s.of(wire.MethodCompleteEffect)); n != 1 {
		t.Errorf("after the agent was gone: %d were taken back", n)
	}
}
