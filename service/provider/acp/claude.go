package acp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// claudeMethod carries what Claude Code itself said to its adapter.
const claudeMethod = "_claude/sdkMessage"

// claudeSaid picks what of that is passed on: what Claude Code began with, each
// answer of the model, and how a turn ended.
var claudeSaid = []any{map[string]any{"type": "system", "subtype": "init"}, map[string]any{"type": "assistant"}, map[string]any{"type": "result"}}

// behind is what Claude Code said of a turn.
type behind struct {
	answers map[string]bool // of the model, by their ids
	status  int             // of HTTP, if the turn ended with an error of the model service
}

// said takes in what Claude Code said. It begins each turn with its mode and the
// MCP servers that it has; one that does not ask, or has a server that is not the
// mission's, is ended.
func (c *conn) said(raw json.RawMessage) {
	var p struct {
		Message struct {
			Type    string `json:"type"`
			Mode    string `json:"permissionMode"`
			Servers []struct {
				Name   string `json:"name"`
				Status string `json:"status"`
			} `json:"mcp_servers"`
			Status  int `json:"api_error_status"`
			Message struct {
				ID    string `json:"id"`
				Model string `json:"model"`
			} `json:"message"`
		} `json:"message"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return
	}
	c.step.Lock()
	defer c.step.Unlock()
	t, m := c.current(), p.Message
	switch m.Type {
	case "system":
		if m.Mode != c.spec.Mode {
			c.violate(fmt.Sprintf("The agent works in its mode %q, in which it does not ask for everything, so it was ended. Look at the checkout, then resume or stop the mission.", m.Mode))
			return
		}
		for _, s := range m.Servers {
			handed := slices.ContainsFunc(c.spec.Servers, func(h provider.Server) bool { return h.Name == s.Name })
			switch {
			case !handed:
				c.violate(fmt.Sprintf("The agent loaded the MCP server %q, which is not the mission's, so it was ended. Look at the checkout, then resume or stop the mission.", s.Name))
				return
			case t != nil && s.Status == "failed" && !c.told[s.Name]: // before a turn it is too early
				c.noServer(s.Name)
			}
		}
	case "assistant":
		if t != nil && m.Message.ID != "" && m.Message.Model != "<synthetic>" { // it says its own errors so
			if t.answers == nil {
				t.answers = map[string]bool{}
			}
			t.answers[m.Message.ID] = true
		}
	case "result":
		if t != nil {
			t.status = m.Status
		}
	}
}

// noServer tells of a server that did not start. Needs step, or the time before
// the first turn.
func (c *conn) noServer(name string) {
	if c.told == nil {
		c.told = map[string]bool{}
	}
	c.told[name] = true
	c.events.Emit(provider.Notice{Level: "warning", Text: fmt.Sprintf("The MCP server %s did not start; the agent works without its tools.", name)})
}

var exitCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^(?:```[a-z]*\n)?Exit code (\\d+)\\b") })

// exitOf is how a command ended, which only its output tells where it failed.
func exitOf(status sdk.ToolCallStatus, output string) *int {
	if status == sdk.ToolCallStatusCompleted {
		return new(int)
	}
	m := exitCode().FindStringSubmatch(output)
	if m == nil {
		return nil
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return nil
	}
	return &n
}

// codeOf is the code of a turn that ended with err. The adapter has one word for
// who is not signed in and who is not permitted.
func (t *turn) codeOf(err error) mission.Code {
	if t.status == http.StatusForbidden {
		return mission.PermissionRequired
	}
	return classify(err)
}
