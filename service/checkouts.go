package service

import (
	"context"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
)

// MissionChanges tells what changed in a mission's checkout.
func (s *Service) MissionChanges(ctx context.Context, p wire.ChangesParams) (wire.ChangesResult, error) {
	id, err := s.missionID(p.ID)
	if err != nil {
		return wire.ChangesResult{}, err
	}
	return s.sup.Changes(ctx, id, p.Path)
}

// MissionWorktree commits, merges or removes the worktree of a mission that has
// ended.
func (s *Service) MissionWorktree(ctx context.Context, a server.Actor, p wire.WorktreeParams) (wire.WorktreeResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.WorktreeResult{}, err
	}
	defer leave()
	id, err := s.missionID(p.ID)
	if err != nil {
		return wire.WorktreeResult{}, err
	}
	r, done, state, err := s.sup.Worktree(ctx, id, p, a.Program)
	if err != nil {
		return wire.WorktreeResult{}, err
	}
	return wire.WorktreeResult{Mission: s.missionView(r), Done: done, State: state}, nil
}
