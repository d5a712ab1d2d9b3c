package effects_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/store"
)

// prepared journals six effects: of two turns, two executions, two attempts and
// two missions; the last one is completed.
func prepared(t *testing.T, db *store.DB) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		for _, c := range []struct{ id, mission, attempt, execution, turn string }{
			{"1", "m-1", "a-1", "x-1", "t-1"}, {"2", "m-1", "a-1", "x-1", "t-2"}, {"3", "m-1", "a-1", "x-2", "t-3"}, {"4", "m-1", "a-2", "x-3", "t-4"},
			{"5", "m-10", "a-3", "x-4", "t-5"}, {"6", "m-1", "a-1", "x-1", "t-1"},
		} {
			r := wants(c.id)
			r.Coordinates = effects.Coordinates{Mission: c.mission, Attempt: c.attempt, Execution: c.execution, Turn: c.turn}
			if _, _, err := effects.Prepare(tx, r); err != nil {
				return err
			}
		}
		_, _, err := effects.Complete(tx, run, "e-6", effects.End{By: one, At: later})
		return err
	})
}

func TestLoseIsOfOneRun(t *testing.T) {
	db := open(t)
	prepared(t, db)
	for _, c := range []struct {
		of   effects.Coordinates
		want []string
	}{
		{run, []string{"e-1"}},
		{effects.Coordinates{Mission: "m-1", Attempt: "a-1", Execution: "x-1"}, []string{"e-1", "e-2"}},
		{effects.Coordinates{Mission: "m-1", Attempt: "a-1"}, []string{"e-1", "e-2", "e-3"}},
		{effects.Coordinates{Mission: "m-1"}, []string{"e-1", "e-2", "e-3", "e-4"}},
		{effects.Coordinates{Mission: "m-10"}, []string{"e-5"}},
		{effects.Coordinates{Mission: "m-2"}, nil},
		{effects.Coordinates{Mission: "m-2", Attempt: "a-1", Execution: "x-1", Turn: "t-1"}, nil},
	} {
		fresh(t, db, func(tx *store.Tx) {
			lost, err := effects.Lose(tx, c.of, "gone", later)
			if got := ids(lost); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%+v: lost %v, %v", c.of, got, err)
			}
			open, err := effects.List(tx, "", 10, effects.Executing)
			if err != nil || len(open) != 5-len(c.want) {
				t.Errorf("%+v: %v go on, %v", c.of, ids(open), err)
			}
			for _, r := range append(lost, open...) {
				if slices.Contains(c.want, r.ID) != (r.State == effects.Uncertain) {
					t.Errorf("%+v: %s is %s", c.of, r.ID, r.State)
				}
			}
		})
	}
	fresh(t, db, func(tx *store.Tx) {
		if lost, err := effects.Lose(tx, effects.Coordinates{Turn: "t-1"}, "gone", later); err == nil {
			t.Errorf("of no mission: %v", ids(lost))
		}
	})
}

func ids(list []effects.Record) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.ID)
	}
	return out
}

func TestList(t *testing.T) {
	db := open(t)
	prepared(t, db)
	update(t, db, func(tx *store.Tx) error {
		_, err := effects.Lose(tx, run, "gone", later) // e-1
		if err == nil {
			_, _, err = effects.Complete(tx, effects.Coordinates{Mission: "m-1", Attempt: "a-2", Execution: "x-3"}, "e-4", effects.End{Error: "no", At: later})
		}
		return err
	})
	for _, c := range []struct {
		mission string
		limit   int
		states  []effects.State
		want    string
	}{
		{"", 10, nil, "[e-6 e-5 e-4 e-3 e-2 e-1]"}, {"", 2, nil, "[e-6 e-5]"}, {"", 0, nil, "[]"},
		{"m-1", 10, nil, "[e-6 e-4 e-3 e-2 e-1]"}, {"m-1", 2, nil, "[e-6 e-4]"}, {"m-10", 10, nil, "[e-5]"}, {"m-", 10, nil, "[]"},
		{"", 10, []effects.State{effects.Executing}, "[e-5 e-3 e-2]"}, {"", 10, []effects.State{effects.Uncertain}, "[e-1]"},
		{"", 10, []effects.State{effects.Executing, effects.Uncertain}, "[e-5 e-3 e-2 e-1]"}, {"m-1", 2, []effects.State{effects.Uncertain, effects.Executing}, "[e-3 e-2]"},
		{"", 10, []effects.State{effects.Completed, effects.Failed}, "[e-6 e-4]"}, {"m-1", 1, []effects.State{effects.Failed, effects.Uncertain}, "[e-4]"},
		{"m-10", 10, []effects.State{effects.Settled}, "[]"},
	} {
		if err := db.View(func(tx *store.Tx) error {
			got, err := effects.List(tx, c.mission, c.limit, c.states...)
			if fmt.Sprint(ids(got)) != c.want {
				t.Errorf("%+v: %v", c, ids(got))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker hears of what became uncertain, and of what is not uncertain any
// more, until it was told exactly that.
func TestUntold(t *testing.T) {
	db := open(t)
	prepared(t, db)
	want := func(when string, want ...string) []effects.Record {
		t.Helper()
		var got []effects.Record
		if err := db.View(func(tx *store.Tx) (err error) { got, err = effects.Untold(tx, "m-1", 10); return err }); err != nil || !slices.Equal(ids(got), want) {
			t.Errorf("%s: %v, %v", when, ids(got), err)
		}
		return got
	}
	told := func(list []effects.Record) {
		t.Helper()
		update(t, db, func(tx *store.Tx) error { return effects.Told(tx, list) })
	}
	want("at first")
	update(t, db, func(tx *store.Tx) error {
		_, err := effects.Lose(tx, effects.Coordinates{Mission: "m-1", Attempt: "a-1", Execution: "x-1"}, "gone", later)
		if err == nil {
			_, err = effects.Lose(tx, effects.Coordinates{Mission: "m-10"}, "gone", later)
		}
		return err
	})
	first := want("lost", "e-1", "e-2")
	if err := db.View(func(tx *store.Tx) error {
		for limit, n := range []int{0, 1, 2, 2} {
			if got, err := effects.Untold(tx, "m-1", limit); err != nil || len(got) != n {
				t.Errorf("limit %d: %v, %v", limit, ids(got), err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	told(first[:1])
	want("told of one", "e-2")
	update(t, db, func(tx *store.Tx) error {
		for _, r := range first {
			if _, err := effects.Settle(tx, r.ID, r.Revision, effects.Happened, "reeve", later); err != nil {
				return err
			}
		}
		return nil
	})
	told(first) // a prompt that was written before they were settled
	told(want("settled since", "e-1", "e-2"))
	want("told of all")
}
