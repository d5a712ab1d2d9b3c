package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/store"
)

// hold keeps missions out of checkouts that a person is having changed, and
// refuses when one is at work there. The mark is set first: a claim that was
// journaled before is seen then, and a later one sees the mark.
func (s *Supervisor) hold(ctx context.Context, id string, paths ...string) (release func(), err error) {
	if err := s.mark(paths); err != nil {
		return nil, err
	}
	release = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range paths {
			delete(s.held, p)
		}
	}
	if err := s.unowned(ctx, id, paths); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// unowned refuses when another mission owns one of paths. It asks in a
// transaction, so that no claim is on its way beside it.
func (s *Supervisor) unowned(ctx context.Context, id string, paths []string) error {
	seen := make([]checkout.Sight, len(paths))
	for i, p := range paths {
		var err error
		if seen[i], err = checkout.Look(ctx, s.DB, p); err != nil {
			return Refuse(err)
		}
	}
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		for _, p := range seen {
			if r := checkout.Conflict(tx, p, id); r != nil {
				return Refuse(r)
			}
		}
		return nil
	})
}

// mark marks all of paths as held, or none.
func (s *Supervisor) mark(paths []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range paths {
		if s.held[p] {
			return errHeld(p)
		}
	}
	for _, p := range paths {
		s.held[p] = true
	}
	return nil
}

// look finds out where the checkout of a mission lies, for take.
func (s *Supervisor) look(ctx context.Context, r Record) (checkout.Sight, error) {
	seen, err := checkout.Look(ctx, s.DB, r.Folder())
	return seen, Refuse(err)
}

// take claims the mission's checkout for an attempt.
func (s *Supervisor) take(tx *store.Tx, r Record, attempt string, seen checkout.Sight) error {
	s.mu.Lock()
	held := s.held[r.Folder()]
	s.mu.Unlock()
	if held {
		return errHeld(r.Folder())
	}
	return Refuse(checkout.Take(tx, seen, r.ID, attempt, s.now()))
}

func errHeld(path string) error {
	return wire.Errorf(wire.CodeConflict, "Something is being done to %s right now; try again in a moment.", path)
}

// Worktree commits, merges or removes the worktree of a mission that has ended.
// It returns what was done as a sentence and how the worktree stands then, nil
// once it is gone.
func (s *Supervisor) Worktree(ctx context.Context, id string, p wire.WorktreeParams, by string) (Record, string, *wire.WorktreeState, error) {
	r, err := s.Get(id)
	if err != nil {
		return r, "", nil, err
	}
	switch wt := r.Worktree; {
	case wt == nil || !wt.Made:
		err = wire.Errorf(wire.CodeConflict, "This mission has no worktree of its own.")
	case wt.Removed:
		err = wire.Errorf(wire.CodeConflict, "The worktree of this mission was removed already.")
	case !r.Phase.Terminal():
		err = wire.Errorf(wire.CodeConflict, "The mission still owns its worktree; stop it, or wait for its end.")
	}
	if err != nil {
		return r, "", nil, err
	}
	wt := r.Worktree.Worktree
	paths := []string{wt.Path}
	if p.Action == wire.WorktreeMerge {
		paths = append(paths, wt.Repository)
	}
	release, err := s.hold(ctx, id, paths...)
	if err != nil {
		return r, "", nil, err
	}
	var goesOn *guard.GoesOn
	defer func() {
		if goesOn == nil {
			release()
			return
		}
		go func() {
			<-goesOn.Ended
			release()
		}()
	}()

	type acted struct {
		done   string
		change func(*Worktree)
		state  *wire.WorktreeState
		err    error // of the act; how it stands is told all the same
	}
	did, err := changeWithGit(ctx, s, id, func(git checkout.Git) (a acted, _ error) {
		a.done, a.change, a.err = actOn(ctx, git, wt, p)
		if a.err == nil && p.Action == wire.WorktreeRemove {
			return a, nil
		}
		if now, err := checkout.InspectWorktree(ctx, git, wt); err == nil {
			a.state = stateView(now)
		}
		return a, nil
	})
	err = errors.Join(err, did.err)
	done, change, state := did.done, did.change, did.state
	if err != nil {
		errors.As(err, &goesOn)
		err = gitRefused(err)
		var refused *wire.Error
		if state != nil && errors.As(err, &refused) && refused.Details == nil {
			err = refused.With(map[string]any{"state": state})
		}
		return r, "", nil, err
	}
	if err := s.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		now, ok, err := Load(tx, id)
		if err != nil || !ok {
			return errors.Join(err, errors.New("the mission is gone"))
		}
		if change != nil {
			made := *now.Worktree
			change(&made)
			now.Worktree = &made
		}
		now.Revision++
		r = now
		if err := save(tx, now); err != nil {
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: id, Actor: by, Text: "worktree: " + done})
	}); err != nil {
		return r, "", nil, fmt.Errorf("%s It could not be journaled: %w", done, err)
	}
	s.Announce.Mission(r)
	return r, done, state, nil
}

// actOn does one thing to a worktree. It returns what was done, and how the
// record changes for it (nil: not at all).
func actOn(ctx context.Context, git checkout.Git, wt checkout.Worktree, p wire.WorktreeParams) (done string, change func(*Worktree), err error) {
	switch p.Action {
	case wire.WorktreeCommit:
		message := strings.TrimSpace(p.Message)
		if mission.CheckScope(message) != nil {
			return "", nil, wire.Errorf(wire.CodeInvalidParams, "A commit needs a message of 1 to 4,000 characters.").With(map[string]string{"field": "message"})
		}
		return "Committed to " + wt.Branch + ".", nil, checkout.CommitWorktree(ctx, git, wt, message)
	case wire.WorktreeMerge:
		commit, err := checkout.MergeWorktree(ctx, git, wt)
		return fmt.Sprintf("Merged %s into %s.", wt.Branch, wt.Repository), func(w *Worktree) { w.Merged = commit }, err
	case wire.WorktreeRemove:
		left, err := checkout.RemoveWorktree(ctx, git, wt, p.Discard)
		done = fmt.Sprintf("Removed %s.", wt.Path)
		switch {
		case left.Branch != "" && left.Unpushed > 0:
			done += fmt.Sprintf(" The branch %s stays: %d of its commits are nowhere else.", left.Branch, left.Unpushed)
		case left.Branch != "":
			done += fmt.Sprintf(" The branch %s stays.", left.Branch)
		}
		return done, func(w *Worktree) { w.Removed = true }, err
	}
	return "", nil, wire.InvalidField("action", "must be commit, merge or remove")
}

// gitRefused turns what the checkout's operations answer into what clients are
// told.
func gitRefused(err error) error {
	var told *wire.Error
	if errors.As(err, &told) {
		return err
	}
	var r *checkout.Refusal
	if errors.As(err, &r) {
		return wire.Errorf(wire.CodeConflict, "%s %s", r.What, r.Fix)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return wire.Errorf(wire.CodeUnavailable, "Git could not do it: %v.", err)
}
