package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
)

const (
	// policy asks for every command. As a setting it would be refused; only the
	// protocol can set it.
	policy   = "untrusted"
	reviewer = "user"
	// box lets allowed commands write in the folder and reach no network; what
	// needs more is asked for again.
	box = "workspace-write"
)

var (
	errNoTurn = errors.New("no turn is running")
	errEnded  = errors.New("Codex has ended; open it again")
)

type object = map[string]any

// conn is one running Codex. The reader goroutine alone handles what the program
// says and emits events; calls of other goroutines only write. mu is never held
// while writing or emitting.
type conn struct {
	p      *child.Process
	write  func([]byte) error
	kill   func()
	events *child.Events
	spec   provider.Spec
	thread string        // set before the first prompt
	done   chan struct{} // the reader has ended

	mu      sync.Mutex
	lastID  int
	waiting map[string]waiter // calls in flight, by id
	turn    *turn
	open    map[string]*ask // permission requests that wait, by request id
	allowed map[string]bool // calls that were allowed
	denied  map[string]bool // calls that were denied
	broken  string          // why nothing may run any more
	closed  bool

	// Of the reader alone:
	model, modelFrom string
	calls            map[string]*call
	settles          map[string]string // calls that end when their request is settled
	streamed         map[string]int    // bytes of a text that was emitted in pieces
	total            *tokens           // of the thread, as it was last told
	limitEnds        time.Time         // of the account's limit that is used up
	failed           []string          // MCP servers that did not start
	told             int               // of failed
}

// waiter is who made a call. first is run by the reader, before it reads on.
type waiter struct {
	reply chan message // of capacity 1
	first func(message)
}

// ask is a permission request that waits for an answer.
type ask struct {
	id        json.RawMessage
	call      string
	title     string
	kind      string // method
	typing    bool   // into a command that runs
	questions []question
}

// subject is what an answer is about: the call, or what is typed into it.
func (q *ask) subject() string {
	if q.typing {
		return typing(q.call)
	}
	return q.call
}

func typing(call string) string { return "typing " + call }

// call is a tool call that has not ended.
type call struct {
	tool   provider.Tool
	shown  string // the diff that was asked for
	output strings.Builder
}

func newConn(p *child.Process, spec provider.Spec) *conn {
	c := &conn{
		p: p, events: child.NewEvents(), spec: spec, done: make(chan struct{}),
		waiting: map[string]waiter{}, open: map[string]*ask{}, allowed: map[string]bool{}, denied: map[string]bool{},
		calls: map[string]*call{}, settles: map[string]string{}, streamed: map[string]int{},
	}
	c.write = func(b []byte) error { _, err := p.Write(b); return err }
	c.kill = p.Kill
	return c
}

// send writes one message.
func (c *conn) send(v object) error {
	b, err := json.Marshal(v)
	if err == nil {
		err = c.write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write to Codex: %w", err)
	}
	return nil
}

// tell makes a call whose reply nobody waits for.
func (c *conn) tell(method string, params object) error {
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.mu.Unlock()
	return c.send(object{"id": id, "method": method, "params": params})
}

// call makes a call and reads its result into out, which may be nil. An error of
// the program is an *rpcError.
func (c *conn) call(ctx context.Context, method string, params object, out any) error {
	return c.callFirst(ctx, method, params, out, nil)
}

// callFirst is call with something that the reader does at once.
func (c *conn) callFirst(ctx context.Context, method string, params object, out any, first func(message)) error {
	reply := make(chan message, 1)
	c.mu.Lock()
	c.lastID++
	id := strconv.Itoa(c.lastID)
	c.waiting[id] = waiter{reply, first}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.send(object{"id": json.RawMessage(id), "method": method, "params": params}); err != nil {
		return err
	}
	var m message
	select {
	case m = <-reply:
	case <-c.done:
		select {
		case m = <-reply: // it came just before the end
		default:
			return errEnded
		}
	case <-ctx.Done():
		return fmt.Errorf("wait for Codex: %w", ctx.Err())
	}
	if m.Error != nil {
		return m.Error
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(m.Result, out); err != nil {
		return fmt.Errorf("read Codex's reply to %s: %w", method, err)
	}
	return nil
}

// begin opens or resumes the thread and proves that it will ask for everything.
// The error is a *provider.OpenError.
func (c *conn) begin(ctx context.Context, instructions string) error {
	fail := func(code mission.Code, doing string, err error) error {
		return &provider.OpenError{Code: code, Err: fmt.Errorf("%s: %w", doing, err)}
	}
	if err := c.call(ctx, "initialize", object{
		"clientInfo":   object{"name": "reeve", "title": "Reeve", "version": "1"},
		"capabilities": object{"experimentalApi": true},
	}, nil); err != nil {
		return fail(mission.LocalExecutionFailure, "start Codex", err)
	}
	if err := c.send(object{"method": "initialized"}); err != nil {
		return fail(mission.LocalExecutionFailure, "start Codex", err)
	}
	var who account
	if err := c.call(ctx, "account/read", object{}, &who); err != nil {
		return fail(mission.LocalExecutionFailure, "read Codex's account", err)
	}
	if who.Needed && (len(who.Account) == 0 || string(who.Account) == "null") {
		return fail(mission.AuthenticationRequired, "read Codex's account", errors.New("Codex is not signed in; "+signInFix))
	}
	var conf configuration
	if err := c.call(ctx, "config/read", object{"cwd": c.spec.Folder, "includeLayers": true}, &conf); err != nil {
		return fail(mission.LocalExecutionFailure, "read Codex's configuration", err)
	}
	if why := conf.unsafe(c.spec.Servers); why != "" {
		return fail(mission.PermissionRequired, "check Codex's configuration", errors.New(why))
	}
	method := "thread/start"
	ask := object{"cwd": c.spec.Folder, "approvalPolicy": policy, "approvalsReviewer": reviewer, "sandbox": box}
	if instructions != "" {
		ask["developerInstructions"] = instructions
	}
	if c.spec.Model != "" {
		ask["model"] = c.spec.Model
	}
	if c.spec.Resume != "" {
		method, ask["threadId"], ask["excludeTurns"] = "thread/resume", c.spec.Resume, true
	}
	var s started
	if err := c.call(ctx, method, ask, &s); err != nil {
		code := mission.LocalExecutionFailure
		if refused := (*rpcError)(nil); c.spec.Resume != "" && errors.As(err, &refused) && refused.missing() {
			code = mission.MissingSession
		}
		return fail(code, "open Codex's thread", err)
	}
	if why := s.unsafe(); why != "" {
		return fail(mission.PermissionRequired, "check how Codex's thread asks", errors.New(why))
	}
	if s.Thread.ID == "" || (c.spec.Resume != "" && s.Thread.ID != c.spec.Resume) {
		return fail(mission.LocalExecutionFailure, "open Codex's thread", fmt.Errorf("it opened %q", s.Thread.ID))
	}
	c.mu.Lock()
	c.thread, c.model, c.modelFrom = s.Thread.ID, s.Model, "thread"
	c.mu.Unlock()
	c.events.Emit(provider.SessionStarted{Session: s.Thread.ID, Resumed: c.spec.Resume != "", Model: s.Model, Version: s.Thread.Version})
	return nil
}

func input(text string) []object {
	return []object{{"type": "text", "text": text, "text_elements": []object{}}}
}

// Prompt implements provider.Conn.
func (c *conn) Prompt(ctx context.Context, text string) error {
	t := &turn{began: time.Now(), known: make(chan struct{})}
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return errEnded
	case c.turn != nil:
		c.mu.Unlock()
		return errors.New("a turn is running already; wait for its end")
	}
	c.turn = t
	c.mu.Unlock()
	// The reader names the turn, as what follows the reply may be its end.
	err := c.callFirst(ctx, "turn/start", object{"threadId": c.thread, "input": input(text), "approvalPolicy": policy, "approvalsReviewer": reviewer}, nil,
		func(m message) {
			var reply struct {
				Turn wireTurn `json:"turn"`
			}
			json.Unmarshal(m.Result, &reply)
			c.mu.Lock()
			defer c.mu.Unlock()
			t.nameLocked(reply.Turn.ID)
		})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && t.id == "" {
		err = errors.New("Codex named no turn")
	}
	if err == nil || c.turn != t {
		return nil // or the reader has ended the turn with an event
	}
	c.turn = nil
	return fmt.Errorf("begin a turn: %w", err)
}

// current waits until the turn in flight has its name.
func (c *conn) current(ctx context.Context, interrupt bool) (string, error) {
	c.mu.Lock()
	t := c.turn
	if t != nil && interrupt {
		t.interrupted = true
	}
	c.mu.Unlock()
	if t == nil {
		return "", errNoTurn
	}
	select {
	case <-t.known:
		return t.id, nil
	case <-c.done:
		return "", errNoTurn
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Steer implements provider.Conn. The model reads the text after the tool calls
// that it waits for.
func (c *conn) Steer(ctx context.Context, text string) error {
	id, err := c.current(ctx, false)
	if err != nil {
		return err
	}
	err = c.call(ctx, "turn/steer", object{"threadId": c.thread, "expectedTurnId": id, "input": input(text)}, nil)
	if refused := (*rpcError)(nil); errors.As(err, &refused) {
		return errNoTurn // it ended just now
	}
	return err
}

// Interrupt implements provider.Conn. A command that runs may go on; the tree's
// owner ends it.
func (c *conn) Interrupt(ctx context.Context) error {
	id, err := c.current(ctx, true)
	if err != nil {
		return err
	}
	return c.tell("turn/interrupt", object{"threadId": c.thread, "turnId": id})
}

// Answer implements provider.Conn. The protocol has no place for the reason of a
// denial, so the reason is given to the turn first.
func (c *conn) Answer(ctx context.Context, id string, a provider.Answer) error {
	c.mu.Lock()
	q := c.open[id]
	delete(c.open, id)
	turn := ""
	if q != nil {
		if a.Allow {
			c.allowed[q.subject()] = true
		} else {
			c.denied[q.subject()] = true
		}
		if c.turn != nil {
			turn = c.turn.id
		}
	}
	c.mu.Unlock()
	if q == nil {
		return provider.ErrNoRequest
	}
	if !a.Allow && a.Message != "" && turn != "" {
		text := "The person denied this: " + q.title + "\nTheir reason: " + a.Message
		if err := c.tell("turn/steer", object{"threadId": c.thread, "expectedTurnId": turn, "input": input(text)}); err != nil {
			return err
		}
	}
	return c.send(object{"id": q.id, "result": verdict(q, a)})
}

// verdict is the result that answers a request; always for this one time.
func verdict(q *ask, a provider.Answer) object {
	switch q.kind {
	case askQuestion:
		return object{"answers": answers(q.questions, a)}
	case askServer:
		action := "decline"
		if a.Allow {
			action = "accept"
		}
		return object{"action": action, "content": nil, "_meta": nil}
	}
	if a.Allow {
		return object{"decision": "accept"}
	}
	return object{"decision": "decline"}
}

// answers gives each question its line of the text, or all of them the whole
// text when the lines don't match. A denied question has no answer.
func answers(list []question, a provider.Answer) object {
	out := object{}
	if !a.Allow {
		return out
	}
	lines := strings.Split(strings.TrimSpace(a.Text), "\n")
	for i, q := range list {
		text := a.Text
		if len(lines) == len(list) {
			text = lines[i]
		}
		out[q.ID] = object{"answers": []string{text}}
	}
	return out
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
		return fmt.Errorf("wait for Codex to end: %w", ctx.Err())
	}
}
