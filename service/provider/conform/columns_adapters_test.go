package conform_test

import (
	"os"
	"path/filepath"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
)

// entry is a ready entry for an ACP agent.
func entry(name string) func(string) provider.Provider {
	return func(string) provider.Provider {
		for _, a := range acp.Ready() {
			if a.Name == name {
				return acp.New(a)
			}
		}
		panic("there is no entry " + name)
	}
}

// adapters are the programs that put other agents behind ACP: they are asked for
// the same things as those, in the same words.
func adapters(claude, codex column) []column {
	claude.name, claude.binary, claude.new = "claude-acp", "REEVE_TEST_CLAUDE_ACP", entry("claude-agent-acp")
	claude.agent, claude.program, claude.refuses = true, "claude-agent-acp", ".claude/settings.json"

	own := scripted(column{}, func(line string) string { return call("shell_command", map[string]any{"command": line}) })
	codex.name, codex.binary, codex.new = "codex-acp", "REEVE_TEST_CODEX_ACP", entry("codex-acp")
	codex.agent, codex.program, codex.refuses, codex.joint, codex.lingers = true, "codex-acp", ".codex", true, true
	codex.commands, codex.parallel = own.commands, own.parallel
	codex.in = func(dir, line string) string {
		return call("shell_command", map[string]any{"command": line, "workdir": dir}) + "<<say:end>>"
	}
	// It ships without the sandbox, which Codex by itself brings along.
	codex.settings = func(w *world) {
		w.spec.Env[0] = "PATH=" + filepath.Join(filepath.Dir(filepath.Dir(os.Getenv("REEVE_TEST_CODEX"))), "codex-resources") + ":" + os.Getenv("PATH")
	}
	codex.na = map[string]string{
		"steer in a turn": "its protocol has no such verb", "usage per turn": "it reports no usage of a turn",
	}
	codex.served, codex.question = true, call("mcp__reeve/"+wire.MCPAskQuestion, colours)+"<<say:end>>"
	return []column{claude, codex}
}
