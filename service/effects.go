package service

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

func (s *Service) now() time.Time { return s.o.Now().Wall.Round(0).UTC() }

// prepare journals the effect that a call of a tool has, or returns the one that
// the same call had before. The run is judged in the same transaction. ours says
// that the service is asked to run the tool, which a bare prepare leaves open.
func (s *Service) prepare(tx *store.Tx, a server.Actor, p wire.ToolParams, mutation, ours bool) (e effects.Record, r supervisor.Record, changed bool, err error) {
	r, turn, err := s.sup.LoadFor(tx, p.Coordinates)
	if err != nil {
		return e, r, false, err
	}
	e = effects.Record{
		ID: supervisor.NewID("e"), Key: keyOf(p, turn.ID), TurnNo: turn.Number, Room: r.Bridge.Room, Tool: p.Tool, Input: p.Input,
		Mutation: mutation, Action: wire.ActionExecute, By: effects.Process(a.Process), CreatedAt: s.now(),
	}
	if string(e.Input) == "null" {
		e.Input = nil
	}
	t, known := tools[p.Tool]
	var in toolInput
	if known && (ours || s.local(p.Coordinates)) {
		e.Own, e.Mutation = true, t.do != nil
		if in, err = t.input(p.Input); err != nil {
			return e, r, false, err
		}
	}
	if _, again, err := effects.Find(tx, e.Key); err != nil {
		return e, r, false, err
	} else if !again && e.Mutation {
		if err := action(tx, r, turn, &e); err != nil {
			return e, r, false, err
		}
		if t.may != nil && e.Own {
			if err := t.may(tx, r, in); err != nil {
				return e, r, false, err
			}
		}
	}
	e, changed, err = effects.Prepare(tx, e)
	return e, r, changed, err
}

// keyOf names the call of a tool. Where the bridge doesn't know the turn, it is
// the one in flight.
func keyOf(p wire.ToolParams, turn string) effects.Key {
	return effects.Key{
		Coordinates: effects.Coordinates{Mission: p.Entry, Attempt: p.Attempt, Execution: p.Execution, Turn: turn},
		Request:     string(p.RequestID),
	}
}

// local says whether the worker's session is one of this service, so that tools
// with the names of ours are ours. The tools of a bridge that brought a session
// of another service are taken for its own, whatever they are called, until it
// has this service run them.
func (s *Service) local(c wire.Coordinates) bool {
	b, ok := s.bindings.get(c.Entry)
	return !ok || b.Execution != c.Execution || b.Origin == localOrigin
}

// action decides how a new mutation is done: some are done by the service, once,
// at the end of the turn.
func action(tx *store.Tx, r supervisor.Record, t supervisor.Turn, e *effects.Record) error {
	var in toolInput
	_ = json.Unmarshal(e.Input, &in) // of a tool of others, which may mean something else
	source := room.Cursor(t.Source)
	switch {
	case e.Tool == wire.MCPCompleteTurn && source == "":
		return wire.Errorf(wire.CodeConflict, "No message of the room woke this turn, so there is none to answer. Use send_message.")
	case e.Tool == wire.MCPCompleteTurn, e.Tool == wire.MCPSendMessage && source != "" && in.ReplyTo == source:
		e.Own, e.Action, e.Source = true, wire.ActionFinalAnswer, source
	case e.Tool == wire.MCPJoinRoom:
		to, err := supervisor.Destination(tx, r, in.RoomID)
		if err != nil {
			return err
		}
		open, err := effects.List(tx, r.ID, effects.MaxExecuting, effects.Executing)
		if err != nil {
			return err
		}
		for _, o := range open {
			if o.Turn == t.ID && o.Action == wire.ActionRoomMove {
				return wire.Errorf(wire.CodeConflict, "A move to the room %s is prepared for the end of this turn already.", o.Destination)
			}
		}
		e.Own, e.Action, e.Destination = true, wire.ActionRoomMove, to.ID
	}
	return nil
}

// effectRefusal turns the journal's reasons into what bridges are told.
func effectRefusal(err error) error {
	var known *wire.Error
	code := wire.CodeConflict
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, effects.ErrNotFound):
		code = wire.CodeNotFound
	case errors.Is(err, effects.ErrMany), errors.Is(err, effects.ErrBusy), errors.Is(err, effects.ErrMissionBusy):
		code = wire.CodeLimitExceeded
	case errors.Is(err, effects.ErrOther), errors.Is(err, effects.ErrContrary), errors.Is(err, effects.ErrUncertain), errors.Is(err, effects.ErrSettled):
	default:
		return err
	}
	return wire.Errorf(code, "Nothing was changed: %v.", err)
}

// Counts of effects in lists and snapshots.
const (
	listedEffects = 500
	recentEffects = 200
)

// EffectList is what needs a person, or with All the whole journal.
func (s *Service) EffectList(_ context.Context, p wire.EffectListParams) (wire.EffectListResult, error) {
	if p.Mission != "" {
		var err error
		if p.Mission, err = s.missionID(p.Mission); err != nil {
			return wire.EffectListResult{}, err
		}
	}
	states := []effects.State{effects.Uncertain}
	if p.All {
		states = nil
	}
	out := wire.EffectListResult{Effects: []wire.Effect{}}
	size := 0
	err := s.db.View(func(tx *store.Tx) error {
		list, err := effects.List(tx, p.Mission, listedEffects, states...)
		for _, e := range list {
			v := effectView(e)
			if size += len(v.Input) + len(v.Result) + len(v.Error) + 1024; size > maxListed {
				break
			}
			out.Effects = append(out.Effects, v)
		}
		return err
	})
	return out, err
}

// maxListed keeps a list well inside a line of the protocol, in bytes.
const maxListed = 900 << 10

// EffectSettle records what a person says became of an uncertain effect.
func (s *Service) EffectSettle(ctx context.Context, a server.Actor, p wire.EffectSettleParams) (wire.EffectResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.EffectResult{}, err
	}
	defer leave()
	id, err := s.complete("effect", "effects", "e-", p.ID, "reeve effects --all")
	if err != nil {
		return wire.EffectResult{}, err
	}
	var e effects.Record
	err = s.db.Update(ctx, func(tx *store.Tx) (err error) {
		e, err = effects.Settle(tx, id, p.Revision, effects.Outcome(p.Outcome), who(a).String(), s.now())
		return err
	})
	switch {
	case errors.Is(err, effects.ErrChanged), errors.Is(err, effects.ErrCertain):
		err = wire.Errorf(wire.CodeConflict, "Nothing was settled: %v.", err).With(effectView(e))
	case errors.Is(err, effects.ErrSettled):
		err = wire.Errorf(wire.CodeAlreadyAnswered, "Nothing was settled: %s", e.Known()).With(effectView(e))
	case errors.Is(err, effects.ErrNotFound):
		err = wire.Errorf(wire.CodeNotFound, "There is no effect %s; run reeve effects --all to see them.", p.ID)
	}
	if err != nil {
		return wire.EffectResult{}, err
	}
	s.announceEffect(e)
	return wire.EffectResult{Effect: effectView(e)}, nil
}

func (s *Service) announceEffect(e effects.Record) {
	s.topics.effects.Publish(wire.EvEffect, effectView(e))
	s.pulse.beat()
}

// effectSnapshot is what is open, and the newest of the rest.
func (s *Service) effectSnapshot() ([]json.RawMessage, error) {
	var list []effects.Record
	err := s.db.View(func(tx *store.Tx) error {
		open, err := effects.List(tx, "", effects.MaxExecuting+listedEffects, effects.Executing, effects.Uncertain)
		if err != nil {
			return err
		}
		rest, err := effects.List(tx, "", recentEffects, effects.Completed, effects.Failed, effects.Settled)
		list = append(open, rest...)
		return err
	})
	if err != nil {
		return nil, err
	}
	views := make([]wire.Effect, 0, len(list))
	for _, e := range list {
		views = append(views, effectView(e))
	}
	return encodeAll(views)
}

func effectView(e effects.Record) wire.Effect {
	return wire.Effect{
		ID: e.ID, Mission: e.Mission, Attempt: e.Attempt, Turn: e.Turn, TurnNo: e.TurnNo, Room: e.Room, Tool: e.Tool,
		Input: orNull(e.Input), Cut: e.Cut, Digest: e.Digest, Mutation: e.Mutation, Action: e.Action, State: string(e.State),
		CreatedAt: e.CreatedAt, EndedAt: timePtr(e.EndedAt), Known: e.Known(), Result: e.Result, Error: e.Error,
		Settled: string(e.Outcome), By: e.SettledBy, Revision: e.Revision,
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
