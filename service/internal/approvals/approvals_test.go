package approvals_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/service/internal/approvals"
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
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := store.CheckFile(path, store.Options{}); err != nil {
			t.Error(err)
		}
	})
	return db
}

func update(t testing.TB, db *store.DB, fn func(tx *store.Tx) error) error {
	t.Helper()
	return db.Update(context.Background(), fn)
}

func ask(id, mission string) approvals.Record {
	return approvals.Record{ID: id, Kind: approval.ToolCall, Mission: mission, Subject: []byte(`{}`), Digest: "d-" + id, CreatedAt: time.Unix(1, 0)}
}

func yes() approvals.Answer {
	return approvals.Answer{Answer: approval.Answer{Allow: true}, Who: approvals.Who{Via: "program", Program: "reeve"}}
}

func TestDecide(t *testing.T) {
	db := open(t)
	if err := update(t, db, func(tx *store.Tx) error { return approvals.Ask(tx, ask("p-1", "m-1")) }); err != nil {
		t.Fatal(err)
	}
	decide := func(id, digest string) (r approvals.Record, err error) {
		err = update(t, db, func(tx *store.Tx) (err error) { r, err = approvals.Decide(tx, id, digest, yes(), nil); return err })
		return r, err
	}
	if _, err := decide("p-9", "x"); !errors.Is(err, approvals.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := decide("p-1", "d-p-2"); !errors.Is(err, approvals.ErrMismatch) {
		t.Errorf("another digest: %v", err)
	}
	if _, err := decide("p-1", ""); !errors.Is(err, approvals.ErrMismatch) {
		t.Errorf("no digest: %v", err)
	}
	if r, err := decide("p-1", "d-p-1"); err != nil || r.State != approval.Allowed {
		t.Errorf("right: %+v, %v", r, err)
	}
	if r, err := decide("p-1", "d-p-1"); !errors.Is(err, approvals.ErrAnswered) || r.Answer.Who.Program != "reeve" {
		t.Errorf("twice: %+v, %v", r, err)
	}
}

// TestExpiredIsNotDenied is case 18: nobody answered, so nobody denied.
func TestExpiredIsNotDenied(t *testing.T) {
	db := open(t)
	var closed []approvals.Record
	err := update(t, db, func(tx *store.Tx) (err error) {
		if err := approvals.Ask(tx, ask("p-1", "m-1")); err != nil {
			return err
		}
		if err := approvals.Ask(tx, ask("p-2", "m-2")); err != nil {
			return err
		}
		closed, err = approvals.CloseAll(tx, "m-1", approval.Expired, "deadline", time.Unix(9, 0))
		return err
	})
	if err != nil || len(closed) != 1 || closed[0].State != approval.Expired || closed[0].Answer.Who.Via != "deadline" {
		t.Fatalf("%+v, %v", closed, err)
	}
	err = update(t, db, func(tx *store.Tx) error { _, err := approvals.Decide(tx, "p-1", "d-p-1", yes(), nil); return err })
	if !errors.Is(err, approvals.ErrStale) {
		t.Errorf("answering what has expired: %v", err)
	}
	if err := db.View(func(tx *store.Tx) error {
		left, err := approvals.Pending(tx, "")
		if len(left) != 1 || left[0].ID != "p-2" {
			t.Errorf("still pending: %+v", left)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAskedTwiceIsOne(t *testing.T) {
	db := open(t)
	err := update(t, db, func(tx *store.Tx) error {
		if err := approvals.Ask(tx, ask("p-1", "m-1")); err != nil {
			return err
		}
		if _, err := approvals.Decide(tx, "p-1", "d-p-1", yes(), nil); err != nil {
			return err
		}
		return approvals.Ask(tx, ask("p-1", "m-1")) // the log was read again
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		r, _, err := approvals.Get(tx, "p-1")
		if r.State != approval.Allowed {
			t.Errorf("asking again undid the answer: %+v", r)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestFull(t *testing.T) {
	db := open(t)
	err := update(t, db, func(tx *store.Tx) error {
		for i := range approvals.MaxPending {
			if err := approvals.Ask(tx, ask(fmt.Sprintf("p-%05d", i), fmt.Sprint("m-", i/approvals.MaxMissionPending))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = update(t, db, func(tx *store.Tx) error { return approvals.Ask(tx, ask("p-one-more", "m-more")) })
	if !errors.Is(err, approvals.ErrFull) || errors.Is(err, approvals.ErrMissionFull) {
		t.Fatalf("got %v", err)
	}
}

// One mission whose agent asks without end leaves the others room, and can
// still be recovered.
func TestOneMissionLeavesRoom(t *testing.T) {
	db := open(t)
	err := update(t, db, func(tx *store.Tx) error {
		for i := range approvals.MaxMissionPending {
			r := ask(fmt.Sprintf("p-%05d", i), "m-1")
			r.Same = fmt.Sprint(i)
			if err := approvals.Ask(tx, r); err != nil {
				return err
			}
		}
		more := ask("p-more", "m-1")
		more.Same = "0"
		if err := approvals.Ask(tx, more); !errors.Is(err, approvals.ErrMissionFull) || !errors.Is(err, approvals.ErrFull) {
			t.Errorf("one more: %v", err)
		}
		if joined, err := approvals.Join(tx, more); joined || err != nil {
			t.Errorf("it joined another: %v, %v", joined, err)
		}
		recovery := ask("p-recover", "m-1")
		recovery.Kind = approval.MissionRecover
		for _, r := range []approvals.Record{ask("p-other", "m-2"), recovery} {
			if err := approvals.Ask(tx, r); err != nil {
				t.Errorf("%s: %v", r.ID, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestQueueModel: whatever happens in which order, an approval is settled at
// most once, the first settlement stands, and what is pending is exactly what
// was asked and not settled.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "reeve.db")
		db, err := store.Open(path, store.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer db.Close()
		ids := []string{"p-1", "p-2", "p-3"}
		model := map[string]approval.State{}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			id := rapid.SampledFrom(ids).Draw(rt, "id")
			before := model[id]
			var err error
			switch rapid.SampledFrom([]string{"ask", "allow", "wrong", "withdraw", "rule", "gone"}).Draw(rt, "op") {
			case "ask":
				err = update(t, db, func(tx *store.Tx) error { return approvals.Ask(tx, ask(id, "m-1")) })
				if before == "" {
					model[id] = approval.Pending
				}
			case "allow":
				err = update(t, db, func(tx *store.Tx) error { _, err := approvals.Decide(tx, id, "d-"+id, yes(), nil); return err })
				if (err == nil) != (before == approval.Pending) {
					rt.Fatalf("answering %q: %v", before, err)
				}
				if err == nil {
					model[id] = approval.Allowed
				}
				err = nil
			case "wrong":
				err = update(t, db, func(tx *store.Tx) error { _, err := approvals.Decide(tx, id, "d-other", yes(), nil); return err })
				if err == nil {
					rt.Fatalf("a wrong digest was taken for %q", before)
				}
				err = nil
			case "withdraw":
				err = update(t, db, func(tx *store.Tx) error {
					_, _, err := approvals.Close(tx, id, approval.Withdrawn, "turn", time.Unix(2, 0))
					return err
				})
				if before == approval.Pending {
					model[id] = approval.Withdrawn
				}
			case "rule":
				err = update(t, db, func(tx *store.Tx) error {
					_, err := approvals.Rule(tx, ask(id, "m-1"), "reads", time.Unix(2, 0))
					return err
				})
				if before == "" {
					model[id] = approval.Allowed
				}
			case "gone":
				err = update(t, db, func(tx *store.Tx) error { _, err := approvals.Delivered(tx, id, true); return err })
				if before == approval.Allowed {
					model[id] = approval.Stale
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
			want := 0
			for _, st := range model {
				if st == approval.Pending {
					want++
				}
			}
			if err := db.View(func(tx *store.Tx) error {
				got, err := approvals.Pending(tx, "")
				if len(got) != want {
					rt.Fatalf("%d pending, want %d of %v", len(got), want, model)
				}
				for id, st := range model {
					if r, _, _ := approvals.Get(tx, id); r.State != st {
						rt.Fatalf("%s is %s, want %s", id, r.State, st)
					}
				}
				return err
			}); err != nil {
				rt.Fatal(err)
			}
		}
		if err := db.Check(); err != nil {
			rt.Fatal(err)
		}
	})
}

// An answer is unheard from the moment it is journaled until its guard took it
// or the mission has no use for it any more. Adoption looks at nothing else, so
// the history of all missions costs it nothing.
func TestUnheard(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	at := time.Unix(1, 0)
	ask := func(id, mission, attempt string, kind approval.Kind) approvals.Record {
		return approvals.Record{ID: id, Kind: kind, Mission: mission, Attempt: attempt, Subject: []byte(`{}`), Digest: id, CreatedAt: at}
	}
	update := func(fn func(tx *store.Tx) error) {
		t.Helper()
		if err := db.Update(context.Background(), fn); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, mission string, ids ...string) {
		t.Helper()
		var got []string
		if err := db.View(func(tx *store.Tx) error {
			list, err := approvals.Unheard(tx, mission)
			for _, r := range list {
				got = append(got, r.ID)
			}
			return err
		}); err != nil || !slices.Equal(got, ids) {
			t.Errorf("%s: %v of %s are unheard, want %v; %v", when, got, mission, ids, err)
		}
	}
	answer := approvals.Answer{Answer: approval.Answer{Allow: true}, At: at}
	for _, r := range []approvals.Record{
		ask("p-1", "m-1", "a-1", approval.ToolCall), ask("p-2", "m-1", "a-1", approval.ToolCall),
		ask("p-3", "m-2", "a-2", approval.ToolCall), ask("p-4", "m-1", "", approval.MissionStart), ask("p-5", "m-1", "a-1", approval.MissionRecover),
	} {
		update(func(tx *store.Tx) error { return approvals.Ask(tx, r) })
	}
	want("asked", "m-1")
	for _, id := range []string{"p-1", "p-3", "p-4", "p-5"} {
		update(func(tx *store.Tx) error { _, err := approvals.Decide(tx, id, id, answer, nil); return err })
	}
	update(func(tx *store.Tx) error {
		_, err := approvals.Rule(tx, ask("p-6", "m-1", "a-1", approval.ToolCall), "reads", at)
		return err
	})
	want("answered", "m-1", "p-1", "p-6")
	want("answered", "m-2", "p-3")
	update(func(tx *store.Tx) error { _, err := approvals.Delivered(tx, "p-1", false); return err })
	want("heard", "m-1", "p-6")
	update(func(tx *store.Tx) error { _, err := approvals.Delivered(tx, "p-3", true); return err })
	want("gone", "m-2")
	update(func(tx *store.Tx) error {
		_, err := approvals.CloseAll(tx, "m-1", approval.Withdrawn, "stop", at)
		return err
	})
	want("ended", "m-1")
	update(func(tx *store.Tx) error { _, err := approvals.Delivered(tx, "p-6", false); return err })
	want("heard after the end", "m-1")
}

// Starts of missions leave room for what running agents ask.
func TestProposalsLeaveRoom(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(context.Background(), func(tx *store.Tx) error {
		for i := range approvals.MaxPending {
			kind := approval.MissionStart
			if i >= approvals.MaxProposed {
				kind = approval.ToolCall
			}
			r := approvals.Record{ID: fmt.Sprintf("p-%04d", i), Kind: kind, Mission: fmt.Sprint("m-", i/approvals.MaxMissionPending), Subject: []byte(`{}`), CreatedAt: time.Unix(1, 0)}
			if kind == approval.ToolCall {
				start := r
				start.ID, start.Kind = "p-start", approval.MissionStart
				if err := approvals.Ask(tx, start); !errors.Is(err, approvals.ErrProposed) {
					return fmt.Errorf("a start after %d approvals: %v", i, err)
				}
			}
			if err := approvals.Ask(tx, r); err != nil {
				return err
			}
		}
		counts, err := approvals.Waiting(tx)
		if err == nil && counts["m-1"] != approvals.MaxMissionPending {
			err = fmt.Errorf("%d wait", counts["m-1"])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
