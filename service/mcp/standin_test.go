package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn takes the place of the service: a real local socket that speaks the
// wire, and answers as a test says.
type standIn struct {
	t    *testing.T
	path string
	// answer handles what is no negotiation; errLost ends the connection
	// instead of an answer, errSilent gives none.
	answer func(asked) (any, error)

	mu    sync.Mutex
	id    wire.NegotiateResult
	l     *sock.Listener
	conns map[net.Conn]bool
	asked []asked
	more  chan struct{}
	wg    sync.WaitGroup
}

// asked is one request as it came.
type asked struct {
	wire.Request
	conn int // counts the connections
	n    int // counts the requests of its method
	p    map[string]any
}

type lost struct{ error }

var (
	errLost   = lost{io.EOF}
	errSilent = lost{io.ErrNoProgress}
)

func newStandIn(t *testing.T) *standIn {
	s := &standIn{t: t, path: filepath.Join(t.TempDir(), "r", "s"), conns: map[net.Conn]bool{}, more: make(chan struct{})}
	s.answer = happy
	s.id = wire.NegotiateResult{ProtocolVersion: 2, Generation: 1, PID: 10, StartedAt: time.Unix(1, 0), AppVersion: "1"}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *standIn) start() {
	s.t.Helper()
	l, err := sock.Listen(s.path)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	s.l = l
	s.mu.Unlock()
	s.wg.Go(func() {
		for n := 1; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[nc] = true
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(nc, n) })
		}
	})
}

// stop ends it as a SIGKILL would: nobody listens, and every connection ends.
func (s *standIn) stop() {
	s.mu.Lock()
	if s.l != nil {
		_ = s.l.Close()
		s.l = nil
	}
	for nc := range s.conns {
		_ = nc.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// next starts the successor.
func (s *standIn) next() {
	s.mu.Lock()
	s.id.Generation++
	s.id.PID++
	s.id.StartedAt = s.id.StartedAt.Add(time.Second)
	s.mu.Unlock()
	s.start()
}

func (s *standIn) serve(nc net.Conn, n int) {
	defer func() {
		_ = nc.Close()
		s.mu.Lock()
		delete(s.conns, nc)
		s.mu.Unlock()
	}()
	var writing sync.Mutex
	var reqs sync.WaitGroup
	defer reqs.Wait()
	lines := wire.NewLineReader(nc)
	negotiated := false
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		req, bad := wire.DecodeRequest(line)
		if bad != nil {
			s.t.Errorf("a line that is no request: %s", line)
			return
		}
		if req.Method == wire.MethodNegotiate {
			if req.Version != 1 || negotiated {
				s.t.Errorf("negotiates at version %d, negotiated before: %v", req.Version, negotiated)
			}
			negotiated = true
		} else if req.Version != 2 || !negotiated {
			s.t.Errorf("%s at version %d, negotiated before: %v", req.Method, req.Version, negotiated)
		}
		q := asked{Request: req, conn: n, n: 1}
		_ = json.Unmarshal(req.Params, &q.p)
		s.mu.Lock()
		id := s.id
		for _, before := range s.asked {
			if before.Method == req.Method {
				q.n++
			}
		}
		s.asked = append(s.asked, q)
		close(s.more)
		s.more = make(chan struct{})
		s.mu.Unlock()
		reqs.Go(func() {
			var result any = id
			var err error
			if req.Method != wire.MethodNegotiate {
				result, err = s.answer(q)
			}
			switch e := err.(type) {
			case nil:
				raw, _ := json.Marshal(result)
				err = send(&writing, nc, wire.Response{Version: 2, ID: req.ID, OK: true, Result: raw})
			case *wire.Error:
				err = send(&writing, nc, wire.Fail(2, req.ID, e))
			case lost:
				if e == errLost {
					_ = nc.Close()
				}
				return
			}
			_ = err // who asked may be gone
		})
	}
}

func send(mu *sync.Mutex, w io.Writer, v any) error {
	line, err := wire.Encode(v)
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	_, err = w.Write(line)
	return err
}

// of returns what was asked with a method so far.
func (s *standIn) of(method string) []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []asked
	for _, q := range s.asked {
		if q.Method == method {
			out = append(out, q)
		}
	}
	return out
}

// wait returns when n requests of a method came.
func (s *standIn) wait(method string, n int) []asked {
	s.t.Helper()
	late := time.After(4 * time.Minute)
	for {
		s.mu.Lock()
		more := s.more
		s.mu.Unlock()
		if got := s.of(method); len(got) >= n {
			return got
		}
		select {
		case <-more:
		case <-late:
			s.t.Fatalf("%s was asked %d times, not %d", method, len(s.of(method)), n)
		}
	}
}

// happy answers as a service does when all goes well.
func happy(q asked) (any, error) {
	switch q.Method {
	case wire.MethodBorrow:
		return wire.BorrowResult{Status: wire.BorrowAvailable, Credential: "token"}, nil
	case wire.MethodBindWorker, wire.MethodVerifyWorker:
		return wire.BindResult{Bound: true, Entry: "m-1", Session: "s-1"}, nil
	case wire.MethodCheckpoint:
		return wire.CheckpointResult{Cursor: q.p["room_cursor"].(string)}, nil
	case wire.MethodPrepareEffect:
		return wire.PrepareResult{State: wire.EffectPrepared, Action: wire.ActionExecute, Effect: "e-1", Room: "r-1"}, nil
	case wire.MethodExecuteTool:
		return wire.ToolResult{Room: "r-1", Result: json.RawMessage(`{"done":true}`)}, nil
	case wire.MethodCompleteEffect:
		return wire.CompleteResult{Effect: "e-1", State: wire.EffectCompleted, Room: "r-1"}, nil
	}
	return nil, wire.Errorf(wire.CodeUnsupportedMethod, "Unsupported daemon method: %s", q.Method)
}

// testClock passes when a bridge sleeps, and when a test says so.
type testClock struct {
	mu      sync.Mutex
	now     time.Duration
	limits  map[*limited]time.Duration
	slept   []time.Duration
	onSleep func(n int) // called with how often was slept, without the lock
}

// limited is a context that ends with the clock.
type limited struct {
	context.Context
	mu   sync.Mutex
	done chan struct{}
	err  error
}

func (l *limited) Done() <-chan struct{}       { return l.done }
func (l *limited) Deadline() (time.Time, bool) { return time.Time{}, false }

func (l *limited) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *limited) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

func (c *testClock) clock() clock {
	return clock{
		sleep: func(ctx context.Context, d time.Duration) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.mu.Lock()
			c.slept = append(c.slept, d)
			n, f := len(c.slept), c.onSleep
			c.mu.Unlock()
			if f != nil {
				f(n)
			}
			c.pass(d)
			return ctx.Err()
		},
		limit: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			l := &limited{Context: ctx, done: make(chan struct{})}
			stop := context.AfterFunc(ctx, func() { l.end(ctx.Err()) })
			c.mu.Lock()
			defer c.mu.Unlock()
			c.limits[l] = c.now + d
			return l, func() {
				stop()
				l.end(context.Canceled)
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.limits, l)
			}
		},
	}
}

// pass lets d go by.
func (c *testClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	for l, at := range c.limits {
		if at <= c.now {
			l.end(context.DeadlineExceeded)
		}
	}
}

func (c *testClock) sleeps() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.slept...)
}

// agent is an agent's side: a real MCP client, and the server that serves it.
type agent struct {
	t   *testing.T
	s   *standIn
	c   *testClock
	cs  *sdk.ClientSession
	nc  net.Conn // to the server
	env map[string]string
	log *strings.Builder
	out chan error
}

// environment is what the guard sets.
func environment(socket string) map[string]string {
	return map[string]string{
		"REEVE_SUPERVISOR_ENTRY_ID": "m-1", "REEVE_SUPERVISOR_DAEMON_SOCKET": socket, "REEVE_SUPERVISOR_WORK_ATTEMPT_ID": "a-1",
		"REEVE_SUPERVISOR_EXECUTION_GENERATION_ID": "x-1", "REEVE_SUPERVISOR_PROVIDER_TURN_ID": "t-1",
		"REEVE_SUPERVISOR_AGENT_SESSION_ID": "s-1", "REEVE_SUPERVISOR_ROOM_ID": "r-1", "REEVE_SUPERVISOR_PROVIDER": "claude-code",
		"REEVE_EXECUTION_PROFILE": "supervised_room_turn", "REEVE_SUPERVISED_BOUNDED_TURNS": "1", "REEVE_API_URL": "http://127.0.0.1:1",
	}
}

// connect starts a server for an agent. change alters the environment.
func connect(t *testing.T, s *standIn, change func(env map[string]string)) *agent {
	t.Helper()
	a := &agent{t: t, s: s, c: &testClock{limits: map[*limited]time.Duration{}}, env: environment(s.path), log: &strings.Builder{}, out: make(chan error, 1)}
	if change != nil {
		change(a.env)
	}
	ours, theirs := net.Pipe()
	go func() {
		a.out <- serve(context.Background(), Options{
			In: ours, Out: ours, Getenv: func(k string) string { return a.env[k] }, Dir: t.TempDir(), Version: "1",
			Socket: func() (string, error) { return s.path, nil }, Log: slog.New(slog.NewTextHandler(a.log, nil)),
		}, a.c.clock())
		_ = ours.Close()
	}()
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: theirs, Writer: theirs}, nil)
	if err != nil {
		t.Fatalf("connect: %v; the server: %v", err, <-a.out)
	}
	a.cs, a.nc = cs, theirs
	t.Cleanup(func() { a.end() })
	return a
}

// end closes the agent's side and returns how the server ended.
func (a *agent) end() error {
	if a.cs == nil {
		return nil
	}
	_ = a.cs.Close()
	a.cs = nil
	select {
	case err := <-a.out:
		if strings.Contains(a.log.String(), "token") {
			a.t.Errorf("the log holds the token: %s", a.log)
		}
		return err
	case <-time.After(4 * time.Minute):
		a.t.Error("the server does not end")
		return nil
	}
}

// call runs a tool; bad tells whether the agent was told of an error.
func (a *agent) call(tool string, args any) (said string, bad bool) {
	a.t.Helper()
	r, err := a.cs.CallTool(a.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			said += t.Text
		}
	}
	return said, r.IsError
}

// must runs a tool that has to succeed and say want.
func (a *agent) must(tool string, args any, want string) {
	a.t.Helper()
	if said, bad := a.call(tool, args); bad || !strings.Contains(said, want) {
		a.t.Errorf("%s said %q (an error: %v), which lacks %q", tool, said, bad, want)
	}
}

// fails runs a tool that has to fail and say want.
func (a *agent) fails(tool string, args any, want string) {
	a.t.Helper()
	if said, bad := a.call(tool, args); !bad || !strings.Contains(said, want) {
		a.t.Errorf("%s said %q (an error: %v), which lacks %q", tool, said, bad, want)
	}
}
