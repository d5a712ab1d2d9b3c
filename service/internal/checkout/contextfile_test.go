package checkout_test

import (
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
)

// The files for bridges are no work: not in a base, a diff or a commit, even
// where the repository's own .gitignore brings back what info/exclude leaves
// out, and they keep no worktree from being removed. One that was tracked before
// is work like any other.
func TestFilesForBridges(t *testing.T) {
	run, w := worktree(t)
	mine := contextfile.Context{Entry: "m-01", Room: "r-01", Attempt: "a-01", Execution: "x-01"}
	if err := contextfile.Write(w.Path, mine); err != nil {
		t.Fatal(err)
	}
	if s := look(t, run, w); !s.Clean() {
		t.Errorf("a worktree with them has %+v", s)
	}
	before := look(t, run, w).Digest
	write(t, filepath.Join(w.Path, ".gitignore"), "*\n!.*\n!a\n")
	base := takeBase(t, run, w.Path)
	if got := gitOut(t, w.Path, "ls-tree", "-r", "--name-only", base.Tree); got != ".gitignore\na" {
		t.Errorf("the base has %q", got)
	}
	write(t, filepath.Join(w.Path, "a"), "2\n")
	same(t, summary(diff(t, run, w.Path, base.Tree, "", "")), []string{"modified a +1-1"})
	if s := look(t, run, w); s.Untracked.Count+s.Ignored.Count > 0 || s.Uncommitted.Count != 2 {
		t.Errorf("it has %+v", s)
	}
	if err := checkout.CommitWorktree(t.Context(), run, w, "work"); err != nil {
		t.Fatal(err)
	}
	if got := gitOut(t, w.Path, "ls-tree", "-r", "--name-only", "HEAD"); got != ".gitignore\na" {
		t.Errorf("the commit has %q", got)
	}
	if err := contextfile.Remove(w.Path, mine.Attempt); err != nil {
		t.Fatal(err)
	}
	if now := look(t, run, w); !now.Clean() || now.Digest == before {
		t.Errorf("afterwards %+v", now)
	}

	// Tracked by the agent, which says so.
	write(t, filepath.Join(w.Path, ".reeve-work-attempt.json"), "1\n")
	gitIn(t, w.Path, "add", "-f", ".reeve-work-attempt.json")
	same(t, summary(diff(t, run, w.Path, base.Tree, "", "")), []string{"added .reeve-work-attempt.json +1-0", "modified a +1-1"})
}

// Coming and going they don't change what a removal is about.
func TestFilesForBridgesInADigest(t *testing.T) {
	run, w := worktree(t)
	write(t, filepath.Join(w.Path, "new"), "1\n")
	mine := contextfile.Context{Entry: "m-01", Room: "r-01", Attempt: "a-01", Execution: "x-01"}
	if err := contextfile.Write(w.Path, mine); err != nil {
		t.Fatal(err)
	}
	seen := look(t, run, w)
	if err := contextfile.Remove(w.Path, mine.Attempt); err != nil {
		t.Fatal(err)
	}
	if now := look(t, run, w); now.Digest != seen.Digest || seen.Untracked.Count != 1 {
		t.Errorf("seen %+v, now %+v", seen, now)
	}
	if _, err := checkout.RemoveWorktree(t.Context(), run, w, seen.Digest); err != nil {
		t.Error(err)
	}
}
