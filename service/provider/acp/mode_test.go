package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

// cannedAgent answers each method with the lines that REEVE_CANNED holds for
// it, $ID standing for the id of the request and $BIG for eleven megabytes, and
// writes down what it was asked. Lines for a method and a number answer only that time, from 1. It goes on after the end of its input if it is told to linger.
func cannedAgent() {
	var say map[string][]string
	json.Unmarshal([]byte(os.Getenv("REEVE_CANNED")), &say)
	heard, err := os.OpenFile(os.Getenv("REEVE_HEARD"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(9)
	}
	var send func(string)
	if _, events := say["events"]; events {
		send = cannedEvents()
	}
	in := bufio.NewScanner(os.Stdin)
	times := map[string]int{}
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		json.Unmarshal(in.Bytes(), &m)
		if m.Method == "" {
			m.Method = "answer"
		}
		fmt.Fprintln(heard, in.Text())
		times[m.Method]++
		lines, only := say[fmt.Sprint(m.Method, " ", times[m.Method])]
		if !only {
			lines = say[m.Method]
		}
		for _, line := range lines {
			if data, ok := strings.CutPrefix(line, "EVENT "); ok {
				send(data)
				continue
			}
			if strings.Contains(line, "$BIG") {
				line = strings.Replace(line, "$BIG", strings.Repeat("x", 11<<20), 1)
			}
			fmt.Println(strings.ReplaceAll(line, "$ID", string(m.ID)))
		}
	}
	if _, linger := say["linger"]; linger {
		select {}
	}
}

type canned map[string][]string

const (
	initialized = `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"authMethods":[]}}`
	ended       = `{"jsonrpc":"2.0","id":1000,"result":{"stopReason":"end_turn"}}`
	done        = `{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"end_turn"}}`
	empty       = `{"jsonrpc":"2.0","id":$ID,"result":{}}`
	failed      = `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no"}}`
)

func modes(current string) string {
	return `"modes":{"currentModeId":"` + current + `","availableModes":[{"id":"auto","name":"A"},{"id":"default","name":"D"}]}`
}

func choices(current string) string {
	return `"configOptions":[{"id":"mode","name":"Mode","type":"select","currentValue":"` + current + `","options":[{"value":"build","name":"B"},{"value":"default","name":"D"}]}]`
}

func opens(with string) string {
	return `{"jsonrpc":"2.0","id":$ID,"result":{"sessionId":"s",` + with + `}}`
}

func update(u string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + u + `}}`
}

// cannedWorld is a world whose agent says what c has, and that is held to mode.
func cannedWorld(t *testing.T, mode string, c canned) (w *world, heard func() string) {
	t.Helper()
	w = newWorld(t)
	if c["initialize"] == nil {
		c["initialize"] = []string{initialized}
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.spec.PrivateDir, "heard")
	w.spec.Args, w.spec.Mode = []string{"canned-agent"}, mode
	w.spec.Env = append(w.spec.Env, "REEVE_CANNED="+string(b), "REEVE_HEARD="+file)
	return w, func() string {
		b, _ := os.ReadFile(file)
		return string(b)
	}
}

func TestModeIsSetBeforeThePrompt(t *testing.T) {
	for name, c := range map[string]struct {
		say    canned
		resume string
		set    string // what the agent has to hear
	}{
		"new":             {canned{"session/new": {opens(modes("auto"))}, "session/set_mode": {empty}}, "", `"modeId":"default"`},
		"loaded":          {canned{"session/load": {opens(modes("auto"))}, "session/set_mode": {empty}}, "s", `"modeId":"default"`},
		"already there":   {canned{"session/new": {opens(modes("default"))}}, "", ""},
		"by an option":    {canned{"session/new": {opens(choices("build"))}, "session/set_config_option": {opens(choices("default"))}}, "", `"value":"default"`},
		"option is there": {canned{"session/load": {opens(choices("default"))}}, "s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.say["session/prompt"] = []string{done}
			w, heard := cannedWorld(t, "default", c.say)
			w.spec.Resume = c.resume
			s := conform.Open(t, w.p, w.spec)
			want(t, s.Do("go", nil), mission.Succeeded, "", mission.NextWaiting)
			said := heard()
			if set := strings.Index(said, "session/set_"); c.set == "" && set >= 0 ||
				c.set != "" && (set < 0 || !strings.Contains(said, c.set) || set > strings.Index(said, "session/prompt")) {
				t.Errorf("the agent heard %s", said)
			}
		})
	}
}

// The agent gets the mission's MCP servers with each opening of a session, and
// whatever it calls its tools, none of them counts as Reeve's own: it may have
// servers besides.
func TestServersAreHandedOver(t *testing.T) {
	for _, resume := range []string{"", "s"} {
		w, heard := cannedWorld(t, "", canned{
			"session/new": {opens(`"models":null`)}, "session/load": {opens(`"models":null`)},
			"session/prompt": {
				`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"yes","name":"Y","kind":"allow_once"}],"toolCall":{"toolCallId":"c","title":"mcp__reeve__get_mission","kind":"other","_meta":{"claudeCode":{"toolName":"mcp__reeve__get_mission"}}}}}`},
			"answer": {`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`}, // the prompt is the third request
		})
		w.spec.Resume = resume
		w.spec.Servers = []provider.Server{{Name: "reeve", Command: "/opt/reeve", Args: []string{"mcp"}, Env: []string{"A=1=2"}}, {Name: "bare", Command: "/opt/bare"}}
		s := conform.Open(t, w.p, w.spec)
		turn := s.Do("go", s.Allow())
		if asked := conform.Of[provider.PermissionRequested](turn); len(asked) != 1 || asked[0].Tool.Own {
			t.Errorf("asked %+v", asked)
		}
		const servers = `"mcpServers":[{"args":["mcp"],"command":"/opt/reeve","env":[{"name":"A","value":"1=2"}],"name":"reeve"},{"args":[],"command":"/opt/bare","env":[],"name":"bare"}]`
		if said := heard(); strings.Count(said, servers) != 1 {
			t.Errorf("the agent heard %s", said)
		}
	}
}

// A mode that can't be had is no mission.
func TestModeThatCannotBeHad(t *testing.T) {
	for name, say := range map[string]canned{
		"no modes":          {"session/new": {opens(`"models":null`)}},
		"not offered":       {"session/new": {opens(`"modes":{"currentModeId":"yolo","availableModes":[{"id":"yolo","name":"Y"}]}`)}},
		"refused":           {"session/new": {opens(modes("auto"))}, "session/set_mode": {failed}},
		"option refused":    {"session/new": {opens(choices("build"))}, "session/set_config_option": {failed}},
		"option not taken":  {"session/new": {opens(choices("build"))}, "session/set_config_option": {opens(choices("build"))}},
		"option not there":  {"session/new": {opens(`"configOptions":[]`)}},
		"value not offered": {"session/new": {opens(strings.ReplaceAll(choices("build"), `"default"`, `"plan"`))}},
	} {
		t.Run(name, func(t *testing.T) {
			w, heard := cannedWorld(t, "default", say)
			_, err := conform.TryOpen(t, w.p, w.spec)
			var open *provider.OpenError
			if !errors.As(err, &open) || open.Code != mission.PermissionRequired || !strings.Contains(open.Why, `"default"`) {
				t.Errorf("open: %v", err)
			}
			if strings.Contains(heard(), "session/prompt") {
				t.Error("it was prompted")
			}
		})
	}
}

// An agent that leaves its mode, or that runs a tool unasked though it asks for
// each, is ended, and the turn says why.
func TestViolations(t *testing.T) {
	tool := `{"sessionUpdate":"tool_call","toolCallId":"c","title":"rm","kind":"execute","status":"in_progress"}`
	over := `{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}`
	for name, c := range map[string]struct {
		lines []string
		why   string
		all   bool
	}{
		"does nothing": {[]string{announced("i", "no_such_tool"), update(`{"sessionUpdate":"tool_call_update","toolCallId":"i","status":"in_progress","title":"invalid","kind":"other"}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"i","status":"completed","title":"Invalid Tool"}`), done}, "", true},
		"only says so": {[]string{announced("i", "invalid"), update(`{"sessionUpdate":"tool_call_update","toolCallId":"i","status":"in_progress","title":"invalid","kind":"execute"}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"i","status":"completed"}`)}, "without asking", true},
		"mode":           {[]string{update(`{"sessionUpdate":"current_mode_update","currentModeId":"auto"}`)}, `left its mode "default"`, false},
		"option":         {[]string{update(`{"sessionUpdate":"config_option_update",` + choices("build") + `}`)}, `left its mode "default"`, false},
		"unasked":        {[]string{update(tool), update(over)}, "without asking", true},
		"still the mode": {[]string{update(`{"sessionUpdate":"current_mode_update","currentModeId":"default"}`), done}, "", true},
		"may run some":   {[]string{update(tool), update(over), done}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := cannedWorld(t, "default", canned{"session/new": {opens(modes("default"))}, "session/prompt": c.lines})
			w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{all: c.all, idle: []string{"invalid"}}})
			s := conform.Open(t, w.p, w.spec)
			turn := s.Do("go", nil)
			notices := conform.Of[provider.Notice](turn)
			if c.why == "" {
				want(t, turn, mission.Succeeded, "", mission.NextWaiting)
				if len(notices) > 0 {
					t.Errorf("notices %v", notices)
				}
				return
			}
			want(t, turn, mission.Failed, mission.PermissionRequired, "")
			if !strings.Contains(turn.Finished.Outcome.Sentence(), c.why) || len(notices) != 1 || notices[0].Level != "error" {
				t.Errorf("%q, notices %v", turn.Finished.Outcome.Sentence(), notices)
			}
			if _, err := s.Process.Process.Wait(); err == nil {
				t.Error("nobody waited for the agent") // the adapter did
			}
		})
	}
}

// Lasting permissions are Reeve's own: an agent that offers nothing else is
// refused, whatever the person said.
func TestOnlyOnceIsEverAllowed(t *testing.T) {
	ask := `{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"ever","name":"Always","kind":"allow_always"},
		{"optionId":"never","name":"Never","kind":"reject_always"}],"toolCall":{"toolCallId":"c","title":"ls","kind":"execute"}}}`
	w, heard := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}, "session/prompt": {strings.ReplaceAll(ask, "\n", "")}, "answer": {strings.ReplaceAll(ended, "1000", "3")}})
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("go", func(e provider.Event) {
		if e, ok := e.(provider.PermissionRequested); ok {
			if err := s.Conn.Answer(context.Background(), e.Request, provider.Answer{Allow: true}); err == nil {
				t.Error("an answer that the agent does not offer was taken")
			}
		}
	})
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if !strings.Contains(heard(), `"outcome":"cancelled"`) || strings.Contains(heard(), "ever") {
		t.Errorf("the agent heard %s", heard())
	}
}

// Some agents go on after the end of their input: then Close gives up when its
// time is over, and the owner of the tree ends them.
func TestLingering(t *testing.T) {
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}, "linger": nil})
	s := conform.Open(t, w.p, w.spec)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Conn.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	kill(t, s)
}

// A model that can be chosen by an option is; where nothing is offered the
// mission is told.
func TestModelByOption(t *testing.T) {
	o := `"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"a","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]}]`
	w, heard := cannedWorld(t, "", canned{"session/new": {opens(o)}, "session/set_config_option": {opens(o)}})
	w.spec.Model = "b"
	conform.Open(t, w.p, w.spec)
	if !strings.Contains(heard(), `"value":"b"`) {
		t.Errorf("the agent heard %s", heard())
	}
	w, _ = cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}})
	w.spec.Model = "b"
	_, err := conform.TryOpen(t, w.p, w.spec)
	var open *provider.OpenError
	if !errors.As(err, &open) || !strings.Contains(open.Why, "without a model") {
		t.Errorf("open: %v", err)
	}
}
