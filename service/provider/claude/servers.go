package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/claudevars"
)

// serverFile is the MCP configuration in the private directory. The program gets
// it as the only one.
const serverFile = "mcp.json"

// servers returns the value of --mcp-config: a file, since other users can see
// arguments.
func servers(spec provider.Spec) (string, error) {
	if len(spec.Servers) == 0 {
		return `{"mcpServers":{}}`, nil
	}
	if spec.PrivateDir == "" {
		return "", errors.New("MCP servers need a private directory")
	}
	all := map[string]object{}
	for _, s := range spec.Servers {
		env := map[string]string{}
		for _, kv := range s.Env {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = claudevars.Literal(value)
		}
		args := make([]string, len(s.Args))
		for i, a := range s.Args {
			args[i] = claudevars.Literal(a)
		}
		all[s.Name] = object{"type": "stdio", "command": claudevars.Literal(s.Command), "args": args, "env": env}
	}
	b, err := json.Marshal(object{"mcpServers": all})
	if err != nil {
		return "", err
	}
	// Made anew each time, as the agent may write here.
	file := filepath.Join(spec.PrivateDir, serverFile)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write the MCP configuration: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write the MCP configuration: %w", err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("write the MCP configuration: %w", err)
	}
	return file, nil
}

// handed says whether a server is one of the mission's. The program takes no
// others (and is ended if it does), so the name proves it.
func (c *conn) handed(server string) bool {
	return slices.ContainsFunc(c.spec.Servers, func(s provider.Server) bool { return s.Name == server })
}

// checkServers ends a program that loaded another server, and tells of one that
// did not start.
func (c *conn) checkServers(list []mcpServer) {
	for _, s := range list {
		switch {
		case !c.handed(s.Name):
			c.violate(fmt.Sprintf("it loaded the MCP server %q", s.Name))
			return
		case s.Status == "failed":
			c.events.Emit(provider.Notice{Level: "warning", Text: fmt.Sprintf("The MCP server %s did not start; Claude Code works without its tools.", s.Name)})
		}
	}
}

// describe is what a person decides about a call, with whose tool it is.
func (c *conn) describe(call, name string, raw json.RawMessage, cwd string, withDiff bool) provider.Tool {
	t := describe(call, name, raw, cwd, withDiff)
	t.Own = t.Kind == "mcp" && c.handed(t.Server)
	return t
}
