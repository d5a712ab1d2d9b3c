package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

var zone = time.FixedZone("here", 2*3600)

func at(hour, minute int) time.Time { return time.Date(2026, 3, 4, hour, minute, 0, 0, zone) }

func ptr[T any](v T) *T { return &v }

func raw(t interface{ Fatal(...any) }, v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func delta(t interface{ Fatal(...any) }, name string, v any) wire.Event {
	return wire.Event{Event: name, Data: raw(t, v)}
}

func command(t *testing.T, id, mission, cmd string, asked time.Time) wire.Approval {
	sub := approval.Subject{Tool: "Bash", Command: cmd, Cwd: "/home/me/code/parser"}
	return signed(t, wire.Approval{ID: id, Kind: "tool_call", Mission: mission, Title: "Port parser to Go", Provider: "claude",
		Folder: "/home/me/code/parser", Attempt: "a-1", TurnNo: 4, CreatedAt: asked, State: "pending"}, sub)
}

func signed(t *testing.T, a wire.Approval, sub approval.Subject) wire.Approval {
	t.Helper()
	a.Subject = raw(t, sub)
	d, err := approval.Digest(approval.Envelope{ID: a.ID, Kind: approval.Kind(a.Kind), Mission: a.Mission, Attempt: a.Attempt,
		Turn: a.TurnNo, Subject: sub})
	if err != nil {
		t.Fatal(err)
	}
	a.Digest = d
	return a
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Duration(40 * time.Second), "40 s"},
		{Duration(12*time.Minute + 59*time.Second), "12 min"},
		{Duration(66 * time.Minute), "1 h 6"},
		{Duration(4 * time.Hour), "4 h"},
		{Duration(-time.Second), "0 s"},
		{Seconds(0.1), "0.1 s"}, {Seconds(0.01), "<0.1 s"},
		{ToolName("Bash", "execute"), "Bash"}, {ToolName("Edit convert.sh", "edit"), "Edit"}, {ToolName("sh check.sh", "execute"), "Run"}, {ToolName("mcp__db__put", "mcp"), "mcp__db__put"},
		{ToolObject(wire.ToolStarted{Tool: "look it up", Kind: "other"}, ""), "look it up"}, {ToolObject(wire.ToolStarted{Tool: "Bash"}, ""), ""},
		{ToolObject(wire.ToolStarted{Tool: "Read a", Kind: "read", Paths: []string{"/x/a", "/y/b"}}, "/x"), "a and 1 more"}, {Seconds(14.2), "14 s"}, {Seconds(125), "2 min"}, {Seconds(9.96), "10 s"}, {Seconds(59.7), "59 s"},
		{amount(812), "812"}, {amount(9400), "9.4k"}, {amount(9999), "10k"}, {amount(212_400), "212k"}, {amount(999_900), "1.0M"}, {amount(1_240_000), "1.2M"},
		{Tokens(wire.Usage{}), ""},
		{Tokens(wire.Usage{Semantics: "uncached", Input: ptr(int64(1000)), CacheRead: ptr(int64(200_000)), Output: ptr(int64(11_000))}), "212k tokens"},
		{Tokens(wire.Usage{Semantics: "includes-cache", Input: ptr(int64(201_000)), CacheRead: ptr(int64(200_000)), Output: ptr(int64(11_000))}), "212k tokens"},
		{Cost(ptr(1.836)), "$1.84"}, {Cost(nil), ""},
		{Path("/home/me/code", "/home/me"), "~/code"}, {Path("/home/me", "/home/me"), "~"}, {Path("/home/meg", "/home/me"), "/home/meg"},
		{Path("/x\u202Ey", ""), "/x‹RLO›y"},
		{Clean("a\x1b[2Jb\n\tc"), "a‹U+001B›[2Jb\n\tc"}, {Clean("請求書 é"), "請求書 é"},
		{ShortID("m-01abcdefgh", []string{"m-01abcdefgh", "m-02zzcdefgh"}), "bcdefgh"},
		{ShortID("m-1", nil), "m-1"},
		{Clock(at(9, 5).UTC(), at(10, 0)), "09:05"}, {Clock(at(9, 5).AddDate(0, 0, -1), at(10, 0)), "3 Mar 09:05"},
		{ProviderTitle("acp:opencode"), "opencode"}, {ProviderTitle("claude"), "Claude Code"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	now := at(15, 5)
	started, deadline := at(14, 17), at(15, 17)
	live := wire.Mission{ID: "m-live", Title: "Port parser to Go", Provider: "codex", Model: "gpt-5", Folder: "/home/me/code/parser", Minutes: 60,
		StartedAt: &started, DeadlineAt: &deadline, CreatedAt: started, ToolCalls: 18,
		Usage: wire.Usage{Input: ptr(int64(212_000)), CostUSD: ptr(1.84)}}
	with := func(change func(*wire.Mission)) wire.Mission { m := live; change(&m); return m }
	ended := at(14, 55)
	for _, c := range []struct {
		name string
		m    wire.Mission
		pend []wire.Approval
		want string // shape word | detail | time | end | action
	}{
		{"working", with(func(m *wire.Mission) {
			m.Phase, m.Activity = "working", &wire.Activity{Tool: "Edit", Detail: "lexer.go"}
		}), nil, "● working | editing lexer.go · 18 tools | 12 min left | 15:17 | "},
		{"in a worktree", with(func(m *wire.Mission) {
			m.Phase, m.Worktree = "working", &wire.Worktree{Path: "/home/me/code/parser-reeve-abcdef"}
			m.Activity = &wire.Activity{Tool: "Edit", Detail: "/home/me/code/parser-reeve-abcdef/lexer.go"}
		}), nil, "● working | editing lexer.go · 18 tools | 12 min left | 15:17 | "},
		{"titled", with(func(m *wire.Mission) {
			m.Phase, m.Activity = "working", &wire.Activity{Tool: "Edit convert.sh", Detail: "/home/me/code/parser/x/convert.sh"}
		}), nil, "● working | editing x/convert.sh · 18 tools | 12 min left | 15:17 | "},
		{"titled command", with(func(m *wire.Mission) {
			m.Phase, m.ToolCalls, m.Activity = "working", 0, &wire.Activity{Tool: "sh check.sh", Detail: "sh check.sh"}
		}), nil, "● working | using sh check.sh | 12 min left | 15:17 | "},
		{"needs", with(func(m *wire.Mission) { m.Phase = "working" }), []wire.Approval{command(t, "q-1", "m-live", "go test ./...", now)},
			"▲ needs you | wants to run go test ./... | 12 min left | 15:17 | review"},
		{"needs two", with(func(m *wire.Mission) { m.Phase = "working" }), []wire.Approval{command(t, "q-1", "m-live", "go\x1b test", now), command(t, "q-2", "m-live", "b", now)},
			"▲ needs you | wants to run go‹ESC› test · 1 more | 12 min left | 15:17 | review"},
		{"proposed", wire.Mission{Phase: "proposed", Minutes: 60}, nil, "▲ needs you | waits for your approval to start | 1 h once allowed |  | "},
		{"waiting", with(func(m *wire.Mission) { m.Phase, m.NextTurnAt = "waiting", ptr(at(15, 10)) }), nil,
			"◐ waiting | for news, looks again at 15:10 | 12 min left | 15:17 | "},
		{"paused", with(func(m *wire.Mission) { m.Phase, m.Turn = "paused", 2 }), nil, "⏸ paused | paused in turn 2; its time runs on | 12 min left | 15:17 | resume"},
		{"expired", with(func(m *wire.Mission) { m.Phase, m.DeadlineAt = "paused", ptr(at(15, 0)) }), nil, "⏸ paused | paused; its time runs on | expired | 15:00 | resume"},
		{"blocked", with(func(m *wire.Mission) { m.Phase, m.Failure = "blocked", &wire.Failure{Message: "Sign in."} }), nil,
			"▲ blocked | Sign in. | 12 min left | 15:17 | resume"},
		{"done", with(func(m *wire.Mission) { m.Phase, m.EndedAt, m.LastResult = "completed", &ended, "\nAll ported.\nWORK" }), nil,
			"✓ done | All ported. | done 14:55 | took 38 min | "},
		{"deadline", with(func(m *wire.Mission) { m.Phase, m.EndedAt, m.EndReason = "stopped", &ended, "deadline" }), nil,
			"■ stopped | stopped at its deadline; the checkout is kept | stopped 14:55 | took 38 min | "},
		{"left", with(func(m *wire.Mission) {
			m.Phase, m.EndedAt, m.EndReason, m.Left = "stopped", &ended, "person", []string{"12 sh"}
		}), nil,
			"■ stopped | stopped by you; 1 process could not be ended | stopped 14:55 | took 38 min | "},
		{"failed", with(func(m *wire.Mission) {
			m.Phase, m.EndedAt, m.StartedAt, m.Failure = "startup_failed", &ended, nil, &wire.Failure{Message: "Not signed in."}
		}), nil,
			"✕ failed | Not signed in. | failed 14:55 |  | "},
		{"denied", wire.Mission{Phase: "denied", EndedAt: &ended}, nil, "■ denied | the start was denied; nothing ran | denied 14:55 |  | "},
	} {
		r := MissionRow(c.m, c.pend, now)
		got := fmt.Sprintf("%s %s | %s | %s | %s | %s", r.Shape.Glyph(), r.Word, r.Detail, r.Time, r.End, r.Action)
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	r := MissionRow(with(func(m *wire.Mission) { m.Phase = "working" }), nil, now)
	if r.Provider != "Codex · gpt-5" || r.Folder != "parser" || r.Tokens != "212k tokens" || r.Cost != "$1.84" || !r.Urgent || r.Fraction != 0.2 {
		t.Errorf("row: %+v", r)
	}
}

func TestGroupsAndTray(t *testing.T) {
	now := at(15, 5)
	s := NewState(7)
	if l, text := s.Link(); l != Connecting || text == "" {
		t.Errorf("link %v %q", l, text)
	}
	if tr := s.Tray(now); tr.State != TrayNoService {
		t.Errorf("tray before the service: %v", tr.State)
	}
	s.SetLink(Running, "")
	idle := NewState(7)
	idle.SetLink(Running, "")
	for _, topic := range []string{wire.TopicMissions, wire.TopicApprovals} {
		if _, err := idle.Snapshot(topic, nil); err != nil {
			t.Fatal(err)
		}
	}
	if tr := idle.Tray(now); tr.State != TrayIdle || tr.Tooltip != "Reeve: No mission is running" {
		t.Errorf("idle tray: %+v", tr)
	}
	s.service.State = "updating"
	if tr := s.Tray(now); tr.State != TrayUpdating || !strings.Contains(tr.Tooltip, "nothing new begins") {
		t.Errorf("tray of a service that is updated: %+v", tr)
	}
	s.service.State = "running"
	missions := []json.RawMessage{
		raw(t, wire.Mission{ID: "m-1", Title: "Needs", Phase: "working", CreatedAt: at(14, 0), Folder: "/x/alpha"}),
		raw(t, wire.Mission{ID: "m-2", Title: "Works", Phase: "working", CreatedAt: at(14, 1), Folder: "/x/beta", Usage: wire.Usage{CostUSD: ptr(0.5)}}),
		raw(t, wire.Mission{ID: "m-3", Title: "Today", Phase: "completed", EndedAt: ptr(at(1, 0)), Usage: wire.Usage{CostUSD: ptr(0.25)}}),
		raw(t, wire.Mission{ID: "m-4", Title: "Long ago", Phase: "stopped", EndedAt: ptr(at(1, 0).AddDate(0, 0, -2)), Usage: wire.Usage{CostUSD: ptr(9.0)}}),
		raw(t, wire.Mission{ID: "m-5", Title: "Blocked", Phase: "blocked", CreatedAt: at(13, 0)}),
	}
	if _, err := s.Snapshot(wire.TopicMissions, missions); err != nil {
		t.Fatal(err)
	}
	if tr := s.Tray(now); tr.State != TrayBlocked || tr.Count != 1 || tr.Tooltip != "Reeve: 1 mission is blocked and needs you" {
		t.Errorf("blocked tray: %v %q", tr.State, tr.Tooltip)
	}
	changes, err := s.Snapshot(wire.TopicApprovals, []json.RawMessage{raw(t, command(t, "q-1", "m-1", "rm -rf x", now))})
	if err != nil || len(changes) != 1 || changes[0].Kind != Asked {
		t.Fatalf("changes %v, %v", changes, err)
	}
	names := func(f Filter, q string) string {
		var parts []string
		for _, g := range s.Missions(now, f, q) {
			part := g.Name
			for _, r := range g.Rows {
				part += " " + r.ID
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ", ")
	}
	for _, c := range []struct {
		f       Filter
		q, want string
	}{
		{FilterAll, "", "Waits for you m-1 m-5, Under way m-2, Finished today m-3, Earlier m-4"},
		{FilterLive, "", "Waits for you m-1 m-5, Under way m-2"},
		{FilterFinished, "", "Finished today m-3, Earlier m-4"},
		{FilterAll, "BETA", "Under way m-2"},
		{FilterAll, "nothing", ""},
	} {
		if got := names(c.f, c.q); got != c.want {
			t.Errorf("%s %q: got %s, want %s", c.f, c.q, got, c.want)
		}
	}
	if sum := s.Summary(now); sum != (Summary{Waiting: 2, Working: 1, Cost: "$0.75 today"}) {
		t.Errorf("summary %+v", sum)
	}
	tr := s.Tray(now)
	if tr.State != TrayNeedsYou || tr.Count != 1 || tr.Tooltip != "Reeve: 1 approval waits for you" {
		t.Errorf("tray %v %q", tr.State, tr.Tooltip)
	}
	if first := tr.Menu[0]; first.Do != DoReview || first.ID != "q-1" || !strings.Contains(first.Label, "rm -rf x") {
		t.Errorf("first item %+v", first)
	}
	if !tr.Menu[1].Separator() || tr.Menu[len(tr.Menu)-1].Do != DoQuit {
		t.Errorf("menu %+v", tr.Menu)
	}
	row, _ := s.Row("m-1", now)
	if row.Unread {
		t.Error("what the first snapshot brought is no news")
	}
	if _, err := s.Delta(delta(t, wire.EvMission, wire.Mission{ID: "m-1", Phase: "working", Revision: 9})); err != nil {
		t.Fatal(err)
	}
	if row, _ = s.Row("m-1", now); !row.Unread {
		t.Error("a change is news")
	}
	s.MarkSeen("m-1")
	if row, _ = s.Row("m-1", now); row.Unread {
		t.Error("what was seen is no news")
	}
	s.SetLink(NoService, "")
	if tr := s.Tray(now); tr.State != TrayNoService || tr.Menu[0].Do != DoOpen {
		t.Errorf("tray without service: %+v", tr)
	}
}

func TestChanges(t *testing.T) {
	s := NewState(7)
	kinds := func(ev wire.Event) string {
		t.Helper()
		cs, err := s.Delta(ev)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range cs {
			out = append(out, string(c.Kind))
		}
		return strings.Join(out, " ")
	}
	ask := command(t, "q-1", "m-1", "ls", at(15, 0))
	answered := func(id string, pid int) wire.Approval {
		a := ask
		a.ID, a.State, a.Answer = id, "allowed", &wire.Answer{Via: "program", Program: "reeve", PID: pid, TTY: "pts/3"}
		return a
	}
	other := ask
	other.ID = "q-2"
	refusal := wire.Refusal{At: at(15, 0), Method: "approval.answer", Program: "sh", PID: 4}
	for i, c := range []struct {
		ev   wire.Event
		want string
	}{
		{delta(t, wire.EvApproval, ask), "asked"},
		{delta(t, wire.EvApproval, ask), ""},
		{delta(t, wire.EvApproval, answered("q-1", 99)), "answered"},
		{delta(t, wire.EvApproval, ask), ""}, // late
		{delta(t, wire.EvApproval, other), "asked"},
		{delta(t, wire.EvApproval, answered("q-2", 7)), ""}, // our own answer
		{delta(t, wire.EvMission, wire.Mission{ID: "m-1", Phase: "working", Revision: 1}), ""},
		{delta(t, wire.EvMission, wire.Mission{ID: "m-1", Phase: "blocked", Revision: 2}), "blocked"},
		{delta(t, wire.EvMission, wire.Mission{ID: "m-1", Phase: "completed", Revision: 3}), "finished"},
		{delta(t, wire.EvMission, wire.Mission{ID: "m-1", Phase: "working", Revision: 1}), ""},
		{delta(t, wire.EvRefusal, refusal), "refused"},
		{delta(t, wire.EvRefusal, refusal), ""},
	} {
		if got := kinds(c.ev); got != c.want {
			t.Errorf("step %d: got %q, want %q", i, got, c.want)
		}
	}
	if a, _ := s.Approval("q-1"); a.State != "allowed" {
		t.Errorf("a late question took an answer back: %s", a.State)
	}
	if m, _ := s.Mission("m-1"); m.Phase != "completed" {
		t.Errorf("a late event took the end back: %s", m.Phase)
	}
	if _, err := s.Delta(wire.Event{Event: wire.EvMission, Data: json.RawMessage(`[]`)}); err == nil {
		t.Error("a malformed event passed")
	}
}

// Every order of the same facts, repeated or late, ends in the same state.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []wire.Event
		final := map[string]wire.Mission{}
		finalAsk := map[string]wire.Approval{}
		for i := range rapid.IntRange(1, 4).Draw(t, "missions") {
			id := fmt.Sprintf("m-%d", i)
			for rev := range uint64(rapid.IntRange(1, 5).Draw(t, "revisions")) {
				m := wire.Mission{ID: id, Revision: rev + 1, Phase: rapid.SampledFrom([]string{"waiting", "working", "paused"}).Draw(t, "phase")}
				events = append(events, delta(t, wire.EvMission, m))
				final[id] = m
			}
			a := wire.Approval{ID: "q-" + id, Mission: id, State: "pending"}
			events = append(events, delta(t, wire.EvApproval, a))
			if rapid.Bool().Draw(t, "answered") {
				a.State = "denied"
				events = append(events, delta(t, wire.EvApproval, a))
			}
			finalAsk[a.ID] = a
		}
		order := rapid.Permutation(append(events, events...)).Draw(t, "order")
		s := NewState(0)
		snapshot := rapid.IntRange(0, len(order)-1).Draw(t, "snapshot")
		for i, ev := range order {
			if i == snapshot {
				// A snapshot of an earlier moment names everything there is.
				var items []json.RawMessage
				for id := range final {
					items = append(items, raw(t, wire.Mission{ID: id, Revision: 1, Phase: "waiting"}))
				}
				if _, err := s.Snapshot(wire.TopicMissions, items); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Delta(ev); err != nil {
				t.Fatal(err)
			}
		}
		for id, m := range final {
			if got, _ := s.Mission(id); got.Revision != m.Revision || m.Revision > 1 && got.Phase != m.Phase {
				t.Fatalf("%s: got %s at %d, want %s at %d", id, got.Phase, got.Revision, m.Phase, m.Revision)
			}
		}
		got := map[string]string{}
		want := map[string]string{}
		for id, a := range finalAsk {
			want[id] = a.State
			g, _ := s.Approval(id)
			got[id] = g.State
		}
		if !maps.Equal(got, want) {
			t.Fatalf("approvals: got %v, want %v", got, want)
		}
		// A later snapshot is the whole truth.
		if _, err := s.Snapshot(wire.TopicMissions, nil); err != nil {
			t.Fatal(err)
		}
		if len(s.Missions(at(1, 1), FilterAll, "")) != 0 {
			t.Fatal("missions that a snapshot does not name are still there")
		}
	})
}

func TestNotifier(t *testing.T) {
	now := at(15, 0)
	ask := command(t, "q-1", "m-1", "go test ./...", now)
	var n Notifier
	if _, ok, wait := n.Next(now); ok || wait != 0 {
		t.Fatal("nothing happened, and still a notification")
	}
	n.Add(Change{Kind: Asked, Approval: ask})
	note, ok, _ := n.Next(now)
	if !ok || note.Title != "Claude Code asks" || note.Do != DoReview || note.ID != "q-1" || !strings.Contains(note.Body, "wants to run go test ./...") {
		t.Errorf("note %+v", note)
	}
	gone := ask
	gone.State, gone.Answer = "allowed", &wire.Answer{Via: "program", Program: "reeve", PID: 812, TTY: "pts/3"}
	second := ask
	second.ID = "q-2"
	n.Add(Change{Kind: Asked, Approval: second}, Change{Kind: Finished, Mission: wire.Mission{Title: "A", Phase: "completed"}})
	if _, ok, wait := n.Next(now.Add(400 * time.Millisecond)); ok || wait != 600*time.Millisecond {
		t.Errorf("two within a second, wait %v", wait)
	}
	note, ok, _ = n.Next(now.Add(time.Second))
	if !ok || note.Title != "1 approval waits for you" || note.Body != "1 mission has ended" {
		t.Errorf("group %+v", note)
	}
	third := ask
	third.ID = "q-3"
	gone.ID = "q-3"
	n.Add(Change{Kind: Asked, Approval: third}, Change{Kind: Answered, Approval: gone})
	note, _, _ = n.Next(now.Add(3 * time.Second))
	if note.Title != "An approval was answered elsewhere" || note.Body != "Port parser to Go: allowed by reeve, pid 812, terminal pts/3" {
		t.Errorf("answered %+v", note)
	}
	n.Add(Change{Kind: Refused, Refusal: wire.Refusal{Program: "sh\x1b", PID: 4, Method: "approval.answer", Why: "it descends from a guard"}})
	note, _, _ = n.Next(now.Add(5 * time.Second))
	if note.Body != "sh‹U+001B› (pid 4) tried approval.answer; it counts as a worker because it descends from a guard" {
		t.Errorf("refused %+v", note)
	}
}
