package service

import (
	"context"
	"fmt"
	"time"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// A worker can call what is refused as often as it likes. Every refusal counts,
// but of one mission only refusalBurst in each refusalWindow are journaled and
// shown one by one; the rest is summed up once, at the end of the window, so
// that a flood fills no disk and keeps nobody from being heard.
const (
	refusalBurst  = 10
	refusalWindow = 10 * time.Second
)

// refusals are those of one mission in the window that runs.
type refusals struct {
	single int // journaled one by one
	held   int // counted, to be summed up
	last   wire.Refusal
}

// Refused counts what a worker or a doubtful peer tried, journals it and shows it.
func (s *Service) Refused(ctx context.Context, a server.Actor, method string) {
	r := wire.Refusal{At: s.o.Now().Wall.Round(0).UTC(), Method: method, Mission: a.Mission, Program: a.Program, PID: a.PID, Why: a.Why}
	s.mu.Lock()
	s.refusals++
	s.refused = &r
	if s.window == nil {
		s.window = map[string]*refusals{}
		s.windowEnds.Reset(refusalWindow)
	}
	w := s.window[a.Mission]
	if w == nil {
		w = &refusals{}
		s.window[a.Mission] = w
	}
	hold := w.single >= refusalBurst
	if hold {
		w.held++
		w.last = r
	} else {
		w.single++
	}
	s.mu.Unlock()
	if !hold {
		s.noteRefusals(ctx, r, 1)
	}
}

// sumUpRefusals ends a window whenever it is time for it, until ctx ends, and
// then the one that runs.
func (s *Service) sumUpRefusals(ctx context.Context) {
	for {
		select {
		case <-s.windowEnds.C:
		case <-ctx.Done():
		}
		s.mu.Lock()
		window := s.window
		s.window = nil
		s.mu.Unlock()
		for _, w := range window {
			if w.held > 0 {
				s.noteRefusals(context.WithoutCancel(ctx), w.last, w.held)
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// noteRefusals journals and shows n refusals, of which r is the last.
func (s *Service) noteRefusals(ctx context.Context, r wire.Refusal, n int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text := fmt.Sprintf("refused %s: %s", r.Method, r.Why)
	if n > 1 {
		text = fmt.Sprintf("refused %d more calls within %d s, the last %s: %s", n, int(refusalWindow.Seconds()), r.Method, r.Why)
	}
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		return tx.Audit(store.AuditEntry{
			Kind: store.AuditRefusal, Mission: r.Mission, Actor: fmt.Sprintf("%s (pid %d)", r.Program, r.PID), Text: text,
		})
	})
	if err != nil {
		s.log.Error("a refusal could not be journaled", "method", r.Method, "calls", n, "err", err)
	}
	s.log.Warn("a worker was refused", "calls", n, "method", r.Method, "mission", r.Mission, "program", r.Program, "pid", r.PID, "why", r.Why)
	if r.Mission != "" {
		if err := s.sup.Refused(ctx, r.Mission, n); err != nil {
			s.log.Error("refusals could not be counted for their mission", "mission", r.Mission, "calls", n, "err", err)
		}
	}
	s.topics.service.Publish(wire.EvRefusal, r)
	s.topics.service.Publish(wire.EvService, s.status())
}
