package service

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// Ten thousand refused calls are all counted, and make a few entries of the
// journal.
func TestRefusalFlood(t *testing.T) {
	const calls, programs = 10_000, 8
	dir := t.TempDir()
	db, err := store.Open(filepath.Join(dir, "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{
		o: Options{StateDir: dir, Now: func() mission.Instant { return mission.Instant{Wall: time.Now()} }}, db: db,
		log: slog.New(slog.DiscardHandler), windowEnds: time.NewTimer(time.Hour), id: wire.NegotiateResult{Generation: 1},
	}
	s.compose(self)
	defer s.sup.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var summing, calling sync.WaitGroup
	summing.Go(func() { s.sumUpRefusals(ctx) })
	for p := range programs {
		calling.Go(func() {
			for range calls / programs {
				s.Refused(ctx, server.Actor{Worker: true, Mission: []string{"", "m-1"}[p%2], Program: "sh", PID: 7}, wire.MethodApprovalAnswer)
			}
		})
	}
	calling.Wait()
	cancel()
	summing.Wait()
	if v := s.status(); v.Refusals != calls || v.LastRefusal == nil {
		t.Errorf("%d refusals of %d are counted", v.Refusals, calls)
	}
	rep, err := db.VerifyAudit(context.Background())
	// Two missions, and perhaps a window or two more on a slow machine.
	if err != nil || rep.Entries < 2*refusalBurst || rep.Entries > 10*refusalBurst {
		t.Errorf("%d entries in the audit, %v", rep.Entries, err)
	}
}
