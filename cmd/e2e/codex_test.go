package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

// directive scripts a call of one of Codex's tools.
func directive(t *testing.T, tool string, input any) string {
	t.Helper()
	b, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return "<<tool:" + tool + " " + string(b) + ">>"
}

// TestCodexMission is the whole product with the real Codex: it edits after an
// allow, runs one command after an allow, is denied another and hears why, and
// goes on in a second turn of the same conversation.
func TestCodexMission(t *testing.T) {
	t.Parallel()
	m, stub, v, terms := codexMachine(t)
	repo := m.repo("a repo")
	notes := filepath.Join(repo, "notes.txt")
	run := func(line string) string { return directive(t, "exec_command", map[string]string{"cmd": line}) }
	scope := "Improve the notes.\n<<turn:1>>" +
		directive(t, "apply_patch", "*** Begin Patch\n*** Update File: notes.txt\n@@\n-beta\n+gamma\n*** End Patch") +
		run("wc -l notes.txt") + run("touch forbidden.txt") +
		"<<say:The notes are better.\nWORK_NEXT: waiting>>\n<<turn:2>><<say:I have seen the instruction.\nWORK_NEXT: done>>"
	mi := v.begin(terms(repo, scope))

	edit, es := v.asked(mi.ID, "gamma")
	if edit.Kind != "file_change" || !strings.Contains(es.Diff, "-beta") || !strings.Contains(es.Diff, "+gamma") {
		t.Errorf("edit: %s\n%s", edit.Kind, es.Diff)
	}
	if b, _ := os.ReadFile(notes); strings.Contains(string(b), "gamma") {
		t.Error("the edit happened before it was allowed")
	}
	v.answer(edit, wire.AnswerParams{Allow: true})
	count, cs := v.asked(mi.ID, "wc -l notes.txt")
	if count.Kind != "tool_call" || cs.Command != "wc -l notes.txt" {
		t.Errorf("command: %+v", cs)
	}
	v.answer(count, wire.AnswerParams{Allow: true})
	touch, _ := v.asked(mi.ID, "touch forbidden.txt")
	v.answer(touch, wire.AnswerParams{Allow: false, Reason: "no new files, please"})

	waiting := v.turned(mi.ID, 1, "waiting")
	if b, _ := os.ReadFile(notes); string(b) != "alpha\ngamma\n" {
		t.Errorf("notes.txt: %q", b)
	}
	if _, err := os.Stat(filepath.Join(repo, "forbidden.txt")); err == nil {
		t.Error("a denied command ran")
	}
	if waiting.Denials.Count != 1 {
		t.Errorf("denials: %+v", waiting.Denials)
	}
	entry(v, mi, wire.KindToolFinished, func(f wire.ToolFinished) bool { return f.Status == "denied" })

	do[wire.MissionResult](v, wire.MethodMissionSteer, wire.SteerParams{ID: mi.ID, Text: "Keep it short."})
	end := v.phase(mi.ID, "completed")
	if end.EndReason != "scope_done" || end.Turn != 2 || end.Steering[0].State != "applied" {
		t.Errorf("end: %+v", end)
	}
	if end.Usage.Output == nil || *end.Usage.Output != 5*modelstub.OutputTokens || end.ActualModel != "gpt-5.5" {
		t.Errorf("usage %+v, model %q", end.Usage, end.ActualModel)
	}
	if !asked(stub, func(r modelstub.Request) []string { return r.Texts }, "Keep it short.", "no new files, please") {
		t.Errorf("the agent heard something else: %+v", stub.Requests())
	}
	v.settled(end)
	m.noSecrets(t, "test-key-not-a-secret")
}

// TestCodexPause interrupts a long stream and goes on later.
func TestCodexPause(t *testing.T) {
	t.Parallel()
	m, _, v, terms := codexMachine(t)
	repo := m.repo("repo")
	mi := v.begin(terms(repo, "Talk. <<turn:1>><<slow:600:100>> <<turn:2>><<say:Done.\nWORK_NEXT: done>>"))
	entry(v, mi, wire.KindText, func(x wire.Text) bool { return strings.Contains(x.Text, "piece") })
	paused := do[wire.MissionResult](v, wire.MethodMissionPause, wire.MissionParams{ID: mi.ID}).Mission
	if paused.Phase != "paused" || paused.Turns[0].Outcome != "interrupted" {
		t.Fatalf("paused: %+v", paused)
	}
	v.noProvider(paused)
	do[wire.MissionResult](v, wire.MethodMissionResume, wire.MissionParams{ID: mi.ID})
	v.settled(v.phase(mi.ID, "completed"))
}

// TestCodexStop stops a mission inside a command that has descendants in
// sessions of their own, which Codex itself would leave running.
func TestCodexStop(t *testing.T) {
	t.Parallel()
	m, _, v, terms := codexMachine(t)
	repo := m.repo("repo")
	// The command says through a pipe that it runs; opening waits for it.
	fifo := filepath.Join(repo, "here")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	command := "setsid sh -c 'sleep 4242 & sleep 4243' & echo started > here; sleep 4244"
	mi := v.begin(terms(repo, "Wait. "+directive(t, "exec_command", map[string]any{"cmd": command, "yield_time_ms": 30000})))
	ask, s := v.asked(mi.ID, "sleep 4244")
	if s.Command != command {
		t.Errorf("shown %q, runs %q", s.Command, command)
	}
	v.answer(ask, wire.AnswerParams{Allow: true})
	if said := m.told(fifo); said != "started" {
		t.Fatalf("the command said %q", said)
	}
	end := do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID}).Mission
	if end.Phase != "stopped" || end.EndReason != "person" {
		t.Fatalf("end: %s %s", end.Phase, end.EndReason)
	}
	v.noProvider(end)
	v.settled(v.phase(mi.ID, "stopped"))
}

// TestCodexRoom has Codex use Reeve's own MCP server, unasked, and answer the
// person who wrote to it in the room. The files for other bridges are there
// while it works, and nobody sees them.
func TestCodexRoom(t *testing.T) {
	t.Parallel()
	m, stub, v, terms := codexMachine(t)
	repo := m.repo("repo")
	roomMission(t, v, stub, terms, repo, func(tool string, input any) string { return directive(t, "mcp__reeve/"+tool, input) })
	noContext(t, repo)
}

func contextFiles(repo string) []string {
	ours, _ := filepath.Glob(filepath.Join(repo, ".reeve-*"))
	theirs, _ := filepath.Glob(filepath.Join(repo, ".letagents-*"))
	return append(ours, theirs...)
}

func noContext(t *testing.T, repo string) {
	t.Helper()
	if left := contextFiles(repo); len(left) > 0 {
		t.Errorf("left in the checkout: %q", left)
	}
}

// TestCodexContextAfterACrash kills a guard: what it had put into the checkout for
// bridges, which was no change of the agent's, goes with it.
func TestCodexContextAfterACrash(t *testing.T) {
	t.Parallel()
	m, _, v, terms := codexMachine(t)
	repo := m.repo("repo")
	mi := v.begin(terms(repo, "Wait. "+directive(t, "exec_command", map[string]string{"cmd": "touch made.txt"})))
	v.asked(mi.ID, "touch made.txt")
	if got := contextFiles(repo); len(got) != 4 {
		t.Errorf("in the checkout are %q", got)
	}
	if r := do[wire.ChangesResult](v, wire.MethodMissionChanges, wire.ChangesParams{ID: mi.ID}); len(r.Files) != 0 {
		t.Errorf("they are shown as changes: %+v", r.Files)
	}
	if err := syscall.Kill(m.guardOf(mi.Attempt).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	v.lost(mi.ID)
	noContext(t, repo)
	v.settled(do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID}).Mission)
}
