// Package server answers the clients of the local socket: it decodes,
// authorises and dispatches their requests, and carries events to those who
// watch. What it serves comes from a Backend and a Hub.
package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// How long Close waits for mutations that run, and then for clients to take
// what is meant for them.
const (
	closeGrace = 2 * time.Second
	flushGrace = 500 * time.Millisecond
)

// maxOfOne is how many connections the worker of one mission may have, so that it
// leaves the others theirs. Workers of which nobody knows the mission share as
// many, and so do doubtful peers.
const maxOfOne = 8

// Options of a server; the zero value is good.
type Options struct {
	Logger *slog.Logger // default: slog.Default()
	// MaxClients is how many connections of persons there may be at once, and
	// how many of workers beside them, so that a worker takes no person's
	// place; 0 is 64.
	MaxClients int
}

// Server serves the clients of one listener.
type Server struct {
	l    net.Listener
	b    Backend
	hub  *Hub
	log  *slog.Logger
	max  int
	keys *keys

	grace time.Duration // of Close, for mutations that run

	readCtx       context.Context
	stopReads     context.CancelFunc
	mutateCtx     context.Context
	stopMutations context.CancelFunc

	wg        sync.WaitGroup // connections and the heartbeat
	mutations sync.WaitGroup
	closeOnce sync.Once
	closed    chan struct{}

	peerOf func(net.Conn) (sock.Peer, error) // as the kernel names it

	mu      sync.Mutex
	room    *sync.Cond // in the queue
	queue   queue
	places  map[side]int // taken
	known   map[int]held // by the pid of those who have a place
	closing bool
	conns   map[*conn]struct{}
	beat    heartbeat
}

// New makes a server on a listener from sock.Listen, whose connections can be
// asked for their peer. It serves once Serve is called.
func New(l net.Listener, b Backend, hub *Hub, o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxClients == 0 {
		o.MaxClients = 64
	}
	s := &Server{l: l, b: b, hub: hub, log: o.Logger, max: o.MaxClients, keys: newKeys(),
		closed: make(chan struct{}), peerOf: sock.PeerOf, queue: newQueue(), places: map[side]int{}, known: map[int]held{}, conns: map[*conn]struct{}{}}
	s.room = sync.NewCond(&s.mu)
	s.beat.every, s.grace = HeartbeatInterval, closeGrace
	s.readCtx, s.stopReads = context.WithCancel(context.Background())
	s.mutateCtx, s.stopMutations = context.WithCancel(context.Background())
	return s
}

// Serve accepts clients until the server is closed, which it is (with the
// reason shutdown) when ctx ends. It returns nil then, after everything ended.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.l.Close() })
	defer stop()
	var delay time.Duration
	for {
		nc, err := s.l.Accept()
		switch {
		case err == nil:
			delay = 0
			s.add(nc)
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			s.Close(wire.ClosingShutdown)
			return nil
		default:
			// Most likely out of descriptors: what exists goes on.
			delay = min(max(2*delay, 50*time.Millisecond), time.Second)
			s.log.Error("accept a client", "error", err, "again_in", delay)
			select {
			case <-time.After(delay):
			case <-ctx.Done():
			case <-s.readCtx.Done():
			}
		}
	}
}

// add has a connection judged when it is its turn. It waits only while as many
// processes as fit into the queue have a connection there.
func (s *Server) add(nc net.Conn) {
	peer, refused := s.admit(nc)
	c := &conn{s: s, nc: nc, peer: peer}
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused == nil {
		refused = s.fullFor(peer.PID)
	}
	if refused != nil {
		s.reject(c, refused)
		return
	}
	if len(s.queue.of[peer.PID]) >= s.max {
		s.reject(c, errCrowd)
		return
	}
	for s.queue.waiting >= maxWaiting && !s.closing {
		if other := s.queue.crowd(); other != nil {
			s.reject(other, errCrowd)
		} else {
			s.room.Wait()
		}
	}
	s.queue.push(c)
	s.judgeNext()
}

var errCrowd = wire.Errorf(wire.CodeLimitExceeded, "Too many connections of this program wait already. Try again when some have ended.")

// judgeNext starts the goroutines of those whose turn it is. With all that it
// calls it needs s.mu.
func (s *Server) judgeNext() {
	for c := s.queue.next(); c != nil; c = s.queue.next() {
		s.room.Signal()
		if s.closing {
			s.queue.judged(c)
			c.forget()
			continue
		}
		c.open()
		s.conns[c] = struct{}{}
		s.wg.Go(func() {
			c.run()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, c)
		})
	}
}

// judged lets the next ones be judged.
func (s *Server) judged(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.judged(c)
	s.judgeNext()
}

// reject ends a connection that was not judged with a line that says why.
func (s *Server) reject(c *conn, why *wire.Error) {
	if s.closing {
		c.forget()
		return
	}
	s.wg.Go(func() { reject(c.nc, why); c.forget() }) // it may take a moment to be taken
}

// side is whose places a connection takes: the zero side is that of persons.
type side struct {
	worker, doubtful bool
	mission          string
}

// workers is the side of all that are no persons.
var workers = side{worker: true, doubtful: true}

func sideOf(a Actor) side {
	if !a.Worker && !a.Doubtful {
		return side{}
	}
	return side{a.Worker, a.Doubtful, a.Mission}
}

// all is the side of persons or that of everybody else.
func (of side) all() side {
	if of == (side{}) {
		return of
	}
	return workers
}

// held is what a process holds: a number of places of one side.
type held struct {
	side side
	n    int
}

// full says why there is no place left on a side, or returns nil.
func (s *Server) full(of side) *wire.Error {
	switch all := of.all(); {
	case s.places[all] >= s.max:
		return wire.Errorf(wire.CodeLimitExceeded, "The service already has %d clients. Close one and try again.", s.max)
	case of != all && s.places[of] >= maxOfOne:
		return wire.Errorf(wire.CodeLimitExceeded, "The service already has %d clients of this mission. Close one and try again.", maxOfOne)
	}
	return nil
}

// fullFor is full for a process that has places, none of a person's. It need
// not be judged again to be refused another one.
func (s *Server) fullFor(pid int) *wire.Error {
	if h := s.known[pid]; h.side != (side{}) {
		return s.full(h.side)
	}
	return nil
}

// place gives a connection of a process that was judged one of the places of
// its side, or says why there is none. leave gives it back.
func (s *Server) place(pid int, of side) (leave func(), full *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full := s.full(of); full != nil {
		return nil, full
	}
	take := func(n int) {
		all := of.all()
		if h := (held{of, s.known[pid].n + n}); h.n > 0 {
			s.known[pid] = h
		} else {
			delete(s.known, pid)
		}
		s.places[all] += n
		if of != all {
			s.places[of] += n
		}
		if s.places[of] == 0 {
			delete(s.places, of) // missions come and go
		}
	}
	take(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		take(-1)
	}, nil
}

// reject ends a connection with one line that says why.
func reject(nc net.Conn, why *wire.Error) {
	if line, err := wire.Encode(wire.Fail(wire.MinVersion, "", why)); err == nil {
		_ = nc.SetWriteDeadline(time.Now().Add(flushGrace))
		_, _ = nc.Write(line)
	}
	_ = nc.Close()
}

// Close tells all clients that the service closes and why (one of the
// wire.Closing reasons), lets mutations that run come to their end for two
// seconds, ends the connections and returns when no goroutine is left.
func (s *Server) Close(reason string) {
	s.closeOnce.Do(func() {
		defer close(s.closed)
		_ = s.l.Close()
		s.mu.Lock()
		s.closing = true
		s.judgeNext() // who waits still isn't served
		s.room.Broadcast()
		conns := make([]*conn, 0, len(s.conns))
		for c := range s.conns {
			conns = append(conns, c)
		}
		s.mu.Unlock()

		notice := eventLine(wire.EvServiceClosing, nil, nil, wire.ServiceClosing{Reason: reason})
		for _, c := range conns {
			c.send(notice, false)
		}
		s.stopReads()
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.mutations.Wait()
		}()
		wait := time.NewTimer(s.grace)
		select {
		case <-done:
		case <-wait.C:
			s.log.Warn("close the socket: mutations still run and are cancelled")
		}
		wait.Stop()
		s.stopMutations()
		<-done
		for _, c := range conns {
			c.end()
		}
		s.wg.Wait()
	})
	<-s.closed
}

// startMutation says whether a mutation may still begin; the caller calls
// mutations.Done when it is over.
func (s *Server) startMutation() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.mutations.Add(1)
	return true
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// admit asks the kernel who connected.
func (s *Server) admit(nc net.Conn) (sock.Peer, *wire.Error) {
	peer, err := s.peerOf(nc)
	if err != nil {
		s.log.Warn("client refused", "error", err)
		return peer, wire.Errorf(wire.CodeUnavailable, "The system doesn't say who is connected, so the service doesn't answer.")
	}
	if !sock.SameUser(peer) {
		s.log.Warn("client of another user refused", "user", peer.UID, "pid", peer.PID)
		return peer, wire.Errorf(wire.CodeUnavailable, "This service belongs to another user. Start your own with reeve service run.")
	}
	return peer, nil
}

// refusal turns any error into one that may cross the wire.
func (s *Server) refusal(method string, err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.Canceled) && s.isClosing() {
		return errClosing(method)
	}
	return s.internal(method, err, nil)
}

func (s *Server) internal(method string, err error, stack []byte) *wire.Error {
	var id [4]byte
	_, _ = rand.Read(id[:])
	ref := hex.EncodeToString(id[:])
	attrs := []any{"reference", ref, "method", method, "error", err}
	if stack != nil {
		attrs = append(attrs, "stack", string(stack))
	}
	s.log.Error("request failed", attrs...)
	return wire.Errorf(wire.CodeInternal, "Internal error %s in %s. The log of the service tells more under this reference.", ref, method).
		With(map[string]string{"reference": ref})
}

// errClosing refuses what comes too late. Bridges of workers repeat a completion
// on a stale generation and on nothing else, so that is what they are told: the
// successor takes it.
func errClosing(method string) *wire.Error {
	if methods[method].class == worker {
		return wire.Errorf(wire.CodeStaleGeneration, "Stale daemon generation: this service is ending. Negotiate with its successor, then repeat the request.")
	}
	return wire.Errorf(wire.CodeShuttingDown, "The service is shutting down. Try again when it runs.")
}

// heartbeat is one ticker for all watching clients. It runs only while there
// are any, so that an idle service sleeps.
type heartbeat struct {
	every time.Duration

	mu   sync.Mutex
	on   map[*conn]struct{}
	stop chan struct{}
}

// set starts or stops the beat for one connection.
func (s *Server) setBeat(c *conn, on bool) {
	h := &s.beat
	h.mu.Lock()
	defer h.mu.Unlock()
	if !on {
		delete(h.on, c)
		if len(h.on) == 0 && h.stop != nil {
			close(h.stop)
			h.stop, h.on = nil, nil
		}
		return
	}
	if h.on == nil {
		h.on = map[*conn]struct{}{}
	}
	h.on[c] = struct{}{}
	if h.stop == nil {
		h.stop = make(chan struct{})
		s.wg.Add(1) // the caller's connection is counted, so this is no race with Close
		go s.beatUntil(h.stop)
	}
}

func (s *Server) beatUntil(stop chan struct{}) {
	defer s.wg.Done()
	t := time.NewTicker(s.beat.every)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		s.beat.mu.Lock()
		for c := range s.beat.on {
			c.due.Store(true)
			c.poke()
		}
		s.beat.mu.Unlock()
	}
}

// eventLine encodes an event of the server itself.
func eventLine(event string, t *Topic, cursor *wire.Cursor, data any) []byte {
	e := wire.Event{Version: wire.MaxVersion, Event: event, Cursor: cursor}
	if t != nil {
		e.Topic, e.Session = t.name, t.session
	}
	var err error
	if e.Data, err = marshal(data); err != nil {
		panic(fmt.Sprintf("encode %s: %v", event, err)) // only types of package wire come here
	}
	line, err := wire.Encode(e)
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", event, err))
	}
	return line
}
