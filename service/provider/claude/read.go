package claude

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/reevehq/reeve/service/provider"
)

// read handles the program's output to its end, then settles what is open.
func (c *conn) read() {
	defer close(c.done)
	defer c.events.Close()
	c.p.Lines(func(line []byte) {
		// What is no message is not ours to understand; the program also
		// prints warnings.
		if m, err := parse(line); err == nil {
			c.handle(m)
		}
	})
	c.p.End()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.finishTurn(true)
}

func (c *conn) handle(m message) {
	switch m.Type {
	case "control_response":
		if m.Response.RequestID == initID {
			select {
			case c.ready <- m.Response:
			default:
			}
		}
	case "control_request":
		c.handleRequest(m)
	case "control_cancel_request":
		c.mu.Lock()
		_, was := c.open[m.RequestID]
		delete(c.open, m.RequestID)
		c.mu.Unlock()
		if was {
			c.events.Emit(provider.PermissionWithdrawn{Request: m.RequestID})
		}
	case "system":
		c.handleSystem(m)
	case "command_lifecycle":
		c.handleLifecycle(m)
	case "stream_event":
		if m.Parent == "" {
			c.handleStream(m.Event)
		}
	case "assistant":
		c.handleAssistant(m)
	case "user":
		for _, b := range m.Message.Content {
			if b.Type == "tool_result" {
				c.finishTool(b, m.ToolMeta)
			}
		}
	case "rate_limit_event":
		if t := c.inFlight(); t != nil {
			t.limit = m.RateLimit
		}
	case "result":
		c.handleResult(m)
	}
}

// violate ends the program because it would run something unseen.
func (c *conn) violate(why string) {
	c.mu.Lock()
	if c.broken == "" {
		c.broken = why
	}
	c.mu.Unlock()
	c.kill()
}

func (c *conn) handleRequest(m message) {
	switch r := m.Request; r.Subtype {
	case "hook_callback":
		var in hookInput
		json.Unmarshal(r.Input, &in)
		if !safeMode(in.PermissionMode) {
			c.violate(fmt.Sprintf("the permission mode became %q", in.PermissionMode))
			return
		}
		if t := c.calls[r.ToolUseID]; t != nil && in.Cwd != "" {
			t.cwd = in.Cwd
		}
		// A write that fails means that the program is gone; the reader sees that.
		c.respond(m.RequestID, object{"hookSpecificOutput": object{
			"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "Reeve asks for every tool"}})
	case "can_use_tool":
		c.startTool(r.ToolUseID, r.ToolName, r.Input)
		call := c.calls[r.ToolUseID]
		e := provider.PermissionRequested{Request: m.RequestID, Tool: c.describe(r.ToolUseID, r.ToolName, r.Input, call.cwd, true)}
		call.diff = e.Tool.Diff
		q := &ask{call: r.ToolUseID, input: r.Input}
		if r.ToolName == "AskUserQuestion" {
			e.Question, q.question = asked(r.Input), true
		}
		c.mu.Lock()
		c.open[m.RequestID] = q
		c.mu.Unlock()
		c.events.Emit(e)
	default:
		c.send(object{"type": "control_response", "response": object{
			"subtype": "error", "request_id": m.RequestID, "error": "not supported"}})
	}
}

func (c *conn) handleSystem(m message) {
	switch m.Subtype {
	case "init":
		if !safeMode(m.PermissionMode) {
			c.violate(fmt.Sprintf("it works in permission mode %q", m.PermissionMode))
		}
		c.checkServers(m.MCPServers)
		for _, p := range m.Plugins {
			if p.Path != "builtin" {
				c.violate(fmt.Sprintf("it loaded the plugin %q", p.Name))
			}
		}
		if t := c.inFlight(); t != nil && t.model == "" && m.Model != "" {
			t.model, t.modelFrom = m.Model, "init"
		}
	case "status":
		if m.PermissionMode != "" && !safeMode(m.PermissionMode) {
			c.violate(fmt.Sprintf("the permission mode became %q", m.PermissionMode))
		}
	case "api_retry":
		why := "did not answer"
		if m.ErrorStatus != nil {
			why = fmt.Sprintf("answered %d", *m.ErrorStatus)
		}
		c.events.Emit(provider.Notice{Level: "warning",
			Text: fmt.Sprintf("The model service %s; Claude Code tries again (%d of %d).", why, m.Attempt, m.MaxRetries)})
	}
}

// inFlight is the turn in flight, or nil.
func (c *conn) inFlight() *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

func (c *conn) handleLifecycle(m message) {
	c.lifecycle = true
	c.mu.Lock()
	t := c.turn
	if t == nil {
		c.mu.Unlock()
		return
	}
	if _, ours := t.messages[m.CommandUUID]; !ours {
		c.mu.Unlock()
		return
	}
	switch m.State {
	case "started":
		t.messages[m.CommandUUID] = started
		t.result = nil // it answers this too
	case "completed", "cancelled", "discarded":
		t.messages[m.CommandUUID] = ended
	}
	settled := t.settledLocked()
	c.mu.Unlock()
	if settled {
		c.finishTurn(false)
	}
}

func (c *conn) handleStream(e streamEvent) {
	t := c.inFlight()
	switch e.Type {
	case "message_start":
		c.current = e.Message
		if t != nil {
			t.modelCalls++
			t.running.Input += e.Message.Usage.Input
			t.running.CacheRead += e.Message.Usage.CacheRead
			t.running.CacheWrite += e.Message.Usage.CacheWrite
		}
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta":
			c.streamed[c.current.ID] += e.Delta.Text
			c.events.Emit(provider.Text{Text: e.Delta.Text})
		case "thinking_delta":
			if e.Delta.Thinking != "" {
				c.thought[c.current.ID] = true
				c.events.Emit(provider.Thought{Text: e.Delta.Thinking})
			}
		}
	case "message_delta":
		if t != nil && e.Usage != nil {
			t.running.Output += e.Usage.Output
			c.events.Emit(provider.UsageReported{Usage: t.usage()})
		}
	}
}

func (c *conn) handleAssistant(m message) {
	t := c.inFlight()
	if kind := m.errorKind(); kind != "" && t != nil {
		t.seen = failure{kind: kind}
		if m.APIStatus != nil {
			t.seen.status = *m.APIStatus
		}
		return // its text is the program's own, not the model's
	}
	if t != nil && m.Parent == "" && m.Message.Model != "" && m.Message.Model != "<synthetic>" {
		t.model, t.modelFrom = m.Message.Model, "assistant-message"
	}
	for _, b := range m.Message.Content {
		switch b.Type {
		case "text":
			if m.Parent == "" {
				c.text(m.Message.ID, b.Text)
			}
		case "thinking":
			if m.Parent == "" && !c.thought[m.Message.ID] && b.Thinking != "" {
				c.events.Emit(provider.Thought{Text: b.Thinking})
			}
		case "tool_use":
			if steps := planOf(b.Name, b.Input); steps != nil {
				c.events.Emit(provider.Plan{Steps: steps})
			}
			c.startTool(b.ID, b.Name, b.Input)
		}
	}
}

// text emits the part of a whole block that was not streamed before.
func (c *conn) text(id, text string) {
	before := c.streamed[id]
	if rest, ok := strings.CutPrefix(before, text); ok {
		c.streamed[id] = rest
		return
	}
	delete(c.streamed, id)
	if rest := strings.TrimPrefix(text, before); rest != "" {
		c.events.Emit(provider.Text{Text: rest})
	}
}

func (c *conn) startTool(id, name string, in json.RawMessage) {
	if c.calls[id] != nil {
		return
	}
	var known input
	json.Unmarshal(in, &known)
	c.calls[id] = &toolCall{name: name, cwd: c.spec.Folder, background: known.Background}
	if t := c.inFlight(); t != nil {
		t.toolCalls++
	}
	c.events.Emit(provider.ToolStarted{Tool: c.describe(id, name, in, c.spec.Folder, false)})
}

var exitCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Exit code (\d+)`) })

func (c *conn) finishTool(b block, meta []toolMeta) {
	call := c.calls[b.ToolUseID]
	if call == nil {
		return // it ended already
	}
	delete(c.calls, b.ToolUseID)
	c.mu.Lock()
	denied := c.denied[b.ToolUseID]
	delete(c.denied, b.ToolUseID)
	c.mu.Unlock()
	e := provider.ToolFinished{Call: b.ToolUseID, Status: "ok", Output: b.Content.text()}
	if b.IsError {
		e.Status = "failed"
	}
	for _, m := range meta {
		if m.ID != b.ToolUseID {
			continue
		}
		if m.Decision.Decision == "reject" {
			e.Status = "denied"
		} else if m.Kind == "user-rejected" {
			e.Status = "cancelled"
		}
	}
	if denied {
		e.Status = "denied"
	}
	if e.Status == "ok" {
		e.Diff = call.diff
	}
	if call.name == "Bash" && !call.background {
		if m := exitCode().FindStringSubmatch(e.Output); m != nil && e.Status == "failed" {
			if n, err := strconv.Atoi(m[1]); err == nil {
				e.Exit = &n
			}
		} else if e.Status == "ok" {
			e.Exit = new(int)
		}
	}
	c.events.Emit(e)
}

func (c *conn) handleResult(m message) {
	c.seen.text = strings.Join(m.Errors, "\n")
	c.mu.Lock()
	t := c.turn
	switch {
	case t == nil, c.lifecycle && t.messages[t.prompt] == sent:
		c.mu.Unlock()
		return // of an earlier turn
	case !c.lifecycle:
		for id := range t.messages {
			t.messages[id] = ended
		}
	}
	t.result = &m
	t.add(m)
	settled := t.settledLocked()
	c.mu.Unlock()
	if settled {
		c.finishTurn(false)
	}
}
