package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

// claudeMachine is a machine with the real Claude Code program.
func claudeMachine(t *testing.T) (*machine, *modelstub.Server, *view, func(folder, scope string) wire.MissionStartParams) {
	t.Helper()
	return agentMachine(t, "REEVE_TEST_CLAUDE", wire.MissionStartParams{Provider: "claude"}, func(api string) map[string]string {
		return map[string]string{"ANTHROPIC_BASE_URL": api, "ANTHROPIC_API_KEY": "test-key-not-a-secret"}
	})
}

// codexMachine is a machine with the real Codex program.
func codexMachine(t *testing.T) (*machine, *modelstub.Server, *view, func(folder, scope string) wire.MissionStartParams) {
	t.Helper()
	return agentMachine(t, "REEVE_TEST_CODEX", wire.MissionStartParams{Provider: "codex", Model: "gpt-5.5"}, func(api string) map[string]string {
		return map[string]string{"OPENAI_BASE_URL": api + "/v1", "OPENAI_API_KEY": "test-key-not-a-secret"}
	})
}

// agentMachine runs a service beside a stand-in for the model API, with the
// agent program that variable names on the path. It returns what makes the
// terms of a mission, with the variables that lead the program to the stand-in.
func agentMachine(t *testing.T, variable string, terms wire.MissionStartParams, env func(api string) map[string]string) (*machine, *modelstub.Server, *view, func(folder, scope string) wire.MissionStartParams) {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s must name the program of %s; make test sets it", variable, terms.Provider)
	}
	stub, err := modelstub.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stub.Close)
	m := newMachine(t)
	tools := filepath.Join(m.dir, "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(tools, terms.Provider)); err != nil {
		t.Fatal(err)
	}
	m.start()
	return m, stub, m.watch(), func(folder, scope string) wire.MissionStartParams {
		p := terms
		p.Folder, p.Scope, p.Minutes = folder, scope, 15
		p.Env = env(stub.URL())
		p.Env["PATH"], p.Env["HOME"], p.Env["LANG"] = tools+":"+os.Getenv("PATH"), m.home, "C.UTF-8"
		return p
	}
}
