package view

import (
	"encoding/json"
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/view/kit"
)

// endedWorktree is a mission that has ended, with work in its worktree.
func endedWorktree(m *wire.Mission) {
	m.Phase, m.Recovery, m.EndedAt, m.LostAt, m.BlockedBy, m.LastResult = "completed", "", clockPtr(15, 1), nil, "", "The page is split into three routes."
	m.Resources = &wire.Resources{PeakBytes: 611 << 20, CPUSeconds: 312}
}

func worktreeState() *wire.WorktreeState {
	return &wire.WorktreeState{Uncommitted: []string{"package.json", "src/settings/routes.tsx"}, Untracked: []string{"src/settings/notes.txt"}, Files: 3, Ignored: 214, Ahead: 2, Digest: "d-1"}
}

// drawChanges is a mission's window with its tab of changes.
func drawChanges(t *testing.T, r *rig, change func(*wire.Mission)) *missionWindow {
	lost(t, r, func(m *wire.Mission) {
		m.Phase, m.Recovery, m.LostAt, m.BlockedBy = "working", "supervisor_present", nil, ""
		m.Turns[0].EndedAt, m.Turns[0].Outcome = nil, ""
		m.Steering[0].State = "applied"
		m.Limits = wire.Limits{MemoryMB: 2048}
		m.Resources = &wire.Resources{At: day, MemoryBytes: 412 << 20, PeakBytes: 611 << 20, CPUSeconds: 72.4, Processes: 3, Method: "scope", LimitBy: "cgroup"}
		if change != nil {
			change(m)
		}
	})
	usual := r.reply
	r.reply = func(method string, params any) (any, error) {
		v, err := usual(method, params)
		if c, ok := v.(wire.ChangesResult); ok {
			c.Worktree = worktreeState()
			for i := range c.Files {
				c.Files[i].SinceLost = false
			}
			return c, err
		}
		return v, err
	}
	w := newMissionWindow(r.desk, "m-settings")
	w.open(tabChanges)
	w.diffs.read()
	r.until("a diff", func() bool { return w.diffs.loaded && len(w.diffs.diff.Objects) > 0 })
	w.diffs.list.Set(1)
	w.diffs.showFile()
	was := w.diffs.diff.Objects[0]
	r.until("the diff of another file", func() bool { return w.diffs.diff.Objects[0] != was })
	return w
}

func labels(o fyne.CanvasObject) (all []string, buttons map[string]*kit.Button) {
	buttons = map[string]*kit.Button{}
	var walk func(o fyne.CanvasObject)
	walk = func(o fyne.CanvasObject) {
		switch v := o.(type) {
		case *kit.Button:
			buttons[v.Label()] = v
		case *kit.Text:
			all = append(all, v.Text())
		case *kit.Paragraph:
			all = append(all, v.Text())
		case *fyne.Container:
			for _, c := range v.Objects {
				walk(c)
			}
		case fyne.Widget:
			for _, c := range test.WidgetRenderer(v).Objects() {
				walk(c)
			}
		}
	}
	walk(o)
	return all, buttons
}

func TestChangesAreReadAfterEachTurn(t *testing.T) {
	r := newRig(t, kit.Light)
	lost(t, r, func(m *wire.Mission) {
		m.Phase, m.Recovery, m.Worktree = "working", "supervisor_present", nil
		m.Turns[0].EndedAt, m.Turns[0].Outcome = nil, ""
	})
	r.openMission("m-settings")
	w := r.missions["m-settings"]
	defer w.win.Close()
	asked := func() int { return len(r.called(wire.MethodMissionChanges)) }
	r.until("the changes", func() bool { return w.diffs.loaded })
	r.changed()
	if n := asked(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	m := lostMission()
	m.Phase, m.Recovery, m.Worktree, m.Revision = "working", "supervisor_present", nil, 2
	know(r, wire.TopicMissions, m) // its turn has ended
	r.changed()
	r.until("the changes of the turn", func() bool { return asked() == 2 && !w.diffs.busy })
	if len(w.diffs.files) != 4 || w.diffs.name.Text() != "package.json" {
		t.Errorf("%d files, shown %q", len(w.diffs.files), w.diffs.name.Text())
	}
	// The keyboard goes through the files.
	w.open(tabChanges)
	w.win.Canvas().Focus(w.diffs.list)
	w.diffs.list.TypedKey(&fyne.KeyEvent{Name: fyne.KeyDown})
	if got := w.diffs.name.Text(); got != "src/settings/SettingsPage.tsx" {
		t.Errorf("shown %q", got)
	}
	// A file that the patch had no room for is asked for by itself.
	w.diffs.list.TypedKey(&fyne.KeyEvent{Name: fyne.KeyEnd})
	r.until("the change of one file", func() bool {
		for _, p := range r.called(wire.MethodMissionChanges) {
			if p.(wire.ChangesParams).Path == "src/settings/routes.tsx" {
				return true
			}
		}
		return false
	})
}

func TestChangesOverTheThresholdComeAsABlob(t *testing.T) {
	r := newRig(t, kit.Light)
	gate := make(chan struct{})
	close(gate)
	r.blob = blobOf(gate, []byte(settingsChanges().Patch))
	r.reply = func(string, any) (any, error) {
		c := settingsChanges()
		c.Patch, _ = json.Marshal(wire.BlobRef{Blob: "abc", Bytes: 9})
		return c, nil
	}
	var got changes
	var err error
	arrived := false
	r.readChanges("m-1", "", func(c changes, e error) { got, err, arrived = c, e, true })
	r.until("the changes", func() bool { return arrived })
	if err != nil || !strings.Contains(got.patches["package.json"], "4.0.2") {
		t.Errorf("%v %q", err, got.patches)
	}
}

// TestRemovalAsks: what would be lost is listed, and the state that was listed
// is repeated to the service.
func TestRemovalAsks(t *testing.T) {
	r := newRig(t, kit.Light)
	w := drawChanges(t, r, endedWorktree)
	_, buttons := labels(w.diffs.tree.root)
	for _, want := range []string{"Keep", "Commit…", "Merge", "Open the folder", "Remove…"} {
		if buttons[want] == nil {
			t.Errorf("no button %q", want)
		}
	}
	test.Tap(buttons["Remove…"])
	if len(r.called(wire.MethodMissionWorktree)) > 0 {
		t.Fatal("removed without a question")
	}
	win := test.NewTempWindow(t, w.root)
	win.Resize(mainSize)
	texts, buttons := labels(w.diffs.tree.root)
	all := strings.Join(texts, "\n")
	for _, want := range []string{"package.json", "src/settings/routes.tsx", "src/settings/notes.txt", "214 ignored files", "reeve/split-settings-page stays: 2 commits are nowhere else."} {
		if !strings.Contains(all, want) {
			t.Errorf("the question does not name %q", want)
		}
	}
	usual := r.reply
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodMissionWorktree {
			return nil, wire.Errorf(wire.CodeConflict, "the worktree changed since you looked at it")
		}
		return usual(method, params)
	}
	test.Tap(buttons["Remove and lose it"])
	r.until("the refusal", func() bool { return w.diffs.tree.busy == "" && w.diffs.tree.told != nil })
	if p := r.called(wire.MethodMissionWorktree)[0].(wire.WorktreeParams); p.Action != "remove" || p.Discard != "d-1" || p.ID != "m-settings" || p.RequestKey == "" {
		t.Errorf("%+v", p)
	}
	if texts, _ := labels(w.diffs.tree.root); !strings.Contains(strings.Join(texts, "\n"), "The worktree changed since you looked at it.") {
		t.Errorf("the refusal is not shown: %q", texts)
	}
}

func TestWorktreeIsCommittedAndKept(t *testing.T) {
	r := newRig(t, kit.Light)
	w := drawChanges(t, r, endedWorktree)
	usual := r.reply
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodMissionWorktree {
			m := lostMission()
			endedWorktree(&m)
			m.Revision = 9
			return wire.WorktreeResult{Mission: m, Done: "3 files were committed as 9a8b7c6.", State: &wire.WorktreeState{Ahead: 3, Digest: "d-2"}}, nil
		}
		return usual(method, params)
	}
	_, buttons := labels(w.diffs.tree.root)
	test.Tap(buttons["Keep"])
	if texts, _ := labels(w.diffs.tree.root); !strings.Contains(strings.Join(texts, "\n"), "~/code/shop-web.reeve-split") {
		t.Errorf("it does not say where it stays: %q", texts)
	}
	test.Tap(buttons["Commit…"])
	_, buttons = labels(w.diffs.tree.root)
	test.Tap(buttons["Commit"])
	r.until("the commit", func() bool { return w.diffs.tree.busy == "" && len(r.called(wire.MethodMissionWorktree)) == 1 })
	if p := r.called(wire.MethodMissionWorktree)[0].(wire.WorktreeParams); p.Action != "commit" || p.Message != "Split the settings page" || p.Discard != "" {
		t.Errorf("%+v", p)
	}
	if texts, _ := labels(w.diffs.tree.root); !strings.Contains(strings.Join(texts, "\n"), "3 files were committed") {
		t.Errorf("%q", texts)
	}
}

// TestDiffSpans: the sign of a line hides nothing behind it, and is no part of
// the line: tabs that follow it indent.
func TestDiffSpans(t *testing.T) {
	rows := diffLines("@@ -1,2 +1,3 @@ func\n \t\t\ta\n-\t\t\tb\n+\t\t\tc\n+\u200bd e\n")
	var got []string
	for _, r := range rows {
		text := ""
		for _, s := range r.Spans {
			if s.Token != "" {
				text += "[" + s.Token + "]"
			} else {
				text += s.Text
			}
		}
		got = append(got, text)
	}
	want := []string{"func", "\t\t\ta", "\t\t\tb", "\t\t\tc", "[ZWSP]d e"}
	if strings.Join(got, "|") != strings.Join(want, "|") || rows[4].Kind != kit.DiffAdded {
		t.Errorf("%q, want %q", got, want)
	}
}
