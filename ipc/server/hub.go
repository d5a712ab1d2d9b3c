package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// What a topic keeps to replay, and how far a watcher may fall behind before
// it is given a snapshot instead.
const (
	ringFrames = 2048
	ringBytes  = 4 << 20
)

// Hub carries events to watching clients. An event is encoded once and lies in
// its topic's ring; every connection walks the ring at its own pace. So a slow
// client costs nothing but its own lag: nobody waits for it and nothing is
// queued for it.
//
// Lock order: Hub.mu before Topic.mu. Neither is held while a snapshot is
// taken or a socket written.
type Hub struct {
	generation uint64

	mu       sync.RWMutex
	topics   map[string]*Topic
	sessions map[string]*Topic // watched ones only
}

// NewHub makes the hub of one generation of the service, which is part of every
// cursor but those of sessions.
func NewHub(generation uint64) *Hub {
	return &Hub{generation: generation, topics: map[string]*Topic{}, sessions: map[string]*Topic{}}
}

// Topic is a stream of events with a sequence of its own.
type Topic struct {
	name       string
	session    string // of a session topic
	generation uint64
	snapshot   func() ([]json.RawMessage, error)

	mu       sync.Mutex
	log      string // of a session topic, once known
	last     uint64 // newest sequence that was published
	ring     []frame
	start    int // index of the oldest frame in ring
	bytes    int
	watchers map[*conn]int
}

// frame is an encoded event, newline included. It is shared and never written.
type frame struct {
	seq uint64
	b   []byte
}

// Topic adds a topic. snapshot returns the state of it as whole records, each
// of which its events must carry whole as well; it is called without any lock
// of the hub, so both it and the callers of Publish may hold their own.
// Topics are added before the server serves.
func (h *Hub) Topic(name string, snapshot func() ([]json.RawMessage, error)) *Topic {
	t := &Topic{name: name, generation: h.generation, snapshot: snapshot, watchers: map[*conn]int{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.topics[name] = t
	return t
}

// Publish tells the watchers of the topic. The caller orders its own calls:
// whoever changes a record and publishes it under one lock keeps the order.
func (t *Topic) Publish(event string, data any) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		slog.Error("publish an event", "topic", t.name, "event", event, "error", err)
		return
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
	head := make([]byte, 0, 64)
	head = append(head, `{"version":`...)
	head = strconv.AppendInt(head, wire.MaxVersion, 10)
	head = append(head, `,"event":`...)
	head = appendString(head, event)
	head = append(head, `,"topic":`...)
	head = appendString(head, t.name)

	t.mu.Lock()
	defer t.mu.Unlock()
	seq := t.last + 1
	b := make([]byte, 0, len(head)+len(body)+80)
	b = append(b, head...)
	b = append(b, `,"cursor":`...)
	b = appendCursor(b, wire.Cursor{Generation: t.generation, Sequence: seq})
	b = append(b, `,"data":`...)
	b = append(b, body...)
	b = append(b, '}', '\n')
	t.pushLocked(frame{seq, b})
}

// PublishEntry tells those who follow the session of a new entry of its log.
// The entry must be readable through Backend.History by now. Without followers
// it does nothing: the log is what they will read.
func (h *Hub) PublishEntry(session string, e wire.Entry) {
	h.mu.RLock()
	t := h.sessions[session]
	h.mu.RUnlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Log != t.log {
		t.log, t.last = e.Log, 0
		t.clearLocked()
	}
	if e.Seq <= t.last {
		return
	}
	if e.Seq != t.last+1 {
		t.clearLocked() // whoever misses what is between reads the log
	}
	t.pushLocked(frame{e.Seq, sessionFrame(t.session, e)})
}

func (t *Topic) pushLocked(f frame) {
	t.last = f.seq
	if len(f.b)-1 > wire.MaxLine {
		// It can't be sent. With a hole in the ring all watchers get a
		// snapshot, which can say that it failed.
		t.clearLocked()
	} else {
		t.ring = append(t.ring, f)
		t.bytes += len(f.b)
		for t.bytes > ringBytes || len(t.ring)-t.start > ringFrames {
			t.bytes -= len(t.ring[t.start].b)
			t.ring[t.start] = frame{}
			t.start++
		}
		// Move down now and then, so that a frame costs O(1).
		if t.start > ringFrames {
			n := copy(t.ring, t.ring[t.start:])
			clear(t.ring[n:])
			t.ring, t.start = t.ring[:n], 0
		}
	}
	for c := range t.watchers {
		c.poke()
	}
}

func (t *Topic) clearLocked() {
	clear(t.ring)
	t.ring, t.start, t.bytes = t.ring[:0], 0, 0
}

// errLag says that what a watcher needs next is not in the ring.
var errLag = errors.New("more was missed than is kept in memory")

// position is where a watcher stands: what it needs next, and of which log.
type position struct {
	log  string
	next uint64
}

// read appends the frames from pos on, about limit bytes of them at most, and
// moves pos behind them.
func (t *Topic) read(to [][]byte, pos *position, limit int) ([][]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos.log == "" {
		pos.log = t.log
	} else if t.log != "" && pos.log != t.log {
		return to, errLag
	}
	if pos.next > t.last {
		return to, nil
	}
	live := t.ring[t.start:]
	if len(live) == 0 || live[0].seq > pos.next {
		return to, errLag
	}
	for i, f := range live[pos.next-live[0].seq:] {
		if limit -= len(f.b); limit < 0 && i > 0 {
			break
		}
		to = append(to, f.b)
		pos.next = f.seq + 1
	}
	return to, nil
}

// replaced says whether the session has another log than log by now.
func (t *Topic) replaced(log string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.log != "" && log != "" && t.log != log
}

// resume judges a cursor: nil when everything after it can be replayed.
func (t *Topic) resume(c wire.Cursor) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.Generation != t.generation:
		return errors.New("the service was restarted since")
	case c.Sequence > t.last:
		return errors.New("the cursor is ahead of the topic")
	case c.Sequence == t.last:
		return nil
	}
	if live := t.ring[t.start:]; len(live) == 0 || live[0].seq > c.Sequence+1 {
		return errLag
	}
	return nil
}

// capture takes the snapshot and the sequence that it stands for. Events that
// come while it is taken follow it as deltas. They carry whole records, so that
// is right in the end, but shows old states again; a snapshot during which
// nothing happened is worth two more tries.
func (t *Topic) capture() ([]json.RawMessage, wire.Cursor, error) {
	for try := 0; ; try++ {
		before := t.head()
		items, err := t.snapshot()
		if err != nil {
			return nil, wire.Cursor{}, err
		}
		if try == 2 || t.head() == before {
			return items, wire.Cursor{Generation: t.generation, Sequence: before}, nil
		}
	}
}

func (t *Topic) head() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// open returns the topic of that name with c among its watchers; close undoes
// it. A session's topic lives as long as it has watchers.
func (h *Hub) open(name, session string, c *conn) (*Topic, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if session != "" {
		if t = h.sessions[session]; t == nil {
			t = &Topic{name: name, session: session, watchers: map[*conn]int{}}
			h.sessions[session] = t
		}
	}
	if t == nil {
		return nil, wire.InvalidField("topics", fmt.Sprintf("names %q, which this service doesn't have", name))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers[c]++
	return t, nil
}

func (h *Hub) close(t *Topic, c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers[c]--; t.watchers[c] <= 0 {
		delete(t.watchers, c)
	}
	if t.session != "" && len(t.watchers) == 0 && h.sessions[t.session] == t {
		delete(h.sessions, t.session)
	}
}

// sessionFrame encodes an entry as session.event.
func sessionFrame(session string, e wire.Entry) []byte {
	b := make([]byte, 0, len(e.Data)+2*len(session)+320)
	b = append(b, `{"version":`...)
	b = strconv.AppendInt(b, wire.MaxVersion, 10)
	b = append(b, `,"event":"`+wire.EvSession+`","topic":`...)
	b = appendString(b, wire.TopicSession+session)
	b = append(b, `,"session":`...)
	b = appendString(b, session)
	b = append(b, `,"cursor":`...)
	b = appendCursor(b, wire.Cursor{Log: e.Log, Sequence: e.Seq})
	b = append(b, `,"data":`...)
	b = appendEntry(b, e)
	return append(b, '}', '\n')
}

// appendEntry encodes an entry. Its data was JSON when it was logged and is
// taken as it is; an entry that no line can hold becomes a notice that says so,
// so that the sequence stays whole.
func appendEntry(b []byte, e wire.Entry) []byte {
	data := []byte(e.Data)
	if len(data) > wire.MaxLine-(2<<10) {
		e.Kind = wire.KindNotice
		data, _ = json.Marshal(wire.Notice{Level: "warning",
			Text: fmt.Sprintf("This entry has %d bytes and can only be read from the log file.", len(data))})
	} else if len(data) == 0 {
		data = []byte("null")
	} else if bytes.IndexByte(data, '\n') >= 0 {
		var one bytes.Buffer
		if json.Compact(&one, data) == nil {
			data = one.Bytes()
		} else {
			data = []byte("null")
		}
	}
	b = append(b, '{')
	if e.Log != "" {
		b = append(b, `"log":`...)
		b = append(appendString(b, e.Log), ',')
	}
	b = append(b, `"seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	b = append(b, `,"at":"`...)
	b = e.At.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","kind":`...)
	b = appendString(b, e.Kind)
	b = append(b, `,"data":`...)
	b = append(b, data...)
	return append(b, '}')
}

func appendCursor(b []byte, c wire.Cursor) []byte {
	b = append(b, '{')
	if c.Generation != 0 {
		b = append(b, `"generation":`...)
		b = append(strconv.AppendUint(b, c.Generation, 10), ',')
	}
	if c.Log != "" {
		b = append(b, `"log":`...)
		b = append(appendString(b, c.Log), ',')
	}
	b = append(b, `"sequence":`...)
	return append(strconv.AppendUint(b, c.Sequence, 10), '}')
}

func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\' {
			q, _ := json.Marshal(s)
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
