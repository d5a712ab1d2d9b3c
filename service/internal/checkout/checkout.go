// Package checkout decides which working tree a worker may own, and keeps the
// durable claims: at most one worker per checkout, keyed by the physical path.
//
// Git runs only as rev-parse and config here, since every other command can
// execute what the repository configures.
package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// Refusal says why a folder can't be a worker's checkout, and what to do.
type Refusal struct {
	Name string // a short name of the rule
	What string // what is wrong, a sentence
	Fix  string // what to do, a sentence
	// Owner is the mission that owns the folder, where that is the reason.
	Owner string
}

func (r *Refusal) Error() string { return r.What + " " + r.Fix }

// Tree is a folder that was found to be a working tree's root.
type Tree struct {
	Path   string // physically resolved
	GitDir string
	// CommonDir is the git directory that a linked worktree shares with the
	// repository that it belongs to, else GitDir.
	CommonDir string
	Branch    string   // short name, or "" when detached or unborn
	Head      string   // commit, or "" when there is none yet
	Notes     []string // what a person should know before they allow work here
}

// Inspect resolves folder and applies every rule that needs no claim: it must
// be the root of a git working tree, not bare, outside stateDir and not around
// it. A merge, rebase, cherry-pick or bisect under way becomes a note.
func Inspect(ctx context.Context, folder, stateDir string) (Tree, error) {
	return inTime(ctx, folder, func() (Tree, error) { return inspect(ctx, folder, stateDir) })
}

func inspect(ctx context.Context, folder, stateDir string) (Tree, error) {
	refuse := func(name, what, fix string) (Tree, error) {
		return Tree{}, &Refusal{Name: name, What: what, Fix: fix}
	}
	if !filepath.IsAbs(folder) {
		return refuse("folder", "The folder must be an absolute path.", "Give the whole path of the checkout.")
	}
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refuse("folder", fmt.Sprintf("The folder %s does not exist.", folder), "Choose the root of a git checkout.")
	case errors.Is(err, os.ErrPermission):
		return refuse("folder", fmt.Sprintf("The folder %s may not be read.", folder), "Choose a folder that belongs to you.")
	case err != nil:
		return Tree{}, fmt.Errorf("look at %s: %w", folder, err)
	case !info.IsDir():
		return refuse("folder", fmt.Sprintf("%s is a file, not a folder.", folder), "Choose the root of a git checkout.")
	}
	path, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return Tree{}, fmt.Errorf("resolve %s: %w", folder, err)
	}
	state, err := filepath.EvalSymlinks(stateDir)
	if err != nil {
		return Tree{}, fmt.Errorf("resolve %s: %w", stateDir, err)
	}
	if inside(path, state) {
		return refuse("private state", fmt.Sprintf("%s lies inside Reeve's private state.", path), "Choose a checkout outside "+state+".")
	}
	if inside(state, path) {
		return refuse("private state", fmt.Sprintf("Reeve's private state %s lies inside %s, where the agent works.", state, path), "Choose another checkout, or move the state out of it with REEVE_STATE.")
	}

	out, err := git(ctx, path, "rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--absolute-git-dir")
	if err != nil {
		var r *Refusal
		if errors.As(err, &r) {
			return Tree{}, err
		}
		if strings.Contains(err.Error(), "dubious ownership") {
			return refuse("git checkout", fmt.Sprintf("%s belongs to another user, so git does not trust it.", path), "Choose a checkout of your own.")
		}
		return refuse("git checkout", fmt.Sprintf("%s is not a git checkout.", path), "Run git init there, or choose the root of a repository.")
	}
	lines := strings.SplitN(strings.TrimSuffix(out, "\n"), "\n", 3)
	if len(lines) != 3 {
		return Tree{}, fmt.Errorf("git rev-parse in %s: unexpected answer", path)
	}
	if lines[0] == "true" {
		return refuse("git checkout", fmt.Sprintf("%s is a bare repository without files to work on.", path), "Choose a checkout of it.")
	}
	if lines[1] == "true" {
		return refuse("git checkout", fmt.Sprintf("%s lies inside a repository's own .git folder.", path), "Choose the root of the checkout.")
	}
	t := Tree{Path: path, GitDir: lines[2]}
	if t.CommonDir, err = commonDir(ctx, path); err != nil {
		return Tree{}, err
	}
	top, err := git(ctx, path, "rev-parse", "--show-toplevel")
	if err != nil {
		return Tree{}, err
	}
	root, err := filepath.EvalSymlinks(strings.TrimSuffix(top, "\n"))
	if err != nil {
		return Tree{}, fmt.Errorf("resolve the root of %s: %w", path, err)
	}
	if !same(root, path) {
		return refuse("git checkout", fmt.Sprintf("%s is inside a checkout, but not its root.", path), "Choose "+root+".")
	}
	if head, err := git(ctx, path, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		t.Head = strings.TrimSpace(head)
	}
	if name, err := git(ctx, path, "rev-parse", "--abbrev-ref", "HEAD"); err == nil && strings.TrimSpace(name) != "HEAD" {
		t.Branch = strings.TrimSpace(name)
	}
	for _, what := range underWayIn(t.GitDir) {
		t.Notes = append(t.Notes, "A "+what+" is under way in this checkout.")
	}
	if t.Head == "" {
		t.Notes = append(t.Notes, "This repository has no commit yet.")
	}
	return t, nil
}

// underWay are the files and folders of a git directory that say what is under
// way there.
var underWay = map[string]string{
	"MERGE_HEAD": "merge", "MERGE_AUTOSTASH": "merge", "rebase-merge": "rebase", "rebase-apply": "rebase",
	"CHERRY_PICK_HEAD": "cherry-pick", "BISECT_LOG": "bisect", "REVERT_HEAD": "revert",
}

// underWayIn names what is under way in a git directory, sorted.
func underWayIn(gitDir string) []string {
	found := map[string]bool{}
	for file, what := range underWay {
		if _, err := os.Lstat(filepath.Join(gitDir, file)); err == nil {
			found[what] = true
		}
	}
	return sorted(found)
}

// within says whether path is dir or lies below it, component by component.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)))
}

// same says whether two paths lead to the same file, see place; what is there is
// not the same as what isn't.
func same(a, b string) bool {
	p, q := locate(a), locate(b)
	return a == b || (p[0].ID == fileID{}) == (q[0].ID == fileID{}) && p.same(q)
}

// inside says whether path is dir or lies below it, by name or by identity.
func inside(path, dir string) bool { return locate(path).inside(locate(dir)) }

// Claim is the durable record that a mission owns a checkout.
type Claim struct {
	Path    string    `json:"path"`
	Mission string    `json:"mission"`
	Attempt string    `json:"attempt"`
	Owner   proc.ID   `json:"owner"` // the guard's keeper, once it runs
	At      time.Time `json:"at"`
	// Place is where the path lay when it was claimed.
	Place place `json:"place,omitempty"`
	// Turn is set while a turn is in flight and cleared when it ended; a
	// claim that kept it tells the next owner that work may be half done.
	Turn string `json:"turn,omitempty"`
}

const bucket = "claims"

// Take records that mission owns the path of a look. It refuses one that is the
// same as, above or below one that is owned already; comparing files as well as
// names catches bind mounts and file systems that fold case. The path need not
// be there yet: the worktree of a mission is claimed before it is made.
func Take(tx *store.Tx, s Sight, mission, attempt string, at time.Time) error {
	if r := Conflict(tx, s, mission); r != nil {
		return r
	}
	return store.PutJSON(tx, bucket, s.path, Claim{Path: s.path, Mission: mission, Attempt: attempt, At: at, Place: s.at})
}

// Conflict returns why mission can't own the path of a look now, or nil. No
// disk is touched.
func Conflict(tx *store.Tx, s Sight, mission string) *Refusal {
	var found *Refusal
	err := store.EachJSON(tx, bucket, func(_ string, c Claim) (bool, error) {
		if c.Mission == mission {
			return true, nil
		}
		owned := s.of(c)
		fix := "Wait for that mission, stop it, or choose another checkout."
		switch {
		case s.at.same(owned):
			found = &Refusal{Name: "nobody else works here", Owner: c.Mission, What: fmt.Sprintf("Mission %s already works in %s.", short(c.Mission), s.path), Fix: fix}
		case s.at.inside(owned):
			found = &Refusal{Name: "nobody else works here", Owner: c.Mission, What: fmt.Sprintf("%s lies inside %s, where mission %s works.", s.path, c.Path, short(c.Mission)), Fix: fix}
		case owned.inside(s.at):
			found = &Refusal{Name: "nobody else works here", Owner: c.Mission, What: fmt.Sprintf("Mission %s works in %s, inside %s.", short(c.Mission), c.Path, s.path), Fix: fix}
		}
		return found == nil, nil
	})
	if err != nil {
		return &Refusal{Name: "claims", What: "The claims of checkouts could not be read: " + err.Error() + ".", Fix: "Run reeve doctor."}
	}
	return found
}

// Owned tells the claim of a mission, if it has one.
func Owned(tx *store.Tx, mission string) (Claim, bool, error) {
	var claim Claim
	var ok bool
	err := store.EachJSON(tx, bucket, func(_ string, c Claim) (bool, error) {
		if c.Mission == mission {
			claim, ok = c, true
		}
		return !ok, nil
	})
	return claim, ok, err
}

// Count tells how many checkouts are owned.
func Count(tx *store.Tx) (n int, err error) {
	err = tx.Scan(bucket, nil, func(_, _ []byte) (bool, error) { n++; return true, nil })
	return n, err
}

// Mark notes the claim's owner process and the turn in flight ("" when none).
func Mark(tx *store.Tx, path, mission string, owner proc.ID, turn string) error {
	c, ok, err := store.GetJSON[Claim](tx, bucket, path)
	if err != nil {
		return err
	}
	if !ok || c.Mission != mission {
		return &Refusal{Name: "claim", What: fmt.Sprintf("Mission %s no longer owns %s.", short(mission), path), Fix: "Stop the mission and look at what happened to the checkout."}
	}
	c.Owner, c.Turn = owner, turn
	return store.PutJSON(tx, bucket, path, c)
}

// Release gives the checkout back. Releasing what is not owned is no error.
func Release(tx *store.Tx, path, mission string) error {
	c, ok, err := store.GetJSON[Claim](tx, bucket, path)
	if err != nil || !ok || c.Mission != mission {
		return err
	}
	return tx.Delete(bucket, []byte(path))
}

func short(id string) string {
	if len(id) > 8 {
		return "…" + id[len(id)-6:]
	}
	return id
}
