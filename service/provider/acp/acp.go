// Package acp runs agents that speak the Agent Client Protocol on their
// standard streams.
//
// The client offers no files and no terminals: an agent uses its own, and asks
// for each use. A request is answered with the agent's "once" options only, as
// lasting rules are Reeve's own.
package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
)

// Agent is a configured agent program.
type Agent struct {
	Name      string // of the mission's provider: acp:<Name>
	Title     string
	Path      string   // absolute, or a name that is looked up in PATH
	Args      []string // make the program speak the protocol
	Variables []mission.Variable
	NoAccount bool // it needs no sign-in
}

// Provider is one agent. Make it with New.
type Provider struct{ agent Agent }

// New returns the provider for an agent.
func New(a Agent) *Provider { return &Provider{agent: a} }

// Demo returns the built-in demo agent, which is exe, Reeve's own program.
func Demo(exe string) *Provider {
	return New(Agent{Name: "demo", Title: "Demo agent", Path: exe, Args: []string{"demo-agent"}, NoAccount: true})
}

// Name implements provider.Provider.
func (p *Provider) Name() string { return "acp:" + p.agent.Name }

// Title implements provider.Provider.
func (p *Provider) Title() string { return p.agent.Title }

// Capabilities implements provider.Provider. Whether an agent can resume shows
// only when it runs; one that can't reports a missing session.
func (p *Provider) Capabilities() provider.Capabilities {
	return provider.Capabilities{Resume: true, Usage: !p.agent.NoAccount}
}

// Variables implements provider.Provider.
func (p *Provider) Variables() []mission.Variable { return slices.Clone(p.agent.Variables) }

// Probe implements provider.Provider. It does not run the agent.
func (p *Provider) Probe(ctx context.Context, env []string) provider.Probe {
	found := provider.Probe{Args: slices.Clone(p.agent.Args)}
	path := p.agent.Path
	if !filepath.IsAbs(path) {
		path = lookPath(path, env)
	}
	if path != "" {
		if real, err := filepath.EvalSymlinks(path); err == nil && executable(real) {
			found.Found, found.Path = true, real
		}
	}
	switch {
	case !found.Found:
		found.Problem = fmt.Sprintf("%s is not installed: there is no program %s.", p.agent.Title, p.agent.Path)
		found.Fix = "Install it, or correct its path in the settings."
	case p.agent.NoAccount:
		yes := true
		found.SignedIn = &yes
	}
	return found
}

func lookPath(name string, env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		list, ok := strings.CutPrefix(env[i], "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if file := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(file) {
				return file
			}
		}
		break
	}
	return ""
}

func executable(path string) bool {
	_, err := exec.LookPath(path) // looks at the file alone, as path has a separator
	return err == nil
}

// Open implements provider.Provider. The errors are *provider.OpenError.
func (p *Provider) Open(ctx context.Context, spec provider.Spec) (provider.Conn, error) {
	c := &conn{
		name: p.Name(), spec: spec, events: child.NewEvents(), done: make(chan struct{}),
		open: map[string]*ask{}, asks: map[string]*ask{}, calls: map[string]*call{},
	}
	if spec.Resume == "" && spec.Instructions != "" {
		// The protocol has no place for instructions; they lead the first prompt.
		text, err := os.ReadFile(spec.Instructions)
		if err != nil {
			return nil, &provider.OpenError{Code: mission.PrivateStateFailure, Err: fmt.Errorf("read the instruction file: %w", err)}
		}
		c.preface = string(text)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Folder
	cmd.Env = slices.Clone(spec.Env)
	if spec.PrivateDir != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+spec.PrivateDir)
	}
	process, err := child.Start(cmd, spec.Launch)
	if err != nil {
		return nil, &provider.OpenError{Code: mission.LocalExecutionFailure, Err: err}
	}
	c.p = process
	c.start()
	if err := c.begin(ctx); err != nil {
		process.Kill()
		for range c.Events() {
			// Nobody else reads what it said before it failed.
		}
		return nil, err
	}
	return c, nil
}

// begin opens or loads the session.
func (c *conn) begin(ctx context.Context) error {
	id := c.replies.begin()
	init, err := c.rpc.Initialize(ctx, sdk.InitializeRequest{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		ClientInfo:      &sdk.Implementation{Name: "reeve", Version: "1"},
	})
	c.replies.end(id)
	if err != nil {
		return openError("start the agent", err, false)
	}
	if init.ProtocolVersion != sdk.ProtocolVersionNumber {
		return &provider.OpenError{Code: mission.LocalExecutionFailure,
			Err: fmt.Errorf("the agent speaks protocol version %d, Reeve speaks %d", init.ProtocolVersion, sdk.ProtocolVersionNumber)}
	}
	version := ""
	if init.AgentInfo != nil {
		version = init.AgentInfo.Version
	}
	var models *sdk.SessionModelState
	if c.spec.Resume != "" {
		if !init.AgentCapabilities.LoadSession {
			return &provider.OpenError{Code: mission.MissingSession, Err: errors.New("the agent can't resume a session")}
		}
		c.session = sdk.SessionId(c.spec.Resume)
		id := c.replies.begin()
		loaded, err := c.rpc.LoadSession(ctx, sdk.LoadSessionRequest{SessionId: c.session, Cwd: c.spec.Folder, McpServers: []sdk.McpServer{}})
		c.replies.end(id)
		if err != nil {
			return openError("load the session", err, true)
		}
		models = loaded.Models
	} else {
		id := c.replies.begin()
		made, err := c.rpc.NewSession(ctx, sdk.NewSessionRequest{Cwd: c.spec.Folder, McpServers: []sdk.McpServer{}})
		c.replies.end(id)
		if err != nil {
			return openError("open a session", err, false)
		}
		c.session, models = made.SessionId, made.Models
	}
	if c.spec.Model != "" {
		if models == nil {
			return &provider.OpenError{Code: mission.LocalExecutionFailure, Err: errors.New("the agent does not let its model be chosen; start the mission without a model")}
		}
		id := c.replies.begin()
		_, err := c.rpc.UnstableSetSessionModel(ctx, sdk.UnstableSetSessionModelRequest{SessionId: c.session, ModelId: sdk.UnstableModelId(c.spec.Model)})
		c.replies.end(id)
		if err != nil {
			return openError("choose the model", err, false)
		}
	}
	c.events.Emit(provider.SessionStarted{Session: string(c.session), Resumed: c.spec.Resume != "", Model: c.spec.Model, Version: version})
	return nil
}

func openError(doing string, err error, loading bool) error {
	code := classify(err)
	var r *sdk.RequestError
	if loading && errors.As(err, &r) && code != mission.AuthenticationRequired {
		// Agents disagree on the code of a session that they don't have, but
		// all answer with an error; -32603 stands also for a lost agent.
		text := strings.ToLower(r.Error())
		if r.Code == -32002 || r.Code == -32602 || strings.Contains(text, "not found") || strings.Contains(text, "session identifier") {
			code = mission.MissingSession
		}
	}
	return &provider.OpenError{Code: code, Err: fmt.Errorf("%s: %w", doing, err)}
}

// classify gives the code of an error of a call.
func classify(err error) mission.Code {
	var r *sdk.RequestError
	if errors.As(err, &r) && r.Code == -32000 {
		return mission.AuthenticationRequired
	}
	return mission.LocalExecutionFailure
}
