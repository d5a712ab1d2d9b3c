package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// Phase is where a Follower stands.
type Phase string

// The phases. Closing means that the service said it closes, and why; it is
// followed by Connecting or Stopped.
const (
	Connecting Phase = "connecting"
	Connected  Phase = "connected"
	Stopped    Phase = "stopped" // nobody listens
	Closing    Phase = "closing"
	Mismatch   Phase = "mismatch"
)

// State is what a Follower knows of the service.
type State struct {
	Phase    Phase
	Reason   string               // of Closing: shutdown | update | fenced
	Err      error                // why there is no connection, if there is none
	Identity wire.NegotiateResult // of Connected
	Mismatch *MismatchError       // of Mismatch
}

// Handler gets what a Follower sees. Its methods are called one at a time, from
// the Follower's goroutines; they must return soon and make no calls to the
// service.
type Handler interface {
	// State is called on every change.
	State(State)
	// Snapshot gives all of a topic: it replaces what was known of it.
	Snapshot(topic string, items []json.RawMessage, purpose string)
	// Delta gives one event of a topic: a change, for sessions the next
	// entry. The event snapshot.failed says that the topic can't be had at
	// present, or not all of it; it goes on by itself unless the session is
	// unknown.
	Delta(topic string, e wire.Event)
}

const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 5 * time.Second
	// silence is after how long without a heartbeat a connection is dead.
	silence = 25 * time.Second
)

// Follower keeps a connection, and on it a set of topics.
type Follower struct {
	dial    func(context.Context) (*Client, error)
	h       Handler
	silence time.Duration
	cancel  context.CancelFunc
	ended   chan struct{}
	change  chan struct{} // the set of topics changed; capacity 1
	client  atomic.Pointer[Client]

	mu     sync.Mutex
	topics map[string]*topic

	// telling is held over every call of the handler, which keeps them one at
	// a time. It is taken before mu, never after.
	telling sync.Mutex
	last    State
}

// topic is a followed topic. Its fields belong to Follower.mu.
type topic struct {
	cursor   *wire.Cursor
	watching *Client // on which connection it was asked for
	begin    *wire.SnapshotBegin
	items    []json.RawMessage
}

// Follow follows topics until ctx ends or Close is called. It dials again when
// the connection ends, waiting 100 ms at first and 5 s at most, and resumes
// where it was. A session's topic is wire.TopicSession and its full id.
func Follow(ctx context.Context, dial func(context.Context) (*Client, error), topics []string, h Handler) *Follower {
	return follow(ctx, dial, topics, h, silence)
}

func follow(ctx context.Context, dial func(context.Context) (*Client, error), topics []string, h Handler, silence time.Duration) *Follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &Follower{dial: dial, h: h, silence: silence, cancel: cancel, ended: make(chan struct{}),
		change: make(chan struct{}, 1), topics: map[string]*topic{}}
	for _, name := range topics {
		f.topics[name] = &topic{}
	}
	go f.run(ctx)
	return f
}

// Close ends following. When it returns the handler is called no more. It must
// not be called from the handler.
func (f *Follower) Close() {
	f.cancel()
	<-f.ended
}

// Client is the present connection, for calls, or nil.
func (f *Follower) Client() *Client { return f.client.Load() }

// Watch adds a topic. One that is watched already stays as it is.
func (f *Follower) Watch(name string) {
	f.mu.Lock()
	if f.topics[name] == nil {
		f.topics[name] = &topic{}
	}
	f.mu.Unlock()
	f.poke()
}

// Unwatch removes a topic. What it sent before may still be delivered.
func (f *Follower) Unwatch(name string) {
	f.mu.Lock()
	delete(f.topics, name)
	f.mu.Unlock()
	f.poke()
}

func (f *Follower) poke() {
	select {
	case f.change <- struct{}{}:
	default:
	}
}

func (f *Follower) run(ctx context.Context) {
	defer close(f.ended)
	defer f.cancel()
	wait := backoffMin
	f.state(State{Phase: Connecting})
	for ctx.Err() == nil {
		c, err := f.dial(ctx)
		if err == nil {
			wait = backoffMin
			err = f.serve(ctx, c)
		}
		if ctx.Err() != nil {
			return
		}
		var mismatch *MismatchError
		switch {
		case errors.As(err, &mismatch):
			f.state(State{Phase: Mismatch, Err: err, Mismatch: mismatch})
		case errors.Is(err, ErrNotRunning):
			f.state(State{Phase: Stopped, Err: err})
		case f.last.Phase != Closing: // the connection's reader has ended
			f.state(State{Phase: Connecting, Err: err})
		}
		// Jitter, so that many clients don't come back at one moment.
		t := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		wait = min(2*wait, backoffMax)
	}
}

// state tells the handler of a change, once.
func (f *Follower) state(s State) {
	f.telling.Lock()
	defer f.telling.Unlock()
	if s.Phase == f.last.Phase && s.Phase != Connected {
		return
	}
	f.last = s
	f.h.State(s)
}

// serve follows on one connection until that ends.
func (f *Follower) serve(ctx context.Context, c *Client) error {
	defer c.Close()
	f.state(State{Phase: Connected, Identity: c.Identity()})
	c.Handle(func(e wire.Event) { f.event(ctx, c, e) })
	f.client.Store(c)
	defer f.client.Store(nil)

	watched := map[string]bool{}
	quiet := time.NewTimer(f.silence)
	defer quiet.Stop()
	for {
		if err := f.sync(ctx, c, watched); err != nil {
			return err
		}
		select {
		case <-f.change:
		case <-c.Done():
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		case <-quiet.C:
			left := f.silence - time.Since(time.Unix(0, c.seen.Load()))
			// Without topics there is no heartbeat to miss.
			if left <= 0 && len(watched) > 0 {
				return errors.New("the service fell silent")
			}
			if left <= 0 {
				left = f.silence
			}
			quiet.Reset(left)
		}
	}
}

// sync makes the topics of the connection those that are wanted.
func (f *Follower) sync(ctx context.Context, c *Client, watched map[string]bool) error {
	type want struct {
		name   string
		cursor *wire.Cursor
	}
	var add []want
	var remove []string
	f.mu.Lock()
	for name, t := range f.topics {
		if t.watching != c {
			t.watching, t.begin, t.items = c, nil, nil
			add = append(add, want{name, t.cursor})
		}
	}
	for name := range watched {
		if f.topics[name] == nil {
			remove = append(remove, name)
		}
	}
	f.mu.Unlock()
	slices.SortFunc(add, func(a, b want) int { return len(a.name) - len(b.name) })

	for _, name := range remove {
		delete(watched, name)
		if err := f.ask(ctx, c, wire.MethodUnwatch, wire.UnwatchParams{Topics: []string{name}}); err != nil && !refusal(err) {
			return err
		}
	}
	for _, w := range add {
		err := f.ask(ctx, c, wire.MethodWatch, wire.WatchParams{Topics: []string{w.name}, Cursor: w.cursor})
		switch {
		case err == nil:
			watched[w.name] = true
		case refusal(err):
			reason, _ := json.Marshal(wire.SnapshotFailed{Reason: err.Error()})
			f.telling.Lock()
			f.h.Delta(w.name, wire.Event{Event: wire.EvSnapshotFailed, Topic: w.name, Data: reason})
			f.telling.Unlock()
		default:
			return err
		}
	}
	return nil
}

// ask bounds a call, so that a service that hangs is noticed.
func (f *Follower) ask(ctx context.Context, c *Client, method string, params any) error {
	ctx, cancel := context.WithTimeout(ctx, f.silence)
	defer cancel()
	return c.Call(ctx, method, params, nil)
}

func refusal(err error) bool {
	var e *wire.Error
	return errors.As(err, &e)
}

// event takes an event from the connection's reader.
func (f *Follower) event(ctx context.Context, c *Client, e wire.Event) {
	if ctx.Err() != nil {
		return
	}
	if e.Event == wire.EvServiceClosing {
		var d wire.ServiceClosing
		_ = json.Unmarshal(e.Data, &d)
		f.state(State{Phase: Closing, Reason: d.Reason})
		return
	}
	if e.Topic == "" {
		return
	}
	f.telling.Lock()
	defer f.telling.Unlock()
	for _, deliver := range f.take(c, e) {
		deliver()
	}
}

// take updates what is known of the event's topic and returns what the handler
// is to be told, which happens without the lock.
func (f *Follower) take(c *Client, e wire.Event) (tell []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[e.Topic]
	if t == nil || t.watching != c {
		return nil
	}
	name := e.Topic
	switch e.Event {
	case wire.EvSnapshotBegin:
		t.begin, t.items = &wire.SnapshotBegin{}, nil
		_ = json.Unmarshal(e.Data, t.begin)
	case wire.EvSnapshotChunk:
		var d wire.SnapshotChunk
		if t.begin == nil || json.Unmarshal(e.Data, &d) != nil {
			return nil
		}
		if t.begin.After == nil {
			t.items = append(t.items, d.Items...)
			return nil
		}
		// What continues a session is no different from entries that come
		// one by one.
		for _, item := range d.Items {
			var head struct {
				Log string `json:"log"`
				Seq uint64 `json:"seq"`
			}
			if json.Unmarshal(item, &head) != nil {
				continue
			}
			if head.Log == "" {
				head.Log = t.begin.After.Log
			}
			at := wire.Cursor{Log: head.Log, Sequence: head.Seq}
			if t.advance(at) {
				tell = append(tell, func() {
					f.h.Delta(name, wire.Event{Version: e.Version, Event: wire.EvSession, Topic: name, Session: e.Session, Cursor: &at, Data: item})
				})
			}
		}
	case wire.EvSnapshotEnd:
		begin, items := t.begin, t.items
		t.begin, t.items = nil, nil
		if begin == nil || begin.After != nil {
			return nil
		}
		t.cursor = e.Cursor
		tell = append(tell, func() { f.h.Snapshot(name, items, begin.Purpose) })
		var end wire.SnapshotEnd
		if json.Unmarshal(e.Data, &end) == nil && end.LeftOut > 0 {
			reason, _ := json.Marshal(wire.SnapshotFailed{Reason: fmt.Sprintf("%d records of %s are too long to be sent; all others are here.", end.LeftOut, name)})
			tell = append(tell, func() {
				f.h.Delta(name, wire.Event{Version: e.Version, Event: wire.EvSnapshotFailed, Topic: name, Data: reason})
			})
		}
	case wire.EvSnapshotFailed:
		t.begin, t.items = nil, nil
		tell = append(tell, func() { f.h.Delta(name, e) })
	default:
		if e.Cursor != nil && !t.advance(*e.Cursor) {
			return nil
		}
		tell = append(tell, func() { f.h.Delta(name, e) })
	}
	return tell
}

// advance moves the cursor forward. It says no for what was seen already.
func (t *topic) advance(to wire.Cursor) bool {
	if at := t.cursor; at != nil && at.Log == to.Log && at.Generation == to.Generation && to.Sequence <= at.Sequence {
		return false
	}
	t.cursor = &to
	return true
}
