// Package claude runs Claude Code through its stream-json protocol.
//
// Every tool call comes here as a permission request: a PreToolUse hook, set up
// in the first message, answers "ask" to each call, because the program would
// otherwise run what it takes for harmless unasked. Settings of the user, the
// project and the checkout are not loaded, nor are their MCP servers: it gets the
// mission's alone, from a private file. What the
// program reports about that is checked at each turn; if it is not so, the turn
// ends with permission_required and the program with it.
package claude

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
	"github.com/reevehq/reeve/service/provider/internal/claudevars"
)

const (
	name   = "claude"
	keyVar = "ANTHROPIC_API_KEY"
)

// Claude is Claude Code. Its zero value is ready.
type Claude struct{}

// New returns the provider.
func New() *Claude { return &Claude{} }

// Name implements provider.Provider.
func (*Claude) Name() string { return name }

// Title implements provider.Provider.
func (*Claude) Title() string { return "Claude Code" }

// Capabilities implements provider.Provider.
func (*Claude) Capabilities() provider.Capabilities {
	return provider.Capabilities{Resume: true, SteerNow: true, Usage: true, UsageCost: true}
}

// Variables implements provider.Provider.
func (*Claude) Variables() []mission.Variable { return mission.ProviderVariables(name) }

// Open implements provider.Provider. The errors are *provider.OpenError.
func (*Claude) Open(ctx context.Context, spec provider.Spec) (provider.Conn, error) {
	session := spec.Resume
	if session == "" {
		session = newUUID()
	}
	config, err := servers(spec)
	if err != nil {
		return nil, &provider.OpenError{Code: mission.PrivateStateFailure, Err: err}
	}
	cmd := exec.Command(spec.Path, arguments(spec, session, config)...)
	cmd.Dir = spec.Folder
	cmd.Env = environment(spec)
	p, err := child.Start(cmd, spec.Launch)
	if err != nil {
		return nil, &provider.OpenError{Code: mission.LocalExecutionFailure, Err: err}
	}
	c := newConn(p, spec, session)
	go c.read()
	if err := c.initialize(ctx); err != nil {
		p.Kill()
		for range c.Events() {
			// Nobody else reads what it said before it failed.
		}
		return nil, err
	}
	return c, nil
}

// arguments never contain a secret or a text of the person: other users can see
// them.
func arguments(spec provider.Spec, session, servers string) []string {
	args := slices.Clone(spec.Args)
	args = append(args, "-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose",
		"--include-partial-messages",
		"--permission-prompt-tool", "stdio", "--permission-mode", "default",
		"--strict-mcp-config", "--mcp-config", servers,
		"--setting-sources", "", "--settings", settings(spec))
	if spec.Resume != "" {
		args = append(args, "--resume", session)
	} else {
		args = append(args, "--session-id", session)
	}
	if spec.Instructions != "" {
		args = append(args, "--append-system-prompt-file", spec.Instructions)
	}
	if spec.Model != "" {
		args = append(args, "--model", spec.Model)
	}
	return args
}

// settings hold the program to the endpoint that was approved: what its own state
// says of it would count more than the environment.
func settings(spec provider.Spec) string {
	text, err := json.Marshal(map[string]any{"env": claudevars.Pinned(spec.Endpoint)})
	if err != nil {
		panic(err) // not possible for texts
	}
	return string(text)
}

// environment is what the mission approved plus what keeps the program from
// updating itself and from reporting home.
func environment(spec provider.Spec) []string {
	own := []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
	if spec.PrivateDir != "" {
		own = append(own, "TMPDIR="+spec.PrivateDir)
	}
	if spec.Endpoint != "" {
		own = append(own, claudevars.URL+"="+spec.Endpoint)
	}
	taken := map[string]bool{claudevars.URL: true} // the endpoint is fixed, whatever the environment says
	for _, kv := range own {
		key, _, _ := strings.Cut(kv, "=")
		taken[key] = true
	}
	var env []string
	for _, kv := range spec.Env {
		if key, _, _ := strings.Cut(kv, "="); !taken[key] {
			env = append(env, kv)
		}
	}
	return append(env, own...)
}

// newUUID returns a random (version 4) UUID; the program insists on that form.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
