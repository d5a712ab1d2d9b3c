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
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Backend in memory. Mission m<n> has the session s<n>.
type fake struct {
	hub    *Hub
	fenced atomic.Pointer[wire.Error]

	mu       sync.Mutex
	actor    Actor
	becomes  *Actor // what Confirm says, if not the same
	refused  []string
	called   []string
	gates    map[string]chan struct{} // holds mutations of an id up
	started  chan string              // hears of every mutation that begins
	logs     map[string][]wire.Entry
	reading  func() // called by History before each entry
	blob     func() []byte
	judging  func(sock.Peer) // called by Actor
	pid      int             // of all that connect, if it isn't 0
	approval []wire.Approval
}

const testLog = "L1"

func newFake() *fake {
	return &fake{hub: NewHub(7), gates: map[string]chan struct{}{}, logs: map[string][]wire.Entry{}, started: make(chan string, 1024)}
}

func (f *fake) Actor(p sock.Peer) Actor {
	f.mu.Lock()
	a, judging := f.actor, f.judging
	f.mu.Unlock()
	if judging != nil {
		judging(p)
	}
	return a
}

// next has the next connections come from another process, of this kind.
func (f *fake) next(a Actor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actor = a
	f.pid++
}
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
func (f *fake) PrepareUpdate(context.Context, Actor, wire.PrepareUpdateParams, <-chan struct{}) (wire.PrepareUpdateResult, error) {
	return wire.PrepareUpdateResult{State: "prepared", GoOn: 2, Finished: 1, Interrupted: 1, Until: time.Unix(91, 0).UTC()}, nil
}
func (f *fake) CommitUpdate(context.Context, Actor, <-chan struct{}) (wire.UpdateResult, error) {
	return wire.UpdateResult{State: "committed"}, nil
}
func (f *fake) CancelUpdate(context.Context, Actor, <-chan struct{}) (wire.UpdateResult, error) {
	return wire.UpdateResult{State: "cancelled"}, nil
}
func (f *fake) Stop(context.Context, Actor, wire.ServiceStopParams) (wire.ServiceStopResult, error) {
	f.note("stop")
	return wire.ServiceStopResult{Stopping: true}, nil
}
func (f *fake) Check(context.Context) (wire.CheckResult, error) {
	return wire.CheckResult{}, fmt.Errorf("open /secret/path: no such file")
}
func (f *fake) AuditVerify(context.Context) (wire.AuditVerifyResult, error) { panic("a bug") }
func (f *fake) AuditRead(_ context.Context, p wire.AuditReadParams) (wire.AuditReadResult, error) {
	return wire.AuditReadResult{Entries: []json.RawMessage{}, Next: uint64(p.Limit)}, nil
}
func (f *fake) ProviderAdd(context.Context, Actor, wire.ProviderAddParams) (wire.ProviderResult, error) {
	return wire.ProviderResult{}, nil
}
func (f *fake) ProviderRemove(context.Context, Actor, wire.ProviderRemoveParams) (wire.ProviderResult, error) {
	return wire.ProviderResult{}, nil
}
func (f *fake) CredentialList(context.Context) (wire.CredentialListResult, error) {
	return wire.CredentialListResult{}, nil
}

func (f *fake) CredentialSet(_ context.Context, _ Actor, p wire.CredentialSetParams) (wire.CredentialListResult, error) {
	f.note("set " + p.Name)
	return wire.CredentialListResult{}, nil
}

func (f *fake) CredentialRemove(context.Context, Actor, wire.CredentialRemoveParams) (wire.CredentialListResult, error) {
	return wire.CredentialListResult{}, nil
}

func (f *fake) CredentialHand(context.Context, Actor, wire.CredentialHandParams) (wire.CredentialListResult, error) {
	return wire.CredentialListResult{}, nil
}

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
func (f *fake) Fenced() *wire.Error { return f.fenced.Load() }

func (f *fake) MissionChanges(ctx context.Context, p wire.ChangesParams) (wire.ChangesResult, error) {
	_, err := f.mutate(ctx, "changes", p.ID) // held up by its gate
	return wire.ChangesResult{Mission: p.ID}, err
}
func (f *fake) MissionWorktree(ctx context.Context, _ Actor, p wire.WorktreeParams) (wire.WorktreeResult, error) {
	r, err := f.mutate(ctx, "worktree "+p.Action, p.ID)
	return wire.WorktreeResult{Mission: r.Mission}, err
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
func (f *fake) RuleList(context.Context, wire.RuleListParams) (wire.RuleListResult, error) {
	return wire.RuleListResult{Rules: []wire.Rule{}}, nil
}
func (f *fake) RuleAdd(context.Context, Actor, wire.RuleAddParams) (wire.RuleResult, error) {
	return wire.RuleResult{}, nil
}
func (f *fake) RuleEdit(context.Context, Actor, wire.RuleEditParams) (wire.RuleResult, error) {
	return wire.RuleResult{}, nil
}
func (f *fake) RuleRevoke(_ context.Context, _ Actor, p wire.RuleRevokeParams) (wire.RuleResult, error) {
	f.note("revoke " + p.ID)
	return wire.RuleResult{Rule: wire.Rule{ID: p.ID}}, nil
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
	if f.blob != nil {
		return wire.BlobReadResult{Data: f.blob(), EOF: true}, nil
	}
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
	// On a loaded machine a test takes longer than any of these, and no line may
	// come between those that it counts.
	s.beat.every, s.grace = time.Hour, 4*time.Minute
	s.peerOf = func(nc net.Conn) (sock.Peer, error) {
		p, err := sock.PeerOf(nc)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.pid != 0 {
			p.PID = f.pid
		}
		return p, err
	}
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
	_ = p.nc.SetReadDeadline(time.Now().Add(4 * time.Minute))
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

func (f *fake) RoomList(context.Context) (wire.RoomListResult, error) {
	return wire.RoomListResult{Rooms: []wire.Room{}}, nil
}
func (f *fake) RoomMessages(_ context.Context, p wire.RoomMessagesParams) (wire.RoomMessagesResult, error) {
	return wire.RoomMessagesResult{Room: wire.Room{ID: p.Room, Count: p.Limit}}, nil
}
func (f *fake) RoomSend(ctx context.Context, _ Actor, p wire.RoomSendParams) (wire.RoomSendResult, error) {
	_, err := f.mutate(ctx, "send "+p.Text, p.Room)
	return wire.RoomSendResult{Message: wire.RoomMessage{ID: "msg_1", Text: p.Text}}, err
}
func (f *fake) EffectList(context.Context, wire.EffectListParams) (wire.EffectListResult, error) {
	return wire.EffectListResult{Effects: []wire.Effect{}}, nil
}
func (f *fake) EffectSettle(ctx context.Context, _ Actor, p wire.EffectSettleParams) (wire.EffectResult, error) {
	_, err := f.mutate(ctx, "settle "+p.Outcome, p.ID)
	return wire.EffectResult{Effect: wire.Effect{ID: p.ID}}, err
}
func (f *fake) BindWorker(_ context.Context, _ Actor, p wire.BindParams) (wire.BindResult, error) {
	f.note("bind " + p.Room)
	return wire.BindResult{Bound: true, Entry: p.Entry, Session: p.Session}, nil
}
func (f *fake) VerifyWorker(_ context.Context, _ Actor, p wire.BindParams) (wire.BindResult, error) {
	f.note("verify " + p.Room)
	return wire.BindResult{Bound: true, Entry: p.Entry, Session: p.Session}, nil
}
func (f *fake) CheckpointWorker(_ context.Context, _ Actor, p wire.CheckpointParams) (wire.CheckpointResult, error) {
	f.note("checkpoint " + p.Cursor)
	return wire.CheckpointResult{Cursor: p.Cursor}, nil
}
func (f *fake) BorrowCredential(_ context.Context, _ Actor, p wire.BorrowParams) (wire.BorrowResult, error) {
	f.note("borrow " + p.Room)
	return wire.BorrowResult{Status: wire.BorrowDeferred}, nil
}
func (f *fake) PrepareEffect(ctx context.Context, _ Actor, p wire.PrepareParams) (wire.PrepareResult, error) {
	_, err := f.mutate(ctx, "prepare "+p.Tool, string(p.RequestID))
	return wire.PrepareResult{State: wire.EffectPrepared, Action: wire.ActionExecute, Effect: "e1"}, err
}
func (f *fake) CompleteEffect(ctx context.Context, _ Actor, p wire.CompleteParams) (wire.CompleteResult, error) {
	_, err := f.mutate(ctx, "complete", p.Effect)
	return wire.CompleteResult{Effect: p.Effect, State: wire.EffectCompleted}, err
}
func (f *fake) ExecuteTool(ctx context.Context, _ Actor, p wire.ToolParams) (wire.ToolResult, error) {
	r, err := f.mutate(ctx, "execute "+p.Tool, string(p.RequestID))
	if err != nil {
		f.started <- "left " + p.Tool
	}
	return wire.ToolResult{Room: "r1", Result: json.RawMessage(fmt.Sprintf(`{"n":%d}`, r.Mission.Revision))}, err
}
