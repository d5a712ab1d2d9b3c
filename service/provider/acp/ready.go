package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/claudevars"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

// hardening is what Reeve knows about a ready agent beside the protocol: how it
// is made to ask, and what of a repository it would run or obey.
type hardening struct {
	install string // the sentence that says how to install it
	note    string // what a person should know before a start
	all     bool   // it asks for every tool
	joint   bool   // its denial of one call refuses all others that wait
	// endpoint is the variable with the API base URL, "" if it has none.
	endpoint string
	// reads finds the URL that the agent would use by itself, "" for its maker's,
	// where that is not the variable alone.
	reads   func(get func(string) string) string
	presets bool // each of its modes asks for less; the session that asks is in none
	names   bool // it says in the input of a call which server's tool it is
	dialogs bool // its agent has a way of its own to ask the person
	forms   bool // it asks questions by forms
	exits   bool // a command that it calls completed ended with 0
	steers  bool // it takes instructions into a running turn
	// hostile are files and directories of a repository that the agent would
	// load and that nothing else keeps it from.
	hostile []string
	instead string // what to do where there is one
	// stays: the program is kept between turns, as its sessions can't be loaded
	// for each. Gemini CLI takes a session that was loaded once for damaged, and
	// removes it when it starts the next time.
	stays bool
	// prepare makes what the agent needs for one start, perhaps in the private
	// directory.
	prepare func(provider.Spec) (extras, error)
	// reaches: prepare sees to the endpoint, for which there is no variable.
	reaches bool
	cost    bool // it says what its model calls cost
	mute    bool // it says nothing of what it used
	// cwd is what the input of a command calls its directory, if not cwd. Its
	// request does not say it.
	cwd string
	// explains reads what it says of a command beside it: where it runs, and why.
	explains func(text string) (dir, reason string, ok bool)
	// known is the input of a call without what differs each time, so that a rule
	// knows it again.
	known func(in map[string]any) map[string]any
	// literalEnv writes a value of an MCP server's environment so that the agent
	// puts nothing of its own environment into it.
	literalEnv func(string) string
	// calls is how long a tool of an MCP server may take, 0 where that is not known.
	calls time.Duration
	// question is how it shows the tool by which a server asks the person, where
	// that tool runs unasked.
	question func(provider.Server) string
	idle     []string // tools that do nothing, which it puts in the place of calls that fit none
}

// extras of one start, beside those that are always the same.
type extras struct {
	args, env []string
	environ   func([]string) []string // changes the environment as a whole
	meta      map[string]any          // of each opening of the session
	told      bool                    // the instructions are among that
	served    bool                    // the MCP servers are in the agent's own configuration
	literal   func(string) string     // keeps it from reading variables in what a server gets
	// watch follows the agent beside the protocol until ctx is done. It returns
	// when it has begun, and run does the rest.
	watch func(ctx context.Context, c *conn) (run func(), err error)
}

// Ready returns the agents that Reeve knows how to run. They are there when
// their program is in PATH.
func Ready() []Agent {
	return []Agent{
		{
			Name: "opencode", Title: "opencode", Path: "opencode", Args: []string{"acp"}, Mode: "build",
			Variables: variables("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY"),
			Env: []string{
				"OPENCODE_PERMISSION=" + openCodeRule, "OPENCODE_CONFIG_CONTENT=" + openCodeConfig + "}",
				"OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_PURE=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
				"OPENCODE_ENABLE_QUESTION_TOOL=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_CLAUDE_CODE=1",
			},
			hardening: hardening{
				install: "Install it with `npm install -g opencode-ai`, then sign in with `opencode auth login`.", all: true, joint: true, dialogs: true, prepare: prepareOpenCode, reaches: true, cost: true, idle: []string{"invalid"}, cwd: "workdir",
				note: "opencode asks for every tool, whatever its own settings allow; it does not read the repository's AGENTS.md, and runs no subagents.",
				// It runs plugins of a repository in spite of its own switches.
				hostile: []string{"opencode.json", "opencode.jsonc", ".opencode"},
				instead: "Move it out of the repository, or start the mission with another agent.",
			},
		},
		{
			Name: "gemini", Title: "Gemini CLI", Path: "gemini", Args: []string{"--acp", "--skip-trust"}, Mode: "default",
			// Of a command in a terminal it passes on no output.
			Env:       []string{"GEMINI_PTY_INFO=child_process"},
			Variables: variables("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
			hardening: hardening{
				install: "Install it with `npm install -g @google/gemini-cli`, then sign in by running gemini once.", all: true,
				note:     "Gemini CLI asks for every tool, whatever its own policies allow. Its process stays between turns.",
				endpoint: geminiURL, reads: geminiEndpoint, stays: true, prepare: prepareGemini, literalEnv: geminiLiteral, explains: geminiExplains, calls: geminiCalls, question: geminiQuestion,
				hostile: []string{".env", ".gemini/settings.json", ".gemini/.env", ".gemini/extensions", ".gemini/agents", ".gemini/skills", ".gemini/commands", ".gemini/policies", ".gemini/hooks"},
				instead: "Move it out of the repository, or start the mission with another agent.",
			},
		},
		{
			Name: "goose", Title: "goose", Path: "goose", Args: []string{"acp"}, Env: []string{"GOOSE_MODE=approve"},
			Variables: variables("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY", "XAI_API_KEY"),
			hardening: hardening{
				install: "Install it as https://block.github.io/goose says, then run `goose configure`.", all: true,
				note: "goose is put into its mode approve by a variable and ended when a tool ran without asking.",
			},
		},
		{
			Name: "qwen", Title: "Qwen Code", Path: "qwen", Args: []string{"--acp"}, Mode: "default",
			Variables: variables("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "OPENROUTER_API_KEY"),
			hardening: hardening{
				install: "Install it with `npm install -g @qwen-code/qwen-code`, then sign in by running qwen once.",
				note:    "Qwen Code reads files inside the folder without asking; it asks for the rest.",
				hostile: []string{".qwen/settings.json", ".qwen/.env", ".qwen/extensions", ".qwen/agents", ".qwen/skills", ".env"},
				instead: "Move it out of the repository, or start the mission with another agent.",
			},
		},
		{
			Name: "claude-agent-acp", Title: "Claude (ACP adapter)", Path: "claude-agent-acp", Mode: "default",
			Variables: variables("ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR"),
			// It does not say in which directory a command runs, so all run in the folder.
			Env: []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR=1"},
			hardening: hardening{
				install:  "Install it with `npm install -g @agentclientprotocol/claude-agent-acp`; the provider claude needs no adapter.",
				note:     "Through this adapter Claude asks for every tool, as the provider claude does.",
				endpoint: claudevars.URL, reads: claudevars.Endpoint, all: true, exits: true, dialogs: true, forms: true, steers: true, prepare: prepareClaude,
				hostile: []string{".claude/settings.json", ".claude/settings.local.json", ".mcp.json"},
				instead: "Use the provider claude, which loads nothing of it.",
			},
		},
		{
			Name: "codex-acp", Title: "Codex (ACP adapter)", Path: "codex-acp",
			Variables: variables("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"),
			hardening: hardening{
				install:  "Install it with `npm install -g @zed-industries/codex-acp`; the provider codex needs no adapter.",
				note:     "Through this adapter Codex asks for every command and every change, as the provider codex does. On Linux it needs bubblewrap (bwrap) to change files.",
				endpoint: codexhome.URLVar, all: true, presets: true, names: true, known: codexInput, mute: true, prepare: prepareCodex, calls: longCall, question: codexQuestion,
				hostile: []string{".codex"},
				instead: "Use the provider codex, which loads nothing of it.",
			},
		},
	}
}

// variables picks some of those that an ACP agent may be given.
func variables(names ...string) []mission.Variable {
	var out []mission.Variable
	for _, v := range mission.ProviderVariables("acp") {
		for _, n := range names {
			if v.Name == n {
				out = append(out, v)
			}
		}
	}
	return out
}

// notes are what a person should know before a start.
func (a Agent) notes() []string {
	switch {
	case a.note != "":
		return []string{a.note}
	case a.NoAccount:
		return nil // the demo agent is ours
	case a.Mode != "":
		return []string{fmt.Sprintf("This agent is your own entry: Reeve puts it into its mode %q and ends it if it leaves that. What the mode asks for, only the agent decides.", a.Mode)}
	}
	return []string{"This agent is your own entry without a session mode: Reeve can't make it ask. What it asks for is decided by its own settings, and those of the repository."}
}

// Refusal says why the agent is not run in a folder, and what to do: the
// repository carries something that the agent would load or run unasked, and
// nothing else keeps it from doing so. Both are empty where it may run.
func (p *Provider) Refusal(folder string) (what, fix string) {
	for _, name := range p.agent.hostile {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if exists(path) {
			return fmt.Sprintf("%s would load %s of this repository, which can run programs and change what it asks for.", p.agent.Title, name), p.agent.instead
		}
	}
	return "", ""
}

// prepared returns what the agent needs for one start.
func (a Agent) prepared(spec provider.Spec) (extras, error) {
	if a.prepare == nil {
		return extras{}, nil
	}
	return a.prepare(spec)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
