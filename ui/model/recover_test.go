package model

import (
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestRecoverAction: a blocked mission offers what can be done, and nothing
// that would be refused.
func TestRecoverAction(t *testing.T) {
	for recovery, want := range map[mission.Recovery]Action{
		mission.ApprovalRequired:  Recover,
		mission.RecoveryExpired:   NoAction,
		mission.OwnerUncertain:    NoAction,
		mission.SupervisorPresent: Resume,
	} {
		row := MissionRow(wire.Mission{ID: "m-1", Phase: string(mission.Blocked), Recovery: string(recovery)}, nil, time.Unix(0, 0))
		if row.Action != want || row.Shape != ShapeNeeds {
			t.Errorf("%s: %q %s, want %q", recovery, row.Action, row.Shape, want)
		}
	}
}

// TestRecoverApproval: what is uncertain comes first, and the time is that of
// the original deadline.
func TestRecoverApproval(t *testing.T) {
	now, deadline := at(15, 6), at(15, 17)
	a := wire.Approval{ID: "q-1", Kind: string(approval.MissionRecover), Mission: "m-1", Title: "Port it", Provider: "claude", Attempt: "a-1", TurnNo: 4,
		CreatedAt: at(15, 5), ExpiresAt: &deadline, State: "pending"}
	sub := approval.Subject{Mission: &approval.MissionSubject{Provider: "claude", Folder: "/x", Scope: "Port it.", Minutes: 60,
		Notes: []string{"Turn 4 may have finished work.", "It is not known\u202e."}}}
	v := NewApproval(signed(t, a, sub), "", now)
	if p := v.Parts[0]; !p.Warns || !p.Required || p.Label != "Before you answer" || p.Shown.Plain() != "Turn 4 may have finished work.\nIt is not known‹RLO›." || v.HiddenCount() != 1 {
		t.Errorf("the first part: %+v", p)
	}
	if v.Title != "Recover this mission?" || v.Sentence.String() != "Claude Code would go on in /x" || !v.CanAllow() {
		t.Errorf("%q %q %q", v.Title, v.Sentence, v.Unverified)
	}
	if got := facts(v); !strings.Contains(got, "Time: until 15:17, as before; recovering does not extend it\n") || strings.Contains(got, "Note") {
		t.Errorf("facts:\n%s", got)
	}
	// Of a start, notes are facts.
	a.Kind, a.Attempt, a.TurnNo, a.ExpiresAt = string(approval.MissionStart), "", 0, nil
	v = NewApproval(signed(t, a, sub), "", now)
	if v.Parts[0].Warns || !strings.Contains(facts(v), "Note: Turn 4") || v.Title != "Start this mission?" {
		t.Errorf("a start: %+v", v.Parts[0])
	}
	a.State = "denied"
	if w := Wants(a).String(); w != "asks for something that can't be shown here" {
		t.Errorf("wants %q", w)
	}
	if w := Wants(signed(t, a, sub)).String(); w != "asked to start" {
		t.Errorf("wants %q", w)
	}
}
