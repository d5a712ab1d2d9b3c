package acp

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/service/provider"
)

// call is a tool call that has not ended.
type call struct {
	tool   provider.Tool
	output string
	exit   *int
	denied bool
}

var kinds = map[sdk.ToolKind]string{
	sdk.ToolKindRead: "read", sdk.ToolKindSearch: "search", sdk.ToolKindExecute: "execute", sdk.ToolKindFetch: "fetch",
	sdk.ToolKindEdit: "edit", sdk.ToolKindDelete: "edit", sdk.ToolKindMove: "edit",
}

// update handles one update. Those outside a turn are the history of a session
// that is being loaded, or come too late.
func (c *conn) update(u sdk.SessionUpdate) {
	c.step.Lock()
	defer c.step.Unlock()
	c.mu.Lock()
	t := c.turn
	if t != nil {
		c.aliveLocked(t)
	}
	c.mu.Unlock()
	if t == nil {
		return
	}
	switch {
	case u.AgentMessageChunk != nil:
		if text := u.AgentMessageChunk.Content.Text; text != nil && text.Text != "" {
			t.final.WriteString(text.Text)
			c.events.Emit(provider.Text{Text: text.Text})
		}
	case u.AgentThoughtChunk != nil:
		if text := u.AgentThoughtChunk.Content.Text; text != nil && text.Text != "" {
			c.events.Emit(provider.Thought{Text: text.Text})
		}
	case u.Plan != nil:
		p := provider.Plan{}
		for _, e := range u.Plan.Entries {
			p.Steps = append(p.Steps, provider.PlanStep{Text: e.Content, Status: string(e.Status)})
		}
		c.events.Emit(p)
	case u.ToolCall != nil:
		k := u.ToolCall
		c.toolUpdate(t, sdk.ToolCallUpdate{ToolCallId: k.ToolCallId, Title: &k.Title, Kind: &k.Kind, Status: &k.Status,
			Content: k.Content, Locations: k.Locations, RawInput: k.RawInput, RawOutput: k.RawOutput}, true)
	case u.ToolCallUpdate != nil:
		k := u.ToolCallUpdate
		c.toolUpdate(t, sdk.ToolCallUpdate{ToolCallId: k.ToolCallId, Title: k.Title, Kind: k.Kind, Status: k.Status,
			Content: k.Content, Locations: k.Locations, RawInput: k.RawInput, RawOutput: k.RawOutput}, false)
	}
}

// toolUpdate announces a call that is new and ends one that is over. Needs step.
// An update to a call that has ended is no new call.
func (c *conn) toolUpdate(t *turn, u sdk.ToolCallUpdate, announced bool) {
	k := c.calls[string(u.ToolCallId)]
	if k == nil {
		if !announced {
			return
		}
		k = &call{tool: provider.Tool{Call: string(u.ToolCallId), Kind: "other", Cwd: c.spec.Folder}}
		c.merge(k, u)
		c.calls[k.tool.Call] = k
		t.toolCalls++
		t.final.Reset()
		c.events.Emit(provider.ToolStarted{Tool: k.tool})
	} else {
		c.merge(k, u)
	}
	if u.Status == nil {
		return
	}
	e := provider.ToolFinished{Call: k.tool.Call, Output: k.output, Exit: k.exit}
	switch {
	case *u.Status == sdk.ToolCallStatusFailed && k.denied:
		e.Status = "denied"
	case *u.Status == sdk.ToolCallStatusFailed:
		e.Status = "failed"
	case *u.Status == sdk.ToolCallStatusCompleted:
		e.Status, e.Diff = "ok", k.tool.Diff
	default:
		return
	}
	delete(c.calls, k.tool.Call)
	c.events.Emit(e)
}

// merge takes over what an update says; what it leaves out stays.
func (c *conn) merge(k *call, u sdk.ToolCallUpdate) {
	t := &k.tool
	if u.Kind != nil && kinds[*u.Kind] != "" {
		t.Kind = kinds[*u.Kind]
	}
	if u.Title != nil && *u.Title != "" {
		t.Title, t.Name = *u.Title, *u.Title
	}
	if in, ok := u.RawInput.(map[string]any); ok && len(in) > 0 {
		t.Input, _ = json.Marshal(in)
		if cwd, ok := in["cwd"].(string); ok {
			t.Cwd = c.absolute(cwd)
		}
		if s, ok := in["description"].(string); ok {
			t.Reason = s
		}
		if s := command(in["command"]); s != "" {
			t.Command = s
		}
	}
	if t.Kind == "execute" && t.Command == "" {
		t.Command = t.Title // some agents say the command only there
	}
	if len(u.Locations) > 0 {
		t.Paths = nil
		for _, l := range u.Locations {
			t.Paths = append(t.Paths, c.absolute(l.Path))
		}
	}
	if len(u.Content) > 0 {
		var texts, diffs []string
		for _, x := range u.Content {
			switch {
			case x.Diff != nil:
				old := ""
				if x.Diff.OldText != nil {
					old = *x.Diff.OldText
				}
				path := c.absolute(x.Diff.Path)
				diffs = append(diffs, provider.UnifiedDiff(path, x.Diff.OldText != nil, old, x.Diff.NewText))
				if len(u.Locations) == 0 {
					t.Paths = append(t.Paths, path)
				}
			case x.Content != nil && x.Content.Content.Text != nil:
				texts = append(texts, x.Content.Content.Text.Text)
			}
		}
		if len(diffs) > 0 {
			t.Diff = strings.Join(diffs, "")
		}
		k.output = strings.Join(texts, "\n")
	}
	switch out := u.RawOutput.(type) {
	case string:
		if k.output == "" {
			k.output = out
		}
	case map[string]any:
		for _, name := range []string{"exit_code", "exitCode"} {
			if n, ok := out[name].(float64); ok {
				code := int(n)
				k.exit = &code
			}
		}
	}
}

func (c *conn) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.spec.Folder, path)
}

// command reads a command line: a text for a shell, or a list of arguments,
// which is shown so that each argument can be told from the next.
func command(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var args []string
		for _, a := range v {
			s, ok := a.(string)
			if !ok {
				return ""
			}
			if s == "" || strings.ContainsAny(s, " \t\r\n'\"\\$`;&|<>()*?[]{}~#!") {
				s = strconv.Quote(s)
			}
			args = append(args, s)
		}
		return strings.Join(args, " ")
	}
	return ""
}

// client answers the agent's requests.
type client struct{ c *conn }

// RequestPermission implements sdk.Client. It waits for a person.
func (cl client) RequestPermission(ctx context.Context, r sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	c := cl.c
	id, a := c.request(r)
	if a == nil {
		return sdk.RequestPermissionResponse{Outcome: cancelled}, nil
	}
	var outcome sdk.RequestPermissionOutcome
	select {
	case outcome = <-a.answer:
	case <-ctx.Done(): // the agent is gone, or asks no longer
		outcome = cancelled
	}
	c.step.Lock()
	defer c.step.Unlock()
	c.mu.Lock()
	delete(c.open, id)
	withdrawn := !a.answered
	c.mu.Unlock()
	if _, announced := c.asks[id]; announced && withdrawn {
		c.events.Emit(provider.PermissionWithdrawn{Request: id})
	}
	delete(c.asks, id)
	if outcome.Selected == nil {
		return sdk.RequestPermissionResponse{Outcome: outcome}, nil
	}
	if k := c.calls[a.call]; k != nil {
		for _, o := range a.options {
			if o.OptionId == outcome.Selected.OptionId && o.Kind == sdk.PermissionOptionKindRejectOnce {
				k.denied = true
			}
		}
	}
	return sdk.RequestPermissionResponse{Outcome: outcome}, nil
}

// request registers and announces a request, or returns nil when no turn is
// there that could wait for it.
func (c *conn) request(r sdk.RequestPermissionRequest) (string, *ask) {
	c.step.Lock()
	defer c.step.Unlock()
	c.mu.Lock()
	t := c.turn
	if t != nil {
		c.aliveLocked(t)
	}
	if t == nil || t.interrupted {
		c.mu.Unlock()
		return "", nil
	}
	c.mu.Unlock()
	u := r.ToolCall
	u.Status = nil // it only asks
	c.toolUpdate(t, u, true)
	k := c.calls[string(u.ToolCallId)]
	a := &ask{call: k.tool.Call, options: r.Options, answer: make(chan sdk.RequestPermissionOutcome, 1)}
	c.mu.Lock()
	c.nextID++
	id := "p" + strconv.Itoa(c.nextID)
	if t.interrupted {
		a.answer <- cancelled // it came in between
	} else {
		c.open[id] = a
	}
	c.mu.Unlock()
	c.asks[id] = a
	c.events.Emit(provider.PermissionRequested{Request: id, Tool: k.tool})
	return id, a
}

// SessionUpdate implements sdk.Client. The pump has taken all updates.
func (client) SessionUpdate(context.Context, sdk.SessionNotification) error { return nil }

var errNotOffered = sdk.NewMethodNotFound("the client offers no files and no terminals")

// ReadTextFile implements sdk.Client.
func (client) ReadTextFile(context.Context, sdk.ReadTextFileRequest) (sdk.ReadTextFileResponse, error) {
	return sdk.ReadTextFileResponse{}, errNotOffered
}

// WriteTextFile implements sdk.Client.
func (client) WriteTextFile(context.Context, sdk.WriteTextFileRequest) (sdk.WriteTextFileResponse, error) {
	return sdk.WriteTextFileResponse{}, errNotOffered
}

// CreateTerminal implements sdk.Client.
func (client) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (sdk.CreateTerminalResponse, error) {
	return sdk.CreateTerminalResponse{}, errNotOffered
}

// KillTerminal implements sdk.Client.
func (client) KillTerminal(context.Context, sdk.KillTerminalRequest) (sdk.KillTerminalResponse, error) {
	return sdk.KillTerminalResponse{}, errNotOffered
}

// TerminalOutput implements sdk.Client.
func (client) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (sdk.TerminalOutputResponse, error) {
	return sdk.TerminalOutputResponse{}, errNotOffered
}

// ReleaseTerminal implements sdk.Client.
func (client) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (sdk.ReleaseTerminalResponse, error) {
	return sdk.ReleaseTerminalResponse{}, errNotOffered
}

// WaitForTerminalExit implements sdk.Client.
func (client) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (sdk.WaitForTerminalExitResponse, error) {
	return sdk.WaitForTerminalExitResponse{}, errNotOffered
}
