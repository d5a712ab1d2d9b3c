package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// tool is one that the service runs itself.
type tool struct {
	// check refuses an input that can't be right.
	check func(in toolInput) *wire.Error
	// may refuses a new call for how things stand, before it is journaled.
	may func(tx *store.Tx, r supervisor.Record, in toolInput) error
	// read is of a tool that changes nothing. It may wait until ctx ends.
	read func(ctx context.Context, s *Service, c toolCall) (any, error)
	// do is of one that changes something. What it writes and that it happened
	// are one transaction, so it happens exactly once. A *wire.Error means that
	// it wrote nothing and never will.
	do func(tx *store.Tx, s *Service, r supervisor.Record, e effects.Record, in toolInput) (done, error)
}

// done is what a tool did in its transaction. Without a result it goes on:
// something else will complete it.
type done struct {
	result   any
	messages []room.Message
	asked    *approvals.Record
}

// toolCall is a call that is being answered.
type toolCall struct {
	p    wire.ToolParams
	r    supervisor.Record
	turn supervisor.Turn
	in   toolInput
}

// toolInput is the input of any of the tools.
type toolInput struct {
	After   string `json:"after_message_id"`
	Wait    int    `json:"wait_seconds"`
	Text    string `json:"text"`
	ReplyTo string `json:"reply_to"`
	RoomID  string `json:"room_id"`
	Title   string `json:"title"`
	Details string `json:"details"`

	Question string   `json:"question"`
	Options  []string `json:"options"`
	Multiple bool     `json:"multiple"`
}

// Limits of inputs.
const (
	maxWait    = 300 // seconds
	maxTitle   = 200 // bytes
	maxDetails = 16 << 10
	maxOptions = 32
	maxOption  = 200 // bytes
)

// tools are those that the service runs, by name. It is filled in init, because
// what they do leads back here.
var tools map[string]tool

func init() {
	anything := func(toolInput) *wire.Error { return nil }
	tools = map[string]tool{
		wire.MCPGetProject: {check: anything, read: getProject},
		wire.MCPGetMission: {check: anything, read: getMission},
		wire.MCPGetUpdates: {check: func(in toolInput) *wire.Error {
			if in.Wait < 0 || in.Wait > maxWait {
				return wire.InvalidField("input.wait_seconds", fmt.Sprintf("must be from 0 to %d", maxWait))
			}
			return optionalMessage("input.after_message_id", in.After)
		}, read: getUpdates},
		wire.MCPSendMessage: {check: func(in toolInput) *wire.Error {
			if bad := checkText("input.text", in.Text, wire.MaxRoomText); bad != nil {
				return bad
			}
			return optionalMessage("input.reply_to", in.ReplyTo)
		}, may: mayAnswer, do: say(room.Text)},
		wire.MCPRecordIntent: {check: func(in toolInput) *wire.Error { return checkText("input.text", in.Text, wire.MaxRoomText) }, do: say(room.Intent)},
		wire.MCPCompleteTurn: {check: func(in toolInput) *wire.Error { return checkText("input.text", in.Text, wire.MaxRoomText) }, do: later},
		wire.MCPJoinRoom: {check: func(in toolInput) *wire.Error {
			if in.RoomID == "" {
				return wire.InvalidField("input.room_id", "is missing or empty")
			}
			return nil
		}, do: later},
		wire.MCPRequestApproval: {check: func(in toolInput) *wire.Error {
			if bad := checkText("input.title", in.Title, maxTitle); bad != nil {
				return bad
			}
			if len(in.Details) > maxDetails {
				return wire.InvalidField("input.details", "is longer than 16 KiB")
			}
			return nil
		}, do: ask},
		wire.MCPAskQuestion: {check: func(in toolInput) *wire.Error {
			if bad := checkText("input.question", in.Question, maxDetails); bad != nil {
				return bad
			}
			return checkOptions(in.Options)
		}, do: ask},
		wire.MCPSpawnWorker: {check: func(toolInput) *wire.Error {
			return wire.Errorf(wire.CodeConflict, "A worker can't start others: Reeve has no subagents yet. Do the work yourself, or ask the person to start another mission.")
		}, do: later},
	}
}

func checkText(field, text string, most int) *wire.Error {
	switch {
	case strings.TrimSpace(text) == "":
		return wire.InvalidField(field, "is missing or empty")
	case len(text) > most:
		return wire.InvalidField(field, fmt.Sprintf("is longer than %d bytes", most))
	}
	return nil
}

// checkOptions holds options to what can be told apart again in an answer.
func checkOptions(options []string) *wire.Error {
	const field = "input.options"
	if len(options) > maxOptions {
		return wire.InvalidField(field, fmt.Sprintf("has more than %d", maxOptions))
	}
	for i, o := range options {
		if bad := checkText(field, o, maxOption); bad != nil {
			return bad
		}
		if strings.ContainsAny(o, "\r\n") || slices.Contains(options[:i], o) {
			return wire.InvalidField(field, "must be lines that differ")
		}
	}
	return nil
}

func optionalMessage(field, id string) *wire.Error {
	if id == "" {
		return nil
	}
	if _, err := room.ParseCursor(id); err != nil {
		return wire.InvalidField(field, "must be msg_<n>")
	}
	return nil
}

// input reads and checks the input of a call.
func (t tool) input(raw json.RawMessage) (toolInput, error) {
	var in toolInput
	if err := wire.DecodeParams(raw, &in); err != nil {
		if d, ok := err.Details.(map[string]string); ok {
			return in, wire.Errorf(err.Code, "input.%s", err.Message).With(map[string]string{"field": "input." + d["field"]})
		}
		return in, err
	}
	if bad := t.check(in); bad != nil {
		return in, bad
	}
	return in, nil
}

// ExecuteTool runs a tool of the service for a worker. Calls with the same id
// share one execution while it runs, and its result after that; each is judged
// for itself. What only waits ends when the caller has gone.
func (s *Service) ExecuteTool(ctx context.Context, a server.Actor, p wire.ToolParams) (wire.ToolResult, error) {
	if err := s.ofThis(p.Generation); err != nil {
		return wire.ToolResult{}, err
	}
	t, ok := tools[p.Tool]
	if !ok {
		return wire.ToolResult{}, wire.Errorf(wire.CodeNotFound, "Reeve has no tool %s to run for a worker.", p.Tool)
	}
	if t.read != nil {
		if err := s.calls.take(p.Entry, s.o.Now().Wall); err != nil {
			return wire.ToolResult{}, err
		}
	}
	in, err := t.input(p.Input)
	if err != nil {
		return wire.ToolResult{}, err
	}
	digest, err := effects.Digest(p.Input)
	if err != nil {
		return wire.ToolResult{}, wire.InvalidField("input", "can't be taken: "+err.Error())
	}
	r, err := s.runOf(p.Coordinates)
	if err != nil {
		return wire.ToolResult{}, err
	}
	turn, err := r.Authority(p.Coordinates, s.o.Now())
	if err != nil {
		return wire.ToolResult{}, err
	}
	c := toolCall{p: p, r: r, turn: turn, in: in}
	raw, err := s.flights.do(ctx, keyOf(p, turn.ID), p.Tool+" "+digest, func() (json.RawMessage, error) {
		if t.read != nil {
			return s.read(ctx, a, t, c)
		}
		return s.execute(ctx, a, t, c)
	})
	return wire.ToolResult{Room: r.Bridge.Room, Result: raw}, effectRefusal(err)
}

// read answers a call that changes nothing, and journals it with its result.
func (s *Service) read(ctx context.Context, a server.Actor, t tool, c toolCall) (json.RawMessage, error) {
	var was effects.Record
	var again bool
	err := s.db.View(func(tx *store.Tx) (err error) {
		was, again, err = effects.Find(tx, keyOf(c.p, c.turn.ID))
		return err
	})
	if err != nil {
		return nil, err
	}
	if digest, _ := effects.Digest(c.p.Input); again && (was.Tool != c.p.Tool || was.Digest != digest) {
		return nil, effects.ErrOther
	}
	if again && was.State == effects.Completed && !was.ResultCut {
		return orNull(was.Result), nil
	}
	v, err := t.read(ctx, s, c)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var e effects.Record
	err = s.bridged(context.WithoutCancel(ctx), func(tx *store.Tx) (err error) {
		if e, _, _, err = s.prepare(tx, a, c.p, false, true); err == nil && e.State == effects.Executing {
			e, _, err = effects.Complete(tx, e.Coordinates, e.ID, effects.End{Result: raw, By: effects.Process(a.Process), At: s.now()})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.announceEffect(e)
	return raw, nil
}

// execute has a tool do what it does, exactly once, and answers when it is done.
func (s *Service) execute(ctx context.Context, a server.Actor, t tool, c toolCall) (json.RawMessage, error) {
	fault.Point("bridge.executed-deciding")
	var e effects.Record
	var d done
	var changed bool
	err := s.bridged(context.WithoutCancel(ctx), func(tx *store.Tx) (err error) {
		var r supervisor.Record
		d = done{}
		e, r, changed, err = s.prepare(tx, a, c.p, true, true)
		if err != nil || e.State != effects.Executing {
			return err
		}
		end := effects.End{By: effects.Process(a.Process), At: s.now()}
		if e.Action != wire.ActionExecute {
			return nil // at the end of the turn
		}
		var no *wire.Error
		d, err = t.do(tx, s, r, e, c.in)
		switch {
		case errors.As(err, &no):
			end.Error = no.Message
		case err != nil || d.result == nil:
			return err
		default:
			if end.Result, err = json.Marshal(d.result); err != nil {
				return err
			}
		}
		e, _, err = effects.Complete(tx, e.Coordinates, e.ID, end)
		changed = true
		return err
	})
	if err != nil {
		return nil, err
	}
	fault.Point("bridge.executed-journaled")
	if changed {
		s.announceEffect(e)
	}
	for _, m := range d.messages {
		s.announceMessage(m)
	}
	if d.asked != nil {
		s.announceApproval(*d.asked)
		s.sup.Show(e.Mission) // it waits for a person now
	}
	if e.State == effects.Executing && e.Action == wire.ActionExecute {
		if e, err = s.ended(ctx, e, c.p.Coordinates); err != nil {
			return nil, err
		}
	}
	switch e.State {
	case effects.Completed:
		return orNull(e.Result), nil
	case effects.Executing:
		return json.Marshal(map[string]string{"state": e.Action, "source_message_id": e.Source, "destination_room": e.Destination,
			"note": "It is prepared, and done once at the end of this turn if the turn succeeds."})
	case effects.Failed:
		return nil, didNotHappen(e)
	}
	return nil, wire.Errorf(wire.CodeConflict, "%s It is not done again.", e.Known()).With(map[string]string{"effect_id": e.ID, "state": string(e.State)})
}

// ended waits until an effect that something else completes has ended.
func (s *Service) ended(ctx context.Context, e effects.Record, c wire.Coordinates) (effects.Record, error) {
	for {
		changed := s.pulse.next()
		err := s.db.View(func(tx *store.Tx) (err error) { e, _, err = effects.Get(tx, e.ID); return })
		if err != nil || e.State != effects.Executing {
			return e, err
		}
		now, _ := s.sup.Current(c.Entry)
		if _, err := now.Authority(c, s.o.Now()); err != nil {
			return e, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e, ctx.Err()
		}
	}
}

// later is done by the end of the turn.
func later(*store.Tx, *Service, supervisor.Record, effects.Record, toolInput) (done, error) {
	return done{}, nil
}

// mayAnswer refuses the answer to a message that is not there.
func mayAnswer(tx *store.Tx, r supervisor.Record, in toolInput) error {
	if in.ReplyTo == "" {
		return nil
	}
	at, _, err := room.Get(tx, r.Bridge.Room)
	if n, bad := room.ParseCursor(in.ReplyTo); err == nil && (bad != nil || n > at.Last) {
		err = wire.InvalidField("input.reply_to", "names no message of the room")
	}
	return err
}

// say writes into the worker's room.
func say(kind string) func(*store.Tx, *Service, supervisor.Record, effects.Record, toolInput) (done, error) {
	return func(tx *store.Tx, s *Service, r supervisor.Record, e effects.Record, in toolInput) (done, error) {
		m := room.Message{
			Room: e.Room, Kind: kind, From: room.Agent, Name: r.Title, Mission: r.ID, Turn: e.Turn, Text: strings.TrimSpace(in.Text), At: s.now(), Key: e.ID,
		}
		if in.ReplyTo != "" && kind == room.Text {
			m.Answers, _ = room.ParseCursor(in.ReplyTo)
		}
		m, added, err := room.Append(tx, m)
		if err != nil {
			return done{}, roomRefusal(err)
		}
		d := done{result: map[string]string{"message_id": room.Cursor(m.Number)}}
		if added {
			d.messages = []room.Message{m}
		}
		return d, nil
	}
}

// ask puts a question of the agent into the person's queue. Their answer
// completes the effect; asked again, the same question goes on waiting.
func ask(tx *store.Tx, s *Service, r supervisor.Record, e effects.Record, in toolInput) (done, error) {
	subject := approval.Subject{Title: "The agent asks: " + in.Title, Reason: in.Details}
	if e.Tool == wire.MCPAskQuestion {
		subject = approval.Subject{
			Title: "The agent asks", Question: &approval.Question{Text: in.Question, Options: in.Options, Multi: in.Multiple && len(in.Options) > 0},
		}
	}
	a, added, err := supervisor.AskFor(tx, r, e, subject)
	if errors.Is(err, approvals.ErrFull) {
		return done{}, wire.Errorf(wire.CodeLimitExceeded, "Nobody was asked: %v.", err)
	}
	if err != nil || !added {
		return done{}, err
	}
	return done{asked: &a}, nil
}

// flights lets calls with the same key share one execution.
type flights struct {
	mu sync.Mutex
	of map[effects.Key]*flight
}

type flight struct {
	what   string
	done   chan struct{}
	result json.RawMessage
	err    error
}

// do runs fn, or waits for the run of the same key that is under way. When that
// one ended only because its caller went away, this one runs fn itself.
func (f *flights) do(ctx context.Context, key effects.Key, what string, fn func() (json.RawMessage, error)) (json.RawMessage, error) {
	for {
		f.mu.Lock()
		first, under := f.of[key]
		if !under {
			if f.of == nil {
				f.of = map[effects.Key]*flight{}
			}
			first = &flight{what: what, done: make(chan struct{})}
			f.of[key] = first
		}
		f.mu.Unlock()
		if !under {
			func() {
				first.err = errors.New("the tool failed; the log of the service tells more")
				defer func() {
					f.mu.Lock()
					delete(f.of, key)
					f.mu.Unlock()
					close(first.done)
				}()
				first.result, first.err = fn()
			}()
			return first.result, first.err
		}
		if first.what != what {
			return nil, effects.ErrOther
		}
		select {
		case <-first.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !errors.Is(first.err, context.Canceled) {
			return first.result, first.err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
