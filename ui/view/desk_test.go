package view

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

func TestTrayMenu(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	var did []string
	menu := menuOf(r.st.Tray(r.now()).Menu, func(do model.Do, id string) { did = append(did, string(do)+" "+id) })
	var labels []string
	for _, it := range menu.Items {
		label := it.Label
		if it.IsSeparator {
			label = "-"
		}
		labels = append(labels, label)
	}
	if !strings.Contains(labels[0], "wants to change") || !strings.Contains(labels[1], "go test") || labels[2] != "-" {
		t.Errorf("approvals are not first: %q", labels)
	}
	menu.Items[1].Action()
	item := func(m *fyne.Menu, prefix string) *fyne.MenuItem {
		i := slices.IndexFunc(m.Items, func(it *fyne.MenuItem) bool { return strings.HasPrefix(it.Label, prefix) })
		if i < 0 {
			t.Fatalf("no item %q", prefix)
		}
		return m.Items[i]
	}
	paused := item(menu, "‖ Rewrite onboarding")
	item(paused.ChildMenu, "Resume").Action()
	item(menu, "New mission…").Action()
	service := item(menu, "Service").ChildMenu
	if !item(service, "Start").Disabled || item(service, "Stop").Disabled || item(service, "Restart").Disabled {
		t.Error("the service's items do not fit one that runs")
	}
	if quit := item(menu, "Quit desktop"); !quit.IsQuit {
		t.Error("Fyne would add its own Quit")
	}
	want := []string{"review q-1", "resume m-mails", "new-mission "}
	if !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
}

// TestTrayLabelsLoseNothing: what a mission is called is no access key.
func TestTrayLabelsLoseNothing(t *testing.T) {
	for system, want := range map[string]string{"linux": "fix__a&b____c", "freebsd": "fix__a&b____c", "windows": "fix_a&&b__c", "darwin": "fix_a&b__c"} {
		if got := plainLabel(system, "fix_a&b__c"); got != want {
			t.Errorf("%s: %q, want %q", system, got, want)
		}
	}
	menu := menuOf([]model.MenuItem{{Label: "● fix_a&b", Items: []model.MenuItem{{Label: "a_b & c", Do: model.DoOpen}}}}, nil)
	item := menu.Items[0]
	if want := plainLabel(runtime.GOOS, "● fix_a&b"); item.Label != want || item.ChildMenu.Items[0].Label != plainLabel(runtime.GOOS, "a_b & c") {
		t.Errorf("%q, %q", item.Label, item.ChildMenu.Items[0].Label)
	}
}

func TestPauseAllPausesWhatWorks(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	r.act(model.DoPauseAll, "")
	r.until("all pauses", func() bool { return len(r.called(wire.MethodMissionPause)) == 5 })
	for _, p := range r.called(wire.MethodMissionPause) {
		if id := p.(wire.MissionParams).ID; id == "m-mails" || id == "m-flaky" {
			t.Errorf("%s was paused", id)
		}
	}
}

func TestRefusedPauseIsTold(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	r.reply = func(string, any) (any, error) { return nil, wire.Errorf(wire.CodeConflict, "it just ended") }
	r.act(model.DoPause, "m-retry")
	r.until("the notification", func() bool { return len(r.notes) > 0 })
	if n := r.notes[0]; n.Body != "It just ended." || !strings.Contains(n.Title, "Add retry") {
		t.Errorf("%+v", n)
	}
}

func TestMissionWindowSteersAndStops(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	r.openMission("m-parser")
	w := r.missions["m-parser"]
	if w == nil || w.win.Title() != "Reeve: Port parser to Go" {
		t.Fatalf("window %v", w)
	}
	defer w.win.Close()
	w.steer.entry.SetText("Use bytes")
	w.steer.entry.OnSubmitted("")
	r.until("the steering", func() bool { return len(r.called(wire.MethodMissionSteer)) == 1 && w.busy == "" })
	if p := r.called(wire.MethodMissionSteer)[0].(wire.SteerParams); p.Text != "Use bytes" || p.ID != "m-parser" {
		t.Errorf("%+v", p)
	}
	test.Tap(w.head.stop)
	if len(r.called(wire.MethodMissionStop)) > 0 {
		t.Fatal("stopped without asking")
	}
	if w.strip.told == nil {
		t.Fatal("nothing asks")
	}
	w.win.Canvas().Focused().TypedKey(&fyne.KeyEvent{Name: fyne.KeyEscape})
	if w.strip.told != nil {
		t.Error("Esc does not take the question back")
	}
	r.reply = func(string, any) (any, error) { return nil, errors.New("the guard does not answer") }
	w.head.pauseOrResume()
	r.until("the refusal", func() bool { return w.strip.told != nil })
}

// TestDoubleClickPausesOnly: the second click of a double click falls on what the
// button has become, and does not undo the first.
func TestDoubleClickPausesOnly(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	w := newMissionWindow(r.desk, "m-retry")
	test.Tap(w.head.pause)
	r.until("the pause", func() bool { return w.busy == "" && len(r.called(wire.MethodMissionPause)) == 1 })
	m, _ := r.st.Mission("m-retry")
	m.Phase, m.Revision = "paused", m.Revision+1
	if _, err := r.st.Delta(wire.Event{Event: wire.EvMission, Data: raw(t, m)}); err != nil {
		t.Fatal(err)
	}
	w.head.pauseOrResume() // before the button was drawn anew
	w.refresh()
	test.Tap(w.head.pause)
	if w.busy != "" {
		t.Fatal("the second click resumed it")
	}
	r.clock = r.clock.Add(armDelay)
	test.Tap(w.head.pause)
	r.until("the resumption", func() bool { return w.busy == "" && len(r.called(wire.MethodMissionResume)) == 1 })
}

// TestRowButtonWaitsAfterAChange: a press that was meant for Review does not
// resume what stands in its place just then.
func TestRowButtonWaitsAfterAChange(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	row := newMissionRow(r.desk, "m-mails", 84)
	row.set(model.Row{ID: "m-mails", Action: model.Review, Approval: "q-1"})
	row.set(model.Row{ID: "m-mails", Action: model.Resume})
	row.do()
	r.clock = r.clock.Add(armDelay)
	row.do()
	r.until("the resumption", func() bool { return len(r.called(wire.MethodMissionResume)) > 0 })
	r.tasks.Wait()
	if n := len(r.called(wire.MethodMissionResume)); n != 1 {
		t.Errorf("resumed %d times", n)
	}
}

// TestSettledQuestionsAreNotTold: a question that was answered before its
// notification was due is not told, and one that just slipped out is taken back.
func TestSettledQuestionsAreNotTold(t *testing.T) {
	r := newRig(t, kit.Light)
	know[wire.Approval](r, wire.TopicApprovals)
	first, second := commandApproval(t), diffApproval(t)
	for _, a := range []wire.Approval{first, second} {
		r.happened(r.st.Delta(wire.Event{Event: wire.EvApproval, Data: raw(t, a)}))
	}
	for _, a := range []wire.Approval{first, second} {
		a.State, a.Answer = "denied", &wire.Answer{At: day, Via: "program", Program: "reeve-desktop", PID: 7}
		r.happened(r.st.Delta(wire.Event{Event: wire.EvApproval, Data: raw(t, a)}))
	}
	r.clock = r.clock.Add(2 * time.Second)
	r.notifyDue()
	r.changed()
	if len(r.notes) > 0 {
		t.Errorf("%+v", r.notes)
	}
}

// TestRefusalsAreClean: what the service says may hold names that workers gave
// their processes.
func TestRefusalsAreClean(t *testing.T) {
	if got := sentence(wire.Errorf(wire.CodeConflict, "über: sh\x1b[2J (pid 4) is left")); got != "Über: sh‹U+001B›[2J (pid 4) is left." {
		t.Errorf("%q", got)
	}
}

// TestSteeringOutlivesARefusal: what was written to steer stays until it was
// taken.
func TestSteeringOutlivesARefusal(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	w := newMissionWindow(r.desk, "m-parser")
	const text = "Keep the old address as a redirect."
	w.steer.entry.SetText(text)
	r.st.SetLink(model.NoService, "")
	w.refresh()
	w.steer.queue()
	if w.busy != "" || !w.steer.button.Disabled() || w.steer.entry.Text != text {
		t.Errorf("without a service: busy with %q, the field holds %q", w.busy, w.steer.entry.Text)
	}
	r.st.SetLink(model.Running, "")
	r.reply = func(string, any) (any, error) { return nil, errNotConnected }
	w.steer.queue()
	w.steer.queue() // while the first is under way
	r.until("the refusal", func() bool { return w.strip.told != nil && w.busy == "" })
	if n := len(r.called(wire.MethodMissionSteer)); n != 1 || w.steer.entry.Text != text {
		t.Errorf("asked %d times, the field holds %q", n, w.steer.entry.Text)
	}
	r.reply = nil
	w.steer.queue()
	r.until("the steering", func() bool { return w.busy == "" })
	if w.steer.entry.Text != "" {
		t.Errorf("what was taken still stands there: %q", w.steer.entry.Text)
	}
}

func TestTranscriptTurnsFoldInPlace(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	w := newMissionWindow(r.desk, "m-parser")
	win := test.NewTempWindow(t, w.root)
	win.Resize(mainSize)
	w.load(entries(t))
	w.refresh()
	folded := w.log.list.Len()
	if folded != w.log.log.Len() {
		t.Fatalf("%d rows in the list, %d in the model", folded, w.log.log.Len())
	}
	w.log.toggle(0) // the earlier turns
	if got := w.log.list.Len(); got != w.log.log.Len() || got <= folded {
		t.Errorf("%d rows after opening, the model has %d", got, w.log.log.Len())
	}
	w.log.toggle(0)
	if got := w.log.list.Len(); got != folded {
		t.Errorf("%d rows after closing, before %d", got, folded)
	}
	// New entries go on growing the same list.
	w.add(wire.Entry{Log: "l-1", Seq: 1000, At: clock(15, 6), Kind: wire.KindText, Data: raw(t, wire.Text{Turn: "4", Text: "More"})})
	w.add(wire.Entry{Log: "l-1", Seq: 1001, At: clock(15, 6), Kind: wire.KindText, Data: raw(t, wire.Text{Turn: "4", Text: " words"})})
	w.refresh()
	if got := w.log.list.Len(); got != folded+1 || got != w.log.log.Len() {
		t.Errorf("%d rows after a new one, before %d, model %d", got, folded, w.log.log.Len())
	}
	// Another attempt goes on below.
	w.add(wire.Entry{Log: "l-2", Seq: 1, At: clock(15, 7), Kind: wire.KindText, Data: raw(t, wire.Text{Turn: "1", Text: "Again"})})
	w.refresh()
	if got := w.log.list.Len(); got != folded+2 || got != w.log.log.Len() {
		t.Errorf("%d rows with another attempt, before %d, model %d", got, folded+1, w.log.log.Len())
	}
}

func TestFormAsksAndProposes(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	f := newFormWindow(r.desk)
	r.form = f
	if f.form.Terms.Provider != "claude" {
		t.Errorf("the first agent that can be used is not chosen: %q", f.form.Terms.Provider)
	}
	r.reply = func(method string, params any) (any, error) {
		switch method {
		case wire.MethodMissionCheck:
			return wire.MissionCheckResult{Checks: []wire.FieldCheck{{Field: "folder", Name: "git checkout", OK: true, Message: "A git checkout."}}}, nil
		case wire.MethodMissionStart:
			p := params.(wire.MissionStartParams)
			if p.Folder != "/home/me/code/shop-web" || p.Scope != "Do it" || p.Minutes != 60 || !slices.Equal(p.Unasked, []string{"reads", "room"}) || p.Env["PATH"] != "/bin" || p.RequestKey == "" {
				t.Errorf("proposed %+v", p)
			}
			a := startApproval(t)
			return wire.MissionStartResult{Mission: wire.Mission{ID: a.Mission, Title: a.Title, Phase: "proposed", Folder: a.Folder, Minutes: 60, CreatedAt: day}, Approval: a}, nil
		}
		return nil, nil
	}
	if !f.next.Disabled() {
		t.Error("an empty form can be sent")
	}
	f.folder.SetText("~/code/shop-web")
	f.scope.SetText("Do it")
	r.until("the check", func() bool { return f.form.CanContinue() && !f.next.Disabled() })
	test.Tap(f.next)
	r.until("the approval", func() bool { return r.approvals != nil })
	if r.approvals.id != "q-3" || r.missions["m-new"] == nil {
		t.Errorf("opened %q", r.approvals.id)
	}
	if len(r.notes) > 0 {
		t.Errorf("it notifies of what it opens: %+v", r.notes)
	}
	r.approvals.win.Close()
	r.missions["m-new"].win.Close()
}

func TestFormShowsARefusal(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	f := newFormWindow(r.desk)
	r.form = f
	r.reply = func(method string, _ any) (any, error) {
		return nil, wire.Errorf(wire.CodeUnavailable, "the disk is full")
	}
	f.folder.SetText("/x")
	r.until("the refusal", func() bool { return f.problem == "The disk is full." })
}

func TestLinkStates(t *testing.T) {
	r := newRig(t, kit.Light)
	m := newMainWindow(r.desk)
	r.main = m
	at := func() fyne.CanvasObject { m.refresh(); return m.place.Objects[0] }
	if at() != m.link.root {
		t.Error("nothing says that it connects")
	}
	r.linked(client.State{Phase: client.Stopped, Err: client.ErrNotRunning})
	if at() != m.link.root || m.link.button.Label() != "Start the service" {
		t.Errorf("stopped: button %q", m.link.button.Label())
	}
	test.Tap(m.link.button)
	r.until("what went wrong", func() bool { return r.service.problem != "" })
	if !strings.Contains(r.service.problem, "reeve was not found") {
		t.Errorf("%q", r.service.problem)
	}
	r.linked(client.State{Phase: client.Mismatch, Err: &client.MismatchError{Server: "2", App: "1"}})
	if at() != m.link.root || m.link.button.Label() != "Restart the service" {
		t.Errorf("mismatch: button %q", m.link.button.Label())
	}
	busy(t, r)
	r.linked(client.State{Phase: client.Connected})
	if at() != m.missions.root || r.service.problem != "" {
		t.Error("connected, and the missions are not shown")
	}
	r.linked(client.State{Phase: client.Closing, Reason: wire.ClosingShutdown})
	if at() != m.missions.root {
		t.Error("what is known is hidden while the connection comes back")
	}
}

func TestInboxHopsOnce(t *testing.T) {
	r := newRig(t, kit.Light)
	in := newInbox(r.desk)
	in.State(client.State{Phase: client.Connected})
	in.Snapshot(wire.TopicService, nil, "")
	know[wire.Approval](r, wire.TopicApprovals)
	for range 50 {
		in.Delta(wire.TopicMissions, wire.Event{Event: wire.EvMission, Data: raw(t, wire.Mission{ID: "m-1", Title: "One", Phase: "working"})})
	}
	if len(r.hops) != 1 {
		t.Errorf("%d hops", len(r.hops))
	}
	r.hop()
	if _, ok := r.st.Mission("m-1"); !ok {
		t.Error("the mission did not arrive")
	}
}

// What is asked while the program runs opens its dialog; what waited before
// does not.
func TestDialogOpensByItself(t *testing.T) {
	r := newRig(t, kit.Light)
	in := newInbox(r.desk)
	in.Snapshot(wire.TopicApprovals, []json.RawMessage{raw(t, diffApproval(t))}, "")
	r.hop()
	if r.approvals != nil {
		t.Fatal("a dialog opened for what waited before")
	}
	in.Delta(wire.TopicApprovals, wire.Event{Event: wire.EvApproval, Data: raw(t, commandApproval(t))})
	r.hop()
	if r.approvals == nil || r.approvals.id != "q-1" {
		t.Fatal("no dialog opened")
	}
	in.Delta(wire.TopicApprovals, wire.Event{Event: wire.EvApproval, Data: raw(t, startApproval(t))})
	r.hop()
	if r.approvals.id != "q-1" || r.approvals.counter.Text() != "3 of 3 waiting" {
		t.Errorf("the open dialog turned to %s, counter %q", r.approvals.id, r.approvals.counter.Text())
	}
	r.approvals.win.Close()
}

func TestAnsweredNotificationsAreTakenBack(t *testing.T) {
	r := newRig(t, kit.Light)
	in := newInbox(r.desk)
	in.Snapshot(wire.TopicApprovals, []json.RawMessage{raw(t, commandApproval(t))}, "")
	r.hop()
	if len(r.notes) != 1 {
		t.Fatalf("notes %+v", r.notes)
	}
	done := commandApproval(t)
	done.State = "withdrawn"
	in.Delta(wire.TopicApprovals, wire.Event{Event: wire.EvApproval, Data: raw(t, done)})
	r.hop()
	if len(r.notes) != 0 {
		t.Errorf("notes %+v", r.notes)
	}
}

func TestTrayIconsDiffer(t *testing.T) {
	seen := map[string]model.TrayState{}
	for _, s := range []model.TrayState{model.TrayIdle, model.TrayWorking, model.TrayNeedsYou, model.TrayBlocked, model.TrayNoService, model.TrayUpdating} {
		img := string(trayIcon(s).Content())
		if other, ok := seen[img]; ok {
			t.Errorf("%s looks like %s", s, other)
		}
		seen[img] = s
	}
}

func TestNotificationsAreOneASecond(t *testing.T) {
	r := newRig(t, kit.Light)
	know[wire.Approval](r, wire.TopicApprovals)
	for _, a := range []wire.Approval{commandApproval(t), diffApproval(t), startApproval(t)} {
		r.happened(r.st.Delta(wire.Event{Event: wire.EvApproval, Data: raw(t, a)}))
	}
	if len(r.notes) != 1 || r.notes[0].Do != model.DoReview || r.notes[0].ID != "q-1" {
		t.Fatalf("at once: %+v", r.notes)
	}
	r.clock = r.clock.Add(2 * time.Second)
	r.notifyDue()
	if len(r.notes) != 2 || r.notes[1].Title != "2 approvals wait for you" {
		t.Errorf("then: %+v", r.notes)
	}
}

// TestUpgradeRelaunches: once the service is of another version and this
// program's file was replaced, it ends for its successor, which begins as it was:
// but never under the hands of a person.
func TestUpgradeRelaunches(t *testing.T) {
	for name, c := range map[string]struct {
		service  string // its version
		replaced bool
		form     bool // a mission is being proposed
		main     bool
		relaunch bool
	}{
		"both upgraded":     {service: "1.1.0", replaced: true, relaunch: true},
		"with its window":   {service: "1.1.0", replaced: true, main: true, relaunch: true},
		"service still old": {service: "1.0.0", replaced: true},
		"not replaced":      {service: "1.1.0"},
		"somebody types":    {service: "1.1.0", replaced: true, form: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kit.Light)
			busy(t, r)
			if c.main {
				r.openMain()
			}
			if c.form {
				r.openForm()
			}
			looked := false
			r.desk.o.Renewed = func() bool { looked = true; return c.replaced }
			know(r, wire.TopicService, wire.Service{State: "running", Version: c.service, Generation: 15})
			r.changed()
			if r.relaunch != c.relaunch || c.relaunch && r.hidden == c.main {
				t.Errorf("relaunch %v, hidden %v", r.relaunch, r.hidden)
			}
			if looked && c.service == "1.0.0" {
				t.Error("it looked for another file while the service is of its own version")
			}
		})
	}
}
