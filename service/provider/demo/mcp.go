package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// servers are the MCP servers that the client gave to the session. They are
// started when a tool is wanted first, and end with the program.
type servers struct {
	mu    sync.Mutex
	given []sdk.McpServer
	open  map[string]*mcp.ClientSession
}

func (s *servers) set(given []sdk.McpServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = given
}

func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close() // it ends with its input, or is ended
	}
	s.open = nil
}

// client returns the session with a server, which it starts if need be.
func (s *servers) client(ctx context.Context, one *sdk.McpServerStdio, dir string) (*mcp.ClientSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[one.Name]; c != nil {
		return c, nil
	}
	cmd := exec.Command(one.Command, one.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, os.Environ(), os.Stderr
	for _, v := range one.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "reeve-demo", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	if err != nil {
		return nil, fmt.Errorf("start the MCP server %s: %w", one.Name, err)
	}
	if s.open == nil {
		s.open = map[string]*mcp.ClientSession{}
	}
	s.open[one.Name] = c
	return c, nil
}

// forget ends a server that fails, so that the next call starts it anew.
func (s *servers) forget(name string, c *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name] == c {
		delete(s.open, name)
		_ = c.Close() // it failed already
	}
}

// call calls a tool of the first server that has it.
func (s *servers) call(ctx context.Context, dir, tool string, input map[string]any) (string, error) {
	s.mu.Lock()
	given := slices.Clone(s.given)
	s.mu.Unlock()
	var failed []error
	for _, one := range given {
		if one.Stdio == nil {
			continue
		}
		c, err := s.client(ctx, one.Stdio, dir)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		list, err := c.ListTools(ctx, nil)
		if err != nil {
			s.forget(one.Stdio.Name, c)
			failed = append(failed, fmt.Errorf("list the tools of %s: %w", one.Stdio.Name, err))
			continue
		}
		if !slices.ContainsFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == tool }) {
			continue
		}
		r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: input})
		if err != nil {
			return "", err
		}
		var text []string
		for _, part := range r.Content {
			if p, ok := part.(*mcp.TextContent); ok {
				text = append(text, p.Text)
			}
		}
		if r.IsError {
			return "", errors.New(strings.Join(text, "\n"))
		}
		return strings.Join(text, "\n"), nil
	}
	return "", errors.Join(append(failed, fmt.Errorf("no MCP server of the session has the tool %s", tool))...)
}

// mcp calls a tool of an MCP server, after asking, and says what it gave.
func (t *turn) mcp(name, input string) error {
	args := map[string]any{}
	if input != "" {
		if err := json.Unmarshal([]byte(input), &args); err != nil {
			return t.say("%q is no input for %s: %v\n", input, name, err)
		}
	}
	// The client's protocol knows no kind for it.
	out, done, err := t.tool(sdk.SessionUpdateToolCall{Title: "MCP: " + name, Kind: sdk.ToolKindOther, RawInput: args},
		func() (string, *int, error) {
			out, err := t.agent.servers.call(t.ctx, t.session.Cwd, name, args)
			return out, nil, err
		})
	if err != nil || out == "" {
		return err
	}
	if !done {
		return t.say("%s failed: %s\n", name, out)
	}
	return t.say("%s gave: %s\n", name, out)
}
