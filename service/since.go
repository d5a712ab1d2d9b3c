package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// The journal keeps when the first worker of this boot began: what a program
// that starts others for whoever asks started since then may be a worker's
// doing. A worker can end the service, so memory would not do.
const actorBucket = "actors"

var firstWorkerKey = []byte("first_worker")

// since is when the first worker of this boot began.
type since struct {
	mu    sync.Mutex // held over the write, and taken before the supervisor's locks
	first proc.Moment
	kept  bool // first is in the journal
}

// loadSince reads what an earlier service of this boot journaled.
func (s *Service) loadSince() error {
	now, err := proc.Now()
	if err != nil {
		return err
	}
	var first proc.Moment
	err = s.db.View(func(tx *store.Tx) error {
		raw := tx.Get(actorBucket, firstWorkerKey)
		if raw == nil {
			return nil
		}
		return json.Unmarshal(raw, &first)
	})
	if err != nil {
		return fmt.Errorf("read when the first worker began: %w", err)
	}
	if first.BootID == now.BootID {
		s.since.first, s.since.kept = first, true
	}
	return nil
}

// workerBegins notes the first worker of this boot, before its guard is
// spawned: a mission is announced as starting before that.
func (s *Service) workerBegins(r supervisor.Record) {
	if r.Phase == mission.Proposed || r.Phase == mission.Denied {
		return
	}
	s.since.mu.Lock()
	defer s.since.mu.Unlock()
	if s.since.kept {
		return
	}
	now, err := proc.Now()
	if err == nil {
		s.since.first = s.since.first.Earlier(now)
		for _, trees := range s.sup.Guards() { // of a service that died before it noted them
			for _, g := range trees {
				if m := g.Root.Began(); m.BootID == now.BootID {
					s.since.first = s.since.first.Earlier(m)
				}
			}
		}
		var raw []byte
		if raw, err = json.Marshal(s.since.first); err == nil {
			err = s.db.Update(context.WithoutCancel(s.life), func(tx *store.Tx) error { return tx.Put(actorBucket, firstWorkerKey, raw) })
		}
	}
	s.since.kept = err == nil
	if err != nil && !errors.Is(err, store.ErrFenced) {
		s.log.Error("when the first worker began could not be journaled; the next change of a mission tries again", "err", err)
	}
}

// firstWorker is when the first worker of this boot began, or never.
func (s *Service) firstWorker() proc.Moment {
	s.since.mu.Lock()
	defer s.since.mu.Unlock()
	return s.since.first
}
