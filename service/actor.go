package service

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// Actor judges a peer that was just accepted. Whoever descends from a guard, or
// can't be told apart from such a process, is a worker. So is whatever descends
// from the service itself: the service runs agents' programs to ask for their
// version, and a worker may have replaced one of them. Doubtful is a process that
// another program may have started because a worker asked it to.
func (s *Service) Actor(peer sock.Peer) server.Actor {
	guards := s.sup.Guards()
	all := make([]proc.Guarded, 0, len(guards))
	for _, g := range guards {
		all = append(all, g...)
	}
	if peer.PID != os.Getpid() {
		all = append(all, proc.Guarded{Root: s.self, What: "the service"})
	}
	v := proc.DescendsFromGuard(peer.PID, peer.Pidfd, all)
	a := server.Actor{Worker: v.Worker, PID: peer.PID, Process: wire.Process(v.Info.ID), Program: "unknown program", TTY: v.Info.TTY, Why: v.Why}
	switch {
	case v.Info.Exe != "":
		a.Program = filepath.Base(v.Info.Exe)
	case v.Info.Comm != "":
		a.Program = v.Info.Comm
	}
	if v.Worker {
		a.Mission = missionOf(peer.PID, guards)
	} else if why := v.Doubt(s.firstWorker(), s.desktop()); why != "" {
		a.Doubtful, a.Why = true, why
	}
	return a
}

// desktop is where the desktop's program is installed: beside this one.
func (s *Service) desktop() string { return filepath.Join(filepath.Dir(s.o.Exe), "reeve-desktop") }

// missionOf finds the mission whose guard is an ancestor of pid; "" when that
// can't be told.
func missionOf(pid int, guards map[string][]proc.Guarded) string {
	chain, err := proc.Ancestors(pid)
	if err != nil {
		return ""
	}
	for _, p := range chain {
		for id, g := range guards {
			if slices.ContainsFunc(g, func(g proc.Guarded) bool { return p.ID == g.Root || slices.Contains(g.Sessions, p.SID) }) {
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
