// Package codex runs Codex through its app-server protocol.
//
// Every command and every change of a file comes here as a permission request:
// the thread works under the approval policy "untrusted" with a sandbox, both are
// read back from each reply that names them, and an action that ran without
// having been asked for ends the turn and the program.
//
// The program gets a home of its own for the life of its guard, so that nothing
// the person or the repository configured (rules that allow commands, hooks, MCP
// servers, plugins, trusted folders) can widen a mission. See home.go for what
// of the person's it can reach.
package codex

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

const name = "codex"

// Codex is the provider. Its zero value is ready.
type Codex struct{}

// New returns the provider.
func New() *Codex { return &Codex{} }

// Name implements provider.Provider.
func (*Codex) Name() string { return name }

// Title implements provider.Provider.
func (*Codex) Title() string { return "Codex" }

// Capabilities implements provider.Provider. The program knows no prices.
func (*Codex) Capabilities() provider.Capabilities {
	return provider.Capabilities{Resume: true, SteerNow: true, Usage: true}
}

// Variables implements provider.Provider.
func (*Codex) Variables() []mission.Variable { return mission.ProviderVariables(name) }

// homeSettings let the agent ask a question outside its plan mode, too.
var homeSettings = codexhome.More{
	Features: []string{"default_mode_request_user_input = true"},
	Tables:   []string{"[agents]", "enabled = false"},
}

// Open implements provider.Provider. The errors are *provider.OpenError.
func (*Codex) Open(ctx context.Context, spec provider.Spec) (provider.Conn, error) {
	home, err := codexhome.Make(spec, homeSettings)
	if err != nil {
		return nil, &provider.OpenError{Code: mission.PrivateStateFailure, Err: err}
	}
	instructions := ""
	if spec.Instructions != "" {
		text, err := os.ReadFile(spec.Instructions)
		if err != nil {
			return nil, &provider.OpenError{Code: mission.PrivateStateFailure, Err: fmt.Errorf("read the instruction file: %w", err)}
		}
		instructions = string(text)
	}
	// Other users can see arguments: what is configured stands in the home.
	cmd := exec.Command(spec.Path, append(slices.Clone(spec.Args), "app-server")...)
	cmd.Dir = spec.Folder
	cmd.Env = home.Environment(spec.Env)
	p, err := child.Start(cmd, spec.Launch)
	if err != nil {
		return nil, &provider.OpenError{Code: mission.LocalExecutionFailure, Err: err}
	}
	c := newConn(p, spec)
	go c.read()
	if err := c.begin(ctx, instructions); err != nil {
		p.Kill()
		for range c.Events() {
			// Nobody else reads what it said before it failed.
		}
		return nil, err
	}
	return c, nil
}
