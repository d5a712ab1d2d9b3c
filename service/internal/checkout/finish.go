package checkout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
)

// CommitWorktree commits everything that is not ignored on the worktree's
// branch, with the name and address that the person configured for git. Hooks
// do not run, since the agent could have written them, and nothing is signed,
// since nobody could be asked for a key. It refuses when HEAD is
// on another branch, a merge or rebase is under way, a repository inside would
// be committed without its files, there is nothing to commit, or no name is
// configured.
func CommitWorktree(ctx context.Context, run Git, w Worktree, message string) error {
	s, err := InspectWorktree(ctx, run, w)
	if err != nil {
		return err
	}
	if s.Missing {
		return refuse("worktree", fmt.Sprintf("The worktree %s is gone.", w.Path), "What was committed is on the branch "+w.Branch+".")
	}
	on, err := head(ctx, w.Path)
	if err != nil {
		return err
	}
	if on != "refs/heads/"+w.Branch {
		return refuse("branch", fmt.Sprintf("The worktree %s is not on its branch %s.", w.Path, w.Branch), "Switch it back with git switch, or commit by hand.")
	}
	if len(s.UnderWay) > 0 {
		return refuse("under way", fmt.Sprintf("A %s is under way in %s.", s.UnderWay[0], w.Path), "Finish or abort it first.")
	}
	for _, p := range s.Untracked.First {
		if strings.HasSuffix(p, "/") {
			return refuse("nested repository", fmt.Sprintf("%s in %s is a repository of its own, whose files would not be committed.", p, w.Path), "Move it out, or make it a submodule by hand.")
		}
	}
	if s.Uncommitted.Count+s.Untracked.Count == 0 {
		return refuse("nothing to commit", fmt.Sprintf("Everything in %s is committed.", w.Path), "Merge the branch, or remove the worktree.")
	}
	a := at{run: run, dir: w.Path, within: slowLimit, config: append([]string{"user.useConfigOnly=true"}, offline...)}
	tracked, err := a.list(ctx, append([]string{"ls-files", "-z", "--"}, contextfile.Names()...)...)
	if err != nil {
		return err
	}
	if _, err = a.call(ctx, nil, "add", "-A"); err == nil {
		err = a.leaveOut(ctx, func(path string) bool { return slices.Contains(tracked, path) })
	}
	if err == nil {
		_, err = a.call(ctx, []byte(message), "commit", "--quiet", "--no-verify", "--no-status", "-F", "-")
	}
	if why := said(err); why != "" {
		return refuse("commit", fmt.Sprintf("Git could not commit in %s: %s", w.Path, why), "Mend what git names (a missing name is set with git config user.name and user.email), then try again.")
	}
	return err
}

// MergeWorktree merges the worktree's branch into the branch that is checked
// out in Repository, by fast-forward where that is possible, and returns the
// commit that is HEAD there afterwards. A folder that is gone is no hindrance.
// It refuses when either side has uncommitted work, when a file that git does
// not track is in the way, and on a conflict, which is undone wholly. The
// caller makes sure that no mission works in Repository.
func MergeWorktree(ctx context.Context, run Git, w Worktree) (string, error) {
	s, err := InspectWorktree(ctx, run, w)
	if err != nil {
		return "", err
	}
	switch {
	case s.Uncommitted.Count+s.Untracked.Count > 0:
		return "", refuse("uncommitted work", fmt.Sprintf("The worktree %s has work that is not committed: %s.", w.Path, listing(append(s.Uncommitted.First, s.Untracked.First...))), "Commit it first, or take it back.")
	case s.Loose > 0:
		return "", refuse("branch", fmt.Sprintf("The worktree %s has commits that are not on its branch %s.", w.Path, w.Branch), "Put them on the branch first, with git branch or git cherry-pick.")
	case s.Tip == "":
		return "", refuse("branch", fmt.Sprintf("The branch %s is gone.", w.Branch), "Look for its commits with git reflog.")
	case s.Merged:
		return "", refuse("merged already", fmt.Sprintf("All commits of %s are in %s already.", w.Branch, w.Repository), "Remove the worktree.")
	case s.Ahead == 0:
		return "", refuse("nothing to merge", fmt.Sprintf("The branch %s has no commits of its own.", w.Branch), "Remove the worktree, or commit first.")
	}
	on, err := head(ctx, w.Repository)
	if err != nil {
		return "", err
	}
	into, ok := strings.CutPrefix(on, "refs/heads/")
	if !ok {
		return "", refuse("detached", fmt.Sprintf("%s has no branch checked out.", w.Repository), "Switch to the branch that shall get the work.")
	}
	gitDir, err := ownDir(ctx, w.Repository)
	if err != nil {
		return "", err
	}
	if what := underWayIn(gitDir); len(what) > 0 {
		return "", refuse("under way", fmt.Sprintf("A %s is under way in %s.", what[0], w.Repository), "Finish or abort it first.")
	}
	before, err := commit(ctx, w.Repository, "HEAD")
	if err != nil {
		return "", err
	}
	a := at{run: run, dir: w.Repository, within: slowLimit, config: []string{"user.useConfigOnly=true", "rerere.enabled=false", "merge.directoryRenames=false"}}
	changed, err := a.list(ctx, "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return "", err
	}
	if len(changed) > 0 {
		for i, e := range changed {
			changed[i] = e[min(3, len(e)):]
		}
		return "", refuse("uncommitted work", fmt.Sprintf("%s has changes that are not committed: %s.", w.Repository, listing(changed)), "Commit or stash them first.")
	}
	new, err := a.added(ctx, s.Tip, before)
	if err != nil {
		return "", err
	}
	had, err := a.touched(ctx, before, s.Tip)
	if err != nil {
		return "", err
	}
	if blocked := inTheWay(w.Repository, new); len(blocked) > 0 {
		return "", refuse("in the way", fmt.Sprintf("Files in %s that git does not track would be overwritten: %s.", w.Repository, listing(blocked)), "Move them away first.")
	}

	m := a
	m.whole = true
	merge := m
	merge.undo = []GitUndo{{Args: []string{"merge", "--abort"}}}
	if len(had) > 0 {
		// To HEAD, which the merge may have moved at its very end.
		merge.undo = append(merge.undo, GitUndo{Args: restore("HEAD"), Stdin: nul(had), CutOff: true})
	}
	_, err = merge.call(ctx, nil, "merge", "--quiet", "--ff", "--commit", "--no-squash", "--no-edit", "--no-verify", "--no-autostash", "--no-stat", "--no-rerere-autoupdate",
		"-m", fmt.Sprintf("Merge branch '%s' into %s", w.Branch, into), s.Tip)
	if errors.Is(err, ErrGoesOn) {
		return "", err
	}
	// Git has ended, and what it left is looked after whoever waits for it.
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		return commit(ctx, w.Repository, "HEAD")
	}
	why := said(err)
	if _, gone := os.Lstat(filepath.Join(gitDir, "MERGE_HEAD")); gone == nil {
		conflicts, listed := m.list(ctx, "diff", "--name-only", "-z", "--diff-filter=U", "--no-ext-diff", "--ignore-submodules=dirty")
		if _, undo := m.call(ctx, nil, "merge", "--abort"); undo != nil {
			return "", refuse("merge conflict", fmt.Sprintf("The merge of %s into %s stopped, and could not be undone: %s", w.Branch, w.Repository, said(undo)), "Run git status there, then git merge --abort.")
		}
		if listed == nil && len(conflicts) > 0 {
			return "", refuse("merge conflict", fmt.Sprintf("%s and %s changed the same places of %s. Nothing was merged.", w.Branch, into, listing(conflicts)), "Merge by hand in the editor: git merge "+w.Branch+".")
		}
	}
	if now, at := commit(ctx, w.Repository, "HEAD"); at != nil || now != before {
		return "", err
	}
	if code := exit(err); code != 1 && code != 2 { // with these git refused, and touched nothing
		if undo := m.takeBack(ctx, before, new, had); undo != nil {
			return "", refuse("merge", fmt.Sprintf("The merge of %s into %s was cut off (%v), and could not be taken back: %v.", w.Branch, w.Repository, err, undo), "Run git status there; git restore brings back the files that it names.")
		}
	}
	if why == "" {
		return "", refuse("merge", fmt.Sprintf("The merge of %s into %s was cut off, and nothing was merged: %v.", w.Branch, w.Repository, err), "See that no filter of the repository hangs, then try again.")
	}
	return "", refuse("merge", fmt.Sprintf("Git could not merge %s in %s: %s", w.Branch, w.Repository, why), "Mend what git names, then try again.")
}

// inTheWay lists what is there of files that a merge makes: it overwrites
// ignored files without a word.
func inTheWay(dir string, new []string) (blocked []string) {
	for _, p := range new {
		if found := first(dir, p); found != "" {
			blocked = append(blocked, found)
		}
	}
	return blocked
}

// added lists what the branch added and HEAD does not track: the files that a
// merge makes.
func (a at) added(ctx context.Context, tip, head string) ([]string, error) {
	added, err := a.list(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=A", head+"..."+tip)
	if err != nil || len(added) == 0 {
		return nil, err
	}
	untracked, err := a.list(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=A", head, tip)
	if err != nil {
		return nil, err
	}
	new := map[string]bool{}
	for _, p := range untracked {
		new[p] = true
	}
	return slices.DeleteFunc(added, func(p string) bool { return !new[p] }), nil
}

// first returns what stands in the way of a new file at rel: that file, or one
// where a folder is needed, else "".
func first(root, rel string) string {
	for i := 0; i < len(rel); i++ {
		if rel[i] == '/' {
			if info, err := os.Lstat(filepath.Join(root, rel[:i])); err != nil {
				return ""
			} else if !info.IsDir() {
				return rel[:i]
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(root, rel)); err != nil {
		return ""
	}
	return rel
}

// some quotes a few of many paths for a sentence.
func listing(paths []string) string {
	const most = 5
	var b strings.Builder
	for i, p := range paths {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(paths)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == '"' || r == 0x7f || r == 0xfffd }) {
			p = fmt.Sprintf("%q", p)
		}
		b.WriteString(p)
	}
	return b.String()
}

// Removed says what a removal left.
type Removed struct {
	Branch   string // the branch that was kept, "" when it went too
	Unpushed int    // commits on it that are nowhere else: in no remote, and not merged
}

// RemoveWorktree deletes the folder of a worktree and git's record of it. What
// would be lost (see WorktreeState.Clean) is deleted only when discard repeats
// the Digest of the state as it is now. The branch goes when it is merged or has
// no commits of its own, else it is kept.
//
// It refuses when the path is not exactly the worktree that was made: a symbolic
// link, a mount (or one inside), another repository, the main working tree. It
// deletes through the opened folder, so that nothing outside is reached however
// the folder changes meanwhile. A removal that was cut short can be repeated.
func RemoveWorktree(ctx context.Context, run Git, w Worktree, discard string) (Removed, error) {
	s, err := InspectWorktree(ctx, run, w)
	if err != nil {
		return Removed{}, err
	}
	if !s.Clean() && discard != s.Digest {
		return Removed{}, refuse("uncommitted work", fmt.Sprintf("The worktree %s was kept: it has %s.", w.Path, s.lost()), "Commit what is needed, or confirm that this is deleted.")
	}
	if _, err := os.Lstat(filepath.Join(w.GitDir, "locked")); err == nil {
		return Removed{}, refuse("locked", fmt.Sprintf("The worktree %s is locked.", w.Path), "Unlock it first, with git worktree unlock.")
	}
	if !s.Missing {
		if err := w.delete(ctx); err != nil {
			return Removed{}, err
		}
	}
	a := at{run: run, dir: w.Repository, config: offline}
	if _, err := os.Lstat(w.GitDir); err == nil {
		// With the folder gone this deletes nothing but git's record.
		if _, err := a.call(ctx, nil, "worktree", "remove", "--force", "--", w.Path); err != nil {
			return Removed{}, err
		}
	}
	if s.Tip == "" {
		return Removed{}, nil
	}
	left := Removed{Branch: w.Branch}
	if !s.Merged {
		left.Unpushed = s.Unpushed
	}
	if s.Merged || s.Ahead == 0 {
		// Git looks once more whether the branch is merged and used nowhere else.
		if _, err := a.call(ctx, nil, "branch", "--quiet", "-d", "--", w.Branch); err == nil {
			return Removed{}, nil
		} else if exit(err) <= 0 {
			return left, err
		}
	}
	return left, nil
}

// lost lists in words what a removal would delete.
func (s WorktreeState) lost() string {
	var all []string
	for _, part := range []struct {
		p    Paths
		what string
	}{
		{s.Uncommitted, "uncommitted changes"}, {s.Untracked, "untracked files"},
		{s.Ignored, "ignored files"}, {s.Nested, "repositories inside"},
	} {
		if part.p.Count > 0 {
			all = append(all, fmt.Sprintf("%s (%d): %s", part.what, part.p.Count, listing(part.p.First)))
		}
	}
	if s.Loose > 0 {
		all = append(all, fmt.Sprintf("commits on no branch (%d)", s.Loose))
	}
	for _, what := range s.UnderWay {
		all = append(all, fmt.Sprintf("a %s under way, with what it set aside", what))
	}
	if s.Refs.Count > 0 {
		all = append(all, fmt.Sprintf("references of its own (%d): %s", s.Refs.Count, listing(s.Refs.First)))
	}
	return strings.Join(all, "; ")
}

// delete empties the folder through its handle, the .git file last, so that a
// folder that was emptied in part is still known as the worktree.
func (w Worktree) delete(ctx context.Context) error {
	root, err := w.open(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	err = empty(ctx, root)
	if err := errors.Join(err, root.Close()); err != nil {
		return fmt.Errorf("remove the worktree %s: %w", w.Path, err)
	}
	if err := os.Remove(w.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the emptied worktree %s: %w", w.Path, err)
	}
	return nil
}

func empty(ctx context.Context, root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if name == ".git" {
			continue
		}
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return root.Remove(".git")
}
