package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
)

var errNoTurn = errors.New("no turn is running")

// conn is one running agent. The pump reads its output: updates it handles
// itself, in order, and everything else it passes on to the SDK, so that no
// request or reply overtakes the updates before it.
//
// Lock order: step, then mu. Events are emitted under step alone. What the
// reader of the events calls (Answer, Interrupt) takes only mu.
type conn struct {
	name    string
	spec    provider.Spec
	p       *child.Process
	watch   func(context.Context, *conn) (func(), error)
	rpc     *sdk.ClientSideConnection
	events  *child.Events
	session sdk.SessionId
	// The model that the session is set to, and how that is known.
	model, modelSource string
	preface            string
	agent              hardening
	more               extras
	hears              bool // it reads the reason of a denial in an answer
	replies            replies
	prompts            sync.WaitGroup // calls in flight
	done               chan struct{}  // the pump has ended
	unwatch            context.CancelFunc
	watched            context.Context

	step  sync.Mutex
	told  map[string]bool // MCP servers that did not start, of which was told
	calls map[string]*call
	asks  map[string]*ask // announced, and neither settled nor withdrawn

	mu     sync.Mutex
	turn   *turn
	open   map[string]*ask // can be answered
	nextID int
	closed bool
	held   bool   // the session is in its mode, and has to stay there
	broken string // why the agent is not safe to run any more
}

type turn struct {
	began       time.Time
	sent        chan struct{} // closed when the prompt was written
	sentOnce    sync.Once
	interrupted bool
	live        bool            // the agent has shown that it works on it
	final       strings.Builder // the agent's text since its last tool call
	toolCalls   int
	prompts     int
	usage       mission.Usage // of the prompts that are over
	seen                      // beside the protocol
	untold                    // guarded by conn.step
	behind                    // guarded by conn.step
}

// ask is a permission request that waits for an answer.
type ask struct {
	call     string
	options  []sdk.PermissionOption
	answer   chan sdk.RequestPermissionOutcome // of capacity 1; who takes it out of open may send
	answered bool                              // by a person; guarded by mu
	reason   string                            // of a denial; guarded by mu
	text     string                            // the answer to a question; guarded by mu
}

// start begins to read.
func (c *conn) start() {
	r, w := io.Pipe()
	c.rpc = sdk.NewClientSideConnection(client{c}, output{c}, r)
	c.rpc.SetLogger(slog.New(slog.DiscardHandler)) // it would log what the agent says
	c.prompts.Go(func() {
		<-c.rpc.Done()
		r.Close()
		c.mu.Lock()
		closed := c.closed
		c.mu.Unlock()
		if !closed {
			c.p.Kill() // the SDK has given up, at a line too long for it: nobody reads any more
		}
	})
	go c.pump(w)
}

func (c *conn) pump(w *io.PipeWriter) {
	defer close(c.done)
	defer c.events.Close()
	c.p.Lines(func(line []byte) {
		var head struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(line, &head) != nil {
			return // not a message; some agents print warnings
		}
		if head.Method == sdk.ClientMethodSessionUpdate && head.ID == nil {
			var n sdk.SessionNotification
			if json.Unmarshal(head.Params, &n) == nil {
				c.update(n.Update)
			}
			return
		}
		if head.Method == claudeMethod && head.ID == nil {
			c.said(head.Params)
			return
		}
		if head.Method == "" {
			c.replies.got(string(bytes.TrimSpace(head.ID)))
		}
		w.Write(append(line, '\n')) // fails only when the SDK has given up
	})
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.replies.drain()
	w.Close()
	c.p.End()
	c.unwatch()
	c.prompts.Wait()
	<-c.rpc.Done()
}

// replies knows which calls have been answered. The SDK prefers a lost
// connection to a reply that came just before, so the pump keeps the end back
// until each reply that it passed on has arrived.
type replies struct {
	mu      sync.Mutex
	arrived sync.Cond
	last    int
	state   map[string]bool // calls in flight; true once the reply was passed on
}

// begin is called before each call; the SDK numbers them from 1.
func (r *replies) begin() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == nil {
		r.state = map[string]bool{}
		r.arrived.L = &r.mu
	}
	r.last++
	id := strconv.Itoa(r.last)
	r.state[id] = false
	return id
}

// request makes a call and waits for its reply.
func request[Q, R any](ctx context.Context, c *conn, method func(context.Context, Q) (R, error), q Q) (R, error) {
	id := c.replies.begin()
	defer c.replies.end(id)
	return method(ctx, q)
}

func (r *replies) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.state, id)
	r.arrived.Broadcast()
}

func (r *replies) got(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.state[id]; ok {
		r.state[id] = true
	}
}

func (r *replies) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		waiting := false
		for _, passedOn := range r.state {
			waiting = waiting || passedOn
		}
		if !waiting {
			return
		}
		r.arrived.Wait()
	}
}

// output writes to the agent and notes when a prompt has been written, because
// an interrupt must not overtake it.
type output struct{ c *conn }

// Inside a text the quotes would be escaped, so only a request matches.
var promptMethod = []byte(`"method":"` + sdk.AgentMethodSessionPrompt + `"`)

func (o output) Write(b []byte) (int, error) {
	var t *turn
	if bytes.Contains(b, promptMethod) {
		o.c.mu.Lock()
		if t = o.c.turn; t != nil {
			t.live = false // what it said until now was about an earlier prompt
		}
		o.c.mu.Unlock()
	}
	n, err := o.c.p.Write(b)
	if t != nil {
		t.sentOnce.Do(func() { close(t.sent) })
	}
	return n, err
}

// Prompt implements provider.Conn.
func (c *conn) Prompt(ctx context.Context, text string) error {
	t, err := c.prompt(text)
	if err != nil {
		return err
	}
	select {
	case <-t.sent:
	case <-c.done: // the turn has ended with an event
	case <-ctx.Done():
		return fmt.Errorf("send the prompt: %w", ctx.Err())
	}
	return nil
}

func (c *conn) prompt(text string) (*turn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errors.New("the agent has ended; open it again")
	case c.turn != nil:
		return nil, errors.New("a turn is running already; wait for its end")
	}
	blocks := []sdk.ContentBlock{sdk.TextBlock(text)}
	if c.preface != "" {
		blocks = append([]sdk.ContentBlock{sdk.TextBlock(c.preface)}, blocks...)
		c.preface = ""
	}
	t := &turn{began: time.Now(), sent: make(chan struct{})}
	if c.watch != nil {
		t.rest = make(chan struct{})
	}
	c.turn = t
	id := c.replies.begin()
	c.prompts.Go(func() {
		for {
			r, err := c.rpc.Prompt(context.Background(), sdk.PromptRequest{SessionId: c.session, Prompt: blocks})
			c.replies.end(id)
			c.caughtUp(t)
			more := c.tell(t, r, err)
			if more == "" {
				c.finish(t, r, err)
				return
			}
			blocks = []sdk.ContentBlock{sdk.TextBlock(more)}
			id = c.replies.begin()
		}
	})
	return t, nil
}

// Interrupt implements provider.Conn. Requests that wait are refused, as the
// protocol demands.
func (c *conn) Interrupt(ctx context.Context) error {
	c.mu.Lock()
	if c.turn == nil {
		c.mu.Unlock()
		return errNoTurn
	}
	c.turn.interrupted = true
	for _, a := range c.open {
		a.answer <- cancelled
	}
	clear(c.open)
	c.mu.Unlock()
	if err := c.rpc.Cancel(ctx, sdk.CancelNotification{SessionId: c.session}); err != nil {
		return fmt.Errorf("interrupt the agent: %w", err)
	}
	return nil
}

// reasonMeta is where an answer carries the reason of a denial, and by which an
// agent says that it reads it there.
const reasonMeta = "reeve.message"

var cancelled = sdk.NewRequestPermissionOutcomeCancelled()

// Answer implements provider.Conn. The reason of a denial travels as metadata;
// an agent that doesn't read that is told afterwards.
func (c *conn) Answer(ctx context.Context, id string, d provider.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.open[id]
	if a == nil {
		return provider.ErrNoRequest
	}
	delete(c.open, id)
	a.answered = true
	a.reason, a.text = d.Message, d.Text
	kind := sdk.PermissionOptionKindRejectOnce
	if d.Allow {
		kind = sdk.PermissionOptionKindAllowOnce
	}
	for _, o := range a.options {
		if o.Kind != kind {
			continue
		}
		outcome := sdk.NewRequestPermissionOutcomeSelected(o.OptionId)
		if !d.Allow && d.Message != "" {
			outcome.Selected.Meta = map[string]any{reasonMeta: d.Message}
		}
		a.answer <- outcome
		return nil
	}
	a.answered = !d.Allow // nobody refused it
	a.answer <- cancelled
	if d.Allow {
		return errors.New("the agent offers no way to allow this once, so it was refused")
	}
	return nil
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
		return fmt.Errorf("wait for the agent to end: %w", ctx.Err())
	}
}

// aliveLocked notes that the agent works on the turn. An interrupt that came
// before may have been lost: agents take up a prompt beside the cancellation
// that follows it, and one that finds nothing to cancel is forgotten. Needs mu.
func (c *conn) aliveLocked(t *turn) {
	if !t.live && t.interrupted {
		c.prompts.Go(func() {
			c.rpc.Cancel(context.Background(), sdk.CancelNotification{SessionId: c.session}) // fails only when the agent is gone
		})
	}
	t.live = true
}

// finish ends the turn with exactly one TurnFinished.
func (c *conn) finish(t *turn, r sdk.PromptResponse, err error) {
	t.sentOnce.Do(func() { close(t.sent) })
	e := provider.TurnFinished{}
	if err != nil {
		e.Message = err.Error()
		select {
		case <-c.rpc.Done():
			<-c.p.Gone()
			e.Message += "\n" + c.p.Tail()
		default:
		}
	}
	c.step.Lock()
	defer c.step.Unlock()
	c.mu.Lock()
	c.turn = nil
	interrupted, broken, gaveUp, failure := t.interrupted, c.broken, t.gaveUp, t.failure
	c.mu.Unlock()
	c.settle()
	e.Final = t.final.String()
	switch {
	case broken != "":
		e.Outcome = mission.FailedTurn(mission.StageExecution, mission.PermissionRequired)
		e.Outcome.Why, e.Final = broken, ""
	case gaveUp != "" && !interrupted:
		e.Outcome = mission.FailedTurn(mission.StageExecution, gaveUp)
		e.Outcome.ResetAt, e.Final = t.reset, ""
	case r.StopReason == sdk.StopReasonCancelled, err != nil && interrupted:
		e.Outcome.Outcome = mission.Interrupted
	case err != nil:
		code := t.codeOf(err)
		if code == mission.LocalExecutionFailure {
			code = classifyText(failure)
		}
		e.Outcome = mission.FailedTurn(mission.StageExecution, code)
		e.Final = ""
	case r.StopReason == sdk.StopReasonRefusal:
		e.Outcome = mission.FailedTurn(mission.StageExecution, mission.Unknown)
	default:
		e.Outcome.Outcome = mission.Succeeded
		e.Outcome.Next = mission.ParseWorkNext(e.Final)
	}
	c.count(t, r)
	e.Outcome.Usage = t.spent()
	e.Outcome.Seconds = e.Outcome.Usage.Seconds
	c.events.Emit(e)
}

// settle ends what the agent left open at the end of a prompt. Needs step.
func (c *conn) settle() {
	c.mu.Lock()
	for _, a := range c.open {
		a.answer <- cancelled
	}
	clear(c.open)
	for id, a := range c.asks {
		if a.answered {
			delete(c.asks, id)
		}
	}
	c.mu.Unlock()
	for id := range c.asks {
		c.events.Emit(provider.PermissionWithdrawn{Request: id})
	}
	clear(c.asks)
	for id, k := range c.calls {
		status := "cancelled"
		if k.denied {
			status = "denied" // some agents report no end of a denied call
		}
		c.events.Emit(provider.ToolFinished{Call: id, Status: status})
	}
	clear(c.calls)
}
