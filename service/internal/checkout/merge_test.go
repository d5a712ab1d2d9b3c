package checkout_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/service/internal/checkout"
)

// filtered adds a file to the branch that a filter writes into a checkout.
func filtered(smudge string) func(t *testing.T, w checkout.Worktree) {
	return func(t *testing.T, w checkout.Worktree) {
		write(t, filepath.Join(w.Path, "new/deep/file"), "1\n")
		write(t, filepath.Join(w.Path, "zed"), "1\n")
		commitAll(t, w.Path, "more")
		write(t, filepath.Join(w.Repository, ".git/info/attributes"), "zed filter=x\n")
		gitIn(t, w.Repository, "config", "filter.x.smudge", smudge)
		gitIn(t, w.Repository, "config", "filter.x.clean", "cat")
		gitIn(t, w.Repository, "config", "filter.x.required", "true")
		write(t, filepath.Join(w.Repository, "untracked"), "mine\n")
	}
}

// TestMerge: a merge is whole or leaves everything as it was.
func TestMerge(t *testing.T) {
	work := func(t *testing.T, w checkout.Worktree) {
		write(t, filepath.Join(w.Path, "a"), "the agent's\n")
		write(t, filepath.Join(w.Path, "added"), "1\n")
		commitAll(t, w.Path, "work")
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, w checkout.Worktree)
		want string // "" when it is merged
	}{
		"fast-forward": {func(t *testing.T, w checkout.Worktree) {}, ""},
		"folder gone":  {func(t *testing.T, w checkout.Worktree) { _ = os.RemoveAll(w.Path) }, ""},
		"both sides": {func(t *testing.T, w checkout.Worktree) {
			write(t, filepath.Join(w.Repository, "b"), "1\n")
			commitAll(t, w.Repository, "the person's")
			write(t, filepath.Join(w.Repository, "untracked"), "1\n")
		}, ""},
		"settings": {func(t *testing.T, w checkout.Worktree) {
			gitIn(t, w.Repository, "config", "merge.ff", "false")
			gitIn(t, w.Repository, "config", "branch.main.mergeOptions", "--no-commit --squash")
		}, ""},
		"conflict": {func(t *testing.T, w checkout.Worktree) {
			write(t, filepath.Join(w.Repository, "a"), "the person's\n")
			commitAll(t, w.Repository, "the person's")
			write(t, filepath.Join(w.Repository, "untracked"), "1\n")
		}, "changed the same places of a."},
		"uncommitted": {func(t *testing.T, w checkout.Worktree) { write(t, filepath.Join(w.Repository, ".gitignore"), "") }, "not committed: .gitignore"},
		"staged": {func(t *testing.T, w checkout.Worktree) {
			write(t, filepath.Join(w.Repository, "s"), "")
			gitIn(t, w.Repository, "add", "s")
		}, "not committed: s"},
		// Its filter ends git, or fails, when other files are there already.
		"cut off":        {filtered("kill $PPID; cat"), "was cut off"},
		"cut off midway": {filtered("exit 1"), "smudge filter"},
		"detached":       {func(t *testing.T, w checkout.Worktree) { gitIn(t, w.Repository, "checkout", "-q", "--detach") }, "no branch checked out"},
		"under way": {func(t *testing.T, w checkout.Worktree) {
			write(t, filepath.Join(w.Repository, ".git/rebase-merge/x"), "")
		}, "rebase is under way"},
		"work left": {func(t *testing.T, w checkout.Worktree) { write(t, filepath.Join(w.Path, "n"), "") }, "work that is not committed: n"},
		"loose commits": {func(t *testing.T, w checkout.Worktree) {
			gitIn(t, w.Path, "checkout", "-q", "--detach")
			commitAll(t, w.Path, "x")
		}, "not on its branch"},
		"merged":          {func(t *testing.T, w checkout.Worktree) { gitIn(t, w.Repository, "merge", "-q", w.Branch) }, "already"},
		"nothing":         {func(t *testing.T, w checkout.Worktree) { gitIn(t, w.Path, "reset", "-q", "--hard", w.Base) }, "no commits of its own"},
		"untracked there": {func(t *testing.T, w checkout.Worktree) { write(t, filepath.Join(w.Repository, "added"), "mine\n") }, "would be overwritten: added"},
		"ignored there": {func(t *testing.T, w checkout.Worktree) {
			write(t, filepath.Join(w.Repository, ".git/info/exclude"), "added\n")
			write(t, filepath.Join(w.Repository, "added"), "mine\n")
			write(t, filepath.Join(w.Repository, "b"), "1\n")
			commitAll(t, w.Repository, "the person's")
		}, "would be overwritten: added"},
	} {
		t.Run(name, func(t *testing.T) {
			run, w := worktree(t)
			work(t, w)
			c.make(t, w)
			before := person(t, w.Repository)
			head, err := checkout.MergeWorktree(t.Context(), run, w)
			if c.want != "" {
				refused(t, err, c.want)
				// An abort writes the index anew, and a line into HEAD's log.
				strip := func(s string) string { _, s, _ = strings.Cut(s, "logs/refs/stash "); return s }
				if after := person(t, w.Repository); strip(after) != strip(before) {
					t.Errorf("not undone:\n%s\nwas\n%s", after, before)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if head != gitOut(t, w.Repository, "rev-parse", "main") || read(t, filepath.Join(w.Repository, "a")) != "the agent's\n" {
				t.Errorf("HEAD is %s", head)
			}
			if !look(t, run, w).Merged {
				t.Error("it does not show as merged")
			}
		})
	}
}

// TestCutOffMergeTouchesNoOtherFile: what is taken back of a merge is what it
// may have changed, wherever the person moved that, and no edit beside it.
func TestCutOffMergeTouchesNoOtherFile(t *testing.T) {
	run, w := worktree(t)
	write(t, filepath.Join(w.Path, "a"), "1\n2\n")
	write(t, filepath.Join(w.Path, "both"), "the agent's\n")
	filtered("cat moved both >seen; echo edited >b; kill $PPID; cat")(t, w)
	gitIn(t, w.Repository, "mv", "a", "moved")
	write(t, filepath.Join(w.Repository, "both"), "the person's\n")
	write(t, filepath.Join(w.Repository, "b"), "mine\n")
	write(t, filepath.Join(w.Repository, ".git/info/exclude"), "seen\nuntracked\n")
	commitAll(t, w.Repository, "the person's")
	_, err := checkout.MergeWorktree(t.Context(), run, w)
	refused(t, err, "was cut off")
	if seen := read(t, filepath.Join(w.Repository, "seen")); !strings.HasPrefix(seen, "1\n2\n<<<<<<<") {
		t.Errorf("when it was cut off the merge had written %q", seen)
	}
	if got := gitOut(t, w.Repository, "status", "--porcelain"); got != " M b" || read(t, filepath.Join(w.Repository, "b")) != "edited\n" {
		t.Errorf("the checkout has %q, b %q", got, read(t, filepath.Join(w.Repository, "b")))
	}
}

// TestMergeNobodyWaitsFor: a merge that fails when its context ends is taken
// back like any other, and one that succeeds is told.
func TestMergeNobodyWaitsFor(t *testing.T) {
	for _, conflict := range []bool{true, false} {
		t.Run(fmt.Sprint("conflict ", conflict), func(t *testing.T) {
			direct, w := worktree(t)
			write(t, filepath.Join(w.Path, "a"), "the agent's\n")
			commitAll(t, w.Path, "work")
			if conflict {
				write(t, filepath.Join(w.Repository, "a"), "the person's\n")
				commitAll(t, w.Repository, "the person's")
			}
			before := person(t, w.Repository)
			ctx, cancel := context.WithCancel(t.Context())
			run := func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
				out, err := direct(ctx, c)
				if c.Args[0] == "merge" {
					cancel()
				}
				return out, err
			}
			head, err := checkout.MergeWorktree(ctx, run, w)
			if !conflict {
				if err != nil || head != gitOut(t, w.Path, "rev-parse", "HEAD") {
					t.Errorf("merged as %s, %v", head, err)
				}
				return
			}
			refused(t, err, "changed the same places of a.")
			strip := func(s string) string { _, s, _ = strings.Cut(s, "logs/refs/stash "); return s } // as in TestMerge
			if after := person(t, w.Repository); strip(after) != strip(before) {
				t.Errorf("not undone:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// TestMergeThatGoesOn: nothing is done to a checkout in which git still works.
func TestMergeThatGoesOn(t *testing.T) {
	direct, w := worktree(t)
	write(t, filepath.Join(w.Path, "a"), "the agent's\n")
	commitAll(t, w.Path, "work")
	ctx, cancel := context.WithCancel(t.Context())
	run := func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		if ctx.Err() != nil || c.Args[0] != "merge" {
			if c.Whole {
				t.Errorf("git %v ran beside it", c.Args)
			}
			return direct(ctx, c)
		}
		cancel()
		return nil, fmt.Errorf("%w: %w", checkout.ErrGoesOn, ctx.Err())
	}
	if _, err := checkout.MergeWorktree(ctx, run, w); !errors.Is(err, checkout.ErrGoesOn) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestMergeUndoneAlone: what a merge names to be run when it goes on by itself
// and fails brings back every file that is tracked.
func TestMergeUndoneAlone(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, w checkout.Worktree)
		exit int
	}{
		"conflict": {func(t *testing.T, w checkout.Worktree) {
			write(t, filepath.Join(w.Repository, "a"), "the person's\n")
			commitAll(t, w.Repository, "the person's")
		}, 1},
		"cut off":        {filtered("kill $PPID; cat"), -1},
		"cut off midway": {filtered("exit 1"), 128},
	} {
		t.Run(name, func(t *testing.T) {
			direct, w := worktree(t)
			write(t, filepath.Join(w.Path, "a"), "the agent's\n")
			commitAll(t, w.Path, "work")
			c.make(t, w)
			was := read(t, filepath.Join(w.Repository, "a"))
			ctx, cancel := context.WithCancel(t.Context())
			run := func(ctx context.Context, m checkout.GitCommand) ([]byte, error) {
				out, err := direct(ctx, m)
				if m.Args[0] != "merge" {
					return out, err
				}
				var f checkout.Failure
				if !errors.As(err, &f) || f.ExitCode() != c.exit {
					t.Errorf("git ended with %v", err)
				}
				if read(t, filepath.Join(w.Repository, "a")) == was {
					t.Error("the merge changed nothing")
				}
				for _, u := range m.Undo { // as its guard does
					if u.CutOff && c.exit == 1 {
						continue
					}
					next := m
					next.Args, next.Stdin = u.Args, u.Stdin
					_, _ = direct(ctx, next)
				}
				cancel()
				return nil, fmt.Errorf("%w: %w", checkout.ErrGoesOn, ctx.Err())
			}
			if _, err := checkout.MergeWorktree(ctx, run, w); !errors.Is(err, checkout.ErrGoesOn) {
				t.Error(err)
			}
			if got := gitOut(t, w.Repository, "status", "--porcelain", "--untracked-files=no"); got != "" || read(t, filepath.Join(w.Repository, "a")) != was || there(filepath.Join(w.Repository, ".git/MERGE_HEAD")) {
				t.Errorf("not undone: %q", got)
			}
		})
	}
}
