package checkout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Worktree is a linked worktree that was made for a mission.
type Worktree struct {
	Repository string `json:"repository"`        // the checkout that it was made from, physically resolved
	Path       string `json:"path"`              // beside it
	Branch     string `json:"branch"`            // reeve/<mission>
	Base       string `json:"base"`              // the commit that it was made from
	GitDir     string `json:"git_dir,omitempty"` // its own git directory, once it was made
}

// maxName bounds a planned folder's name, in bytes: file systems allow 255.
const maxName = 240

// PlanWorktree names the worktree of mission, a folder beside tree on a new
// branch, or refuses. It makes nothing.
func PlanWorktree(ctx context.Context, tree Tree, stateDir, mission string) (Worktree, error) {
	return inTime(ctx, tree.Path, func() (Worktree, error) { return planWorktree(ctx, tree, stateDir, mission) })
}

func planWorktree(ctx context.Context, tree Tree, stateDir, mission string) (Worktree, error) {
	if !isMission(mission) {
		return Worktree{}, fmt.Errorf("plan a worktree: %q is no mission", mission)
	}
	parent, name := filepath.Dir(tree.Path), filepath.Base(tree.Path)
	suffix := "-reeve-" + mission[max(2, len(mission)-6):]
	for len(name)+len(suffix) > maxName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	w := Worktree{Repository: tree.Path, Path: filepath.Join(parent, name+suffix), Branch: "reeve/" + mission, Base: tree.Head}

	if tree.Head == "" {
		return Worktree{}, refuse("worktree", fmt.Sprintf("%s has no commit yet, which a worktree starts from.", tree.Path), "Commit something first, or work in the folder itself.")
	}
	if parent == tree.Path {
		return Worktree{}, refuse("worktree", fmt.Sprintf("Nothing can lie beside %s.", tree.Path), "Work in the folder itself.")
	}
	if _, err := os.Lstat(w.Path); err == nil {
		return Worktree{}, refuse("worktree", fmt.Sprintf("%s is there already.", w.Path), "Move it away, or start another mission.")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Worktree{}, fmt.Errorf("look at %s: %w", w.Path, err)
	}
	state, err := filepath.EvalSymlinks(stateDir)
	if err != nil {
		return Worktree{}, fmt.Errorf("resolve %s: %w", stateDir, err)
	}
	if inside(w.Path, state) {
		return Worktree{}, refuse("private state", fmt.Sprintf("%s would lie inside Reeve's private state.", w.Path), "Choose a checkout outside "+state+".")
	}
	if !writable(parent) {
		return Worktree{}, refuse("worktree", fmt.Sprintf("No folder can be made in %s.", parent), "Work in the folder itself, or in a clone elsewhere.")
	}
	for _, branch := range []string{"reeve", w.Branch} {
		is, err := commit(ctx, tree.Path, "refs/heads/"+branch)
		if err != nil {
			return Worktree{}, err
		}
		if is != "" {
			return Worktree{}, refuse("worktree", fmt.Sprintf("%s has a branch %s already, so that %s can't be made.", tree.Path, branch, w.Branch), "Rename or delete that branch with git branch.")
		}
	}
	return w, nil
}

// AddWorktree makes the planned worktree and returns it with its GitDir. When
// exactly this worktree is there already (the service ended before it could
// record that), it is returned as it is. Hooks do not run.
func AddWorktree(ctx context.Context, run Git, w Worktree) (Worktree, error) {
	if !isHex(w.Base) || !strings.HasPrefix(w.Branch, "reeve/") || !filepath.IsAbs(w.Path) {
		return w, fmt.Errorf("make a worktree: %+v was not planned", w)
	}
	_, err := os.Lstat(w.Path)
	switch {
	case err == nil:
		made, err := w.made(ctx)
		if err != nil {
			return w, refuse("worktree", fmt.Sprintf("%s is there already: %v", w.Path, err), "Move it away, or start another mission.")
		}
		return made, nil
	case !errors.Is(err, fs.ErrNotExist):
		return w, fmt.Errorf("look at %s: %w", w.Path, err)
	}
	a := at{run: run, dir: w.Repository, within: slowLimit}
	if _, err := a.call(ctx, nil, "worktree", "add", "--quiet", "--no-track", "-b", w.Branch, "--", w.Path, w.Base); err != nil {
		if why := said(err); why != "" {
			return w, refuse("worktree", fmt.Sprintf("Git could not make the worktree %s: %s", w.Path, why), "Mend what git names, or work in the folder itself.")
		}
		return w, err
	}
	return w.made(ctx)
}

// made finds the git directory of the worktree and proves that it is the one
// that was planned.
func (w Worktree) made(ctx context.Context) (Worktree, error) {
	dir, err := git(ctx, w.Path, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return w, err
	}
	made := w
	made.GitDir = strings.TrimSuffix(dir, "\n")
	root, err := made.open(ctx)
	if err != nil {
		return w, err
	}
	if err := root.Close(); err != nil {
		return w, err
	}
	if on, err := head(ctx, w.Path); err != nil {
		return w, err
	} else if on != "refs/heads/"+w.Branch {
		return w, refuse("worktree", fmt.Sprintf("%s is not on the branch %s.", w.Path, w.Branch), "Switch it back, or remove it with git worktree remove.")
	}
	return made, nil
}

// head returns the full name of the branch that is checked out in dir, or HEAD
// when there is none.
func head(ctx context.Context, dir string) (string, error) {
	out, err := git(ctx, dir, "rev-parse", "--symbolic-full-name", "HEAD")
	return strings.TrimSpace(out), err
}

// open opens the folder of the worktree after proving that it is exactly the
// one that was made: a real folder that is no mount, whose .git file leads to
// GitDir, which leads back and belongs to Repository. A folder that is gone is
// fs.ErrNotExist, anything else at its place a Refusal.
func (w Worktree) open(ctx context.Context) (_ *os.Root, err error) {
	other := func(why string) error {
		return refuse("worktree", fmt.Sprintf("%s is not the worktree that was made for this mission: %s.", w.Path, why), "Look at it, and remove it by hand when nothing in it is needed.")
	}
	if w.GitDir == "" || !filepath.IsAbs(w.Path) {
		return nil, other("it was never made")
	}
	if same(w.Path, w.Repository) {
		return nil, other("it is the main working tree")
	}
	common, err := commonDir(ctx, w.Repository)
	if err != nil {
		return nil, refuse("worktree", fmt.Sprintf("The repository %s of the worktree %s can't be read.", w.Repository, w.Path), "Bring it back to where it was.")
	}
	if !same(filepath.Dir(w.GitDir), filepath.Join(common, "worktrees")) {
		return nil, other("it does not belong to " + w.Repository)
	}
	before, err := os.Lstat(w.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if back, err := w.back(); err == nil && !same(filepath.Dir(back), w.Path) {
			return nil, other("it was moved to " + filepath.Dir(back))
		}
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", w.Path, err)
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, other("it is a symbolic link")
	case !before.IsDir():
		return nil, other("it is no folder")
	}
	mounts, err := mountsIn(w.Path)
	if err != nil {
		return nil, fmt.Errorf("look for mounts in %s: %w", w.Path, err)
	}
	if len(mounts) > 0 {
		return nil, refuse("mount", fmt.Sprintf("%s is a mount in the worktree %s.", mounts[0], w.Path), "Unmount it first.")
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", w.Path, err)
	}
	defer func() {
		if err != nil {
			_ = root.Close()
		}
	}()
	if info, err := root.Stat("."); err != nil {
		return nil, err
	} else if !os.SameFile(info, before) {
		return nil, other("it was replaced just now")
	}
	link, err := root.Lstat(".git")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, other("it has no .git file")
	case err != nil:
		return nil, fmt.Errorf("look at .git in %s: %w", w.Path, err)
	case link.IsDir():
		return nil, other("it is a repository of its own")
	case !link.Mode().IsRegular() || link.Size() > 1<<16:
		return nil, other("its .git is no file of git")
	}
	content, err := root.ReadFile(".git")
	if err != nil {
		return nil, fmt.Errorf("read .git in %s: %w", w.Path, err)
	}
	forth, ok := strings.CutPrefix(strings.TrimRight(string(content), "\r\n"), "gitdir: ")
	if !filepath.IsAbs(forth) {
		forth = filepath.Join(w.Path, forth)
	}
	if !ok || !same(forth, w.GitDir) {
		return nil, other("its .git file leads elsewhere")
	}
	back, err := w.back()
	if err != nil || filepath.Base(back) != ".git" || !same(filepath.Dir(back), w.Path) {
		return nil, other("git's record of it names another folder")
	}
	return root, nil
}

// back reads where the git directory of the worktree says that its .git file is.
func (w Worktree) back() (string, error) {
	file := filepath.Join(w.GitDir, "gitdir")
	info, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > 1<<16 {
		return "", fmt.Errorf("%s is no file of git", file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	back := strings.TrimRight(string(content), "\r\n")
	if !filepath.IsAbs(back) {
		back = filepath.Join(w.GitDir, back)
	}
	return back, nil
}
