package view

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// armDelay is how long an approval is shown before anything can answer it, so
// that what was meant for another window decides nothing here.
const armDelay = 400 * time.Millisecond

// Sizes of the dialog. It is as high as its content wants, within these.
const (
	dialogWidth = 800
	dialogLow   = 460
	dialogHigh  = 700
)

// approvalWindow shows one approval after the other. Only its buttons decide:
// closing it leaves everything waiting.
type approvalWindow struct {
	d    *desk
	win  fyne.Window
	root *fyne.Container
	gate *kit.Gate
	sight

	id      string
	v       model.Approval
	ready   bool      // v is what id asks for, and it is on the screen
	since   time.Time // since when it is
	busy    string    // what was answered, while the service is told
	problem string
	unheard bool   // no service was there to be told, when this was looked at last
	reason  bool   // the reason of a denial is being written
	said    string // what was written of it
	settled string

	counter    *kit.Text
	prev, next *kit.Button
	body       *fyne.Container
	foot       *fyne.Container
	deny       *kit.GatedButton
	allow      *kit.GatedButton
	more       *kit.GatedButton // opens the menu; nil: no rule can be made
	menu       *ruleMenu        // nil: closed
	over       *fyne.Container  // where the menu lies
	hint       *kit.Text
	why        *entry
	question   *questionView
	others     []fyne.Disableable // buttons of the footer that wait with the rest
}

// review shows an approval in the dialog, in front.
func (d *desk) review(id string) {
	if w := d.approvals; w != nil {
		w.show(id)
		w.win.Show()
		w.win.RequestFocus()
		return
	}
	if _, ok := d.st.Approval(id); !ok {
		d.openMain()
		return
	}
	w := newApprovalWindow(d)
	d.approvals = w
	w.win = d.app.NewWindow("Reeve")
	w.win.SetPadded(false)
	w.win.SetContent(w.root)
	w.win.SetOnClosed(func() {
		d.approvals = nil
		d.afterClose()
	})
	w.keys(w.win.Canvas())
	w.show(id)
	w.win.Resize(w.size())
	w.win.CenterOnScreen()
	w.win.Show()
	w.win.RequestFocus()
	w.onScreen()
}

func newApprovalWindow(d *desk) *approvalWindow {
	w := &approvalWindow{d: d, counter: kit.Small(""), hint: kit.Note("").CutEnd(), body: kit.Col(0), foot: kit.Col(0), over: kit.Sized(0, 0)}
	w.gate = &kit.Gate{Open: w.armed, OnEnter: w.enter}
	w.prev = kit.NewButton(kit.QuietButton, "", func() { w.step(-1) }).Icon(kit.ShapeLeft).Small().NoEnter()
	w.next = kit.NewButton(kit.QuietButton, "", func() { w.step(1) }).Icon(kit.ShapeRight).Small().NoEnter()
	w.root = kit.Sized(dialogWidth-40, 440, kit.NewFill(kit.Surface))
	return w
}

// enter is what the Enter key means on any button: it denies, and while the menu
// is open it means nothing.
func (w *approvalWindow) enter() {
	if w.menu == nil {
		w.answer(say.T("Denying"), wire.AnswerParams{})
	}
}

// keys gives the window's keys a meaning where nothing has the focus.
func (w *approvalWindow) keys(c fyne.Canvas) {
	enter := func(e *fyne.KeyEvent) bool {
		return w.deny != nil && (e.Name == fyne.KeyReturn || e.Name == fyne.KeyEnter)
	}
	c.SetOnTypedKey(func(e *fyne.KeyEvent) {
		switch {
		case e.Name == fyne.KeyEscape:
			w.escape()
		case enter(e) && c.Focused() == nil:
			w.deny.TypedKey(e)
		case w.menu == nil:
			w.scrollKey(e.Name)
		}
	})
	if dc, ok := c.(desktop.Canvas); ok {
		dc.SetOnKeyDown(func(e *fyne.KeyEvent) {
			if enter(e) {
				w.deny.KeyDown(e)
			}
		})
		dc.SetOnKeyUp(func(e *fyne.KeyEvent) {
			if enter(e) {
				w.deny.KeyUp(e)
			}
		})
	}
}

func (w *approvalWindow) escape() {
	if w.menu != nil {
		w.closeMenu()
		return
	}
	if w.reason {
		w.reason = false
		w.draw()
		return
	}
	if w.win != nil {
		w.win.Close()
	}
}

// armed reports whether the approval was on the screen long enough, while a
// service was there to be told.
func (w *approvalWindow) armed() bool {
	return w.ready && !w.unheard && w.d.st.Unheard() == "" && !w.since.IsZero() && w.d.now().Sub(w.since) >= armDelay
}

// show turns to an approval. Nothing can answer it before it was read whole and
// shown for a while.
func (w *approvalWindow) show(id string) {
	a, ok := w.d.st.Approval(id)
	if !ok {
		return
	}
	w.gate.Reset()
	if id == w.id { // it was raised over what the person was doing
		w.onScreen()
		return
	}
	w.id, w.ready, w.busy, w.problem, w.reason, w.said, w.settled, w.question = id, false, "", "", false, "", "", nil
	w.since, w.seen = time.Time{}, map[int]bool{}
	if ref, big := model.SubjectBlob(a); big {
		w.v = model.Approval{Title: say.T("Allow this?")}
		w.draw()
		task(w.d, func(ctx context.Context) ([]byte, error) { return w.d.blob(ctx, ref) }, func(data []byte, err error) {
			if w.id != id {
				return
			}
			if err != nil {
				w.problem = sentence(err)
				w.draw()
				return
			}
			a.Subject = json.RawMessage(data)
			w.present(a)
		})
		return
	}
	w.present(a)
}

func (w *approvalWindow) present(a wire.Approval) {
	w.v = model.NewApproval(a, w.d.o.Home, w.d.now())
	w.ready = true
	if w.v.Question != nil {
		w.question = newQuestionView(*w.v.Question, w.changed)
	}
	w.draw()
	if w.win != nil {
		w.win.SetTitle(w.v.Title)
		w.fit()
		w.onScreen()
	}
}

// onScreen starts the delay: from now on the person can see what is asked.
func (w *approvalWindow) onScreen() {
	if !w.ready {
		return
	}
	w.since, w.unheard = w.d.now(), w.d.st.Unheard() != ""
	w.focus()
	w.changed()
	w.d.after(armDelay+10*time.Millisecond, w.changed)
}

// focus puts the keyboard on Deny, unless the menu has it.
func (w *approvalWindow) focus() {
	if w.win != nil && w.menu == nil && w.deny != nil && w.settled == "" {
		w.win.Canvas().Focus(w.deny)
	}
}

// after runs f on the UI goroutine when the time has passed.
func (d *desk) after(t time.Duration, f func()) {
	d.background(func(ctx context.Context) {
		timer := time.NewTimer(t)
		defer timer.Stop()
		select {
		case <-timer.C:
			d.do(f)
		case <-ctx.Done():
		}
	})
}

// refresh takes what changed outside: the queue, and answers of others.
func (w *approvalWindow) refresh() {
	was := w.unheard
	w.unheard = w.d.st.Unheard() != ""
	a, ok := w.d.st.Approval(w.id)
	settled := ""
	switch {
	case !ok && w.busy == "":
		settled = say.T("it no longer waits")
	case ok && a.State != string(approval.Pending):
		settled = model.Settled(a, w.d.now())
	}
	if settled != "" && settled != w.settled && w.busy == "" {
		w.settled, w.reason = settled, false
		w.v.State = a.State
		w.draw()
		return
	}
	if was && !w.unheard { // what is pressed now was meant for a dialog that takes nothing
		w.gate.Reset()
		w.onScreen()
		return
	}
	w.changed()
}

// waits tells whether what is shown still waits for an answer. It asks the
// model: of news that came together, the window draws only the last state.
func (w *approvalWindow) waits() bool {
	a, ok := w.d.st.Approval(w.id)
	return ok && a.State == string(approval.Pending)
}

// changed brings counter and buttons in line.
func (w *approvalWindow) changed() {
	w.note()
	pending := w.d.st.Pending("")
	i := slices.IndexFunc(pending, func(a wire.Approval) bool { return a.ID == w.id })
	text := ""
	switch {
	case i < 0 && len(pending) > 0:
		text = say.T("%d waiting", len(pending))
	case len(pending) > 1:
		text = say.T("%d of %d waiting", i+1, len(pending))
	}
	if text != w.counter.Text() {
		w.counter.SetText(text)
		w.root.Refresh()
	}
	visible(w.prev, len(pending) > 1)
	visible(w.next, len(pending) > 1)
	enable(w.prev, i > 0)
	enable(w.next, i >= 0 && i < len(pending)-1)
	free := w.armed() && w.busy == "" && w.settled == ""
	if w.allow != nil {
		can := free && w.canAllow() && !w.reason
		if w.question != nil {
			can = can && w.question.answer() != ""
		}
		enable(w.allow, can)
		if w.more != nil {
			enable(w.more, can)
		}
		if w.menu != nil {
			enable(w.menu.confirm, can && w.menu.armed())
		}
	}
	for _, b := range w.others {
		writes := b == fyne.Disableable(w.why) // goes on, whoever listens
		enable(b, w.busy == "" && w.ready && (writes || w.d.st.Unheard() == ""))
	}
	w.hint.SetText(w.hintText())
}

func (w *approvalWindow) hintText() string {
	switch {
	case w.busy != "":
		return w.busy
	case w.settled == "" && w.d.st.Unheard() != "":
		return say.T("%s, so nothing can be answered yet. Esc leaves it waiting.", w.d.st.Unheard())
	case w.menu != nil:
		return say.T("Esc closes the menu. Making a rule needs a click, or Tab and Space.")
	case w.v.Unverified != "":
		return say.T("Enter denies. Esc leaves it waiting.")
	case len(w.v.MustOpen()) > 0:
		return say.T("Show all lines to allow. Enter denies. Esc leaves it waiting.")
	case w.armed() && w.settled == "" && !w.sawAll():
		return say.T("Scroll to the end to allow, or press Page Down. Enter denies. Esc leaves it waiting.")
	case w.question != nil:
		return say.T("Esc leaves it waiting. Answering needs a click, or Tab and Space.")
	}
	return say.T("Enter denies. Esc leaves it waiting. Allowing needs a click, or Tab and Space.")
}

// step turns to another approval of the queue.
func (w *approvalWindow) step(by int) {
	pending := w.d.st.Pending("")
	i := slices.IndexFunc(pending, func(a wire.Approval) bool { return a.ID == w.id }) + by
	if i >= 0 && i < len(pending) && w.busy == "" {
		w.show(pending[i].ID)
	}
}

// forward turns to the oldest approval that waits, or closes the dialog.
func (w *approvalWindow) forward() {
	for _, a := range w.d.st.Pending("") {
		if a.ID != w.id {
			w.show(a.ID)
			return
		}
	}
	if w.win != nil {
		w.win.Close()
	}
}

// answer tells the service what the person decided. What allows, or makes a
// rule, needs that everything was in sight.
func (w *approvalWindow) answer(doing string, p wire.AnswerParams) {
	if !w.armed() || w.busy != "" || w.settled != "" || (p.Allow || p.For != "") && !w.canAllow() {
		return
	}
	p.RequestKey, p.ID, p.Digest = requestKey(), w.id, w.v.Digest
	w.busy, w.problem = doing, ""
	w.changed()
	task(w.d, func(ctx context.Context) (wire.ApprovalResult, error) {
		var r wire.ApprovalResult
		err := w.d.call(ctx, wire.MethodApprovalAnswer, p, &r)
		return r, err
	}, func(_ wire.ApprovalResult, err error) {
		if w.id != p.ID || w.win != nil && w.d.approvals != w { // turned to another, or closed
			w.d.notAnswered(p.ID, err)
			return
		}
		w.busy = ""
		if err == nil {
			w.forward()
			return
		}
		w.problem = sentence(err)
		w.draw()
		w.refresh()
		w.focus()
	})
}

// notAnswered tells of an answer that failed after the dialog had left it.
func (d *desk) notAnswered(id string, err error) {
	if err == nil {
		return
	}
	a, _ := d.st.Approval(id)
	n := model.Note{Title: say.T("Your answer was not taken"), Body: model.Clean(a.Title) + ": " + sentence(err), Do: model.DoReview, ID: id, Urgent: true}
	if a.State != string(approval.Pending) {
		n.Do, n.ID = model.DoOpenMission, a.Mission
	}
	d.notifier.send(n)
}

func (w *approvalWindow) answerQuestion() {
	if text := w.question.answer(); text != "" {
		w.answer(say.T("Answering"), wire.AnswerParams{Allow: true, For: approval.ForOnce, Text: text})
	}
}

// size is what the content wants, within the limits.
func (w *approvalWindow) size() fyne.Size {
	h := kit.HeightFor(w.body, dialogWidth-48) + kit.HeightFor(w.foot, dialogWidth) + 172
	return fyne.NewSize(dialogWidth, min(max(h, dialogLow), dialogHigh))
}
