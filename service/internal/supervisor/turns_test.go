//go:build unix

package supervisor

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// past are n turns that ended, each with 10 tokens and a cent.
func past(n int) (out []Turn) {
	for i := range n {
		tokens, cost, at := int64(10), 0.01, time.Unix(int64(i), 0).UTC()
		usage := mission.Usage{Provider: "acp:demo", Model: "a-model-with-a-name", Semantics: mission.IncludesCache, Input: &tokens, Output: new(int64), CacheRead: new(int64), CostUSD: &cost}
		out = append(out, Turn{
			ID: NewID("t"), Number: i + 1, StartedAt: at, EndedAt: at, Begun: true, Heard: true, Tools: 3,
			Outcome: &mission.TurnOutcome{Outcome: mission.Succeeded, Next: mission.NextWaiting, Usage: usage, Seconds: 1.5},
		})
	}
	return out
}

// A record of very many turns, as an earlier Reeve wrote it, lists the newest,
// counts all, and stays well below what one line can hold.
func TestOldTurnsAreAddedUp(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	const n = 2_500
	r := Record{ID: "m-1", Phase: mission.Waiting, Turns: past(n)}
	if err := db.Update(t.Context(), func(tx *store.Tx) error { return save(tx, r) }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.View(func(tx *store.Tx) (err error) { r, _, err = Load(tx, "m-1"); return }); err != nil {
			t.Fatal(err)
		}
		if len(r.Turns) != maxTurns || r.Turns[0].Number != n-maxTurns+1 || r.turn().Number != n || r.TurnCount() != n {
			t.Fatalf("%d turns from %d on, %d in all", len(r.Turns), r.Turns[0].Number, r.TurnCount())
		}
		if sum := r.Spent(); sum.Turns != n || sum.Tokens != 10*n || sum.CostUSD < 24.99 || sum.CostUSD > 25.01 {
			t.Fatalf("they spent %+v", sum)
		}
		if err := db.Update(t.Context(), func(tx *store.Tx) error { return save(tx, r) }); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := json.Marshal(r); err != nil || len(raw) > wire.MaxLine/4 {
		t.Errorf("the record has %d bytes, %v", len(raw), err)
	}
}

// A mission goes on beyond the turns that it lists: the next has its number, and
// what the older ones spent counts against the budget.
func TestTurnsBeyondTheList(t *testing.T) {
	h := newHouse(t)
	r := h.beginTerms("a", "demo:slow 1\ndemo:wait", func(t *mission.Terms) { t.Budget.Tokens = 10 * (maxTurns + 1) })
	h.until(r.ID, "first turn", func(r Record) bool { return r.Phase == mission.Waiting && len(r.Turns) == 1 })
	err := h.s.do(within(t), r.ID, func(w *worker) error {
		return w.commit(func(r *Record) { r.Turns = past(maxTurns) })
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.s.Steer(within(t), r.ID, "demo:slow 100000"); err != nil {
		t.Fatal(err)
	}
	r = h.until(r.ID, "next turn", func(r Record) bool { return r.TurnCount() == maxTurns+1 && r.turn().Heard })
	if len(r.Turns) != maxTurns || r.turn().Number != maxTurns+1 || r.Turns[0].Number != 2 || r.Steering[0].Turn != maxTurns+1 {
		t.Fatalf("%d turns from %d to %d", len(r.Turns), r.Turns[0].Number, r.turn().Number)
	}
	if sum := r.Spent(); sum.Turns != maxTurns+1 || sum.Tokens != 10*maxTurns {
		t.Fatalf("spent %+v", sum)
	}
	var kept Record
	if err := h.db.View(func(tx *store.Tx) (err error) { kept, _, err = Load(tx, r.ID); return }); err != nil || kept.Older.Turns != 1 || len(kept.Turns) != maxTurns {
		t.Fatalf("journaled: %+v before %d turns, %v", kept.Older, len(kept.Turns), err)
	}
	// Ten tokens more in a turn that is listed no longer would be the budget.
	err = h.s.do(within(t), r.ID, func(w *worker) error { return w.commit(func(r *Record) { r.Older.Tokens += 10 }) })
	if err != nil {
		t.Fatal(err)
	}
	if r = h.phase(r.ID, mission.Stopped); r.EndReason != mission.EndBudget {
		t.Errorf("ended by %s", r.EndReason)
	}
}
