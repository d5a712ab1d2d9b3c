package view

import (
	"testing"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// What stands above a transcript never lies over it, whatever came before and
// without waiting for Fyne to see that it has another height.
func TestStripMakesItsOwnPlace(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	m, _ := r.st.Mission("m-parser")
	w := newMissionWindow(r.desk, "m-parser")
	w.root.Resize(fyne.NewSize(1180, 760))
	fits := func(when string) {
		t.Helper()
		w.refresh()
		if end := w.strip.root.Position().Y + w.strip.root.MinSize().Height; w.place.Position().Y != end {
			t.Errorf("%s: the strip ends at %v, and the page begins at %v", when, end, w.place.Position().Y)
		}
	}
	fits("nothing stands in the way")
	r.st.SetLink(model.NoService, "")
	fits("no service")
	r.st.SetLink(model.Running, "")
	m.Phase, m.Failure = "blocked", &wire.Failure{Message: "The checkout is gone. Put it back, then resume the mission."}
	know(r, wire.TopicMissions, m)
	fits("blocked")
	w.askStop()
	fits("a question")
	w.strip.dismiss()
	fits("blocked again")
}

// A mission whose worker is gone says how it goes on, not only that it is
// blocked.
func TestLostMissionOffersToRecover(t *testing.T) {
	r := newRig(t, kit.Light)
	lost(t, r, func(m *wire.Mission) {
		m.Failure = &wire.Failure{Message: "The guard of this mission ended unexpectedly."}
	})
	w := newMissionWindow(r.desk, "m-settings")
	for _, b := range shownButtons(w.strip.root) {
		if b.Label() == "Recover…" {
			return
		}
	}
	t.Error("the strip has no button to recover the mission with")
}
