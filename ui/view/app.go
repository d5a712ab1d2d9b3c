// Package view is the desktop program: tray, windows, dialogs and
// notifications, drawn with Fyne from what ui/model says.
//
// Everything here runs on the UI goroutine unless it says otherwise. What comes
// from the service is handed over with one hop (see inbox); what goes to it
// runs in goroutines that the program owns and waits for (see task). The
// program holds no state that matters: kill it and nothing is lost.
package view

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"sync"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/lang"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
)

// Options is what the program is run with.
type Options struct {
	// Dial connects to the service.
	Dial func(context.Context) (*client.Client, error)
	// Reeve is the path of the command line program, which starts the
	// service; "" when it was not found.
	Reeve   string
	Version string
	PID     int    // its own, to know its own answers
	Home    string // the home directory, shown as ~; may be empty
	// Instance hears from later starts of the program; may be nil.
	Instance *Instance
	// Hidden starts with the tray alone, where there is one.
	Hidden bool
	// Secret reads a secret from the person's keychain, which the service
	// may not be able to; nil where there is no way.
	Secret func(ctx context.Context, name string) (string, error)
	// Renewed tells whether another file stands by now where this program was
	// started from, as after an upgrade; nil: it never does.
	Renewed func() bool
	// Theme is "light" or "dark", and goes before what was chosen; or "".
	Theme string
}

// desk is the running program.
type desk struct {
	o      Options
	app    fyne.App
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	now    func() time.Time
	do     func(func()) // the one hop on to the UI goroutine

	call func(ctx context.Context, method string, params, result any) error
	blob func(ctx context.Context, ref wire.BlobRef) ([]byte, error)

	openURL func(*url.URL) error // in the desktop's program for it

	st        *model.State
	notes     model.Notifier
	noteTimer bool // a notification is due later

	follower  *client.Follower
	notifier  notifier
	tray      *tray
	hasTray   bool
	trayKnown bool

	env         map[string]string // what a proposed mission takes along; nil: not asked yet
	envWait     []func()
	providers   providers
	credentials credentials
	service     serviceControl

	main      *mainWindow
	tongue    tongue
	kept      bool // what was seen was kept in this run
	relaunch  bool // the program is to be started anew once it has ended,
	hidden    bool // without a window
	missions  map[string]*missionWindow
	recovers  map[string]*recoverWindow
	approvals *approvalWindow
	form      *formWindow
}

// newDesk makes a program without windows, connection or tray.
func newDesk(app fyne.App, o Options) *desk {
	ctx, cancel := context.WithCancel(context.Background())
	d := &desk{o: o, app: app, ctx: ctx, cancel: cancel, now: time.Now, do: fyne.Do,
		st: model.NewState(o.PID), missions: map[string]*missionWindow{}, recovers: map[string]*recoverWindow{}, openURL: app.OpenURL}
	d.call = func(ctx context.Context, method string, params, result any) error {
		c := d.follower.Client()
		if c == nil {
			return errNotConnected
		}
		return c.Call(ctx, method, params, result)
	}
	d.blob = func(ctx context.Context, ref wire.BlobRef) ([]byte, error) {
		c := d.follower.Client()
		if c == nil {
			return nil, errNotConnected
		}
		return client.ReadBlob(ctx, c, ref)
	}
	return d
}

// Run shows the program until it is quit, and waits for all that it began.
// relaunch says that it ended in order to be started anew from its file, which
// an upgrade has replaced; hidden, that no window was open then.
func Run(app fyne.App, o Options) (relaunch, hidden bool) {
	d := newDesk(app, o)
	d.dress(cmp.Or(o.Theme, app.Preferences().String(prefTheme)))
	d.tongue = speak(spoken(app.Preferences().String(prefLanguage), lang.SystemLocale().LanguageString()), drawable)
	d.remember()
	app.SetIcon(fyne.NewStaticResource("reeve.png", assets.AppIcon()))
	d.notifier = newNotifier(d)
	d.tray = newTray(d)
	app.Lifecycle().SetOnStarted(d.started)
	app.Run()
	d.stop()
	return d.relaunch, d.hidden
}

// started runs once the UI goroutine serves.
func (d *desk) started() {
	in := newInbox(d)
	d.follower = client.Follow(d.ctx, d.o.Dial, []string{wire.TopicService, wire.TopicMissions, wire.TopicApprovals, wire.TopicRooms, wire.TopicEffects, wire.TopicRules}, in)
	d.background(d.everySecond)
	d.background(d.notifier.listen)
	if d.o.Instance != nil {
		d.background(func(ctx context.Context) {
			d.o.Instance.Serve(ctx, func(s Show) { d.do(func() { d.show(s) }) })
		})
	}
	task(d, func(context.Context) (bool, error) { return trayHost(), nil }, func(has bool, _ error) {
		d.hasTray, d.trayKnown = has, true
		if !has || !d.o.Hidden {
			d.openMain()
		}
	})
	d.changed()
}

// tendUpgrade ends the program for its successor once the service is of another
// version and an upgrade has replaced this program, too. A window in which
// something may have been typed or is being decided is waited for.
func (d *desk) tendUpgrade() {
	link, _ := d.st.Link()
	other := link == model.Mismatch || link == model.Running && d.st.Service().Version != "" && d.st.Service().Version != d.o.Version
	if d.relaunch || !other || d.o.Renewed == nil || d.form != nil || d.approvals != nil || len(d.missions)+len(d.recovers) > 0 || d.main != nil && d.main.settings.agents.typed() || !d.o.Renewed() {
		return
	}
	d.relaunch, d.hidden = true, d.main == nil
	d.quit()
}

func (d *desk) stop() {
	d.keepSeen()
	d.cancel()
	if d.follower != nil {
		d.follower.Close()
	}
	d.notifier.close()
	d.tasks.Wait()
}

// everySecond keeps what counts down true.
func (d *desk) everySecond(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.do(d.changed)
		case <-ctx.Done():
			return
		}
	}
}

// changed brings everything that is shown in line with the model.
func (d *desk) changed() {
	if d.ctx.Err() != nil {
		return
	}
	if d.notifier != nil {
		d.settleNotes()
	}
	d.tendCredentials()
	d.tendUpgrade()
	if !d.kept && d.st.Known(wire.TopicMissions) {
		d.kept = true
		d.keepSeen() // from here on there is something to compare with
	}
	if d.tray != nil {
		d.tray.refresh()
	}
	if d.main != nil {
		d.main.refresh()
	}
	for _, w := range d.missions {
		w.refresh()
	}
	for _, w := range d.recovers {
		w.refresh()
	}
	if d.approvals != nil {
		d.approvals.refresh()
	}
	if d.form != nil {
		d.form.refresh()
	}
}

// show does what a later start of the program, or a notification, asks for.
func (d *desk) show(s Show) {
	switch {
	case s.Show == ShowApproval && s.ID != "":
		d.review(s.ID)
	case s.Show == ShowMission && s.ID != "":
		d.openMission(s.ID)
	default:
		d.openMain()
	}
}

// quit ends the program; the service goes on.
func (d *desk) quit() { d.app.Quit() }

// act does what an item of the tray's menu says.
func (d *desk) act(do model.Do, id string) {
	switch do {
	case model.DoReview:
		d.review(id)
	case model.DoOpenMission:
		d.openMission(id)
	case model.DoPause:
		d.mutate(wire.MethodMissionPause, id)
	case model.DoResume:
		d.mutate(wire.MethodMissionResume, id)
	case model.DoRecover:
		d.openRecover(id)
	case model.DoStop:
		d.openMission(id)
		if w := d.missions[id]; w != nil {
			w.askStop()
		}
	case model.DoSettle:
		d.openEffects(id)
	case model.DoPauseAll:
		for _, r := range d.pausable() {
			d.mutate(wire.MethodMissionPause, r)
		}
	case model.DoNewMission:
		d.openForm()
	case model.DoOpen:
		d.openMain()
	case model.DoStartService:
		d.openMain()
		d.service.start(d)
	case model.DoStopService:
		d.service.stop(d)
	case model.DoRestart:
		d.service.restart(d)
	case model.DoInstall:
		d.openMain()
		d.service.install(d)
	case model.DoQuit:
		d.quit()
	}
}

func (d *desk) pausable() []string {
	var ids []string
	for _, g := range d.st.Missions(d.now(), model.FilterLive, "") {
		for _, r := range g.Rows {
			if m, ok := d.st.Mission(r.ID); ok && canPause(m.Phase) {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// mutate changes a mission from outside its window; a refusal is told as a
// notification.
func (d *desk) mutate(method, id string) {
	task(d, func(ctx context.Context) (wire.MissionResult, error) {
		var r wire.MissionResult
		err := d.call(ctx, method, wire.MissionParams{RequestKey: requestKey(), ID: id}, &r)
		return r, err
	}, func(_ wire.MissionResult, err error) {
		if err == nil {
			return
		}
		title := say.T("A mission was not changed")
		if m, ok := d.st.Mission(id); ok {
			title = say.T("“%s” was not changed", model.Clean(m.Title))
		}
		d.notifier.send(model.Note{Title: title, Body: sentence(err), Do: model.DoOpenMission, ID: id})
	})
}

// getenv is the program's own environment.
var getenv = os.Getenv
