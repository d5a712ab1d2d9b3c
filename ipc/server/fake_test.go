package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Backend in memory. Mission m<n> has the session s<n>.
type fake struct {
	hub *Hub

	mu       sync.Mutex
	actor    Actor
	becomes  *Actor // what Confirm says, if not the same
	refused  []string
	called   []string
	gates    map[string]chan struct{} // holds mutations of an id up
	started  chan string              // hears of every mutation that begins
	logs     map[string][]wire.Entry
	reading  func() // called by History before each entry
	approval []wire.Approval
}

const testLog = "L1"

func newFake() *fake {
	return &fake{hub: NewHub(7), gates: map[string]chan struct{}{}, logs: map[string][]wire.Entry{}, started: make(chan string, 1024)}
}

func (f *fake) Actor(sock.Peer) Actor { f.mu.Lock(); defer f.mu.Unlock(); return f.actor }
func (f *fake) Confirm(_ sock.Peer, a Actor) Actor {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.becomes != nil {
		return *f.becomes
	}
	return a
}
func (f *fake) Refused(_ context.Context, _ Actor, method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, method)
}
func (f *fake) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.called = append(f.called, s)
}
func (f *fake) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.called...)
}

func (f *fake) Identity() wire.NegotiateResult {
	return wire.NegotiateResult{Generation: 7, PID: 1, StartedAt: time.Unix(1, 0).UTC(), AppVersion: "1.0"}
}
func (f *fake) Status(context.Context) (wire.Service, error) {
	return wire.Service{State: "running", Generation: 7}, nil
}
func (f *fake) Stop(context.Context, Actor, wire.ServiceStopParams) (wire.ServiceStopResult, error) {
	f.note("stop")
	return wire.ServiceStopResult{Stopping: true}, nil
}
func (f *fake) Check(context.Context) (wire.CheckResult, error) {
	return wire.CheckResult{}, fmt.Errorf("open /secret/path: no such file")
}
func (f *fake) AuditVerify(context.Context) (wire.AuditVerifyResult, error) { panic("a bug") }
func (f *fake) ProviderList(ctx context.Context, _ wire.ProviderListParams) (wire.ProviderListResult, error) {
	f.started <- "provider.list"
	<-ctx.Done()
	f.started <- "cancelled"
	return wire.ProviderListResult{}, ctx.Err()
}
func (f *fake) MissionCheck(context.Context, wire.MissionStartParams) (wire.MissionCheckResult, error) {
	return wire.MissionCheckResult{}, nil
}
func (f *fake) mutate(ctx context.Context, what, id string) (wire.MissionResult, error) {
	f.mu.Lock()
	gate := f.gates[id]
	f.mu.Unlock()
	f.started <- what + " " + id
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return wire.MissionResult{}, ctx.Err()
		}
	}
	f.note(what + " " + id)
	return wire.MissionResult{Mission: wire.Mission{ID: id, Revision: uint64(len(f.calls()))}}, nil
}
func (f *fake) MissionStart(ctx context.Context, a Actor, p wire.MissionStartParams) (wire.MissionStartResult, error) {
	m, err := f.mutate(ctx, "start", p.Folder)
	return wire.MissionStartResult{Mission: m.Mission}, err
}
func (f *fake) MissionList(context.Context, wire.MissionListParams) (wire.MissionListResult, error) {
	r := wire.MissionListResult{}
	for i := range 200 {
		r.Missions = append(r.Missions, wire.Mission{ID: fmt.Sprint("m", i), Scope: strings.Repeat("s", 8000)})
	}
	return r, nil
}
func (f *fake) MissionGet(_ context.Context, p wire.IDParams) (wire.MissionResult, error) {
	return wire.MissionResult{Mission: wire.Mission{ID: p.ID}}, nil
}
func (f *fake) MissionSteer(ctx context.Context, _ Actor, p wire.SteerParams) (wire.MissionResult, error) {
	return f.mutate(ctx, "steer "+p.Text, p.ID)
}
func (f *fake) MissionPause(ctx context.Context, _ Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return f.mutate(ctx, "pause", p.ID)
}
func (f *fake) MissionResume(ctx context.Context, _ Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return f.mutate(ctx, "resume", p.ID)
}
func (f *fake) MissionStop(ctx context.Context, _ Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return f.mutate(ctx, "stop", p.ID)
}
func (f *fake) MissionCancel(ctx context.Context, _ Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return f.mutate(ctx, "cancel", p.ID)
}
func (f *fake) MissionRecover(ctx context.Context, _ Actor, p wire.RecoverParams) (wire.MissionStartResult, error) {
	r, err := f.mutate(ctx, "recover", p.ID)
	return wire.MissionStartResult{Mission: r.Mission}, err
}
func (f *fake) ApprovalList(context.Context, wire.ApprovalListParams) (wire.ApprovalListResult, error) {
	return wire.ApprovalListResult{}, nil
}
func (f *fake) ApprovalGet(context.Context, wire.IDParams) (wire.ApprovalResult, error) {
	return wire.ApprovalResult{}, wire.Errorf(wire.CodeNotFound, "no such approval")
}

// ApprovalAnswer lets the first answer win, as a service does.
func (f *fake) ApprovalAnswer(_ context.Context, a Actor, p wire.AnswerParams) (wire.ApprovalResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, done := range f.approval {
		if done.ID == p.ID {
			return wire.ApprovalResult{}, wire.Errorf(wire.CodeAlreadyAnswered, "answered by %s", done.Answer.Client).With(done)
		}
	}
	done := wire.Approval{ID: p.ID, State: "allowed", Answer: &wire.Answer{Client: a.Client}}
	f.approval = append(f.approval, done)
	return wire.ApprovalResult{Approval: done}, nil
}
func (f *fake) Session(_ context.Context, id string) (SessionRef, error) {
	if len(id) < 2 || id[0] != 's' && id[0] != 'm' {
		return SessionRef{}, wire.Errorf(wire.CodeNotFound, "no session %s", id)
	}
	return SessionRef{Session: "s" + id[1:], Mission: "m" + id[1:]}, nil
}
func (f *fake) History(ctx context.Context, session string, after *wire.Cursor, emit func(wire.Entry) bool) (wire.Cursor, error) {
	at := wire.Cursor{Log: testLog}
	if after != nil {
		at = *after
	}
	f.mu.Lock()
	entries, hook := f.logs[session], f.reading
	f.mu.Unlock()
	if at.Log != testLog || at.Sequence > uint64(len(entries)) {
		return at, wire.Errorf(wire.CodeUnavailable, "another log")
	}
	for _, e := range entries[at.Sequence:] {
		if hook != nil {
			hook()
		}
		if ctx.Err() != nil {
			return at, ctx.Err()
		}
		if !emit(e) {
			return at, nil
		}
		at.Sequence = e.Seq
	}
	if hook != nil {
		hook()
	}
	return at, nil
}
func (f *fake) BlobRead(context.Context, wire.BlobReadParams) (wire.BlobReadResult, error) {
	return wire.BlobReadResult{EOF: true}, nil
}

// append logs n entries of size bytes and publishes them.
func (f *fake) append(session string, n, size int) {
	text, _ := json.Marshal(wire.Text{Text: strings.Repeat("x", size)})
	for range n {
		f.mu.Lock()
		e := wire.Entry{Log: testLog, Seq: uint64(len(f.logs[session]) + 1), At: time.Unix(0, 0).UTC(), Kind: wire.KindText, Data: text}
		f.logs[session] = append(f.logs[session], e)
		f.mu.Unlock()
		f.hub.PublishEntry(session, e)
	}
}

// serve runs a server on a socket of its own until the test ends.
func serve(t testing.TB, f *fake, set ...func(*Server)) (*Server, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r", "s.sock")
	l, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := New(l, f, f.hub, Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	for _, f := range set {
		f(s)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		s.Close(wire.ClosingShutdown)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, path
}

// peer is a raw client: it sees every line.
type peer struct {
	t     testing.TB
	nc    net.Conn
	lines *wire.LineReader
	next  int
}

type line struct {
	wire.Response
	Event   string
	Topic   string
	Session string
	Cursor  *wire.Cursor
	Data    json.RawMessage
}

func dial(t testing.TB, path string) *peer {
	t.Helper()
	nc, err := sock.Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &peer{t: t, nc: nc, lines: wire.NewLineReader(nc)}
}

func (p *peer) raw(s string) {
	p.t.Helper()
	if _, err := p.nc.Write([]byte(s)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(method string, params any) string {
	p.t.Helper()
	p.next++
	id := fmt.Sprint(p.next)
	raw, err := json.Marshal(params)
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := wire.Encode(wire.Request{Version: 2, ID: id, Method: method, Params: raw})
	if err != nil {
		p.t.Fatal(err)
	}
	p.raw(string(b))
	return id
}

func (p *peer) read() (line, error) {
	// Only so that a bug ends the test instead of hanging it.
	_ = p.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	b, err := p.lines.Next()
	if err != nil {
		return line{}, err
	}
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		p.t.Fatalf("server sent %.200q: %v", b, err)
	}
	return l, nil
}

func (p *peer) get() line {
	p.t.Helper()
	l, err := p.read()
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// call sends a request and returns its answer, passing events over.
func (p *peer) call(method string, params any) line {
	p.t.Helper()
	id := p.send(method, params)
	for {
		if l := p.get(); l.ID == id {
			return l
		}
	}
}

// until reads events up to one with this name and topic.
func (p *peer) until(event, topic string) line {
	p.t.Helper()
	for {
		if l := p.get(); l.Event == event && l.Topic == topic {
			return l
		}
	}
}

// follow reads a session's events and checks that entry follows entry, from
// the one after seq to last. It counts the snapshots.
func (p *peer) follow(seq, last uint64) (snapshots int) {
	p.t.Helper()
	step := func(e wire.Entry) {
		if e.Seq != seq+1 {
			p.t.Fatalf("entry %d follows entry %d", e.Seq, seq)
		}
		seq = e.Seq
	}
	for open := false; seq < last || open; {
		switch l := p.get(); l.Event {
		case wire.EvSnapshotBegin:
			open = true
			snapshots++
		case wire.EvSnapshotChunk:
			var c wire.SnapshotChunk
			must(p.t, json.Unmarshal(l.Data, &c))
			for _, raw := range c.Items {
				var e wire.Entry
				must(p.t, json.Unmarshal(raw, &e))
				step(e)
			}
		case wire.EvSnapshotEnd:
			open = false
			if l.Cursor.Sequence != seq {
				p.t.Fatalf("snapshot ends at %d after entry %d", l.Cursor.Sequence, seq)
			}
		case wire.EvSession:
			var e wire.Entry
			must(p.t, json.Unmarshal(l.Data, &e))
			step(e)
			if open || l.Cursor.Sequence != e.Seq || l.Cursor.Log != testLog {
				p.t.Fatalf("delta %+v in a snapshot (%v)", l.Cursor, open)
			}
		case wire.EvSnapshotFailed:
			p.t.Fatalf("snapshot failed: %s", l.Data)
		}
	}
	return snapshots
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
