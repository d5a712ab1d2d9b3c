package acp

import (
	"slices"
	"strconv"
	"time"

	"github.com/reevehq/reeve/service/provider"
)

// How long a call of an MCP server's tool may take: where it is not known when the
// agent's program gives it up, as many do after a minute; and where that is never,
// or as late as Codex does in its home, which is after a day.
const (
	shortCall = 50 * time.Second
	longCall  = 23 * time.Hour
)

// questioning has servers offer the agent the tool by which it asks the person.
func questioning(servers []provider.Server, limit time.Duration) []provider.Server {
	servers = slices.Clone(servers)
	for i, s := range servers {
		if s.Question != "" {
			servers[i].Env = append(slices.Clone(s.Env), provider.QuestionsVar+"="+strconv.Itoa(int(limit/time.Second)))
		}
	}
	return servers
}

// questions says whether a call is of that tool, which runs unasked where the
// agent can be told so: what it asks is put before the person by itself. A
// command may look like it by its title, but not by its kind.
func (c *conn) questions(k *call) bool {
	return c.agent.question != nil && !k.runs && k.tool.Kind == "other" && slices.ContainsFunc(c.spec.Servers, func(s provider.Server) bool {
		return s.Question != "" && k.tool.Title == c.agent.question(s)
	})
}
