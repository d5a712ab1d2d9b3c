package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/store"
)

const (
	// prepareLimit is how long making a worktree and recording the base may
	// take: git writes every file, and reads every one that it doesn't know. A
	// stop ends it at once.
	prepareLimit = 20 * time.Minute
	// changesLimit is how long a look at the changes may take in all.
	changesLimit = 3 * time.Minute
	// snapshotLimit is how long the end of a mission waits for a picture of
	// its checkout. Without one its changes are those of the checkout today.
	snapshotLimit = 10 * time.Second
)

// prepare makes the checkout ready before anything of the agent runs: the
// mission's worktree is made and the base of its changes recorded, whichever
// is not there yet. It journals each by itself, so that a worktree always has an
// owner, also when the start fails after it.
func (s *Supervisor) prepare(ctx context.Context, r Record, journal func(func(*Record)) error) error {
	ctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	if wt := r.Worktree; wt != nil && !wt.Made {
		made, err := withGit(ctx, s, r.ID, func(git checkout.Git) (checkout.Worktree, error) {
			return checkout.AddWorktree(ctx, git, wt.Worktree)
		})
		if err != nil {
			return fmt.Errorf("the worktree could not be made: %w", err)
		}
		if err := journal(func(r *Record) { r.Worktree = &Worktree{Worktree: made, Made: true} }); err != nil {
			return err
		}
	}
	if r.Base.Tree != "" {
		return nil
	}
	base, err := withGit(ctx, s, r.ID, func(git checkout.Git) (checkout.Base, error) {
		base, err := checkout.TakeBase(ctx, git, r.Folder(), r.ID)
		if err != nil {
			return base, err
		}
		if err := s.dropOld(ctx, git, r.Folder()); err != nil {
			s.Log.Warn("what earlier missions recorded of a checkout could not be dropped", "mission", r.ID, "err", err)
		}
		return base, nil
	})
	if err != nil {
		return fmt.Errorf("the state of the checkout could not be recorded: %w", err)
	}
	fault.Point("service.checkout-prepared")
	return journal(func(r *Record) { r.Base = base })
}

// keepRecorded is how long a repository keeps what was recorded of a mission's
// checkout, untracked files included. Git then removes it in its own time.
const keepRecorded = 30 * 24 * time.Hour

// dropOld drops from a repository what missions recorded there long ago. The next
// mission there does it, so nothing grows and nothing runs unasked.
func (s *Supervisor) dropOld(ctx context.Context, git checkout.Git, path string) error {
	var live []Record
	if err := s.DB.View(func(tx *store.Tx) (err error) { live, err = LoadLive(tx); return }); err != nil {
		return err
	}
	return checkout.DropOldRefs(ctx, git, path, s.now().Add(-keepRecorded), func(mission string) bool {
		return slices.ContainsFunc(live, func(r Record) bool { return r.ID == mission })
	})
}

// picture records the checkout of a mission as it is and returns its tree.
func (s *Supervisor) picture(ctx context.Context, r Record, name string) (tree string, err error) {
	return withGit(ctx, s, r.ID, func(git checkout.Git) (string, error) {
		return checkout.Snapshot(ctx, git, r.Folder(), r.ID, name)
	})
}

// lostTrees has a picture of the checkout by mission, taken when its worker was
// found to be gone. It is no part of the record, because a recovery that a
// person allows is bound to the record as it was shown.
const lostTrees = "lost_trees"

// pictureLoss records the checkout as the lost worker left it, so that what is
// changed from now on is not taken for the agent's.
func (w *worker) pictureLoss() {
	r := w.rec.clone()
	if r.Base.Tree == "" {
		return
	}
	w.async(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, changesLimit)
		defer cancel()
		tree, err := w.s.picture(ctx, r, "lost")
		if err != nil {
			return err
		}
		return w.s.DB.Update(ctx, func(tx *store.Tx) error {
			return store.PutJSON(tx, lostTrees, r.ID, lostTree{Attempt: r.Attempt, Tree: tree})
		})
	}, func(err error) {
		if err != nil {
			w.s.Log.Warn("the checkout of a lost worker could not be recorded", "mission", r.ID, "err", err)
		}
	})
}

type lostTree struct {
	Attempt string `json:"attempt"`
	Tree    string `json:"tree"`
}

// pictureEnd records the checkout as the mission leaves it and then goes on.
// It says whether it has to be waited for.
func (w *worker) pictureEnd(then func()) bool {
	switch {
	case w.picturing:
		return true
	case w.pictured || w.rec.Base.Tree == "":
		return false
	}
	w.picturing = true
	r := w.rec.clone()
	w.async(func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
		defer cancel()
		r.End, err = w.s.picture(ctx, r, "end")
		return err
	}, func(err error) {
		if err != nil {
			w.s.Log.Warn("the checkout could not be recorded at the end of a mission", "mission", r.ID, "err", err)
		}
		w.picturing, w.pictured, w.endTree = false, true, r.End
		then()
	})
	return true
}

// Changes compares the checkout of a mission with how it was when the mission
// claimed it: the checkout as it is, or, of a mission that has ended and gave
// it back, as it was then. path narrows the patch to one file.
func (s *Supervisor) Changes(ctx context.Context, id, path string) (wire.ChangesResult, error) {
	out := wire.ChangesResult{Mission: id, At: s.now(), Files: []wire.ChangedFile{}, Patch: json.RawMessage(`""`)}
	r, err := s.Get(id)
	if err != nil {
		return out, err
	}
	if r.Base.Tree == "" {
		return out, wire.Errorf(wire.CodeConflict, "This mission has not begun to work in a checkout, so there is nothing to compare.")
	}
	out.Base = r.Base.Tree
	var lost lostTree
	if !r.LostAt.IsZero() {
		if err := s.DB.View(func(tx *store.Tx) (err error) { lost, _, err = store.GetJSON[lostTree](tx, lostTrees, id); return }); err != nil {
			return out, err
		}
		if lost.Attempt != r.Attempt {
			lost.Tree = ""
		}
	}
	own := r.Worktree != nil && r.Worktree.Made && !r.Worktree.Removed
	ctx, cancel := context.WithTimeout(ctx, changesLimit)
	defer cancel()
	type look struct {
		checkout.Changes
		state *wire.WorktreeState
	}
	found, err := withGit(ctx, s, id, func(git checkout.Git) (found look, err error) {
		switch {
		case r.Worktree != nil && !own:
			found.Changes, err = checkout.DiffTrees(ctx, git, r.Worktree.Repository, r.Base.Tree, r.End, path)
		case r.Phase.Terminal() && !own && r.End != "":
			found.Changes, err = checkout.DiffTrees(ctx, git, r.Folder(), r.Base.Tree, r.End, path)
		default:
			found.Changes, err = checkout.Diff(ctx, git, r.Folder(), r.Base.Tree, lost.Tree, path)
		}
		if err != nil || !own {
			return found, err
		}
		state, err := checkout.InspectWorktree(ctx, git, r.Worktree.Worktree)
		found.state = stateView(state)
		return found, err
	})
	if err != nil && r.Phase.Terminal() && s.now().Sub(r.EndedAt) > keepRecorded {
		return out, wire.Errorf(wire.CodeNotFound, "This mission ended more than 30 days ago, and what it changed may no longer be kept: %v.", err)
	}
	if err != nil {
		return out, gitRefused(err)
	}
	out.Worktree = found.state
	for _, f := range found.Files {
		out.Files = append(out.Files, wire.ChangedFile{
			Path: f.Path, From: f.From, Status: f.Status, Added: f.Added, Removed: f.Removed, Binary: f.Binary, SinceLost: f.SinceLost,
		})
	}
	out.More, out.PatchCut = found.More, found.CutPatch
	out.Patch, err = s.pages.pack(string(found.Patch))
	return out, err
}

const listed = 100 // paths of each kind that a state names

func stateView(x checkout.WorktreeState) *wire.WorktreeState {
	first := func(p []string) []string { return append([]string{}, p[:min(len(p), listed)]...) }
	return &wire.WorktreeState{
		Missing: x.Missing, Uncommitted: first(x.Uncommitted.First), Untracked: first(x.Untracked.First),
		Files: x.Uncommitted.Count + x.Untracked.Count, Ignored: x.Ignored.Count, Ahead: x.Ahead,
		Nested: x.Nested.First, Loose: x.Loose, UnderWay: x.UnderWay, Refs: first(x.Refs.First), Merged: x.Merged, Pushed: x.Pushed, Digest: x.Digest,
	}
}
