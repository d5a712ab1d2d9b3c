package model

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestWorktreePathsAreShort: in lists, in the tray and in notifications a file
// goes by where it lies in the worktree; another one by its whole path.
func TestWorktreePathsAreShort(t *testing.T) {
	const tree = "/home/me/code/parser.reeve/port-7k2m9q"
	s := NewState(7)
	s.SetLink(Running, "")
	m := wire.Mission{ID: "m-1", Title: "Port", Phase: "working", CreatedAt: at(14, 0), Folder: "/home/me/code/parser", Worktree: &wire.Worktree{Path: tree, State: "made"}}
	if _, err := s.Snapshot(wire.TopicMissions, []json.RawMessage{raw(t, m)}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		tree + "/src/lexer.go":           "wants to change src/lexer.go",
		"/home/me/code/parser/README.md": "wants to change /home/me/code/parser/README.md",
		tree + "-2/src/lexer.go":         "wants to change " + tree + "-2/src/lexer.go",
	} {
		a := wire.Approval{ID: "q" + path, Kind: string(approval.FileChange), State: "pending", Mission: "m-1", Title: "Port", Folder: m.Folder, CreatedAt: at(15, 0),
			Subject: raw(t, approval.Subject{Paths: []string{path}})}
		if got := s.Wants(a).String(); got != want {
			t.Errorf("in a list: %q, want %q", got, want)
		}
		changes, err := s.Delta(wire.Event{Event: wire.EvApproval, Data: raw(t, a)})
		if err != nil || len(changes) != 1 {
			t.Fatal(changes, err)
		}
		if got := noteOf(changes[0]).Body; got != want+"\nPort" {
			t.Errorf("as a notification: %q, want %q", got, want)
		}
		if v := NewApproval(a, "/home/me", at(15, 0)); len(v.Parts) == 0 || v.Parts[0].Raw != path {
			t.Errorf("the dialog does not show the whole path: %+v", v.Parts)
		}
	}
	tray := s.Tray(at(15, 6))
	var labels []string
	for _, it := range tray.Menu {
		labels = append(labels, it.Label)
	}
	if all := strings.Join(labels, "\n"); !strings.Contains(all, "▲ Port wants to change src/lexer.go") {
		t.Errorf("the tray: %s", all)
	}
}
