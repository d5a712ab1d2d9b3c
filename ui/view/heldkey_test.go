package view

import (
	"testing"

	"fyne.io/fyne/v2"
)

// A window that loses the focus is told that its keys come up, held or not. The
// one that is held may have come to it as a press when it could answer already.
func TestKeyThatComesUpWithTheFocusDoesNothing(t *testing.T) {
	for _, k := range []fyne.KeyName{fyne.KeyReturn, fyne.KeySpace} {
		r, w := dialogRig(t, "q-1")
		r.pass(armDelay)
		down(w, k)
		w.win.Canvas().Focused().FocusLost()
		up(w, k)
		r.undecided("held while the focus went " + string(k))
	}
}
