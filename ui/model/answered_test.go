package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestAnswersInAGapAreTold: what another program answered while there was no
// connection is told afterwards, whether the question was seen here or not, and
// no question that waited goes without a word.
func TestAnswersInAGapAreTold(t *testing.T) {
	s := NewState(7)
	by := func(id string, pid int, via string) wire.Approval {
		a := command(t, id, "m-1", "ls", at(15, 0))
		a.State, a.Answer = "allowed", &wire.Answer{At: at(15, 1), Via: via, Program: "python3", PID: pid}
		return a
	}
	told := func(list []Change) string {
		var out []string
		for _, c := range list {
			out = append(out, string(c.Kind)+" "+c.Approval.ID)
		}
		return strings.Join(out, ", ")
	}
	waits := func(id string) wire.Approval { return command(t, id, "m-1", "ls", at(15, 0)) }
	if got := told(topic(t, s, wire.TopicApprovals, by("q-0", 99, "program"), waits("q-1"), waits("q-2"), waits("q-3"))); got != "asked q-1, asked q-2, asked q-3" {
		t.Errorf("at first: %s", got)
	}
	again := []wire.Approval{by("q-0", 99, "program"), by("q-1", 99, "program"), waits("q-3"),
		by("q-4", 99, "program"), by("q-5", 7, "program"), by("q-6", 0, "rule")}
	got := topic(t, s, wire.TopicApprovals, again...)
	if told(got) != "answered q-1, answered q-4, vanished q-2" {
		t.Errorf("after the gap: %s", told(got))
	}
	if got := told(topic(t, s, wire.TopicApprovals, again...)); got != "" {
		t.Errorf("told twice: %s", got)
	}
	cs, err := s.Delta(delta(t, wire.EvApproval, by("q-7", 99, "program")))
	if err != nil || told(cs) != "answered q-7" {
		t.Errorf("one that was never asked here: %s %v", told(cs), err)
	}
	if note := noteOf(got[2]); !note.Urgent || note.ID != "m-1" || !strings.HasPrefix(note.Body, "Port parser to Go: ") {
		t.Errorf("%+v", note)
	}
	if note := group(got); note.Title != "2 approvals were answered by another program" || note.Body != "1 approval waits no longer, and its answer is not known" {
		t.Errorf("%+v", note)
	}
}

// TestSettledApprovalsAreBounded: however long the program runs, what is known
// of approvals that were settled has an end, and the newest are kept.
func TestSettledApprovalsAreBounded(t *testing.T) {
	s := NewState(7)
	first := command(t, "q-waits", "m-1", "ls", at(8, 0))
	put := func(a wire.Approval) {
		t.Helper()
		if _, err := s.Delta(delta(t, wire.EvApproval, a)); err != nil {
			t.Fatal(err)
		}
	}
	put(first)
	for i := range 5 * maxSettled {
		a := first
		a.ID, a.State = fmt.Sprint("q-", i), "denied"
		a.Answer = &wire.Answer{At: at(9, 0).Add(time.Duration(i)), Via: "rule"}
		put(a)
	}
	first.State, first.Answer = "allowed", &wire.Answer{At: at(10, 0), Via: "program", Program: "reeve", PID: 812}
	put(first)
	if n := len(s.settled); n < maxSettled || n > 2*maxSettled {
		t.Errorf("%d are kept", n)
	}
	if got := s.Answered(2); got[0].ID != "q-waits" || got[1].ID != fmt.Sprint("q-", 5*maxSettled-1) || len(s.Pending("")) > 0 {
		t.Errorf("the newest are %s and %s", got[0].ID, got[1].ID)
	}
}
