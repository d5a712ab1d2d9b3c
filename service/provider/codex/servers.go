package codex

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

// otherServers says which of the configured servers is not one of the mission's
// exactly as it was handed over, or "".
func otherServers(found map[string]json.RawMessage, handed []provider.Server) string {
	for name, raw := range found {
		i := slices.IndexFunc(handed, func(s provider.Server) bool { return s.Name == name })
		if i < 0 {
			return name
		}
		var is codexhome.Server
		want := codexhome.Configured(handed[i])
		tools := func() bool { s := string(is.Tools); return s == "" || s == "null" || s == "{}" }
		if json.Unmarshal(raw, &is) != nil || is.Command != want.Command || !slices.Equal(is.Args, want.Args) ||
			!maps.Equal(is.Env, want.Env) || is.Ask != want.Ask || !tools() || is.URL != "" || is.Cwd != "" {
			return name
		}
	}
	return ""
}

// handed says whether a server is one of the mission's. What the program starts
// was compared before the first prompt, so the name proves it.
func (c *conn) handed(server string) bool {
	return slices.ContainsFunc(c.spec.Servers, func(s provider.Server) bool { return s.Name == server })
}

// serverState takes note of a server that did not start. That is told in a turn,
// and once.
func (c *conn) serverState(raw json.RawMessage) {
	var p struct{ Name, Status string }
	if json.Unmarshal(raw, &p) != nil {
		return
	}
	if p.Status == "failed" && !slices.Contains(c.failed, p.Name) {
		c.failed = append(c.failed, p.Name)
	}
}

func (c *conn) tellFailed() {
	for _, name := range c.failed[c.told:] {
		c.events.Emit(provider.Notice{Level: "warning", Text: fmt.Sprintf("The MCP server %s did not start; Codex works without its tools.", name)})
	}
	c.told = len(c.failed)
}

// serverCall finds the call that a request for an MCP tool is about, which it does
// not name: one of the tool's that was not asked for yet, with the arguments that
// the request shows where there are several. known is false where that can't be
// told: a person would decide about another call than they see. A call that was
// not announced has no name.
func (c *conn) serverCall(p params) (id string, known bool) {
	asked := map[string]bool{}
	c.mu.Lock()
	for _, q := range c.open {
		asked[q.call] = true
	}
	c.mu.Unlock()
	var all, same []string
	for id, k := range c.calls {
		if k.tool.Server != p.ServerName || k.tool.Name != p.Meta.Tool || asked[id] || c.isAllowed(id) || c.isDenied(id) {
			continue
		}
		all = append(all, id)
		if equal(k.tool.Input, p.Meta.Args) {
			same = append(same, id)
		}
	}
	switch {
	case len(same) > 0:
		return slices.Min(same), true // they ask for the same
	case len(all) > 1:
		return "", false
	case len(all) == 1:
		return all[0], true
	}
	return "", true
}

// equal says whether two JSON values are the same, however they are written.
func equal(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
