package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/checkout"
)

// TestNothingHides: whatever an agent does to git's settings, its changes show
// and the person's files do not.
func TestNothingHides(t *testing.T) {
	for name, c := range map[string]struct {
		before, agent func(t *testing.T, dir string)
		want          []string
	}{
		"assume-unchanged": {agent: func(t *testing.T, dir string) {
			gitIn(t, dir, "update-index", "--assume-unchanged", "a")
			write(t, filepath.Join(dir, "a"), "2\n")
		}, want: []string{"modified a +1-1"}},
		"skip-worktree": {agent: func(t *testing.T, dir string) {
			gitIn(t, dir, "update-index", "--skip-worktree", "a")
			write(t, filepath.Join(dir, "a"), "2\n")
		}, want: []string{"modified a +1-1"}},
		"a change at once, of the same size": {agent: func(t *testing.T, dir string) {
			for range 20 {
				write(t, filepath.Join(dir, "a"), "2\n")
				gitIn(t, dir, "add", "a")
				write(t, filepath.Join(dir, "a"), "3\n")
			}
		}, want: []string{"modified a +1-1"}},
		"the person's new file is ignored": {
			before: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "mine"), "1\n") },
			agent:  func(t *testing.T, dir string) { write(t, filepath.Join(dir, ".git/info/exclude"), "mine\n") },
		},
		"a tracked file is forgotten and ignored": {agent: func(t *testing.T, dir string) {
			gitIn(t, dir, "rm", "-q", "--cached", "a")
			write(t, filepath.Join(dir, ".git/info/exclude"), "a\n")
		}},
		"an ignored file is added by force": {agent: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".git/info/exclude"), "b\n")
			write(t, filepath.Join(dir, "b"), "1\n")
			gitIn(t, dir, "add", "-f", "b")
		}, want: []string{"added b +1-0"}},
		"another work tree": {agent: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a"), "2\n")
			gitIn(t, dir, "config", "core.worktree", t.TempDir())
		}, want: []string{"modified a +1-1"}},
		"a sparse checkout": {agent: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "x/new"), "1\n")
			gitIn(t, dir, "config", "core.sparseCheckout", "true")
			write(t, filepath.Join(dir, ".git/info/sparse-checkout"), "/a\n")
		}, want: []string{"added x/new +1-0"}},
		"a split index": {agent: func(t *testing.T, dir string) {
			gitIn(t, dir, "update-index", "--split-index")
			write(t, filepath.Join(dir, "a"), "2\n")
		}, want: []string{"modified a +1-1"}},
		"a folder becomes a link": {
			before: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "d/f"), "1\n") },
			agent: func(t *testing.T, dir string) {
				out := t.TempDir()
				write(t, filepath.Join(out, "f"), "1\n")
				if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(out, filepath.Join(dir, "d")); err != nil {
					t.Fatal(err)
				}
			}, want: []string{"added d +1-0", "renamed e/f from d/f +0-0"},
		},
		"a program for diffs": {agent: func(t *testing.T, dir string) {
			gitIn(t, dir, "config", "diff.external", "touch "+filepath.Join(dir, "ran"))
			gitIn(t, dir, "config", "diff.x.textconv", "touch "+filepath.Join(dir, "ran")+"; true")
			gitIn(t, dir, "config", "core.fsmonitor", "touch "+filepath.Join(dir, "ran"))
			write(t, filepath.Join(dir, ".git/info/attributes"), "* diff=x\n")
			write(t, filepath.Join(dir, ".git/hooks/reference-transaction"), "#!/bin/sh\ntouch "+filepath.Join(dir, "ran")+"\n")
			write(t, filepath.Join(dir, "a"), "2\n")
		}, want: []string{"modified a +1-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := directExec(t)
			dir := repo(t, filepath.Join(t.TempDir(), "r"))
			write(t, filepath.Join(dir, "a"), "1\n")
			commitAll(t, dir, "second")
			if c.before != nil {
				c.before(t, dir)
			}
			base := takeBase(t, run, dir)
			c.agent(t, dir)
			same(t, summary(diff(t, run, dir, base.Tree, "", "")), c.want)
			lost, err := checkout.Snapshot(t.Context(), run, dir, "m-1", "lost")
			if err != nil {
				t.Fatal(err)
			}
			same(t, summary(diff(t, run, dir, base.Tree, lost, "")), c.want) // nothing since
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("a program of the repository ran")
			}
		})
	}
}

// hostile are names that must not matter (a part of case 32).
var hostile = []string{
	" leading and trailing ", `quo"te's`, "日本語", "🦊", "-rf", "--", ":(glob)*", "new\nline", "tab\there", "back\\slash",
	"$(touch x)`y`", strings.Repeat("n", 200), "a/" + strings.Repeat("深", 60) + "/b", "*", "[a]", "#x", "invalid\xff",
}

func TestHostileNamesInADiff(t *testing.T) {
	t.Parallel()
	run := directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "-a 'r' \"é\" 🦊"))
	for _, n := range hostile {
		write(t, filepath.Join(dir, n), "1\n")
	}
	base := takeBase(t, run, dir)
	same(t, summary(diff(t, run, dir, base.Tree, "", "")), nil)
	var want []string
	for _, n := range hostile {
		write(t, filepath.Join(dir, n), "1\n2\n")
		write(t, filepath.Join(dir, n+".new"), "quite another text\n")
		want = append(want, "modified "+n+" +1-0", "added "+n+".new +1-0")
	}
	c := diff(t, run, dir, base.Tree, "", "")
	got := summary(c)
	slices.Sort(got)
	slices.Sort(want)
	same(t, got, want)
	for _, n := range hostile {
		one := diff(t, run, dir, base.Tree, "", n)
		if bytes.Count(one.Patch, []byte("diff --git")) != 1 || !bytes.Contains(one.Patch, []byte("\n+2\n")) {
			t.Errorf("the patch of %q alone:\n%s", n, one.Patch)
		}
	}
}

// TestSinceLost: what changed after contact was lost is marked, and what went
// back to the base is still told.
func TestSinceLost(t *testing.T) {
	t.Parallel()
	run := directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	for _, n := range []string{"before", "both", "back"} {
		write(t, filepath.Join(dir, n), "1\n")
	}
	base := takeBase(t, run, dir)
	for _, n := range []string{"before", "both", "back"} {
		write(t, filepath.Join(dir, n), "1\n2\n")
	}
	lost, err := checkout.Snapshot(t.Context(), run, dir, "m-1", "lost")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "both"), "1\n2\n3\n")
	write(t, filepath.Join(dir, "back"), "1\n")
	write(t, filepath.Join(dir, "after"), "1\n")
	same(t, summary(diff(t, run, dir, base.Tree, lost, "")), []string{
		"added after +1-0 since lost", "restored back +0-0 since lost", "modified before +1-0", "modified both +2-0 since lost"})
}

// TestUnbornBase: a repository without a commit has a base all the same.
func TestUnbornBase(t *testing.T) {
	t.Parallel()
	run, dir := directExec(t), t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	base := takeBase(t, run, dir)
	if base.Commit != "" {
		t.Errorf("%+v", base)
	}
	same(t, summary(diff(t, run, dir, base.Tree, "", "")), nil)
	write(t, filepath.Join(dir, "a"), "1\n")
	same(t, summary(diff(t, run, dir, base.Tree, "", "")), []string{"added a +1-0"})
	if got := gitOut(t, dir, "status", "--porcelain"); got != "?? a" {
		t.Errorf("status is %q", got)
	}
}

// TestUnread: what git can't read is said, and the rest is compared.
func TestUnread(t *testing.T) {
	t.Parallel()
	run := directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	gitIn(t, dir, "init", "-q", "inner") // a repository without a commit is no gitlink
	write(t, filepath.Join(dir, "inner", "f"), "1\n")
	write(t, filepath.Join(dir, "a"), "1\n")
	base := takeBase(t, run, dir)
	if !strings.Contains(base.Unread, "inner") {
		t.Errorf("%+v", base)
	}
	write(t, filepath.Join(dir, "a"), "2\n")
	c := diff(t, run, dir, base.Tree, "", "")
	same(t, summary(c), []string{"modified a +1-1"})
	if !strings.Contains(c.Unread, "inner") {
		t.Errorf("unread is %q", c.Unread)
	}
}

// TestRepositoriesInside: submodules and other repositories are one entry, in a
// linked worktree too.
func TestRepositoriesInside(t *testing.T) {
	t.Parallel()
	run, top := directExec(t), t.TempDir()
	lib := repo(t, filepath.Join(top, "lib"))
	main := repo(t, filepath.Join(top, "main"))
	gitIn(t, main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "sub")
	commitAll(t, main, "second")
	dir := filepath.Join(top, "linked")
	gitIn(t, main, "worktree", "add", "-q", dir)
	gitIn(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	tree, err := checkout.Inspect(t.Context(), dir, t.TempDir())
	if err != nil || tree.GitDir == tree.CommonDir || tree.CommonDir != filepath.Join(main, ".git") {
		t.Fatalf("%+v, %v", tree, err)
	}
	base := takeBase(t, run, dir)
	same(t, summary(diff(t, run, dir, base.Tree, "", "")), nil)
	commitAll(t, filepath.Join(dir, "sub"), "in the submodule")
	repo(t, filepath.Join(dir, "other"))
	gitIn(t, dir, "config", "diff.ignoreSubmodules", "all")
	same(t, summary(diff(t, run, dir, base.Tree, "", "")), []string{"added other +1-0", "modified sub +1-1"})
}

// TestFilesThatChangeWhileTheyAreRead: an agent that writes on does not make a
// comparison fail.
func TestFilesThatChangeWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	run := directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	base := takeBase(t, run, dir)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		var err error
		for i := 0; ctx.Err() == nil && err == nil; i++ {
			name := filepath.Join(dir, fmt.Sprint("f", i%5))
			err = os.WriteFile(name, bytes.Repeat([]byte{'a' + byte(i%26), '\n'}, 1<<uint(i%18)), 0o644)
			if i%50 == 0 && err == nil {
				err = os.Remove(name)
			}
			// With no pause at all, a busy machine cuts one git after another short,
			// more often than it is run again: TestCutOffGitIsRunAgain is about that.
			time.Sleep(time.Millisecond)
		}
		done <- err
	}()
	for range 5 {
		diff(t, run, dir, base.Tree, "", "")
		if _, err := checkout.Snapshot(t.Context(), run, dir, "m-1", "lost"); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestCutOffGitIsRunAgain: what git reads may be cut short under it, and then the
// kernel ends it. A comparison is made again then, a commit is not.
func TestCutOffGitIsRunAgain(t *testing.T) {
	t.Parallel()
	direct := directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	left, last := map[string]int{}, ""
	run := func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		last = c.Args[0]
		if left[last] > 0 {
			left[last]--
			for _, kv := range c.Env {
				if index, ok := strings.CutPrefix(kv, "GIT_INDEX_FILE="); ok {
					write(t, index+".lock", "left by a git that could not tidy up")
				}
			}
			return nil, cutOff{}
		}
		return direct(ctx, c)
	}
	base := takeBase(t, run, dir)
	write(t, filepath.Join(dir, "new"), "new\n")
	for _, command := range []string{"add", "diff-index", "status", "update-index"} {
		left[command] = 4
	}
	same(t, summary(diff(t, run, dir, base.Tree, "", "")), []string{"added new +1-0"})
	left["write-tree"] = 4
	if _, err := checkout.Snapshot(t.Context(), run, dir, "m-1", "lost"); err != nil {
		t.Error(err)
	}
	left["diff-index"] = 5
	if _, err := checkout.Diff(t.Context(), run, dir, base.Tree, "", ""); !errors.As(err, new(cutOff)) || last != "diff-index" {
		t.Errorf("a git that is always cut off: %v after %s", err, last)
	}
}

// cutOff is the failure of a git that a signal ended.
type cutOff struct{}

func (cutOff) Error() string  { return "signal: bus error" }
func (cutOff) ExitCode() int  { return -1 }
func (cutOff) Stderr() string { return "" }

// TestLimits: many files and a long patch are cut and said to be, in a fixed
// number of git's commands, without comparing each new file with each old one.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("20,000 files take a while")
	}
	t.Parallel()
	direct, calls := directExec(t), 0
	run := func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		calls++
		return direct(ctx, c)
	}
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	const n = 20000
	if err := os.Mkdir(filepath.Join(dir, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := func(i, more int) []byte { // few contents: it is the number of names that counts
		return []byte(strings.Repeat(fmt.Sprintf("%d is a number\n", i%50), 12+more))
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, "old", fmt.Sprint(i)), text(i, 0), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	base := takeBase(t, run, dir)
	if err := os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "new")); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		at := filepath.Join(dir, "new", fmt.Sprint(i))
		if err := os.WriteFile(at, text(i, 1), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(at, at+".txt"); err != nil {
			t.Fatal(err)
		}
	}
	calls = 0
	c := diff(t, run, dir, base.Tree, "", "")
	if len(c.Files) != checkout.MaxFiles || !c.More || c.Count != 2*n {
		t.Errorf("%d of %d files, more: %v", len(c.Files), c.Count, c.More)
	}
	if c.Files[0].Status != "added" {
		t.Errorf("%+v: renames among so many files must not be looked for", c.Files[0])
	}
	if !c.CutPatch || len(c.Patch) > checkout.MaxPatch || !bytes.HasSuffix(c.Patch, []byte("\n")) {
		t.Errorf("%d bytes of patch, cut: %v", len(c.Patch), c.CutPatch)
	}
	if calls > 6 {
		t.Errorf("%d calls of git", calls)
	}
}

// TestBaseThatIsGone is refused in words.
func TestBaseThatIsGone(t *testing.T) {
	t.Parallel()
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	_, err := checkout.Diff(t.Context(), directExec(t), dir, strings.Repeat("1", 40), "", "")
	refused(t, err, "no longer in its repository")
	for _, bad := range []string{"", "HEAD", "--output=x", strings.Repeat("g", 40)} {
		if _, err := checkout.Diff(t.Context(), directExec(t), dir, bad, "", ""); err == nil {
			t.Errorf("%q was compared", bad)
		}
	}
	for _, bad := range []string{"", "m-", "m-../x", "m-1/../../heads/main", "--stdin"} {
		if _, err := checkout.TakeBase(t.Context(), directExec(t), dir, bad); err == nil {
			t.Errorf("a base for %q", bad)
		}
		if err := checkout.DropRefs(t.Context(), directExec(t), dir, bad); err == nil {
			t.Errorf("dropped %q", bad)
		}
	}
}
