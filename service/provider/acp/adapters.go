package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/claudevars"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

// claudeHook has Claude Code ask for every tool, those included that it takes for
// harmless. It is a command because the adapter passes on nothing else.
func claudeHook() string {
	said, err := json.Marshal(map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "Reeve asks for everything."}})
	if err != nil {
		panic(err) // not possible for texts
	}
	return "echo '" + string(said) + "'"
}

// prepareClaude starts Claude Code behind its adapter without any settings but
// ours, which hold it to the endpoint, too: what its own state says of that would
// count more than the environment. The adapter would put the person's own model in
// the mission's place, if the environment named none.
func prepareClaude(spec provider.Spec) (extras, error) {
	options := map[string]any{
		"settingSources": []string{}, "strictMcpConfig": true, "permissionMode": "default", "allowDangerouslySkipPermissions": false, "promptSuggestions": false,
		"settings": map[string]any{
			"env": claudevars.Pinned(spec.Endpoint),
			"hooks": map[string]any{"PreToolUse": []any{
				map[string]any{"matcher": "", "hooks": []any{map[string]any{"type": "command", "command": claudeHook()}}}}},
		},
	}
	meta := map[string]any{"claudeCode": map[string]any{"options": options, "emitRawSDKMessages": claudeSaid}}
	if spec.Instructions != "" {
		text, err := os.ReadFile(spec.Instructions)
		if err != nil {
			return extras{}, &provider.OpenError{Code: mission.PrivateStateFailure, Err: fmt.Errorf("read the instruction file: %w", err)}
		}
		meta["systemPrompt"] = map[string]any{"append": string(text)}
	}
	const model = "ANTHROPIC_MODEL"
	env := func(env []string) []string {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, model+"=") })
		if spec.Model != "" {
			env = append(env, model+"="+spec.Model)
		}
		return env
	}
	return extras{environ: env, meta: meta, told: spec.Instructions != "", literal: claudevars.Literal}, nil
}

// codexHarmless are the commands that Codex takes for harmless, and would run
// unasked in spite of its policy.
var codexHarmless = []string{
	"base64", "cargo", "cat", "cd", "cut", "date", "dir", "echo", "expr", "false", "file", "find", "git", "grep", "head", "id", "ls", "nl", "numfmt", "paste",
	"pwd", "realpath", "rev", "rg", "sed", "seq", "sort", "stat", "tac", "tail", "tr", "tree", "true", "type", "uname", "uniq", "wc", "which", "whoami",
}

// codexQuestion is how Codex shows the tool by which a server asks the person.
func codexQuestion(s provider.Server) string { return s.Name + "/" + s.Question }

// prepareCodex gives Codex behind its adapter a home of its own, as Codex by
// itself has. Its policy asks for every command but those that it takes for
// harmless; a rule asks for these. A shell that goes on between calls stays off,
// as what is typed into it is not asked for, and so do questions of the agent,
// which the adapter never passes on: the turn would hang. Reeve's own server has a
// tool for these.
func prepareCodex(spec provider.Spec) (extras, error) {
	names := make([]string, len(codexHarmless))
	for i, name := range codexHarmless {
		names[i] = codexhome.TOML(name)
	}
	home, err := codexhome.Make(spec, codexhome.More{
		Settings: []string{`approval_policy = "untrusted"`, `sandbox_mode = "workspace-write"`},
		Features: []string{"unified_exec = false", "multi_agent = false", "default_mode_request_user_input = false"},
		// In a folder that is said to be untrusted the adapter calls the policy by
		// the name of one of its modes, which asks for less.
		Undecided: true,
		Questions: true,
		Rules:     "prefix_rule(pattern=[[" + strings.Join(names, ", ") + "]], decision=\"prompt\")\n",
	})
	if err != nil {
		return extras{}, &provider.OpenError{Code: mission.PrivateStateFailure, Err: err}
	}
	return extras{environ: home.Environment, served: true}, nil
}

// checkPresets holds an agent whose modes all ask for less than everything. The
// session that asks is in none of them, and says so by naming none.
func (c *conn) checkPresets(found bool) error {
	if !found {
		c.mu.Lock()
		c.held = true
		c.mu.Unlock()
		return nil
	}
	return &provider.OpenError{Code: mission.PermissionRequired, Err: errors.New("the session is in one of the agent's modes"),
		Why: "The agent did not take the policy by which it asks for everything, so nothing was run. Install the release of it that does, or use another agent; then resume the mission."}
}

// codexInput is the input of a call without what differs each time and without
// what only repeats the rest, so that a rule knows it again.
func codexInput(in map[string]any) map[string]any {
	in = maps.Clone(in)
	for _, name := range []string{"call_id", "turn_id", "started_at_ms", "available_decisions", "parsed_cmd", "proposed_execpolicy_amendment"} {
		delete(in, name)
	}
	if args, ok := in["command"].([]any); ok {
		if s, ok := script(args); ok {
			in["command"] = s
		}
	}
	return in
}

// served names a call of an MCP server's tool as Codex announces it: with the
// server, the tool and its arguments. Its request shows them in another place, and
// a name that tells nothing; the arguments that count are those.
func (k *call) served(in map[string]any) bool {
	server, _ := in["server"].(string)
	tool, _ := in["tool"].(string)
	args, given := in["arguments"]
	if server != "" && tool != "" && given {
		k.mcp, k.tool.Name, k.tool.Title = true, server+"/"+tool, server+"/"+tool
		k.tool.Input, _ = json.Marshal(args)
		return true
	}
	if !k.mcp {
		return false
	}
	request, _ := in["request"].(map[string]any)
	meta, _ := request["_meta"].(map[string]any)
	if asked, ok := meta["tool_params"]; ok {
		k.tool.Input, _ = json.Marshal(asked)
	}
	return true
}
