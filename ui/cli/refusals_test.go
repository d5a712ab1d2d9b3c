package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

// The name that help gives a flag's value is one word: words in backquotes
// inside its text would take its place.
func TestFlagValueNames(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
				t.Errorf("%s --%s %s", c.CommandPath(), f.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check((&app{}).root())
}

func TestUnknownCommands(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		args string
		want string
	}{
		{"nonsense", "reeve: `reeve` has no command \"nonsense\". Run `reeve --help` to see the commands.\n"},
		{"strat", "`reeve` has no command \"strat\". Did you mean start?"},
		{"help bogus", "`reeve` has no command \"bogus\"."},
		{"help aprovals", "Did you mean approvals?"},
		{"help service stats", "`reeve service` has no command \"stats\". Did you mean start or status?"},
		{"service nonsense", "`reeve service` has no command \"nonsense\". Run `reeve service --help`"},
		{"service stat", "Did you mean start, stop or status?"},
		{"audit verfy", "`reeve audit` has no command \"verfy\". Did you mean verify?"},
		{"providers x", "`reeve providers` has no command \"x\". Run `reeve providers --help` to see the commands.\n"},
		{"ls x", "`reeve ls` takes no arguments. Run `reeve ls --help`.\n"},
		{"service status x", "`reeve service status` takes no arguments."},
		{"help ls x", "`reeve ls` takes no arguments."},
		{"bogus \x1b[2J", "bogus"},
		{"\x1b[2J", `\x1b[2J`},
	} {
		if _, errs := w.expect(ExitUsage, "", c.want, strings.Split(c.args, " ")...); strings.Contains(errs, "\x1b") {
			t.Errorf("an escape reached the terminal: %q", errs)
		}
	}
	w.expect(ExitOK, "reeve service start", "", "help", "service")
	w.expect(ExitOK, "Available Commands", "", "help")
}

func TestWrongNumbers(t *testing.T) {
	f := startable()
	w := newWorld(t, f)
	start := func(args ...string) []string {
		return append([]string{"start", "--provider", "claude", "--scope", "x"}, args...)
	}
	const minutes = "(minutes until it is stopped, 15 to 240 in steps of 15)"
	w.expect(ExitUsage, "", `reeve: --minutes "abc" is not a whole number `+minutes+". Run `reeve start --help`.\n", start("--minutes", "abc")...)
	w.expect(ExitUsage, "", `--minutes "1.5" is not a whole number`, start("--minutes", "1.5")...)
	w.expect(ExitUsage, "", `--minutes "99999999999999999999" is not a whole number`, start("--minutes", "99999999999999999999")...)
	w.expect(ExitUsage, "", `--budget-usd "much" is not a number`, start("--budget-usd", "much")...)
	w.expect(ExitUsage, "", `--wait "perhaps" is neither true nor false`, start("--wait=perhaps")...)
	// Absent, the service takes 60; a zero that was typed is a mistake.
	const short = "A mission of 0 minutes is too short. Choose 15 to 240 minutes"
	w.expect(ExitRefused, "", short, start("--minutes", "0")...)
	w.sample = func(string) error { return nil }
	w.expect(ExitRefused, "", short, "demo", "--minutes", "0", "--folder", filepath.Join(t.TempDir(), "new"))
	f.with(func() {
		if f.started != nil {
			t.Errorf("proposed %+v", f.started)
		}
	})
}

// JSON would replace bytes that are no UTF-8, so what a person approves would
// not be what they wrote.
func TestInvalidText(t *testing.T) {
	f := startable()
	w := newWorld(t, f)
	w.stdin = "Mend caf\xe9."
	const want = "is not valid UTF-8 at byte 8. "
	w.expect(ExitRefused, "", "The scope "+want, "start", "--provider", "claude", "--scope", "-")
	w.expect(ExitRefused, "", "The scope "+want, "start", "--provider", "claude", "--scope", w.stdin)
	w.expect(ExitRefused, "", "The instruction "+want, "steer", "aaaaaa", w.stdin)
	w.expect(ExitRefused, "", "The reason "+want, "deny", "dddddd", "--reason", w.stdin)
	w.expect(ExitRefused, "", "The answer "+want, "allow", "dddddd", "--digest", "d", "--text", w.stdin)
	f.with(func() {
		if f.started != nil || f.steered != "" || len(f.answers) != 0 {
			t.Error("an altered text was sent")
		}
	})
}

func TestStopEnded(t *testing.T) {
	w := newWorld(t, populated())
	w.expect(ExitOK, "Fix flaky test had ended already: done 14:38.", "", "stop", "cccccc")
	w.expect(ExitOK, "Stopped: Port parser to Go.", "", "stop", "aaaaaa")
}

func TestAnsweredStarts(t *testing.T) {
	f := startable()
	f.asks[0].State, f.asks[0].Answer = "allowed", &wire.Answer{At: at(15, 4), Via: "program", Program: "reeve", PID: 7}
	w := newWorld(t, f)
	out, _ := w.expect(ExitOK, "asked to start", "", "approvals", "--all")
	if strings.Contains(out, "waits for your") {
		t.Errorf("what was answered still waits:\n%s", out)
	}
}

// Without a terminal the whole subject is shown, and what would answer it.
func TestAllowWithoutTerminal(t *testing.T) {
	f := populated()
	w := newWorld(t, f)
	digest := f.asks[0].Digest
	answer := "Nothing was decided: there is no terminal to ask on. Allow exactly this with: reeve allow dddddd --digest " + digest
	out, _ := w.expect(ExitDenied, "go test ./... && rm -rf build‹", answer, "allow", "dddddd")
	if strings.Contains(out, "\u200b") {
		t.Error("an invisible character reached the output")
	}
	out, errs := w.expect(ExitDenied, `{"approval":{`, answer, "allow", "dddddd", "--json")
	if strings.Count(out, "\n") != 1 || !strings.Contains(errs, "rm -rf build‹") {
		t.Errorf("json: %q %q", out, errs)
	}
	w.expect(ExitRefused, "", "There is no approval zzzzzz.", "allow", "zzzzzz")
	f.with(func() { f.asks[0].State = "denied" })
	w.expect(ExitRefused, "rm -rf build‹", "It was denied.", "allow", "dddddd")
	w = newWorld(t, startable())
	w.expect(ExitDenied, "  Only the scope.\n  Nothing else.", "--digest", "allow", "dddddd")
	if len(f.taken()) != 0 {
		t.Errorf("answered: %+v", f.taken())
	}
}

// Reasons are words, not the names that the protocol has for them.
func TestEndOfLog(t *testing.T) {
	for reason, want := range map[string]string{"scope_done": "the whole scope is done", "person": "stopped by you", "deadline": "at its deadline",
		"budget": "its budget was used", "authority": "lost its authority", "some_thing": "some thing"} {
		f := populated()
		f.log = []wire.Entry{{Log: "a-1", Seq: 1, At: at(14, 20), Kind: wire.KindSessionEnded, Data: raws(wire.SessionEnded{Reason: reason})[0]}}
		w := newWorld(t, f)
		if out, _ := w.expect(ExitOK, "The worker ended: ", "", "logs", "aaaaaa"); !strings.Contains(out, want) || strings.Contains(out, "_") {
			t.Errorf("%s: %s", reason, out)
		}
	}
}

func TestProvidersReady(t *testing.T) {
	w := newWorld(t, populated())
	w.expect(ExitOK, "✓  acp:demo  Demo agent   1    ready", "", "providers")
}

func TestServiceLogs(t *testing.T) {
	w := newWorld(t, nil)
	w.expect(ExitFailed, "", "There is no log yet", "service", "logs")
	dir := filepath.Join(w.vars["REEVE_STATE"], "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for range 100_000 {
		b.WriteString("an older line\n")
	}
	b.WriteString("one\ntwo \x1b[2J\u202e\nthree\nunfinished")
	if err := os.WriteFile(filepath.Join(dir, "service.log"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := w.expect(ExitOK, "two ‹", "", "service", "logs", "-n", "3")
	if lines := strings.Split(out, "\n"); len(lines) != 4 || lines[1] != "three" || lines[2] != "unfinished" || strings.ContainsAny(out, "\x1b\u202e") {
		t.Errorf("%q", out)
	}
	if out, _ := w.expect(ExitOK, "", "", "service", "logs"); strings.Count(out, "\n") != 50 {
		t.Errorf("%d lines", strings.Count(out, "\n"))
	}
	if out, _ := w.expect(ExitOK, "", "", "service", "logs", "-n", "2000000"); strings.Count(out, "\n") != 100_004 {
		t.Errorf("%d lines", strings.Count(out, "\n"))
	}
	out, _ = w.expect(ExitOK, `{"line":"unfinished"}`, "", "service", "logs", "-n", "1", "--json")
	if strings.Count(out, "\n") != 1 {
		t.Errorf("json: %s", out)
	}
	w.expect(ExitUsage, "", "-n takes", "service", "logs", "-n", "0")
	w.expect(ExitUsage, "", "-n \"x\" is not a whole number", "service", "logs", "-n", "x")
}

// The keys that programs rely on are there even when there is nothing to say.
func TestStableKeys(t *testing.T) {
	f := populated()
	f.list = []wire.Mission{{ID: "m-01aaaaaa"}}
	f.checks = []wire.Check{{Name: "x", OK: true}}
	keys := func(data []byte) (out map[string]json.RawMessage) {
		if err := json.Unmarshal(data, &out); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		return out
	}
	need := func(what string, got map[string]json.RawMessage, names string) {
		for name := range strings.FieldsSeq(names) {
			if _, ok := got[name]; !ok {
				t.Errorf("%s lacks %s", what, name)
			}
		}
	}
	w := newWorld(t, f)
	_, out, _ := w.run("show", "aaaaaa", "--json")
	m := keys(keys([]byte(out))["mission"])
	need("a mission", m, `id phase provider model endpoint folder scope started_at deadline_at remaining_seconds requested_model actual_model
		activity usage failure steering permission_denials contact_known delivery checkout_owned recovered last_result recovery_ref`)
	need("denials", keys(m["permission_denials"]), "count tools last_at")
	need("an activity", keys(raws(wire.Activity{})[0]), "tool at")
	_, out, _ = w.run("doctor", "--json")
	var checks []map[string]json.RawMessage
	if err := json.Unmarshal(keys([]byte(out))["checks"], &checks); err != nil || len(checks) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range checks {
		need("a check", c, "name ok message fix")
	}
	const service = "registered running version generation pid socket started_at"
	_, out, _ = w.run("service", "status", "--json")
	need("the service", keys(keys([]byte(out))["service"]), service)
	_, out, _ = newWorld(t, nil).run("service", "status", "--json")
	s := keys(keys([]byte(out))["service"])
	need("a stopped service", s, service)
	if string(s["started_at"]) != "null" || string(s["registered"]) != "false" {
		t.Errorf("a stopped service: %s", out)
	}
}

func lost() *fake {
	f := populated()
	m := &f.list[0]
	m.Phase, m.Recovery, m.RecoveryRef, m.Failure = "blocked", "approval_required", "r-1", &wire.Failure{Message: "The worker was killed."}
	m.Turns[0].EndedAt, m.Turns[0].Outcome = ptr(at(15, 4)), "interrupted"
	m.Steering = append(m.Steering, wire.Steering{ID: 2, Text: "Skip\x1b[2J it.", State: "unconfirmed"})
	f.asks = nil
	return f
}

// A mission of very many turns says how many are not listed.
func TestShowOlderTurns(t *testing.T) {
	f := populated()
	f.list[0].Turn, f.list[0].Turns[0].Number = 2301, 2301
	out, _ := newWorld(t, f).expect(ExitOK, "", "", "show", "aaaaaa")
	if !strings.Contains(out, "Turns\n  2300 earlier turns are not listed; the totals count them.\n  2301 ") {
		t.Errorf("show says:\n%s", out)
	}
}

// A mission that lost its worker says what happened, what is uncertain, and
// what can be done.
func TestShowRecoverable(t *testing.T) {
	f := lost()
	w := newWorld(t, f)
	out, _ := w.expect(ExitOK, "Port parser to Go  ▲ can be recovered\nThe worker was killed.\n", "", "show", "aaaaaa")
	for _, want := range []string{"Uncertain\n  Turn 1 may have done work that was not recorded.\n  It is not known whether the agent saw “Skip‹U+001B›[2J it.”.\n",
		"Go on with it: reeve recover aaaaaa    Give it up: reeve cancel aaaaaa\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("show lacks %q:\n%s", want, out)
		}
	}
	w.expect(ExitOK, "▲ can be recovered  aaaaaa", "", "ls")
	f.with(func() { f.list[0].Recovery, f.list[0].RecoveryRef = "expired", "" })
	if out, _ := w.expect(ExitOK, "Its time is over. Give it up: reeve cancel aaaaaa\n", "", "show", "aaaaaa"); strings.Contains(out, "reeve recover") {
		t.Errorf("an expired mission offers to recover:\n%s", out)
	}
}

func TestRecover(t *testing.T) {
	f := lost()
	f.asks = []wire.Approval{sign(wire.Approval{ID: "q-01eeeeee", Kind: "mission_recover", Mission: "m-01aaaaaa", Title: "Port parser to Go", Provider: "claude", Attempt: "a-1", TurnNo: 1,
		CreatedAt: at(15, 4), ExpiresAt: ptr(at(15, 17)), State: "pending"},
		approval.Subject{Mission: &approval.MissionSubject{Provider: "claude", Folder: "/home/me/code/parser", Scope: "Port it.", Minutes: 60, Notes: []string{"Turn 1 may have finished work."}}})}
	w := newWorld(t, f)
	w.terminal, w.vars["NO_COLOR"], w.stdin = true, "1", "y\n"
	w.vars["ANTHROPIC_API_KEY"] = "sk-own"
	out, _ := w.expect(ExitOK, "▲ Recover this mission?\nClaude Code would go on in ~/code/parser\n", "", "recover", "aaaaaa")
	for _, want := range []string{"\n▲ Before you answer\n  Turn 1 may have finished work.\n", "Recover it? [y/N", "Recovered. Follow it with: reeve watch aaaaaa", "until 15:17, as before"} {
		if !strings.Contains(out, want) {
			t.Errorf("recover lacks %q:\n%s", want, out)
		}
	}
	if i, j := strings.Index(out, "Before you answer"), strings.Index(out, "Scope"); i < 0 || i > j {
		t.Errorf("what is uncertain does not come first:\n%s", out)
	}
	// As with a start: what of the environment an agent may get, and nothing else.
	f.with(func() {
		if want := map[string]string{"HOME": "/home/me", "PATH": "/bin", "NO_COLOR": "1", "ANTHROPIC_API_KEY": "sk-own"}; !maps.Equal(f.recovered.Env, want) {
			t.Errorf("environment %v", f.recovered.Env)
		}
	})
	w.stdin = "n\n"
	w.expect(ExitDenied, "", "You denied the recovery; the mission stays as it is.", "recover", "aaaaaa")
	if len(f.taken()) != 2 {
		t.Errorf("answers %+v", f.taken())
	}
}
