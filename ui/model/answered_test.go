package model

import (
	"encoding/json"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

func TestAnsweredAndFolders(t *testing.T) {
	s := NewState(0)
	answer := func(id string, minute int) json.RawMessage {
		a := wire.Approval{ID: id, State: "allowed", CreatedAt: at(14, 0)}
		if minute > 0 {
			a.Answer = &wire.Answer{At: at(14, minute)}
		}
		return raw(t, a)
	}
	if _, err := s.Snapshot(wire.TopicApprovals, []json.RawMessage{answer("q-old", 1), answer("q-new", 9), answer("q-none", 0),
		raw(t, wire.Approval{ID: "q-waits", State: "pending", CreatedAt: at(15, 0)})}); err != nil {
		t.Fatal(err)
	}
	if got := s.Answered(2); len(got) != 2 || got[0].ID != "q-new" || got[1].ID != "q-old" {
		t.Errorf("answered: %+v", got)
	}
	if _, err := s.Snapshot(wire.TopicMissions, []json.RawMessage{
		raw(t, wire.Mission{ID: "m-1", Folder: "/a", CreatedAt: at(9, 0)}),
		raw(t, wire.Mission{ID: "m-2", Folder: "/b", CreatedAt: at(10, 0)}),
		raw(t, wire.Mission{ID: "m-3", Folder: "/a", CreatedAt: at(11, 0)}),
		raw(t, wire.Mission{ID: "m-4", Folder: "/c", CreatedAt: at(8, 0)}),
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.Folders(2); len(got) != 2 || got[0] != "/a" || got[1] != "/b" {
		t.Errorf("folders: %q", got)
	}
}
