package acp

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

// cannedEvents serves, as opencode does, the events that are sent to it. Who does
// not know the password gets nothing.
func cannedEvents() (send func(data string)) {
	f := flag.NewFlagSet("canned", flag.ExitOnError)
	port, host := f.String("port", "", ""), f.String("hostname", "", "")
	f.Parse(os.Args[2:])
	events, password := make(chan string), os.Getenv("OPENCODE_SERVER_PASSWORD")
	l, err := net.Listen("tcp", net.JoinHostPort(*host, *port))
	if err != nil || password == "" {
		os.Exit(9)
	}
	answered := make(chan string, 1)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, p, ok := r.BasicAuth(); !ok || name != "opencode" || p != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodPost {
			b, _ := io.ReadAll(r.Body)
			answered <- r.URL.Path + " " + string(b)
			return
		}
		for {
			w.(http.Flusher).Flush()
			select {
			case data := <-events:
				fmt.Fprintf(w, "data: %s\n\n", data)
			case <-r.Context().Done():
				return
			}
		}
	}))
	return func(data string) {
		if data == "WAIT" {
			fmt.Println(said(strings.ReplaceAll(<-answered, `"`, `'`)))
			return
		}
		events <- data
	}
}

func status(s string) string {
	return `EVENT {"type":"session.status","properties":{"sessionID":"s","status":` + s + `}}`
}

func modelCall(id, session string, finish string, input int) string {
	return fmt.Sprintf(`EVENT {"type":"message.updated","properties":{"info":{"id":%q,"sessionID":%q,"role":"assistant","finish":%q,"cost":0.5,
		"tokens":{"input":%d,"output":4,"reasoning":3,"cache":{"read":2,"write":1}}}}}`, id, session, finish, input)
}

const busy, resting = `{"type":"busy"}`, `{"type":"idle"}`

// What opencode says by its events counts: all model calls of a turn, and that it
// would only wait.
func TestOpenCodeEvents(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		prompt []string
		cancel []string
		code   mission.Code
		reset  bool
	}{
		"usage": {[]string{status(busy), line(modelCall("m1", "s", "", 9)), line(modelCall("m1", "s", "tool-calls", 10)), line(modelCall("m2", "other", "stop", 500)),
			line(modelCall("m2", "s", "stop", 20)), status(resting), status(resting), done}, nil, "", false},
		"it waits for long": {[]string{status(busy), status(fmt.Sprintf(`{"type":"retry","attempt":1,"message":"quota","next":%d}`, later.UnixMilli()))},
			[]string{status(resting), ends("3")}, mission.RateLimited, true},
		"it tries again and again": {[]string{status(busy), status(`{"type":"retry","attempt":1,"message":"Overloaded","next":1}`), status(`{"type":"retry","attempt":2,"message":"Overloaded","next":1}`)},
			[]string{status(resting), ends("3")}, mission.LocalExecutionFailure, false},
		"limited again and again": {[]string{status(busy), status(`{"type":"retry","attempt":2,"message":"Too Many Requests","next":1}`)},
			[]string{status(resting), ends("3")}, mission.RateLimited, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, heard := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}, "session/prompt": c.prompt, "session/cancel": c.cancel, "events": nil})
			w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{prepare: prepareOpenCode}})
			s := conform.Open(t, w.p, w.spec)
			turn := s.Do("go", nil)
			f := turn.Finished.Outcome
			if c.code != "" {
				if f.Outcome != mission.Failed || f.Code != c.code || f.ResetAt.IsZero() == c.reset || c.reset && !f.ResetAt.Equal(later.Truncate(time.Millisecond)) {
					t.Errorf("the turn ended %+v", f)
				}
				if !strings.Contains(heard(), "session/cancel") {
					t.Error("it was left to wait")
				}
				return
			}
			want(t, turn, mission.Succeeded, "", mission.NextWaiting)
			if u := f.Usage; *u.Input != 30 || *u.Output != 14 || *u.CacheRead != 4 || *u.CacheWrite != 2 || *u.ModelCalls != 2 || *u.CostUSD != 1 || u.Semantics != mission.Uncached {
				t.Errorf("usage %+v", u)
			}
		})
	}
}

// An endpoint is set for the provider of the model.
func TestOpenCodeEndpoint(t *testing.T) {
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}, "session/prompt": {done}, "events": nil})
	w.spec.Endpoint = "http://127.0.0.1:9/v1"
	x, err := prepareOpenCode(w.spec)
	if err == nil || len(x.env) > 0 {
		t.Errorf("without a provider: %v, %v", x.env, err)
	}
	w.spec.Model = "anthropic/m"
	if x, err = prepareOpenCode(w.spec); err != nil || !strings.Contains(strings.Join(x.env, "\n"), `"title":{"disable":true}},"provider":{"anthropic":{"options":{"baseURL":"http://127.0.0.1:9/v1"}}}}`) {
		t.Errorf("%v, %v", x.env, err)
	}
}

// A question comes by an event, too, and its answer goes back there.
func TestOpenCodeQuestion(t *testing.T) {
	asked := line(`EVENT {"type":"question.asked","properties":{"id":"q1","sessionID":"s","tool":{"messageID":"m","callID":"c"},
		"questions":[{"question":"Which?","options":[{"label":"red"},{"label":"blue"}]},{"question":"And how?","multiple":true,"options":[]}]}}`)
	for answer, want := range map[string]string{"blue\nfast": `/question/q1/reply {'answers':[['blue'],['fast']]}`, "blue": `/question/q1/reply {'answers':[['blue'],['blue']]}`, "": `/question/q1/reject {}`} {
		t.Run(answer, func(t *testing.T) {
			end := "completed"
			if answer == "" {
				end = "failed"
			}
			w, _ := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}, "events": nil,
				"session/prompt 1": {status(busy), asked, "EVENT WAIT", over("c", end), said("so be it"), status(resting), ends("3")}})
			w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{prepare: prepareOpenCode, all: true}})
			s := conform.Open(t, w.p, w.spec)
			turn := s.Do("go", s.Decide(func(e provider.PermissionRequested) provider.Answer {
				if q := e.Question; q == nil || q.Text != "Which?\nAnd how?" || len(q.Options) != 2 || !q.Multi || e.Tool.Call != "c" {
					t.Errorf("asked %+v", e)
				}
				return provider.Answer{Allow: answer != "", Text: answer}
			}))
			if f := turn.Finished.Outcome; f.Outcome != mission.Succeeded || !strings.Contains(turn.Text(), want) {
				t.Errorf("the turn ended %+v; %q", f, turn.Text())
			}
		})
	}
}

// The person sees what a call is given though its request does not say it, and
// why the model failed is known though the agent passes on only the text.
func TestOpenCodeTellsMore(t *testing.T) {
	ask := strings.Replace(line(asks("7", "c", "lab_note")), `"kind":"execute"`, `"kind":"other","rawInput":{}`, 1)
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}, "events": nil,
		"session/prompt 1": {status(busy), ask, line(`EVENT {"type":"message.part.updated","properties":{"part":{"sessionID":"s","type":"tool","callID":"c","state":{"status":"pending","input":{}}}}}`),
			line(`EVENT {"type":"message.part.updated","properties":{"part":{"sessionID":"s","type":"tool","callID":"c","state":{"status":"running","input":{"text":"x"}}}}}`)},
		"answer": {over("c", "completed"), line(`EVENT {"type":"session.error","properties":{"sessionID":"s","error":{"name":"APIError","data":{"message":"no such thing","statusCode":404}}}}`),
			status(resting), `{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no such thing"}}`}})
	w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{prepare: prepareOpenCode}})
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("go", s.Allow())
	want(t, turn, mission.Failed, mission.PermissionRequired, "")
	if asked := conform.Of[provider.PermissionRequested](turn); len(asked) != 1 || string(asked[0].Tool.Input) != `{"text":"x"}` {
		t.Errorf("asked %+v", asked)
	}
}

// A model call that is told again after its prompt was counted counts once.
func TestOpenCodeCallsCountOnce(t *testing.T) {
	first := line(modelCall("m1", "s", "tool-calls", 10))
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "events": nil,
		"session/prompt 1": {status(busy), first, line(asks("7", "c", "rm a"))},
		"answer":           {over("c", "failed"), status(resting), ends("3")},
		"session/prompt 2": {status(busy), first, line(modelCall("m2", "s", "stop", 20)), status(resting), ends("4")}})
	w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{prepare: prepareOpenCode}})
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("go", s.Decide(func(provider.PermissionRequested) provider.Answer { return provider.Answer{} }))
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if u := turn.Finished.Outcome.Usage; *u.Input != 30 || *u.ModelCalls != 2 || *u.CostUSD != 1 {
		t.Errorf("usage %+v", u)
	}
}

// A question of a call that the denial of another one ended is not put to the
// person; the agent, which waits for an answer, hears so.
func TestOpenCodeQuestionAfterADenial(t *testing.T) {
	asked := line(`EVENT {"type":"question.asked","properties":{"id":"q1","sessionID":"s","tool":{"callID":"q"},"questions":[{"question":"Which?","options":[]}]}}`)
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "events": nil,
		"session/prompt 1": {status(busy), announced("a", "touch a"), announced("q", "question"), line(asks("7", "a", "touch a"))},
		"answer":           {asked, "EVENT WAIT", over("a", "failed"), over("q", "failed"), status(resting), ends("3")}})
	w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{prepare: prepareOpenCode, joint: true}})
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("go", s.Decide(func(provider.PermissionRequested) provider.Answer { return provider.Answer{} }))
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if n := len(conform.Of[provider.PermissionRequested](turn)); n != 1 || !strings.Contains(turn.Text(), "/question/q1/reject") {
		t.Errorf("asked %d times; %q", n, turn.Text())
	}
}

// A command, and where it runs, are seen though only the events say them.
func TestOpenCodeCommandByAnEvent(t *testing.T) {
	for _, said := range []string{`{}`, `{"command":"ls"}`} {
		ask := strings.Replace(line(asks("7", "c", "bash")), `"kind":"execute"`, `"kind":"execute","rawInput":`+said, 1)
		w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "events": nil, "answer": {over("c", "completed"), status(resting), ends("3")},
			"session/prompt": {status(busy), announced("c", "bash"), ask,
				line(`EVENT {"type":"message.part.updated","properties":{"part":{"sessionID":"s","type":"tool","callID":"c","state":{"status":"running","input":{"command":"ls","cwd":".","workdir":"sub"}}}}}`)}})
		w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{prepare: prepareOpenCode, cwd: "workdir"}})
		s := conform.Open(t, w.p, w.spec)
		asked := conform.Of[provider.PermissionRequested](s.Do("go", s.Allow()))
		if len(asked) != 1 || asked[0].Tool.Command != "ls" || asked[0].Tool.Cwd != filepath.Join(w.folder, "sub") || !strings.Contains(string(asked[0].Tool.Input), `"workdir":"sub"`) {
			t.Errorf("%s: asked %+v", said, asked)
		}
	}
}
