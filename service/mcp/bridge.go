package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/reevehq/reeve/ipc/wire"
)

// bridge carries the agent's calls to the service.
type bridge struct {
	agent context.Context // done when the agent is gone
	from  *origin
	l     *link
	s     *session
	acks  *checkpoints
	log   *slog.Logger

	mu     sync.Mutex
	prefix string // of request ids, this process's own
	count  int
	room   string // that the service holds for the worker, once it said so
	// doubtful are the request ids of mutations whose calls ended without an outcome,
	// by their tool and input: the same call again is the same effect.
	doubtful map[string]string
}

// maxDoubtful bounds what is remembered of calls without an outcome.
const maxDoubtful = 256

func newBridge(agent context.Context, from *origin, l *link, log *slog.Logger) *bridge {
	var r [8]byte
	_, _ = rand.Read(r[:])
	b := &bridge{agent: agent, from: from, l: l, s: newSession(l), log: log, prefix: hex.EncodeToString(r[:]), doubtful: map[string]string{}}
	b.acks = &checkpoints{clock: l.clock, send: b.checkpoint, refused: func(err error) {
		b.s.unbind()
		b.log.Warn("the service refused a checkpoint", "code", wire.CodeOf(err))
	}}
	b.acks.quit, b.acks.stop = context.WithCancel(context.Background())
	return b
}

func errNotSupervised(why string) error {
	return fmt.Errorf("not_supervised: this worker's turns are not supervised (%s), so this tool can't be used", why)
}

// call runs a tool for the agent and returns what it is to be told.
func (b *bridge) call(ctx context.Context, t tool, input json.RawMessage) (string, error) {
	w, err := b.worker()
	if err != nil {
		return "", err
	}
	if t.mutates {
		return b.mutate(ctx, w, t, input)
	}
	if t.waits {
		if err := b.beforeWait(ctx, w, input); err != nil {
			return "", err
		}
		// The room may have been learnt only now.
		if w, err = b.worker(); err != nil {
			return "", err
		}
	}
	r, err := b.execute(ctx, w, t, b.nextID(), input)
	if err != nil {
		return "", err
	}
	return text(r.Result), nil
}

// worker reads for whom the bridge speaks. The service may have moved the worker
// to another room since it was told.
func (b *bridge) worker() (worker, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, err := b.from.worker()
	if b.room != "" {
		w.room = b.room
	}
	return w, err
}

func (b *bridge) learn(room string) error {
	if !validRoom(room) {
		return errors.New("the service named no valid room; install one release of Reeve")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room = room
	return nil
}

// nextID makes the id of a request, which no other process makes.
func (b *bridge) nextID() wire.MCPRequestID {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	return wire.MCPRequestID(fmt.Sprintf("%s-%d", b.prefix, b.count))
}

// beforeWait binds the session, and checkpoints what the agent acknowledges by
// waiting for what comes after it.
func (b *bridge) beforeWait(ctx context.Context, w worker, input json.RawMessage) error {
	if w.room == "" || w.session == "" || w.apiURL == "" {
		return errNotSupervised("it has no session in a room")
	}
	var p struct {
		After string `json:"after_message_id"`
	}
	_ = json.Unmarshal(input, &p) // its schema was checked
	n := 0
	if p.After != "" {
		var ok bool
		if n, ok = parseCursor(p.After); !ok {
			return fmt.Errorf("after_message_id is %q; give the id of a message that you have read, such as msg_12", p.After)
		}
	}
	err := b.s.ready(ctx, w)
	if refusal(err) != nil {
		// The worker may have moved: any answer tells where it is.
		if moved, changed := b.locate(ctx, w); changed {
			w = moved
			err = b.s.ready(ctx, w)
		}
	}
	if err != nil {
		return err
	}
	if n > 0 {
		b.acks.note(w, n)
	}
	return nil
}

// locate asks where the worker is, and says whether that is elsewhere.
func (b *bridge) locate(ctx context.Context, w worker) (worker, bool) {
	if _, err := b.execute(ctx, w, tool{name: wire.MCPGetMission}, b.nextID(), json.RawMessage(`{}`)); err != nil {
		return w, false
	}
	now, err := b.worker()
	return now, err == nil && now.room != w.room
}

func (b *bridge) checkpoint(ctx context.Context, w worker, cursor string) (string, error) {
	c := w.Coordinates
	c.Turn = ""
	var r wire.CheckpointResult
	_, err := b.l.once(ctx, w.socket, request{method: wire.MethodCheckpoint, limit: requestLimit, result: &r,
		params: fixed(wire.CheckpointParams{Coordinates: c, Session: w.session, Cursor: cursor})})
	return r.Cursor, err
}

func (b *bridge) toolParams(w worker, t tool, id wire.MCPRequestID, input json.RawMessage) func(wire.NegotiateResult) wire.ToolParams {
	return func(to wire.NegotiateResult) wire.ToolParams {
		return wire.ToolParams{Coordinates: w.Coordinates, Generation: to.Generation, RequestID: id, Tool: t.name, Input: input}
	}
}

// execute has the service run a tool. A repeat of the id gets the first result.
func (b *bridge) execute(ctx context.Context, w worker, t tool, id wire.MCPRequestID, input json.RawMessage) (wire.ToolResult, error) {
	var r wire.ToolResult
	params := b.toolParams(w, t, id, input)
	_, err := b.l.ask(ctx, w.socket, t.patience(), request{method: wire.MethodExecuteTool, result: &r,
		params: func(to wire.NegotiateResult) any { return params(to) }})
	if err == nil {
		err = b.learn(r.Room)
	}
	return r, err
}

// mutate has an effect happen at most once: announced, done, and its end put on
// record.
func (b *bridge) mutate(ctx context.Context, w worker, t tool, input json.RawMessage) (string, error) {
	if !w.effects {
		return "", errNotSupervised("REEVE_EXECUTION_PROFILE is not supervised_room_turn")
	}
	key, id := b.resume(t, input)
	wait := ctx
	if t.question {
		var cancel context.CancelFunc
		wait, cancel = b.l.limit(ctx, w.hold)
		defer cancel()
	}
	var p wire.PrepareResult
	params := b.toolParams(w, t, id, input)
	_, err := b.l.ask(wait, w.socket, t.patience(), request{method: wire.MethodPrepareEffect, result: &p, limit: requestLimit,
		params: func(to wire.NegotiateResult) any { return wire.PrepareParams{ToolParams: params(to), Mutation: true} }})
	if err == nil {
		err = b.learn(p.Room)
	}
	if err != nil {
		return "", b.failed(key, id, err)
	}
	switch {
	case p.State == wire.EffectCompleted:
		return text(p.Result), nil
	case p.State == wire.EffectUncertain:
		return "", fmt.Errorf("It is not known whether this happened (effect %s): %s Don't do it again: a person has been asked to settle it, and you will be told. Go on with other work.", p.Effect, sentence(p.Error))
	case p.State == wire.EffectPrepared && p.Action == wire.ActionFinalAnswer:
		return finalAnswer(t, p), nil
	case p.State == wire.EffectPrepared && p.Action == wire.ActionRoomMove:
		return fmt.Sprintf("You will be in the room %s once this turn's answer was published. Until then you are in %s.", p.Destination, p.Room), nil
	case p.State == wire.EffectPrepared && p.Action == wire.ActionExecute && p.Effect != "":
	default:
		return "", fmt.Errorf("the service answered %q, %q, which this release does not know; install one release of Reeve", p.State, p.Action)
	}
	r, err := b.execute(wait, w, t, id, input)
	if err != nil {
		no := refusal(err)
		switch {
		case no != nil && no.Code != wire.CodeStaleGeneration:
			b.complete(ctx, w, p.Effect, nil, no.Message)
		case t.question && ctx.Err() != nil && b.agent.Err() == nil:
			// Nobody would hear the answer.
			b.complete(ctx, w, p.Effect, nil, "The agent broke off its call, so it waits for the answer no more.")
			return "", err
		case t.question && ctx.Err() == nil && wait.Err() != nil:
			b.remember(key, id)
			return "The person has not answered yet. Call this tool again with exactly the same arguments to go on waiting: the question stays open and is not asked twice.", nil
		}
		return "", b.failed(key, id, err)
	}
	b.complete(ctx, w, p.Effect, r.Result, "")
	return text(r.Result), nil
}

// complete puts the end of an effect on record. What the service ran itself is
// there already; so its no is only logged.
func (b *bridge) complete(ctx context.Context, w worker, effect string, result json.RawMessage, failure string) {
	err := b.l.complete(context.WithoutCancel(ctx), w.socket, request{method: wire.MethodCompleteEffect,
		params: func(to wire.NegotiateResult) any {
			return wire.CompleteParams{Coordinates: w.Coordinates, Generation: to.Generation, Effect: effect, Result: result, Error: failure}
		}})
	if err != nil {
		b.log.Warn("the end of an effect was not taken", "effect", effect, "code", wire.CodeOf(err))
	}
}

// resume gives the id of a mutation: that of the same call before, when nobody
// knows what became of it.
func (b *bridge) resume(t tool, input json.RawMessage) (key string, id wire.MCPRequestID) {
	var c bytes.Buffer
	if json.Compact(&c, input) != nil {
		c.Reset()
		c.Write(input)
	}
	key = t.name + " " + c.String()
	b.mu.Lock()
	known := b.doubtful[key]
	delete(b.doubtful, key)
	b.mu.Unlock()
	if known != "" {
		return key, wire.MCPRequestID(known)
	}
	return key, b.nextID()
}

// failed is what the agent is told of a mutation that was not seen to succeed.
func (b *bridge) failed(key string, id wire.MCPRequestID, err error) error {
	if refusal(err) != nil {
		return err
	}
	b.remember(key, id)
	return fmt.Errorf("%s What became of the call is not known. Make it again in this turn with exactly the same arguments: Reeve knows it and does it at most once.", sentence(err.Error()))
}

// remember has the same call get the same id the next time.
func (b *bridge) remember(key string, id wire.MCPRequestID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.doubtful) < maxDoubtful {
		b.doubtful[key] = string(id)
	}
}

func finalAnswer(t tool, p wire.PrepareResult) string {
	if t.name == wire.MCPCompleteTurn {
		return fmt.Sprintf("Your text is published as the answer to %s when this turn ends, once and instead of your final words. Don't send it again.", p.SourceMessage)
	}
	return fmt.Sprintf("Nothing was sent: the final answer of this turn is published as the answer to %s, once, when the turn ends. Say it there, and don't send it again.", p.SourceMessage)
}

// text is what a tool gave, as the agent reads it.
func text(result json.RawMessage) string {
	var s string
	if json.Unmarshal(result, &s) == nil {
		return s
	}
	if len(result) == 0 {
		return "Done."
	}
	return string(result)
}

func sentence(s string) string {
	if s = strings.TrimSpace(s); s != "" && !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

func cursor(n int) string { return "msg_" + strconv.Itoa(n) }

// parseCursor reads msg_<n>, n from 1 to the largest of 31 bits.
func parseCursor(s string) (int, bool) {
	digits, ok := strings.CutPrefix(s, "msg_")
	n, err := strconv.ParseInt(digits, 10, 32)
	return int(n), ok && err == nil && n > 0 && cursor(int(n)) == s
}
