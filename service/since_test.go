package service

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// The first worker of a boot is known to every later service of that boot, and
// to none of the next.
func TestFirstWorkerIsKept(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *Service {
		t.Helper()
		s := &Service{db: db, log: slog.New(slog.DiscardHandler), life: context.Background()}
		s.compose(self)
		t.Cleanup(s.sup.Close)
		if err := s.loadSince(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := begin()
	for _, p := range []mission.Phase{mission.Proposed, mission.Denied} {
		s.workerBegins(supervisor.Record{Phase: p})
		if m := s.firstWorker(); m != (proc.Moment{}) {
			t.Errorf("%s: %v", p, m)
		}
	}
	s.workerBegins(supervisor.Record{Phase: mission.Starting})
	first := s.firstWorker()
	if first.BootID != self.BootID || first.Start < self.Start {
		t.Errorf("the first worker began at %v, this process at %v", first, self)
	}
	s.workerBegins(supervisor.Record{Phase: mission.Working})
	next := begin()
	next.workerBegins(supervisor.Record{Phase: mission.Starting})
	if s.firstWorker() != first || next.firstWorker() != first {
		t.Errorf("%v, then %v, after a restart %v", first, s.firstWorker(), next.firstWorker())
	}

	raw, err := json.Marshal(proc.Moment{Start: 1, BootID: "earlier"})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(context.Background(), func(tx *store.Tx) error { return tx.Put(actorBucket, firstWorkerKey, raw) }); err != nil {
		t.Fatal(err)
	}
	if m := begin().firstWorker(); m != (proc.Moment{}) {
		t.Errorf("after the machine was started anew: %v", m)
	}
}
