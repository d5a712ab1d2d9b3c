package supervisor

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/store"
)

// What a tool asked is over with its turn: withdrawn, or expired when the turn
// ended at the deadline.
func TestAskedEndsWithTheTurn(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s := New(Options{
		DB: db, Log: slog.New(slog.DiscardHandler), Now: func() mission.Instant { return mission.Instant{Wall: time.Unix(100, 0)} },
		Announce: Announcer{Mission: func(Record) {}, Approval: func(approvals.Record) {}},
	})
	defer s.Close()
	for _, c := range []struct {
		out  mission.Outcome
		want approval.State
	}{{mission.Interrupted, approval.Withdrawn}, {mission.Failed, approval.Withdrawn}, {mission.Succeeded, approval.Withdrawn}, {mission.TimedOut, approval.Expired}} {
		rec := Record{ID: "m-" + string(c.out), Attempt: "a-1", Phase: mission.Working, Turns: []Turn{{ID: "t-1", Number: 1}}}
		w := newWorker(s, rec)
		w.next = &rec
		e := effects.Record{ID: "e-" + string(c.out), Tool: "ask_question", TurnNo: 1, CreatedAt: time.Unix(100, 0)}
		e.Mission, e.Attempt, e.Turn = rec.ID, "a-1", "t-1"
		var a approvals.Record
		if err := db.Update(context.Background(), func(tx *store.Tx) (err error) {
			if a, _, err = AskFor(tx, rec, e, approval.Subject{Title: "x", Question: &approval.Question{Text: "Which?"}}); err != nil {
				return err
			}
			_, err = w.conclude(tx, c.out, "")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.View(func(tx *store.Tx) (err error) { a, _, err = approvals.Get(tx, a.ID); return }); err != nil || a.State != c.want {
			t.Errorf("%s: it is %s, %v; want %s", c.out, a.State, err, c.want)
		}
	}
}
