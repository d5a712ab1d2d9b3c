package checkout_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/checkout"
)

func takeBase(t *testing.T, run checkout.Git, dir string) checkout.Base {
	t.Helper()
	b, err := checkout.TakeBase(t.Context(), run, dir, "m-1")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func diff(t *testing.T, run checkout.Git, dir, base, lost, only string) checkout.Changes {
	t.Helper()
	c, err := checkout.Diff(t.Context(), run, dir, base, lost, only)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// summary is one line for each file.
func summary(c checkout.Changes) []string {
	var all []string
	for _, f := range c.Files {
		s := f.Status + " " + f.Path
		if f.From != "" {
			s += " from " + f.From
		}
		if f.Binary {
			s += " binary"
		} else {
			s += fmt.Sprintf(" +%d-%d", f.Added, f.Removed)
		}
		if f.Mode != "" {
			s += " " + f.Mode
		}
		if f.SinceLost {
			s += " since lost"
		}
		all = append(all, s)
	}
	return all
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// person is all that a person owns in a checkout and that nobody may change.
func person(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, f := range []string{"index", "config", "HEAD", "logs/HEAD", "logs/refs/stash"} {
		content, err := os.ReadFile(filepath.Join(dir, ".git", f))
		fmt.Fprintf(&b, "%s %v\n%s\n", f, err, content)
	}
	for _, args := range [][]string{
		{"status", "--porcelain=v2", "--branch", "--show-stash", "--ignored"},
		{"for-each-ref", "refs/heads", "refs/tags", "refs/stash", "refs/remotes"},
	} {
		b.WriteString(gitOut(t, dir, args...) + "\n")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".git", "reeve-*"))
	fmt.Fprintln(&b, left, err)
	return b.String()
}

// TestBaseAndDiff: what the person did before never shows as the agent's,
// everything the agent did shows, and looking changes nothing.
func TestBaseAndDiff(t *testing.T) {
	run := directExec(t)
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	long := strings.Repeat("a line of text\n", 40)
	write(t, filepath.Join(dir, "kept"), "1\n")
	write(t, filepath.Join(dir, "edited"), "1\n")
	write(t, filepath.Join(dir, "staged"), "1\n")
	write(t, filepath.Join(dir, "stashed"), "1\n")
	write(t, filepath.Join(dir, "script"), "#!/bin/sh\n")
	write(t, filepath.Join(dir, "picture"), "a\x00b")
	write(t, filepath.Join(dir, "moves"), long)
	write(t, filepath.Join(dir, "goes"), "1\n2\n")
	write(t, filepath.Join(dir, "becomes a link"), "1\n")
	write(t, filepath.Join(dir, ".gitignore"), "secret\n")
	commitAll(t, dir, "second")
	write(t, filepath.Join(dir, "stashed"), "2\n")
	gitIn(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "stash", "-q")
	// The person's own.
	write(t, filepath.Join(dir, "edited"), "1\n2\n")
	write(t, filepath.Join(dir, "staged"), "1\n2\n")
	gitIn(t, dir, "add", "staged")
	write(t, filepath.Join(dir, "staged"), "1\n2\n3\n")
	write(t, filepath.Join(dir, "new"), "untracked\n")
	write(t, filepath.Join(dir, "secret"), "token\n")
	before := person(t, dir)

	base := takeBase(t, run, dir)
	if base.Commit != gitOut(t, dir, "rev-parse", "HEAD") || base.Unread != "" || base.At.IsZero() {
		t.Errorf("%+v", base)
	}
	if got := gitOut(t, dir, "log", "-1", "--format=%T %an %ae %cn %ce", "refs/reeve/m-1/base"); got != base.Tree+" Reeve reeve@localhost Reeve reeve@localhost" {
		t.Errorf("the base is %q", got)
	}
	c := diff(t, run, dir, base.Tree, "", "")
	if len(c.Files) != 0 || len(c.Patch) != 0 {
		t.Errorf("nothing changed yet, but: %v\n%s", summary(c), c.Patch)
	}
	if after := person(t, dir); after != before {
		t.Errorf("looking changed\n%s\nto\n%s", before, after)
	}

	// The agent's.
	write(t, filepath.Join(dir, "edited"), "1\n2\n3\n")
	write(t, filepath.Join(dir, "added"), "quite another text\n")
	write(t, filepath.Join(dir, "picture"), "a\x00c")
	if err := os.Rename(filepath.Join(dir, "moves"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "moved"), long+"and one more\n")
	for _, f := range []string{"goes", "becomes a link"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "becomes a link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "script"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"added added +1-0", "typechange becomes a link +1-1 100644 120000", "modified edited +1-0", "deleted goes +0-2",
		"renamed moved from moves +1-0", "added out +1-0", "modified picture binary", "modified script +0-0 100644 100755",
	}
	before = person(t, dir)
	c = diff(t, run, dir, base.Tree, "", "")
	same(t, summary(c), want)
	for _, not := range []string{"token", "untracked", "root:"} {
		if strings.Contains(string(c.Patch), not) {
			t.Errorf("the patch has %q:\n%s", not, c.Patch)
		}
	}
	if after := person(t, dir); after != before {
		t.Errorf("looking changed\n%s\nto\n%s", before, after)
	}

	// Committing, staging and switching change nothing in what is shown.
	commitAll(t, dir, "the agent's")
	same(t, summary(diff(t, run, dir, base.Tree, "", "")), want)

	// One path alone: a rename keeps both its names.
	c = diff(t, run, dir, base.Tree, "", "moved")
	same(t, summary(c), want)
	if p := string(c.Patch); !strings.Contains(p, "rename from moves") || strings.Contains(p, "edited") {
		t.Errorf("the patch of one file:\n%s", p)
	}

	// The patch and the base give the work tree.
	other := filepath.Join(t.TempDir(), "other")
	gitIn(t, dir, "worktree", "add", "-q", "--detach", other, "refs/reeve/m-1/base")
	c = diff(t, run, dir, base.Tree, "", "")
	text := string(c.Patch)
	if i := strings.Index(text, "diff --git a/picture"); i >= 0 { // without the binary one
		text = text[:i] + text[i+strings.Index(text[i+1:], "diff --git")+1:]
	}
	write(t, filepath.Join(other, "..", "p"), text)
	gitIn(t, other, "apply", filepath.Join(other, "..", "p"))
	if got := read(t, filepath.Join(other, "moved")); got != long+"and one more\n" {
		t.Errorf("moved has %q", got)
	}

	if err := checkout.DropRefs(t.Context(), run, dir, "m-1"); err != nil {
		t.Fatal(err)
	}
	if got := gitOut(t, dir, "for-each-ref", "refs/reeve"); got != "" {
		t.Errorf("left: %s", got)
	}
	if err := checkout.DropRefs(t.Context(), run, dir, "m-1"); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// What missions recorded long ago goes; what is younger, or needed, or nothing
// that was recorded, stays.
func TestDropOldRefs(t *testing.T) {
	dir, run := repo(t, filepath.Join(t.TempDir(), "r")), directExec(t)
	write(t, filepath.Join(dir, "a"), "a\n")
	commitAll(t, dir, "first")
	day := time.Now().Add(-24 * time.Hour)
	old := filepath.Join(t.TempDir(), "old")
	write(t, old, fmt.Sprintf("tree %s\nauthor x <x@y> %d +0000\ncommitter x <x@y> %[2]d +0000\n\nold\n", gitOut(t, dir, "rev-parse", "HEAD^{tree}"), day.Add(-time.Hour).Unix()))
	commit, blob := gitOut(t, dir, "hash-object", "-w", "-t", "commit", old), gitOut(t, dir, "hash-object", "-w", old)
	for ref, to := range map[string]string{
		"m-old/base": commit, "m-old/end": commit, "m-needed/base": commit, "m-young/base": commit, "theirs": commit, "m-odd/base": commit, "m-odd/blob": blob,
	} {
		gitIn(t, dir, "update-ref", "refs/reeve/"+ref, to)
	}
	if _, err := checkout.Snapshot(t.Context(), run, dir, "m-young", "end"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := checkout.DropOldRefs(t.Context(), run, dir, day, func(m string) bool { return m == "m-needed" }); err != nil {
			t.Fatal(err)
		}
		left := strings.Fields(gitOut(t, dir, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/reeve/"))
		same(t, left, []string{"m-needed/base", "m-odd/base", "m-odd/blob", "m-young/base", "m-young/end", "theirs"})
	}
}
