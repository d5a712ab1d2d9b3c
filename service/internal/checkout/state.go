package checkout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
)

// Paths are some paths of many.
type Paths struct {
	First []string // at most 200, slash-separated and relative to the worktree
	Count int      // of all
}

const maxPaths = 200

func (p *Paths) add(path string) {
	if p.Count++; p.Count <= maxPaths {
		p.First = append(p.First, path)
	}
}

// WorktreeState is what would be lost or left behind if a worktree went.
type WorktreeState struct {
	Missing     bool  // the folder is gone
	Uncommitted Paths // tracked files with changes, staged or not, hidden from git status or not
	Untracked   Paths // a repository inside is one path that ends with a slash
	Ignored     Paths // ignored, but there; a whole ignored folder is one path that ends with a slash
	Nested      Paths // repositories inside, submodules too, with a history of their own
	Loose       int   // commits of a detached HEAD that no branch, tag or remote holds
	// UnderWay names a rebase, a merge or the like that is under way: what it set
	// aside (an autostash) is nowhere else. Refs are refs/worktree, which no other
	// worktree has.
	UnderWay []string
	Refs     Paths
	Tip      string // commit of the branch, "" when the branch is gone
	Ahead    int    // commits on the branch since Base
	Merged   bool   // the branch's tip can be reached from the repository's HEAD
	Unpushed int    // of these, commits that are in no remote
	Pushed   bool   // there are commits since Base, and each is in a remote
	// Digest is of all of it and of the content, so that a removal names exactly
	// what a person saw. Ignored files count by name, size and time.
	Digest string
}

// Clean says that the folder can go without losing anything: commits stay on
// the branch. Ignored files count as work, since a .env or a local database is
// nowhere else.
func (s WorktreeState) Clean() bool {
	return s.Uncommitted.Count+s.Untracked.Count+s.Ignored.Count+s.Nested.Count+s.Loose+len(s.UnderWay)+s.Refs.Count == 0
}

// InspectWorktree looks at a worktree and changes nothing. It refuses when what
// is at the path is not the worktree that was made.
func InspectWorktree(ctx context.Context, run Git, w Worktree) (WorktreeState, error) {
	var s WorktreeState
	digest := sha256.New()
	root, err := w.open(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Missing = true
	case err != nil:
		return s, err
	default:
		err = s.files(ctx, run, w, digest)
		if err := errors.Join(err, root.Close()); err != nil {
			return s, err
		}
	}
	if err := s.gitDir(ctx, run, w, digest); err != nil {
		return s, err
	}
	if err := s.commits(ctx, run, w); err != nil {
		return s, err
	}
	fmt.Fprintf(digest, "%+v\x00%+v", w, s)
	s.Digest = hex.EncodeToString(digest.Sum(nil))
	return s, nil
}

// files fills in what lies in the folder and is not committed.
func (s *WorktreeState) files(ctx context.Context, run Git, w Worktree, digest io.Writer) error {
	a := at{run: run, dir: w.Path, config: offline}
	status, err := a.call(ctx, nil, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames", "--ignore-submodules=none")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range split(status) {
		kind, rest, _ := strings.Cut(e, " ")
		if (kind == "?" || kind == "!") && contextfile.Is(rest) {
			continue // Reeve's own, in nobody's way
		}
		fmt.Fprintf(digest, "%s\x00", e)
		if n := fieldsBefore[kind]; n > 0 {
			rest = strings.SplitN(rest, " ", n+1)[n]
		}
		switch seen[strings.TrimSuffix(rest, "/")] = true; kind {
		case "1", "u":
			s.Uncommitted.add(rest)
		case "?":
			s.Untracked.add(rest)
		case "!":
			s.Ignored.add(rest)
			if err := stamp(digest, w.Path, rest); err != nil {
				return err
			}
		default:
			return fmt.Errorf("git status in %s: unexpected entry %q", w.Path, e)
		}
	}

	// The content, and what status was told not to look at.
	x, err := stage(ctx, run, w.Path)
	if err != nil {
		return err
	}
	defer x.close()
	tree, err := x.line(ctx, "write-tree")
	if err != nil {
		return err
	}
	fmt.Fprintf(digest, "%s\x00%s\x00", tree, x.unread)
	now, err := commit(ctx, w.Path, "HEAD")
	if err != nil {
		return err
	}
	nested := map[string]bool{}
	if now != "" {
		out, err := x.list(ctx, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--ignore-submodules=none", now)
		if err != nil {
			return err
		}
		for pair := range slices.Chunk(out, 2) {
			if len(pair) != 2 {
				return fmt.Errorf("git diff-index in %s: unexpected answer", w.Path)
			}
			if mode := strings.Fields(pair[0]); len(mode) > 1 && mode[1] == gitlink {
				x.tracked = append(x.tracked, tracked{gitlink, pair[1]})
			}
			if !seen[pair[1]] {
				s.Uncommitted.add(pair[1])
			}
		}
	}
	for _, t := range x.tracked {
		if t.mode == gitlink {
			if _, err := entry(w.Path, t.path+"/.git"); err == nil {
				nested[t.path] = true
			}
		}
	}
	// A submodule keeps its history there even when its folder is empty.
	modules, err := os.ReadDir(filepath.Join(w.GitDir, "modules"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the submodules of %s: %w", w.Path, err)
	}
	for _, m := range modules {
		nested[m.Name()] = true
	}
	for _, name := range sorted(nested) {
		s.Nested.add(name)
	}

	var on string
	if now != "" { // else the branch that HEAD names has no commit
		if on, err = head(ctx, w.Path); err != nil {
			return err
		}
	}
	fmt.Fprintf(digest, "%s\x00%s\x00", on, now)
	if on == "HEAD" {
		s.Loose, err = a.count(ctx, now, "--not", "--branches", "--tags", "--remotes")
	}
	return err
}

const gitlink = "160000"

// fieldsBefore is how many fields of a porcelain v2 entry stand between its
// kind and its path.
var fieldsBefore = map[string]int{"1": 7, "u": 9}

// gitDir fills in what lies in the worktree's own git directory alone, which
// goes with the worktree, also when the folder is gone already.
func (s *WorktreeState) gitDir(ctx context.Context, run Git, w Worktree, digest io.Writer) error {
	if _, err := os.Lstat(w.GitDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.UnderWay = underWayIn(w.GitDir)
	for _, file := range slices.Sorted(maps.Keys(underWay)) {
		if err := stamp(digest, w.GitDir, file); err != nil {
			return err
		}
	}
	a := at{run: run, dir: w.Repository, config: offline, env: []string{"GIT_DIR=" + w.GitDir}}
	refs, err := a.line(ctx, "for-each-ref", "--format=%(refname) %(objectname)", "refs/worktree/")
	if err != nil {
		return err
	}
	for line := range strings.Lines(refs) {
		fmt.Fprintf(digest, "%s\x00", line)
		name, _, _ := strings.Cut(line, " ")
		s.Refs.add(name)
	}
	return nil
}

// commits fills in what the branch has.
func (s *WorktreeState) commits(ctx context.Context, run Git, w Worktree) error {
	var err error
	if s.Tip, err = commit(ctx, w.Repository, "refs/heads/"+w.Branch); err != nil || s.Tip == "" || s.Tip == w.Base {
		return err
	}
	a := at{run: run, dir: w.Repository, config: offline}
	if s.Ahead, err = a.count(ctx, s.Tip, "^"+w.Base); err != nil {
		return err
	}
	if s.Ahead > 0 {
		if s.Unpushed, err = a.count(ctx, s.Tip, "^"+w.Base, "--not", "--remotes"); err != nil {
			return err
		}
		s.Pushed = s.Unpushed == 0
	}
	now, err := commit(ctx, w.Repository, "HEAD")
	if err != nil || now == "" {
		return err
	}
	_, err = a.call(ctx, nil, "merge-base", "--is-ancestor", s.Tip, now)
	s.Merged = err == nil
	if exit(err) == 1 {
		err = nil
	}
	return err
}

func (a at) count(ctx context.Context, revs ...string) (int, error) {
	out, err := a.line(ctx, append([]string{"rev-list", "--count"}, revs...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// stamp writes name, size and time of the path rel, or of all files in it, to
// digest. No link is followed.
func stamp(digest io.Writer, dir, rel string) error {
	return filepath.WalkDir(filepath.Join(dir, filepath.FromSlash(rel)), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission):
			fmt.Fprintf(digest, "%s unreadable\x00", path)
			return nil
		case err != nil:
			return fmt.Errorf("look at %s: %w", path, err)
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		_, err = fmt.Fprintf(digest, "%s\x00%d %d %s\x00", path, info.Size(), info.ModTime().UnixNano(), info.Mode())
		return err
	})
}

func sorted(set map[string]bool) []string {
	var all []string
	for s := range set {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}
