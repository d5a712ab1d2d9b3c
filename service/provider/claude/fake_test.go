package claude

import (
	"bufio"
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

// The test program can stand for a Claude Code that behaves as no real one
// should. REEVE_FAKE holds what it says to initialize and to the first message.
type fakeLines struct{ Init, Turn []string }

func fakeMain() {
	var say fakeLines
	json.Unmarshal([]byte(os.Getenv("REEVE_FAKE")), &say)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		lines := &say.Turn
		if strings.Contains(in.Text(), `"initialize"`) {
			lines = &say.Init
		}
		for _, l := range *lines {
			if l == "EXIT" {
				os.Exit(5)
			}
			fmt.Println(l)
		}
		*lines = nil
	}
	os.Exit(0)
}

const initOK = `{"type":"control_response","response":{"subtype":"success","request_id":"init","response":{"claude_code_version":"9.9.9","current_permission_mode":"default"}}}`

func fake(t *testing.T, say fakeLines) provider.Spec {
	t.Helper()
	b, err := json.Marshal(say)
	if err != nil {
		t.Fatal(err)
	}
	return provider.Spec{Path: os.Args[0], Folder: t.TempDir(), Env: []string{"REEVE_FAKE=" + string(b)}}
}

// Whatever would let a tool run unseen ends the turn and the program.
func TestUnsafeStateEndsTheProgram(t *testing.T) {
	for name, line := range map[string]string{
		"mode":   `{"type":"system","subtype":"init","permissionMode":"bypassPermissions","mcp_servers":[]}`,
		"auto":   `{"type":"system","subtype":"init","permissionMode":"auto","mcp_servers":[]}`,
		"none":   `{"type":"system","subtype":"init","mcp_servers":[]}`,
		"mcp":    `{"type":"system","subtype":"init","permissionMode":"default","mcp_servers":[{"name":"x","status":"connected"}]}`,
		"plugin": `{"type":"system","subtype":"init","permissionMode":"default","plugins":[{"name":"x","path":"/x"}]}`,
		"status": `{"type":"system","subtype":"status","permissionMode":"acceptEdits"}`,
		"hook":   `{"type":"control_request","request_id":"1","request":{"subtype":"hook_callback","input":{"permission_mode":"dontAsk"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := conform.Open(t, New(), fake(t, fakeLines{Init: []string{initOK}, Turn: []string{line}}))
			turn := s.Do("go", nil)
			want(t, turn, mission.Failed, mission.PermissionRequired)
			if turn.Finished.Outcome.Retryable || turn.Finished.Message == "" {
				t.Errorf("finished %+v", turn.Finished)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		say  []string
		code mission.Code
	}{
		{"unsafe mode", []string{strings.Replace(initOK, `"default"`, `"acceptEdits"`, 1)}, mission.PermissionRequired},
		{"no mode", []string{strings.Replace(initOK, `"default"`, `""`, 1)}, mission.PermissionRequired},
		{"error", []string{`{"type":"control_response","response":{"subtype":"error","request_id":"init","error":"no"}}`}, mission.LocalExecutionFailure},
		{"end", []string{"EXIT"}, mission.LocalExecutionFailure},
		{"missing", []string{`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: x"]}`, "EXIT"}, mission.MissingSession},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := conform.TryOpen(t, New(), fake(t, fakeLines{Init: c.say}))
			var open *provider.OpenError
			if !errors.As(err, &open) || open.Code != c.code {
				t.Errorf("open: %v", err)
			}
		})
	}
}

// The end of a limit of the account comes in a message of its own.
func TestRateLimitReset(t *testing.T) {
	for name, c := range map[string]struct {
		info  string
		reset int64
	}{
		"rejected": {`{"status":"rejected","resetsAt":1796040000,"rateLimitType":"five_hour"}`, 1796040000},
		"warning":  {`{"status":"allowed_warning","resetsAt":1796040000}`, 0},
		"no time":  {`{"status":"rejected"}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := conform.Open(t, New(), fake(t, fakeLines{Init: []string{initOK}, Turn: []string{
				`{"type":"rate_limit_event","rate_limit_info":` + c.info + `}`,
				`{"type":"assistant","message":{"content":[]},"error":"rate_limit","api_error_status":429}`,
				`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"limit"}`,
			}}))
			turn := s.Do("go", nil)
			want(t, turn, mission.Failed, mission.RateLimited)
			at := turn.Finished.Outcome.ResetAt
			if c.reset == 0 && !at.IsZero() || c.reset != 0 && at.Unix() != c.reset {
				t.Errorf("the limit ends at %v", at)
			}
		})
	}
}

// A program without message life cycles, odd lines, calls that never end.
func TestOddOutput(t *testing.T) {
	s := conform.Open(t, New(), fake(t, fakeLines{Init: []string{"warning: not JSON", initOK}, Turn: []string{
		`[]`, `{"type":"new_thing"}`, `{"type":"user","message":{"content":"text"}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"nobody"}]}}`,
		`{"type":"control_request","request_id":"1","request":{"subtype":"new_request"}}`,
		`{"type":"control_cancel_request","request_id":"nobody"}`,
		`{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"tool_use","id":"t","name":"Read","input":{"file_path":7}}]}}`,
		`{"type":"control_request","request_id":"2","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"u","input":{"command":"x"}}}`,
		`{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"said"}]}}`,
		`{"type":"result","subtype":"success","result":"said","usage":{"input_tokens":1,"output_tokens":2}}`,
	}}))
	turn := s.Do("go", nil)
	want(t, turn, mission.Succeeded, "")
	u := turn.Finished.Outcome.Usage
	if turn.Text() != "said" || *u.Input != 1 || u.CostUSD != nil || u.Model != "x" {
		t.Errorf("text %q usage %+v", turn.Text(), u)
	}
	if len(conform.Of[provider.PermissionWithdrawn](turn)) != 1 || len(conform.Of[provider.ToolFinished](turn)) != 2 {
		t.Errorf("events %+v", turn.Events)
	}
}

func TestClassify(t *testing.T) {
	for f, code := range map[failure]mission.Code{
		{kind: "authentication_failed", status: 401}:       mission.AuthenticationRequired,
		{kind: "authentication_failed"}:                    mission.AuthenticationRequired,
		{kind: "authentication_failed", status: 403}:       mission.PermissionRequired,
		{kind: "billing_error", status: 400}:               mission.PermissionRequired,
		{kind: "model_not_found", status: 404}:             mission.PermissionRequired,
		{kind: "rate_limit", status: 429}:                  mission.RateLimited,
		{kind: "unknown", status: 400}:                     mission.Unknown,
		{kind: "server_error", status: 500}:                mission.LocalExecutionFailure,
		{kind: "server_error", status: 529}:                mission.LocalExecutionFailure,
		{kind: "server_error"}:                             mission.LocalExecutionFailure,
		{}:                                                 mission.LocalExecutionFailure,
		{text: "No conversation found with session ID: 1"}: mission.MissingSession,
	} {
		if got := f.code(); got != code {
			t.Errorf("%+v is %s, want %s", f, got, code)
		}
	}
}

func TestDescribe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("a b a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	q := func(format string, args ...any) json.RawMessage { return json.RawMessage(fmt.Sprintf(format, args...)) }
	for _, c := range []struct {
		name, tool string
		in         json.RawMessage
		want       provider.Tool
	}{
		{"relative read", "Read", q(`{"file_path":"../x"}`), provider.Tool{Kind: "read", Paths: []string{filepath.Join(filepath.Dir(dir), "x")}}},
		{"grep", "Grep", q(`{"pattern":"a.*b"}`), provider.Tool{Kind: "search", Paths: []string{dir}}},
		{"glob that leads away", "Glob", q(`{"pattern":"/etc/*"}`), provider.Tool{Kind: "search", Paths: []string{dir, "/etc/"}}},
		{"all", "Edit", q(`{"file_path":%q,"old_string":"a","new_string":"c","replace_all":true}`, file),
			provider.Tool{Kind: "edit", Paths: []string{file}, Diff: "-a b a\n+c b c\n"}},
		{"first", "Edit", q(`{"file_path":%q,"old_string":"a","new_string":"c"}`, file),
			provider.Tool{Kind: "edit", Paths: []string{file}, Diff: "-a b a\n+c b a\n"}},
		{"no match", "Edit", q(`{"file_path":%q,"old_string":"zz","new_string":"c"}`, file),
			provider.Tool{Kind: "edit", Paths: []string{file}, Diff: "-zz\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"}},
		{"several", "MultiEdit", q(`{"file_path":%q,"edits":[{"old_string":"a","new_string":"x"},{"old_string":"x b","new_string":"y"}]}`, file),
			provider.Tool{Kind: "edit", Paths: []string{file}, Diff: "-a b a\n+y a\n"}},
		{"mcp", "mcp__github__create_issue", q(`{}`), provider.Tool{Kind: "mcp", Server: "github", Title: "create_issue"}},
		{"fetch", "WebFetch", q(`{"url":"https://x"}`), provider.Tool{Kind: "fetch", Title: "https://x"}},
		{"plan", "TodoWrite", q(`{}`), provider.Tool{Kind: "plan"}},
		{"new tool", "Teleport", q(`[1]`), provider.Tool{Kind: "other", Title: "Teleport"}},
	} {
		got := describe("id", c.tool, c.in, dir, true)
		if got.Kind != c.want.Kind || fmt.Sprint(got.Paths) != fmt.Sprint(c.want.Paths) || got.Server != c.want.Server ||
			!strings.HasSuffix(got.Diff, c.want.Diff) || (c.want.Title != "" && got.Title != c.want.Title) || string(got.Input) != string(c.in) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestAnswersOfSeveralQuestions(t *testing.T) {
	in := json.RawMessage(`{"questions":[{"question":"A?"},{"question":"B?"}],"more":1}`)
	for text, expect := range map[string]string{
		"x\ny": `{"A?":"x","B?":"y"}`,
		"both": `{"A?":"both","B?":"both"}`,
	} {
		out, err := answers(in, text)
		var got struct {
			Answers json.RawMessage `json:"answers"`
			More    int             `json:"more"`
		}
		if err != nil || json.Unmarshal(out, &got) != nil || string(got.Answers) != expect || got.More != 1 {
			t.Errorf("%q: %s, %v", text, out, err)
		}
	}
}

// FuzzHandle feeds lines to the reader as the program would.
func FuzzHandle(f *testing.F) {
	for _, s := range []string{
		`{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}}` + "\n" +
			`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"ab"}}}` + "\n" +
			`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"abc"}]}}`,
		`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Edit","input":{"edits":[{}]}}]}}` + "\n" +
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"Exit code 99999999999999999999"}],"is_error":true}]}}`,
		`{"type":"result","subtype":"success","model_usage_since_last_result":{"m":{"inputTokens":1,"costUSD":0.5}}}`,
		`{"type":"result","is_error":true,"errors":["x"],"api_error_status":429}`,
		`{"type":"system","subtype":"api_retry","error_status":529}`,
		`{"type":"user","message":{"content":null}}`,
		`{"type":"assistant","error":{"a":1},"message":{"content":"x"}}`,
		`{"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":[]}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		c := newConn(nil, provider.Spec{Folder: t.TempDir()}, "s")
		c.write = func([]byte) error { return nil }
		c.kill = func() {}
		stop := make(chan int)
		go func() {
			ends, open := 0, map[string]bool{}
			for ev := range c.Events() {
				switch e := ev.(type) {
				case provider.TurnFinished:
					ends++
					if len(open) > 0 {
						t.Errorf("open calls at the end: %v", open)
					}
				case provider.ToolStarted:
					open[e.Tool.Call] = true
				case provider.ToolFinished:
					if !open[e.Call] {
						t.Errorf("call %q was not open", e.Call)
					}
					delete(open, e.Call)
				}
			}
			stop <- ends
		}()
		if err := c.Prompt(t.Context(), "go"); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(lines, "\n") {
			if m, err := parse([]byte(line)); err == nil {
				c.handle(m)
			}
		}
		c.finishTurn(false)
		c.events.Close()
		if n := <-stop; n != 1 {
			t.Errorf("the turn ended %d times", n)
		}
	})
}
