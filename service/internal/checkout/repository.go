package checkout

import (
	"os"
	"path/filepath"
	"strings"
)

// Repository is the physical folder of the repository that t is a working tree
// of, which all its worktrees share. A .git file that points to a repository
// which does not know this worktree proves nothing: then it is t's own folder.
func (t Tree) Repository() string {
	if t.GitDir == t.CommonDir {
		return t.Path
	}
	raw, err := os.ReadFile(filepath.Join(t.GitDir, "gitdir"))
	back := strings.TrimSpace(string(raw))
	if !filepath.IsAbs(back) {
		back = filepath.Join(t.GitDir, back)
	}
	if err != nil || !same(filepath.Dir(back), t.Path) || !within(t.GitDir, filepath.Join(t.CommonDir, "worktrees")) {
		return t.Path
	}
	if filepath.Base(t.CommonDir) == ".git" {
		return filepath.Dir(t.CommonDir)
	}
	return t.CommonDir
}
