package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
)

const initID = "init"

var errNoTurn = errors.New("no turn is running")

// conn is one running Claude Code. The reader goroutine alone handles what the
// program says and emits events; calls of other goroutines only write. mu is
// never held while writing or emitting.
type conn struct {
	p       *child.Process
	write   func([]byte) error
	kill    func()
	events  *child.Events
	spec    provider.Spec
	session string
	ready   chan response // the answer to initialize
	done    chan struct{} // the reader has ended

	mu     sync.Mutex
	turn   *turn
	open   map[string]*ask // permission requests that wait, by request id
	denied map[string]bool // calls that were denied here
	broken string          // why nothing may run any more
	closed bool

	// Of the reader alone:
	lifecycle bool // the program reports the life of each message
	seen      failure
	version   string
	calls     map[string]*toolCall
	streamed  map[string]string // text of a message that was emitted in pieces
	thought   map[string]bool   // messages whose reasoning was emitted in pieces
	current   chat              // the message that is being streamed
}

// ask is a permission request that waits for an answer.
type ask struct {
	call     string
	input    json.RawMessage
	question bool
}

// toolCall is a call that has not ended.
type toolCall struct {
	name       string
	cwd        string
	diff       string
	background bool
}

func newConn(p *child.Process, spec provider.Spec, session string) *conn {
	c := &conn{
		p: p, events: child.NewEvents(), spec: spec, session: session,
		ready: make(chan response, 1), done: make(chan struct{}),
		open: map[string]*ask{}, denied: map[string]bool{}, calls: map[string]*toolCall{},
		streamed: map[string]string{}, thought: map[string]bool{},
	}
	c.write = func(b []byte) error { _, err := p.Write(b); return err }
	c.kill = p.Kill
	return c
}

type object = map[string]any

// send writes one message.
func (c *conn) send(v object) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write to Claude Code: %w", err)
	}
	if err := c.write(append(b, '\n')); err != nil {
		return fmt.Errorf("write to Claude Code: %w", err)
	}
	return nil
}

func (c *conn) respond(id string, v object) error {
	return c.send(object{"type": "control_response", "response": object{"subtype": "success", "request_id": id, "response": v}})
}

func userMessage(id, text string) object {
	return object{"type": "user", "uuid": id, "message": object{
		"role": "user", "content": []object{{"type": "text", "text": text}}}}
}

// initialize registers the hook that asks for every tool and waits until the
// program is ready. The error is a *provider.OpenError.
func (c *conn) initialize(ctx context.Context) error {
	err := c.send(object{"type": "control_request", "request_id": initID, "request": object{
		"subtype": "initialize",
		"hooks": object{"PreToolUse": []object{{
			"matcher": nil, "hookCallbackIds": []string{"every-tool"}}}},
	}})
	var r response
	switch {
	case err == nil:
		select {
		case r = <-c.ready:
		case <-c.done:
			return c.openFailure(errors.New("Claude Code ended before it was ready"))
		case <-ctx.Done():
			return &provider.OpenError{Code: mission.LocalExecutionFailure, Err: fmt.Errorf("wait for Claude Code: %w", ctx.Err())}
		}
	default:
		<-c.done // it died at once, and said why
		return c.openFailure(err)
	}
	var in initialized
	if r.Subtype != "success" || json.Unmarshal(r.Response, &in) != nil {
		return &provider.OpenError{Code: mission.LocalExecutionFailure, Err: errors.New("Claude Code refused to be set up; check that its version is supported")}
	}
	if !safeMode(in.Mode) {
		return &provider.OpenError{Code: mission.PermissionRequired,
			Err: fmt.Errorf("Claude Code started in permission mode %q; Reeve needs the default mode", in.Mode)}
	}
	c.events.Emit(provider.SessionStarted{Session: c.session, Resumed: c.spec.Resume != "", Model: c.spec.Model, Version: in.Version})
	return nil
}

func (c *conn) openFailure(err error) error {
	f := c.seen
	f.text += c.p.Tail()
	return &provider.OpenError{Code: f.code(), Err: err}
}

// safeMode reports whether a permission mode lets every tool be asked for.
func safeMode(mode string) bool { return mode == "default" || mode == "plan" }

// Prompt implements provider.Conn.
func (c *conn) Prompt(ctx context.Context, text string) error {
	t := &turn{began: time.Now(), prompt: newUUID(), messages: map[string]state{}}
	t.messages[t.prompt] = sent
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return errors.New("Claude Code has ended; open it again")
	case c.turn != nil:
		c.mu.Unlock()
		return errors.New("a turn is running already; wait for its end")
	}
	c.turn = t
	c.mu.Unlock()
	if err := c.send(userMessage(t.prompt, text)); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.turn != t {
			return nil // the reader has ended the turn with an event
		}
		c.turn = nil
		return err
	}
	return nil
}

// Steer implements provider.Conn. The program reads the text between two tool
// calls, or after its answer; then the turn lasts until that is answered too.
func (c *conn) Steer(ctx context.Context, text string) error {
	id := newUUID()
	c.mu.Lock()
	if c.turn == nil {
		c.mu.Unlock()
		return errNoTurn
	}
	c.turn.messages[id] = sent
	c.mu.Unlock()
	return c.send(userMessage(id, text))
}

// Interrupt implements provider.Conn. Steering that was not read is dropped.
func (c *conn) Interrupt(ctx context.Context) error {
	c.mu.Lock()
	if c.turn == nil {
		c.mu.Unlock()
		return errNoTurn
	}
	c.turn.interrupted = true
	c.mu.Unlock()
	return c.send(object{"type": "control_request", "request_id": newUUID(), "request": object{
		"subtype": "interrupt", "cancel_queued": true}})
}

// Answer implements provider.Conn. What is allowed is the exact input that was
// asked for.
func (c *conn) Answer(ctx context.Context, id string, a provider.Answer) error {
	c.mu.Lock()
	q := c.open[id]
	delete(c.open, id)
	if q != nil && !a.Allow {
		c.denied[q.call] = true
	}
	c.mu.Unlock()
	if q == nil {
		return provider.ErrNoRequest
	}
	if !a.Allow {
		why := a.Message
		if why == "" {
			why = "The person denied this. Do not try it in another way; go on with something else."
		}
		return c.respond(id, object{"behavior": "deny", "message": why})
	}
	in := q.input
	if q.question {
		var err error
		if in, err = answers(q.input, a.Text); err != nil {
			return fmt.Errorf("answer the question: %w", err)
		}
	}
	return c.respond(id, object{"behavior": "allow", "updatedInput": in})
}

// Events implements provider.Conn.
func (c *conn) Events() <-chan provider.Event { return c.events.Chan() }

// Close implements provider.Conn.
func (c *conn) Close(ctx context.Context) error {
	c.p.CloseInput()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for Claude Code to end: %w", ctx.Err())
	}
}
