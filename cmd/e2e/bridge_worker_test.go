package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reevehq/reeve/ipc/wire"
)

// order is what a test has a worker's bridge do.
type order struct {
	// Tool is called through reeve mcp; else Method is sent by the third-party
	// client, with Params over its coordinates. Process names the one of
	// several that does it: each is a process of its own.
	Tool    string          `json:"tool,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  map[string]any  `json:"params,omitempty"`
	Process string          `json:"process,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
}

// report is what came of an order.
type report struct {
	Result json.RawMessage `json:"result,omitempty"`
	Text   string          `json:"text,omitempty"` // of a tool
	Error  string          `json:"error,omitempty"`
	Code   wire.Code       `json:"code,omitempty"`
	Tries  int             `json:"tries,omitempty"`
	Lost   bool            `json:"lost,omitempty"` // the connection ended without an answer
}

// remote is a worker whose bridges do what a test orders.
type remote struct {
	t       *testing.T
	l       net.Listener
	nc      net.Conn
	in      *bufio.Reader
	mission wire.Mission
}

// worker begins a mission whose agent asks to run the bridges of a test, lets it,
// and returns when they take orders. Each of its turns asks that.
func (v *view) worker(repo, scope string) *remote {
	t := v.m.t
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "reeve-bridge-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &remote{t: t}
	if r.l, err = net.Listen("unix", filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.l.Close() })
	script := fmt.Sprintf("REEVE_E2E_ORDERS='%s' REEVE_E2E_REEVE='%s' exec '%s'\n", r.l.Addr(), shellQuoteInside(v.m.reeve), shellQuoteInside(self))
	if err := os.WriteFile(filepath.Join(repo, "bridge.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	r.mission = v.begin(v.m.demoTerms(repo, scope+"\ndemo:command sh bridge.sh"))
	r.join(v)
	return r
}

// join lets the agent run the bridges in the turn that asks for it.
func (r *remote) join(v *view) {
	r.t.Helper()
	a, _ := v.asked(r.mission.ID, "bridge.sh")
	v.answer(a, wire.AnswerParams{Allow: true})
	_ = r.l.(*net.UnixListener).SetDeadline(time.Now().Add(waitLimit))
	nc, err := r.l.Accept()
	if err != nil {
		r.t.Fatalf("no bridge came: %v\n%s", err, v.dump())
	}
	r.nc, r.in = nc, bufio.NewReader(nc)
	r.t.Cleanup(func() { _ = nc.Close() })
}

// leave ends the bridges, and with them the command of the agent.
func (r *remote) leave() { _ = r.nc.Close() }

// order gives an order; the report is read with heard, in the same order.
func (r *remote) order(o order) {
	r.t.Helper()
	b, err := json.Marshal(o)
	if err == nil {
		_, err = r.nc.Write(append(b, '\n'))
	}
	if err != nil {
		r.t.Fatalf("the bridge takes no orders: %v", err)
	}
}

func (r *remote) heard() report {
	r.t.Helper()
	_ = r.nc.SetReadDeadline(time.Now().Add(waitLimit))
	line, err := r.in.ReadBytes('\n')
	if err != nil {
		r.t.Fatalf("the bridge reports nothing: %v", err)
	}
	var got report
	if err := json.Unmarshal(line, &got); err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r *remote) do(o order) report {
	r.t.Helper()
	r.order(o)
	return r.heard()
}

// call has the third-party client send a request.
func (r *remote) call(method string, params map[string]any) report {
	r.t.Helper()
	return r.do(order{Method: method, Params: params})
}

// ok is call for what has to work.
func (r *remote) ok(method string, params map[string]any) map[string]any {
	r.t.Helper()
	got := r.call(method, params)
	if got.Error != "" {
		r.t.Fatalf("%s: %s (%s)", method, got.Error, got.Code)
	}
	var out map[string]any
	if err := json.Unmarshal(got.Result, &out); err != nil {
		r.t.Fatalf("%s gave %s", method, got.Result)
	}
	return out
}

// refused is call for what has to be refused.
func (r *remote) refused(method string, params map[string]any, code wire.Code, says string) {
	r.t.Helper()
	if got := r.call(method, params); got.Code != code || !strings.Contains(got.Error, says) {
		r.t.Errorf("%s with %v: %q (%s), result %s; want %s with %q", method, params, got.Error, got.Code, got.Result, code, says)
	}
}

// init is the worker's side: the agent runs this program so.
func init() {
	if path := os.Getenv("REEVE_E2E_ORDERS"); path != "" {
		takeOrders(path)
		os.Exit(0)
	}
	if one := os.Getenv("REEVE_E2E_ORDER"); one != "" {
		var o order
		_ = json.Unmarshal([]byte(one), &o)
		_ = json.NewEncoder(os.Stdout).Encode(newLetagents().do(o))
		os.Exit(0)
	}
}

func takeOrders(path string) {
	nc, err := net.Dial("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	them, ours := newLetagents(), map[string]*sdk.ClientSession{}
	for in, out := json.NewDecoder(nc), json.NewEncoder(nc); ; {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		var got report
		switch {
		case o.Tool != "":
			got = callTool(ours, o)
		case o.Process != "":
			got = inAnother(o)
		default:
			got = them.do(o)
		}
		if out.Encode(got) != nil {
			return
		}
	}
}

// inAnother has another process do it.
func inAnother(o order) (got report) {
	o.Process = ""
	b, _ := json.Marshal(o)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append([]string{"REEVE_E2E_ORDER=" + string(b)}, environWithout("REEVE_E2E_ORDERS=")...)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		got.Error = err.Error()
	}
	return got
}

func environWithout(prefix string) (out []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, prefix) {
			out = append(out, kv)
		}
	}
	return out
}

// callTool calls a tool of reeve mcp as an agent's MCP client does.
func callTool(open map[string]*sdk.ClientSession, o order) report {
	s := open[o.Process]
	if s == nil {
		cmd := exec.Command(os.Getenv("REEVE_E2E_REEVE"), "mcp")
		cmd.Env, cmd.Stderr = append(environWithout("REEVE_E2E_"), "REEVE_QUESTIONS=3600"), os.Stderr // as of an agent without a dialog
		var err error
		s, err = sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil).Connect(context.Background(), &sdk.CommandTransport{Command: cmd}, nil)
		if err != nil {
			return report{Error: err.Error()}
		}
		open[o.Process] = s
	}
	r, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: o.Tool, Arguments: o.Input})
	if err != nil {
		return report{Error: err.Error()}
	}
	var text []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			text = append(text, t.Text)
		}
	}
	if r.IsError {
		return report{Error: strings.Join(text, "\n")}
	}
	return report{Text: strings.Join(text, "\n")}
}

// letagents behaves as the bridge of that name does on the socket: variables
// with its own prefix, a negotiation at version 1 and then everything at the
// version that this gave, one connection for each request, and completions that
// negotiate anew within one budget of five seconds while the service restarts.
// The five seconds that it has for every other request are no matter of what is
// tested, and a busy machine may need more. It uses nothing of Reeve's clients.
type letagents struct {
	socket   string
	base     map[string]any
	room     map[string]any // of those that name room and session
	identity map[string]any
	version  int
}

func newLetagents() *letagents {
	env := func(name string) string { return os.Getenv("LETAGENTS_" + name) }
	c := &letagents{
		socket: env("SUPERVISOR_DAEMON_SOCKET"),
		base: map[string]any{
			"entry_id": env("SUPERVISOR_ENTRY_ID"), "work_attempt_id": env("SUPERVISOR_WORK_ATTEMPT_ID"),
			"execution_generation_id": env("SUPERVISOR_EXECUTION_GENERATION_ID"),
		},
		room: map[string]any{
			"room_id": env("SUPERVISOR_ROOM_ID"), "agent_session_id": env("SUPERVISOR_AGENT_SESSION_ID"), "api_url": env("API_URL"),
		},
	}
	return c
}

var errRefused = errors.New("refused")

// trip sends one request on a connection of its own.
func (c *letagents) trip(version int, method string, params any, limit time.Duration) (report, error) {
	nc, err := net.Dial("unix", c.socket)
	if err != nil {
		return report{Lost: true, Error: err.Error()}, err
	}
	defer nc.Close()
	if limit > 0 {
		_ = nc.SetDeadline(time.Now().Add(limit))
	}
	b, _ := json.Marshal(map[string]any{"version": version, "id": "req-1", "method": method, "params": params})
	if _, err := nc.Write(append(b, '\n')); err != nil {
		return report{Lost: true, Error: err.Error()}, err
	}
	var r struct {
		Version int             `json:"version"`
		ID      string          `json:"id"`
		Event   string          `json:"event"`
		OK      bool            `json:"ok"`
		Result  json.RawMessage `json:"result"`
		Error   string          `json:"error"`
		Code    wire.Code       `json:"code"`
	}
	for lines := bufio.NewReaderSize(nc, 1<<20); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errors.New("the daemon closed the connection")
			}
			return report{Lost: true, Error: err.Error()}, err
		}
		err = json.Unmarshal(line, &r)
		if err == nil && r.Event != "" { // such as that the service ends
			r.Event = ""
			continue
		}
		if err != nil || r.ID != "req-1" || method != "daemon.negotiate" && r.Version != version {
			return report{Error: fmt.Sprintf("a bad answer: %s", line)}, errRefused
		}
		break
	}
	if !r.OK {
		return report{Error: r.Error, Code: r.Code}, errRefused
	}
	if method == "daemon.negotiate" {
		c.version = r.Version
	}
	return report{Result: r.Result}, nil
}

func (c *letagents) negotiate(limit time.Duration) (report, error) {
	got, err := c.trip(1, "daemon.negotiate", map[string]any{}, limit)
	if err == nil {
		c.identity = nil
		err = json.Unmarshal(got.Result, &c.identity)
	}
	return got, err
}

// do sends a request with the coordinates that its method has.
func (c *letagents) do(o order) report {
	if o.Method == "daemon.negotiate" {
		got, _ := c.negotiate(waitLimit)
		return got
	}
	if o.Method == "" { // what the environment says
		b, _ := json.Marshal(map[string]any{"base": c.base, "room": c.room, "socket": c.socket, "profile": os.Getenv("LETAGENTS_EXECUTION_PROFILE"),
			"bounded": os.Getenv("LETAGENTS_SUPERVISED_BOUNDED_TURNS"), "provider": os.Getenv("LETAGENTS_SUPERVISOR_PROVIDER")})
		return report{Result: b}
	}
	if o.Method == wire.MethodCompleteEffect {
		return c.complete(o)
	}
	if c.version == 0 {
		if got, err := c.negotiate(waitLimit); err != nil {
			return got
		}
	}
	limit := waitLimit
	if o.Method == wire.MethodExecuteTool {
		limit = 0
	}
	got, _ := c.trip(c.version, o.Method, c.params(o), limit)
	return got
}

func (c *letagents) params(o order) map[string]any {
	p := maps.Clone(c.base)
	switch o.Method {
	case wire.MethodBindWorker, wire.MethodVerifyWorker:
		maps.Copy(p, c.room)
	case wire.MethodBorrow:
		maps.Copy(p, c.room)
		p["daemon_generation"] = c.identity["generation"]
	case wire.MethodCheckpoint:
		p["agent_session_id"] = c.room["agent_session_id"]
	default:
		p["daemon_generation"] = c.identity["generation"]
	}
	maps.Copy(p, o.Params)
	return p
}

// complete goes on for five seconds.
func (c *letagents) complete(o order) (got report) {
	over := time.Now().Add(5 * time.Second)
	for n := 0; ; n++ {
		var err error
		if got, err = c.negotiate(time.Until(over)); err == nil {
			got, err = c.trip(c.version, o.Method, c.params(o), time.Until(over))
		}
		got.Tries = n + 1
		if !got.Lost && (err == nil || !strings.HasPrefix(got.Error, "Stale daemon generation")) {
			return got
		}
		wait := min(25*time.Millisecond<<min(n, 8), 250*time.Millisecond)
		if time.Now().Add(wait).After(over) {
			return got
		}
		time.Sleep(wait) // as that bridge does; a service that restarts tells nobody
	}
}

// same compares two values by what their JSON means.
func same(a, b any) bool {
	var both [2]any
	for i, v := range []any{a, b} {
		raw, err := json.Marshal(v)
		if err != nil || json.Unmarshal(raw, &both[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(both[0], both[1])
}
