package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a server that does what a test says, one connection at a time.
type script struct {
	t     *testing.T
	nc    net.Conn
	lines *wire.LineReader
}

func listen(t *testing.T) (*sock.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r", "s")
	l, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, path
}

func accept(t *testing.T, l net.Listener) *script {
	nc, err := l.Accept()
	if err != nil {
		t.Errorf("accept: %v", err)
		return nil
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &script{t, nc, wire.NewLineReader(nc)}
}

func (s *script) request(method string) wire.Request {
	line, err := s.lines.Next()
	if err != nil {
		s.t.Errorf("waiting for %s: %v", method, err)
		return wire.Request{}
	}
	r, bad := wire.DecodeRequest(line)
	if bad != nil || r.Method != method {
		s.t.Errorf("waiting for %s: got %s (%v)", method, line, bad)
	}
	return r
}

func (s *script) send(v any) {
	b, err := wire.Encode(v)
	if err != nil {
		s.t.Error(err)
	}
	_, _ = s.nc.Write(b)
}

func (s *script) answer(r wire.Request, result any) {
	raw, _ := json.Marshal(result)
	s.send(wire.Response{Version: 2, ID: r.ID, OK: true, Result: raw})
}

func (s *script) negotiate() {
	r := s.request(wire.MethodNegotiate)
	if r.Version != 1 {
		s.t.Errorf("negotiates at version %d", r.Version)
	}
	s.answer(r, wire.NegotiateResult{ProtocolVersion: 2, Generation: 7, AppVersion: "1.0"})
}

func (s *script) event(name, topic string, cursor *wire.Cursor, data any) {
	raw, _ := json.Marshal(data)
	s.send(wire.Event{Version: 2, Event: name, Topic: topic, Cursor: cursor, Data: raw})
}

func (s *script) watch() wire.WatchParams {
	r := s.request(wire.MethodWatch)
	var p wire.WatchParams
	_ = json.Unmarshal(r.Params, &p)
	s.answer(r, wire.WatchResult{})
	return p
}

func TestDialFailures(t *testing.T) {
	ctx := context.Background()
	if _, err := Dial(ctx, filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("nobody there: %v", err)
	}
	l, path := listen(t)
	for name, reply := range map[string]wire.Response{
		"unsupported": {Code: wire.CodeUnsupportedVersion, Error: "no", Details: json.RawMessage(`{"app_version":"9.0"}`)},
		"too new":     {OK: true, Result: json.RawMessage(`{"protocol_version":3,"app_version":"9.0"}`)},
	} {
		var wg sync.WaitGroup
		wg.Go(func() {
			s := accept(t, l)
			r := s.request(wire.MethodNegotiate)
			reply.ID = r.ID
			s.send(reply)
		})
		_, err := Dial(ctx, path, Options{Version: "1.0"})
		var m *MismatchError
		if !errors.As(err, &m) || m.Server != "9.0" || m.App != "1.0" {
			t.Errorf("%s: %v", name, err)
		}
		wg.Wait()
	}
	var wg sync.WaitGroup
	wg.Go(func() { accept(t, l).send(wire.Fail(1, "", wire.Errorf(wire.CodeLimitExceeded, "too many"))) })
	if _, err := Dial(ctx, path, Options{}); wire.CodeOf(err) != wire.CodeLimitExceeded {
		t.Errorf("turned away: %v", err)
	}
	wg.Wait()
}

// late is a connection whose client writes only when it is closed already.
type late struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *late) Close() error {
	defer l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

func (l *late) Write(b []byte) (int, error) {
	<-l.closed
	return l.Conn.Write(b)
}

// Who is turned away is told why, even when that comes before it has asked.
func TestTurnedAwayBeforeAsking(t *testing.T) {
	ours, theirs := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		(&script{t: t, nc: theirs}).send(wire.Fail(1, "", wire.Errorf(wire.CodeLimitExceeded, "too many")))
		_ = theirs.Close()
	})
	if _, err := open(context.Background(), &late{Conn: ours, closed: make(chan struct{})}, Options{}); wire.CodeOf(err) != wire.CodeLimitExceeded {
		t.Errorf("turned away: %v", err)
	}
	wg.Wait()
}

func TestCalls(t *testing.T) {
	l, path := listen(t)
	ready := make(chan *script, 1)
	go func() { s := accept(t, l); s.negotiate(); ready <- s }()
	c, err := Dial(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := <-ready
	if c.Identity().Generation != 7 {
		t.Errorf("identity %+v", c.Identity())
	}

	var wg sync.WaitGroup
	wg.Go(func() { // answers come in another order
		a, b := s.request(wire.MethodMissionGet), s.request(wire.MethodMissionGet)
		for _, r := range []wire.Request{b, a} {
			var p wire.IDParams
			_ = json.Unmarshal(r.Params, &p)
			s.answer(r, wire.MissionResult{Mission: wire.Mission{ID: p.ID}})
		}
	})
	for _, id := range []string{"m1", "m2"} {
		wg.Go(func() {
			r, err := Do[wire.MissionResult](context.Background(), c, wire.MethodMissionGet, wire.IDParams{ID: id})
			if err != nil || r.Mission.ID != id {
				t.Errorf("%s: got %q, %v", id, r.Mission.ID, err)
			}
		})
	}
	wg.Wait()

	go func() {
		r := s.request(wire.MethodServiceStop)
		s.send(wire.Fail(2, r.ID, wire.Errorf(wire.CodeConflict, "no").With(map[string]int{"n": 5})))
	}()
	err = c.Call(context.Background(), wire.MethodServiceStop, nil, nil)
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.CodeConflict || fmt.Sprintf("%s", e.Details) != `{"n":5}` {
		t.Errorf("refusal: %#v", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.request(wire.MethodServiceCheck); cancel(); _ = s.nc.Close() }()
	if err := c.Call(ctx, wire.MethodServiceCheck, nil, nil); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
		t.Errorf("cancelled: %v", err)
	}
	<-c.Done()
	if err := c.Call(context.Background(), wire.MethodServiceCheck, nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestReadBlobChecksWhatItGets(t *testing.T) {
	data := make([]byte, wire.BlobPiece+100)
	sum := sha256.Sum256(data)
	for name, c := range map[string]struct {
		ref wire.BlobRef
		ok  bool
	}{
		"right":   {wire.BlobRef{Blob: hex.EncodeToString(sum[:]), Bytes: int64(len(data))}, true},
		"damaged": {wire.BlobRef{Blob: hex.EncodeToString(make([]byte, 32)), Bytes: int64(len(data))}, false},
		"shorter": {wire.BlobRef{Blob: hex.EncodeToString(sum[:]), Bytes: int64(len(data)) + 1}, false},
		"longer":  {wire.BlobRef{Blob: hex.EncodeToString(sum[:]), Bytes: 10}, false},
	} {
		l, path := listen(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			s := accept(t, l)
			s.negotiate()
			for {
				line, err := s.lines.Next()
				if err != nil {
					return
				}
				r, _ := wire.DecodeRequest(line)
				var p wire.BlobReadParams
				_ = json.Unmarshal(r.Params, &p)
				end := min(p.Offset+wire.BlobPiece, int64(len(data)))
				s.answer(r, wire.BlobReadResult{Data: data[p.Offset:end], Bytes: int64(len(data)), EOF: end == int64(len(data))})
			}
		})
		cl, err := Dial(context.Background(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadBlob(context.Background(), cl, c.ref)
		if (err == nil) != c.ok || c.ok && len(got) != len(data) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		cl.Close()
		wg.Wait()
	}
}

// heard is a Handler that turns what it hears into sentences.
type heard struct{ c chan string }

func (h heard) State(s State) { h.c <- string(s.Phase) + s.Reason }
func (h heard) Snapshot(topic string, items []json.RawMessage, purpose string) {
	h.c <- fmt.Sprintf("snapshot %s %s %s", topic, purpose, items)
}
func (h heard) Delta(topic string, e wire.Event) {
	h.c <- fmt.Sprintf("%s %s %s", e.Event, topic, e.Data)
}

func (h heard) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-h.c:
			if got != w {
				t.Fatalf("heard %q, want %q", got, w)
			}
		case <-time.After(4 * time.Minute): // ends a test that would hang
			t.Fatalf("heard nothing, want %q", w)
		}
	}
}

func TestFollow(t *testing.T) {
	h := heard{make(chan string, 100)}
	dir := t.TempDir()
	path := filepath.Join(dir, "r", "s")
	f := follow(context.Background(), func(ctx context.Context) (*Client, error) {
		return Dial(ctx, path, Options{})
	}, []string{wire.TopicMissions}, h, time.Hour)
	defer f.Close()
	h.expect(t, "connecting", "stopped")

	l, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := accept(t, l)
	s.negotiate()
	h.expect(t, "connected")
	if p := s.watch(); p.Cursor != nil {
		t.Fatalf("a cursor from nowhere: %+v", p)
	}
	at := func(n uint64) *wire.Cursor { return &wire.Cursor{Generation: 7, Sequence: n} }
	items := func(s ...string) (r []json.RawMessage) {
		for _, x := range s {
			r = append(r, json.RawMessage(x))
		}
		return r
	}
	s.event(wire.EvSnapshotBegin, "missions", at(4), wire.SnapshotBegin{Purpose: "attach", Count: 3})
	s.event(wire.EvSnapshotChunk, "missions", nil, wire.SnapshotChunk{Index: 0, Items: items("1", "2")})
	s.event(wire.EvSnapshotChunk, "missions", nil, wire.SnapshotChunk{Index: 1, Items: items("3")})
	s.event(wire.EvSnapshotEnd, "missions", at(4), wire.SnapshotEnd{Count: 3, LeftOut: 2})
	s.event(wire.EvMission, "missions", at(5), "x")
	s.event("roster.changed", "roster", at(1), "of a topic that nobody asked for")
	h.expect(t, "snapshot missions attach [1 2 3]",
		`snapshot.failed missions {"reason":"2 records of missions are too long to be sent; all others are here."}`, `mission.changed missions "x"`)
	if f.Client() == nil {
		t.Fatal("no client while connected")
	}

	// A topic that is added, and refused.
	f.Watch("session:gone")
	r := s.request(wire.MethodWatch)
	s.send(wire.Fail(2, r.ID, wire.Errorf(wire.CodeNotFound, "no such session")))
	h.expect(t, `snapshot.failed session:gone {"reason":"no such session"}`)
	f.Unwatch("session:gone")

	// The connection breaks in the middle of a snapshot: resumed by cursor.
	s.event(wire.EvSnapshotBegin, "missions", at(6), wire.SnapshotBegin{Purpose: "resync", Count: 1})
	_ = s.nc.Close()
	s = accept(t, l)
	s.negotiate()
	h.expect(t, "connecting", "connected")
	if p := s.watch(); p.Cursor == nil || *p.Cursor != *at(5) {
		t.Fatalf("resumes at %+v", p.Cursor)
	}
	s.event(wire.EvMission, "missions", at(5), "seen before")
	s.event(wire.EvMission, "missions", at(6), "y")
	h.expect(t, `mission.changed missions "y"`)

	// A session goes on after its cursor; what comes twice is told once.
	f.Watch("session:s1")
	s.watch()
	log := func(n uint64) *wire.Cursor { return &wire.Cursor{Log: "L", Sequence: n} }
	s.event(wire.EvSnapshotBegin, "session:s1", nil, wire.SnapshotBegin{Purpose: "attach", Count: 1})
	s.event(wire.EvSnapshotChunk, "session:s1", nil, wire.SnapshotChunk{Items: items(`{"log":"L","seq":1}`)})
	s.event(wire.EvSnapshotEnd, "session:s1", log(1), wire.SnapshotEnd{Count: 1})
	h.expect(t, `snapshot session:s1 attach [{"log":"L","seq":1}]`)
	for range 2 {
		s.event(wire.EvSnapshotBegin, "session:s1", log(1), wire.SnapshotBegin{Purpose: "resync", Count: -1, After: log(1)})
		s.event(wire.EvSnapshotChunk, "session:s1", nil, wire.SnapshotChunk{Items: items(`{"seq":2}`, `{"seq":3}`)})
		s.event(wire.EvSnapshotEnd, "session:s1", log(3), wire.SnapshotEnd{Count: 2})
	}
	s.event(wire.EvSession, "session:s1", log(4), json.RawMessage(`{"seq":4}`))
	h.expect(t, `session.event session:s1 {"seq":2}`, `session.event session:s1 {"seq":3}`, `session.event session:s1 {"seq":4}`)

	f.Unwatch("session:s1")
	s.answer(s.request(wire.MethodUnwatch), struct{}{})

	// The service says goodbye, and an incompatible one comes.
	s.event(wire.EvServiceClosing, "", nil, wire.ServiceClosing{Reason: "update"})
	h.expect(t, "closingupdate")
	_ = s.nc.Close()
	s = accept(t, l)
	r = s.request(wire.MethodNegotiate)
	s.answer(r, wire.NegotiateResult{ProtocolVersion: 3})
	h.expect(t, "mismatch")
	s = accept(t, l)
	s.negotiate()
	h.expect(t, "connected")
	s.watch()
}

func TestFollowNoticesSilence(t *testing.T) {
	l, path := listen(t)
	h := heard{make(chan string, 100)}
	f := follow(context.Background(), func(ctx context.Context) (*Client, error) {
		return Dial(ctx, path, Options{})
	}, []string{wire.TopicMissions}, h, 500*time.Millisecond)
	defer f.Close()
	s := accept(t, l)
	s.negotiate()
	s.watch()
	h.expect(t, "connecting", "connected", "connecting") // nothing more was said
	if _, err := s.lines.Next(); err == nil {
		t.Fatal("the dead connection is kept")
	}
}
