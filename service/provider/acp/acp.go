// Package acp runs agents that speak the Agent Client Protocol on their
// standard streams.
//
// The client offers no files and no terminals: an agent uses its own, and asks
// for each use. A request is answered with the agent's "once" options only, as
// lasting rules are Reeve's own.
package acp

import (
	"cmp"
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
	Env       []string // NAME=value that it gets whatever the proposer has
	// Mode is the session mode that is set and held to. Without one the agent
	// asks for what its own settings make it ask for.
	Mode      string
	NoAccount bool // it needs no sign-in

	hardening
}

// Provider is one agent. Make it with New.
type Provider struct{ agent Agent }

// New returns the provider for an agent.
func New(a Agent) *Provider { return &Provider{agent: a} }

// Demo returns the built-in demo agent, which is exe, Reeve's own program.
func Demo(exe string) *Provider {
	return New(Agent{Name: "demo", Title: "Demo agent", Path: exe, Args: []string{"demo-agent"}, NoAccount: true, hardening: hardening{calls: longCall, steers: true, endpoint: "REEVE_DEMO_BASE_URL"}})
}

// Name implements provider.Provider.
func (p *Provider) Name() string { return "acp:" + p.agent.Name }

// Title implements provider.Provider.
func (p *Provider) Title() string { return p.agent.Title }

// Own says that the agent is the person's own entry: what it can do shows only when
// it runs.
func (p *Provider) Own() bool { return p.agent.install == "" && !p.agent.NoAccount }

// Capabilities implements provider.Provider. Whether an agent can resume shows
// only when it runs; one that can't reports a missing session. One whose sessions
// don't bear being loaded for each turn stays for the whole mission.
func (p *Provider) Capabilities() provider.Capabilities {
	return provider.Capabilities{Resume: !p.agent.stays, SteerNow: p.agent.steers, Usage: !p.agent.mute, UsageCost: p.agent.cost || p.Own()}
}

// Variables implements provider.Provider.
func (p *Provider) Variables() []mission.Variable { return slices.Clone(p.agent.Variables) }

// Probe implements provider.Provider. It does not run the agent.
func (p *Provider) Probe(ctx context.Context, env []string) provider.Probe {
	get := provider.Getenv(env)
	found := provider.Probe{Args: slices.Clone(p.agent.Args)}
	path := p.agent.Path
	if !filepath.IsAbs(path) {
		path = lookPath(path, get("PATH"))
	}
	if path != "" {
		if real, err := filepath.EvalSymlinks(path); err == nil && executable(real) {
			found.Found, found.Path = true, real
		}
	}
	switch {
	case !found.Found:
		found.Problem = fmt.Sprintf("%s is not installed: there is no program %s.", p.agent.Title, p.agent.Path)
		found.Fix = cmp.Or(p.agent.install, "Install it, or correct the command with reeve providers remove and add.")
	case p.agent.NoAccount:
		yes := true
		found.SignedIn = &yes
	}
	found.Mode, found.Fixed, found.Notes = p.agent.Mode, slices.Clone(p.agent.Env), p.agent.notes()
	if p.agent.reads != nil {
		found.Endpoint = p.agent.reads(get)
	} else if name := p.agent.endpoint; name != "" {
		found.Endpoint = strings.TrimSuffix(get(name), "/")
	}
	return found
}

func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(file) {
			return file
		}
	}
	return ""
}

func executable(path string) bool {
	_, err := exec.LookPath(path) // looks at the file alone, as path has a separator
	return err == nil
}

// Open implements provider.Provider. The errors are *provider.OpenError.
func (p *Provider) Open(ctx context.Context, spec provider.Spec) (provider.Conn, error) {
	if what, fix := p.Refusal(spec.Folder); what != "" {
		return nil, &provider.OpenError{Code: mission.PermissionRequired, Err: errors.New(what), Why: what + " " + fix}
	}
	if spec.Endpoint != "" && p.agent.endpoint == "" && !p.agent.reaches {
		const why = "This agent's endpoint can't be chosen from outside."
		return nil, &provider.OpenError{Code: mission.LocalExecutionFailure, Err: errors.New(why),
			Why: why + " Set it in the agent's own settings, and start the mission without one."}
	}
	if p.agent.Mode != "" || p.agent.presets {
		spec.Mode = p.agent.Mode
	}
	if !p.agent.dialogs {
		spec.Servers = questioning(spec.Servers, cmp.Or(p.agent.calls, shortCall))
	}
	more, err := p.agent.prepared(spec)
	if err != nil {
		return nil, err
	}
	c := &conn{
		name: p.Name(), spec: spec, agent: p.agent.hardening, more: more, events: child.NewEvents(), done: make(chan struct{}),
		open: map[string]*ask{}, asks: map[string]*ask{}, calls: map[string]*call{},
	}
	if spec.Resume == "" && spec.Instructions != "" && !more.told {
		// The protocol has no place for instructions; they lead the first prompt.
		text, err := os.ReadFile(spec.Instructions)
		if err != nil {
			return nil, &provider.OpenError{Code: mission.PrivateStateFailure, Err: fmt.Errorf("read the instruction file: %w", err)}
		}
		c.preface = string(text)
	}
	cmd := exec.Command(spec.Path, append(slices.Clone(spec.Args), more.args...)...)
	cmd.Dir = spec.Folder
	cmd.Env = slices.Concat(spec.Env, p.agent.Env, more.env)
	if spec.PrivateDir != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+spec.PrivateDir)
	}
	if p.agent.endpoint != "" {
		// It is fixed, whatever the environment says.
		cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, p.agent.endpoint+"=") })
		if spec.Endpoint != "" {
			cmd.Env = append(cmd.Env, p.agent.endpoint+"="+spec.Endpoint)
		}
	}
	if more.environ != nil {
		cmd.Env = more.environ(cmd.Env)
	}
	process, err := child.Start(cmd, spec.Launch)
	if err != nil {
		return nil, &provider.OpenError{Code: mission.LocalExecutionFailure, Err: err}
	}
	c.p, c.watch = process, more.watch
	c.watched, c.unwatch = context.WithCancel(context.Background())
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
	hello := sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber, ClientInfo: &sdk.Implementation{Name: "reeve", Version: "1"}}
	if c.agent.forms {
		hello.ClientCapabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.ElicitationFormCapabilities{}}
	}
	init, err := request(ctx, c, c.rpc.Initialize, hello)
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
	c.hears, _ = init.Meta[reasonMeta].(bool)
	var models *sdk.SessionModelState
	var modes *sdk.SessionModeState
	var options []sdk.SessionConfigOption
	if c.spec.Resume != "" {
		if !init.AgentCapabilities.LoadSession {
			return &provider.OpenError{Code: mission.MissingSession, Err: errors.New("the agent can't resume a session")}
		}
		c.session = sdk.SessionId(c.spec.Resume)
		loaded, err := request(ctx, c, c.rpc.LoadSession, sdk.LoadSessionRequest{Meta: c.more.meta, SessionId: c.session, Cwd: c.spec.Folder, McpServers: c.servers()})
		if err != nil {
			return openError("load the session", err, true)
		}
		models, modes, options = loaded.Models, loaded.Modes, loaded.ConfigOptions
	} else {
		made, err := request(ctx, c, c.rpc.NewSession, sdk.NewSessionRequest{Meta: c.more.meta, Cwd: c.spec.Folder, McpServers: c.servers()})
		if err != nil {
			return openError("open a session", err, false)
		}
		c.session, models, modes, options = made.SessionId, made.Models, made.Modes, made.ConfigOptions
	}
	if err := c.enterMode(ctx, modes, options); err != nil {
		return err
	}
	if err := c.chooseModel(ctx, models, options); err != nil {
		return err
	}
	if err := c.startWatch(ctx); err != nil {
		return openError("follow the agent", err, false)
	}
	c.events.Emit(provider.SessionStarted{Session: string(c.session), Resumed: c.spec.Resume != "", Model: c.spec.Model, Version: version})
	for _, s := range c.spec.Servers {
		if !executable(s.Command) {
			c.noServer(s.Name) // not all agents tell of it
		}
	}
	return nil
}

// servers are the mission's MCP servers. The agent may have others besides, of
// whatever name: the protocol can't tell whose a tool is, so none of them counts
// as Reeve's own.
func (c *conn) servers() []sdk.McpServer {
	all := []sdk.McpServer{}
	if c.more.served {
		return all
	}
	literal := c.more.literal
	if literal == nil {
		literal = func(s string) string { return s }
	}
	for _, s := range c.spec.Servers {
		one := &sdk.McpServerStdio{Name: s.Name, Command: literal(s.Command), Args: []string{}, Env: []sdk.EnvVariable{}}
		for _, a := range s.Args {
			one.Args = append(one.Args, literal(a))
		}
		for _, kv := range s.Env {
			name, value, _ := strings.Cut(kv, "=")
			if c.agent.literalEnv != nil {
				value = c.agent.literalEnv(value)
			}
			one.Env = append(one.Env, sdk.EnvVariable{Name: name, Value: literal(value)})
		}
		all = append(all, sdk.McpServer{Stdio: one})
	}
	return all
}
