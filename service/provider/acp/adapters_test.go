package acp

import (
	"context"
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

// adapter is a world whose agent is run by a ready entry, and says what c has.
func adapter(t *testing.T, name string, c canned) (w *world, heard func() string) {
	t.Helper()
	w, heard = cannedWorld(t, "", c)
	w.p = ready(t, name)
	return w, heard
}

const noModes = `"models":null`

// An agent whose modes all ask for less than everything is not run in one of
// them, be the session new or loaded, and ended when it goes into one.
func TestPresets(t *testing.T) {
	for name, c := range map[string]struct {
		method, resume, with string
	}{
		"new": {"session/new", "", modes("auto")}, "loaded": {"session/load", "s", modes("auto")}, "option": {"session/new", "", choices("build")},
	} {
		t.Run(name, func(t *testing.T) {
			w, heard := adapter(t, "codex-acp", canned{c.method: {opens(c.with)}})
			w.spec.Resume = c.resume
			_, err := conform.TryOpen(t, w.p, w.spec)
			if open := (*provider.OpenError)(nil); !errors.As(err, &open) || open.Code != mission.PermissionRequired || strings.Contains(heard(), "session/prompt") {
				t.Errorf("open: %v; the agent heard %s", err, heard())
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		w, _ := adapter(t, "codex-acp", canned{"session/new": {opens(noModes)}, "session/prompt": {update(`{"sessionUpdate":"current_mode_update","currentModeId":"auto"}`)}})
		want(t, conform.Open(t, w.p, w.spec).Do("go", nil), mission.Failed, mission.PermissionRequired, "")
	})
}

// Codex behind its adapter asks for everything by what its private home says.
func TestCodexAsks(t *testing.T) {
	w, heard := adapter(t, "codex-acp", canned{"session/new": {opens(noModes)}})
	w.spec.Servers = []provider.Server{{Name: "lab", Command: w.spec.Path}}
	w.spec.Endpoint = "http://127.0.0.1:9/v1"
	s := conform.Open(t, w.p, w.spec)
	home := filepath.Join(w.spec.PrivateDir, "codex")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(home, name))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	for _, line := range []string{`approval_policy = "untrusted"`, "unified_exec = false", `default_tools_approval_mode = "prompt"`, `base_url = "http://127.0.0.1:9/v1"`, "default_mode_request_user_input = false"} {
		if !strings.Contains(read("config.toml"), line+"\n") {
			t.Errorf("there is no %s in\n%s", line, read("config.toml"))
		}
	}
	if rules := read("rules/default.rules"); !strings.Contains(rules, `"ls"`) || !strings.HasSuffix(rules, "decision=\"prompt\")\n") {
		t.Errorf("rules %s", rules)
	}
	if !strings.Contains(heard(), `"mcpServers":[]`) {
		t.Errorf("the agent heard %s", heard())
	}
	env := strings.Join(s.Process.Env, "\n")
	if !strings.Contains(env, "CODEX_HOME="+home+"\n") || strings.Contains(env, "TMPDIR="+w.spec.PrivateDir+"\n") {
		t.Errorf("environment %s", env)
	}
}

// What a server gets may look like a variable of the agent's environment; Claude
// Code would put the variable's value there.
func TestServersOfClaudeAreLiteral(t *testing.T) {
	w, heard := adapter(t, "claude-agent-acp", canned{"session/new": {opens(modes("default"))}})
	w.spec.Servers = []provider.Server{{Name: "lab", Command: w.spec.Path, Args: []string{"${ANTHROPIC_API_KEY}"}, Env: []string{"TITLE=${ANTHROPIC_API_KEY}"}}}
	conform.Open(t, w.p, w.spec)
	if got := heard(); strings.Contains(got, "${ANTHROPIC_API_KEY}") || strings.Count(got, `${REEVE_NOT_SET:-$}{ANTHROPIC_API_KEY}`) != 2 {
		t.Errorf("the agent heard %s", got)
	}
}

// Claude behind its adapter asks for everything by a hook, works with no settings
// but ours, and with the mission's model, endpoint and instructions.
func TestClaudeAsks(t *testing.T) {
	o := `"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"m","options":[{"value":"m","name":"M"}]}],` + modes("default")
	for _, method := range []string{"session/new", "session/load"} {
		w, heard := adapter(t, "claude-agent-acp", canned{method: {opens(o)}, "session/set_config_option": {opens(o)}})
		if w.spec.Model = "m"; method == "session/load" {
			w.spec.Resume = "s"
		}
		w.spec.Env, w.spec.Endpoint = append(w.spec.Env, "ANTHROPIC_MODEL=another"), "http://127.0.0.1:9"
		w.spec.Instructions = filepath.Join(w.spec.PrivateDir, "instructions.md")
		if err := os.WriteFile(w.spec.Instructions, []byte("canary-instruction"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := conform.Open(t, w.p, w.spec)
		for _, part := range []string{`"hooks":{"PreToolUse":[{`, `\"permissionDecision\":\"ask\"`, `"settingSources":[]`, `"strictMcpConfig":true`, `"permissionMode":"default"`, `"allowDangerouslySkipPermissions":false`, `"systemPrompt":{"append":"canary-instruction"}`,
			`"ANTHROPIC_BASE_URL":"http://127.0.0.1:9"`, `"CLAUDE_CODE_USE_BEDROCK":""`} {
			if !strings.Contains(heard(), part) {
				t.Errorf("%s: there is no %s in %s", method, part, heard())
			}
		}
		if env := strings.Join(s.Process.Env, "\n"); !strings.Contains(env+"\n", "\nANTHROPIC_MODEL=m\n") || strings.Contains(env, "another") {
			t.Errorf("environment %s", env)
		}
	}
}

// A command is a command, whatever the agent takes it for: reads may pass unasked.
func TestACommandIsNoRead(t *testing.T) {
	ask := `{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}],` +
		`"toolCall":{"toolCallId":"c","title":"Read x","kind":"read","locations":[{"path":"x"}],"rawInput":{"command":%s}}}}`
	for raw, shown := range map[string]string{
		`["/bin/bash","-c","cat x; rm y"]`: "cat x; rm y", `"cat x"`: "cat x", `["./bash","-c","cat x"]`: `./bash -c "cat x"`, `["/bin/bash","-x","a"]`: "/bin/bash -x a",
	} {
		w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "session/prompt": {fmt.Sprintf(ask, raw)}, "answer": {strings.ReplaceAll(ended, "1000", "3")}})
		s := conform.Open(t, w.p, w.spec)
		turn := s.Do("go", s.Allow())
		if asked := conform.Of[provider.PermissionRequested](turn); len(asked) != 1 || asked[0].Tool.Kind != "execute" || asked[0].Tool.Command != shown {
			t.Errorf("%s: asked for %+v", raw, asked)
		}
	}
}

// formOf asks about a call of the agent's tool for questions.
func formOf(fields string) []string {
	return []string{
		update(`{"sessionUpdate":"tool_call","toolCallId":"q","title":"Ask","kind":"other","status":"pending","rawInput":{"questions":[{"question":"Which colour?"}]}}`),
		`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"mode":"form","sessionId":"s","toolCallId":"q","message":"Which colour?","requestedSchema":{"type":"object","properties":{` + fields + `}}}}`,
	}
}

func TestForms(t *testing.T) {
	one := `"question_0":{"type":"string","title":"Colour","oneOf":[{"const":"red","title":"Red"},{"const":"blue","title":"Blue"}]},"question_0_custom":{"type":"string","title":"Other"}`
	many := `"question_0":{"type":"array","title":"Colour","items":{"anyOf":[{"const":"red","title":"Red"},{"const":"blue","title":"Blue"}]}},"question_0_custom":{"type":"string","title":"Other"}`
	for name, c := range map[string]struct {
		fields string
		answer provider.Answer
		heard  string
	}{
		"chosen":    {one, provider.Answer{Allow: true, Text: "blue"}, `"content":{"question_0":"blue"}`},
		"own words": {one, provider.Answer{Allow: true, Text: "green"}, `"content":{"question_0_custom":"green"}`},
		"several":   {many, provider.Answer{Allow: true, Text: "red, blue"}, `"content":{"question_0":["red","blue"]}`},
		"refused":   {one, provider.Answer{Message: "not now"}, `"action":"decline"`},
		"no text":   {`"question_0":{"type":"number","title":"N"}`, provider.Answer{}, `"action":"cancel"`},
	} {
		t.Run(name, func(t *testing.T) {
			w, heard := adapter(t, "claude-agent-acp", canned{"session/new": {opens(modes("default"))}, "session/prompt": formOf(c.fields),
				"answer": {strings.ReplaceAll(ended, "1000", "3")}, "session/prompt 2": {done}})
			s := conform.Open(t, w.p, w.spec)
			turn := s.Do("go", s.Decide(func(e provider.PermissionRequested) provider.Answer {
				if q := e.Question; q == nil || q.Text != "Which colour?" || strings.Join(q.Options, " ") != "red blue" || e.Tool.Call != "q" {
					t.Errorf("asked %+v", e)
				}
				return c.answer
			}))
			want(t, turn, mission.Succeeded, "", mission.NextWaiting)
			if got := heard(); !strings.Contains(got, c.heard) {
				t.Errorf("the agent heard %s", got)
			}
		})
	}
}

// A form that belongs to no call of the turn is not shown: a person could not see
// what it is about.
func TestFormOfNoCall(t *testing.T) {
	w, heard := adapter(t, "claude-agent-acp", canned{"session/new": {opens(modes("default"))}, "session/prompt": formOf(`"a":{"type":"string"}`)[1:], "answer": {strings.ReplaceAll(ended, "1000", "3")}})
	s := conform.Open(t, w.p, w.spec)
	if turn := s.Do("go", s.Allow()); len(conform.Of[provider.PermissionRequested](turn)) > 0 || !strings.Contains(heard(), `"action":"cancel"`) {
		t.Errorf("events %+v; the agent heard %s", turn.Events, heard())
	}
}

func TestSteering(t *testing.T) {
	say := update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}`)
	for outcome, taken := range map[string]bool{"injected": true, "promptRequired": false} {
		w, heard := adapter(t, "claude-agent-acp", canned{"session/new": {opens(modes("default"))}, "session/prompt": {say},
			steerMethod: {`{"jsonrpc":"2.0","id":$ID,"result":{"outcome":"` + outcome + `"}}`, strings.ReplaceAll(ended, "1000", "3")}})
		s := conform.Open(t, w.p, w.spec)
		if err := s.Conn.Steer(context.Background(), "early"); err == nil {
			t.Error("an agent without a turn took an instruction")
		}
		turn := s.Do("go", func(e provider.Event) {
			if _, ok := e.(provider.Text); ok {
				if err := s.Conn.Steer(context.Background(), "canary"); (err == nil) != taken {
					t.Errorf("%s: steer: %v", outcome, err)
				}
			}
		})
		want(t, turn, mission.Succeeded, "", mission.NextWaiting)
		if !strings.Contains(heard(), `"text":"canary"`) || !strings.Contains(heard(), "promptRequired") {
			t.Errorf("the agent heard %s", heard())
		}
	}
}

func claudeSays(m string) string {
	return `{"jsonrpc":"2.0","method":"_claude/sdkMessage","params":{"sessionId":"s","message":` + m + `}}`
}

// What Claude Code itself says of its mode and its servers counts, whatever its
// adapter makes of it.
func TestClaudeItself(t *testing.T) {
	init := func(mode, servers string) string {
		return claudeSays(`{"type":"system","subtype":"init","permissionMode":"` + mode + `","mcp_servers":[` + servers + `]}`)
	}
	for name, c := range map[string]struct {
		say []string
		why string // the turn is ended with
	}{
		"asks":           {[]string{init("default", `{"name":"lab","status":"connected"}`), done}, ""},
		"another mode":   {[]string{init("auto", "")}, `works in its mode "auto"`},
		"another server": {[]string{init("default", `{"name":"evil","status":"connected"}`)}, `loaded the MCP server "evil"`},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := adapter(t, "claude-agent-acp", canned{"session/new": {opens(modes("default"))}, "session/prompt": c.say})
			w.spec.Servers = []provider.Server{{Name: "lab", Command: w.spec.Path}}
			turn := conform.Open(t, w.p, w.spec).Do("go", nil)
			if c.why == "" {
				want(t, turn, mission.Succeeded, "", mission.NextWaiting)
				return
			}
			want(t, turn, mission.Failed, mission.PermissionRequired, "")
			if got := turn.Finished.Outcome.Sentence(); !strings.Contains(got, c.why) {
				t.Errorf("told %q", got)
			}
		})
	}
}

// It also says how many answers of the model a turn took, which servers failed,
// and that a key is good but not permitted, for which its adapter has no word.
func TestClaudeSays(t *testing.T) {
	answer := func(id, model string) string {
		return claudeSays(`{"type":"assistant","message":{"id":"` + id + `","model":"` + model + `"}}`)
	}
	refused := `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"Authentication required"}}`
	w, _ := adapter(t, "claude-agent-acp", canned{"session/new": {opens(modes("default"))},
		"session/prompt":   {claudeSays(`{"type":"system","permissionMode":"default","mcp_servers":[{"name":"lab","status":"failed"}]}`), answer("a", "m"), answer("a", "m"), answer("b", "m"), answer("c", "<synthetic>"), done},
		"session/prompt 2": {claudeSays(`{"type":"result","api_error_status":403}`), refused},
		"session/prompt 3": {claudeSays(`{"type":"result","api_error_status":401}`), refused}})
	w.spec.Servers = []provider.Server{{Name: "lab", Command: w.spec.Path}}
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("go", nil)
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if n := turn.Finished.Outcome.Usage.ModelCalls; n == nil || *n != 2 {
		t.Errorf("usage %+v", turn.Finished.Outcome.Usage)
	}
	if told := conform.Of[provider.Notice](turn); len(told) != 1 || !strings.Contains(told[0].Text, "The MCP server lab did not start") {
		t.Errorf("told %+v", told)
	}
	want(t, s.Do("go", nil), mission.Failed, mission.PermissionRequired, "")
	want(t, s.Do("go", nil), mission.Failed, mission.AuthenticationRequired, "")
}

func TestExits(t *testing.T) {
	code := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		status, output string
		exit           *int
	}{
		"ended well": {"completed", "x", code(0)}, "failed": {"failed", "```\\nExit code 3\\nno", code(3)}, "no command": {"failed", "Permission denied", nil},
	} {
		w, _ := adapter(t, "claude-agent-acp", canned{"session/new": {opens(modes("default"))}, "session/prompt": {
			`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}],"toolCall":{"toolCallId":"c","title":"x","kind":"execute","rawInput":{"command":"x"}}}}`},
			"answer": {update(`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"` + c.status + `","content":[{"type":"content","content":{"type":"text","text":"` + c.output + `"}}]}`), strings.ReplaceAll(ended, "1000", "3")}})
		s := conform.Open(t, w.p, w.spec)
		over := conform.Of[provider.ToolFinished](s.Do("go", s.Allow()))
		if len(over) != 1 || (over[0].Exit == nil) != (c.exit == nil) || c.exit != nil && *over[0].Exit != *c.exit {
			t.Errorf("%s: finished %+v", name, over)
		}
	}
}

// A change of a piece of a file is shown where it is, unless that can't be told.
func TestChangesAreShownInTheirFile(t *testing.T) {
	ask := func(old string) string {
		return `{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}],` +
			`"toolCall":{"toolCallId":"c","title":"Edit","kind":"edit","content":[{"type":"diff","path":"a.txt","oldText":"` + old + `","newText":"new"}]}}}`
	}
	for old, shown := range map[string]string{"two": " one\n-two\n+new\n three\n", "e": "-e\n"} {
		w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "session/prompt": {ask(old)}, "answer": {strings.ReplaceAll(ended, "1000", "3")}})
		if err := os.WriteFile(filepath.Join(w.folder, "a.txt"), []byte("one\ntwo\nthree\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := conform.Open(t, w.p, w.spec)
		asked := conform.Of[provider.PermissionRequested](s.Do("go", s.Allow()))
		if len(asked) != 1 || !strings.Contains(asked[0].Tool.Diff, shown) {
			t.Errorf("%s: asked for %+v", old, asked)
		}
	}
}

// What a rule has allowed is known again, though Codex numbers each call.
func TestCodexCallsAreKnownAgain(t *testing.T) {
	input := func(id, command string) string {
		return `{"available_decisions":["approved","abort"],"call_id":"` + id + `","command":` + command + `,"cwd":"/w","parsed_cmd":[{"cmd":"x","type":"unknown"}],
			"proposed_execpolicy_amendment":["npm"],"started_at_ms":1` + id + `,"turn_id":"t` + id + `"}`
	}
	for command, want := range map[string]string{
		`["/bin/bash","-c","npm test"]`: `"npm test"`, `["/tmp/bash","-c","npm test"]`: `["/tmp/bash","-c","npm test"]`} {
		ask := func(id string) string {
			return line(strings.Replace(asks(id, "c"+id, "npm test"), `"kind":"execute"`, `"kind":"execute","rawInput":`+input(id, command), 1))
		}
		w, _ := adapter(t, "codex-acp", canned{"session/new": {opens(noModes)}, "session/prompt": {ask("7")}, "answer 1": {ask("8")}, "answer 2": {ends("3")}})
		s := conform.Open(t, w.p, w.spec)
		all := conform.Of[provider.PermissionRequested](s.Do("go", s.Allow()))
		if want = `{"command":` + want + `,"cwd":"/w"}`; len(all) != 2 || string(all[0].Tool.Input) != want || string(all[1].Tool.Input) != want {
			t.Errorf("asked %+v", all)
		}
	}
}

// Codex shows a tool of an MCP server under a name that tells nothing.
func TestServedTool(t *testing.T) {
	w, _ := adapter(t, "codex-acp", canned{"session/new": {opens(noModes)}, "session/prompt": {
		update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Tool: lab/note","status":"in_progress","rawInput":{"server":"lab","tool":"note","arguments":{"text":"first"}}}`),
		`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}],` +
			`"toolCall":{"toolCallId":"c","title":"Approve MCP tool call","rawInput":{"server_name":"lab","request":{"_meta":{"tool_params":{"text":"asked"}}}}}}}`},
		"answer": {strings.ReplaceAll(ended, "1000", "3")}})
	s := conform.Open(t, w.p, w.spec)
	asked := conform.Of[provider.PermissionRequested](s.Do("go", s.Allow()))
	if len(asked) != 1 || asked[0].Tool.Title != "lab/note" || string(asked[0].Tool.Input) != `{"text":"asked"}` || asked[0].Tool.Own {
		t.Errorf("asked for %+v", asked)
	}
}
