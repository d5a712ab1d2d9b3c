package model

import (
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestSplitPatch: every file's own hunks under its exact path, whatever its
// name and lines look like.
func TestSplitPatch(t *testing.T) {
	patch := strings.Join([]string{
		"diff --git a/a.go b/a.go", "index 1..2 100644", "--- a/a.go", "+++ b/a.go", "@@ -1,2 +1,2 @@", " diff --git a/no b/no", "--- a removed line", "+++ an added line",
		`\ No newline at end of file`,
		"diff --git a/old name.go b/new name.go", "similarity index 90%", "rename from old name.go", "rename to new name.go", "--- a/old name.go\t", "+++ b/new name.go\t", "@@ -1 +1 @@", "-a", "+b",
		"diff --git a/gone.go b/gone.go", "deleted file mode 100644", "index 1..0", "--- a/gone.go", "+++ /dev/null", "@@ -1 +0,0 @@", "-a",
		`diff --git "a/\303\274.txt" "b/\303\274.txt"`, "new file mode 100644", "index 0..1", "--- /dev/null", `+++ "b/\303\274.txt"`, "@@ -0,0 +1 @@", "+a",
		"diff --git a/pic b.png b/pic b.png", "index 1..2 100644", "Binary files a/pic b.png and b/pic b.png differ",
		"diff --git a/run.sh b/run.sh", "old mode 100644", "new mode 100755",
	}, "\n") + "\n"
	got := SplitPatch(patch)
	want := map[string]string{
		"a.go":        "@@ -1,2 +1,2 @@\n diff --git a/no b/no\n--- a removed line\n+++ an added line\n\\ No newline at end of file\n",
		"new name.go": "similarity index 90%\n@@ -1 +1 @@\n-a\n+b\n",
		"gone.go":     "deleted file mode 100644\n@@ -1 +0,0 @@\n-a\n",
		"ü.txt":       "new file mode 100644\n@@ -0,0 +1 @@\n+a\n",
		"pic b.png":   "Binary files a/pic b.png and b/pic b.png differ\n",
		"run.sh":      "old mode 100644\nnew mode 100755\n",
	}
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s:\n%q, want\n%q", path, got[path], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d: %q", len(got), len(want), got)
	}
	if len(SplitPatch("")) != 0 {
		t.Error("nothing is something")
	}
}

func TestChangedFiles(t *testing.T) {
	r := wire.ChangesResult{Files: []wire.ChangedFile{
		{Path: "a\u202e.go", Status: "added", Added: 3}, {Path: "b", From: "c", Status: "renamed", Added: 1, Removed: 2, SinceLost: true}, {Path: "d.png", Status: "modified", Binary: true}, {Path: "e", Status: "restored"}, {Path: "f", Status: "new kind"},
	}, More: true}
	got := ChangedFiles(r)
	letters := ""
	for _, f := range got {
		letters += f.Letter
	}
	if letters != "ARM=?" || got[0].Name != "a‹RLO›.go" || got[0].Path != "a\u202e.go" || got[1].Name != "c → b" || !got[1].NotAgent {
		t.Errorf("%s %+v", letters, got)
	}
	if plus, minus := got[2].Counts(); plus != "" || minus != "" {
		t.Errorf("a binary file has %s %s", plus, minus)
	}
	if files, lines := ChangesSummary(r); files != "more than 5 files" || lines != "+4 −2" {
		t.Errorf("%q %q", files, lines)
	}
}

func TestWorktreeStanding(t *testing.T) {
	made := wire.Worktree{Branch: "reeve/x", State: "made"}
	for _, c := range []struct {
		t    wire.Worktree
		s    *wire.WorktreeState
		want string
	}{
		{wire.Worktree{State: "planned"}, nil, "made when the mission starts"},
		{wire.Worktree{State: "removed"}, &wire.WorktreeState{}, "removed"},
		{made, nil, ""},
		{made, &wire.WorktreeState{Missing: true}, "its folder is gone"},
		{made, &wire.WorktreeState{}, "no commits of its own"},
		{made, &wire.WorktreeState{Files: 1, Ahead: 2}, "1 file not committed, 2 commits, not merged, not pushed"},
		{made, &wire.WorktreeState{Ahead: 1, Merged: true, Pushed: true}, "1 commit, merged, pushed"},
	} {
		if got := strings.Join(WorktreeStanding(c.t, c.s), ", "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.s, got, c.want)
		}
	}
}

// TestWorktreeLosses: nothing that is saved nowhere else is left out.
func TestWorktreeLosses(t *testing.T) {
	for _, c := range []struct {
		s    wire.WorktreeState
		want string
	}{
		{wire.WorktreeState{Ahead: 3}, ""},
		{wire.WorktreeState{Uncommitted: []string{"a"}, Untracked: []string{"b", "c\u200b"}, Files: 3}, "1 file changed and not committed [a]; 2 new files that git does not know [b c‹ZWSP›]"},
		{wire.WorktreeState{Uncommitted: []string{"a", "b"}, Files: 150, Ignored: 1}, "150 files changed and not committed [a b] +148; 1 ignored file or folder, such as build output or .env []"},
		{wire.WorktreeState{Nested: []string{"lib"}, Loose: 2}, "1 repository inside, with a history of its own [lib]; 2 commits that are on no branch []"},
		{wire.WorktreeState{UnderWay: []string{"rebase"}, Refs: []string{"refs/worktree/x"}}, "1 operation of git that is under way, with what it set aside [rebase]; 1 git reference that only this worktree has [refs/worktree/x]"},
	} {
		var all []string
		for _, l := range WorktreeLosses(c.s) {
			text := l.Text + " [" + strings.Join(l.Files, " ") + "]"
			if l.More > 0 && len(l.Files) > 0 {
				text += " +" + strings.TrimSuffix(Count(l.More, "", ""), " ")
			}
			all = append(all, text)
		}
		if got := strings.Join(all, "; "); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	branch := wire.Worktree{Branch: "reeve/x"}
	for _, c := range []struct {
		s    wire.WorktreeState
		want string
	}{
		{wire.WorktreeState{}, ""},
		{wire.WorktreeState{Ahead: 2}, "The branch reeve/x stays: 2 commits are nowhere else."},
		{wire.WorktreeState{Ahead: 2, Pushed: true}, "The branch reeve/x stays; its commits are pushed."},
		{wire.WorktreeState{Ahead: 2, Merged: true}, "Its commits are kept: they are merged."},
	} {
		if got := BranchStays(branch, c.s); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestResources(t *testing.T) {
	r := &wire.Resources{MemoryBytes: 412 << 20, PeakBytes: 1536 << 20, CPUSeconds: 72.9, Processes: 3}
	for _, c := range []struct {
		m    wire.Mission
		want string
	}{
		{wire.Mission{}, ""},
		{wire.Mission{Phase: "working", Resources: r}, "3 processes, 412 MiB, 1 min 12 s CPU"},
		{wire.Mission{Phase: "working", Resources: r, Limits: wire.Limits{MemoryMB: 2048, CPUMinutes: 90}}, "3 processes, 412 MiB of 2 GiB, 1 min 12 s of 1 h 30 CPU"},
		{wire.Mission{Phase: "stopped", Resources: r}, "at most 1.5 GiB, 1 min 12 s CPU"},
	} {
		if got := strings.Join(Resources(c.m), ", "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for s, want := range map[float64]string{0.04: "0.0 s", 9.94: "9.9 s", 12.9: "12 s", 59.9: "59 s", 61: "1 min 1 s", 7560: "2 h 6", -1: ""} {
		if got := CPU(s); got != want {
			t.Errorf("CPU(%v) = %q, want %q", s, got, want)
		}
	}
}

// TestFormWorktree: the worktree and the limits are terms like the others.
func TestFormWorktree(t *testing.T) {
	f := NewForm()
	f.Terms.Provider, f.Terms.Folder, f.Terms.Scope = "claude", "/x", "Do it"
	busy := wire.FieldCheck{Field: "folder", Name: otherMission}
	f.Checked(f.Params(), wire.MissionCheckResult{Checks: []wire.FieldCheck{busy}})
	if f.CanContinue() || !f.NeedsWorktree(busy) || CheckTitle(busy) != "Somebody else works here" {
		t.Error("a worktree is not offered")
	}
	f.Terms.Worktree = true
	if !f.NeedsCheck() || f.NeedsWorktree(busy) || f.WorktreeNote() != "your own files stay as they are" || len(f.Checks()) > 0 {
		t.Errorf("what was said of the folder itself still counts: %v", f.Checks())
	}
	f.Checked(f.Params(), wire.MissionCheckResult{Checks: []wire.FieldCheck{{Field: "worktree", Name: "worktree", OK: true, Message: "It will be in /y."}}})
	if !f.CanContinue() || !f.Params().Worktree || f.WorktreeNote() != "It will be in /y" {
		t.Errorf("%q", f.WorktreeNote())
	}
	f.Terms.Limits.MemoryMB = 1024
	if !f.NeedsCheck() || f.Params().Limits.MemoryMB != 1024 {
		t.Error("a limit changes nothing")
	}
	if got := LimitsNote(f.Terms.Limits); got != "1 GiB of memory, any amount of processor time" {
		t.Errorf("%q", got)
	}
}
