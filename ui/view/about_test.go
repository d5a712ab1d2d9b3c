package view

import (
	"testing"

	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ui/view/kit"
)

// TestAboutTellsTheVersion: the one that packages and commands tell, too.
func TestAboutTellsTheVersion(t *testing.T) {
	r := newRig(t, kit.Light)
	r.desk.o.Version = assets.Version
	m := newMainWindow(r.desk)
	busy(t, r)
	m.open(pageSettings)
	var last string
	for _, o := range test.LaidOutObjects(m.root) {
		text, ok := o.(*kit.Text)
		if !ok {
			continue
		}
		if last == "Reeve desktop" {
			if text.Text() != assets.Version {
				t.Errorf("it says %q, want %q", text.Text(), assets.Version)
			}
			return
		}
		last = text.Text()
	}
	t.Error("no version is told")
}
