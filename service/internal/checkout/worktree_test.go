package checkout_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/store"
)

const mission = "m-01jabcdefghjkmnpqrstvwxyz0"

func plan(t *testing.T, dir string) (checkout.Worktree, error) {
	t.Helper()
	state := t.TempDir()
	tree, err := checkout.Inspect(t.Context(), dir, state)
	if err != nil {
		t.Fatal(err)
	}
	return checkout.PlanWorktree(t.Context(), tree, state, mission)
}

// worktree makes a repository with a file and the worktree of a mission.
func worktree(t *testing.T) (checkout.Git, checkout.Worktree) {
	t.Helper()
	t.Parallel()
	run := directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "project"))
	write(t, filepath.Join(dir, "a"), "1\n")
	write(t, filepath.Join(dir, ".gitignore"), "*.ignored\nbuild/\n")
	commitAll(t, dir, "second")
	w, err := plan(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if w, err = checkout.AddWorktree(t.Context(), run, w); err != nil {
		t.Fatal(err)
	}
	return run, w
}

func look(t *testing.T, run checkout.Git, w checkout.Worktree) checkout.WorktreeState {
	t.Helper()
	s, err := checkout.InspectWorktree(t.Context(), run, w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func branches(t *testing.T, dir string) string {
	return gitOut(t, dir, "for-each-ref", "--format=%(refname:short)", "refs/heads")
}

func TestPlanRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string
	}{
		"path":   {func(t *testing.T, dir string) { write(t, dir+"-reeve-vwxyz0", "") }, "is there already"},
		"link":   {func(t *testing.T, dir string) { _ = os.Symlink("nowhere", dir+"-reeve-vwxyz0") }, "is there already"},
		"branch": {func(t *testing.T, dir string) { gitIn(t, dir, "branch", "reeve/"+mission) }, "has a branch reeve/" + mission},
		"reeve":  {func(t *testing.T, dir string) { gitIn(t, dir, "branch", "reeve") }, "has a branch reeve already"},
		"unborn": {func(t *testing.T, dir string) { gitIn(t, dir, "checkout", "-q", "--orphan", "x") }, "has no commit yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repo(t, filepath.Join(t.TempDir(), "project"))
			c.make(t, dir)
			_, err := plan(t, dir)
			refused(t, err, c.want)
		})
	}
	t.Run("private state", func(t *testing.T) {
		t.Parallel()
		dir := repo(t, filepath.Join(t.TempDir(), "project"))
		tree := checkout.Tree{Path: dir, Head: strings.Repeat("1", 40)}
		_, err := checkout.PlanWorktree(t.Context(), tree, filepath.Dir(dir), mission)
		refused(t, err, "private state")
	})
	t.Run("not writable", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root may write everywhere")
		}
		dir := repo(t, filepath.Join(t.TempDir(), "project"))
		if err := os.Chmod(filepath.Dir(dir), 0o500); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Chmod(filepath.Dir(dir), 0o700) }()
		_, err := plan(t, dir)
		refused(t, err, "No folder can be made")
	})
}

// TestWorktreeNames is case 32 for worktrees.
func TestWorktreeNames(t *testing.T) {
	for _, name := range []string{"with space", `quo"te's`, "日本語", "🦊 fox", "-dash", strings.Repeat("n", 200), strings.Repeat("深", 83), "new\nline"} {
		t.Run(name[:3], func(t *testing.T) {
			t.Parallel()
			run := directExec(t)
			dir := repo(t, filepath.Join(t.TempDir(), name))
			w, err := plan(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			if w, err = checkout.AddWorktree(t.Context(), run, w); err != nil {
				t.Fatal(err)
			}
			if filepath.Dir(w.Path) != filepath.Dir(dir) || !strings.HasSuffix(w.Path, "-reeve-vwxyz0") {
				t.Errorf("the path is %q", w.Path)
			}
			for _, n := range hostile {
				write(t, filepath.Join(w.Path, n), "1\n")
			}
			s := look(t, run, w)
			if s.Untracked.Count != len(hostile) {
				t.Errorf("%d of %d: %q", s.Untracked.Count, len(hostile), s.Untracked.First)
			}
			if err := checkout.CommitWorktree(t.Context(), run, w, "# all of them"); err != nil {
				t.Fatal(err)
			}
			if got := gitOut(t, w.Path, "log", "-1", "--format=%s %an %ae"); got != "# all of them Person person@example.org" {
				t.Errorf("committed as %q", got)
			}
			if _, err := checkout.MergeWorktree(t.Context(), run, w); err != nil {
				t.Fatal(err)
			}
			if _, err := checkout.RemoveWorktree(t.Context(), run, w, ""); err != nil {
				t.Fatal(err)
			}
			if there(w.Path) || !there(filepath.Join(dir, hostile[0])) || branches(t, dir) != "main" {
				t.Errorf("removed: %v, branches %s", !there(w.Path), branches(t, dir))
			}
		})
	}
}

// TestAddWorktreeAgain: a service that ended before it could record the worktree
// finds it; another thing at its place is refused.
func TestAddWorktreeAgain(t *testing.T) {
	run, w := worktree(t)
	again := w
	again.GitDir = ""
	got, err := checkout.AddWorktree(t.Context(), run, again)
	if err != nil || got != w {
		t.Errorf("%+v, %v; want %+v", got, err, w)
	}
	gitIn(t, w.Path, "checkout", "-q", "--detach")
	_, err = checkout.AddWorktree(t.Context(), run, again)
	refused(t, err, "is there already", "not on the branch")
	if err := os.RemoveAll(w.Path); err != nil {
		t.Fatal(err)
	}
	repo(t, w.Path)
	_, err = checkout.AddWorktree(t.Context(), run, again)
	refused(t, err, "is there already")
}

// TestPlannedWorktreeIsClaimed: a path that is not there yet has an owner, by
// each of its names once it is.
func TestPlannedWorktreeIsClaimed(t *testing.T) {
	db, top := open(t), t.TempDir()
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(top, alias); err != nil {
		t.Fatal(err)
	}
	planned := filepath.Join(top, "w")
	if err := take(db, planned, "m-1"); err != nil {
		t.Fatal(err)
	}
	conflict := func(path string) {
		t.Helper()
		seen, err := checkout.Look(t.Context(), db, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.View(func(tx *store.Tx) error {
			if r := checkout.Conflict(tx, seen, "m-2"); r == nil || r.Owner != "m-1" {
				t.Errorf("%s: %v, want a refusal that names m-1", path, r)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	conflict(filepath.Join(alias, "w"))
	conflict(filepath.Join(alias, "W")) // one folder where case folds; nobody knows yet
	conflict(alias)                     // around it
	if err := os.Mkdir(planned, 0o755); err != nil {
		t.Fatal(err)
	}
	conflict(filepath.Join(alias, "w"))
	conflict(filepath.Join(alias, "w", "inside"))
	conflict(top)
	if err := take(db, filepath.Join(top, "other"), "m-2"); err != nil {
		t.Error(err)
	}
}

// TestRemoveKeepsWork is case 34: each kind of work that is nowhere else keeps
// the folder and is named; only the digest of exactly that state deletes it.
func TestRemoveKeepsWork(t *testing.T) {
	for name, c := range map[string]struct {
		work func(t *testing.T, dir string)
		more func(t *testing.T, dir string) // makes another state of it
		want string
	}{
		"uncommitted": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a"), "22\n") },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a"), "33\n") }, "uncommitted changes (1): a"},
		"staged and taken back": {
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "a"), "2\n")
				gitIn(t, dir, "add", "a")
				write(t, filepath.Join(dir, "a"), "1\n")
			},
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "a"), "3\n")
				gitIn(t, dir, "add", "a")
				write(t, filepath.Join(dir, "a"), "1\n")
			}, "uncommitted changes (1): a"},
		"hidden": {
			func(t *testing.T, dir string) {
				gitIn(t, dir, "update-index", "--skip-worktree", "a")
				write(t, filepath.Join(dir, "a"), "2\n")
			},
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a"), "3\n") }, "uncommitted changes (1): a"},
		"untracked": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "n\nw"), "1\n") },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "n\nw"), "2\n") }, `untracked files (1): "n\nw"`},
		"ignored": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "x.ignored"), "1\n") },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "x.ignored"), "12\n") }, "ignored files (1): x.ignored"},
		"ignored folder": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "build/x"), "1\n") },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "build/y"), "1\n") }, "ignored files (1): build/"},
		"repository inside": {
			func(t *testing.T, dir string) { repo(t, filepath.Join(dir, "inner")) },
			func(t *testing.T, dir string) { commitAll(t, filepath.Join(dir, "inner"), "more") }, "repositories inside (1): inner"},
		"repository inside, committed": {
			func(t *testing.T, dir string) { repo(t, filepath.Join(dir, "inner")); commitAll(t, dir, "gitlink") },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "inner", "f"), "1\n") }, "repositories inside (1): inner"},
		"commits on no branch": {
			func(t *testing.T, dir string) {
				gitIn(t, dir, "checkout", "-q", "--detach")
				commitAll(t, dir, "loose")
			},
			func(t *testing.T, dir string) { commitAll(t, dir, "more") }, "commits on no branch (1)"},
		// Git status is empty then: the work is a commit that only the rebase knows.
		"set aside by a rebase": {
			func(t *testing.T, dir string) {
				commitAll(t, dir, "second")
				write(t, filepath.Join(dir, "a"), "precious\n")
				gitIn(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "sequence.editor=sed -i.old s/^pick/edit/",
					"rebase", "-q", "-i", "--autostash", "--keep-empty", "HEAD~1")
			},
			func(t *testing.T, dir string) { commitAll(t, dir, "more") }, "a rebase under way"},
		"a reference of its own": {
			func(t *testing.T, dir string) {
				gitIn(t, dir, "checkout", "-q", "--detach")
				commitAll(t, dir, "kept")
				gitIn(t, dir, "update-ref", "refs/worktree/kept", "HEAD")
				gitIn(t, dir, "checkout", "-q", "reeve/"+mission)
			},
			func(t *testing.T, dir string) { gitIn(t, dir, "update-ref", "refs/worktree/kept", "HEAD") }, "references of its own (1): refs/worktree/kept"},
	} {
		t.Run(name, func(t *testing.T) {
			run, w := worktree(t)
			c.work(t, w.Path)
			kept := func(discard string) {
				t.Helper()
				_, err := checkout.RemoveWorktree(t.Context(), run, w, discard)
				refused(t, err, "was kept", c.want)
				if !there(filepath.Join(w.Path, ".git")) || !there(w.GitDir) {
					t.Fatal("it was not kept")
				}
			}
			kept("")
			kept("yes")
			seen := look(t, run, w)
			if again := look(t, run, w); seen.Clean() || again.Digest != seen.Digest {
				t.Errorf("two looks at one state: %+v and %+v", seen, again)
			}
			c.more(t, w.Path)
			if s := look(t, run, w); s.Digest == seen.Digest {
				t.Error("the digest does not tell the two states apart")
			}
			_, err := checkout.RemoveWorktree(t.Context(), run, w, seen.Digest)
			refused(t, err, "was kept")
			if _, err := checkout.RemoveWorktree(t.Context(), run, w, look(t, run, w).Digest); err != nil {
				t.Fatal(err)
			}
			if there(w.Path) || there(w.GitDir) {
				t.Error("it is still there")
			}
		})
	}
}

// TestRemoveKeepsUnpushedCommits is case 34: the folder goes, the branch stays
// while its commits are nowhere else.
func TestRemoveKeepsUnpushedCommits(t *testing.T) {
	for name, c := range map[string]struct {
		then func(t *testing.T, w checkout.Worktree)
		want checkout.WorktreeState
		kept bool
	}{
		"unpushed": {func(*testing.T, checkout.Worktree) {}, checkout.WorktreeState{Ahead: 1, Unpushed: 1}, true},
		"pushed": {func(t *testing.T, w checkout.Worktree) {
			remote := filepath.Join(t.TempDir(), "remote")
			gitIn(t, w.Repository, "init", "-q", "--bare", remote)
			gitIn(t, w.Repository, "remote", "add", "origin", remote)
			gitIn(t, w.Path, "push", "-q", "origin", "HEAD")
		}, checkout.WorktreeState{Ahead: 1, Pushed: true}, true},
		"merged": {func(t *testing.T, w checkout.Worktree) { gitIn(t, w.Repository, "merge", "-q", w.Branch) },
			checkout.WorktreeState{Ahead: 1, Unpushed: 1, Merged: true}, false},
		"checked out elsewhere": {func(t *testing.T, w checkout.Worktree) {
			gitIn(t, w.Repository, "merge", "-q", w.Branch)
			gitIn(t, w.Path, "checkout", "-q", "--detach")
			gitIn(t, w.Repository, "worktree", "add", "-q", filepath.Join(t.TempDir(), "x"), w.Branch)
		}, checkout.WorktreeState{Ahead: 1, Unpushed: 1, Merged: true}, true},
		"folder gone": {func(t *testing.T, w checkout.Worktree) {
			if err := os.RemoveAll(w.Path); err != nil {
				t.Fatal(err)
			}
		}, checkout.WorktreeState{Missing: true, Ahead: 1, Unpushed: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			run, w := worktree(t)
			// Another worktree whose folder is away for now, as on a removed disk.
			away := filepath.Join(filepath.Dir(w.Path), "away")
			gitIn(t, w.Repository, "worktree", "add", "-q", away)
			if err := os.RemoveAll(away); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(w.Path, "b"), "1\n")
			commitAll(t, w.Path, "work")
			c.then(t, w)
			s := look(t, run, w)
			c.want.Tip, c.want.Digest = s.Tip, s.Digest
			if s.Ahead != c.want.Ahead || s.Unpushed != c.want.Unpushed || s.Pushed != c.want.Pushed || s.Merged != c.want.Merged || s.Missing != c.want.Missing || !s.Clean() {
				t.Errorf("%+v, want %+v", s, c.want)
			}
			left, err := checkout.RemoveWorktree(t.Context(), run, w, "")
			if err != nil {
				t.Fatal(err)
			}
			if kept := strings.Contains(branches(t, w.Repository), w.Branch); kept != c.kept || (left.Branch != "") != kept {
				t.Errorf("kept: %v, said: %+v", kept, left)
			}
			if c.kept && !s.Merged && left.Unpushed != s.Unpushed {
				t.Errorf("said: %+v", left)
			}
			if there(w.Path) || there(w.GitDir) {
				t.Error("it is still there")
			}
			if !there(filepath.Join(w.Repository, ".git", "worktrees", "away")) {
				t.Error("another worktree was forgotten")
			}
			gitIn(t, w.Repository, "fsck", "--strict")
		})
	}
}

// TestRemoveOnlyWhatWasMade is case 34: nothing but exactly the worktree that
// was made is deleted.
func TestRemoveOnlyWhatWasMade(t *testing.T) {
	move := func(t *testing.T, w checkout.Worktree) string {
		to := filepath.Join(filepath.Dir(w.Path), "moved")
		if err := os.Rename(w.Path, to); err != nil {
			t.Fatal(err)
		}
		return to
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, w *checkout.Worktree) (guarded string)
		want   string
	}{
		"symbolic link": {func(t *testing.T, w *checkout.Worktree) string {
			to := move(t, *w)
			if err := os.Symlink(to, w.Path); err != nil {
				t.Fatal(err)
			}
			return to
		}, "symbolic link"},
		"another repository": {func(t *testing.T, w *checkout.Worktree) string { move(t, *w); return repo(t, w.Path) }, "a repository of its own"},
		"another folder":     {func(t *testing.T, w *checkout.Worktree) string { move(t, *w); write(t, w.Path+"/a", ""); return w.Path }, "has no .git file"},
		"a file":             {func(t *testing.T, w *checkout.Worktree) string { move(t, *w); write(t, w.Path, ""); return w.Path }, "is no folder"},
		"another worktree": {func(t *testing.T, w *checkout.Worktree) string {
			move(t, *w)
			other := filepath.Join(filepath.Dir(w.Path), "other")
			gitIn(t, w.Repository, "worktree", "add", "-q", other)
			if err := os.Rename(other, w.Path); err != nil {
				t.Fatal(err)
			}
			return w.Path
		}, "leads elsewhere"},
		"the main working tree": {func(_ *testing.T, w *checkout.Worktree) string { w.Path = w.Repository; return w.Path }, "main working tree"},
		"a main one by its link": {func(t *testing.T, w *checkout.Worktree) string {
			w.Path = filepath.Join(t.TempDir(), "l")
			if err := os.Symlink(w.Repository, w.Path); err != nil {
				t.Fatal(err)
			}
			return w.Repository
		}, "main working tree"},
		"another repository's": {func(t *testing.T, w *checkout.Worktree) string {
			path := w.Path
			w.Repository = repo(t, filepath.Join(t.TempDir(), "other"))
			return path
		}, "does not belong to"},
		"not made": {func(_ *testing.T, w *checkout.Worktree) string { w.GitDir = ""; return w.Path }, "never made"},
		"git dir of the main one": {func(_ *testing.T, w *checkout.Worktree) string {
			w.GitDir = filepath.Join(w.Repository, ".git")
			return w.Path
		}, "does not belong to"},
		"record of another folder": {func(t *testing.T, w *checkout.Worktree) string {
			write(t, filepath.Join(w.GitDir, "gitdir"), filepath.Join(w.Repository, ".git")+"\n")
			return w.Path
		}, "names another folder"},
		"moved": {func(t *testing.T, w *checkout.Worktree) string {
			to := filepath.Join(filepath.Dir(w.Path), "moved")
			gitIn(t, w.Repository, "worktree", "move", w.Path, to)
			return to
		}, "was moved to"},
		"locked": {func(t *testing.T, w *checkout.Worktree) string {
			gitIn(t, w.Repository, "worktree", "lock", w.Path)
			return w.Path
		}, "is locked"},
	} {
		t.Run(name, func(t *testing.T) {
			run, w := worktree(t)
			main := w.Repository
			guarded := c.change(t, &w)
			_, err := checkout.RemoveWorktree(t.Context(), run, w, "")
			refused(t, err, c.want)
			if !there(guarded) || !there(filepath.Join(main, "a")) {
				t.Error("something was deleted")
			}
			gitIn(t, main, "fsck", "--strict")
		})
	}
}

// TestRemoveFollowsNoLink is case 34: what links inside point to stays.
func TestRemoveFollowsNoLink(t *testing.T) {
	run, w := worktree(t)
	out := t.TempDir()
	write(t, filepath.Join(out, "deep/precious"), "1\n")
	for name, to := range map[string]string{"dir": out, "file": filepath.Join(out, "deep/precious"), "up": "..", "main": w.Repository, "git": filepath.Join(w.Repository, ".git"), "build": filepath.Join(out, "deep")} {
		if err := os.Symlink(to, filepath.Join(w.Path, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(w.Path, "sub/x"), "1\n")
	if err := os.Symlink(out, filepath.Join(w.Path, "sub/dir")); err != nil {
		t.Fatal(err)
	}
	if _, err := checkout.RemoveWorktree(t.Context(), run, w, look(t, run, w).Digest); err != nil {
		t.Fatal(err)
	}
	if there(w.Path) {
		t.Error("it is still there")
	}
	if read(t, filepath.Join(out, "deep/precious")) != "1\n" || read(t, filepath.Join(w.Repository, "a")) != "1\n" {
		t.Error("a link was followed")
	}
	gitIn(t, w.Repository, "fsck", "--strict")
}

func TestCommitRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, w checkout.Worktree)
		home string
		want string
	}{
		"nothing":        {make: func(*testing.T, checkout.Worktree) {}, want: "is committed"},
		"another branch": {make: func(t *testing.T, w checkout.Worktree) { gitIn(t, w.Path, "checkout", "-q", "-b", "x") }, want: "not on its branch"},
		"under way":      {make: func(t *testing.T, w checkout.Worktree) { write(t, filepath.Join(w.GitDir, "MERGE_HEAD"), "") }, want: "merge is under way"},
		"nested":         {make: func(t *testing.T, w checkout.Worktree) { repo(t, filepath.Join(w.Path, "inner")) }, want: "inner/"},
		"gone":           {make: func(_ *testing.T, w checkout.Worktree) { _ = os.RemoveAll(w.Path) }, want: "is gone"},
		"nobody":         {make: func(t *testing.T, w checkout.Worktree) { write(t, filepath.Join(w.Path, "b"), "1\n") }, home: "/nonexistent", want: "user.email"},
	} {
		t.Run(name, func(t *testing.T) {
			run, w := worktree(t)
			if c.home != "" {
				run = execWith(c.home)
			}
			c.make(t, w)
			refused(t, checkout.CommitWorktree(t.Context(), run, w, "work"), c.want)
		})
	}
}

// TestInspectWorktreeChangesNothing: looking leaves no trace.
func TestInspectWorktreeChangesNothing(t *testing.T) {
	run, w := worktree(t)
	write(t, filepath.Join(w.Path, "a"), "2\n")
	if err := os.Chtimes(filepath.Join(w.Path, ".gitignore"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err) // git would like to note that in its index
	}
	before, index := person(t, w.Repository), read(t, filepath.Join(w.GitDir, "index"))
	s := look(t, run, w)
	if s.Uncommitted.Count != 1 || s.Uncommitted.First[0] != "a" {
		t.Errorf("%+v", s)
	}
	if person(t, w.Repository) != before || read(t, filepath.Join(w.GitDir, "index")) != index {
		t.Error("looking changed something")
	}
}

// TestSlowGitHasTime: what goes through all files of a large repository is not
// cut off with the commands that answer at once.
func TestSlowGitHasTime(t *testing.T) {
	t.Parallel()
	direct := directExec(t)
	within := map[string]time.Duration{}
	run := func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		within[c.Args[0]] = c.Within
		return direct(ctx, c)
	}
	dir := repo(t, filepath.Join(t.TempDir(), "project"))
	w, err := plan(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if w, err = checkout.AddWorktree(t.Context(), run, w); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.Path, "a"), "1\n")
	if _, err := checkout.TakeBase(t.Context(), run, w.Path, mission); err != nil {
		t.Fatal(err)
	}
	if err := checkout.CommitWorktree(t.Context(), run, w, "work"); err != nil {
		t.Fatal(err)
	}
	if _, err := checkout.MergeWorktree(t.Context(), run, w); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"worktree", "add", "commit", "merge"} {
		if within[command] < 10*time.Minute {
			t.Errorf("git %s has %v", command, within[command])
		}
	}
}
