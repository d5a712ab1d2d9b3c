package view

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/view/kit"
)

// offering is an open dialog of a command that rules can be made of.
func offering(t *testing.T, id string) (*rig, *approvalWindow) {
	t.Helper()
	r := newRig(t, kit.Light)
	busy(t, r)
	know(r, wire.TopicApprovals, plainApproval(t), commandApproval(t), diffApproval(t), startApproval(t))
	r.review(id)
	w := r.approvals
	t.Cleanup(func() {
		if r.approvals == w {
			w.win.Close()
		}
	})
	return r, w
}

// opened is the menu of an armed dialog, before its own delay passed.
func opened(t *testing.T) (*rig, *approvalWindow) {
	t.Helper()
	r, w := offering(t, "q-4")
	r.pass(armDelay)
	test.Tap(w.more)
	if w.menu == nil {
		t.Fatal("the menu does not open")
	}
	return r, w
}

func choose(w *approvalWindow, i int) {
	w.menu.offers.Set(i)
	w.menu.offers.OnChanged(i)
}

func TestMenuArmsWithAllow(t *testing.T) {
	r, w := offering(t, "q-4")
	r.pass(armDelay - time.Millisecond)
	if !w.more.Disabled() {
		t.Error("the menu can be opened before the delay")
	}
	test.Tap(w.more)
	w.openMenu()
	if w.menu != nil {
		t.Fatal("the menu opens before the delay")
	}
	r.pass(time.Millisecond)
	if w.more.Disabled() {
		t.Error("the menu can't be opened after the delay")
	}
}

func TestNoMenuWithoutOffers(t *testing.T) {
	r, w := offering(t, "q-3") // a start
	r.pass(armDelay)
	w.openMenu()
	if w.more != nil || w.menu != nil {
		t.Error("a start can make a rule")
	}
}

// Nothing may be allowed before hidden parts were opened, by a rule neither.
func TestMenuWaitsForHiddenParts(t *testing.T) {
	r, w := offering(t, "q-2")
	r.pass(armDelay)
	w.openMenu()
	if !w.more.Disabled() || w.menu != nil {
		t.Fatal("a rule can be made of what was not shown whole")
	}
	w.answer("Denying", wire.AnswerParams{For: approval.ForProject})
	r.undecided("a rule of what was not shown whole")
	for _, i := range w.v.MustOpen() {
		w.v.OpenPart(i)
	}
	w.draw()
	if !w.more.Disabled() {
		t.Error("a rule can be made of what lies below the window")
	}
	press(w, fyne.KeyEnd)
	if w.more.Disabled() {
		t.Error("a rule can't be made when all is shown")
	}
}

// A rule takes a choice and another click, and the menu's own delay.
func TestRuleIsMadeByClicks(t *testing.T) {
	r, w := opened(t)
	test.Tap(w.menu.confirm)
	r.pass(2 * armDelay)
	test.Tap(w.menu.confirm)
	w.menu.make()
	r.undecided("nothing was chosen")
	choose(w, 1)
	r.undecided("chosen, and not confirmed")
	if text := w.menu.promise.Text(); !strings.Contains(text, "“npm test” with any further plain words") || !strings.HasPrefix(text, "Until the mission ends") {
		t.Errorf("the menu says %q", text)
	}
	if got := w.menu.confirm.Label(); got != "Allow for this mission" {
		t.Errorf("the button says %q", got)
	}
	test.Tap(w.menu.confirm)
	if a := r.decided(); !a.Allow || a.For != approval.ForMission || a.Pattern != "npm test *" || a.ID != "q-4" || a.Digest != plainApproval(t).Digest {
		t.Errorf("%+v", a)
	}
}

func TestMenuHasItsOwnDelay(t *testing.T) {
	r, w := opened(t)
	choose(w, 0)
	r.pass(armDelay - time.Millisecond)
	test.Tap(w.menu.confirm)
	w.menu.make()
	r.undecided("before the menu's delay")
	r.pass(time.Millisecond)
	if w.menu.confirm.Disabled() {
		t.Error("not armed after the delay")
	}
}

func TestRuleIsMadeByTabAndSpace(t *testing.T) {
	r, w := offering(t, "q-4")
	r.pass(armDelay)
	tab := func(to fyne.Focusable) {
		t.Helper()
		for range 20 {
			if w.win.Canvas().Focused() == to {
				return
			}
			w.win.Canvas().FocusNext()
		}
		t.Fatalf("Tab does not reach %T", to)
	}
	tab(w.more)
	press(w, fyne.KeySpace)
	if w.menu == nil || w.win.Canvas().Focused() != fyne.Focusable(w.menu.first) {
		t.Fatal("Space does not open the menu, with the focus in it")
	}
	press(w, fyne.KeySpace)
	if w.menu.chosen != 0 {
		t.Fatal("Space does not choose")
	}
	r.pass(armDelay)
	tab(w.menu.confirm)
	press(w, fyne.KeySpace)
	if a := r.decided(); !a.Allow || a.For != approval.ForMission || a.Pattern != "" {
		t.Errorf("%+v", a)
	}
}

// Enter opens no menu, chooses nothing in it and makes no rule, whatever has
// the focus.
func TestEnterMakesNoRule(t *testing.T) {
	for _, k := range []fyne.KeyName{fyne.KeyReturn, fyne.KeyEnter} {
		r, w := opened(t)
		choose(w, 0)
		r.pass(armDelay)
		seen := map[fyne.Focusable]bool{}
		for range 30 {
			w.win.Canvas().FocusNext()
			seen[w.win.Canvas().Focused()] = true
			press(w, k)
		}
		w.win.Canvas().Unfocus()
		press(w, k)
		r.hop()
		r.undecided("Enter with the menu open")
		if len(seen) < 12 || !seen[w.menu.confirm] {
			t.Errorf("only %d controls were tried", len(seen))
		}

		r, w = offering(t, "q-4")
		r.pass(armDelay)
		w.win.Canvas().Focus(w.more)
		press(w, k)
		if a := r.decided(); a.Allow || a.For != "" || w.menu != nil {
			t.Errorf("Enter on the menu's button: %+v", a)
		}
	}
}

func TestHeldSpaceMakesNoRule(t *testing.T) {
	r, w := opened(t)
	r.pass(armDelay)
	choose(w, 0)
	w.win.Canvas().Focus(w.menu.confirm)
	for range 5 {
		typed(w, fyne.KeySpace) // repeats of a key that went down elsewhere
	}
	up(w, fyne.KeySpace)
	r.undecided("a key held from before")
}

func TestAlwaysAndDeny(t *testing.T) {
	for _, row := range []struct {
		effect, reach int
		label         string
		want          wire.AnswerParams
	}{
		{0, 1, "Always allow", wire.AnswerParams{Allow: true, For: approval.ForProject}},
		{1, 0, "Deny for this mission", wire.AnswerParams{For: approval.ForMission}},
		{1, 1, "Always deny", wire.AnswerParams{For: approval.ForProject}},
	} {
		r, w := opened(t)
		r.pass(armDelay)
		choose(w, 1)
		w.menu.effects.Set(row.effect)
		w.menu.effects.OnChanged(row.effect)
		w.menu.reaches.Set(row.reach)
		w.menu.reaches.OnChanged(row.reach)
		if got := w.menu.confirm.Label(); got != row.label {
			t.Errorf("the button says %q, want %q", got, row.label)
		}
		denied := strings.Contains(w.menu.promise.Text(), "denied without asking")
		if denied == row.want.Allow {
			t.Errorf("the menu says %q", w.menu.promise.Text())
		}
		test.Tap(w.menu.confirm)
		if a := r.decided(); a.Allow != row.want.Allow || a.For != row.want.For || a.Pattern != "npm test *" || a.Stop {
			t.Errorf("%+v, want %+v", a, row.want)
		}
	}
}

func TestMenuCloses(t *testing.T) {
	for name, closing := range map[string]func(r *rig, w *approvalWindow){
		"Escape":     func(_ *rig, w *approvalWindow) { press(w, fyne.KeyEscape) },
		"Cancel":     func(_ *rig, w *approvalWindow) { test.Tap(w.menu.cancel) },
		"its button": func(_ *rig, w *approvalWindow) { test.Tap(w.more) },
		"outside":    func(_ *rig, w *approvalWindow) { test.TapCanvas(w.win.Canvas(), fyne.NewPos(30, 120)) },
		"the next":   func(_ *rig, w *approvalWindow) { w.show("q-1") },
		"answered elsewhere": func(r *rig, w *approvalWindow) {
			other := plainApproval(t)
			other.State, other.Answer = "allowed", &wire.Answer{At: clock(15, 6), Via: "program", Program: "reeve", PID: 812}
			if _, err := r.st.Delta(wire.Event{Event: wire.EvApproval, Data: raw(t, other)}); err != nil {
				t.Fatal(err)
			}
			r.changed()
		},
	} {
		r, w := opened(t)
		r.pass(armDelay)
		choose(w, 0)
		closing(r, w)
		if w.menu != nil || len(w.over.Objects) != 0 || r.approvals == nil {
			t.Errorf("%s: the menu is still open, or the dialog is not", name)
		}
		r.hop()
		r.undecided(name)
	}
}

// A click on the menu, between its buttons, goes to nothing behind it.
func TestMenuCoversWhatIsBehind(t *testing.T) {
	_, w := opened(t)
	at := fyne.CurrentApp().Driver().AbsolutePositionForObject(w.menu.promise)
	test.TapCanvas(w.win.Canvas(), at.AddXY(2, 2))
	if w.menu == nil {
		t.Error("a click on the menu closes it")
	}
}

func TestRefusedRuleIsShown(t *testing.T) {
	r, w := opened(t)
	r.reply = func(string, any) (any, error) { return nil, errors.New("No rule was made, and nothing was decided.") }
	r.pass(armDelay)
	choose(w, 0)
	test.Tap(w.menu.confirm)
	r.until("the refusal", func() bool { return w.problem != "" })
	if w.menu != nil || w.id != "q-4" || w.busy != "" {
		t.Errorf("menu %v, at %s, busy %q", w.menu, w.id, w.busy)
	}
}

// Every program that would run is named, and how they are joined.
func TestProgramsAreNamed(t *testing.T) {
	_, w := offering(t, "q-1")
	var got []string
	var walk func(o fyne.CanvasObject)
	walk = func(o fyne.CanvasObject) {
		switch v := o.(type) {
		case *kit.Text:
			got = append(got, v.Text())
		case *fyne.Container:
			for _, c := range v.Objects {
				walk(c)
			}
		}
	}
	walk(runs(w.v.Runs))
	if want := []string{"go", "then", "rm", "then", "echo", "into", "tee"}; len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("named %q", got)
	}
}
