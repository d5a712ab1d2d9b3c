package codex

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

func TestMain(m *testing.M) {
	if os.Getenv("REEVE_FAKE") != "" {
		fakeMain()
	}
	os.Exit(conform.Isolated(func() int {
		code := m.Run()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}))
}

// The test program can stand for a Codex that says anything. REEVE_FAKE holds
// what it says to each method; ID stands for the id of the request. What answers
// a request of the program's own comes under "answer".
type fakeLines map[string][]string

func fakeMain() {
	var say fakeLines
	json.Unmarshal([]byte(os.Getenv("REEVE_FAKE")), &say)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.Unmarshal(in.Bytes(), &m)
		if m.Method == "" {
			m.Method = "answer"
		}
		if f := os.Getenv("REEVE_FAKE_HEARD"); f != "" {
			w, _ := os.OpenFile(f, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			fmt.Fprintln(w, in.Text())
			w.Close()
		}
		for _, l := range say[m.Method] {
			if l == "EXIT" {
				os.Exit(5)
			}
			fmt.Println(strings.Replace(l, "ID", string(m.ID), 1))
		}
	}
	os.Exit(0)
}

const (
	threadOK = `{"id":ID,"result":{"thread":{"id":"T1","cliVersion":"9.9.9"},"model":"m-1","approvalPolicy":"untrusted","approvalsReviewer":"user","sandbox":{"type":"workspaceWrite","networkAccess":false}}}`
	turnOK   = `{"id":ID,"result":{"turn":{"id":"U1","status":"inProgress"}}}`
	turnEnd  = `{"method":"turn/completed","params":{"threadId":"T1","turn":{"id":"U1","status":"completed","error":null}}}`
)

// note is a notification of the thread's turn.
func note(method, params string) string {
	return `{"method":"` + method + `","params":{"threadId":"T1","turnId":"U1",` + params + `}}`
}

func spent(total, last string) string {
	return note("thread/tokenUsage/updated", `"tokenUsage":{"total":`+total+`,"last":`+last+`}`)
}

func fake(t *testing.T, more fakeLines) provider.Spec {
	t.Helper()
	say := fakeLines{
		"initialize":   {"not JSON", `{"id":ID,"result":{"userAgent":"x"}}`},
		"account/read": {`{"id":ID,"result":{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}}`},
		"config/read":  {`{"id":ID,"result":{"config":{},"layers":[{"name":{"type":"user"},"config":{"model":"x"}}]}}`},
		"thread/start": {threadOK}, "thread/resume": {threadOK}, "turn/start": {turnOK},
	}
	maps.Copy(say, more)
	b, err := json.Marshal(say)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	return provider.Spec{Path: os.Args[0], Folder: root, PrivateDir: filepath.Join(root, "private"),
		Env: []string{"REEVE_FAKE=" + string(b), "HOME=" + filepath.Join(root, "home"), "REEVE_FAKE_HEARD=" + filepath.Join(root, "heard")}}
}

// heard returns what the program was told.
func heard(t *testing.T, spec provider.Spec) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(spec.Folder, "heard"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func want(t *testing.T, turn conform.Turn, o mission.Outcome, c mission.Code) {
	t.Helper()
	if turn.Finished.Outcome.Outcome != o || turn.Finished.Outcome.Code != c {
		t.Fatalf("the turn ended %s %q (%s), want %s %q", turn.Finished.Outcome.Outcome, turn.Finished.Outcome.Code, turn.Finished.Message, o, c)
	}
}

// Nothing starts unless the replies prove that everything will be asked for.
func TestOpenRefuses(t *testing.T) {
	swap := func(old, new string) []string { return []string{strings.Replace(threadOK, old, new, 1)} }
	layer := func(l string) []string {
		return []string{`{"id":ID,"result":{"config":{},"layers":[` + l + `]}}`}
	}
	for name, c := range map[string]struct {
		say  fakeLines
		code mission.Code
	}{
		"policy":    {fakeLines{"thread/start": swap(`"untrusted"`, `"on-request"`)}, mission.PermissionRequired},
		"granular":  {fakeLines{"thread/start": swap(`"untrusted"`, `{"granular":{"rules":false}}`)}, mission.PermissionRequired},
		"no policy": {fakeLines{"thread/start": swap(`"approvalPolicy":"untrusted",`, ``)}, mission.PermissionRequired},
		"reviewer":  {fakeLines{"thread/start": swap(`"approvalsReviewer":"user"`, `"approvalsReviewer":"auto_review"`)}, mission.PermissionRequired},
		"sandbox":   {fakeLines{"thread/start": swap("workspaceWrite", "dangerFullAccess")}, mission.PermissionRequired},
		"signed out": {fakeLines{"account/read": {`{"id":ID,"result":{"account":null,"requiresOpenaiAuth":true}}`}},
			mission.AuthenticationRequired},
		"project": {fakeLines{"config/read": layer(`{"name":{"type":"project"},"config":{"a":1}}`)}, mission.PermissionRequired},
		"servers": {fakeLines{"config/read": {`{"id":ID,"result":{"config":{"mcp_servers":{"evil":{}}},"layers":[]}}`}}, mission.PermissionRequired},
		"hooks":   {fakeLines{"config/read": layer(`{"name":{"type":"system"},"config":{"hooks":{}}}`)}, mission.PermissionRequired},
		"error":   {fakeLines{"thread/start": {`{"id":ID,"error":{"code":-32603,"message":"no"}}`}}, mission.LocalExecutionFailure},
		"end":     {fakeLines{"thread/start": {"EXIT"}}, mission.LocalExecutionFailure},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := conform.TryOpen(t, New(), fake(t, c.say))
			if open := (*provider.OpenError)(nil); !errors.As(err, &open) || open.Code != c.code {
				t.Errorf("open: %v", err)
			}
		})
	}
	t.Run("resumed", func(t *testing.T) {
		spec := fake(t, fakeLines{"thread/resume": swap(`"untrusted"`, `"never"`)})
		spec.Resume = "T1"
		_, err := conform.TryOpen(t, New(), spec)
		if open := (*provider.OpenError)(nil); !errors.As(err, &open) || open.Code != mission.PermissionRequired {
			t.Errorf("open: %v", err)
		}
	})
	for _, text := range []string{"no rollout found for thread id T1", "thread not found: T1"} {
		spec := fake(t, fakeLines{"thread/resume": {`{"id":ID,"error":{"code":-32600,"message":"` + text + `"}}`}})
		spec.Resume = "T1"
		_, err := conform.TryOpen(t, New(), spec)
		if open := (*provider.OpenError)(nil); !errors.As(err, &open) || open.Code != mission.MissingSession {
			t.Errorf("%s: %v", text, err)
		}
	}
	t.Run("disabled layer", func(t *testing.T) {
		conform.Open(t, New(), fake(t, fakeLines{"config/read": layer(`{"name":{"type":"project"},"config":{"a":1},"disabledReason":"untrusted"}`)}))
	})
}

// Whatever ran, or would run, unseen ends the turn and the program.
func TestUnseenActionEndsTheProgram(t *testing.T) {
	ran := `"item":{"type":"commandExecution","id":"c","command":"/bin/bash -c ls","status":"completed","exitCode":0}`
	for name, lines := range map[string][]string{
		"command":  {note("item/started", strings.Replace(ran, "completed", "inProgress", 1)), note("item/completed", ran)},
		"at once":  {note("item/completed", ran)},
		"change":   {note("item/completed", `"item":{"type":"fileChange","id":"f","status":"completed","changes":[{"path":"/a","kind":{"type":"add"},"diff":"x"}]}`)},
		"server":   {note("item/completed", `"item":{"type":"mcpToolCall","id":"s","server":"x","tool":"y","status":"completed"}`)},
		"settings": {note("thread/settings/updated", `"threadSettings":{"approvalPolicy":"never","approvalsReviewer":"user","sandboxPolicy":{"type":"workspaceWrite"}}`)},
		"typing":   {note("item/commandExecution/terminalInteraction", `"itemId":"c","processId":"1","stdin":"rm x\n"`)},
		"hook":     {note("hook/started", `"run":{}`)},
		"reviewer": {note("item/autoApprovalReview/started", `"review":{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			s := conform.Open(t, New(), fake(t, fakeLines{"turn/start": append([]string{turnOK}, lines...)}))
			turn := s.Do("go", nil)
			want(t, turn, mission.Failed, mission.PermissionRequired)
			if turn.Finished.Outcome.Retryable || turn.Finished.Message == "" {
				t.Errorf("finished %+v", turn.Finished)
			}
		})
	}
	t.Run("another change", func(t *testing.T) {
		change := func(diff, status string) string {
			return `"item":{"type":"fileChange","id":"f","status":"` + status + `","changes":[{"path":"/a","kind":{"type":"add"},"diff":"` + diff + `"}]}`
		}
		s := conform.Open(t, New(), fake(t, fakeLines{"turn/start": {turnOK, note("item/started", change("x", "inProgress")),
			note("item/fileChange/patchUpdated", `"itemId":"f","changes":[{"path":"/a","kind":{"type":"add"},"diff":"y"}]`),
			`{"id":0,` + note(askChange, `"itemId":"f"`)[1:]}, "answer": {note("item/completed", change("z", "completed"))}}))
		turn := s.Do("go", s.Decide(func(e provider.PermissionRequested) provider.Answer {
			if !strings.Contains(e.Tool.Diff, "+y") {
				t.Errorf("shown %s", e.Tool.Diff)
			}
			return provider.Answer{Allow: true}
		}))
		want(t, turn, mission.Failed, mission.PermissionRequired)
	})
	t.Run("settings that ask", func(t *testing.T) {
		s := conform.Open(t, New(), fake(t, fakeLines{"turn/start": {turnOK,
			note("thread/settings/updated", `"threadSettings":{"approvalPolicy":"untrusted","approvalsReviewer":"user","sandboxPolicy":{"type":"readOnly"}}`), turnEnd}}))
		want(t, s.Do("go", nil), mission.Succeeded, "")
	})
}

// Requests carry what a person decides about; ids begin at 0.
func TestRequests(t *testing.T) {
	spec := fake(t, fakeLines{"turn/start": {turnOK,
		note("item/started", `"item":{"type":"commandExecution","id":"c","command":"/bin/bash -c 'touch it'","cwd":"/w","status":"inProgress"}`),
		`{"id":0,` + note(askCommand, `"itemId":"c","command":"/bin/bash -c 'touch \"it\"; ls'","cwd":"/w/sub","reason":"why"`)[1:],
		note("item/started", `"item":{"type":"fileChange","id":"f","status":"inProgress","changes":[{"path":"/w/a","kind":{"type":"update"},"diff":"@@ -1 +1 @@\n-x\n+y\n"},{"path":"/w/b","kind":{"type":"add"},"diff":"new\n"}]}`),
		`{"id":1,` + note(askChange, `"itemId":"f"`)[1:],
		`{"id":2,` + note(askQuestion, `"itemId":"q","questions":[{"id":"colour","question":"Which?","options":[{"label":"red"},{"label":"blue"}]}]`)[1:],
		`{"id":3,` + note("account/chatgptAuthTokens/refresh", `"reason":"x"`)[1:],
		`{"id":4,` + note(askCommand, `"itemId":7`)[1:],
		`{"id":6,` + note(askChange, `"itemId":"unknown"`)[1:],
		`{"id":8,` + note(askChange, `"itemId":"f","grantRoot":"/w"`)[1:],
		`{"id":9,` + note(askServer, `"serverName":"s","message":"Your name?"`)[1:],
		`{"id":7,` + note(askCommand, `"itemId":"empty","command":null`)[1:],
		`{"id":5,` + note(askCommand, `"itemId":"late","command":"rm x","cwd":"/w"`)[1:],
		note("serverRequest/resolved", `"requestId":5`),
	}, "answer": {note("serverRequest/resolved", `"requestId":ID`)}})
	s := conform.Open(t, New(), spec)
	var asked []provider.PermissionRequested
	if err := s.Conn.Prompt(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	withdrawn := ""
	for withdrawn == "" {
		switch e := (<-s.Conn.Events()).(type) {
		case provider.PermissionRequested:
			asked = append(asked, e)
		case provider.PermissionWithdrawn:
			withdrawn = e.Request
		}
	}
	if len(asked) != 4 || withdrawn != "5" {
		t.Fatalf("asked %+v, withdrawn %q", asked, withdrawn)
	}
	if got := string(asked[0].Tool.Input); got != `{"command":"touch \"it\"; ls","cwd":"/w/sub"}` {
		t.Errorf("a rule would not know this again: %s", got)
	}
	c, f, q := asked[0].Tool, asked[1].Tool, asked[2]
	if asked[0].Request != "0" || c.Command != `touch "it"; ls` || c.Cwd != "/w/sub" || c.Reason != "why" || c.Kind != "execute" {
		t.Errorf("command %+v", asked[0])
	}
	if !slices.Equal(f.Paths, []string{"/w/a", "/w/b"}) || !strings.Contains(f.Diff, "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-x\n+y\n") || !strings.Contains(f.Diff, "+new") || f.Kind != "edit" {
		t.Errorf("change %+v", f)
	}
	if q.Question == nil || q.Question.Text != "Which?" || !slices.Equal(q.Question.Options, []string{"red", "blue"}) {
		t.Errorf("question %+v", q)
	}
	for i, a := range []provider.Answer{{Message: "not now"}, {Allow: true}, {Allow: true, Text: "blue"}} {
		if err := s.Conn.Answer(t.Context(), asked[i].Request, a); err != nil {
			t.Error(err)
		}
	}
	if err := s.Conn.Answer(t.Context(), "5", provider.Answer{Allow: true}); !errors.Is(err, provider.ErrNoRequest) {
		t.Errorf("a withdrawn request: %v", err)
	}
	s.Conn.Close(t.Context())
	for range s.Conn.Events() {
	}
	all := heard(t, spec)
	for _, line := range []string{
		`{"id":0,"result":{"decision":"decline"}}`, `{"id":1,"result":{"decision":"accept"}}`,
		`{"id":2,"result":{"answers":{"colour":{"answers":["blue"]}}}}`,
		`{"error":{"code":-32601,"message":"Reeve does not offer this"},"id":3}`, `"id":4}`, `"id":6}`, `"id":7}`, `"id":8}`, `"id":9}`,
		"Their reason: not now",
	} {
		if !strings.Contains(all, line) {
			t.Errorf("it was not told %s; it heard\n%s", line, all)
		}
	}
	if strings.Index(all, "not now") > strings.Index(all, `"decline"`) {
		t.Error("the reason came after the denial")
	}
}

// The total is of the thread: a turn's part is counted once, whatever is told
// again, and what was spent before a resumption is not the turn's.
func TestUsage(t *testing.T) {
	first, second := `{"inputTokens":150,"outputTokens":42,"cachedInputTokens":30}`, `{"inputTokens":300,"outputTokens":84,"cachedInputTokens":60}`
	third := `{"inputTokens":450,"outputTokens":126,"cachedInputTokens":90}`
	old := strings.Replace(spent(first, first), "U1", "old", 1)
	for name, told := range map[string][]string{"told before": {old}, "not told before": nil} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string{turnOK}, told...)
			spec := fake(t, fakeLines{"turn/start": append(lines, spent(second, first), spent(second, first), spent(third, first),
				note("model/rerouted", `"toModel":"m-2"`), turnEnd)})
			spec.Resume = "T1"
			s := conform.Open(t, New(), spec)
			turn := s.Do("go", nil)
			u := turn.Finished.Outcome.Usage
			if *u.Input != 300 || *u.Output != 84 || *u.CacheRead != 60 || *u.ModelCalls != 2 || u.Semantics != mission.IncludesCache ||
				u.Model != "m-2" || u.ModelSource != "model-rerouted" || u.CostUSD != nil || u.Provider != "codex" {
				t.Errorf("usage %+v", u)
			}
			if n := len(conform.Of[provider.UsageReported](turn)); n != 2 {
				t.Errorf("usage was reported %d times", n)
			}
		})
	}
}

// A limit's end comes in a message of its own.
func TestLimitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		limits string
		at     int64
	}{
		"both":    {`"primary":{"usedPercent":100,"resetsAt":1796040000},"secondary":{"usedPercent":100,"resetsAt":1796050000}`, 1796050000},
		"one":     {`"primary":{"usedPercent":100,"resetsAt":1796040000},"secondary":{"usedPercent":40,"resetsAt":1796050000}`, 1796040000},
		"neither": {`"primary":{"usedPercent":10,"resetsAt":1796040000},"secondary":null`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := conform.Open(t, New(), fake(t, fakeLines{"turn/start": {turnOK, `{"method":"account/rateLimits/updated","params":{"rateLimits":{` + c.limits + `}}}`,
				note("turn/completed", `"turn":{"id":"U1","status":"failed","error":{"message":"x","codexErrorInfo":"usageLimitExceeded"}}`)}}))
			turn := s.Do("go", nil)
			want(t, turn, mission.Failed, mission.RateLimited)
			if at := turn.Finished.Outcome.ResetAt; c.at == 0 && !at.IsZero() || c.at != 0 && at.Unix() != c.at {
				t.Errorf("the limit ends at %v", at)
			}
		})
	}
}

// A command that was interrupted ends in the next turn, which is not its own.
func TestLateEnd(t *testing.T) {
	late := strings.Replace(note("item/completed", `"item":{"type":"commandExecution","id":"c","command":"sleep 9","status":"failed","exitCode":-1}`), "U1", "U0", 1)
	s := conform.Open(t, New(), fake(t, fakeLines{"turn/start": {late, turnOK, late, turnEnd}}))
	turn := s.Do("go", nil)
	want(t, turn, mission.Succeeded, "")
	if len(turn.Events) != 1 {
		t.Errorf("events %+v", turn.Events)
	}
}

func TestOddOutput(t *testing.T) {
	s := conform.Open(t, New(), fake(t, fakeLines{"turn/start": {turnOK,
		`[]`, `{"method":"new/thing","params":7}`, `{"method":"error","params":"odd"}`, `{"id":99,"result":{}}`,
		note("item/agentMessage/delta", `"itemId":"m","delta":"sa"`),
		note("item/completed", `"item":{"type":"agentMessage","id":"m","text":"said`+"\xff"+`","questions":null}`),
		note("item/started", `"item":{"type":"commandExecution","id":"c","command":["odd"],"cwd":"/w","status":"inProgress"}`),
		strings.Replace(note("turn/completed", `"turn":{"id":"U1","status":"completed"}`), "T1", "T2", 1),
		turnEnd}}))
	turn := s.Do("go", nil)
	want(t, turn, mission.Succeeded, "")
	if turn.Text() != "said\ufffd" || turn.Finished.Final != "said\ufffd" {
		t.Errorf("text %q final %q", turn.Text(), turn.Finished.Final)
	}
	if done := conform.Of[provider.ToolFinished](turn); len(done) != 1 || done[0].Status != "cancelled" {
		t.Errorf("finished %+v", done)
	}
}

func TestClassify(t *testing.T) {
	for text, code := range map[string]mission.Code{
		`{"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}`:          mission.AuthenticationRequired,
		`{"codexErrorInfo":"unauthorized"}`:                                           mission.AuthenticationRequired,
		`{"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":403}}}`:          mission.PermissionRequired,
		`{"codexErrorInfo":"modelNotFound"}`:                                          mission.PermissionRequired,
		`{"codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}`: mission.RateLimited,
		`{"codexErrorInfo":"usageLimitExceeded"}`:                                     mission.RateLimited,
		`{"codexErrorInfo":"other","message":"{\"error\":{}}"}`:                       mission.Unknown,
		`{"codexErrorInfo":"contextWindowExceeded"}`:                                  mission.Unknown,
		`{"codexErrorInfo":"other","message":"stream disconnected"}`:                  mission.LocalExecutionFailure,
		`{"codexErrorInfo":"internalServerError"}`:                                    mission.LocalExecutionFailure,
		`{"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":null}}}`:         mission.LocalExecutionFailure,
		`{"codexErrorInfo":null}`:                                                     mission.LocalExecutionFailure,
		`null`:                                                                        mission.LocalExecutionFailure,
	} {
		var e *turnError
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if got := e.code(); got != code {
			t.Errorf("%s is %s, want %s", text, got, code)
		}
	}
}

func TestUnwrap(t *testing.T) {
	for line, script := range map[string]string{
		`/bin/bash -c ls`:                 `ls`,
		`/bin/bash -lc 'ls | wc'`:         `ls | wc`,
		`/bin/zsh -c "echo 'a'"`:          `echo 'a'`,
		`/bin/bash -c 'a'"'"'b'`:          `a'b`,
		`/bin/bash -c "a \"b\" \\ \q"`:    `a "b" \ \q`,
		`/bin/bash -c 'ls' extra`:         `/bin/bash -c 'ls' extra`,
		`/bin/bash -c ls;rm`:              `/bin/bash -c ls;rm`,
		`/bin/bash -c "$(x)"`:             `/bin/bash -c "$(x)"`,
		`/bin/bash -c 'open`:              `/bin/bash -c 'open`,
		`/bin/bash -x 'ls'`:               `/bin/bash -x 'ls'`,
		`python3 -c 'print(1)'`:           `python3 -c 'print(1)'`,
		`ls`:                              `ls`,
		"/bin/bash -c 'touch a\ntouch b'": "touch a\ntouch b",
		`/bin/bash -c ''`:                 `/bin/bash -c ''`,
		`/bin/bash -c a\ b`:               `/bin/bash -c a\ b`,
		`/bin/bash -c 'x' 'y'`:            `/bin/bash -c 'x' 'y'`,
		`/tmp/bash -c ls`:                 `/tmp/bash -c ls`,
		`/usr/bin/env bash -c 'ls'`:       `/usr/bin/env bash -c 'ls'`,
	} {
		if got := unwrap(line); got != script {
			t.Errorf("%s shows as %q, want %q", line, got, script)
		}
	}
}

// The private home configures what it must and reaches nothing else.
func TestHome(t *testing.T) {
	root := t.TempDir()
	theirs := filepath.Join(root, "person", ".codex")
	if err := os.MkdirAll(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	auth := filepath.Join(theirs, "auth.json")
	if err := os.WriteFile(auth, []byte(`{"tokens":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	person := "HOME=" + filepath.Join(root, "person")
	for name, c := range map[string]struct {
		env      []string
		endpoint string
		linked   bool
	}{
		"signed in":        {[]string{person}, "", true},
		"key":              {[]string{person, "OPENAI_API_KEY=k-secret"}, "", false},
		"another endpoint": {[]string{person}, "http://127.0.0.1:1/v1", false},
		"own home":         {[]string{"HOME=/nowhere", "CODEX_HOME=" + theirs}, "", true},
		"nobody":           {nil, "", false},
	} {
		spec := provider.Spec{Folder: "/a \"b\"\\c", Endpoint: c.endpoint, Env: append(c.env, "OPENAI_BASE_URL=http://x"), PrivateDir: filepath.Join(root, name)}
		h, err := codexhome.Make(spec, homeSettings)
		if err != nil {
			t.Fatal(err)
		}
		if h, err = codexhome.Make(spec, homeSettings); err != nil { // a second provider of the same guard
			t.Fatal(err)
		}
		to, _ := os.Readlink(filepath.Join(h.Dir, "auth.json"))
		if linked := to == auth; linked != c.linked {
			t.Errorf("%s: auth.json leads to %q", name, to)
		}
		conf, err := os.ReadFile(filepath.Join(h.Dir, "config.toml"))
		if err != nil || strings.Contains(string(conf), "k-secret") || !strings.Contains(string(conf), `[projects."/a \"b\"\\c"]`+"\ntrust_level = \"untrusted\"") {
			t.Errorf("%s: %v\n%s", name, err, conf)
		}
		if c.endpoint != "" && !strings.Contains(string(conf), `base_url = "`+c.endpoint+`"`) {
			t.Errorf("%s: %s", name, conf)
		}
		env := strings.Join(h.Environment(spec.Env), "\n")
		if strings.Contains(env, "OPENAI_BASE_URL") || strings.Count(env, "CODEX_HOME=") != 1 || !strings.Contains(env, "CODEX_HOME="+h.Dir) {
			t.Errorf("%s: environment %s", name, env)
		}
	}
}

// FuzzHandle feeds lines to the reader as the program would.
func FuzzHandle(f *testing.F) {
	for _, s := range []string{
		turnEnd,
		note("item/started", `"item":{"type":"fileChange","id":"f","changes":[{"path":"/a","kind":{"type":"update","move_path":"/b"},"diff":"x"}]}`) + "\n" + `{"id":0,` + note(askChange, `"itemId":"f"`)[1:],
		`{"id":0,` + note(askCommand, `"itemId":"c","command":"/bin/bash -c 'x"`)[1:] + "\n" + note("serverRequest/resolved", `"requestId":0`),
		`{"id":"a",` + note(askQuestion, `"questions":[{"id":"1"}]`)[1:] + "\n" + note("serverRequest/resolved", `"requestId":"a"`),
		`{"id":1,` + note(askServer, `"serverName":"s","_meta":{"tool_name":"t"}`)[1:],
		spent(`{"inputTokens":1}`, `{}`),
		note("item/completed", `"item":{"type":"mcpToolCall","id":"s","result":{"content":[{"text":"x"}]},"error":{"message":"y"}}`),
		note("error", `"error":{"codexErrorInfo":{"a":{"httpStatusCode":1}}},"willRetry":true`),
		note("turn/completed", `"turn":{"id":"U1","status":"failed","error":{"codexErrorInfo":7}}`),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		c := newConn(nil, provider.Spec{Folder: "/w"})
		c.write = func([]byte) error { return nil }
		c.kill = func() {}
		c.thread = "T1"
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
		c.turn = &turn{id: "U1", known: make(chan struct{})}
		for line := range strings.SplitSeq(lines, "\n") {
			if m, err := parse([]byte(line)); err == nil {
				c.handle(m)
			}
		}
		c.finishTurn(&wireTurn{})
		c.events.Close()
		if n := <-stop; n != 1 {
			t.Errorf("the turn ended %d times", n)
		}
	})
}
