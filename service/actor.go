package service

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// Actor judges a peer that was just accepted: whoever descends from a guard,
// or can't be told apart from that, is a worker.
func (s *Service) Actor(peer sock.Peer) server.Actor {
	guards := s.sup.Guards()
	all := make([]proc.Guarded, 0, len(guards))
	for _, g := range guards {
		all = append(all, g)
	}
	v := proc.DescendsFromGuard(peer.PID, peer.Pidfd, all)
	a := server.Actor{Worker: v.Worker, PID: peer.PID, Program: "unknown program", TTY: v.Info.TTY, Why: v.Why}
	switch {
	case v.Info.Exe != "":
		a.Program = filepath.Base(v.Info.Exe)
	case v.Info.Comm != "":
		a.Program = v.Info.Comm
	}
	if v.Worker {
		a.Mission = missionOf(peer.PID, guards)
	}
	return a
}

// missionOf finds the mission whose guard is an ancestor of pid; "" when that
// can't be told.
func missionOf(pid int, guards map[string]proc.Guarded) string {
	chain, err := proc.Ancestors(pid)
	if err != nil {
		return ""
	}
	for _, p := range chain {
		for id, g := range guards {
			if p.ID == g.Root || slices.Contains(g.Sessions, p.SID) {
				return id
			}
		}
	}
	return ""
}

// Confirm judges the peer again before a decision. Somebody who was a worker
// once stays one.
func (s *Service) Confirm(peer sock.Peer, fixed server.Actor) server.Actor {
	now := s.Actor(peer)
	if fixed.Worker {
		return fixed
	}
	now.Client = fixed.Client
	return now
}

// Refused journals what a worker tried, counts it for its mission and shows it.
func (s *Service) Refused(ctx context.Context, a server.Actor, method string) {
	at := s.o.Now().Wall.Round(0).UTC()
	r := wire.Refusal{At: at, Method: method, Mission: a.Mission, Program: a.Program, PID: a.PID, Why: a.Why}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		return tx.Audit(store.AuditEntry{
			Kind: store.AuditRefusal, Mission: a.Mission, Actor: fmt.Sprintf("%s (pid %d)", a.Program, a.PID),
			Text: fmt.Sprintf("refused %s: %s", method, a.Why),
		})
	})
	if err != nil {
		s.log.Error("a refusal could not be journaled", "method", method, "err", err)
	}
	s.log.Warn("a worker was refused", "method", method, "mission", a.Mission, "program", a.Program, "pid", a.PID, "why", a.Why)
	s.mu.Lock()
	s.refusals++
	s.refused = &r
	s.mu.Unlock()
	if a.Mission != "" {
		s.sup.Refused(ctx, a.Mission)
	}
	s.topics.service.Publish(wire.EvRefusal, r)
	s.topics.service.Publish(wire.EvService, s.status())
}
