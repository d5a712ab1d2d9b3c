package codexhome

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reevehq/reeve/service/provider"
)

// askAlways has each call of a server's tools asked for, whatever the server says
// of itself: the program would otherwise run what is marked as harmless unasked.
const askAlways = "prompt"

// toolLimit is how long a tool may take, in seconds: one that asks a person has
// as long as a mission can last, and more.
const toolLimit = 24 * 3600

// Server is an MCP server as the program's configuration has it.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Ask     string            `json:"default_tools_approval_mode"`
	Tools   json.RawMessage   `json:"tools"`
	URL     string            `json:"url"`
	Cwd     string            `json:"cwd"`
}

// Configured is a server of the mission.
func Configured(s provider.Server) Server {
	c := Server{Command: s.Command, Args: s.Args, Env: map[string]string{}, Ask: askAlways}
	for _, kv := range s.Env {
		name, value, _ := strings.Cut(kv, "=")
		c.Env[name] = value
	}
	return c
}

// lines are the server's tables in config.toml. A server that does not start is
// no reason not to work.
func (c Server) lines(name string) []string {
	var args, env []string
	for _, a := range c.Args {
		args = append(args, TOML(a))
	}
	for _, key := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, TOML(key)+" = "+TOML(c.Env[key]))
	}
	return append([]string{
		fmt.Sprintf("[mcp_servers.%s]", TOML(name)),
		"command = " + TOML(c.Command),
		"args = [" + strings.Join(args, ", ") + "]",
		"required = false",
		"default_tools_approval_mode = " + TOML(c.Ask),
		fmt.Sprintf("tool_timeout_sec = %d", toolLimit),
		fmt.Sprintf("[mcp_servers.%s.env]", TOML(name)),
	}, env...)
}
