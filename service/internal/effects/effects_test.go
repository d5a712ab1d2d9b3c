package effects_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/store"
)

func open(t *testing.T) *store.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reeve.db")
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), store.CheckFile(path, store.Options{})); err != nil {
			t.Error(err)
		}
	})
	return db
}

func update(t rapid.TB, db *store.DB, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := db.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

var (
	run   = effects.Coordinates{Mission: "m-1", Attempt: "a-1", Execution: "x-1", Turn: "t-1"}
	one   = effects.Process{PID: 1, Start: 10, BootID: "b"}
	again = effects.Process{PID: 1, Start: 11, BootID: "b"} // the same pid, another process
	begin = time.Unix(100, 0).UTC()
	later = time.Unix(200, 0).UTC()
)

// wants is the effect e-<request> of a mutating tool.
func wants(request string) effects.Record {
	return effects.Record{
		ID: "e-" + request, Key: effects.Key{Coordinates: run, Request: request}, Room: "r-1", Tool: "post", Input: json.RawMessage(`{"a":1}`),
		Mutation: true, Action: "execute", By: one, CreatedAt: begin,
	}
}

// fresh runs fn in a transaction of its own that is undone.
func fresh(t *testing.T, db *store.DB, fn func(tx *store.Tx)) {
	t.Helper()
	undo := errors.New("undo")
	if err := db.Update(context.Background(), func(tx *store.Tx) error { fn(tx); return undo }); !errors.Is(err, undo) {
		t.Fatal(err)
	}
}

// TestMachine is the whole table: what each event makes of each state.
func TestMachine(t *testing.T) {
	db := open(t)
	const same = ""
	complete := func(e effects.End) func(*store.Tx, effects.Record) (bool, error) {
		return func(tx *store.Tx, r effects.Record) (bool, error) {
			e.At = later
			_, changed, err := effects.Complete(tx, r.Coordinates, r.ID, e)
			return changed, err
		}
	}
	prepare := func(by effects.Process) func(*store.Tx, effects.Record) (bool, error) {
		return func(tx *store.Tx, r effects.Record) (bool, error) {
			r = effects.Record{ID: "e-new", Key: r.Key, Tool: r.Tool, Input: r.Input, Mutation: r.Mutation, Own: r.Own, By: by, CreatedAt: later}
			_, changed, err := effects.Prepare(tx, r)
			return changed, err
		}
	}
	events := map[string]func(*store.Tx, effects.Record) (bool, error){
		"asked":              prepare(one),
		"asked by another":   prepare(again),
		"success":            complete(effects.End{Result: json.RawMessage(`{"second":true}`), By: one}),
		"success by another": complete(effects.End{By: again}),
		"failure":            complete(effects.End{Error: "second", By: one}),
		"failure by another": complete(effects.End{Error: "second", By: again}),
		"lost": func(tx *store.Tx, r effects.Record) (bool, error) {
			got, err := effects.Lose(tx, r.Coordinates, "its turn is over", later)
			return len(got) > 0, err
		},
		"settled": func(tx *store.Tx, r effects.Record) (bool, error) {
			_, err := effects.Settle(tx, r.ID, r.Revision, effects.DidNot, "another", later)
			return err == nil, err
		},
	}
	lose := func(tx *store.Tx, r effects.Record) error {
		_, err := effects.Lose(tx, r.Coordinates, "its turn is over", begin)
		return err
	}
	states := map[effects.State]func(*store.Tx, effects.Record) error{
		effects.Executing: func(*store.Tx, effects.Record) error { return nil },
		effects.Completed: func(tx *store.Tx, r effects.Record) error {
			_, _, err := effects.Complete(tx, r.Coordinates, r.ID, effects.End{Result: json.RawMessage(`1`), By: one, At: begin})
			return err
		},
		effects.Failed: func(tx *store.Tx, r effects.Record) error {
			_, _, err := effects.Complete(tx, r.Coordinates, r.ID, effects.End{Error: "first", By: one, At: begin})
			return err
		},
		effects.Uncertain: lose,
		effects.Settled: func(tx *store.Tx, r effects.Record) error {
			if err := lose(tx, r); err != nil {
				return err
			}
			_, err := effects.Settle(tx, r.ID, 2, effects.Happened, "reeve", begin)
			return err
		},
	}
	type cell struct {
		next effects.State // same: nothing is written
		err  error
	}
	for state, row := range map[effects.State]map[string]cell{
		effects.Executing: {
			"asked": {same, nil}, "asked by another": {effects.Uncertain, nil}, "success": {effects.Completed, nil}, "success by another": {effects.Completed, nil},
			"failure": {effects.Failed, nil}, "failure by another": {effects.Failed, nil}, "lost": {effects.Uncertain, nil}, "settled": {same, effects.ErrCertain},
		},
		effects.Completed: {
			"asked": {same, nil}, "asked by another": {same, nil}, "success": {same, nil}, "success by another": {same, nil},
			"failure": {same, effects.ErrContrary}, "failure by another": {same, effects.ErrContrary}, "lost": {same, nil}, "settled": {same, effects.ErrCertain},
		},
		effects.Failed: {
			"asked": {same, nil}, "asked by another": {same, nil}, "success": {same, effects.ErrContrary}, "success by another": {same, effects.ErrContrary},
			"failure": {same, nil}, "failure by another": {same, nil}, "lost": {same, nil}, "settled": {same, effects.ErrCertain},
		},
		effects.Uncertain: {
			"asked": {same, nil}, "asked by another": {same, nil}, "success": {effects.Completed, nil}, "success by another": {same, effects.ErrUncertain},
			"failure": {effects.Failed, nil}, "failure by another": {same, effects.ErrUncertain}, "lost": {same, nil}, "settled": {effects.Settled, nil},
		},
		effects.Settled: {
			"asked": {same, nil}, "asked by another": {same, nil}, "success": {same, effects.ErrSettled}, "success by another": {same, effects.ErrSettled},
			"failure": {same, effects.ErrSettled}, "failure by another": {same, effects.ErrSettled}, "lost": {same, nil}, "settled": {same, effects.ErrSettled},
		},
	} {
		for event, want := range row {
			fresh(t, db, func(tx *store.Tx) {
				if _, changed, err := effects.Prepare(tx, wants("1")); err != nil || !changed {
					t.Fatalf("prepare: %v, %v", changed, err)
				}
				before, _, err := effects.Get(tx, "e-1")
				if err = errors.Join(err, states[state](tx, before)); err != nil {
					t.Fatal(err)
				}
				if before, _, err = effects.Get(tx, "e-1"); err != nil || before.State != state {
					t.Fatalf("%s instead of %s, %v", before.State, state, err)
				}
				changed, err := events[event](tx, before)
				after, _, _ := effects.Get(tx, "e-1")
				if !errors.Is(err, want.err) || changed != (want.next != same) {
					t.Errorf("%s, %s: changed %v, %v", state, event, changed, err)
				}
				switch {
				case want.next == same && !reflect.DeepEqual(before, after):
					t.Errorf("%s, %s: it became %+v", state, event, after)
				case want.next != same && (after.State != want.next || after.Revision != before.Revision+1 || !after.EndedAt.Equal(later)):
					t.Errorf("%s, %s: it became %+v", state, event, after)
				}
				if all, err := effects.List(tx, "", 10); err != nil || len(all) != 1 || after.Known() == "" {
					t.Errorf("%s, %s: %d effects, %q, %v", state, event, len(all), after.Known(), err)
				}
			})
		}
	}
}

// What only reads, and what the service itself executes with its completion, is
// never uncertain: it may be begun again, or it did not happen.
func TestWhatMayRunAgain(t *testing.T) {
	db := open(t)
	read, own := wants("1"), wants("1")
	read.Mutation, own.Own = false, true
	for name, r := range map[string]effects.Record{"read": read, "own": own} {
		fresh(t, db, func(tx *store.Tx) {
			if _, _, err := effects.Prepare(tx, r); err != nil {
				t.Fatal(err)
			}
			r.By = again
			if got, changed, err := effects.Prepare(tx, r); err != nil || !changed || got.State != effects.Executing || got.By != again || got.Revision != 2 {
				t.Errorf("%s asked by another: %+v, %v, %v", name, got, changed, err)
			}
			lost, err := effects.Lose(tx, run, "its turn is over", later)
			if err != nil || len(lost) != 1 || lost[0].State != effects.Failed || lost[0].Known() != "It did not happen: its turn is over." {
				t.Errorf("%s lost: %+v, %v", name, lost, err)
			}
			if _, changed, err := effects.Complete(tx, run, "e-1", effects.End{By: again}); !errors.Is(err, effects.ErrContrary) || changed {
				t.Errorf("%s completed after that: %v, %v", name, changed, err)
			}
			if got, changed, err := effects.Prepare(tx, r); err != nil || changed || got.State != effects.Failed {
				t.Errorf("%s asked after that: %+v, %v, %v", name, got, changed, err)
			}
			if list, err := effects.Untold(tx, "m-1", 10); err != nil || len(list) != 0 {
				t.Errorf("%s: the worker is to hear of %+v, %v", name, list, err)
			}
		})
	}
}

// One id is one request: whatever else differs is refused, and the effect stays
// as it is.
func TestAnotherRequestIsRefused(t *testing.T) {
	db := open(t)
	for name, change := range map[string]func(*effects.Record){
		"input":        func(r *effects.Record) { r.Input = json.RawMessage(`{"a":2}`) },
		"no input":     func(r *effects.Record) { r.Input = nil },
		"tool":         func(r *effects.Record) { r.Tool = "delete" },
		"only reads":   func(r *effects.Record) { r.Mutation = false },
		"near number":  func(r *effects.Record) { r.Input = json.RawMessage(`{"a":1.0000000000000000001}`) },
		"another type": func(r *effects.Record) { r.Input = json.RawMessage(`{"a":"1"}`) },
	} {
		fresh(t, db, func(tx *store.Tx) {
			first, _, err := effects.Prepare(tx, wants("1"))
			if err != nil {
				t.Fatal(err)
			}
			r := wants("1")
			change(&r)
			if got, changed, err := effects.Prepare(tx, r); !errors.Is(err, effects.ErrOther) || changed || got.ID != "e-1" || got.State != effects.Executing {
				t.Errorf("%s: %+v, %v, %v", name, got, changed, err)
			}
			if now, _, err := effects.Get(tx, "e-1"); err != nil || now.Digest != first.Digest || now.Revision != 1 {
				t.Errorf("%s: it is %+v, %v", name, now, err)
			}
		})
	}
	for name, change := range map[string]func(*effects.Record){
		"mission":   func(r *effects.Record) { r.Mission = "m-2" },
		"attempt":   func(r *effects.Record) { r.Attempt = "a-2" },
		"execution": func(r *effects.Record) { r.Execution = "x-2" },
		"turn":      func(r *effects.Record) { r.Turn = "t-2" },
		"request":   func(r *effects.Record) { r.Request = "2" },
	} {
		fresh(t, db, func(tx *store.Tx) {
			if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
				t.Fatal(err)
			}
			r := wants("1")
			r.ID = "e-2"
			change(&r)
			if got, changed, err := effects.Prepare(tx, r); err != nil || !changed || got.ID != "e-2" {
				t.Errorf("another %s: %+v, %v, %v", name, got, changed, err)
			}
		})
	}
}

func TestPrepareRefuses(t *testing.T) {
	db := open(t)
	long := strings.Repeat("x", 1025)
	for name, change := range map[string]func(*effects.Record){
		"no id":         func(r *effects.Record) { r.ID = "" },
		"no mission":    func(r *effects.Record) { r.Mission = "" },
		"no attempt":    func(r *effects.Record) { r.Attempt = "" },
		"no execution":  func(r *effects.Record) { r.Execution = "" },
		"no turn":       func(r *effects.Record) { r.Turn = "" },
		"no request":    func(r *effects.Record) { r.Request = "" },
		"NUL":           func(r *effects.Record) { r.Turn, r.Request = "t\x00x", "1" },
		"long request":  func(r *effects.Record) { r.Request = long },
		"not UTF-8":     func(r *effects.Record) { r.Request = "\xff" },
		"no tool":       func(r *effects.Record) { r.Tool = "" },
		"no process":    func(r *effects.Record) { r.By = effects.Process{} },
		"taken id":      func(r *effects.Record) { r.Request = "2" },
		"no JSON":       func(r *effects.Record) { r.Input = json.RawMessage(`{`) },
		"a key twice":   func(r *effects.Record) { r.Request, r.ID, r.Input = "2", "e-2", json.RawMessage(`{"a":1,"a":2}`) },
		"half a letter": func(r *effects.Record) { r.Request, r.ID, r.Input = "2", "e-2", json.RawMessage(`{"a":"\ud800"}`) },
		"deep": func(r *effects.Record) {
			r.Request, r.ID, r.Input = "2", "e-2", json.RawMessage(strings.Repeat("[", 1<<20))
		},
	} {
		fresh(t, db, func(tx *store.Tx) {
			if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
				t.Fatal(err)
			}
			r := wants("1")
			change(&r)
			if got, changed, err := effects.Prepare(tx, r); err == nil || changed {
				t.Errorf("%s: %+v", name, got)
			}
			if all, err := effects.List(tx, "", 10); err != nil || len(all) != 1 {
				t.Errorf("%s: there are %d effects, %v", name, len(all), err)
			}
		})
	}
}

// Only the run that an effect belongs to can complete it, in whatever turn it
// is by then; another worker's completion finds nothing.
func TestCompleteIsOfTheSameRun(t *testing.T) {
	db := open(t)
	for name, c := range map[string]struct {
		of effects.Coordinates
		ok bool
	}{
		"the same":          {run, true},
		"another turn":      {effects.Coordinates{Mission: "m-1", Attempt: "a-1", Execution: "x-1", Turn: "t-2"}, true},
		"another execution": {effects.Coordinates{Mission: "m-1", Attempt: "a-1", Execution: "x-2", Turn: "t-1"}, false},
		"another attempt":   {effects.Coordinates{Mission: "m-1", Attempt: "a-2", Execution: "x-1", Turn: "t-1"}, false},
		"another mission":   {effects.Coordinates{Mission: "m-2", Attempt: "a-1", Execution: "x-1", Turn: "t-1"}, false},
	} {
		fresh(t, db, func(tx *store.Tx) {
			if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
				t.Fatal(err)
			}
			got, changed, err := effects.Complete(tx, c.of, "e-1", effects.End{By: one, At: later})
			if c.ok != changed || c.ok != (err == nil) || !c.ok && (!errors.Is(err, effects.ErrNotFound) || got.ID != "") {
				t.Errorf("%s: %+v, %v, %v", name, got, changed, err)
			}
		})
	}
	fresh(t, db, func(tx *store.Tx) {
		if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []effects.End{{Error: "no", Result: json.RawMessage(`1`)}, {Result: json.RawMessage(`{`)}, {Result: json.RawMessage("\"\xff\"")}} {
			if _, changed, err := effects.Complete(tx, run, "e-1", bad); err == nil || changed {
				t.Errorf("%+v was taken", bad)
			}
		}
		if _, _, err := effects.Complete(tx, run, "e-2", effects.End{}); !errors.Is(err, effects.ErrNotFound) {
			t.Errorf("no effect: %v", err)
		}
	})
}

// What was refused before it began did not happen, whether its turn ended before
// that or after; an end that is on record stays.
func TestRefuse(t *testing.T) {
	db := open(t)
	complete := func(end effects.End) func(tx *store.Tx) error {
		return func(tx *store.Tx) error { _, _, err := effects.Complete(tx, run, "e-1", end); return err }
	}
	lose := func(tx *store.Tx) error { _, err := effects.Lose(tx, run, "its turn ended", later); return err }
	for name, c := range map[string]struct {
		before  func(tx *store.Tx) error
		changed bool
		err     error
	}{
		"executing": {func(*store.Tx) error { return nil }, true, nil},
		"uncertain": {lose, true, nil},
		"failed":    {complete(effects.End{Error: "no", By: one, At: later}), false, nil},
		"completed": {complete(effects.End{By: one, At: later}), false, effects.ErrContrary},
		"settled": {func(tx *store.Tx) error {
			if err := lose(tx); err != nil {
				return err
			}
			_, err := effects.Settle(tx, "e-1", 2, effects.Happened, "reeve (pid 7)", later)
			return err
		}, false, effects.ErrSettled},
	} {
		fresh(t, db, func(tx *store.Tx) {
			if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
				t.Fatal(err)
			}
			if err := c.before(tx); err != nil {
				t.Fatal(err)
			}
			before, _, _ := effects.Get(tx, "e-1")
			got, changed, err := effects.Refuse(tx, "e-1", "its turn was over", later)
			if changed != c.changed || !errors.Is(err, c.err) {
				t.Errorf("%s: changed %v, %v", name, changed, err)
			}
			if kept, _, _ := effects.Get(tx, "e-1"); changed && (got.State != effects.Failed || got.Known() != "It did not happen: its turn was over." || kept.Revision != before.Revision+1) || !changed && !reflect.DeepEqual(kept, before) {
				t.Errorf("%s: %+v, in the journal %+v", name, got, kept)
			}
		})
	}
	fresh(t, db, func(tx *store.Tx) {
		if _, _, err := effects.Refuse(tx, "e-none", "its turn was over", later); err == nil {
			t.Error("an effect that is not there was refused")
		}
	})
}

// Nobody settles what they did not see.
func TestSettleComparesTheRevision(t *testing.T) {
	db := open(t)
	update(t, db, func(tx *store.Tx) error {
		_, _, err := effects.Prepare(tx, wants("1"))
		if err == nil {
			_, err = effects.Lose(tx, run, "its turn is over", later)
		}
		return err
	})
	for _, c := range []struct {
		id       string
		revision uint64
		outcome  effects.Outcome
		want     error
	}{
		{"e-2", 2, effects.Left, effects.ErrNotFound}, {"e-1", 2, "perhaps", effects.ErrOutcome}, {"e-1", 2, "", effects.ErrOutcome},
		{"e-1", 1, effects.Left, effects.ErrChanged}, {"e-1", 3, effects.Left, effects.ErrChanged}, {"e-1", 2, effects.Left, nil},
		{"e-1", 2, effects.Left, effects.ErrSettled}, {"e-1", 3, effects.Happened, effects.ErrSettled},
	} {
		update(t, db, func(tx *store.Tx) error {
			if r, err := effects.Settle(tx, c.id, c.revision, c.outcome, "reeve (pid 7)", later); !errors.Is(err, c.want) {
				t.Errorf("%+v: %+v, %v", c, r, err)
			}
			return nil
		})
	}
	if err := db.View(func(tx *store.Tx) error {
		r, _, err := effects.Get(tx, "e-1")
		if r.State != effects.Settled || r.Outcome != effects.Left || r.SettledBy != "reeve (pid 7)" || r.Known() != "Nobody knows whether it happened; reeve (pid 7) left it at that." {
			t.Errorf("%+v: %s", r, r.Known())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestReadsGo: an agent may look for news as often as it likes. The newest reads
// are kept and answer a repeat; what changes something stays for good.
func TestReadsGo(t *testing.T) {
	db := open(t)
	read := func(tx *store.Tx, n int) (effects.Record, bool) {
		r := wants(fmt.Sprintf("read-%05d", n))
		r.ID, r.Mutation = fmt.Sprintf("e-read-%05d", n), false
		got, changed, err := effects.Prepare(tx, r)
		if err != nil {
			t.Fatal(err)
		}
		if got.State == effects.Executing {
			if got, _, err = effects.Complete(tx, got.Coordinates, got.ID, effects.End{Result: json.RawMessage(fmt.Sprint(n)), By: got.By, At: got.CreatedAt}); err != nil {
				t.Fatal(err)
			}
		}
		return got, changed
	}
	fresh(t, db, func(tx *store.Tx) {
		if _, _, err := effects.Prepare(tx, wants("kept")); err != nil {
			t.Fatal(err)
		}
		const others = effects.MaxEffects - effects.MaxReads - 2 // as if they were there
		if err := tx.Put("effect_counts", []byte("a-1"), []byte(fmt.Sprint(others+1))); err != nil {
			t.Fatal(err)
		}
		const many = effects.MaxReads + 20
		for n := range many {
			read(tx, n)
		}
		all, err := effects.List(tx, wants("kept").Mission, effects.MaxEffects)
		if err != nil || len(all) != effects.MaxReads+1 {
			t.Fatalf("%d effects are kept, %v", len(all), err)
		}
		if _, changed := read(tx, many-1); changed {
			t.Error("the newest read ran again")
		}
		if got, changed := read(tx, 0); !changed || got.State != effects.Completed {
			t.Errorf("the oldest read did not run again: %+v", got)
		}
	})
}

func TestLimits(t *testing.T) {
	db := open(t)
	fresh(t, db, func(tx *store.Tx) {
		if err := tx.Put("effect_counts", []byte("a-1"), []byte(fmt.Sprint(effects.MaxEffects-1))); err != nil { // as if they were there
			t.Fatal(err)
		}
		if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
			t.Error(err)
		}
		if _, changed, err := effects.Prepare(tx, wants("2")); !errors.Is(err, effects.ErrMany) || changed {
			t.Errorf("one more: %v", err)
		}
		if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
			t.Errorf("a repeat: %v", err)
		}
		other := wants("3")
		other.Attempt = "a-2"
		if _, _, err := effects.Prepare(tx, other); err != nil {
			t.Errorf("another attempt: %v", err)
		}
	})
	fresh(t, db, func(tx *store.Tx) {
		for i := range effects.MaxExecuting - 1 { // as if they were there
			if err := store.PutJSON(tx, "effects_executing", fmt.Sprint("e-of-others-", i), effects.Coordinates{Mission: fmt.Sprint("m-other-", i/effects.MaxMissionExecuting)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
			t.Error(err)
		}
		more := wants("more")
		if _, changed, err := effects.Prepare(tx, more); !errors.Is(err, effects.ErrBusy) || changed {
			t.Errorf("one more: %v", err)
		}
		if _, _, err := effects.Complete(tx, run, "e-1", effects.End{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := effects.Prepare(tx, more); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
	})
}

// One mission that has all it may have leaves the others theirs.
func TestLimitOfAMission(t *testing.T) {
	db := open(t)
	fresh(t, db, func(tx *store.Tx) {
		for i := range effects.MaxMissionExecuting {
			if _, _, err := effects.Prepare(tx, wants(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if _, changed, err := effects.Prepare(tx, wants("more")); !errors.Is(err, effects.ErrMissionBusy) || changed {
			t.Errorf("one more: %v", err)
		}
		other := wants("other")
		other.Mission, other.Attempt = "m-2", "a-2"
		if _, _, err := effects.Prepare(tx, other); err != nil {
			t.Errorf("of another mission: %v", err)
		}
	})
}

// Every transition stands in the audit, without what the worker sent.
func TestAudit(t *testing.T) {
	db := open(t)
	update(t, db, func(tx *store.Tx) error {
		r := wants("1")
		r.Input = json.RawMessage(`{"a":"canary"}`)
		for _, by := range []effects.Process{one, one, again, again} { // prepared, repeated, uncertain, repeated
			r.By = by
			if _, _, err := effects.Prepare(tx, r); err != nil {
				return err
			}
		}
		if _, err := effects.Settle(tx, "e-1", 2, effects.Left, "reeve (pid 7)", later); err != nil {
			return err
		}
		if _, _, err := effects.Prepare(tx, wants("2")); err != nil {
			return err
		}
		_, _, err := effects.Complete(tx, run, "e-2", effects.End{Result: json.RawMessage(`"canary"`), By: one, At: later})
		return err
	})
	entries, err := db.Audit(1, 100)
	var got []string
	for _, e := range entries {
		got = append(got, e.Text)
		if e.Kind != store.AuditEffect || e.Mission != "m-1" || strings.Contains(string(e.Data), "canary") || e.Actor == "" {
			t.Errorf("%+v", e)
		}
	}
	want := []string{"post executing", "post uncertain", "post settled", "post executing", "post completed"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if report, err := db.VerifyAudit(context.Background()); err != nil || report.BrokenAt != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
