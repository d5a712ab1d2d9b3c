package view

import (
	"testing"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// pictures are the windows as a person sees them, in light and dark.
var pictures = []struct {
	name string
	size fyne.Size
	draw func(t *testing.T, r *rig) fyne.CanvasObject
}{
	{"missions", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		return newMainWindow(r.desk).root
	}},
	{"missions-small", leastSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		return newMainWindow(r.desk).root
	}},
	{"approvals", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		done := startApproval(t)
		done.State, done.Answer = "allowed", &wire.Answer{At: clock(14, 17), Via: "program", Program: "reeve", PID: 812, TTY: "pts/3"}
		know(r, wire.TopicApprovals, commandApproval(t), diffApproval(t), done)
		m := newMainWindow(r.desk)
		m.open(pageApprovals)
		return m.root
	}},
	{"service", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		m := newMainWindow(r.desk)
		m.open(pageService)
		return m.root
	}},
	{"empty", mainSize, func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.Running, "")
		know(r, wire.TopicService, wire.Service{Version: "1.0.0", Generation: 14})
		know[wire.Mission](r, wire.TopicMissions)
		r.providers.list, r.providers.known = agents(), true
		r.trayKnown = true
		return newMainWindow(r.desk).root
	}},
	{"stopped", mainSize, func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.NoService, "")
		return newMainWindow(r.desk).root
	}},
	{"mismatch", mainSize, func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.Mismatch, "The service is version 2.0.0 and this program is version 1.0.0, which can't work together; install both from one release and restart the service.")
		r.service.problem = "The program reeve was not found beside this one or on the PATH; install both from one package."
		return newMainWindow(r.desk).root
	}},
	{"mission", mainSize, drawMission},
	{"mission-small", leastSize, drawMission},
	{"approval-command", fyne.NewSize(800, 570), func(t *testing.T, r *rig) fyne.CanvasObject { return drawApproval(t, r, "q-1") }},
	{"approval-diff", fyne.NewSize(800, 620), func(t *testing.T, r *rig) fyne.CanvasObject { return drawApproval(t, r, "q-2") }},
	{"approval-start", fyne.NewSize(800, 700), func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		know(r, wire.TopicApprovals, startApproval(t))
		return shownApproval(r, "q-3").root
	}},
	{"new-mission", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawForm(t, r).root }},
	{"new-mission-small", leastSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawForm(t, r).root }},
}

func drawMission(t *testing.T, r *rig) fyne.CanvasObject {
	busy(t, r)
	w := newMissionWindow(r.desk, "m-parser")
	w.load(entries(t))
	for i := range w.log.log.Len() {
		if it := w.log.log.Row(i); it.Tool != nil && it.Tool.Diff != "" {
			w.log.toggle(i)
		}
	}
	w.refresh()
	return w.root
}

func drawApproval(t *testing.T, r *rig, id string) fyne.CanvasObject {
	busy(t, r)
	return shownApproval(r, id).root
}

// shownApproval is the dialog after its delay.
func shownApproval(r *rig, id string) *approvalWindow {
	w := newApprovalWindow(r.desk)
	w.show(id)
	w.since = r.clock.Add(-armDelay)
	w.deny.FocusGained()
	w.changed()
	return w
}

func drawForm(t *testing.T, r *rig) *formWindow {
	busy(t, r)
	f := newFormWindow(r.desk)
	r.form = f
	f.folder.SetText("~/code/shop-web")
	f.model.SetText("sonnet")
	f.scope.SetText("Split the settings page into Profile, Notifications and Billing, each with its own route. Keep every form's behaviour and its tests. Don't touch the design tokens; ask before adding a dependency.")
	f.form.Checked(f.form.Params(), wire.MissionCheckResult{Checks: []wire.FieldCheck{
		{Field: "folder", Name: "git checkout", OK: true, Message: "A git checkout, on main at 3f9c2e1."},
		{Field: "folder", Name: "another mission works here", Message: "“Upgrade React” owns this checkout.", Fix: "Wait until it ended, or choose another checkout."},
		{Field: "provider", Name: "provider", OK: true, Message: "Claude Code 2.0.31 was found and is signed in."},
		{Field: "scope", Name: "scope", OK: true, Message: "The scope is complete."},
		{Field: "minutes", Name: "minutes", OK: true, Message: "60 minutes."},
	}})
	f.refresh()
	return f
}

func TestPictures(t *testing.T) {
	for _, p := range pictures {
		for name, mode := range themes {
			t.Run(p.name+"-"+name, func(t *testing.T) {
				r := newRig(t, mode)
				r.picture(p.name+"-"+name, p.draw(t, r), p.size)
			})
		}
	}
}

// Every window must work at the smallest size.
func TestSmallestSize(t *testing.T) {
	for _, p := range pictures {
		r := newRig(t, kit.Light)
		if m := p.draw(t, r).MinSize(); m.Width > leastSize.Width || m.Height > leastSize.Height {
			t.Errorf("%s needs %v; the smallest window is %v", p.name, m, leastSize)
		}
	}
}
