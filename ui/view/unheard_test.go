package view

import (
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestNothingIsAnsweredWithoutTheService: while no answer would reach the
// service none can be given, and the dialog says why. Once the service is back
// the dialog waits again before anything counts.
func TestNothingIsAnsweredWithoutTheService(t *testing.T) {
	for why, lost := range map[string]client.State{
		"The service is not running, so nothing can be answered yet.":           {Phase: client.Stopped, Err: client.ErrNotRunning},
		"The service is being updated, so nothing can be answered yet.":         {Phase: client.Closing, Reason: wire.ClosingUpdate},
		"The service does not answer just now, so nothing can be answered yet.": {Phase: client.Connecting},
		"The service is another version, so nothing can be answered yet.":       {Phase: client.Mismatch, Err: &client.MismatchError{Server: "2", App: "1"}},
	} {
		r, w := dialogRig(t, "q-1")
		r.pass(armDelay)
		down(w, fyne.KeySpace)
		r.linked(lost)
		w.answer("Denying", wire.AnswerParams{}) // before the dialog was drawn anew
		r.changed()
		up(w, fyne.KeySpace)
		test.Tap(w.deny)
		test.Tap(w.allow)
		r.undecided(why)
		if !w.allow.Disabled() || !w.deny.Disabled() || !w.more.Disabled() {
			t.Errorf("%s: armed", why)
		}
		if got := w.hintText(); !strings.HasPrefix(got, why) {
			t.Errorf("%s: it says %q", why, got)
		}
		r.linked(client.State{Phase: client.Connected})
		r.changed()
		if w.armed() || !w.allow.Disabled() || w.deny.Disabled() {
			t.Errorf("%s: back, and armed at once, or not to be denied", why)
		}
		r.pass(armDelay)
		if w.allow.Disabled() {
			t.Errorf("%s: not armed when it is back", why)
		}
		test.Tap(w.allow)
		if a := r.decided(); !a.Allow || a.ID != "q-1" {
			t.Errorf("%s: %+v", why, a)
		}
		w.win.Close()
	}
}

// What was written why not can be written on while the service is away.
func TestReasonIsWrittenWithoutTheService(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	w.reason = true
	w.draw()
	r.linked(client.State{Phase: client.Stopped, Err: client.ErrNotRunning})
	r.changed()
	if w.why.Disabled() {
		t.Error("the field can't be written in")
	}
	w.why.SetText("It removes the cache.")
	w.why.OnSubmitted("")
	r.undecided("without a service")
	r.linked(client.State{Phase: client.Connected})
	r.changed()
	r.pass(armDelay)
	w.why.OnSubmitted("")
	if a := r.decided(); a.Allow || a.Reason != "It removes the cache." {
		t.Errorf("%+v", a)
	}
}
