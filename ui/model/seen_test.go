package model

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// What changed while the program did not run is unread, and nothing else is.
func TestUnreadOutlivesTheProgram(t *testing.T) {
	at := time.Date(2026, 3, 4, 15, 0, 0, 0, time.UTC)
	m := func(id, phase string, revision uint64, minutes int) wire.Mission {
		out := wire.Mission{ID: id, Phase: phase, Revision: revision, CreatedAt: at.Add(-time.Hour)}
		if ended := at.Add(time.Duration(minutes) * time.Minute); phase == "completed" {
			out.EndedAt = &ended
		} else if minutes > 0 {
			out.CreatedAt = ended
		}
		return out
	}
	run := func(before *Seen, missions ...wire.Mission) *State {
		t.Helper()
		s := NewState(1)
		if before != nil {
			s.Remember(*before)
		}
		var items []json.RawMessage
		for _, m := range missions {
			raw, _ := json.Marshal(m)
			items = append(items, raw)
		}
		if _, err := s.Snapshot(wire.TopicMissions, items); err != nil {
			t.Fatal(err)
		}
		return s
	}
	unread := func(s *State, want ...string) {
		t.Helper()
		var got []string
		for _, id := range []string{"ended", "ending", "live", "missed", "quick", "new"} {
			if row, ok := s.Row(id, at); ok && row.Unread {
				got = append(got, id)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("unread %v, want %v", got, want)
		}
	}
	if _, ok := NewState(1).Seen(at); ok {
		t.Error("something is kept before anything is known")
	}
	s := run(nil, m("ended", "completed", 3, -30), m("ending", "working", 4, 0), m("live", "working", 5, 0), m("missed", "working", 6, 0))
	unread(s)
	// One ends unlooked at while the program runs.
	if _, err := s.Delta(delta(t, wire.EvMission, m("missed", "completed", 7, -1))); err != nil {
		t.Fatal(err)
	}
	unread(s, "missed")
	kept, _ := s.Seen(at)
	if fmt.Sprint(kept.Missions) != "map[ending:4 live:5 missed:6]" {
		t.Errorf("kept %v", kept.Missions)
	}
	after := []wire.Mission{m("ended", "completed", 3, -30), m("ending", "completed", 8, 5), m("live", "working", 5, 0), m("missed", "completed", 7, -1), m("quick", "completed", 2, 9), m("new", "working", 1, 7)}
	s = run(&kept, after...)
	unread(s, "ending", "missed", "quick", "new")
	if !s.MarkSeen("missed") || s.MarkSeen("missed") || s.MarkSeen("gone") {
		t.Error("what is news was told wrongly")
	}
	kept, _ = s.Seen(at.Add(20 * time.Minute))
	unread(run(&kept, after...), "ending", "quick", "new")

	var many []wire.Mission
	for i := range maxSeen + 20 {
		one := m(fmt.Sprintf("m-%04d", i), "working", 1, 0)
		one.CreatedAt = one.CreatedAt.Add(time.Duration(i) * time.Second)
		many = append(many, one)
	}
	kept, _ = run(nil, many...).Seen(at)
	if _, newest := kept.Missions["m-0519"]; len(kept.Missions) != maxSeen || !newest {
		t.Errorf("%d are kept", len(kept.Missions))
	}
}
