package effects_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/store"
)

// truth is what really became of one request, as the world sees it: it knows
// nothing of states.
type truth struct {
	tool, input   string
	mutation, own bool
	granted       []effects.Process // that were told to execute it, each once
	done          int               // how often the service itself executed it
	said          []string          // how processes said that it ended, if that was taken
	lost          bool              // its run was over while it was executing
	settled       effects.Outcome
	uncertain     bool           // it was, once
	seen          effects.Record // as the journal had it last
}

// Several processes prepare, repeat and complete, runs end, persons settle, the
// service ends and starts, and transactions fail, in any order. Nothing that
// changes something is granted to two processes, the service executes nothing
// twice, what was said of an effect stays, and the journal holds exactly what
// was prepared.
func TestJournalModel(t *testing.T) {
	path, round := filepath.Join(t.TempDir(), "reeve.db"), 0
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(db.Close(), store.CheckFile(path, store.Options{})); err != nil {
			t.Error(err)
		}
	}()
	undo := errors.New("undone")
	rapid.Check(t, func(t *rapid.T) { // each with missions of its own, since a new file costs more than the test
		round++
		w := world{T: t, round: round, of: map[effects.Key]*truth{}, told: map[string]uint64{}}
		for range rapid.IntRange(1, 5).Draw(t, "transactions") {
			before := w.copy()
			failing := rapid.IntRange(0, 7).Draw(t, "fails") == 0
			err := db.Update(context.Background(), func(tx *store.Tx) error {
				for range rapid.IntRange(1, 6).Draw(t, "steps") {
					w.step(tx)
				}
				if failing {
					return undo
				}
				return nil
			})
			if failing && errors.Is(err, undo) {
				w = before
			} else if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "restarts") == 0 {
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				if db, err = store.Open(path, store.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.View(w.compare); err != nil {
				t.Fatal(err)
			}
		}
		update(t, db, func(tx *store.Tx) error { // at most so many may execute at once, of all rounds
			for m := range 2 {
				if _, err := effects.Lose(tx, effects.Coordinates{Mission: w.mission(m + 1)}, "the round is over", later); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

type world struct {
	*rapid.T
	round, ids int
	of         map[effects.Key]*truth
	told       map[string]uint64 // revision at which the worker heard of an effect
}

func (w *world) copy() world {
	c := *w
	c.of, c.told = map[effects.Key]*truth{}, maps.Clone(w.told)
	for k, v := range w.of {
		one := *v
		one.granted, one.said = slices.Clone(v.granted), slices.Clone(v.said)
		c.of[k] = &one
	}
	return c
}

func (w *world) coordinates() effects.Coordinates {
	n := func(name string) int { return rapid.IntRange(1, 2).Draw(w.T, name) }
	return effects.Coordinates{Mission: w.mission(n("mission")), Attempt: fmt.Sprintf("a-%d-%d", w.round, n("attempt")), Execution: "x-1", Turn: fmt.Sprint("t-", n("turn"))}
}

func (w *world) mission(n int) string { return fmt.Sprintf("m-%d-%d", w.round, n) }

func (w *world) process() effects.Process {
	return rapid.SampledFrom([]effects.Process{one, again, {PID: 3, Start: 10, BootID: "b"}}).Draw(w.T, "process")
}

// known draws one of the effects, or nil.
func (w *world) known() *truth {
	all := slices.SortedFunc(maps.Values(w.of), func(a, b *truth) int { return strings.Compare(a.seen.ID, b.seen.ID) })
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(w.T, "effect")
}

func (w *world) step(tx *store.Tx) {
	switch rapid.SampledFrom([]string{"prepare", "prepare", "complete", "complete", "lose", "settle", "tell"}).Draw(w.T, "op") {
	case "prepare":
		w.prepare(tx)
	case "complete":
		if e := w.known(); e != nil {
			w.complete(tx, e)
		}
	case "lose":
		w.lose(tx)
	case "settle":
		if e := w.known(); e != nil {
			w.settle(tx, e)
		}
	case "tell":
		list, err := effects.Untold(tx, w.coordinates().Mission, rapid.IntRange(0, 3).Draw(w.T, "limit"))
		if err = errors.Join(err, effects.Told(tx, list)); err != nil {
			w.Fatal(err)
		}
		for _, r := range list {
			w.told[r.ID] = r.Revision
		}
	}
}

func (w *world) prepare(tx *store.Tx) {
	w.ids++
	kind := rapid.SampledFrom([]string{"mutation", "mutation", "own", "read"}).Draw(w.T, "kind")
	r := effects.Record{
		ID: fmt.Sprintf("e-%d-%04d", w.round, w.ids), Key: effects.Key{Coordinates: w.coordinates(), Request: fmt.Sprint(rapid.IntRange(1, 2).Draw(w.T, "request"))},
		Room: "r-1", Tool: rapid.SampledFrom([]string{"post", "post", "post", "delete"}).Draw(w.T, "tool"), Mutation: kind != "read", Own: kind == "own",
		Input: json.RawMessage(rapid.SampledFrom([]string{`{"a":1}`, `{"a":1}`, ` { "a": 1 }`, `{"a":2}`}).Draw(w.T, "input")), By: w.process(), CreatedAt: begin,
	}
	if e := w.known(); e != nil && rapid.Bool().Draw(w.T, "repeat") {
		r.Key = e.seen.Key
	}
	input := string(r.Input)
	if input != `{"a":2}` {
		input = `{"a":1}`
	}
	got, changed, err := effects.Prepare(tx, r)
	e := w.of[r.Key]
	if e != nil && (e.tool != r.Tool || e.input != input || e.mutation != r.Mutation) {
		if !errors.Is(err, effects.ErrOther) || changed {
			w.Fatalf("another request under the id of %+v was taken: %v", e.seen, err)
		}
		return
	}
	if err != nil {
		w.Fatal(err)
	}
	if e == nil {
		e = &truth{tool: r.Tool, input: input, mutation: r.Mutation, own: r.Own}
		if w.of[r.Key] = e; !changed || got.ID != r.ID || got.State != effects.Executing {
			w.Fatalf("a new request gave %+v, %v", got, changed)
		}
	}
	if got.State == effects.Executing && !slices.Contains(e.granted, r.By) {
		e.granted = append(e.granted, r.By)
	}
	w.note(e, got, changed)
}

func (w *world) complete(tx *store.Tx, e *truth) {
	end := effects.End{By: w.process(), At: later, Result: json.RawMessage(rapid.SampledFrom([]string{`1`, `2`}).Draw(w.T, "result"))}
	said := string(end.Result)
	if rapid.IntRange(0, 2).Draw(w.T, "fails") == 0 {
		said = "no"
		end.Result, end.Error = nil, said
	}
	got, changed, err := effects.Complete(tx, e.seen.Coordinates, e.seen.ID, end)
	if err != nil {
		if changed {
			w.Fatalf("refused and changed: %+v", got)
		}
		return
	}
	if changed {
		e.said = append(e.said, said)
		if said != "no" && e.own {
			e.done++
		}
	}
	// Whoever is told that it is on record finds it so, the way they said.
	if (said == "no") != (got.State == effects.Failed) || (said != "no") != (got.State == effects.Completed) {
		w.Fatalf("%q is on record as %+v", said, got)
	}
	w.note(e, got, changed)
}

func (w *world) lose(tx *store.Tx) {
	of := w.coordinates()
	switch rapid.IntRange(0, 2).Draw(w.T, "of") {
	case 0:
		of.Turn = ""
	case 1:
		of.Attempt, of.Execution, of.Turn = "", "", ""
	}
	over := map[string]*truth{}
	for k, e := range w.of {
		if e.seen.State == effects.Executing && k.Mission == of.Mission && (of.Attempt == "" || k.Attempt == of.Attempt) && (of.Turn == "" || k.Turn == of.Turn) {
			over[e.seen.ID] = e
		}
	}
	got, err := effects.Lose(tx, of, "gone", later)
	if err != nil || len(got) != len(over) {
		w.Fatalf("%d are lost of %+v, want %d: %v", len(got), of, len(over), err)
	}
	for _, r := range got {
		e := over[r.ID]
		if e == nil {
			w.Fatalf("%+v is not of %+v", r, of)
		}
		e.lost = true
		w.note(e, r, true)
	}
}

func (w *world) settle(tx *store.Tx, e *truth) {
	revision := e.seen.Revision - uint64(rapid.IntRange(0, 1).Draw(w.T, "stale"))
	outcome := rapid.SampledFrom([]effects.Outcome{effects.Happened, effects.DidNot, effects.Left}).Draw(w.T, "outcome")
	got, err := effects.Settle(tx, e.seen.ID, revision, outcome, "reeve", later)
	if (err == nil) != (e.seen.State == effects.Uncertain && revision == e.seen.Revision) {
		w.Fatalf("settling %+v at revision %d: %v", e.seen, revision, err)
	}
	if err == nil {
		e.settled = outcome
		w.note(e, got, true)
	}
}

// note compares an effect with what it was, and with what can be known of it.
func (w *world) note(e *truth, got effects.Record, changed bool) {
	was := e.seen
	e.seen = got
	e.uncertain = e.uncertain || got.State == effects.Uncertain
	if changed != (got.Revision == was.Revision+1) || !changed && got.Revision != was.Revision || was.ID != "" && got.ID != was.ID {
		w.Fatalf("changed %v: %+v became %+v", changed, was, got)
	}
	if was.State == effects.Completed || was.State == effects.Failed || was.State == effects.Settled {
		if got.State != was.State || string(got.Result) != string(was.Result) || got.Error != was.Error || got.Outcome != was.Outcome {
			w.Fatalf("%+v was rewritten to %+v", was, got)
		}
	}
	if e.mutation && !e.own && len(e.granted) > 1 {
		w.Fatalf("%+v was granted to %v", got, e.granted)
	}
	if e.done > 1 || len(e.said) > 1 {
		w.Fatalf("%+v ended %d times: %q", got, e.done, e.said)
	}
	bad := false
	switch got.State {
	case effects.Executing:
		bad = len(e.said) > 0 || e.lost || e.settled != ""
	case effects.Completed:
		bad = len(e.said) != 1 || e.said[0] == "no" || string(got.Result) != e.said[0]
	case effects.Failed:
		bad = (len(e.said) != 1 || e.said[0] != "no") && (!e.lost || e.mutation && !e.own)
	case effects.Uncertain:
		bad = !e.mutation || e.own || len(e.said) > 0
	case effects.Settled:
		bad = e.settled == "" || got.Outcome != e.settled
	}
	if bad {
		w.Fatalf("nobody could know what %+v says: %+v", got, *e)
	}
}

// compare holds the journal against the world: it has what was prepared, as it
// was seen last, and nothing else.
func (w *world) compare(tx *store.Tx) error {
	for m := range 2 {
		mission := w.mission(m + 1)
		var open, untold []string
		all := 0
		for k, e := range w.of {
			if k.Mission != mission {
				continue
			}
			all++
			got, ok, err := effects.Get(tx, e.seen.ID)
			if err != nil || !ok || !equal(got, e.seen) {
				w.Fatalf("%+v is kept as %+v, %v", e.seen, got, err)
			}
			if got.State == effects.Executing || got.State == effects.Uncertain {
				open = append(open, got.ID)
			}
			if e.uncertain && w.told[got.ID] != got.Revision {
				untold = append(untold, got.ID)
			}
		}
		slices.Sort(open)
		slices.Sort(untold)
		slices.Reverse(open)
		list, err := effects.List(tx, mission, 1000)
		if err != nil || len(list) != all || !slices.IsSortedFunc(list, func(a, b effects.Record) int { return strings.Compare(b.ID, a.ID) }) {
			w.Fatalf("the journal of %s has %v, want %d: %v", mission, ids(list), all, err)
		}
		list, err = effects.List(tx, mission, 1000, effects.Uncertain, effects.Executing)
		if err != nil || !slices.Equal(ids(list), open) {
			w.Fatalf("open of %s: %v, want %v: %v", mission, ids(list), open, err)
		}
		list, err = effects.Untold(tx, mission, 1000)
		if err != nil || !slices.Equal(ids(list), untold) {
			w.Fatalf("untold of %s: %v, want %v: %v", mission, ids(list), untold, err)
		}
	}
	return nil
}

func equal(a, b effects.Record) bool {
	for _, r := range []*effects.Record{&a, &b} {
		r.CreatedAt, r.EndedAt = r.CreatedAt.UTC(), r.EndedAt.UTC()
		if len(r.Result) == 0 {
			r.Result = nil
		}
	}
	return reflect.DeepEqual(a, b)
}
