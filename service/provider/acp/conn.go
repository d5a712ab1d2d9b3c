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

// endWait is how long the agent may take to end after it closed its output.
const endWait = 5 * time.Second

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
	rpc     *sdk.ClientSideConnection
	events  *child.Events
	session sdk.SessionId
	preface string
	replies replies
	prompts sync.WaitGroup // calls in flight
	done    chan struct{}  // the pump has ended

	step  sync.Mutex
	calls map[string]*call
	asks  map[string]*ask // announced, and neither settled nor withdrawn

	mu     sync.Mutex
	turn   *turn
	open   map[string]*ask // can be answered
	nextID int
	closed bool
}

type turn struct {
	began       time.Time
	sent        chan struct{} // closed when the prompt was written
	sentOnce    sync.Once
	interrupted bool
	live        bool            // the agent has shown that it works on it
	final       strings.Builder // the agent's text since its last tool call
	toolCalls   int
}

// ask is a permission request that waits for an answer.
type ask struct {
	call     string
	options  []sdk.PermissionOption
	answer   chan sdk.RequestPermissionOutcome // of capacity 1; who takes it out of open may send
	answered bool                              // by a person; guarded by mu
}

// start begins to read.
func (c *conn) start() {
	r, w := io.Pipe()
	c.rpc = sdk.NewClientSideConnection(client{c}, output{c}, r)
	c.rpc.SetLogger(slog.New(slog.DiscardHandler)) // it would log what the agent says
	go c.pump(w)
}

func (c *conn) pump(w *io.PipeWriter) {
	defer close(c.done)
	defer c.events.Close()
	for {
		line, err := c.p.Line()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.p.Kill() // a line that is too long
			}
			break
		}
		var head struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(line, &head) != nil {
			continue // not a message; some agents print warnings
		}
		if head.Method == sdk.ClientMethodSessionUpdate && head.ID == nil {
			var n sdk.SessionNotification
			if json.Unmarshal(head.Params, &n) == nil {
				c.update(n.Update)
			}
			continue
		}
		if head.Method == "" {
			c.replies.got(string(bytes.TrimSpace(head.ID)))
		}
		w.Write(append(line, '\n')) // fails only when the SDK has given up
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.replies.drain()
	w.Close()
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-c.p.Gone():
	case <-timer.C:
		c.p.Kill()
		<-c.p.Gone()
	}
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
	n, err := o.c.p.Write(b)
	if bytes.Contains(b, promptMethod) {
		o.c.mu.Lock()
		t := o.c.turn
		o.c.mu.Unlock()
		if t != nil {
			t.sentOnce.Do(func() { close(t.sent) })
		}
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
	c.turn = t
	id := c.replies.begin()
	c.prompts.Go(func() {
		r, err := c.rpc.Prompt(context.Background(), sdk.PromptRequest{SessionId: c.session, Prompt: blocks})
		c.replies.end(id)
		c.finish(t, r, err)
	})
	return t, nil
}

// Steer implements provider.Conn; the protocol has no such verb.
func (c *conn) Steer(context.Context, string) error { return provider.ErrUnsupported }

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

var cancelled = sdk.NewRequestPermissionOutcomeCancelled()

// Answer implements provider.Conn. The reason of a denial travels as metadata;
// agents that don't know it see only the denial.
func (c *conn) Answer(ctx context.Context, id string, d provider.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.open[id]
	if a == nil {
		return provider.ErrNoRequest
	}
	delete(c.open, id)
	a.answered = true
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
			outcome.Selected.Meta = map[string]any{"reeve.message": d.Message}
		}
		a.answer <- outcome
		return nil
	}
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
	interrupted := t.interrupted
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
	e.Final = t.final.String()
	switch {
	case r.StopReason == sdk.StopReasonCancelled, err != nil && interrupted:
		e.Outcome.Outcome = mission.Interrupted
	case err != nil:
		e.Outcome = mission.FailedTurn(mission.StageExecution, classify(err))
		e.Final = ""
	case r.StopReason == sdk.StopReasonRefusal:
		e.Outcome = mission.FailedTurn(mission.StageExecution, mission.Unknown)
	default:
		e.Outcome.Outcome = mission.Succeeded
		e.Outcome.Next = mission.ParseWorkNext(e.Final)
	}
	e.Outcome.Usage = usage(c.name, t, r.Usage)
	e.Outcome.Seconds = e.Outcome.Usage.Seconds
	c.events.Emit(e)
}

// usage reads what the agent counted. The protocol does not say whether input
// contains the cached tokens; the total tells.
func usage(name string, t *turn, u *sdk.Usage) mission.Usage {
	calls := t.toolCalls
	m := mission.Usage{Provider: name, ToolCalls: &calls, ToolCounts: mission.CountsPartial, Seconds: time.Since(t.began).Seconds()}
	if u == nil {
		return m
	}
	number := func(n *int) *int64 {
		if n == nil {
			return nil
		}
		v := int64(*n)
		return &v
	}
	m.Input, m.Output = number(&u.InputTokens), number(&u.OutputTokens)
	m.CacheRead, m.CacheWrite = number(u.CachedReadTokens), number(u.CachedWriteTokens)
	m.Semantics = mission.Uncached
	if u.TotalTokens == u.InputTokens+u.OutputTokens {
		m.Semantics = mission.IncludesCache
	}
	return m
}
