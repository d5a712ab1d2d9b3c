package codex

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
)

// start announces a call once.
func (c *conn) start(id string, t provider.Tool) {
	if c.calls[id] != nil {
		return
	}
	t.Call = id
	t.Own = t.Kind == "mcp" && c.handed(t.Server)
	if t.Cwd == "" {
		t.Cwd = c.spec.Folder
	}
	c.calls[id] = &call{tool: t}
	if turn := c.inFlight(); turn != nil {
		turn.toolCalls++
	}
	c.events.Emit(provider.ToolStarted{Tool: t})
}

func (c *conn) itemStarted(it item) {
	switch it.Type {
	case "commandExecution":
		if it.Source == "unifiedExecInteraction" {
			return // it watches, or writes to, a command that was announced
		}
		command := unwrap(it.Command)
		c.start(it.ID, provider.Tool{Name: "shell", Kind: "execute", Title: command, Command: command, Cwd: it.Cwd})
	case "fileChange":
		c.start(it.ID, changeTool(it.Changes))
	case "mcpToolCall":
		c.start(it.ID, provider.Tool{Name: it.Tool, Server: it.Server, Kind: "mcp", Title: it.Tool, Input: it.Arguments})
	case "webSearch":
		c.start(it.ID, provider.Tool{Name: "web_search", Kind: "fetch", Title: it.Query})
	case "imageView":
		c.start(it.ID, provider.Tool{Name: "view_image", Kind: "read", Title: "View " + it.Path, Paths: []string{it.Path}})
	case "dynamicToolCall", "collabAgentToolCall", "imageGeneration":
		c.start(it.ID, provider.Tool{Name: it.Type, Kind: "other", Title: it.Type})
	}
}

func (c *conn) itemCompleted(it item) {
	switch it.Type {
	case "agentMessage":
		c.text(it)
		return
	case "reasoning":
		if text := strings.Join(it.Summary, "\n"); text != "" && c.streamed[it.ID] == 0 {
			c.events.Emit(provider.Thought{Text: text})
		}
		delete(c.streamed, it.ID)
		return
	}
	c.itemStarted(it)
	k := c.calls[it.ID]
	if k == nil {
		return
	}
	e := provider.ToolFinished{Call: it.ID, Status: "ok", Exit: it.Exit}
	switch it.Status {
	case "failed":
		e.Status = "failed"
		if it.Type == "mcpToolCall" && c.isDenied(it.ID) {
			e.Status = "denied" // it knows no other end of one
		}
	case "declined":
		e.Status = "denied"
		if !c.isDenied(it.ID) {
			e.Status = "cancelled"
		}
	}
	switch it.Type {
	case "commandExecution", "fileChange", "mcpToolCall":
		// One that failed before it could be asked for did nothing.
		ran := it.Status == "completed" || it.Exit != nil
		if ran && !c.isAllowed(it.ID) {
			c.violate("it did something without asking: " + k.tool.Title)
		}
	}
	if it.Type == "fileChange" && it.Status == "completed" && changeTool(it.Changes).Diff != k.shown {
		c.violate("it changed something else than it had shown: " + k.tool.Title)
	}
	switch it.Type {
	case "commandExecution":
		if e.Output = k.output.String(); it.Output != nil {
			e.Output = *it.Output
		}
		if e.Status == "ok" && e.Exit != nil && *e.Exit != 0 {
			e.Status = "failed"
		}
	case "fileChange":
		if e.Status == "ok" {
			e.Diff = changeTool(it.Changes).Diff
		}
	case "mcpToolCall":
		e.Output = resultText(it.Result)
		if len(it.Error) > 0 && string(it.Error) != "null" {
			e.Output = resultText(it.Error)
		}
	}
	c.finishCall(e)
}

func (c *conn) finishCall(e provider.ToolFinished) {
	if c.calls[e.Call] == nil {
		return // it ended already
	}
	delete(c.calls, e.Call)
	c.mu.Lock()
	delete(c.allowed, e.Call)
	delete(c.denied, e.Call)
	c.mu.Unlock()
	c.events.Emit(e)
}

// text emits the part of a whole message that was not streamed before.
func (c *conn) text(it item) {
	if n := c.streamed[it.ID]; n < len(it.Text) {
		c.events.Emit(provider.Text{Text: it.Text[n:]})
	}
	delete(c.streamed, it.ID)
	if t := c.inFlight(); t != nil && it.Text != "" {
		t.final = it.Text
	}
}

// commandTool is what a request for a command shows. Its input holds what would
// be run and nothing that differs each time: a rule must know it again.
func (c *conn) commandTool(t provider.Tool, p params) provider.Tool {
	t.Reason = p.Reason
	if p.Cwd != "" {
		t.Cwd = p.Cwd
	}
	command := unwrap(p.Command)
	if command != "" {
		t.Command, t.Title = command, command
	}
	shown := object{"command": command, "cwd": t.Cwd}
	if p.Kind == "writeStdin" {
		t.Title = "Type into a running command: " + t.Command
		shown["kind"] = p.Kind
	}
	for name, more := range map[string]json.RawMessage{"permissions": p.Extra, "network": p.Network} {
		if len(more) > 0 && string(more) != "null" {
			shown[name] = more
			t.Title += " (asks for more " + name + ": " + string(more) + ")"
		}
	}
	if b, err := json.Marshal(shown); err == nil {
		t.Input = b
	}
	return t
}

// changeTool describes a change of files by the paths and diffs of its item.
func changeTool(list []change) provider.Tool {
	t := provider.Tool{Name: "apply_patch", Kind: "edit"}
	var diffs strings.Builder
	for _, ch := range list {
		t.Paths = append(t.Paths, ch.Path)
		to := ch.Path
		if ch.Kind.MovePath != "" {
			to = ch.Kind.MovePath
			t.Paths = append(t.Paths, to)
		}
		switch ch.Kind.Type {
		case "add":
			diffs.WriteString(provider.UnifiedDiff(ch.Path, false, "", ch.Diff))
		case "delete":
			diffs.WriteString(provider.UnifiedDiff(ch.Path, true, ch.Diff, ""))
		default:
			diffs.WriteString("--- a/" + diffName(ch.Path) + "\n+++ b/" + diffName(to) + "\n" + ch.Diff)
			if !strings.HasSuffix(ch.Diff, "\n") {
				diffs.WriteString("\n")
			}
		}
	}
	t.Diff = diffs.String()
	t.Title = "Edit " + strings.Join(t.Paths, ", ")
	return t
}

func diffName(path string) string {
	return strings.NewReplacer("\n", "\\n", "\r", "\\r").Replace(strings.TrimPrefix(filepath.ToSlash(path), "/"))
}

// unwrap returns the script of a command line of the form `/bin/bash -c SCRIPT`,
// which is how the program runs everything. A line of another form, of a shell
// that is not the system's, or one whose quotes are not plain, is returned as it
// is: more is shown, never less.
func unwrap(line string) string {
	shell, rest, ok := strings.Cut(line, " ")
	if !ok || !child.SystemShell(shell) {
		return line
	}
	flag, script, ok := strings.Cut(rest, " ")
	if !ok || (flag != "-c" && flag != "-lc") {
		return line
	}
	if one, ok := unquote(script); ok {
		return one
	}
	return line
}

// unquote reads one word of a shell, quoted or not.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for len(s) > 0 {
		switch s[0] {
		case '\'':
			text, rest, ok := strings.Cut(s[1:], "'")
			if !ok {
				return "", false
			}
			b.WriteString(text)
			s = rest
		case '"':
			i := 1
			for ; i < len(s) && s[i] != '"'; i++ {
				switch s[i] {
				case '$', '`':
					return "", false
				case '\\':
					if i++; i == len(s) {
						return "", false
					}
					if !strings.ContainsRune("\"\\$`\n", rune(s[i])) {
						b.WriteByte('\\')
					}
				}
				b.WriteByte(s[i])
			}
			if i >= len(s) {
				return "", false
			}
			s = s[i+1:]
		default:
			if !plain(s[0]) {
				return "", false
			}
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return b.String(), b.Len() > 0
}

// plain reports whether c stands for itself outside quotes.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c > 0x7f || strings.IndexByte("_-./:@%+=,", c) >= 0
}

// resultText is the text of an MCP tool's result or error.
func resultText(raw json.RawMessage) string {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Message string `json:"message"`
	}
	json.Unmarshal(raw, &r)
	texts := []string{}
	for _, x := range r.Content {
		texts = append(texts, x.Text)
	}
	if r.Message != "" {
		texts = append(texts, r.Message)
	}
	return strings.Join(texts, "\n")
}

// asked returns the questions as one; answers then gives one line to each.
func asked(list []question) *provider.Question {
	q := &provider.Question{}
	var texts []string
	for _, x := range list {
		texts = append(texts, x.Text)
		for _, o := range x.Options {
			q.Options = append(q.Options, o.Label)
		}
	}
	q.Text = strings.Join(texts, "\n")
	return q
}

func planStatus(s string) string {
	if s == "inProgress" {
		return "in_progress"
	}
	return s
}
