package model

import (
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestJournalFault: a mission that can't be recorded says so in every phase,
// because nothing else that it shows is certain.
func TestJournalFault(t *testing.T) {
	for _, p := range mission.Phases() {
		m := wire.Mission{ID: "m-1", Phase: string(p), Failure: &wire.Failure{Code: string(mission.PrivateStateFailure), Message: "The disk is full."}}
		row := MissionRow(m, nil, time.Unix(0, 0))
		shown := row.Shape == ShapeNeeds && row.Detail.Text == "The disk is full."
		if want := !p.Terminal(); shown != want && p != mission.StartupFailed {
			t.Errorf("%s: %s %q", p, row.Shape, row.Detail.Text)
		}
	}
}
