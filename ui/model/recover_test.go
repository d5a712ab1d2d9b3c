package model

import (
	"testing"
	"time"

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
