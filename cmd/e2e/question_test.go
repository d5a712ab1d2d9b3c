package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

// colour is what agents ask in these tests.
const colour = `{"question":"Which colour?","options":["red","blue"]}`

// askedColour is the question as a person gets it.
func (v *view) askedColour(mission string) wire.Approval {
	v.m.t.Helper()
	a, s := v.asked(mission, "Which colour?")
	if a.Kind != string(approval.QuestionAsked) || s.Question == nil || s.Question.Text != "Which colour?" || strings.Join(s.Question.Options, " ") != "red blue" {
		v.m.t.Errorf("asked %+v, %+v", a, s.Question)
	}
	return a
}

// TestQuestion has a worker ask the person by Reeve's own server: the question
// outlives a killed service, its worker can't answer it, and it is withdrawn with
// its turn.
func TestQuestion(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	r := v.worker(m.repo("repo"), waitsForNews)
	id := r.mission.ID
	ask := order{Tool: wire.MCPAskQuestion, Input: []byte(colour)}
	r.order(ask)
	before := v.askedColour(id)
	v.restart()
	a := v.askedColour(id)
	if a.ID != before.ID || a.Digest != before.Digest {
		t.Errorf("after a restart it is %s, not %s", a.ID, before.ID)
	}
	v.answer(a, wire.AnswerParams{Allow: true, Text: "blue"})
	if got := r.heard(); got.Text != `{"answer":"blue","answered":true,"reason":""}` {
		t.Errorf("the agent heard %+v", got)
	}
	r.order(ask)
	b := v.askedColour(id)
	if b.ID == a.ID {
		t.Error("an answered question was not asked anew")
	}
	do[wire.MissionResult](v, wire.MethodMissionPause, wire.MissionParams{ID: id})
	v.wait("the withdrawal", func() bool { return v.approvals[b.ID].State == string(approval.Withdrawn) })

	// The demo agent has no dialog, so its server offers it the tool.
	demo := v.begin(m.demoTerms(m.repo("demo"), "demo:mcp "+wire.MCPAskQuestion+" "+colour))
	call, _ := v.asked(demo.ID, wire.MCPAskQuestion)
	if call.Kind != string(approval.ToolCall) {
		t.Errorf("first it asks for %+v", call)
	}
	v.answer(call, wire.AnswerParams{Allow: true})
	v.answer(v.askedColour(demo.ID), wire.AnswerParams{Allow: true, Text: "red"})
	v.phase(demo.ID, "completed")
	entry(v, demo, wire.KindToolFinished, func(f wire.ToolFinished) bool { return strings.Contains(f.Output, "red") })
}

// TestQuestionOfRealAgents is the same with the real programs that have no dialog,
// which ask for nothing else before.
func TestQuestionOfRealAgents(t *testing.T) {
	for _, c := range []struct {
		name, binary, tool, endpoint string
		env                          map[string]string
	}{
		{"gemini", "REEVE_TEST_GEMINI", "mcp_reeve_" + wire.MCPAskQuestion, "", map[string]string{"GEMINI_API_KEY": "test-key-not-a-secret"}},
		{"codex-acp", "REEVE_TEST_CODEX_ACP", "mcp__reeve/" + wire.MCPAskQuestion, "/v1", map[string]string{"OPENAI_API_KEY": "test-key-not-a-secret"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := os.Getenv(c.binary)
			if path == "" {
				t.Skipf("%s names no program of it; make test-providers does", c.binary)
			}
			t.Parallel()
			stub, err := modelstub.New()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stub.Close)
			m := newMachine(t)
			tools, settings := filepath.Join(m.dir, "tools"), filepath.Join(m.home, ".gemini", "settings.json")
			for _, dir := range []string{tools, filepath.Dir(settings)} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(path, filepath.Join(tools, c.name)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(settings, []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			v := m.start().watch()
			env := map[string]string{"PATH": tools + ":" + os.Getenv("PATH"), "HOME": m.home, "LANG": "C.UTF-8"}
			for k, value := range c.env {
				env[k] = value
			}
			mi := v.begin(wire.MissionStartParams{
				Provider: "acp:" + c.name, Model: map[string]string{"gemini": "gemini-2.5-pro", "codex-acp": "gpt-5.5"}[c.name],
				Endpoint: stub.URL() + c.endpoint, Folder: m.repo("repo"), Minutes: 15, Env: env,
				Scope: "Ask.\n<<tool:" + c.tool + " " + colour + ">><<say:Thanks.\nWORK_NEXT: done>>",
			})
			before := v.askedColour(mi.ID)
			v.restart()
			a := v.askedColour(mi.ID)
			if a.ID != before.ID {
				t.Errorf("after a restart it is %s, not %s", a.ID, before.ID)
			}
			v.answer(a, wire.AnswerParams{Allow: true, Text: "blue"})
			v.phase(mi.ID, "completed")
			if !asked(stub, func(r modelstub.Request) []string { return r.Results }, "blue") {
				t.Error("the model did not hear the answer")
			}
			if list := do[wire.ApprovalListResult](v, wire.MethodApprovalList, wire.ApprovalListParams{Mission: mi.ID, All: true}).Approvals; len(list) != 2 {
				t.Errorf("there were approvals beside the start and the question: %+v", list)
			}
		})
	}
}
