package acp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
)

// maxFile limits what is read of a file to show a change in it.
const maxFile = 1 << 20

// call is a tool call that has not ended.
type call struct {
	tool    provider.Tool
	idle    bool // its tool does nothing
	output  string
	exit    *int
	denied  bool
	mcp     bool // it is named by its server, and Input holds its arguments
	runs    bool // it is a command
	allowed bool // by a person or a rule, in an answer to the agent
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
	held := c.held
	c.mu.Unlock()
	if held {
		c.watchMode(u)
	}
	if t == nil {
		return
	}
	switch {
	case u.AgentMessageChunk != nil:
		if text := u.AgentMessageChunk.Content.Text; text != nil && text.Text != "" {
			t.idle = false
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
		t.idle = false
		t.toolCalls++
		t.final.Reset()
		c.events.Emit(provider.ToolStarted{Tool: k.tool})
	} else {
		c.merge(k, u)
	}
	if u.Status == nil {
		return
	}
	if *u.Status == sdk.ToolCallStatusInProgress && u.Title != nil && u.Kind != nil && *u.Kind == sdk.ToolKindOther {
		k.idle = slices.Contains(c.agent.idle, *u.Title)
	}
	e := provider.ToolFinished{Call: k.tool.Call, Output: k.output, Exit: k.exit}
	switch {
	case *u.Status == sdk.ToolCallStatusFailed && k.denied:
		e.Status = "denied"
	case *u.Status == sdk.ToolCallStatusFailed && t.before[k.tool.Call]:
		e.Status = "cancelled"
		t.along = append(t.along, k.words())
	case *u.Status == sdk.ToolCallStatusFailed:
		e.Status = "failed"
	case *u.Status == sdk.ToolCallStatusCompleted:
		e.Status, e.Diff = "ok", k.tool.Diff
		if c.interrupted() && k.tool.Kind == "execute" && k.exit == nil {
			e.Status = "cancelled" // it was ended in the middle
		}
		if c.agent.all && !k.allowed && !k.idle && !c.questions(k) {
			c.violate("The agent ran a tool without asking, or without waiting for the answer, so it was ended. See the transcript for which, and the checkout for what it did; then stop the mission.")
		}
	default:
		return
	}
	c.withdraw(k.tool.Call)
	if c.agent.exits && k.runs && e.Exit == nil && e.Status != "cancelled" {
		e.Exit = exitOf(*u.Status, e.Output)
	}
	delete(c.calls, k.tool.Call)
	if t.ended == nil {
		t.ended = map[string]bool{}
	}
	t.ended[k.tool.Call] = true
	c.forget(t, k.tool.Call)
	c.events.Emit(e)
}

// withdraw takes back what is still asked for a call that is over. Needs step.
func (c *conn) withdraw(call string) {
	for id, a := range c.asks {
		if a.call != call {
			continue
		}
		c.mu.Lock()
		_, open := c.open[id]
		delete(c.open, id)
		c.mu.Unlock()
		if open {
			a.answer <- cancelled
			delete(c.asks, id)
			c.events.Emit(provider.PermissionWithdrawn{Request: id})
		}
	}
}

// merge takes over what an update says; what it leaves out stays.
func (c *conn) merge(k *call, u sdk.ToolCallUpdate) {
	t := &k.tool
	if u.Kind != nil && kinds[*u.Kind] != "" {
		t.Kind = kinds[*u.Kind]
	}
	in, _ := u.RawInput.(map[string]any)
	if c.agent.names && k.served(in) {
		u.Title = nil
	}
	if u.Title != nil && *u.Title != "" {
		t.Title, t.Name = *u.Title, *u.Title
	}
	if len(in) > 0 {
		if !k.mcp {
			known := in
			if c.agent.known != nil {
				known = c.agent.known(in)
			}
			t.Input, _ = json.Marshal(known)
		}
		if cwd, ok := in[cmp.Or(c.agent.cwd, "cwd")].(string); ok {
			t.Cwd = c.absolute(cwd)
		}
		if s, ok := in["description"].(string); ok {
			t.Reason = s
		}
		if s := command(in["command"]); s != "" {
			t.Command, k.runs = s, true
		}
	}
	if k.runs {
		t.Kind = "execute" // whatever the agent takes the command for
	}
	if t.Kind == "execute" && !k.runs {
		t.Command = t.Title // some agents say the command only there, and only when they ask
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
				before, after := inFile(path, old, x.Diff.NewText)
				if old != "" && u.Status != nil && *u.Status == sdk.ToolCallStatusCompleted {
					after, before = inFile(path, x.Diff.NewText, old) // the file has the change by now
				}
				diffs = append(diffs, provider.UnifiedDiff(path, x.Diff.OldText != nil, before, after))
				if len(u.Locations) == 0 && !slices.Contains(t.Paths, path) {
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
		beside, _ := out["metadata"].(map[string]any)
		for _, v := range []any{out["exit_code"], out["exitCode"], beside["exit"]} {
			if n, ok := v.(float64); ok {
				code := int(n)
				k.exit = &code
			}
		}
	}
}

func (c *conn) interrupted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn != nil && c.turn.interrupted
}

// current is the running turn, if there is one.
func (c *conn) current() *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

func (c *conn) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.spec.Folder, path)
}

// inFile puts a change of a piece of a file into the whole of it, so that a
// person sees where it is. A piece that is there more than once, or not, stays
// alone: it can't be told which is meant.
func inFile(path, old, new string) (before, after string) {
	info, err := os.Stat(path)
	if old == "" || err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return old, new
	}
	b, err := os.ReadFile(path)
	if err != nil || !utf8.Valid(b) || strings.Count(string(b), old) != 1 {
		return old, new
	}
	return string(b), strings.Replace(string(b), old, new, 1)
}

// command reads a command line: a text for a shell, or a list of arguments,
// which is shown so that each argument can be told from the next.
func command(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		if s, ok := script(v); ok {
			return s
		}
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

// script is what a shell is given to run, if that is all that the arguments say.
func script(args []any) (string, bool) {
	if len(args) != 3 || args[1] != "-c" {
		return "", false
	}
	shell, _ := args[0].(string)
	s, ok := args[2].(string)
	return s, ok && s != "" && child.SystemShell(shell)
}

// client answers the agent's requests.
type client struct{ c *conn }

// RequestPermission implements sdk.Client. It waits for a person.
func (cl client) RequestPermission(ctx context.Context, r sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	c := cl.c
	in, ok := r.ToolCall.RawInput.(map[string]any)
	if _, runs := in["command"]; ok && (len(in) == 0 || runs && c.agent.cwd != "") { // where it runs is not said with it
		c.awaitInput(ctx, string(r.ToolCall.ToolCallId))
	}
	id, a := c.request(r.ToolCall, r.Options, nil)
	if a == nil {
		return sdk.RequestPermissionResponse{Outcome: cancelled}, nil
	}
	return sdk.RequestPermissionResponse{Outcome: c.await(ctx, id, a)}, nil
}

// await returns how a request was settled, and notes it for the call.
func (c *conn) await(ctx context.Context, id string, a *ask) sdk.RequestPermissionOutcome {
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
		return outcome
	}
	k, t := c.calls[a.call], c.current()
	for _, o := range a.options {
		switch {
		case k == nil || t == nil || o.OptionId != outcome.Selected.OptionId:
		case o.Kind == sdk.PermissionOptionKindRejectOnce:
			c.deny(t, k, a.reason)
		default:
			k.allowed = true
		}
	}
	return outcome
}

// request registers and announces a request, or returns nil when no turn is
// there that could wait for it.
func (c *conn) request(u sdk.ToolCallUpdate, options []sdk.PermissionOption, q *provider.Question) (string, *ask) {
	c.step.Lock()
	defer c.step.Unlock()
	c.mu.Lock()
	t := c.turn
	if t != nil {
		c.aliveLocked(t)
	}
	if t == nil || t.interrupted || t.ended[string(u.ToolCallId)] || t.before[string(u.ToolCallId)] {
		c.mu.Unlock()
		return "", nil
	}
	given := t.inputs[string(u.ToolCallId)]
	c.mu.Unlock()
	// What the request doesn't say of the call's input is said beside it.
	in, _ := u.RawInput.(map[string]any)
	var all map[string]any
	whole := len(in) == 0 && json.Unmarshal(given, &all) == nil && all != nil
	if whole {
		u.RawInput = all
	} else if c.agent.cwd != "" && json.Unmarshal(given, &all) == nil && len(in) > 0 && all[c.agent.cwd] != nil {
		in[c.agent.cwd] = all[c.agent.cwd]
	}
	u.Status = nil // it only asks
	c.toolUpdate(t, u, true)
	k := c.calls[string(u.ToolCallId)]
	// What it says with a request is no output yet, but of what would happen.
	if len(k.tool.Input) == 0 && k.output != "" {
		c.explained(&k.tool, k.output)
	}
	k.output = ""
	if whole {
		k.tool.Input = given // as it was said
	}
	a := &ask{call: k.tool.Call, options: options, answer: make(chan sdk.RequestPermissionOutcome, 1)}
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
	c.events.Emit(provider.PermissionRequested{Request: id, Tool: k.tool, Question: q})
	return id, a
}

// explained takes in what an agent says of a call in place of its input: perhaps
// the input itself. A text that nobody understands is shown as it is, and counts
// when the call is compared with others.
func (c *conn) explained(t *provider.Tool, text string) {
	if in := []byte(text); bytes.HasPrefix(in, []byte("{")) && json.Valid(in) {
		t.Input = in
		return
	}
	if c.agent.explains != nil && t.Kind == "execute" {
		if dir, reason, ok := c.agent.explains(text); ok {
			t.Cwd, t.Reason = c.absolute(dir), reason
			return
		}
	}
	t.Input, _ = json.Marshal(map[string]string{"shown": text})
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
