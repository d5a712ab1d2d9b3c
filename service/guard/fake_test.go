//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// fake is a provider whose agent is a shell: a prompt is a script, what it
// prints is the agent's answer, and lines that begin with @ are events. $SERVERS
// are its MCP servers.
//
//	@ask <request> <kind> <text>   asks; the script reads yes or no
//	@withdraw <request>            asks no longer
//	@path <request> <path>         asks to read a path
//	@mcp <request> <server> <own>  asks for a tool of an MCP server; own or not
//	@tool <call> / @done <call>    a tool call
//	@session <id>
//	@say <text>                    text without a newline
//	@final <text>                  the agent's last message
//	@fail <code>                   the turn fails with this code
//	@interrupted                   the turn ends as one that was interrupted
type fake struct {
	name   string
	resume bool
	fat    bool // after its first turn it only eats memory
	deaf   bool // does not react to an interrupt, nor to the end of its input
}

var fakes = map[string]fake{
	"fake":      {name: "fake", resume: true},
	"fake-keep": {name: "fake-keep"},
	"fake-deaf": {name: "fake-deaf", resume: true, deaf: true},
	"fake-fat":  {name: "fake-fat", fat: true},
}

func (f fake) Name() string  { return f.name }
func (f fake) Title() string { return f.name }
func (f fake) Capabilities() provider.Capabilities {
	return provider.Capabilities{Resume: f.resume}
}
func (f fake) Variables() []mission.Variable                  { return nil }
func (f fake) Probe(context.Context, []string) provider.Probe { return provider.Probe{} }
func (f fake) Open(_ context.Context, s provider.Spec) (provider.Conn, error) {
	if s.Model == "signed-out" {
		return nil, &provider.OpenError{Code: mission.AuthenticationRequired, Err: errors.New("sign in with " + strings.Join(s.Env, " "))}
	}
	if s.Model == "late" { // waits until somebody writes to the file open
		if _, err := os.ReadFile(filepath.Join(s.Folder, "open")); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(s.Path, "-c", `while read -r f; do sh "$f"; echo "@end $?"; done`)
	servers, err := json.Marshal(s.Servers)
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Env = s.Folder, append(s.Env[:len(s.Env):len(s.Env)], "SERVERS="+string(servers))
	if f.fat {
		cmd.Args[2] = `read -r f; sh "$f"; echo "@end $?"; exec "$USE" use memory 400`
	}
	if f.deaf {
		cmd.Args[2] = `trap '' INT TERM; ` + cmd.Args[2]
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.Launch(cmd); err != nil {
		return nil, err
	}
	c := &fakeConn{fake: f, dir: s.PrivateDir, in: in, events: make(chan provider.Event), ended: make(chan struct{}), open: map[string]bool{}}
	go c.read(out, cmd, s.Resume != "")
	return c, nil
}

type fakeConn struct {
	fake
	dir    string
	in     io.WriteCloser
	events chan provider.Event
	ended  chan struct{}

	mu    sync.Mutex
	n     int
	open  map[string]bool
	final string
	code  mission.Code
	over  bool

	telling sync.RWMutex // held to read while an event of finish is told
	closed  bool         // events are
}

func (c *fakeConn) Prompt(_ context.Context, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.over, c.final, c.code = false, "", ""
	name := filepath.Join(c.dir, fmt.Sprintf("turn%d-%d", c.n, time.Now().UnixNano()))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.in, name)
	return err
}

func (c *fakeConn) Steer(context.Context, string) error { return provider.ErrUnsupported }

func (c *fakeConn) Interrupt(ctx context.Context) error {
	if c.deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	c.finish(mission.TurnOutcome{Outcome: mission.Interrupted})
	return nil
}

func (c *fakeConn) Answer(_ context.Context, request string, a provider.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open[request] {
		return provider.ErrNoRequest
	}
	delete(c.open, request)
	word := "no"
	if a.Allow {
		word = "yes"
	}
	_, err := fmt.Fprintln(c.in, word, a.Message)
	return err
}

func (c *fakeConn) Events() <-chan provider.Event { return c.events }

func (c *fakeConn) Close(ctx context.Context) error {
	_ = c.in.Close()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *fakeConn) finish(o mission.TurnOutcome) {
	c.mu.Lock()
	over := c.over
	c.over = true
	final := c.final
	if c.code != "" {
		o = mission.FailedTurn(mission.StageExecution, c.code)
	}
	c.mu.Unlock()
	c.telling.RLock()
	defer c.telling.RUnlock()
	if over || c.closed {
		return
	}
	select {
	case c.events <- provider.TurnFinished{Outcome: o, Final: final}:
	case <-c.ended:
	}
}

func (c *fakeConn) read(out io.Reader, cmd *exec.Cmd, resumed bool) {
	defer func() {
		c.telling.Lock() // an interrupt may be telling what it ended
		defer c.telling.Unlock()
		c.closed = true
		close(c.events)
	}()
	c.events <- provider.SessionStarted{Session: "s1", Resumed: resumed, Model: "shell", Version: "1"}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		rest := ""
		if len(f) > 1 {
			rest = strings.TrimSuffix(strings.TrimPrefix(line, f[0]+" "), "\n")
		}
		switch f[0] {
		case "@ask", "@path", "@mcp":
			tool := provider.Tool{Call: "c" + f[1], Name: "Shell", Kind: f[2], Command: strings.Join(f[3:], "")}
			if f[0] == "@path" {
				tool.Kind, tool.Paths, tool.Command = "read", []string{f[2]}, ""
			}
			if f[0] == "@mcp" {
				tool.Kind, tool.Server, tool.Own, tool.Command = "mcp", f[2], f[3] == "own", ""
			}
			if tool.Command == "huge" {
				tool.Diff = strings.Repeat("+ a line of a diff\n", 60_000)
			}
			c.mu.Lock()
			c.open[f[1]] = true
			c.mu.Unlock()
			c.events <- provider.PermissionRequested{Request: f[1], Tool: tool}
		case "@withdraw":
			c.mu.Lock()
			delete(c.open, f[1])
			c.mu.Unlock()
			c.events <- provider.PermissionWithdrawn{Request: f[1]}
			fmt.Fprintln(c.in, "withdrawn")
		case "@forget":
			c.mu.Lock()
			delete(c.open, f[1])
			c.mu.Unlock()
		case "@tool":
			c.events <- provider.ToolStarted{Tool: provider.Tool{Call: f[1], Name: "Shell", Kind: "execute"}}
		case "@done":
			n, _ := strconv.Atoi(f[2])
			c.events <- provider.ToolFinished{Call: f[1], Status: "ok", Output: strings.Repeat("x", n)}
		case "@say":
			c.events <- provider.Text{Text: rest}
		case "@final":
			c.mu.Lock()
			c.final = rest
			c.mu.Unlock()
		case "@fail":
			c.mu.Lock()
			c.code = mission.Code(rest)
			c.mu.Unlock()
		case "@interrupted":
			c.finish(mission.TurnOutcome{Outcome: mission.Interrupted})
		case "@end":
			o := mission.TurnOutcome{Outcome: mission.Succeeded}
			if f[1] != "0" {
				o = mission.FailedTurn(mission.StageExecution, mission.LocalExecutionFailure)
			}
			c.finish(o)
		default:
			c.events <- provider.Text{Text: line}
		}
	}
	_ = cmd.Wait()
	close(c.ended)
}
