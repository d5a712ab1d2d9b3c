package view

import (
	"testing"

	"github.com/reevehq/reeve/ui/view/kit"
)

// What changed while no desktop ran is unread at the next start.
func TestSeenIsKept(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	r.openMission("m-retry")
	r.missions["m-retry"].win.Close()
	r.keepSeen()
	m, _ := r.st.Mission("m-retry")
	other, _ := r.st.Mission("m-parser")
	other.Revision++

	next := newRig(t, kit.Light)
	next.app.Preferences().SetString(prefSeen, r.app.Preferences().String(prefSeen))
	next.remember()
	know(next, "missions", m, other)
	for id, want := range map[string]bool{m.ID: false, other.ID: true} {
		if row, ok := next.st.Row(id, next.clock); !ok || row.Unread != want {
			t.Errorf("%s: unread %v, want %v", id, row.Unread, want)
		}
	}
	next.app.Preferences().SetString(prefSeen, "nonsense")
	next.remember()
}
