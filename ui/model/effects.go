package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// Effect returns an effect by its whole id.
func (s *State) Effect(id string) (wire.Effect, bool) {
	e, ok := s.open[id]
	if !ok {
		e, ok = s.closed[id]
	}
	return e, ok
}

// Doubts returns the effects of which nobody knows whether they happened,
// oldest first; of one mission, or of all when mission is empty.
func (s *State) Doubts(mission string) []wire.Effect {
	var out []wire.Effect
	for id, ids := range s.doubts {
		if mission == "" || id == mission {
			for id := range ids {
				out = append(out, s.open[id])
			}
		}
	}
	slices.SortFunc(out, func(a, b wire.Effect) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Effects returns the journal of a mission: what is uncertain first, then the
// newest. What only read is left out, unless it is uncertain.
func (s *State) Effects(mission string) []wire.Effect {
	var rest []wire.Effect
	for _, list := range []map[string]wire.Effect{s.open, s.closed} {
		for _, e := range list {
			if e.Mission == mission && e.State != wire.EffectUncertain && e.Mutation {
				rest = append(rest, e)
			}
		}
	}
	slices.SortFunc(rest, func(a, b wire.Effect) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	return append(s.Doubts(mission), rest...)
}

// putEffects takes the effects of a snapshot.
func (s *State) putEffects(items []json.RawMessage) ([]Change, error) {
	list, err := decode[wire.Effect](items, "effect")
	if err != nil {
		return nil, err
	}
	var changes []Change
	keep := map[string]bool{}
	for _, e := range list {
		keep[e.ID] = true
		changes = append(changes, s.putEffect(e)...)
	}
	for _, list := range []map[string]wire.Effect{s.open, s.closed} {
		for id := range list {
			if !keep[id] {
				s.dropEffect(id)
			}
		}
	}
	return changes, nil
}

// putEffect keeps the newer of two records.
func (s *State) putEffect(e wire.Effect) []Change {
	old, had := s.Effect(e.ID)
	if had && e.Revision <= old.Revision {
		return nil
	}
	s.dropEffect(e.ID)
	switch e.State {
	case wire.EffectUncertain:
		s.open[e.ID] = e
	case wire.EffectExecuting:
		s.open[e.ID] = e
		return nil
	default:
		s.closed[e.ID] = e
		trim(s.closed, func(e wire.Effect) time.Time { return e.CreatedAt })
		return nil
	}
	if s.doubts[e.Mission] == nil {
		s.doubts[e.Mission] = map[string]bool{}
	}
	s.doubts[e.Mission][e.ID] = true
	if had && old.State == wire.EffectUncertain {
		return nil
	}
	return []Change{{Kind: Doubted, Effect: e}}
}

func (s *State) dropEffect(id string) {
	mission := s.open[id].Mission
	if delete(s.doubts[mission], id); len(s.doubts[mission]) == 0 {
		delete(s.doubts, mission)
	}
	delete(s.open, id)
	delete(s.closed, id)
}

// EffectRow is an effect as it is shown.
type EffectRow struct {
	ID        string
	Revision  uint64
	Uncertain bool
	Shape     Shape
	Word      string // "happened", "uncertain"
	When      string
	Turn      string // "turn 3"
	Tool      string
	Input     approval.Shown // the tool's input, laid out; nothing hidden in it
	Brief     string         // the same on one line
	Result    approval.Shown // what the tool gave, of one that happened
	Known     string         // a sentence about what is known
}

// EffectRowOf prepares an effect for a person.
func EffectRowOf(e wire.Effect, now time.Time) EffectRow {
	r := EffectRow{ID: e.ID, Revision: e.Revision, Uncertain: e.State == wire.EffectUncertain, When: Clock(e.CreatedAt, now),
		Tool: exact(e.Tool), Known: oneLine(e.Known)}
	if e.TurnNo > 0 {
		r.Turn = say.T("turn %d", e.TurnNo)
	}
	var word string
	r.Shape, word = effectStanding(e)
	if r.Word = say.Word(word); strings.EqualFold(r.Known, "it "+word+".") {
		r.Known = "" // the word says it
	}
	if by := oneLine(e.By); e.State == wire.EffectSettled && by != "" && !strings.Contains(r.Known, by) {
		r.Known = strings.TrimSpace(r.Known + " " + say.T("Said by %s.", by))
	}
	if e.Error != "" && !strings.Contains(r.Known, oneLine(e.Error)) {
		r.Known = strings.TrimSpace(r.Known + " " + oneLine(e.Error))
	}
	text := laidOut(e.Input)
	if e.Cut {
		text += "\n" + say.T("… (the rest is not kept; its digest is %s)", e.Digest)
	}
	r.Input = approval.Visible(text)
	r.Brief = exact(text)
	if len(e.Result) > 0 {
		r.Result = approval.Visible(laidOut(e.Result))
	}
	return r
}

// laidOut is JSON on lines of its own, or what it is where it is none.
func laidOut(data json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, data, "", "  ") == nil {
		return out.String()
	}
	return string(data)
}

// effectStanding says in a shape and the key of a word what became of an effect.
func effectStanding(e wire.Effect) (Shape, string) {
	switch e.State {
	case wire.EffectExecuting:
		return ShapeWorking, say.Key("under way")
	case wire.EffectCompleted:
		return ShapeDone, say.Key("happened")
	case wire.EffectFailed:
		return ShapeFailed, say.Key("did not happen")
	case wire.EffectUncertain:
		return ShapeNeeds, say.Key("uncertain")
	case wire.EffectSettled:
		switch e.Settled {
		case wire.EffectHappened:
			return ShapeDone, say.Key("happened, you said")
		case wire.EffectDidNot:
			return ShapeFailed, say.Key("did not, you said")
		}
		return ShapeStopped, say.Key("left open")
	}
	return ShapeWaiting, Clean(e.State)
}

// SettledAs says what settling an effect with an outcome records.
func SettledAs(outcome string) string {
	switch outcome {
	case wire.EffectHappened:
		return say.T("it happened")
	case wire.EffectDidNot:
		return say.T("it did not happen")
	case wire.EffectLeft:
		return say.T("nobody knows, and it is left at that")
	}
	return oneLine(outcome)
}

// doubt says in one line what is unknown of a mission's effects.
func doubt(list []wire.Effect) Detail {
	d := Detail{Text: say.T("it is not known what became of"), Code: exact(list[0].Tool)}
	if n := len(list) - 1; n > 0 {
		d.Tail = say.N(n, "%d more", "%d more")
	}
	return d
}

// UnsureEffects lists a mission's uncertain effects among what nobody knows.
func (s *State) UnsureEffects(mission string) []Unsure {
	var out []Unsure
	for _, e := range s.Doubts(mission) {
		out = append(out, Unsure{Code: cut(exact(e.Tool)+" "+EffectRowOf(e, e.CreatedAt).Brief, maxQuote), Mono: true,
			Text: strings.TrimSpace(oneLine(e.Known) + " " + say.T("Say what became of it under Effects."))})
	}
	return out
}
