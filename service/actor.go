package service

import (
	"path/filepath"
	"slices"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/service/internal/proc"
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
