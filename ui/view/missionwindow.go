package view

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// railWidth is the right rail's; it folds away in windows narrower than
// foldRail.
const (
	railWidth = 272
	foldRail  = 1000
)

// The tabs of a mission's window.
const (
	tabTranscript = iota
	tabChanges
	tabRoom
	tabEffects
)

// missionWindow is one mission: transcript, steering, and how it stands.
type missionWindow struct {
	d       *desk
	id      string
	win     fyne.Window
	root    fyne.CanvasObject
	session string // whose entries the transcript holds

	head  *missionHead
	tabs  *kit.Tabs
	strip *strip
	log   *transcriptView
	diffs *changesView
	room  *roomView
	done  *effectsView
	place *fyne.Container // the page of the tab
	pages []fyne.CanvasObject
	steer *steerBox
	rail  *missionRail
	foot  *missionFoot
	busy  string // what was asked of the service: the verb on its button
}

func newMissionWindow(d *desk, id string) *missionWindow {
	w := &missionWindow{d: d, id: id}
	m, _ := d.st.Mission(id)
	w.head = newMissionHead(w)
	w.strip = newStrip()
	w.log = newTranscriptView(d, model.Workplace(m))
	w.steer = newSteerBox(w)
	w.rail = newMissionRail()
	w.foot = newMissionFoot()
	w.diffs, w.room, w.done = newChangesView(w), newRoomView(w), newEffectsView(w)
	rail := kit.Columns(0, kit.VLine(), kit.Fix(railWidth, w.rail.root))
	talk := kit.Fold(600, foldRail, kit.Columns(0, kit.Grow(kit.Col(0, kit.Grow(w.log.root), kit.HLine(), w.steer.root)), rail), rail)
	w.pages = []fyne.CanvasObject{talk, w.diffs.root, w.room.root, w.done.root}
	w.place = kit.Sized(600, 0, talk)
	w.tabs = kit.NewTabs(tabTranscript, w.turn, say.T("Transcript"), say.T("Changes"), say.T("Room"), say.T("Effects"))
	w.strip.around = kit.Col(0, w.head.root, kit.Pad(0, 18, 0, 18, kit.Row(0, w.tabs)), kit.HLine(), w.strip.root, kit.Grow(w.place), w.foot.root)
	w.root = kit.Over(kit.Ground, w.strip.around)
	w.refresh()
	return w
}

// open turns to a tab.
func (w *missionWindow) open(tab int) {
	w.tabs.Set(tab)
	w.turn(tab)
}

// turn shows the page of a tab.
func (w *missionWindow) turn(tab int) {
	show(w.place, w.pages[tab])
	w.room.look(tab == tabRoom)
	w.done.seen(tab == tabEffects)
	w.refresh()
	if tab == tabRoom && w.win != nil {
		w.win.Canvas().Focus(w.room.entry)
	}
}

// counted shows how many files changed.
func (w *missionWindow) counted(n int) { w.tabs.SetCount(tabChanges, n) }

// openMission shows a mission's window, in front.
func (d *desk) openMission(id string) {
	if w := d.missions[id]; w != nil {
		w.win.Show()
		w.win.RequestFocus()
		return
	}
	m, ok := d.st.Mission(id)
	if !ok {
		d.openMain()
		return
	}
	w := newMissionWindow(d, id)
	d.missions[id] = w
	w.win = d.window("Reeve: "+model.Clean(m.Title), "mission", w.root, mainSize)
	w.win.SetOnClosed(func() {
		d.rememberSize("mission", w.win)
		w.follow("")
		delete(d.missions, id)
		d.afterClose()
	})
	c := w.win.Canvas()
	c.AddShortcut(&desktop.CustomShortcut{KeyName: fyne.KeyN, Modifier: fyne.KeyModifierShortcutDefault}, func(fyne.Shortcut) { d.openForm() })
	c.SetOnTypedKey(func(e *fyne.KeyEvent) {
		if e.Name == fyne.KeyEscape {
			w.strip.dismiss()
			w.diffs.tree.dismiss()
		}
	})
	w.refresh()
	w.win.Show()
	c.Focus(w.steer.entry)
}

// afterClose ends the program when its last window is gone and there is no
// tray to open another from.
func (d *desk) afterClose() {
	if d.trayKnown && !d.hasTray && d.main == nil && len(d.missions) == 0 && len(d.recovers) == 0 && d.approvals == nil && d.form == nil {
		d.quit()
	}
}

// follow watches the session's entries in place of those before; "" none.
func (w *missionWindow) follow(session string) {
	if session == w.session {
		return
	}
	if f := w.d.follower; f != nil {
		if w.session != "" {
			f.Unwatch(wire.TopicSession + w.session)
		}
		if session != "" {
			f.Watch(wire.TopicSession + session)
		}
	}
	w.session = session
}

func (w *missionWindow) load(entries []wire.Entry) { w.log.load(entries) }
func (w *missionWindow) add(e wire.Entry)          { w.log.add(e) }

func (w *missionWindow) failed(reason string) {
	w.log.problem(say.T("The transcript can't be read at present. %s", sentence(fmt.Errorf("%s", reason))))
}

// refresh brings the window in line with the mission as it is known now.
func (w *missionWindow) refresh() {
	m, ok := w.d.st.Mission(w.id)
	if !ok {
		return
	}
	if w.win != nil {
		w.follow(m.Session)
		w.d.markSeen(w.id)
	}
	now := w.d.now()
	row, _ := w.d.st.Row(w.id, now)
	pending := w.d.st.Pending(w.id)
	w.head.set(m, row)
	w.log.flush(m, pending, now)
	w.steer.set(m)
	w.rail.set(m)
	w.foot.set(m, w.log)
	w.diffs.set(m)
	w.room.set(m)
	w.done.refresh()
	w.tabs.SetCount(tabRoom, row.Messages)
	w.tabs.SetCount(tabEffects, row.Doubts)
	w.standing(m, pending)
}

// standing shows above the transcript what keeps the mission from going on.
func (w *missionWindow) standing(m wire.Mission, pending []wire.Approval) {
	link, text := w.d.st.Link()
	p := mission.Phase(m.Phase)
	switch {
	case link == model.Running && (p == mission.Proposed || canRecover(m)) && len(pending) > 0:
		w.strip.base("start"+pending[0].ID, func() fyne.CanvasObject { return waitingCard(w.d, pending[0], w.d.now()) })
	case link != model.Running:
		w.strip.base("link"+text, func() fyne.CanvasObject {
			var start fyne.CanvasObject
			if link == model.NoService {
				start = kit.NewButton(kit.Plain, say.T("Start the service"), func() { w.d.service.start(w.d) }).Small()
			}
			return note(kit.WaitingTint, kit.WaitingLine, kit.ShapeNews, kit.Waiting, text, start)
		})
	case m.Failure != nil && (p == mission.Blocked || p == mission.StartupFailed) && m.Recovery != string(mission.ApprovalRequired):
		w.strip.base("failure"+m.Failure.Message, func() fyne.CanvasObject {
			title := say.T("Blocked")
			if p == mission.StartupFailed {
				title = say.T("It could not start")
			}
			return problemBox(title, model.Clean(m.Failure.Message))
		})
	case len(m.Left) > 0:
		w.strip.base("left"+strings.Join(m.Left, ","), func() fyne.CanvasObject {
			return problemBox(say.T("Processes that could not be ended"), model.Clean(strings.Join(m.Left, ", ")))
		})
	case m.Recovery == string(mission.ApprovalRequired) || m.Recovery == string(mission.RecoveryExpired) || m.Recovery == string(mission.OwnerUncertain):
		w.strip.base("recovery"+m.Recovery, func() fyne.CanvasObject {
			text, label := say.T("Its worker is gone. Look at what is uncertain, then let it go on or cancel it."), say.T("Recover…")
			switch mission.Recovery(m.Recovery) {
			case mission.RecoveryExpired:
				text, label = say.T("Its worker is gone and its time is over. Only a new mission can go on."), say.T("What happened")
			case mission.OwnerUncertain:
				text, label = say.T("Its worker may still be running and can't be reached. Nothing is taken over."), say.T("What happened")
			}
			return note(kit.WaitingTint, kit.WaitingLine, kit.ShapeNeeds, kit.Waiting, text, kit.NewButton(kit.Plain, label, func() { w.d.openRecover(w.id) }).Small())
		})
	case w.tabs.Chosen() != tabEffects && len(w.d.st.Doubts(w.id)) > 0:
		text := say.N(len(w.d.st.Doubts(w.id)), "Nobody knows whether %d effect of its worker happened.", "Nobody knows whether %d effects of its worker happened.")
		w.strip.base("doubts"+text, func() fyne.CanvasObject {
			return note(kit.WaitingTint, kit.WaitingLine, kit.ShapeNeeds, kit.Waiting, text, kit.NewButton(kit.Plain, say.T("Look"), func() { w.open(tabEffects) }).Small())
		})
	default:
		w.strip.base("", nil)
	}
}

// control asks the service to change the mission; what it refuses is shown in
// the window, and what follows is done once it was taken.
func (w *missionWindow) control(verb, method string, params any, then ...func()) {
	w.busy = verb
	w.refresh()
	task(w.d, func(ctx context.Context) (wire.MissionResult, error) {
		var r wire.MissionResult
		err := w.d.call(ctx, method, params, &r)
		return r, err
	}, func(_ wire.MissionResult, err error) {
		w.busy = ""
		if err != nil {
			w.strip.tell(problemBox(say.T("%s did not work", say.Word(verb)), sentence(err), kit.NewButton(kit.Plain, say.T("Close"), w.strip.dismiss).Small()))
		} else {
			for _, f := range then {
				f()
			}
		}
		w.refresh()
	})
}

// askStop asks once more before the work is ended.
func (w *missionWindow) askStop() {
	keep := kit.NewButton(kit.Plain, say.T("Go on"), w.strip.dismiss)
	stop := kit.NewButton(kit.Danger, say.T("Stop the mission"), func() {
		w.strip.dismiss()
		w.control(say.Key("Stop"), wire.MethodMissionStop, wire.MissionParams{RequestKey: requestKey(), ID: w.id})
	}).NoEnter()
	w.strip.tell(kit.Box(kit.WrongTint, kit.WrongLine, 8, kit.Pad(10, 12, 10, 12, kit.Row(8,
		kit.NewIcon(kit.ShapeStopped, 14, kit.Wrong), kit.Body(say.T("Stop this mission?"), kit.Bold),
		kit.Grow(kit.Note(say.T("Its processes are ended and it cannot go on. The checkout stays as it is.")).CutEnd()), keep, stop))))
	if w.win != nil {
		w.win.Canvas().Focus(keep)
	}
}

// missionHead is title, state, time and the two controls.
type missionHead struct {
	w           *missionWindow
	root        fyne.CanvasObject
	title       *kit.Text
	badge       *kit.Badge
	who, folder *kit.Text
	fork        *kit.Icon
	branch      *kit.Text
	left, ends  *kit.Text
	bar         *kit.TimeBar
	pause, stop *kit.Button
	top, below  *fyne.Container
	times       *fyne.Container
	shown       headShown
	verb        string    // what pause does, as it is drawn
	since       time.Time // since when it does that, rather than something else
}

type headShown struct {
	row          model.Row
	branch, busy string
}

func newMissionHead(w *missionWindow) *missionHead {
	h := &missionHead{w: w, title: kit.Title("").CutEnd(), badge: kit.NewBadge(kit.Working, ""), who: kit.Small(""), folder: kit.Small("", kit.Mono).CutMiddle(),
		left: kit.Body("", kit.Bold), ends: kit.Note(""), bar: kit.NewTimeBar(1, kit.Accent)}
	h.pause = kit.NewButton(kit.Plain, say.T("Pause"), h.pauseOrResume).Icon(kit.ShapePaused).Least(100)
	h.stop = kit.NewButton(kit.Danger, say.T("Stop…"), w.askStop).Icon(kit.ShapeStopped)
	h.top = kit.Row(10, kit.Shrink(h.title), h.badge)
	h.fork, h.branch = kit.NewIcon(kit.ShapeBranch, 13, kit.Quiet), kit.Small("", kit.Mono).CutMiddle()
	h.below = kit.Row(8, h.who, kit.Note(say.T("in")), kit.Shrink(h.folder), h.fork, kit.Shrink(h.branch))
	h.times = kit.Row(0, h.left, kit.Spring(), h.ends)
	h.root = kit.Pad(16, 20, 8, 20, kit.Row(0,
		kit.Grow(kit.Col(6, h.top, h.below)),
		kit.Gap(20), kit.Fix(188, kit.Col(8, h.times, h.bar)), kit.Gap(20), h.pause, kit.Gap(8), h.stop))
	return h
}

// verbOf is what the first of the two controls does with a mission.
func verbOf(m wire.Mission) string {
	switch {
	case canRecover(m):
		return "Recover"
	case canResume(m.Phase):
		return "Resume"
	}
	return "Pause"
}

// pauseOrResume does what the button says. The second click of a double click
// must not undo the first: just after the button changed, it does nothing.
func (h *missionHead) pauseOrResume() {
	m, _ := h.w.d.st.Mission(h.w.id)
	if verbOf(m) != h.verb || h.w.d.now().Sub(h.since) < armDelay {
		return
	}
	params := wire.MissionParams{RequestKey: requestKey(), ID: h.w.id}
	switch h.verb {
	case "Recover":
		h.w.d.openRecover(h.w.id)
	case "Resume":
		h.w.control(say.Key("Resume"), wire.MethodMissionResume, params)
	default:
		h.w.control(say.Key("Pause"), wire.MethodMissionPause, params)
	}
}

func (h *missionHead) set(m wire.Mission, row model.Row) {
	if verb := verbOf(m); verb != h.verb {
		if h.verb != "" {
			h.since = h.w.d.now()
		}
		h.verb = verb
	}
	row.Fraction = math.Round(row.Fraction*188) / 188
	now := headShown{row: row, busy: h.w.busy}
	if m.Worktree != nil {
		now.branch = model.Clean(m.Worktree.Branch)
	}
	if now == h.shown {
		return
	}
	h.shown = now
	h.title.SetText(row.Title)
	h.badge.Set(kitState(row.Shape), row.Word)
	h.who.SetText(row.Provider)
	h.folder.SetText(model.Path(m.Folder, h.w.d.o.Home))
	h.branch.SetText(now.branch)
	visible(h.fork, now.branch != "")
	visible(h.branch, now.branch != "")
	h.left.SetText(row.Time)
	h.ends.SetText(row.End)
	color := kit.Accent
	switch {
	case row.Urgent || row.Shape == model.ShapeNeeds:
		color = kit.Waiting
	case row.Shape == model.ShapePaused:
		color = kit.Quiet
	}
	if row.Bar {
		h.ends.SetText(say.T("ends %s", row.End))
		h.bar.Show()
		h.bar.Set(float32(row.Fraction), color)
	} else {
		h.bar.Hide()
	}
	label, shape := say.T("Pause"), kit.ShapePaused
	switch h.verb {
	case "Recover":
		label, shape = say.T("Recover…"), kit.ShapeRecover
	case "Resume":
		label, shape = say.T("Resume"), kit.ShapeRight
	}
	if h.w.busy == "Pause" || h.w.busy == "Resume" {
		if label = say.T("Pausing"); h.w.busy == "Resume" {
			label = say.T("Resuming")
		}
	}
	h.pause.Icon(shape)
	h.pause.SetLabel(label)
	enable(h.pause, h.w.busy == "" && (canPause(m.Phase) || canResume(m.Phase)))
	h.stop.SetLabel(say.T("Stop…"))
	if h.w.busy == "Stop" {
		h.stop.SetLabel(say.T("Stopping"))
	}
	enable(h.stop, h.w.busy == "" && canStop(m.Phase))
	ended := mission.Phase(m.Phase).Terminal()
	visible(h.pause, !ended)
	visible(h.stop, !ended)
	kit.Set(h.top, kit.Shrink(h.title), h.badge)
	h.times.Refresh()
	h.root.Refresh()
}

// strip is the place under the header for what stands in the way, and for one
// question or refusal over it.
type strip struct {
	root     *fyne.Container
	around   *fyne.Container // what gives it its place
	key      string
	standing fyne.CanvasObject
	told     fyne.CanvasObject
}

func newStrip() *strip { return &strip{root: kit.Col(0)} }

func (s *strip) base(key string, build func() fyne.CanvasObject) {
	if key == s.key {
		return
	}
	s.key, s.standing = key, nil
	if build != nil {
		s.standing = build()
	}
	s.draw()
}

func (s *strip) tell(o fyne.CanvasObject) { s.told = o; s.draw() }
func (s *strip) dismiss()                 { s.told = nil; s.draw() }

func (s *strip) draw() {
	o := s.standing
	if s.told != nil {
		o = s.told
	}
	if o == nil {
		kit.Set(s.root)
	} else {
		kit.Set(s.root, kit.Pad(12, 20, 2, 20, o))
	}
	kit.LayOut(s.around)
}

// note is one line on a tint; button may be nil.
func note(tint, edge kit.Color, shape kit.Shape, color kit.Color, text string, button fyne.CanvasObject) fyne.CanvasObject {
	return kit.Box(tint, edge, 8, kit.Pad(8, 12, 8, 12, kit.Row(8, kit.NewIcon(shape, 14, color), kit.Grow(kit.Body(text).CutEnd()), button)))
}
