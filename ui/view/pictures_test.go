package view

import (
	"strings"
	"testing"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/mission"
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
		unsure := journal(t)[0]
		unsure.Mission = "m-flaky"
		know(r, wire.TopicEffects, unsure)
		know[wire.Room](r, wire.TopicRooms)
		know(r, wire.TopicRooms, wire.Room{ID: "r-cjk", Mission: "m-cjk", Last: "msg_2"})
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
	{"settings", mainSize, drawSettings},
	{"settings-small", leastSize, drawSettings},
	{"agents", fyne.NewSize(692, 330), func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.Running, "")
		r.providers.list, r.providers.known = append(agents()[:1], ownAgent()), true
		c := newAgentsCard(r.desk)
		c.question = "mine"
		return kit.Over(kit.Ground, kit.Pad(16, 20, 16, 20, kit.Col(0, c.draw()...)))
	}},
	{"agents-form", fyne.NewSize(692, 560), func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.Running, "")
		r.providers.known = true
		c := newAgentsCard(r.desk)
		c.edit(nil)
		c.fill(model.AgentText(*ownAgent().Entry))
		c.fields[model.AgentEnv].SetText("MY_AGENT_LOG=warn\nMY_AGENT_TOKEN=abc")
		c.refused(map[string]string{model.AgentEnv: "MY_AGENT_TOKEN looks like a secret, and the values of this file are shown in approvals. Keep it in the agent's own settings, or pass it on, so that it comes from your environment and is never written."})
		return kit.Over(kit.Ground, kit.Pad(16, 20, 16, 20, kit.Col(0, c.draw()...)))
	}},
	{"credentials", fyne.NewSize(692, 400), func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.Running, "")
		r.tookCredentials(secrets())
		c := newCredentialsCard(r.desk)
		c.question = "OPENAI_API_KEY"
		return kit.Over(kit.Ground, kit.Pad(16, 20, 16, 20, kit.Col(0, c.draw()...)))
	}},
	{"credentials-form", fyne.NewSize(692, 300), func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.Running, "")
		r.tookCredentials(wire.CredentialListResult{Keychain: wire.Keychain{State: "ready"}})
		c := newCredentialsCard(r.desk)
		c.edit("")
		c.in.Set(1)
		c.name.SetText("ANTHROPIC_API_KEY")
		c.secret.SetText("sk-ant-123")
		return kit.Over(kit.Ground, kit.Pad(16, 20, 16, 20, kit.Col(0, c.draw()...)))
	}},
	{"appearance", fyne.NewSize(692, 150), func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.tongue.tag = "en"
		c := newAppearanceCard(r.desk)
		c.choice.Set(2)
		c.choose(2)
		return kit.Over(kit.Ground, kit.Pad(16, 20, 16, 20, kit.Col(0, c.draw()...)))
	}},
	{"rules", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		m := drawRules(t, r)
		m.rules.edit(&model.RuleRows(standing()[1:2], "", r.st.Mission, "", r.clock)[0])
		m.rules.editing.pattern.SetText("npm test unit *")
		r.clock = r.clock.Add(armDelay)
		m.rules.editing.changed()
		return m.root
	}},
	{"rules-small", leastSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		m := drawRules(t, r)
		m.rules.ask("r-1")
		m.rules.audit.result = &wire.AuditVerifyResult{Entries: 214, BrokenAt: 57, Detail: "The hash does not belong to what stands there."}
		m.rules.audit.draw()
		return m.root
	}},
	{"rules-empty", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		m := newMainWindow(r.desk)
		m.rules.known, m.rules.asked = true, r.clock
		m.open(pageRules)
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
	{"empty-many", leastSize, func(_ *testing.T, r *rig) fyne.CanvasObject {
		r.st.SetLink(model.Running, "")
		know[wire.Mission](r, wire.TopicMissions)
		for _, name := range []string{"claude", "codex", "acp:opencode", "acp:gemini", "acp:goose", "acp:qwen"} {
			r.providers.list = append(r.providers.list, wire.Provider{Name: name, Found: true, Version: "1.2.3"})
		}
		r.providers.known = true
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
	{"room", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawRoom(t, r).root }},
	{"effects-small", leastSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		w := drawEffects(t, r)
		w.done.refused["e-4"] = "The effect changed; look at it again."
		w.refresh()
		w.done.since = r.clock.Add(-armDelay)
		w.done.enable()
		return w.root
	}},
	{"recover", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawRecover(t, r, nil).root }},
	{"recover-small", leastSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawRecover(t, r, nil).root }},
	{"changes", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawChanges(t, r, nil).root }},
	{"changes-small", leastSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawChanges(t, r, nil).root }},
	{"worktree-remove", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		w := drawChanges(t, r, endedWorktree)
		w.diffs.tree.askRemove()
		return w.root
	}},
	{"approval-command", fyne.NewSize(800, 570), func(t *testing.T, r *rig) fyne.CanvasObject { return drawApproval(t, r, "q-1") }},
	{"approval-menu", fyne.NewSize(800, 570), func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		know(r, wire.TopicApprovals, plainApproval(t), commandApproval(t))
		w := shownApproval(r, "q-4")
		w.openMenu()
		w.menu.since = r.clock.Add(-armDelay)
		w.menu.offers.Set(1)
		w.menu.offers.OnChanged(1)
		w.menu.first.FocusGained()
		w.changed()
		return w.root
	}},
	{"approval-diff", fyne.NewSize(800, 620), func(t *testing.T, r *rig) fyne.CanvasObject { return drawApproval(t, r, "q-2") }},
	{"approval-question", fyne.NewSize(800, 460), func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		know(r, wire.TopicApprovals, longQuestion(t, false))
		return shownApproval(r, "q-q").root
	}},
	{"approval-start", fyne.NewSize(800, 700), func(t *testing.T, r *rig) fyne.CanvasObject {
		busy(t, r)
		know(r, wire.TopicApprovals, startApproval(t))
		return shownApproval(r, "q-3").root
	}},
	{"new-mission", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawForm(t, r).root }},
	{"new-mission-worktree", mainSize, func(t *testing.T, r *rig) fyne.CanvasObject {
		f := drawForm(t, r)
		f.worktree.Set(true)
		f.worktree.OnChanged(true)
		f.limits.fill(mission.Limits{MemoryMB: 4096}, true)
		f.limits.toggle.OnTapped()
		f.form.Checked(f.form.Params(), wire.MissionCheckResult{Checks: []wire.FieldCheck{
			{Field: "folder", Name: "git checkout", OK: true, Message: "A git checkout, on main at 3f9c2e1."},
			{Field: "worktree", Name: "worktree", OK: true, Message: "A worktree of its own will be made in /home/me/code, on a branch of its own."},
			{Field: "provider", Name: "provider", OK: true, Message: "Claude Code 2.0.31 was found and is signed in."},
			{Field: "limits", Name: "limits", OK: true, Message: "4 GiB of memory, kept by the system."},
		}})
		f.refresh()
		return f.root
	}},
	{"new-mission-small", leastSize, func(t *testing.T, r *rig) fyne.CanvasObject { return drawForm(t, r).root }},
}

func drawSettings(t *testing.T, r *rig) fyne.CanvasObject {
	busy(t, r)
	r.providers.list = []wire.Provider{
		{Name: "claude", Title: "Claude Code", Found: true, Path: "/home/me/.local/share/claude/versions/2.0.31", Version: "2.0.31", SignedIn: ptr(true), Endpoint: "https://gateway.example.com/anthropic"},
		{Name: "codex", Title: "Codex", Found: true, Path: "/usr/local/lib/node_modules/@openai/codex/bin/codex", Version: "0.63.0", SignedIn: ptr(false),
			Problem: "Codex is not signed in.", Fix: "Run `codex login` in a terminal, or pass on `OPENAI_API_KEY`."},
		{Name: "acp:opencode", Title: "opencode", Own: true, Entry: &wire.ProviderEntry{Name: "opencode", Command: "opencode", Args: []string{"acp"}}, Problem: "opencode is not installed: there is no program opencode.", Fix: "Install it with `npm install -g opencode-ai`, or correct its path in the settings."},
		{Name: "acp:demo", Title: "Demo agent", Found: true, Path: "/usr/bin/reeve", SignedIn: ptr(true)},
	}
	m := newMainWindow(r.desk)
	m.open(pageSettings)
	return m.root
}

// drawRules is the page of rules with some of each kind.
func drawRules(t *testing.T, r *rig) *mainWindow {
	busy(t, r)
	m := newMainWindow(r.desk)
	m.rules.rules, m.rules.known, m.rules.asked = standing(), true, r.clock
	m.rules.audit.result, m.rules.audit.at = &wire.AuditVerifyResult{Entries: 214, OK: true, Head: strings.Repeat("4f1c09ab", 8)}, "15:05"
	m.rules.audit.draw()
	m.open(pageRules)
	return m
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

// drawRoom is a mission's room with messages of everybody.
func drawRoom(t *testing.T, r *rig) *missionWindow {
	busy(t, r)
	page := talk()
	before := page.Room
	before.Last = "msg_4"
	know(r, wire.TopicRooms, before)
	know(r, wire.TopicRooms, page.Room)
	know(r, wire.TopicEffects, journal(t)...)
	r.reply = func(method string, _ any) (any, error) {
		if method == wire.MethodRoomMessages {
			return page, nil
		}
		return nil, nil
	}
	w := newMissionWindow(r.desk, "m-parser")
	w.open(tabRoom)
	r.until("the room", func() bool { return w.room.loaded })
	return w
}

// drawEffects is a mission's journal, its buttons armed.
func drawEffects(t *testing.T, r *rig) *missionWindow {
	busy(t, r)
	know(r, wire.TopicEffects, journal(t)...)
	w := newMissionWindow(r.desk, "m-parser")
	w.open(tabEffects)
	w.done.since = r.clock.Add(-armDelay)
	w.done.enable()
	return w
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
		{Field: "folder", Name: "nobody else works here", Message: "Mission 7k2m9q already works in ~/code/shop-web.", Fix: "Wait for that mission, stop it, or choose another checkout."},
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
