package server

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// frail is a way to a server that breaks: the n-th connection over it after as
// many bytes to the client as cuts[n] says, in the middle of a line or not.
type frail struct {
	path string
	l    net.Listener
	wg   sync.WaitGroup

	mu    sync.Mutex
	to    string
	cuts  []int
	alive map[net.Conn]bool
}

func newFrail(t *testing.T, to string, cuts []int) *frail {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r", "f.sock")
	l, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &frail{path: path, l: l, to: to, cuts: cuts, alive: map[net.Conn]bool{}}
	f.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.carry(c) })
		}
	})
	return f
}

func (f *frail) carry(c net.Conn) {
	defer c.Close()
	f.mu.Lock()
	to, cut := f.to, -1
	f.alive[c] = true
	if len(f.cuts) > 0 {
		cut, f.cuts = f.cuts[0], f.cuts[1:]
	}
	f.mu.Unlock()
	s, err := sock.Dial(context.Background(), to)
	if err != nil {
		return
	}
	defer s.Close()
	var back io.Reader = s
	if cut >= 0 {
		back = io.LimitReader(s, int64(cut))
	}
	f.wg.Go(func() {
		_, _ = io.Copy(s, c)
		_ = s.Close()
	})
	_, _ = io.Copy(c, back)
}

// sever breaks every connection.
func (f *frail) sever() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.alive {
		_ = c.Close()
	}
	clear(f.alive)
}

func (f *frail) close() {
	_ = f.l.Close()
	f.sever()
	f.wg.Wait()
}

// wary is a Handler that holds what it is told against the rules: the entries of
// a session follow each other without a gap or a repeat, unless a snapshot says
// that it is all; the state of a topic never goes back at a snapshot, and no
// change of it is left out.
type wary struct {
	mu      sync.Mutex
	entry   uint64
	state   int
	wrong   string
	resets  int // snapshots of a session that was known
	entries uint64
	states  int
	done    chan struct{}
	over    bool
}

func (w *wary) State(client.State) {}

func (w *wary) Snapshot(topic string, items []json.RawMessage, purpose string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if topic != wire.TopicMissions {
		if w.entry > 0 {
			w.resets++
		}
		w.entry = 0
		for _, it := range items {
			w.step(it)
		}
	} else if n := number(items[0]); n < w.state {
		w.object("a snapshot (%s) goes back from %d to %d", purpose, w.state, n)
	} else {
		w.state = n
	}
	w.look()
}

func (w *wary) Delta(topic string, e wire.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Event == wire.EvSnapshotFailed:
		w.object("a snapshot failed: %s", e.Data)
	case topic != wire.TopicMissions:
		w.step(e.Data)
	case number(e.Data) > w.state+1:
		w.object("the state %d follows %d", number(e.Data), w.state)
	default:
		w.state = max(w.state, number(e.Data))
	}
	w.look()
}

func (w *wary) step(raw json.RawMessage) {
	var e wire.Entry
	_ = json.Unmarshal(raw, &e)
	if e.Seq != w.entry+1 {
		w.object("entry %d follows %d", e.Seq, w.entry)
	}
	w.entry = e.Seq
}

func number(raw json.RawMessage) (n int) {
	_ = json.Unmarshal(raw, &n)
	return n
}

func (w *wary) object(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

func (w *wary) look() {
	if !w.over && (w.wrong != "" || w.entries > 0 && w.entry == w.entries && w.state == w.states) {
		w.over = true
		close(w.done)
	}
}

// TestCursorsOverBrokenConnections: wherever connections break during bursts, and
// whenever the service is replaced by the next generation, a client that comes
// back with its cursors sees every entry once and ends with the whole state.
func TestCursorsOverBrokenConnections(t *testing.T) {
	// Each broken connection costs a client 50 ms at least.
	old := flag.Lookup("rapid.checks").Value.String()
	_ = flag.Set("rapid.checks", "12")
	defer func() { _ = flag.Set("rapid.checks", old) }()
	rapid.Check(t, func(rt *rapid.T) {
		cuts := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 2000), rapid.IntRange(0, 300_000)), 0, 6).Draw(rt, "breaks after bytes")
		f := newFake()
		var n atomic.Int64 // the state, which outlives generations
		topic := func(f *fake) *Topic {
			return f.hub.Topic(wire.TopicMissions, func() ([]json.RawMessage, error) {
				return []json.RawMessage{json.RawMessage(fmt.Sprint(n.Load()))}, nil
			})
		}
		tp := topic(f)
		_, path := serve(t, f)
		way := newFrail(t, path, cuts)
		defer way.close()
		w := &wary{done: make(chan struct{})}
		follower := client.Follow(context.Background(), func(ctx context.Context) (*client.Client, error) {
			return client.Dial(ctx, way.path, client.Options{Client: "test"})
		}, []string{wire.TopicMissions, "session:s1"}, w)
		defer follower.Close()
		entries := uint64(0)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			burst := rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 5000)).Draw(rt, "burst")
			switch rapid.SampledFrom([]string{"entries", "entries", "changes", "restart"}).Draw(rt, "what") {
			case "entries":
				f.append("s1", burst, rapid.IntRange(0, 400).Draw(rt, "size"))
				entries += uint64(burst)
			case "changes":
				for range burst {
					tp.Publish(wire.EvMission, n.Add(1))
				}
			case "restart":
				next := newFake()
				next.hub = NewHub(f.hub.generation + 1)
				next.logs["s1"] = f.logs["s1"] // what is logged stays
				tp = topic(next)
				_, path := serve(t, next)
				way.mu.Lock()
				way.to = path
				way.mu.Unlock()
				f = next
				way.sever()
			}
		}
		f.append("s1", 1, 1)
		tp.Publish(wire.EvMission, n.Add(1))
		w.mu.Lock()
		w.entries, w.states = entries+1, int(n.Load())
		w.look()
		w.mu.Unlock()
		<-w.done
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.wrong != "" {
			rt.Fatal(w.wrong)
		}
		if w.resets > 0 {
			rt.Fatalf("%d snapshots replaced a session that was known, although its cursor was good", w.resets)
		}
	})
}
