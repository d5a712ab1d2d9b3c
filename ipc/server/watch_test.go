package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// counter is a topic whose state is the number it published last.
type counter struct {
	t  *Topic
	mu sync.Mutex
	n  int
}

func newCounter(h *Hub, name string) *counter {
	c := &counter{}
	c.t = h.Topic(name, func() ([]json.RawMessage, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return []json.RawMessage{json.RawMessage(fmt.Sprint(c.n))}, nil
	})
	return c
}

func (c *counter) add(n int) {
	for range n {
		c.mu.Lock()
		c.n++
		c.t.Publish(wire.EvMission, c.n) // under the lock that snapshot takes too
		c.mu.Unlock()
	}
}

func starts(t *testing.T, l line) wire.TopicStart {
	t.Helper()
	var r wire.WatchResult
	must(t, json.Unmarshal(l.Result, &r))
	if len(r.Topics) != 1 {
		t.Fatalf("got %+v", l.Response)
	}
	return r.Topics[0]
}

func TestSnapshotThenDeltas(t *testing.T) {
	f := newFake()
	c := newCounter(f.hub, wire.TopicMissions)
	c.add(3)
	_, path := serve(t, f)
	p := dial(t, path)
	p.send(wire.MethodWatch, wire.WatchParams{Topics: []string{wire.TopicMissions}})
	if s := starts(t, p.get()); s.Replay != "none" { // the answer comes first
		t.Fatalf("got %+v", s)
	}
	c.add(2)
	var begin wire.SnapshotBegin
	l := p.get()
	must(t, json.Unmarshal(l.Data, &begin))
	if l.Event != wire.EvSnapshotBegin || begin.Count != 1 || begin.Purpose != wire.PurposeAttach || l.Cursor.Generation != 7 {
		t.Fatalf("got %+v", l)
	}
	seq := l.Cursor.Sequence
	if l = p.get(); l.Event != wire.EvSnapshotChunk || !strings.Contains(string(l.Data), fmt.Sprintf(`"index":0,"items":[%d]`, seq)) {
		t.Fatalf("the snapshot at %d: %s %s", seq, l.Event, l.Data)
	}
	if l = p.get(); l.Event != wire.EvSnapshotEnd || l.Cursor.Sequence != seq {
		t.Fatalf("got %+v", l)
	}
	for seq < 5 {
		seq++
		if l = p.get(); l.Event != wire.EvMission || l.Cursor.Sequence != seq || string(l.Data) != fmt.Sprint(seq) {
			t.Fatalf("got %+v %s, want %d", l, l.Data, seq)
		}
	}
	p.call(wire.MethodUnwatch, wire.UnwatchParams{Topics: []string{wire.TopicMissions}})
	c.add(1)
	if l := p.get2(wire.MethodServiceStatus); l.Event != "" {
		t.Fatalf("an event of an unwatched topic: %+v", l)
	}
}

// get2 sends a request and returns whatever comes first.
func (p *peer) get2(method string) line {
	p.send(method, nil)
	return p.get()
}

func TestReplay(t *testing.T) {
	f := newFake()
	c := newCounter(f.hub, wire.TopicMissions)
	c.add(ringFrames + 10)
	_, path := serve(t, f)
	last := uint64(ringFrames + 10)
	for _, k := range []struct {
		cursor wire.Cursor
		replay string
	}{
		{wire.Cursor{Generation: 7, Sequence: last}, "complete"},
		{wire.Cursor{Generation: 7, Sequence: last - 3}, "complete"},
		{wire.Cursor{Generation: 7, Sequence: 10}, "complete"},
		{wire.Cursor{Generation: 7, Sequence: 9}, "unavailable"},
		{wire.Cursor{Generation: 6, Sequence: last}, "unavailable"},
		{wire.Cursor{Generation: 7, Sequence: last + 1}, "unavailable"},
	} {
		p := dial(t, path)
		s := starts(t, p.call(wire.MethodWatch, wire.WatchParams{Topics: []string{wire.TopicMissions}, Cursor: &k.cursor}))
		if s.Replay != k.replay || (s.Reason == "") != (k.replay == "complete") {
			t.Errorf("%+v: %+v", k.cursor, s)
		}
		if k.replay == "unavailable" {
			p.until(wire.EvSnapshotEnd, wire.TopicMissions)
			continue
		}
		for seq := k.cursor.Sequence + 1; seq <= last; seq++ {
			if l := p.get(); l.Event != wire.EvMission || l.Cursor.Sequence != seq {
				t.Fatalf("got %+v, want %d", l, seq)
			}
		}
	}
}

func TestSessionCursors(t *testing.T) {
	f := newFake()
	f.append("s1", 40, 10)
	_, path := serve(t, f)
	for _, k := range []struct {
		cursor *wire.Cursor
		replay string
		from   uint64
	}{
		{nil, "none", 0},
		{&wire.Cursor{Log: testLog, Sequence: 30}, "complete", 30},
		{&wire.Cursor{Log: testLog, Sequence: 40}, "complete", 40},
		{&wire.Cursor{Log: "L0", Sequence: 30}, "unavailable", 0},
		{&wire.Cursor{Log: testLog, Sequence: 41}, "unavailable", 0},
	} {
		p := dial(t, path)
		var r wire.AttachResult
		must(t, json.Unmarshal(p.call(wire.MethodSessionAttach, wire.AttachParams{Session: "m1", Cursor: k.cursor}).Result, &r))
		if r.Replay != k.replay || r.Session != "s1" || r.Mission != "m1" {
			t.Errorf("%+v: %+v", k.cursor, r)
		}
		p.follow(k.from, 40)
		if k.from < 40 {
			p.call(wire.MethodSessionDetach, wire.DetachParams{Session: "m1"})
			f.hub.PublishEntry("s1", wire.Entry{Log: testLog, Seq: 41})
			if l := p.get2(wire.MethodServiceStatus); l.Event != "" {
				t.Fatalf("an event after detach: %+v", l)
			}
		}
	}
	f.hub.mu.RLock()
	defer f.hub.mu.RUnlock()
	if n := len(f.hub.sessions); n != 1 { // of the one that stayed attached
		t.Errorf("%d session topics are kept", n)
	}
}

// Entries that are logged and published at any moment of an attachment come
// exactly once, in order.
func TestAttachHasNoGapAndNoRepeat(t *testing.T) {
	f := newFake()
	_, path := serve(t, f)
	session := 0
	rapid.Check(t, func(rt *rapid.T) {
		session++
		id := fmt.Sprint("s", session)
		burst := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 3), rapid.IntRange(0, ringFrames+100))
		f.append(id, rapid.IntRange(0, 300).Draw(rt, "before"), rapid.IntRange(0, 3000).Draw(rt, "size"))
		plan := rapid.SliceOfN(burst, 0, 12).Draw(rt, "bursts while it is read")
		var at atomic.Int64
		f.mu.Lock()
		f.reading = func() {
			if i := int(at.Add(1)) - 1; i < len(plan) {
				f.append(id, plan[i], 10)
			}
		}
		f.mu.Unlock()
		var cursor *wire.Cursor
		f.mu.Lock()
		logged := len(f.logs[id])
		f.mu.Unlock()
		from := uint64(rapid.IntRange(0, logged).Draw(rt, "cursor"))
		if from > 0 {
			cursor = &wire.Cursor{Log: testLog, Sequence: from}
		}
		p := dial(t, path)
		defer p.nc.Close()
		p.send(wire.MethodSessionAttach, wire.AttachParams{Session: id, Cursor: cursor})
		tail := rapid.SliceOfN(rapid.IntRange(0, 200), 0, 5).Draw(rt, "bursts meanwhile")
		for _, n := range tail {
			f.append(id, n, 10)
		}
		f.mu.Lock()
		f.reading = nil
		f.mu.Unlock()
		f.append(id, 1, 1)
		f.mu.Lock()
		last := uint64(len(f.logs[id]))
		f.mu.Unlock()
		p.follow(from, last)
	})
}

// Whoever publishes may leave an entry out: the log has it.
func TestUnpublishedEntriesComeFromTheLog(t *testing.T) {
	f := newFake()
	f.append("s1", 2, 1)
	_, path := serve(t, f)
	p := dial(t, path)
	p.call(wire.MethodSessionAttach, wire.AttachParams{Session: "s1"})
	p.follow(0, 2)
	f.append("s1", 1, 1)
	p.follow(2, 3)
	f.mu.Lock()
	for seq := uint64(4); seq <= 6; seq++ {
		f.logs["s1"] = append(f.logs["s1"], wire.Entry{Log: testLog, Seq: seq})
	}
	last := f.logs["s1"][5]
	f.mu.Unlock()
	f.hub.PublishEntry("s1", last)
	p.follow(3, 6)
}

func TestStalledClientCatchesUpAndDelaysNobody(t *testing.T) {
	f := newFake()
	c := newCounter(f.hub, wire.TopicMissions)
	_, path := serve(t, f)
	stalled, reader := dial(t, path), dial(t, path)
	for _, p := range []*peer{stalled, reader} {
		p.call(wire.MethodWatch, wire.WatchParams{Topics: []string{wire.TopicMissions, "session:s1"}})
	}
	reader.until(wire.EvSnapshotEnd, "session:s1")
	const rounds, each = 40, 500
	for i := range rounds { // the reader keeps pace, the other reads nothing
		f.append("s1", each, 400)
		c.add(each)
		_ = i
		for seen := 0; seen < 2; {
			l := reader.get()
			if l.Topic == wire.TopicMissions && l.Cursor != nil && l.Cursor.Sequence == c.t.head() ||
				l.Topic == "session:s1" && l.Cursor != nil && l.Cursor.Sequence == uint64((i+1)*each) {
				seen++
			}
			if strings.HasPrefix(l.Event, "snapshot.") {
				continue
			}
		}
	}
	// Now it reads: old deltas that were on their way, one snapshot of the
	// topic, then nothing is missing.
	last := c.t.head()
	var seq, entry uint64
	resyncs := 0
	for seq < last || entry < rounds*each {
		l := stalled.get()
		if l.Topic == wire.TopicMissions {
			switch l.Event {
			case wire.EvMission:
				if l.Cursor.Sequence != seq+1 {
					t.Fatalf("delta %d after %d without a snapshot", l.Cursor.Sequence, seq)
				}
				seq++
			case wire.EvSnapshotBegin:
				if strings.Contains(string(l.Data), wire.PurposeResync) {
					resyncs++
				}
			case wire.EvSnapshotEnd:
				seq = l.Cursor.Sequence
			}
			continue
		}
		if l.Topic == "session:s1" {
			switch l.Event {
			case wire.EvSession:
				if l.Cursor.Sequence != entry+1 {
					t.Fatalf("entry %d after %d", l.Cursor.Sequence, entry)
				}
				entry++
			case wire.EvSnapshotChunk:
				var d wire.SnapshotChunk
				must(t, json.Unmarshal(l.Data, &d))
				for _, raw := range d.Items {
					var e wire.Entry
					must(t, json.Unmarshal(raw, &e))
					if e.Seq != entry+1 {
						t.Fatalf("snapshot entry %d after %d", e.Seq, entry)
					}
					entry++
				}
			}
		}
	}
	if resyncs != 1 {
		t.Errorf("%d snapshots to catch up", resyncs)
	}
}

func TestClientThatReadsNoAnswersIsHeldBack(t *testing.T) {
	f := newFake()
	s, path := serve(t, f)
	p := dial(t, path)
	sent := make(chan struct{})
	go func() { // blocks in the end, when its requests are read no more
		defer close(sent)
		big := `{"version":2,"id":"` + strings.Repeat("i", 100) + `","method":"` + strings.Repeat("m", 100) + "\"}\n"
		for range 20_000 {
			if _, err := io.WriteString(p.nc, big); err != nil {
				return
			}
		}
	}()
	var c *conn
	for c == nil {
		s.mu.Lock()
		for c = range s.conns {
		}
		s.mu.Unlock()
	}
	other := dial(t, path)
	for range 2000 { // long enough to read all, if nothing held it back
		if l := other.call(wire.MethodServiceStatus, nil); !l.OK {
			t.Fatal(l.Error)
		}
		c.mu.Lock()
		waiting := len(c.answers)
		c.mu.Unlock()
		if waiting > maxUnread {
			t.Fatalf("%d answers wait", waiting)
		}
	}
	for range 20_000 { // and then it goes on
		if l := p.get(); l.Code != wire.CodeUnsupportedMethod {
			t.Fatal(l)
		}
	}
	<-sent
}

// What waits for a disk keeps no quick read of the same connection waiting.
func TestSlowReadsHoldUpNoOthers(t *testing.T) {
	const slow = maxQueued/wire.MaxLine + 1
	f := newFake()
	gate := make(chan struct{})
	f.gates["m1"] = gate
	_, path := serve(t, f)
	p := dial(t, path)
	ids := map[string]bool{}
	for range slow {
		ids[p.send(wire.MethodMissionChanges, wire.ChangesParams{ID: "m1"})] = true
	}
	for range slow {
		<-f.started
	}
	if l := p.call(wire.MethodApprovalGet, wire.IDParams{ID: "p-1"}); l.Code != wire.CodeNotFound {
		t.Errorf("a read beside them: %+v", l)
	}
	close(gate)
	for range slow {
		if l := p.get(); !l.OK || !ids[l.ID] {
			t.Errorf("a slow read: %+v", l)
		}
	}
}

// Answers that nobody takes are held only up to a limit of bytes: a read whose
// answer might not fit begins when others have gone out.
func TestReadsWaitForAClientThatReadsNothing(t *testing.T) {
	const all, size = 64, 900 << 10
	f := newFake()
	var begun, taken, most atomic.Int64
	data := make([]byte, size/4*3) // size in base64
	f.blob = func() []byte {
		for n := begun.Add(1) - taken.Load(); ; {
			if was := most.Load(); n <= was || most.CompareAndSwap(was, n) {
				return data
			}
		}
	}
	s, path := serve(t, f)
	p := dial(t, path)
	for range all {
		p.send(wire.MethodBlobRead, wire.BlobReadParams{Digest: "d"})
	}
	var c *conn
	for arrived := 0; arrived < all; {
		s.mu.Lock()
		for c = range s.conns {
			c.mu.Lock()
			arrived = c.inFlight
			c.mu.Unlock()
		}
		s.mu.Unlock()
	}
	other := dial(t, path)
	for range 1000 { // long enough to answer all, if nothing held them back
		if l := other.call(wire.MethodServiceStatus, nil); !l.OK {
			t.Fatal(l.Error)
		}
	}
	for range all { // and then they go on
		if l := p.get(); !l.OK {
			t.Fatal(l.Error)
		}
		taken.Add(1)
	}
	if n := most.Load(); n*size > 9<<20 {
		t.Errorf("%d answers of %d bytes were held at once", n, size)
	}
	for left := -1; left != 0; { // nothing is counted any more
		other.call(wire.MethodServiceStatus, nil)
		c.mu.Lock()
		left = c.queued
		c.mu.Unlock()
	}
}

func TestFailedSnapshotIsToldAndTriedAgain(t *testing.T) {
	f := newFake()
	var tries atomic.Int64
	f.hub.Topic(wire.TopicService, func() ([]json.RawMessage, error) {
		if tries.Add(1) < 3 {
			return nil, errors.New("disk on fire at /secret")
		}
		return nil, nil
	})
	_, path := serve(t, f)
	p := dial(t, path)
	p.send(wire.MethodWatch, wire.WatchParams{Topics: []string{wire.TopicService}})
	if l := p.until(wire.EvSnapshotFailed, wire.TopicService); strings.Contains(string(l.Data), "secret") {
		t.Fatalf("%s", l.Data)
	}
	if l := p.get(); l.Event != wire.EvSnapshotBegin {
		t.Fatalf("got %+v", l)
	}
}

// One record that no line can hold hides none of the others.
func TestOversizeRecordIsLeftOut(t *testing.T) {
	f := newFake()
	items := []json.RawMessage{json.RawMessage("1"), json.RawMessage(`"` + strings.Repeat("x", wire.MaxLine) + `"`), json.RawMessage("3")}
	f.hub.Topic(wire.TopicMissions, func() ([]json.RawMessage, error) { return items, nil })
	_, path := serve(t, f)
	p := dial(t, path)
	p.send(wire.MethodWatch, wire.WatchParams{Topics: []string{wire.TopicMissions}})
	p.get()
	for _, want := range []string{`"count":2`, `"items":[1,3]`, `"count":2,"left_out":1`} {
		if l := p.get(); !strings.Contains(string(l.Data), want) {
			t.Fatalf("got %+v, want %s", l, want)
		}
	}
	if len(items[1]) < wire.MaxLine {
		t.Error("the topic's own list was changed")
	}
}

func TestHeartbeatBeatsOnlyForWatchers(t *testing.T) {
	f := newFake()
	newCounter(f.hub, wire.TopicMissions)
	s, path := serve(t, f, func(s *Server) { s.beat.every = time.Millisecond })
	p, q := dial(t, path), dial(t, path)
	p.call(wire.MethodWatch, wire.WatchParams{Topics: []string{wire.TopicMissions}})
	for range 3 {
		p.until(wire.EvHeartbeat, "")
	}
	if l := q.get2(wire.MethodServiceStatus); l.Event != "" {
		t.Fatalf("a heartbeat without a topic: %+v", l)
	}
	p.call(wire.MethodUnwatch, wire.UnwatchParams{Topics: []string{wire.TopicMissions}})
	s.beat.mu.Lock()
	defer s.beat.mu.Unlock()
	if s.beat.stop != nil || len(s.beat.on) != 0 {
		t.Fatal("the ticker goes on without watchers")
	}
}

// recorder is a Handler that checks what a client may rely on.
type recorder struct {
	mu        sync.Mutex
	seq       map[string]uint64
	err       error
	done      chan struct{}
	connected chan struct{}
	last      uint64
	states    []client.State
	resets    int
}

func (r *recorder) State(s client.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, s)
	if s.Phase == client.Connected {
		r.connected <- struct{}{}
	}
}
func (r *recorder) Snapshot(topic string, items []json.RawMessage, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seq[topic] > 0 {
		r.resets++
	}
	r.seq[topic] = 0
	for _, raw := range items {
		r.stepLocked(topic, raw)
	}
}
func (r *recorder) Delta(topic string, e wire.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepLocked(topic, e.Data)
}
func (r *recorder) stepLocked(topic string, raw json.RawMessage) {
	var e wire.Entry
	_ = json.Unmarshal(raw, &e)
	if e.Seq != r.seq[topic]+1 && r.err == nil {
		r.err = fmt.Errorf("%s: entry %d follows %d", topic, e.Seq, r.seq[topic])
	}
	if r.seq[topic] = e.Seq; e.Seq == r.last {
		close(r.done)
	}
}

// Case 24: a burst of 5,000 events, over which the client loses its connection
// again and again and comes back with its cursor.
func TestReconnectsInABurst(t *testing.T) {
	f := newFake()
	s, path := serve(t, f)
	r := &recorder{seq: map[string]uint64{}, done: make(chan struct{}), connected: make(chan struct{}, 100), last: 5000}
	fol := client.Follow(context.Background(), func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, path, client.Options{Client: "test"})
	}, []string{"session:s1"}, r)
	defer fol.Close()
	<-r.connected
	for i := range 50 {
		f.append("s1", 100, 50)
		if i%7 == 3 {
			s.mu.Lock()
			for c := range s.conns {
				_ = c.nc.Close()
			}
			s.mu.Unlock()
		}
		if i%7 == 5 {
			<-r.connected // so that it comes back in the middle of the burst
		}
	}
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Logf("%d states, %d resets", len(r.states), r.resets)
	if r.resets > 0 {
		t.Errorf("%d snapshots replaced what was known, although the cursor was good", r.resets)
	}
}

func TestPublishingWithoutWatchersIsCheap(t *testing.T) {
	h := NewHub(1)
	e := wire.Entry{Log: testLog, Seq: 1, Data: json.RawMessage(`{}`)}
	if n := testing.AllocsPerRun(100, func() { h.PublishEntry("s1", e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
