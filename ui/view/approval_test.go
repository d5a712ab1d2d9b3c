package view

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// dialogRig is an open dialog on a busy day, at the moment it appears.
func dialogRig(t *testing.T, id string) (*rig, *approvalWindow) {
	t.Helper()
	r := newRig(t, kit.Light)
	busy(t, r)
	know(r, wire.TopicApprovals, commandApproval(t), diffApproval(t), startApproval(t))
	r.review(id)
	if r.approvals == nil || r.approvals.win == nil {
		t.Fatal("no dialog")
	}
	w := r.approvals
	t.Cleanup(func() {
		if r.approvals == w {
			w.win.Close()
		}
	})
	return r, w
}

// pass lets the delay pass.
func (r *rig) pass(d time.Duration) {
	r.clock = r.clock.Add(d)
	r.approvals.changed()
}

func down(w *approvalWindow, k fyne.KeyName) {
	e := &fyne.KeyEvent{Name: k}
	if f, ok := w.win.Canvas().Focused().(interface{ KeyDown(*fyne.KeyEvent) }); ok {
		f.KeyDown(e)
	}
	typed(w, k)
}

// typed is what the keyboard's repeat of a held key brings.
func typed(w *approvalWindow, k fyne.KeyName) {
	if f := w.win.Canvas().Focused(); f != nil {
		f.TypedKey(&fyne.KeyEvent{Name: k})
		return
	}
	w.win.Canvas().OnTypedKey()(&fyne.KeyEvent{Name: k})
}

func up(w *approvalWindow, k fyne.KeyName) {
	if f, ok := w.win.Canvas().Focused().(interface{ KeyUp(*fyne.KeyEvent) }); ok {
		f.KeyUp(&fyne.KeyEvent{Name: k})
	}
}

func press(w *approvalWindow, k fyne.KeyName) { down(w, k); up(w, k) }

func (r *rig) answers() []wire.AnswerParams {
	var out []wire.AnswerParams
	for _, p := range r.called(wire.MethodApprovalAnswer) {
		out = append(out, p.(wire.AnswerParams))
	}
	return out
}

// decided waits for the one answer that was given.
func (r *rig) decided() wire.AnswerParams {
	r.t.Helper()
	r.until("an answer", func() bool { return len(r.answers()) > 0 })
	return r.answers()[0]
}

// undecided fails when anything was answered, or is about to be.
func (r *rig) undecided(why string) {
	r.t.Helper()
	busy := r.approvals != nil && r.approvals.busy != ""
	if busy || len(r.answers()) > 0 {
		r.t.Fatalf("%s: it was answered: %+v", why, r.answers())
	}
}

func TestFocusIsOnDeny(t *testing.T) {
	_, w := dialogRig(t, "q-1")
	if w.win.Canvas().Focused() != fyne.Focusable(w.deny) {
		t.Errorf("the focus is on %v", w.win.Canvas().Focused())
	}
	if w.win.Title() != "Allow this command?" {
		t.Errorf("title %q", w.win.Title())
	}
}

func TestNothingCountsBeforeTheDelay(t *testing.T) {
	for _, k := range []fyne.KeyName{fyne.KeyReturn, fyne.KeyEnter, fyne.KeySpace} {
		r, w := dialogRig(t, "q-1")
		r.pass(armDelay - time.Millisecond)
		press(w, k)
		test.Tap(w.deny)
		test.Tap(w.allow)
		r.undecided("before the delay " + string(k))
		if !w.allow.Disabled() {
			t.Error("allow is armed before the delay")
		}
		r.pass(time.Millisecond)
		if w.allow.Disabled() {
			t.Error("allow is not armed after the delay")
		}
	}
}

func TestEnterAndSpaceDeny(t *testing.T) {
	for _, k := range []fyne.KeyName{fyne.KeyReturn, fyne.KeyEnter, fyne.KeySpace} {
		r, w := dialogRig(t, "q-1")
		r.pass(armDelay)
		press(w, k)
		a := r.decided()
		if a.Allow || a.ID != "q-1" || a.Digest != commandApproval(t).Digest || a.RequestKey == "" || a.Stop {
			t.Errorf("%s: %+v", k, a)
		}
	}
}

// Enter denies whatever button has the focus, the one that allows included.
func TestEnterNeverAllows(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	w.win.Canvas().Focus(w.allow)
	press(w, fyne.KeyReturn)
	if a := r.decided(); a.Allow {
		t.Errorf("Enter allowed: %+v", a)
	}
}

func TestTabAndSpaceAllow(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	for range 12 {
		if w.win.Canvas().Focused() == fyne.Focusable(w.allow) {
			break
		}
		w.win.Canvas().FocusNext()
	}
	press(w, fyne.KeySpace)
	if a := r.decided(); !a.Allow || a.For != approval.ForOnce {
		t.Errorf("%+v", a)
	}
}

func TestClickAllows(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	test.Tap(w.allow)
	if a := r.decided(); !a.Allow {
		t.Errorf("%+v", a)
	}
}

func TestHeldKeyDoesNothing(t *testing.T) {
	for _, k := range []fyne.KeyName{fyne.KeyReturn, fyne.KeySpace} {
		// Its repeats, and its way up, come to the new window.
		r, w := dialogRig(t, "q-1")
		typed(w, k)
		r.pass(armDelay)
		typed(w, k)
		up(w, k)
		r.undecided("held from before, way up")

		// Some systems turn the first repeat into a press.
		r, w = dialogRig(t, "q-1")
		down(w, k)
		r.pass(2 * armDelay)
		typed(w, k)
		up(w, k)
		r.undecided("held from before, seen as a press")

		// Even when that comes after the delay.
		r, w = dialogRig(t, "q-1")
		r.pass(2 * armDelay)
		down(w, k)
		typed(w, k)
		up(w, k)
		r.undecided("held from before, seen as a late press")

		// Held while the dialog turns to the next.
		r, w = dialogRig(t, "q-1")
		r.pass(armDelay)
		down(w, k)
		w.show("q-2")
		r.pass(armDelay)
		up(w, k)
		r.undecided("held while the dialog turned")
		press(w, k) // and then it works
		if a := r.decided(); a.ID != "q-2" || a.Allow {
			t.Errorf("%+v", a)
		}
	}
}

func TestClosingDecidesNothing(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	press(w, fyne.KeyEscape)
	if r.approvals != nil {
		t.Fatal("Esc did not close the dialog")
	}
	r.hop()
	r.undecided("closed with Esc")
	r.review("q-1")
	r.approvals.win.Close()
	r.hop()
	r.undecided("closed by the window's button")
	if len(r.st.Pending("")) != 3 {
		t.Error("something was settled")
	}
}

func TestShowAllBeforeAllowing(t *testing.T) {
	r, w := dialogRig(t, "q-2")
	r.pass(armDelay)
	if !w.allow.Disabled() {
		t.Fatal("allow is armed while lines are hidden")
	}
	w.answer("Allowing", wire.AnswerParams{Allow: true})
	r.undecided("allowed with hidden lines")
	for _, i := range w.v.MustOpen() {
		w.v.OpenPart(i)
	}
	w.draw()
	if !w.allow.Disabled() {
		t.Error("allow is armed while the end is below the window")
	}
	press(w, fyne.KeyEnd)
	if w.allow.Disabled() {
		t.Fatal("allow is not armed when all is shown")
	}
	test.Tap(w.allow)
	if a := r.decided(); !a.Allow || a.ID != "q-2" {
		t.Errorf("%+v", a)
	}
}

func TestWrongDigestCanOnlyBeDenied(t *testing.T) {
	r, _ := dialogRig(t, "q-1")
	r.approvals.win.Close()
	bad := commandApproval(t)
	bad.ID, bad.Digest = "q-bad", "00"
	know(r, wire.TopicApprovals, bad)
	r.review("q-bad")
	w := r.approvals
	r.pass(armDelay)
	if !w.allow.Disabled() {
		t.Error("what does not belong to its digest can be allowed")
	}
	test.Tap(w.deny)
	if a := r.decided(); a.Allow {
		t.Errorf("%+v", a)
	}
}

func TestDenyAndSayWhy(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	w.reason = true
	w.draw()
	w.why.SetText("not in this repository")
	w.why.OnSubmitted("")
	if a := r.decided(); a.Allow || a.Reason != "not in this repository" || a.Stop {
		t.Errorf("%+v", a)
	}
}

func TestDenyAndStop(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	test.Tap(w.others[2].(*kit.GatedButton))
	if a := r.decided(); a.Allow || !a.Stop {
		t.Errorf("%+v", a)
	}
}

func TestAfterAnAnswerComesTheNext(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	test.Tap(w.deny)
	r.until("the next approval", func() bool { return w.id != "q-1" })
	if w.id != "q-2" && w.id != "q-3" {
		t.Errorf("turned to %s", w.id)
	}
	if w.armed() {
		t.Error("the next is armed at once")
	}
}

func TestRefusedAnswerIsShown(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.reply = func(string, any) (any, error) { return nil, errors.New("the request changed meanwhile") }
	r.pass(armDelay)
	test.Tap(w.deny)
	r.until("the refusal", func() bool { return w.problem != "" })
	if w.problem != "The request changed meanwhile." || w.id != "q-1" {
		t.Errorf("%q at %s", w.problem, w.id)
	}
}

func TestAnsweredElsewhere(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	other := commandApproval(t)
	other.State, other.Answer = "allowed", &wire.Answer{At: clock(15, 6), Via: "program", Program: "reeve", PID: 812, TTY: "pts/3"}
	changes, err := r.st.Delta(wire.Event{Event: wire.EvApproval, Data: raw(t, other)})
	if err != nil {
		t.Fatal(err)
	}
	r.happened(changes, nil)
	r.changed()
	if w.settled != "allowed by reeve (pid 812, pts/3) at 15:06" || w.allow != nil || w.deny != nil {
		t.Errorf("settled %q", w.settled)
	}
	if len(r.notes) != 1 || r.notes[0].Kind != model.Answered {
		t.Errorf("notes %+v", r.notes)
	}
}

func TestBlobSubject(t *testing.T) {
	r, _ := dialogRig(t, "q-1")
	r.approvals.win.Close()
	big := commandApproval(t)
	whole := big.Subject
	big.Subject = raw(t, wire.BlobRef{Blob: "ab", Bytes: int64(len(whole))})
	know(r, wire.TopicApprovals, big)
	know(r, wire.TopicApprovals, diffApproval(t)) // so that the first is forgotten
	know(r, wire.TopicApprovals, big)
	gate := make(chan struct{})
	r.desk.blob = blobOf(gate, whole)
	r.review("q-1")
	w := r.approvals
	r.pass(2 * armDelay)
	press(w, fyne.KeySpace)
	r.undecided("while it is read")
	close(gate)
	r.until("the subject", func() bool { return w.ready })
	if w.armed() {
		t.Error("armed before it was shown")
	}
	r.pass(armDelay)
	if w.allow.Disabled() {
		t.Error("not armed after it was shown")
	}
}

func TestQuestions(t *testing.T) {
	r, _ := dialogRig(t, "q-1")
	r.approvals.win.Close()
	q := ask(t, "q-q", "m-parser", "Port parser to Go", "codex", "/x", 4, approval.QuestionAsked,
		approval.Subject{Question: &approval.Question{Text: "Which name?", Options: []string{"Lexer", "Scanner"}}}, clock(15, 5))
	know(r, wire.TopicApprovals, q)
	r.review("q-q")
	w := r.approvals
	r.pass(armDelay)
	if !w.allow.Disabled() {
		t.Error("nothing was chosen and it can be answered")
	}
	w.question.chosen = map[int]bool{1: true}
	w.changed()
	test.Tap(w.allow)
	if a := r.decided(); !a.Allow || a.Text != "Scanner" {
		t.Errorf("%+v", a)
	}
}

// longQuestion has an option of several lines.
func longQuestion(t *testing.T, multi bool) wire.Approval {
	a := ask(t, "q-q", "m-parser", "Port parser to Go", "codex", "/home/me/code/parser", 4, approval.QuestionAsked,
		approval.Subject{Question: &approval.Question{Text: "How should error positions be kept?", Multi: multi, Options: []string{
			"As byte offsets",
			"As line and column, each counted from 1, where the column counts characters and not bytes, so that editors jump to the right place also in lines with 日本語 or emoji; the tests of the old parser that compare offsets are then rewritten, which is about 40 of them, and what else reads positions breaks",
			"Both"}}}, clock(15, 5))
	a.ExpiresAt = clockPtr(15, 17)
	return a
}

// TestOptionsAreWhole: an option that is longer than the window is wide goes on
// in its next line.
func TestOptionsAreWhole(t *testing.T) {
	for _, multi := range []bool{false, true} {
		r := newRig(t, kit.Light)
		busy(t, r)
		q := longQuestion(t, multi)
		know(r, wire.TopicApprovals, q)
		r.review("q-q")
		w := r.approvals
		var sub approval.Subject
		if err := json.Unmarshal(q.Subject, &sub); err != nil {
			t.Fatal(err)
		}
		const room = dialogWidth - 48
		drawn := texts(w.question.root)
		for line := range strings.Lines(drawn) {
			if need := fyne.MeasureText(strings.TrimSuffix(line, "\n"), kit.SizeBody, fyne.TextStyle{}).Width; need > room {
				t.Errorf("%q needs %v of %v", line, need, room)
			}
		}
		if got := strings.Join(strings.Fields(drawn), ""); got != strings.Join(strings.Fields(strings.Join(sub.Question.Options, "")), "") {
			t.Errorf("drawn: %q", drawn)
		}
		if got, want := w.question.root.Size().Height, kit.HeightFor(w.question.root, room); got < want {
			t.Errorf("multi %v: %v high of %v", multi, got, want)
		}
		w.win.Close()
	}
}

// TestReasonOutlivesARefusal: what was written why not is still there when the
// service could not be told.
func TestReasonOutlivesARefusal(t *testing.T) {
	r, w := dialogRig(t, "q-1")
	r.pass(armDelay)
	w.reason = true
	w.draw()
	w.why.SetText("It removes the cache of all projects.")
	r.reply = func(string, any) (any, error) { return nil, errNotConnected }
	w.why.OnSubmitted("")
	r.until("the refusal", func() bool { return w.problem != "" && w.busy == "" })
	if !w.reason || w.why.Text != "It removes the cache of all projects." {
		t.Errorf("the field holds %q", w.why.Text)
	}
	w.show("q-2")
	w.reason = true
	w.draw()
	if w.why.Text != "" {
		t.Errorf("the reason of one stands with another: %q", w.why.Text)
	}
}

// TestLostAnswersAreTold: an answer that the service did not take is told even
// when the dialog is gone, or shows another question by then.
func TestLostAnswersAreTold(t *testing.T) {
	for name, leave := range map[string]func(*approvalWindow){
		"closed":          func(w *approvalWindow) { w.win.Close() },
		"turned":          func(w *approvalWindow) { w.show("q-2") },
		"closed and open": func(w *approvalWindow) { w.win.Close(); w.d.review("q-2") },
	} {
		t.Run(name, func(t *testing.T) {
			r, w := dialogRig(t, "q-1")
			gate := make(chan struct{})
			r.reply = func(string, any) (any, error) { <-gate; return nil, errNotConnected }
			r.pass(armDelay)
			test.Tap(w.deny)
			leave(w)
			close(gate)
			r.until("the notification", func() bool { return len(r.notes) > 0 })
			if n := r.notes[0]; n.Do != model.DoReview || n.ID != "q-1" || n.Title != "Your answer was not taken" {
				t.Errorf("%+v", n)
			}
			if r.approvals != nil {
				if r.approvals.problem != "" {
					t.Error("the refusal of one is shown with another")
				}
				r.approvals.win.Close()
			}
		})
	}
}
