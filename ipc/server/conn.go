package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// Bounds of one connection.
const (
	// maxInFlight counts requests from their arrival until their answer was
	// written.
	maxInFlight = 64
	// maxUnread is how many answers may wait for a client that doesn't read.
	// Beyond it no more of its requests are read.
	maxUnread = 256
	// maxQueued is how many bytes of answers may wait for such a client. Beyond
	// it no more of its requests are read, and a read that was asked for begins
	// only when its answer has room below it.
	maxQueued = 8 << 20
	// batch is about how much of one topic is written at once.
	batch = 256 << 10
)

// conn is one client. Its reader starts a goroutine per request; its writer is
// the only one that writes, first answers, then what the topics have.
type conn struct {
	s    *Server
	nc   net.Conn
	peer sock.Peer

	ctx     context.Context // of reads and streams
	cancel  context.CancelFunc
	gone    chan struct{}  // closed when the reader ended
	stopped chan struct{}  // closed when the writer ended
	wake    chan struct{}  // something to write; capacity 1
	reqs    sync.WaitGroup // running requests and lanes
	due     atomic.Bool    // a heartbeat is due

	mu       sync.Mutex
	actor    Actor
	more     *sync.Cond // fewer answers wait, or ctx or the writer ended
	answers  []answer
	queued   int  // bytes of answers that aren't written, with a line for each read that runs
	mute     bool // the writer ended
	inFlight int
	lanes    map[string][]func()
	subs     []*sub // never changed in place: the writer walks a copy
	ending   bool
}

// answer is an encoded response; request tells whether it ends a request.
type answer struct {
	line    []byte
	request bool
}

// open makes what a connection needs once it is its turn.
func (c *conn) open() {
	c.gone, c.stopped, c.wake = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	c.lanes, c.more = map[string][]func(){}, sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(c.s.readCtx)
	context.AfterFunc(c.ctx, func() { c.settle(nil, 0) })
}

// forget ends a connection and lets go of its peer.
func (c *conn) forget() {
	_ = c.nc.Close()
	if c.peer.Pidfd != nil {
		_ = c.peer.Pidfd.Close()
	}
}

// run serves the connection and returns when nothing of it is left.
func (c *conn) run() {
	defer c.cancel()
	defer c.forget()
	leave, refused := c.judge()
	c.s.judged(c)
	if refused != nil {
		reject(c.nc, refused)
		return
	}
	defer leave()

	go c.write()
	if c.read() {
		<-c.stopped
	}
	_ = c.nc.Close()
	close(c.gone)
	c.cancel()
	<-c.stopped
	c.reqs.Wait()
	c.drop(func(*sub) bool { return true })
}

// judge finds out whose connection this is, and gives it a place.
func (c *conn) judge() (leave func(), refused *wire.Error) {
	c.actor = c.s.b.Actor(c.peer)
	return c.s.place(c.peer.PID, sideOf(c.actor))
}

// read decodes and dispatches until the connection ends. It says whether the
// writer still has a last word.
func (c *conn) read() (last bool) {
	lines := wire.NewLineReader(c.nc)
	for c.waitForRoom() {
		line, err := lines.Next()
		var long *wire.TooLongError
		switch {
		case errors.As(err, &long):
			e := wire.Errorf(wire.CodeLimitExceeded, "The line is longer than %d bytes, so the connection ends. Send less at a time.", wire.MaxLine)
			c.fail(wire.Request{Version: wire.MinVersion, ID: wire.SalvageID(long.Prefix)}, e, false)
			c.end()
			return true
		case err != nil && !errors.Is(err, wire.ErrNotText):
			return false
		}
		req, bad := wire.DecodeRequest(line)
		if bad != nil {
			c.fail(req, bad, false)
			continue
		}
		c.dispatch(req)
	}
	return false
}

// waitForRoom holds the reader back while the client doesn't read its answers.
func (c *conn) waitForRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for (len(c.answers) >= maxUnread || c.queued > maxQueued) && !c.mute {
		c.more.Wait()
	}
	return !c.mute
}

// reserve waits until an answer of size bytes may be held for the client, and
// counts it from then on. It says whether the connection still serves.
func (c *conn) reserve(size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queued+size > maxQueued && c.ctx.Err() == nil {
		c.more.Wait()
	}
	c.queued += size
	return c.ctx.Err() == nil
}

// settle frees the places of requests whose answers are out, and size bytes.
func (c *conn) settle(answers []answer, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range answers {
		size += len(a.line)
		if a.request {
			c.inFlight--
		}
	}
	c.queued -= size
	c.more.Broadcast()
}

// dispatch starts a request: at once, or in its lane, where requests run one
// after the other in the order they came.
func (c *conn) dispatch(req wire.Request) {
	m, known := methods[req.Method]
	switch {
	case req.Version < wire.MinVersion || req.Version > wire.MaxVersion:
		c.fail(req, wire.Errorf(wire.CodeUnsupportedVersion, "Version %d of the protocol is not supported, only 1 and 2 are.", req.Version).
			With(supported()), false)
		return
	case !known:
		c.fail(req, wire.Errorf(wire.CodeUnsupportedMethod, "Unsupported daemon method: %s", req.Method), false)
		return
	case m.class != open && c.s.isClosing():
		c.fail(req, errClosing(req.Method), false)
		return
	}
	c.mu.Lock()
	if c.inFlight >= maxInFlight {
		c.mu.Unlock()
		c.fail(req, wire.Errorf(wire.CodeLimitExceeded,
			"More than %d requests are in flight on this connection. Wait for answers first.", maxInFlight), false)
		return
	}
	c.inFlight++
	work := func() { c.serve(m, req) }
	lane := m.lane(req.Params)
	if lane != "" {
		if waiting, busy := c.lanes[lane]; busy {
			c.lanes[lane] = append(waiting, work)
			c.mu.Unlock()
			return
		}
		c.lanes[lane] = nil
	}
	c.reqs.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.reqs.Done()
		for work != nil {
			work()
			work = c.nextIn(lane)
		}
	}()
}

func (c *conn) nextIn(lane string) func() {
	if lane == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.lanes[lane]
	if len(waiting) == 0 {
		delete(c.lanes, lane)
		return nil
	}
	c.lanes[lane] = waiting[1:]
	return waiting[0]
}

// serve runs one request and queues its answer.
func (c *conn) serve(m method, req wire.Request) {
	ctx := c.ctx
	switch {
	case m.slow, m.class == probe, m.class == worker: // they may take long, and book nothing
		c.reserve(0)
	case m.class == own, m.class == person:
		defer c.settle(nil, wire.MaxLine) // its own line is counted by then
		if !c.reserve(wire.MaxLine) {
			c.fail(req, c.s.refusal(req.Method, ctx.Err()), true)
			return
		}
	}
	if m.class == decide || m.class == worker {
		// What has begun runs on without its client; what has not, doesn't
		// begin any more.
		select {
		case <-c.gone:
			return
		default:
		}
		if !c.s.startMutation() {
			c.fail(req, errClosing(req.Method), true)
			return
		}
		defer c.s.mutations.Done()
		ctx = c.s.mutateCtx
	}
	out, err := c.invoke(ctx, m, req)
	if err != nil {
		c.fail(req, c.s.refusal(req.Method, err), true)
		return
	}
	version := req.Version
	if n, ok := out.result.(wire.NegotiateResult); ok {
		version = n.ProtocolVersion
	}
	line, err := encodeResult(version, req.ID, out.result)
	if err != nil {
		if out.then != nil {
			out.undo()
		}
		c.fail(req, c.s.refusal(req.Method, err), true)
		return
	}
	c.send(line, true)
	if out.then != nil {
		out.then() // only now, so that a topic's events follow the answer
	}
}

// encodeResult makes the response line. A list that doesn't fit a line is cut,
// which its own fields tell.
func encodeResult(version int, id string, result any) ([]byte, error) {
	for {
		raw, err := marshal(result)
		if err != nil {
			return nil, err
		}
		line, err := wire.Encode(wire.Response{Version: version, ID: id, OK: true, Result: raw})
		var long *wire.TooLongError
		if !errors.As(err, &long) {
			return line, err
		}
		list, ok := result.(wire.MissionListResult)
		if !ok || len(list.Missions) < 2 {
			return nil, wire.Errorf(wire.CodeLimitExceeded, "The answer is longer than a line of %d bytes. Ask for less at a time, or watch the topic.", wire.MaxLine)
		}
		list.Missions, list.More = list.Missions[:len(list.Missions)/2], true
		result = list
	}
}

func marshal(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

func (c *conn) fail(req wire.Request, err *wire.Error, request bool) {
	version := req.Version
	if version == 0 {
		version = wire.MinVersion
	}
	line, encErr := wire.Encode(wire.Fail(version, req.ID, err))
	if encErr != nil {
		line, _ = wire.Encode(wire.Fail(version, req.ID, wire.Errorf(err.Code, "The request was refused; the reason is too long to send.")))
	}
	c.send(line, request)
}

// send queues a line for the writer. It never waits.
func (c *conn) send(line []byte, request bool) {
	c.mu.Lock()
	c.answers = append(c.answers, answer{line, request})
	c.queued += len(line)
	c.mu.Unlock()
	c.poke()
}

// poke wakes the writer.
func (c *conn) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// end closes the connection after what is queued was written, or couldn't be
// for half a second.
func (c *conn) end() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	_ = c.nc.SetWriteDeadline(time.Now().Add(flushGrace))
	c.poke()
}

// write is the writer: answers first, then the topics, each at its own
// position.
func (c *conn) write() {
	defer close(c.stopped)
	defer func() {
		_ = c.nc.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mute = true
		c.more.Broadcast()
	}()
	var out [][]byte
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	defer retry.Stop()
	for {
		answers, subs, ending := c.take()
		out = out[:0]
		for _, a := range answers {
			out = append(out, a.line)
		}
		if c.due.Swap(false) {
			out = append(out, heartbeatLine)
		}
		if ending {
			subs = nil
		}
		out = c.gather(out, subs)
		busy := len(out) > 0
		if err := c.put(out); err != nil {
			return
		}
		c.settle(answers, 0)
		var next time.Time // when a failed snapshot is to be tried again
		for _, s := range subs {
			if !s.snap || !s.ready(&next) {
				continue
			}
			busy = true
			if err := c.stream(s); err != nil {
				return
			}
		}
		if busy {
			continue
		}
		if ending {
			return
		}
		if !next.IsZero() {
			retry.Reset(time.Until(next))
		}
		select {
		case <-c.wake:
		case <-retry.C:
		case <-c.gone:
			return
		}
	}
}

// gather appends what the topics have for this client. One that ran away from
// it is moved to catch-up.
func (c *conn) gather(out [][]byte, subs []*sub) [][]byte {
	for _, s := range subs {
		if s.snap || s.gone.Load() {
			continue
		}
		var err error
		if out, err = s.topic.read(out, &s.pos, batch); err != nil {
			s.lag()
		}
	}
	return out
}

var heartbeatLine = eventLine(wire.EvHeartbeat, nil, nil, struct{}{})

// take returns what is to be written. Answers and subscriptions are taken
// together: so the answer to a watch is always before what it watches.
func (c *conn) take() ([]answer, []*sub, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.answers
	c.answers = nil
	return a, c.subs, c.ending
}

// put writes lines. The slice is kept for the next time; its lines are not.
func (c *conn) put(lines [][]byte) error {
	if len(lines) == 0 {
		return nil
	}
	rest := net.Buffers(lines)
	_, err := rest.WriteTo(c.nc)
	clear(lines)
	return err
}
