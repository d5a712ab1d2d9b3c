package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

const (
	// catchUp is how soon a snapshot that failed is tried again.
	catchUp = 250 * time.Millisecond
	// chunkBytes is about how large a piece of a snapshot is; the first one
	// is small, so that there is soon something to see.
	chunkBytes, firstChunk = 256 << 10, 32 << 10
)

// sub is one topic that one connection watches. All but gone belongs to the
// connection's writer.
type sub struct {
	topic   *Topic
	pos     position
	snap    bool // needs a snapshot before anything else
	purpose string
	failed  bool // the client knows that its snapshot fails
	leftOut int  // items of the last snapshot that were too long
	again   time.Time
	gone    atomic.Bool
}

// ready says whether there may be something to do now, else when.
func (s *sub) ready(next *time.Time) bool {
	if s.again.IsZero() || !time.Now().Before(s.again) {
		return !s.gone.Load()
	}
	if next.IsZero() || s.again.Before(*next) {
		*next = s.again
	}
	return false
}

// lag moves the watcher to catch-up: a snapshot brings it to the present.
func (s *sub) lag() { s.snap, s.purpose = true, wire.PurposeResync }

var errGone = errors.New("no longer watched")

// stream writes a snapshot. An error means that the connection is broken; what
// the backend fails at is told to the client and tried again.
func (c *conn) stream(s *sub) error {
	out := &snapshot{c: c, s: s, limit: firstChunk}
	var err error
	if s.topic.session != "" {
		err = c.streamLog(s, out)
	} else {
		err = c.streamItems(s, out)
	}
	switch {
	case errors.Is(err, errGone):
		return nil
	case out.broken != nil:
		return out.broken
	case err == nil:
		s.failed = false
		return nil
	}
	s.again = time.Now().Add(catchUp)
	if s.failed || c.ctx.Err() != nil {
		return nil
	}
	s.failed = true
	reason := c.s.refusal(wire.EvSnapshotFailed, err)
	if reason.Code == wire.CodeNotFound {
		s.gone.Store(true)
	}
	return c.put([][]byte{eventLine(wire.EvSnapshotFailed, s.topic, nil, wire.SnapshotFailed{Reason: reason.Message})})
}

// streamItems sends the state of a topic.
func (c *conn) streamItems(s *sub, out *snapshot) error {
	items, at, err := s.topic.capture()
	if err != nil {
		return err
	}
	// One record that can't be sent must not hide all others.
	fit := make([]json.RawMessage, 0, len(items))
	for _, item := range items {
		if len(item) <= wire.MaxLine-(2<<10) {
			fit = append(fit, item)
		}
	}
	out.leftOut = len(items) - len(fit)
	if items = fit; out.leftOut != s.leftOut {
		s.leftOut = out.leftOut
		c.s.log.Error("records are too long to be sent, and were left out", "topic", s.topic.name, "records", out.leftOut)
	}
	out.begin(len(items), &at, nil)
	for _, item := range items {
		out.add(func(b []byte) []byte { return append(b, item...) })
		if err := out.stopped(); err != nil {
			return err
		}
	}
	if err := out.end(at); err != nil {
		return err
	}
	s.pos, s.snap = position{next: at.Sequence + 1}, false
	return nil
}

// streamLog sends what the log of a session has after the watcher's position,
// while it is read: no transcript is ever held in memory. Afterwards the ring
// goes on where the log ended, or the log is read once more.
func (c *conn) streamLog(s *sub, out *snapshot) error {
	var after *wire.Cursor
	if s.pos.next > 1 && !s.topic.replaced(s.pos.log) {
		after = &wire.Cursor{Log: s.pos.log, Sequence: s.pos.next - 1}
	}
	var pos position
	first := s.purpose == wire.PurposeAttach
	end, err := c.s.b.History(c.ctx, s.topic.session, after, func(e wire.Entry) bool {
		if !out.begun && out.size()+len(e.Data) > out.limit {
			out.begin(-1, after, after)
		}
		out.add(func(b []byte) []byte { return appendEntry(b, e) })
		pos = position{log: e.Log, next: e.Seq + 1}
		return out.stopped() == nil
	})
	if stop := out.stopped(); stop != nil {
		return stop
	}
	if err == nil && c.ctx.Err() != nil {
		err = c.ctx.Err()
	}
	if err != nil {
		if after != nil && wire.CodeOf(err) == wire.CodeUnavailable {
			s.pos = position{} // another log by now: all of it
		}
		return err
	}
	if out.count == 0 && !first {
		// What was published is not to be read yet.
		s.snap, s.again = true, time.Now().Add(catchUp)
		return nil
	}
	if out.count == 0 {
		if after != nil {
			pos = s.pos
		} else {
			pos = position{log: end.Log, next: 1}
		}
	}
	if pos.log == "" {
		pos.log = end.Log
	}
	if !out.begun {
		out.begin(out.count, after, after)
	}
	if err := out.end(wire.Cursor{Log: pos.log, Sequence: pos.next - 1}); err != nil {
		return err
	}
	s.pos, s.snap, s.purpose = pos, false, wire.PurposeResync
	return nil
}

// snapshot writes begin, chunks and end.
type snapshot struct {
	c      *conn
	s      *sub
	limit  int
	buf    []byte
	begun  bool
	count  int // items so far
	index  int // chunks so far
	inBuf  int
	broken error // the connection's

	leftOut int // items that are too long
}

func (o *snapshot) size() int { return len(o.buf) }

func (o *snapshot) begin(count int, at, after *wire.Cursor) {
	o.begun = true
	o.put(eventLine(wire.EvSnapshotBegin, o.s.topic, at, wire.SnapshotBegin{Purpose: o.s.purpose, Count: count, After: after}))
}

// add puts an item into the chunk at hand, which is written first when it is
// full.
func (o *snapshot) add(item func([]byte) []byte) {
	if o.inBuf == 0 {
		o.buf = o.chunkHead(o.buf[:0])
	} else {
		o.buf = append(o.buf, ',')
	}
	from := len(o.buf)
	o.buf = item(o.buf)
	if o.begun && o.inBuf > 0 && len(o.buf) > o.limit {
		// Without this item; it opens the next chunk.
		last := slices.Clone(o.buf[from:])
		o.buf = o.buf[:from-1]
		o.flush()
		o.buf = append(o.chunkHead(o.buf[:0]), last...)
	}
	o.inBuf++
	o.count++
}

func (o *snapshot) chunkHead(b []byte) []byte {
	b = append(b, `{"version":`...)
	b = strconv.AppendInt(b, wire.MaxVersion, 10)
	b = append(b, `,"event":"`+wire.EvSnapshotChunk+`","topic":`...)
	b = appendString(b, o.s.topic.name)
	if o.s.topic.session != "" {
		b = append(b, `,"session":`...)
		b = appendString(b, o.s.topic.session)
	}
	b = append(b, `,"data":{"index":`...)
	b = strconv.AppendInt(b, int64(o.index), 10)
	return append(b, `,"items":[`...)
}

func (o *snapshot) flush() {
	if o.inBuf == 0 {
		return
	}
	o.buf = append(o.buf, "]}}\n"...)
	o.put(o.buf)
	o.index++
	o.inBuf = 0
	o.limit = chunkBytes
}

func (o *snapshot) end(at wire.Cursor) error {
	o.flush()
	o.put(eventLine(wire.EvSnapshotEnd, o.s.topic, &at, wire.SnapshotEnd{Count: o.count, LeftOut: o.leftOut}))
	return o.stopped()
}

// put writes a line, and around it what became due meanwhile: a long transcript
// holds up neither answers nor the other topics.
func (o *snapshot) put(line []byte) {
	if o.broken != nil {
		return
	}
	answers, subs, _ := o.c.take()
	lines := make([][]byte, 0, len(answers)+2)
	for _, a := range answers {
		lines = append(lines, a.line)
	}
	if o.c.due.Swap(false) {
		lines = append(lines, heartbeatLine)
	}
	if !o.s.gone.Load() {
		lines = append(lines, line)
	}
	lines = o.c.gather(lines, subs)
	if o.broken = o.c.put(lines); o.broken == nil {
		o.c.settle(answers, 0)
	}
}

func (o *snapshot) stopped() error {
	if o.broken == nil && o.s.gone.Load() {
		return errGone
	}
	return o.broken
}

// watch judges topics and prepares to watch them. Nothing comes before the
// returned then is called, after the answer was queued; undo takes it all back.
func (c *conn) watch(ctx context.Context, k call, topics []string, cursors map[string]wire.Cursor) (starts []wire.TopicStart, refs []SessionRef, then, undo func(), err error) {
	var subs []*sub
	undo = func() {
		for _, s := range subs {
			c.s.hub.close(s.topic, c)
		}
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	for _, name := range topics {
		s := &sub{snap: true, purpose: wire.PurposeAttach}
		start := wire.TopicStart{Topic: name, Replay: "none"}
		cursor, resume := cursors[name]
		var ref SessionRef
		if id, is := sessionTopic(name); is {
			if ref, err = k.session(ctx, id); err != nil {
				return
			}
			start.Topic = wire.TopicSession + ref.Session
		} else if k.actor.Worker {
			err = k.refuse(ctx)
			return
		}
		if slices.ContainsFunc(starts, func(o wire.TopicStart) bool { return o.Topic == start.Topic }) {
			err = wire.InvalidField("topics", "names "+strconv.Quote(name)+" twice")
			return
		}
		if s.topic, err = c.s.hub.open(start.Topic, ref.Session, c); err != nil {
			return
		}
		subs = append(subs, s)
		if resume {
			if why := c.resume(ctx, s, ref, cursor); why != nil {
				start.Replay, start.Reason = "unavailable", why.Error()
			} else {
				start.Replay = "complete"
			}
		}
		starts, refs = append(starts, start), append(refs, ref)
	}
	then = func() {
		c.drop(func(old *sub) bool {
			return slices.ContainsFunc(subs, func(s *sub) bool { return s.topic == old.topic })
		})
		c.mu.Lock()
		c.subs = append(slices.Clone(c.subs), subs...)
		c.mu.Unlock()
		c.s.setBeat(c, true)
		c.poke()
	}
	return
}

// resume sets the position of a cursor, or says why it can't be resumed.
func (c *conn) resume(ctx context.Context, s *sub, ref SessionRef, at wire.Cursor) error {
	if ref.Session == "" {
		if err := s.topic.resume(at); err != nil {
			return err
		}
		s.snap, s.pos = false, position{next: at.Sequence + 1}
		return nil
	}
	if at.Log == "" || at.Sequence == 0 {
		return errors.New("the cursor names no position in the session's log")
	}
	// The log itself has to judge; the first entry is proof enough.
	ok := true
	end, err := c.s.b.History(ctx, ref.Session, &at, func(e wire.Entry) bool {
		ok = e.Seq == at.Sequence+1 && (e.Log == "" || e.Log == at.Log)
		return false
	})
	if err != nil || !ok || end.Log != "" && end.Log != at.Log {
		return errors.New("the session has another log by now")
	}
	s.pos = position{log: at.Log, next: at.Sequence + 1}
	return nil
}

// drop ends the subscriptions that match.
func (c *conn) drop(match func(*sub) bool) {
	c.mu.Lock()
	var keep, out []*sub
	for _, s := range c.subs {
		if match(s) {
			s.gone.Store(true)
			out = append(out, s)
		} else {
			keep = append(keep, s)
		}
	}
	c.subs = keep
	c.mu.Unlock()
	for _, s := range out {
		c.s.hub.close(s.topic, c)
	}
	if len(keep) == 0 {
		c.s.setBeat(c, false)
	}
}
