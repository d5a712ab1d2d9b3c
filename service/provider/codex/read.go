package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reevehq/reeve/service/provider"
)

// Requests that become permissions. All others are refused.
const (
	askCommand  = "item/commandExecution/requestApproval"
	askChange   = "item/fileChange/requestApproval"
	askQuestion = "item/tool/requestUserInput"
	askServer   = "mcpServer/elicitation/request"
)

// read handles the program's output to its end, then settles what is open.
func (c *conn) read() {
	defer close(c.done)
	defer c.events.Close()
	c.p.Lines(func(line []byte) {
		// What is no message is not ours to understand.
		if m, err := parse(line); err == nil {
			c.handle(m)
		}
	})
	c.p.End()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.finishTurn(nil)
}

func (c *conn) handle(m message) {
	switch {
	case m.Method == "":
		c.mu.Lock()
		w, ok := c.waiting[string(m.ID)]
		delete(c.waiting, string(m.ID))
		c.mu.Unlock()
		if ok && w.first != nil {
			w.first(m)
		}
		if ok {
			w.reply <- m
		}
	case len(m.ID) > 0:
		c.request(m)
	default:
		c.notified(m)
	}
}

// violate ends the program because something ran, or would run, unseen.
func (c *conn) violate(why string) {
	c.mu.Lock()
	if c.broken == "" {
		c.broken = why
	}
	c.mu.Unlock()
	c.kill()
}

// request announces a permission request or refuses what is none.
func (c *conn) request(m message) {
	p, err := m.read()
	if err != nil || !c.shown(m.Method, p) {
		// A write that fails means that the program is gone; the reader sees that.
		c.send(object{"id": m.ID, "error": object{"code": -32601, "message": "Reeve does not offer this"}})
		return
	}
	id := string(m.ID)
	q := &ask{id: m.ID, kind: m.Method, call: p.ItemID, typing: p.Kind == "writeStdin", questions: p.Questions}
	e := provider.PermissionRequested{Request: id}
	switch m.Method {
	case askQuestion:
		e.Question = asked(p.Questions)
		q.call = c.synthetic(q.call, id, provider.Tool{Name: "request_user_input", Kind: "other", Title: e.Question.Text})
	case askServer:
		var known bool
		if q.call, known = c.serverCall(p); !known {
			c.send(object{"id": m.ID, "error": object{"code": -32601, "message": "Reeve can't tell which call this is about"}})
			return
		}
		if q.call == "" {
			q.call = c.synthetic("", id, provider.Tool{Name: p.Meta.Tool, Server: p.ServerName, Kind: "mcp", Title: p.Message, Input: p.Meta.Args})
		}
	default:
		c.start(p.ItemID, provider.Tool{Name: "shell", Kind: "execute", Title: "Run a command"})
	}
	k := c.calls[q.call]
	switch m.Method {
	case askCommand:
		k.tool = c.commandTool(k.tool, p)
	case askChange:
		k.tool.Reason = p.Reason
	}
	k.shown = k.tool.Diff
	e.Tool = k.tool
	q.title = e.Tool.Title
	c.mu.Lock()
	c.open[id] = q
	c.mu.Unlock()
	c.events.Emit(e)
}

// shown reports whether a request is one that a person can decide about: of the
// turn in flight, with all of what would be done.
func (c *conn) shown(method string, p params) bool {
	t := c.inFlight()
	if t == nil || p.ThreadID != c.threadID() || (p.TurnID != "" && p.TurnID != t.id) {
		return false
	}
	switch method {
	case askCommand:
		return p.ItemID != "" && p.Command != ""
	case askChange: // it has neither paths nor a diff: those were announced
		k := c.calls[p.ItemID]
		return k != nil && len(k.tool.Paths) > 0 && p.GrantRoot == "" // a root would allow more than is shown
	case askQuestion:
		return len(p.Questions) > 0
	}
	return method == askServer && p.Meta.Kind == "mcp_tool_call"
}

// synthetic begins a call that the program does not announce. It ends when its
// request is settled.
func (c *conn) synthetic(call, request string, t provider.Tool) string {
	if call == "" {
		call = "request-" + request
	}
	if c.calls[call] == nil {
		c.settles[request] = call
	}
	c.start(call, t)
	return call
}

func (c *conn) notified(m message) {
	p, err := m.read()
	if wrong := (*json.UnmarshalTypeError)(nil); err != nil && !errors.As(err, &wrong) {
		return // what fits was read; the rest is of a release that says it otherwise
	}
	switch m.Method {
	case "thread/settings/updated":
		if p.Settings != nil && p.ThreadID == c.threadID() {
			if why := p.Settings.unsafe(); why != "" {
				c.violate(why)
			}
		}
		return
	case "mcpServer/startupStatus/updated":
		c.serverState(m.Params)
	case "account/rateLimits/updated":
		c.limitEnds = p.limitEnds()
		return
	case "hook/started":
		c.violate("it ran a hook")
		return
	case "item/autoApprovalReview/started":
		c.violate("something other than the person reviews what it asks for")
		return
	}
	if p.ThreadID != c.threadID() {
		return
	}
	if m.Method == "thread/tokenUsage/updated" {
		c.usage(p)
		return
	}
	t := c.inFlight()
	if t == nil || (p.TurnID != "" && p.TurnID != t.id) {
		return // an earlier turn's command that was interrupted ends late
	}
	c.tellFailed()
	switch m.Method {
	case "turn/completed":
		if p.Turn.ID == t.id {
			c.finishTurn(&p.Turn)
		}
	case "serverRequest/resolved":
		c.resolved(string(bytes.TrimSpace(p.RequestID)))
	case "item/started":
		c.itemStarted(p.Item)
	case "item/completed":
		c.itemCompleted(p.Item)
	case "item/agentMessage/delta":
		c.streamed[p.ItemID] += len(p.Delta)
		c.events.Emit(provider.Text{Text: p.Delta})
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		c.streamed[p.ItemID] += len(p.Delta)
		c.events.Emit(provider.Thought{Text: p.Delta})
	case "item/commandExecution/outputDelta":
		if k := c.calls[p.ItemID]; k != nil {
			k.output.WriteString(p.Delta)
		}
	case "item/fileChange/patchUpdated":
		if k := c.calls[p.ItemID]; k != nil && k.shown == "" {
			now := changeTool(p.Changes)
			k.tool.Paths, k.tool.Diff, k.tool.Title = now.Paths, now.Diff, now.Title
		}
	case "item/commandExecution/terminalInteraction":
		if p.Stdin != "" && !c.isAllowed(typing(p.ItemID)) {
			c.violate("it typed into a command without asking")
		}
	case "turn/plan/updated":
		var steps []provider.PlanStep
		for _, s := range p.Plan {
			steps = append(steps, provider.PlanStep{Text: s.Step, Status: planStatus(s.Status)})
		}
		c.events.Emit(provider.Plan{Steps: steps})
	case "model/rerouted":
		c.model, c.modelFrom = p.ToModel, "model-rerouted"
	case "error":
		if p.Error != nil && p.WillRetry {
			why := "did not answer"
			if _, status := p.Error.info(); status != 0 {
				why = fmt.Sprintf("answered %d", status)
			}
			c.events.Emit(provider.Notice{Level: "warning", Text: "The model service " + why + "; Codex tries again."})
		}
	}
}

// resolved tells of a request that the program no longer waits for.
func (c *conn) resolved(id string) {
	c.mu.Lock()
	_, was := c.open[id]
	delete(c.open, id)
	c.mu.Unlock()
	if was {
		c.events.Emit(provider.PermissionWithdrawn{Request: id})
	}
	call, ok := c.settles[id]
	if !ok {
		return
	}
	delete(c.settles, id)
	status := "ok"
	switch {
	case was:
		status = "cancelled"
	case c.isDenied(call):
		status = "denied"
	}
	c.finishCall(provider.ToolFinished{Call: call, Status: status})
}

// inFlight is the turn in flight, or nil.
func (c *conn) inFlight() *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

func (c *conn) threadID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.thread
}

func (c *conn) isAllowed(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowed[call]
}

func (c *conn) isDenied(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied[call]
}
