package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func TestUnreachable(t *testing.T) {
	w := newWorld(t, nil)
	for _, args := range [][]string{{"ls"}, {"show", "x"}, {"watch"}, {"watch", "x"}, {"logs", "x"}, {"approvals"}, {"allow", "x", "--digest", "d"}, {"deny", "x"},
		{"steer", "x", "y"}, {"pause", "x"}, {"stop", "x"}, {"demo"}, {"providers"}, {"audit", "verify"}, {"service", "status"}, {"service", "stop", "--workers"},
		{"start", "--provider", "claude", "--scope", "x"}} {
		w.expect(ExitUnreachable, "", "The service is not running. Run `reeve service start`.", args...)
	}
	out, _ := w.expect(ExitUnreachable, `"running":false`, "", "service", "status", "--json")
	if !strings.Contains(out, `"registered":false`) {
		t.Errorf("status: %s", out)
	}
}

func TestUsage(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, "has no command"},
		{[]string{"ls", "extra"}, "takes no arguments"},
		{[]string{"ls", "--nonsense"}, "nknown flag"},
		{[]string{"show"}, "takes the id of one mission"},
		{[]string{"show", ""}, "takes the id of one mission"},
		{[]string{"allow"}, "takes the id of one approval"},
		{[]string{"allow", "x", "--digest", "d", "--for", "ever"}, `--for "ever" is not known`},
		{[]string{"steer", "x"}, "an instruction"},
		{[]string{"steer", "x", " "}, "The instruction is empty."},
		{[]string{"room", "send", "x", ""}, "The message is empty."},
		{[]string{"watch", "a", "b"}, "one mission at most"},
		{[]string{"start", "--provider", "claude"}, "needs --scope"},
		{[]string{"start", "--provider", "claude", "--scope", "x", "--minutes", "soon"}, "is not a whole number"},
		{[]string{"start", "--provider", "claude", "--scope", "x", "--memory-limit", "4"}, "is not an amount of memory"},
		{[]string{"start", "--provider", "claude", "--scope", "x", "--memory-limit", "0G"}, "is not an amount of memory"},
		{[]string{"start", "--provider", "claude", "--scope", "x", "--memory-limit", "255M"}, "is not an amount of memory"},
		{[]string{"start", "--provider", "claude", "--scope", "x", "--memory-limit", "2T"}, "is not an amount of memory"},
		{[]string{"start", "--provider", "claude", "--scope", "x", "--allow-unasked", "reads,none"}, "not a list of rules"},
	} {
		w.expect(ExitUsage, "", c.want, c.args...)
	}
}

func TestExitCodes(t *testing.T) {
	f := populated()
	w := newWorld(t, f)
	for code, want := range map[wire.Code]int{wire.CodeInvalidParams: ExitRefused, wire.CodeConflict: ExitRefused, wire.CodeForbiddenForWorkers: ExitRefused,
		wire.CodeNotFound: ExitRefused, wire.CodeAmbiguous: ExitRefused, wire.CodeInternal: ExitFailed, wire.CodeUnavailable: ExitFailed,
		wire.CodeShuttingDown: ExitUnreachable, wire.CodeApprovalRequired: ExitDenied, wire.CodeLimitExceeded: ExitRefused} {
		f.mu.Lock()
		f.refuse = wire.Errorf(code, "No, because of %s.", code)
		f.mu.Unlock()
		w.expect(want, "", "reeve: No, because of "+string(code)+".\n", "pause", "aaaaaa")
	}
	w.expect(ExitRefused, "", "There is no mission zzz.", "show", "zzz")
}

func TestLists(t *testing.T) {
	w := newWorld(t, populated())
	out, _ := w.expect(ExitOK, "Waits for you\n  ▲ needs you  aaaaaa  Port parser to Go", "", "ls")
	for _, want := range []string{"Claude Code · opus", "12 min left", "212k tokens $1.84", "wants to run go test ./... && rm -rf build",
		"Under way\n  ● working  bbbbbb  日付を直す  opencode", "editing evil‹ESC›[2J.go", "Finished today\n  ✓ done  cccccc  Fix flaky test", "3 files changed"} {
		if !strings.Contains(out, want) {
			t.Errorf("ls lacks %q:\n%s", want, out)
		}
	}
	if strings.ContainsAny(out, "\x1b\u200b") {
		t.Errorf("an escape reached the terminal: %q", out)
	}
	out, _ = w.expect(ExitOK, "Port parser to Go  ▲ needs you", "", "show", "aaaaaa")
	for _, want := range []string{"Id            m-01aaaaaa", "Folder        ~/code/parser", "Time          12 min left, ends 15:17", "Resources     3 processes, 412 MiB of 2 GiB, 1 min 12 s of 30 min CPU",
		"Limits        at most 2 GiB of memory, 30 min of processor time", "  Keep names.", "1. Keep offsets. (applied in turn 1)", "reeve allow dddddd"} {
		if !strings.Contains(out, want) {
			t.Errorf("show lacks %q:\n%s", want, out)
		}
	}
	w.expect(ExitOK, "dddddd  ▲ waits  15:04  Port parser to Go  wants to run go test", "", "approvals")
	w.expect(ExitOK, "✕  claude    Claude Code  2.1  not signed in  default endpoint  It is not signed in. Run claude once.", "", "providers")
	// In JSON the keys are those of the wire, one object a line.
	for _, c := range []struct{ args, key string }{{"ls", "missions"}, {"show aaaaaa", "mission"}, {"approvals", "approvals"}, {"providers", "providers"},
		{"service status", "service"}, {"audit verify", "entries"}, {"pause aaaaaa", "mission"}, {"version", "version"}} {
		_, out, errs := w.run(append(strings.Fields(c.args), "--json")...)
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(out), &v); err != nil || v[c.key] == nil || strings.Count(out, "\n") != 1 {
			t.Errorf("%s --json: %v %q %q", c.args, err, out, errs)
		}
	}
}

func TestEmptyLists(t *testing.T) {
	w := newWorld(t, &fake{})
	w.expect(ExitOK, "No missions yet. Try `reeve demo`", "", "ls")
	w.expect(ExitOK, "Nothing waits for you.", "", "approvals")
	w.expect(ExitOK, `{"missions":[]}`, "", "ls", "--json")
	w.expect(ExitOK, `{"approvals":[]}`, "", "approvals", "--json")
}

func TestColours(t *testing.T) {
	w := newWorld(t, populated())
	w.terminal = true
	if out, _ := w.expect(ExitOK, "\x1b[33m▲ needs you\x1b[0m", "", "ls"); strings.Contains(out, "\x1b[2J") {
		t.Errorf("the agent's escape reached the terminal: %q", out)
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		w.vars[name] = value
		if out, _ := w.expect(ExitOK, "▲ needs you", "", "ls"); strings.ContainsRune(out, 0x1b) {
			t.Errorf("colours with %s", name)
		}
		delete(w.vars, name)
	}
}

func TestAllow(t *testing.T) {
	f := populated()
	w := newWorld(t, f)
	w.terminal = true
	w.vars["NO_COLOR"] = "1"
	for _, c := range []struct {
		typed string
		code  int
		allow []bool
		err   string
	}{
		{"y\n", ExitOK, []bool{true}, ""},
		{"Yes\n", ExitOK, []bool{true}, ""},
		{"n\n", ExitDenied, []bool{false}, ""},
		{"\n", ExitDenied, []bool{false}, ""},
		{"", ExitDenied, nil, "It still waits; nothing was decided."},
		{"y", ExitDenied, nil, "It still waits; nothing was decided."},
		{"yy\n", ExitUsage, nil, "neither yes nor no"},
	} {
		f.with(func() { f.answers = nil })
		w.stdin = c.typed
		out, _ := w.expect(c.code, "Claude Code wants to run a command in ~/code/parser", c.err, "allow", "dddddd")
		var got []bool
		for _, a := range f.taken() {
			got = append(got, a.Allow)
			if a.Digest != f.asks[0].Digest || a.RequestKey == "" {
				t.Errorf("answer %+v", a)
			}
		}
		if !slices.Equal(got, c.allow) {
			t.Errorf("typed %q: answers %v, want %v", c.typed, got, c.allow)
		}
		for _, want := range []string{"Runs          go then rm", "▲ 1 character here would be invisible", "Digest        sha256 " + f.asks[0].Digest[:8]} {
			if !strings.Contains(out, want) {
				t.Errorf("allow lacks %q:\n%s", want, out)
			}
		}
		if strings.Contains(out, "\u200b") {
			t.Error("an invisible character reached the terminal")
		}
	}
	// JSON keeps to standard output, the question to standard error.
	w.stdin = "y\n"
	_, out, errs := w.run("allow", "dddddd", "--json")
	if !strings.HasPrefix(out, `{"approval":{`) || !strings.Contains(errs, "Allow once?") {
		t.Errorf("allow --json: %q %q", out, errs)
	}
}

func TestAllowByDigest(t *testing.T) {
	f := populated()
	w := newWorld(t, f)
	w.expect(ExitRefused, "", "The request changed; look at it again.", "allow", "dddddd", "--digest", "0123")
	w.expect(ExitOK, "Allowed.", "", "allow", "dddddd", "--digest", f.asks[0].Digest)
	if a := f.taken()[1]; !a.Allow || a.For != "once" {
		t.Errorf("answer %+v", a)
	}
	w.expect(ExitOK, "Denied.", "", "deny", "dddddd", "--reason", "only the lexer", "--stop")
	if a := f.taken()[2]; a.Allow || a.Reason != "only the lexer" || !a.Stop || a.Digest != f.asks[0].Digest {
		t.Errorf("answer %+v", a)
	}
}

func TestAllowRefusesWhatItCannotShow(t *testing.T) {
	f := populated()
	f.asks[0].Subject = raws(approval.Subject{Command: "ls"})[0]
	w := newWorld(t, f)
	w.terminal, w.stdin = true, "y\n"
	w.expect(ExitRefused, "", "The digest does not belong to what is shown here", "allow", "dddddd")
	if len(f.taken()) != 0 {
		t.Errorf("answered: %+v", f.taken())
	}
}

func startable() *fake {
	f := populated()
	f.list[0].Phase, f.list[0].StartedAt, f.list[0].DeadlineAt, f.list[0].Session = "proposed", nil, nil, ""
	f.asks[0] = sign(wire.Approval{ID: "q-01dddddd", Kind: "mission_start", Mission: "m-01aaaaaa", Title: "Port parser to Go", Provider: "claude", CreatedAt: at(15, 4), State: "pending"},
		approval.Subject{Mission: &approval.MissionSubject{Provider: "claude", Folder: "/home/me/code/parser", Scope: "Port it.", Minutes: 60, Instructions: "Only the scope.\nNothing else.", Prompt: "Go on."}})
	return f
}

func TestStart(t *testing.T) {
	f := startable()
	w := newWorld(t, f)
	w.vars["CLAUDE_CONFIG_DIR"] = "/cfg"
	out, _ := w.expect(ExitOK, "Nothing runs before you allow it: reeve allow dddddd", "", "start", "--provider", "claude", "--scope", "Port it.", "--allow-unasked", "none", "--minutes", "75", "--budget-usd", "2.5", "--memory-limit", "1536M", "--cpu-minutes", "30")
	for _, want := range []string{"Start this mission?", "Instructions for the agent: 2 lines, shown with --show-prompts", "Time          1 h from your answer"} {
		if !strings.Contains(out, want) {
			t.Errorf("start lacks %q:\n%s", want, out)
		}
	}
	p := f.proposed()
	if wd, _ := os.Getwd(); p.Folder != wd || p.Minutes != 75 || p.Budget.CostUSD != 2.5 || p.Limits != (wire.Limits{MemoryMB: 1536, CPUMinutes: 30}) || p.Unasked == nil || len(p.Unasked) != 0 || p.RequestKey == "" {
		t.Errorf("params %+v", p)
	}
	if want := map[string]string{"HOME": "/home/me", "PATH": "/bin", "CLAUDE_CONFIG_DIR": "/cfg"}; !maps.Equal(p.Env, want) {
		t.Errorf("environment %v", p.Env)
	}
	w.expect(ExitOK, "  Only the scope.\n  Nothing else.", "", "start", "--provider", "claude", "--scope", "x", "--show-prompts")
	out, _ = w.expect(ExitOK, `{"mission":{`, "", "start", "--provider", "claude", "--scope", "x", "--propose", "--json")
	var r wire.MissionStartResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Approval.Digest == "" {
		t.Errorf("json: %v %s", err, out)
	}
	w.stdin = "From a pipe."
	w.expect(ExitOK, "", "", "start", "--provider", "claude", "--scope", "-", "--propose")
	if f.proposed().Scope != "From a pipe." {
		t.Errorf("scope %q", f.proposed().Scope)
	}
	if len(f.taken()) != 0 {
		t.Errorf("answered without a person: %+v", f.taken())
	}
	w.terminal, w.vars["NO_COLOR"], w.stdin = true, "1", "y\n"
	w.expect(ExitOK, "Started. Follow it with: reeve watch aaaaaa", "", "start", "--provider", "claude", "--scope", "x")
	w.stdin = ""
	w.expect(ExitOK, "It still waits; nothing was decided.", "", "start", "--provider", "claude", "--scope", "x")
	w.stdin = "n\n"
	w.expect(ExitDenied, "Start it?", "You denied the mission; nothing ran.", "start", "--provider", "claude", "--scope", "x")
	f.with(func() {
		f.refuse = wire.Errorf(wire.CodeInvalidParams, "17 minutes is not a multiple of 15. Choose 15 or 30 minutes.")
	})
	w.expect(ExitRefused, "", "17 minutes is not a multiple of 15. Choose 15 or 30 minutes.", "start", "--provider", "claude", "--scope", "x", "--minutes", "17")
}

func TestDemo(t *testing.T) {
	f := startable()
	w := newWorld(t, f)
	dir := filepath.Join(t.TempDir(), "new one")
	w.sample = func(d string) error { return os.WriteFile(filepath.Join(d, "main.sh"), nil, 0o600) }
	w.expect(ExitOK, "Sample repository: "+dir, "", "demo", "--folder", dir)
	if p := f.proposed(); p.Provider != "acp:demo" || p.Folder != dir || p.Minutes != 15 || p.Scope == "" {
		t.Errorf("params %+v", p)
	}
	w.expect(ExitRefused, "", "is not empty. Choose a new directory", "demo", "--folder", dir)
}

func TestWait(t *testing.T) {
	for _, c := range []struct {
		phase, reason string
		started       bool
		code          int
	}{
		{"completed", "scope_done", true, ExitOK}, {"stopped", "deadline", true, ExitTimedOut}, {"stopped", "person", true, ExitFailed},
		{"denied", "denied", false, ExitDenied}, {"stopped", "deadline", false, ExitDenied}, {"startup_failed", "authentication_required", false, ExitFailed},
	} {
		f := startable()
		f.onAnswer = func() {
			f.mu.Lock()
			m := f.list[0]
			m.Phase, m.EndReason, m.Revision, m.EndedAt = c.phase, c.reason, 9, ptr(at(15, 4))
			if c.started {
				m.StartedAt, m.Session = ptr(at(14, 20)), "s-1"
			}
			f.list[0] = m
			f.mu.Unlock()
			f.missions.Publish(wire.EvMission, m)
		}
		w := newWorld(t, f)
		w.terminal, w.vars["NO_COLOR"], w.stdin = true, "1", "y\n"
		code, out, errs := w.run("start", "--provider", "claude", "--scope", "x", "--wait")
		if code != c.code {
			t.Errorf("%s by %s: exit %d, want %d\n%s\n%s", c.phase, c.reason, code, c.code, out, errs)
		}
		if c.started != strings.Contains(out, "I'll start with‹U+001B›[31m the lexer.") {
			t.Errorf("%s: the transcript is missing or invented:\n%s", c.phase, out)
		}
	}
}

func TestLogs(t *testing.T) {
	w := newWorld(t, populated())
	const want = `14:20 Turn 1
You: Keep offsets.
I'll start with‹U+001B›[31m the lexer.
14:20 ▸ Bash  go vet ./...
      ✕ failed, exit 1, 1.8 s
14:20 turn succeeded, 1 min, 64k tokens
`
	if out, _ := w.expect(ExitOK, "", "", "logs", "aaaaaa"); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	f := populated()
	ask := func(seq uint64, kind string, v any) {
		f.log = append(f.log, wire.Entry{Log: "a-1", Seq: seq, At: at(14, 30), Kind: kind, Data: raws(v)[0]})
	}
	read := raws(approval.Subject{Tool: "Read", Paths: []string{"/home/me/code/parser/a.go"}})[0]
	run := raws(approval.Subject{Tool: "Bash", Command: "go test"})[0]
	ask(7, wire.KindPermissionAsked, wire.Permission{Request: "q-1", Kind: "tool_call", Subject: read})
	ask(8, wire.KindPermissionResolved, wire.PermissionResolved{Request: "q-1", Outcome: "allowed", By: "rule reads"})
	ask(9, wire.KindPermissionAsked, wire.Permission{Request: "q-2", Kind: "tool_call", Subject: run})
	ask(10, wire.KindPermissionResolved, wire.PermissionResolved{Request: "q-2", Outcome: "denied", By: "reeve (pid 7)", Reason: "no"})
	ask(11, wire.KindPermissionAsked, wire.Permission{Request: "q-01dddddd", Kind: "tool_call", Subject: run})
	const asked = `      allowed unasked (reads)
▲ wants to run go test
      denied by reeve (pid 7): “no”
▲ wants to run go test  reeve allow dddddd
`
	if out, _ := newWorld(t, f).expect(ExitOK, "", "", "logs", "aaaaaa"); out != want+asked {
		t.Errorf("got\n%s\nwant\n%s", out, want+asked)
	}
	w.expect(ExitOK, "        undefined: eof\n", "", "logs", "aaaaaa", "--full")
	out, _ := w.expect(ExitOK, `"kind":"turn.started"`, "", "logs", "aaaaaa", "--json")
	if strings.Count(out, "\n") != 6 {
		t.Errorf("json lines: %s", out)
	}
}

func TestWatch(t *testing.T) {
	f := populated()
	// One that has ended is shown whole.
	f.list[0].Phase, f.list[0].EndedAt, f.list[0].EndReason = "completed", ptr(at(15, 4)), "scope_done"
	w := newWorld(t, f)
	out, _ := w.expect(ExitOK, "✓ done", "", "watch", "aaaaaa")
	if !strings.Contains(out, "14:20 ▸ Bash  go vet ./...") {
		t.Errorf("watch: %s", out)
	}
	out, _ = w.expect(ExitOK, `"event":"session.event"`, "", "watch", "aaaaaa", "--json")
	for line := range strings.Lines(out) {
		var e wire.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event == "" {
			t.Errorf("no event: %s", line)
		}
		if strings.Contains(line, "bbbbbb") {
			t.Errorf("an event of another mission: %s", line)
		}
	}
}

// A mission that ends while it is watched is shown once, whole, however its end
// and its last entries race.
func TestWatchLive(t *testing.T) {
	f := populated()
	f.onHistory = sync.OnceFunc(func() {
		f.mu.Lock()
		m := f.list[0]
		m.Phase, m.EndedAt, m.EndReason, m.Revision = "completed", ptr(at(15, 4)), "scope_done", 9
		f.list[0] = m
		f.mu.Unlock()
		f.missions.Publish(wire.EvMission, m)
	})
	w := newWorld(t, f)
	out, _ := w.expect(ExitOK, "▲ wants to run go test", "", "watch", "aaaaaa")
	for _, line := range []string{"Turn 1", "I'll start with‹U+001B›[31m the lexer.", "▸ Bash  go vet", "turn succeeded", "✓ done"} {
		if strings.Count(out, line) != 1 {
			t.Errorf("%q is shown %d times:\n%s", line, strings.Count(out, line), out)
		}
	}
	if strings.Contains(out, "日付") {
		t.Errorf("another mission is shown:\n%s", out)
	}
}

// What a snapshot repeats after a reconnection is not printed again.
func TestFollowerRepeats(t *testing.T) {
	var out bytes.Buffer
	a := &app{Env: Env{Stdout: &out, Stderr: io.Discard, Now: func() time.Time { return at(15, 5) }}}
	f := &follower{a: a, id: "m-01aaaaaa", session: "s-1", state: model.NewState(0), printer: &printer{app: a}, ended: make(chan struct{})}
	items := raws(populated().log...)
	f.Snapshot(wire.TopicSession+"s-1", items[:4], wire.PurposeAttach)
	f.Snapshot(wire.TopicSession+"s-1", items, wire.PurposeResync)
	f.Delta(wire.TopicSession+"s-1", wire.Event{Event: wire.EvSession, Data: items[5]})
	for _, line := range []string{"Turn 1", "▸ Bash", "✕ failed", "turn succeeded"} {
		if strings.Count(out.String(), line) != 1 {
			t.Errorf("%q is shown %d times:\n%s", line, strings.Count(out.String(), line), out.String())
		}
	}
}

// Ctrl-C ends watching in good order.
func TestWatchInterrupted(t *testing.T) {
	w := newWorld(t, populated())
	ctx, cancel := context.WithCancel(t.Context())
	w.ctx, w.onOutput = ctx, func(text string) {
		if strings.Contains(text, "日付") {
			cancel()
		}
	}
	out, _ := w.expect(ExitOK, "● working  日付を直す", "", "watch")
	if strings.Contains(out, "Fix flaky test") {
		t.Errorf("what had ended before is told as news:\n%s", out)
	}
}

func TestControl(t *testing.T) {
	f := populated()
	w := newWorld(t, f)
	w.expect(ExitOK, "Queued", "", "steer", "aaaaaa", "keep", "names")
	f.with(func() {
		if f.steered != "keep names" {
			t.Errorf("steered %q", f.steered)
		}
	})
	w.expect(ExitOK, "Paused: Port parser to Go. 12 min left, until 15:17.", "", "pause", "aaaaaa")
}

func TestService(t *testing.T) {
	w := newWorld(t, nil)
	w.expect(ExitOK, "", "serving "+w.vars["REEVE_STATE"]+" "+w.vars["REEVE_STATE"]+"/run/reeve.sock", "service", "run")
	w.vars["REEVE_STATE"] = "relative"
	w.expect(ExitFailed, "", "set it to an absolute path", "service", "run")
	w = newWorld(t, populated())
	w.expect(ExitOK, "Service running  1.0.0 · generation 3 · pid 42 · since 13:00", "", "service", "status")
	w.expect(ExitOK, "The service runs already.", "", "service", "start")
	w.expect(ExitOK, "The service has ended. 1 worker goes on.", "", "service", "stop")
}

// The service is started as a program of its own, and "started" is said only
// when it answers.
func TestServiceStart(t *testing.T) {
	w := newWorld(t, nil)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.exe = exe
	t.Setenv("REEVE_STATE", w.vars["REEVE_STATE"])
	t.Setenv(serveVar, "owned")
	w.expect(ExitOwned, "", "The service ended at once. A service with pid 1 already runs.", "service", "start")
	t.Setenv(serveVar, "yes")
	w.expect(ExitOK, "Service running", "", "service", "start")
	w.expect(ExitOK, "The service has ended.", "", "service", "stop")
	w.exe = filepath.Join(t.TempDir(), "missing")
	w.expect(ExitFailed, "", "Start the service: fork/exec", "service", "start")
}

func TestVersionFlag(t *testing.T) {
	w := newWorld(t, nil)
	_, want, _ := w.run("version")
	w.expect(ExitOK, want, "", "--version")
	w.expect(ExitOK, want, "", "-v")
}

func TestDoctor(t *testing.T) {
	f := &fake{checks: []wire.Check{{Name: "journal", OK: true, Message: "The database is sound."}}}
	w := newWorld(t, f)
	w.expect(ExitOK, "✓ journal             The database is sound.", "", "doctor")
	// What is only not there has no sign that it was found, and long names keep the column.
	f.with(func() {
		f.checks = append(f.checks, wire.Check{Name: "provider acp:claude-agent-acp", OK: true, Message: "It is not installed.", Fix: "Install it."})
	})
	w.expect(ExitOK, "✓ journal                        The database is sound.\n– provider acp:claude-agent-acp  It is not installed.\n                                 Install it.\n", "", "doctor")
	f.with(func() {
		f.checks = f.checks[:1]
		f.checks[0] = wire.Check{Name: "journal", Message: "It is damaged", Fix: "Restore the backup."}
	})
	w.expect(ExitFailed, "Restore the backup.", "1 thing needs to be mended", "doctor")
	// Without a service the program looks by itself.
	w = newWorld(t, nil)
	w.expect(ExitFailed, "Run `reeve service start`.", "1 thing needs", "doctor")
	w.state = []wire.Check{{Name: "journal", Message: w.vars["REEVE_STATE"] + " is damaged", Fix: "Put a backup in its place."}}
	w.expect(ExitFailed, "Put a backup in its place.", "2 things need", "doctor")
}

func TestInternalPrograms(t *testing.T) {
	w := newWorld(t, nil)
	w.expect(9, "--inner|/x/a-1", "", "guard", "--inner", "/x/a-1")
	w.expect(ExitOK, "", "", "demo-agent")
	if out, _ := w.expect(ExitOK, "Usage", "", "--help"); strings.Contains(out, "guard") || strings.Contains(out, "demo-agent") {
		t.Errorf("internal commands are shown:\n%s", out)
	}
}

// Every command that a person can run has help with an example.
func TestHelp(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if !c.Hidden && (c.Short == "" || c.Example == "") {
			t.Errorf("%s has no help or no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	a := &app{}
	check(a.root())
	w := newWorld(t, nil)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, errs := w.run("completion", shell); code != ExitOK || !strings.Contains(out, "reeve") {
			t.Errorf("completion %s: %d %s", shell, code, errs)
		}
	}
}

// TestRefusalsAreClean: what the service says may hold names that workers gave
// their processes, and a terminal obeys what stands in them.
func TestRefusalsAreClean(t *testing.T) {
	a := &app{began: true}
	for _, err := range []error{wire.Errorf(wire.CodeConflict, "sh\x1b[2J (pid 4) is left"), errors.New("sh\x1b[2J (pid 4) is left")} {
		if f := a.failure(err); strings.Contains(f.What, "\x1b") || !strings.Contains(f.What, "‹U+001B›[2J (pid 4)") {
			t.Errorf("%q", f.What)
		}
	}
}

// A file of a worktree goes by where it lies in it.
func TestApprovalsOfAWorktree(t *testing.T) {
	f := populated()
	f.list[0].Worktree = &wire.Worktree{Path: "/home/me/code/parser.reeve/port", State: "made"}
	f.asks[0] = sign(f.asks[0], approval.Subject{Tool: "Edit", Paths: []string{"/home/me/code/parser.reeve/port/lexer.go"}, Diff: "+a\n"})
	newWorld(t, f).expect(ExitOK, "wants to change lexer.go", "", "approvals")
}
