package view

import (
	"context"
	"fmt"
	"math"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// recoverWindow tells what a mission that lost its worker was doing and what
// of that is uncertain, and asks whether it may go on. Recovering has an
// approval of its own.
type recoverWindow struct {
	d    *desk
	id   string
	win  fyne.Window
	root fyne.CanvasObject

	head  *recoverHead
	strip *strip
	left  *fyne.Container
	right *fyne.Container
	foot  *fyne.Container

	cancel, open, show, again, act *kit.Button

	ref         string      // the loss that is told of; only that one is asked for
	loads       int         // so far: only the last one's answers count
	tail        *model.Tail // nil: not read yet
	tailProblem string
	data        changes
	read        bool // the changes were read, or can't be
	dataProblem string
	busy        string
	drawn       string
}

// messagePage is how many entries of a transcript are read at once.
const messagePage = 1000

// rightWidth is the width of the column with what changed.
const rightWidth = 380

// openRecover shows the window for a mission, in front.
func (d *desk) openRecover(id string) {
	if w := d.recovers[id]; w != nil {
		w.win.Show()
		w.win.RequestFocus()
		return
	}
	m, ok := d.st.Mission(id)
	if !ok {
		d.openMain()
		return
	}
	w := newRecoverWindow(d, id)
	d.recovers[id] = w
	w.win = d.window(say.T("Recover: %s", model.Clean(m.Title)), "recover", w.root, mainSize)
	w.win.SetOnClosed(func() {
		d.rememberSize("recover", w.win)
		delete(d.recovers, id)
		d.afterClose()
	})
	w.win.Canvas().SetOnTypedKey(func(e *fyne.KeyEvent) {
		if e.Name != fyne.KeyEscape {
			return
		}
		if w.strip.told != nil {
			w.strip.dismiss()
			return
		}
		w.win.Close()
	})
	w.win.Show()
	w.load()
}

func newRecoverWindow(d *desk, id string) *recoverWindow {
	w := &recoverWindow{d: d, id: id, head: newRecoverHead(), strip: newStrip(), left: kit.Col(12), right: kit.Col(0), foot: kit.Row(8)}
	w.cancel = kit.NewButton(kit.Danger, say.T("Cancel the mission…"), w.askCancel).NoEnter()
	w.open = kit.NewButton(kit.Plain, say.T("Open the checkout"), func() {
		if m, ok := d.st.Mission(id); ok {
			d.openFolder(checkout(m), func(err error) { w.refused(say.T("The checkout can't be opened"), err) })
		}
	})
	w.show = kit.NewButton(kit.Plain, say.T("Show the changes"), func() {
		d.openMission(id)
		if m := d.missions[id]; m != nil {
			m.open(tabChanges)
		}
	})
	w.again = kit.NewButton(kit.Primary, say.T("New mission"), func() {
		if m, ok := d.st.Mission(id); ok {
			d.openFormFor(m)
		}
	})
	w.act = kit.NewButton(kit.Primary, say.T("Recover"), w.recover)
	body := kit.Columns(0,
		kit.Grow(scroll(kit.Pad(20, 24, 20, 24, w.left))),
		kit.VLine(), kit.Fix(rightWidth, kit.Over(kit.Side, scroll(kit.Pad(20, 24, 20, 24, w.right)))))
	w.strip.around = kit.Col(0, w.head.root, kit.HLine(), w.strip.root, kit.Grow(body),
		kit.HLine(), kit.Over(kit.Side, kit.Pad(12, 24, 12, 24, w.foot)))
	w.root = kit.Over(kit.Ground, w.strip.around)
	w.refresh()
	return w
}

// checkout is where the agent works: its worktree, or the mission's folder.
func checkout(m wire.Mission) string {
	if m.Worktree != nil && m.Worktree.State == "made" {
		return m.Worktree.Path
	}
	return m.Folder
}

// load reads what the window tells of: the transcript, which is at its end, and
// the checkout.
func (w *recoverWindow) load() {
	m, _ := w.d.st.Mission(w.id)
	w.loads++
	n := w.loads
	w.ref = m.RecoveryRef
	w.tail, w.tailProblem = nil, ""
	w.data, w.read, w.dataProblem = changes{}, false, ""
	took := func(set func()) {
		if n == w.loads {
			set()
			w.drawn = ""
			w.refresh()
		}
	}
	if m.Session == "" {
		w.tail = &model.Tail{}
	} else {
		task(w.d, func(ctx context.Context) (*model.Tail, error) { return w.d.readTail(ctx, m.Session, checkout(m)) }, func(t *model.Tail, err error) {
			took(func() { w.tail, w.tailProblem = t, sentence(err) })
		})
	}
	w.d.readChanges(w.id, "", func(c changes, err error) {
		took(func() { w.data, w.read, w.dataProblem = c, true, sentence(err) })
	})
	w.refresh()
}

// readTail reads a transcript page by page and keeps its end.
func (d *desk) readTail(ctx context.Context, session, folder string) (*model.Tail, error) {
	t := &model.Tail{}
	p := wire.MessagesParams{Session: session, Limit: messagePage}
	for {
		var r wire.MessagesResult
		if err := d.call(ctx, wire.MethodSessionMessages, p, &r); err != nil {
			t.End(folder)
			return t, err // what was read until then is better than nothing
		}
		for _, e := range r.Entries {
			t.Add(e)
		}
		if !r.More || r.Next == nil {
			t.End(folder)
			return t, nil
		}
		p.After = r.Next
	}
}

// refresh brings the window in line with the mission. Once it can go on again,
// or has ended, there is nothing to ask any more; when its worker was lost once
// more, all is read again before anybody can say yes to it.
func (w *recoverWindow) refresh() {
	m, ok := w.d.st.Mission(w.id)
	if !ok {
		return
	}
	switch mission.Recovery(m.Recovery) {
	case mission.ApprovalRequired, mission.RecoveryExpired, mission.OwnerUncertain:
	default:
		if w.win != nil && w.d.recovers[w.id] == w {
			w.d.openMission(w.id)
			w.win.Close()
		}
		return
	}
	if w.loads > 0 && m.RecoveryRef != w.ref {
		w.load()
		return
	}
	now := w.d.now()
	tail := w.tail
	if tail == nil {
		tail = &model.Tail{}
	}
	r := model.NewRecovery(m, tail, w.d.st.Service(), now)
	r.Unsure = append(r.Unsure, w.d.st.UnsureEffects(w.id)...)
	row, _ := w.d.st.Row(w.id, now)
	w.head.set(w.d, m, row, r)
	link, text := w.d.st.Link()
	w.strip.base(map[bool]string{true: "link" + text}[link != model.Running], func() fyne.CanvasObject {
		if link == model.Running {
			return nil
		}
		return note(kit.WaitingTint, kit.WaitingLine, kit.ShapeNews, kit.Waiting, text, nil)
	})
	w.act.SetLabel(r.Button)
	if w.busy != "" {
		w.act.SetLabel(w.busy)
	}
	free := link == model.Running && w.busy == ""
	enable(w.act, free && w.tail != nil)
	enable(w.cancel, free)
	enable(w.again, free)
	key := fmt.Sprint(r, w.tail != nil, w.tailProblem, w.read, w.dataProblem, m.Worktree)
	if key == w.drawn {
		return
	}
	w.drawn = key
	w.drawLeft(r)
	w.drawRight(r)
	buttons := []fyne.CanvasObject{}
	if r.Cancel {
		buttons = append(buttons, w.cancel)
	}
	buttons = append(buttons, kit.Spring(), w.open, w.show)
	switch {
	case r.Can:
		buttons = append(buttons, w.act)
	case r.New:
		buttons = append(buttons, w.again)
	}
	kit.Set(w.foot, buttons...)
}

// recover asks the service for the recovery, and turns to its approval.
func (w *recoverWindow) recover() {
	m, ok := w.d.st.Mission(w.id)
	if !ok || w.busy != "" {
		return
	}
	p := wire.RecoverParams{
		RequestKey: requestKey(), ID: w.id, Ref: w.ref,
		Provider: m.Provider, Model: m.RequestedModel, Folder: m.Folder, Scope: m.Scope,
	}
	w.busy = say.T("Asking")
	w.refresh()
	w.d.withEnv(func() {
		p.Env = w.d.env // a secret of the mission may have to come again
		task(w.d, func(ctx context.Context) (wire.MissionStartResult, error) {
			var r wire.MissionStartResult
			err := w.d.call(ctx, wire.MethodMissionRecover, p, &r)
			return r, err
		}, w.asked)
	})
}

// asked takes the answer to that.
func (w *recoverWindow) asked(r wire.MissionStartResult, err error) {
	w.busy = ""
	if err != nil {
		w.refused(say.T("It can't be recovered"), err)
		w.refresh()
		return
	}
	w.strip.dismiss()
	w.d.took(r)
	w.d.review(r.Approval.ID)
	w.d.changed()
}

func (w *recoverWindow) refused(title string, err error) {
	w.strip.tell(problemBox(title, sentence(err), kit.NewButton(kit.Plain, say.T("Close"), w.strip.dismiss).Small()))
}

// askCancel asks once more before the mission is ended for good.
func (w *recoverWindow) askCancel() {
	keep := kit.NewButton(kit.Plain, say.T("Don't cancel"), w.strip.dismiss)
	stop := kit.NewButton(kit.Danger, say.T("Cancel the mission"), func() {
		w.strip.dismiss()
		w.busy = say.As("a mission", "Cancelling")
		w.refresh()
		task(w.d, func(ctx context.Context) (wire.MissionResult, error) {
			var r wire.MissionResult
			err := w.d.call(ctx, wire.MethodMissionCancel, wire.MissionParams{RequestKey: requestKey(), ID: w.id}, &r)
			return r, err
		}, func(_ wire.MissionResult, err error) {
			w.busy = ""
			if err != nil {
				w.refused(say.T("It was not cancelled"), err)
			}
			w.refresh()
		})
	}).NoEnter()
	w.strip.tell(kit.Box(kit.WrongTint, kit.WrongLine, 8, kit.Pad(10, 12, 10, 12, kit.Row(8,
		kit.NewIcon(kit.ShapeStopped, 14, kit.Wrong), kit.Body(say.T("Cancel this mission?"), kit.Bold),
		kit.Grow(kit.Note(say.T("It ends and can't go on. The files stay as they are.")).CutEnd()), keep, stop))))
	if w.win != nil {
		w.win.Canvas().Focus(keep)
	}
}

// recoverHead is title, state, and the time that is left.
type recoverHead struct {
	root                fyne.CanvasObject
	title               *kit.Text
	badge               *kit.Badge
	who, folder, branch *kit.Text
	fork                *kit.Icon
	left, lost          *kit.Text
	bar                 *kit.TimeBar
	top, below, times   *fyne.Container
}

func newRecoverHead() *recoverHead {
	h := &recoverHead{title: kit.Title("").CutEnd(), badge: kit.NewBadge(kit.NeedsYou, ""), who: kit.Small(""), folder: kit.Small("", kit.Mono).CutMiddle(),
		branch: kit.Small("", kit.Mono).CutMiddle(), fork: kit.NewIcon(kit.ShapeBranch, 13, kit.Quiet),
		left: kit.Body("", kit.Bold), lost: kit.Note(""), bar: kit.NewTimeBar(1, kit.Waiting)}
	h.top = kit.Row(10, kit.Shrink(h.title), h.badge)
	h.below = kit.Row(8, h.who, kit.Note(say.T("in")), kit.Shrink(h.folder), h.fork, kit.Shrink(h.branch))
	h.times = kit.Row(0, h.left, kit.Spring(), h.lost)
	h.root = kit.Pad(16, 24, 14, 24, kit.Row(0, kit.Grow(kit.Col(6, h.top, h.below)), kit.Gap(20), kit.Fix(200, kit.Col(8, h.times, h.bar))))
	return h
}

func (h *recoverHead) set(d *desk, m wire.Mission, row model.Row, r model.Recovery) {
	h.title.SetText(r.Title)
	h.badge.Set(kitState(row.Shape), row.Word)
	h.who.SetText(row.Provider)
	h.folder.SetText(model.Path(m.Folder, d.o.Home))
	visible(h.fork, m.Worktree != nil)
	visible(h.branch, m.Worktree != nil)
	if m.Worktree != nil {
		h.branch.SetText(model.Clean(m.Worktree.Branch))
	}
	h.left.SetText(row.Time)
	h.lost.SetText(r.Lost)
	h.bar.Set(float32(math.Round(row.Fraction*200)/200), kit.Waiting)
	kit.Set(h.top, kit.Shrink(h.title), h.badge)
	h.below.Refresh()
	h.times.Refresh()
}
