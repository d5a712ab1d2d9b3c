package view

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

const settingsPatch = `diff --git a/package.json b/package.json
index 1111111..2222222 100644
--- a/package.json
+++ b/package.json
@@ -31,2 +31,2 @@
 		"react-router": "7.1.0",
-		"zod": "3.23.8"
+		"zod": "4.0.2"
diff --git a/src/settings/SettingsPage.tsx b/src/settings/SettingsPage.tsx
index 1111111..2222222 100644
--- a/src/settings/SettingsPage.tsx
+++ b/src/settings/SettingsPage.tsx
@@ -12,9 +12,6 @@ export function SettingsPage() {
 	const user = useUser();
-	const [tab, setTab] = useState("profile");
-	if (tab === "billing") {
-		return <BillingForm user={user} />;
-	}
 	return (
 		<Page title="Settings">
+			<Outlet context={user} />
 		</Page>
 	);
`

func settingsChanges() wire.ChangesResult {
	patch, _ := json.Marshal(settingsPatch)
	return wire.ChangesResult{Mission: "m-settings", At: day, Patch: patch, Files: []wire.ChangedFile{
		{Path: "package.json", Status: "modified", Added: 1, Removed: 1, SinceLost: true},
		{Path: "src/settings/SettingsPage.tsx", Status: "modified", Added: 1, Removed: 4},
		{Path: "src/settings/billing/BillingRoute.tsx", Status: "added", Added: 48},
		{Path: "src/settings/routes.tsx", Status: "modified", Added: 6, Removed: 19},
	}}
}

// lostMission is one whose guard is gone, as the service tells of it.
func lostMission() wire.Mission {
	m := live("m-settings", "Split the settings page", "blocked", "claude", "sonnet", "/home/me/code/shop-web", 120, clock(13, 42), 88_000, 1.12)
	m.Recovery, m.RecoveryRef, m.Session, m.Turn = "approval_required", "r-9", "s-1", 5
	m.BlockedBy = "The worker of this mission is gone."
	m.RequestedModel = "sonnet"
	m.Budget = wire.Budget{CostUSD: 5}
	m.LostAt = clockPtr(14, 58)
	m.Worktree = &wire.Worktree{Path: "/home/me/code/shop-web.reeve-split", Branch: "reeve/split-settings-page", Base: "3f9c2e1d", State: "made"}
	m.Turns = []wire.TurnInfo{{ID: "t-5", Number: 5, StartedAt: clock(14, 40), EndedAt: clockPtr(14, 58), Outcome: "interrupted"}}
	m.Steering = []wire.Steering{{ID: 1, Text: "Keep the old address of the billing page as a redirect.", State: "unconfirmed", Turn: 5}}
	return m
}

func lostEntries(t *testing.T) []wire.Entry {
	var out []wire.Entry
	add := func(h, m int, kind string, data any) {
		out = append(out, wire.Entry{Log: "a-1", Seq: uint64(len(out) + 1), At: clock(h, m), Kind: kind, Data: raw(t, data)})
	}
	add(13, 42, wire.KindSessionStarted, wire.SessionStarted{Provider: "claude", ProviderSession: "ps-1"})
	add(14, 40, wire.KindTurnStarted, wire.TurnStarted{Turn: "t-5", Number: 5})
	add(14, 52, wire.KindToolStarted, wire.ToolStarted{Turn: "t-5", Call: "a", Tool: "Edit", Kind: wire.ToolEdit, Paths: []string{"/home/me/code/shop-web.reeve-split/src/settings/billing/BillingRoute.tsx"}})
	add(14, 52, wire.KindToolFinished, wire.ToolFinished{Turn: "t-5", Call: "a", Status: "ok", Diff: "@@ -0,0 +1,1 @@\n+export\n"})
	add(14, 55, wire.KindToolStarted, wire.ToolStarted{Turn: "t-5", Call: "b", Tool: "Bash", Kind: wire.ToolExecute, Command: "npx tsc --noEmit"})
	add(14, 55, wire.KindToolFinished, wire.ToolFinished{Turn: "t-5", Call: "b", Status: "ok", Exit: ptr(0)})
	add(14, 56, wire.KindText, wire.Text{Turn: "t-5", Text: "The three routes work and type-check. Next the staging database needs the new preferences table, "})
	add(14, 56, wire.KindText, wire.Text{Turn: "t-5", Text: "then I move the billing tests."})
	add(14, 57, wire.KindToolStarted, wire.ToolStarted{Turn: "t-5", Call: "c", Tool: "Bash", Kind: wire.ToolExecute, Command: "npm run db:migrate -- --env staging"})
	return out
}

// lost fills the model with a mission that can be recovered.
func lost(t *testing.T, r *rig, change func(*wire.Mission)) {
	busy(t, r)
	m := lostMission()
	if change != nil {
		change(&m)
	}
	know(r, wire.TopicMissions, m)
	know[wire.Approval](r, wire.TopicApprovals)
	know(r, wire.TopicService, wire.Service{State: "running", Version: "1.0.0", Generation: 15, StartedAt: clock(15, 2)})
	r.reply = func(method string, params any) (any, error) {
		switch method {
		case wire.MethodMissionChanges:
			return settingsChanges(), nil
		case wire.MethodSessionMessages:
			return wire.MessagesResult{Session: m.Session, Entries: lostEntries(t)}, nil
		}
		return nil, nil
	}
}

func drawRecover(t *testing.T, r *rig, change func(*wire.Mission)) *recoverWindow {
	lost(t, r, change)
	w := newRecoverWindow(r.desk, "m-settings")
	w.load()
	r.until("what was read", func() bool { return w.tail != nil && w.read })
	return w
}

func TestRecoverAsksAndOpensItsApproval(t *testing.T) {
	r := newRig(t, kit.Light)
	lost(t, r, nil)
	usual := r.reply
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodMissionRecover {
			p := params.(wire.RecoverParams)
			if p.Ref != "r-9" || p.Provider != "claude" || p.Model != "sonnet" || p.Folder != "/home/me/code/shop-web" || p.Scope == "" || p.RequestKey == "" || p.Env["PATH"] != "/bin" {
				t.Errorf("asked %+v", p)
			}
			a := startApproval(t)
			a.Kind, a.Mission = "mission_recover", "m-settings"
			return wire.MissionStartResult{Mission: lostMission(), Approval: a}, nil
		}
		return usual(method, params)
	}
	r.act(model.DoRecover, "m-settings")
	w := r.recovers["m-settings"]
	if w == nil {
		t.Fatal("no window")
	}
	if !w.act.Disabled() {
		t.Error("it can be recovered before it is known what happened")
	}
	r.until("what happened", func() bool { return !w.act.Disabled() })
	if got := w.act.Label(); got != "Recover for 36 min" {
		t.Errorf("the button says %q", got)
	}
	test.Tap(w.act)
	r.until("the approval", func() bool { return r.approvals != nil })
	if r.recovers["m-settings"] != w || r.approvals.id != "q-3" {
		t.Errorf("the dialog shows %q", r.approvals.id)
	}
	// Once it goes on, there is nothing to ask any more.
	m := lostMission()
	m.Recovery, m.Phase, m.Revision = "supervisor_present", "working", 2
	know(r, wire.TopicMissions, m)
	r.changed()
	if len(r.recovers) > 0 || r.missions["m-settings"] == nil {
		t.Error("the window asks on")
	}
	r.approvals.win.Close()
	r.missions["m-settings"].win.Close()
}

func TestRecoverRefusalsAreShownInTheWindow(t *testing.T) {
	r := newRig(t, kit.Light)
	w := drawRecover(t, r, nil)
	r.reply = func(string, any) (any, error) {
		return nil, wire.Errorf(wire.CodeConflict, "the mission changed since you looked at it")
	}
	test.Tap(w.act)
	r.until("the refusal", func() bool { return w.strip.told != nil && w.busy == "" })
	w.strip.dismiss()
	test.Tap(w.cancel)
	if len(r.called(wire.MethodMissionCancel)) > 0 || w.strip.told == nil {
		t.Fatal("it was cancelled without a question")
	}
	w.strip.dismiss()
	if len(r.notes) > 0 {
		t.Errorf("notes: %+v", r.notes)
	}
	r.openURL = func(u *url.URL) error {
		if u.String() != "file:///home/me/code/shop-web.reeve-split" {
			t.Errorf("opened %s", u)
		}
		return errors.New("no program for it")
	}
	test.Tap(w.open)
	r.until("why it can't be opened", func() bool { return w.strip.told != nil })
}

// TestRecoverStates: what can't be done has no button.
func TestRecoverStates(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*wire.Mission)
		title   string
		buttons []string
	}{
		"can": {nil, "Recover “Split the settings page”?", []string{"Cancel the mission…", "Open the checkout", "Show the changes", "Recover for 36 min"}},
		"uncertain": {func(m *wire.Mission) { m.Recovery, m.BlockedBy = "owner_uncertain", "Its guard may still be running." },
			"“Split the settings page” can't be recovered now", []string{"Open the checkout", "Show the changes"}},
		"expired": {func(m *wire.Mission) { m.Recovery, m.DeadlineAt = "expired", clockPtr(15, 0) },
			"“Split the settings page” can't go on", []string{"Cancel the mission…", "Open the checkout", "Show the changes", "New mission"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kit.Light)
			w := drawRecover(t, r, c.change)
			var got []string
			for _, o := range w.foot.Objects {
				if b, ok := o.(*kit.Button); ok {
					got = append(got, b.Label())
				}
			}
			if w.head.title.Text() != c.title || strings.Join(got, "|") != strings.Join(c.buttons, "|") {
				t.Errorf("%q %q", w.head.title.Text(), got)
			}
		})
	}
}

func TestExpiredOffersANewMission(t *testing.T) {
	r := newRig(t, kit.Light)
	w := drawRecover(t, r, func(m *wire.Mission) {
		m.Recovery, m.DeadlineAt, m.Unasked, m.Limits = "expired", clockPtr(15, 0), []string{"edits"}, wire.Limits{MemoryMB: 2048}
	})
	test.Tap(w.again)
	f := r.form
	if f == nil {
		t.Fatal("no form")
	}
	p := f.form.Params()
	if p.Folder != "/home/me/code/shop-web" || p.Scope != "Split the settings page" || p.Provider != "claude" || p.Model != "sonnet" || p.Minutes != 120 ||
		!p.Worktree || p.Budget.CostUSD != 5 || p.Limits.MemoryMB != 2048 || len(p.Unasked) != 1 || p.Unasked[0] != "edits" {
		t.Errorf("the form holds %+v", p)
	}
	f.win.Close()
}

// TestFormShowsTheBudgetThatItSends: one that the form doesn't offer is shown in
// words, and a choice replaces all of it.
func TestFormShowsTheBudgetThatItSends(t *testing.T) {
	for _, c := range []struct {
		budget wire.Budget
		shows  string
	}{
		{wire.Budget{}, "no limit"},
		{wire.Budget{CostUSD: 5}, "$5.00"},
		{wire.Budget{CostUSD: 3}, "$3.00"},
		{wire.Budget{CostUSD: 5, Turns: 4}, "4 turns, $5.00"},
		{wire.Budget{Tokens: 20_000}, "20k tokens"},
	} {
		r := newRig(t, kit.Light)
		busy(t, r)
		m := lostMission()
		m.Budget = c.budget
		r.openFormFor(m)
		f := r.form
		if got := texts(f.budget); !strings.Contains(got, c.shows+"\n") || f.form.Params().Budget != c.budget {
			t.Errorf("%+v: it shows %q and sends %+v", c.budget, got, f.form.Params().Budget)
		}
		f.budget.OnChanged(3)
		if got := f.form.Params().Budget; got != (wire.Budget{CostUSD: 5}) {
			t.Errorf("chosen $5.00, and sends %+v", got)
		}
		f.win.Close()
	}
}

func TestTranscriptIsReadPageByPage(t *testing.T) {
	r := newRig(t, kit.Light)
	lost(t, r, nil)
	all := lostEntries(t)
	r.reply = func(method string, params any) (any, error) {
		if method != wire.MethodSessionMessages {
			return nil, nil
		}
		p := params.(wire.MessagesParams)
		at := 0
		if p.After != nil {
			at = int(p.After.Sequence)
		}
		if at == len(all) {
			return wire.MessagesResult{}, nil
		}
		return wire.MessagesResult{Entries: all[at : at+1], More: true, Next: &wire.Cursor{Log: "a-1", Sequence: uint64(at + 1)}}, nil
	}
	w := newRecoverWindow(r.desk, "m-settings")
	w.load()
	r.until("the transcript", func() bool { return w.tail != nil })
	v := model.NewRecovery(lostMission(), w.tail, wire.Service{}, day)
	if len(v.Unsure) != 2 || v.Unsure[0].Code != "npm run db:migrate -- --env staging" {
		t.Errorf("uncertain: %+v", v.Unsure)
	}
}

// TestRecoverReadsAgain: what changed is shown once it could be read, and
// nothing is claimed before.
func TestRecoverReadsAgain(t *testing.T) {
	r := newRig(t, kit.Light)
	lost(t, r, nil)
	usual := r.reply
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodMissionChanges {
			return nil, errNotConnected
		}
		return usual(method, params)
	}
	w := newRecoverWindow(r.desk, "m-settings")
	w.load()
	r.until("the failure", func() bool { return w.tail != nil && w.read })
	if w.dataProblem == "" {
		t.Fatal("it says nothing of the failure")
	}
	r.mu.Lock()
	r.reply = usual
	r.mu.Unlock()
	w.load() // "Try again"
	if got := texts(w.right); !strings.Contains(got, "Reading what changed") || strings.Contains(got, "Nothing in the checkout changed") {
		t.Errorf("while it is read again it says %q", got)
	}
	r.until("the changes", func() bool { return w.read && w.tail != nil })
	if got := texts(w.right); !strings.Contains(got, "4 files") || strings.Contains(got, "Nothing in the checkout changed") {
		t.Errorf("once it is read it says %q", got)
	}
}

// TestRecoverOnlyWhatWasShown: when the worker is lost again while the window is
// open, what it tells is read again first, and what is asked for is what it tells.
func TestRecoverOnlyWhatWasShown(t *testing.T) {
	r := newRig(t, kit.Light)
	w := drawRecover(t, r, nil)
	usual := r.reply
	r.reply = func(method string, params any) (any, error) {
		if method == wire.MethodMissionRecover {
			return nil, wire.Errorf(wire.CodeConflict, "the mission changed since you looked at it")
		}
		return usual(method, params)
	}
	again := lostMission()
	again.RecoveryRef, again.Revision = "r-10", again.Revision+1
	know(r, wire.TopicMissions, again)
	w.recover() // before anything of the new loss was drawn
	if !w.act.Disabled() {
		t.Error("it can be recovered before it is known what happened")
	}
	r.until("the refusal", func() bool { return w.busy == "" && w.tail != nil && w.read })
	if p := r.called(wire.MethodMissionRecover)[0].(wire.RecoverParams); p.Ref != "r-9" {
		t.Errorf("it asks for %q, which was never shown", p.Ref)
	}
	if n := len(r.called(wire.MethodSessionMessages)); n != 2 || w.act.Disabled() {
		t.Errorf("read %d times", n)
	}
	w.recover()
	r.until("the refusal", func() bool { return w.busy == "" })
	if p := r.called(wire.MethodMissionRecover)[1].(wire.RecoverParams); p.Ref != "r-10" {
		t.Errorf("it asks for %q", p.Ref)
	}
}

// texts is all that an object draws as text.
func texts(o fyne.CanvasObject) string {
	var out strings.Builder
	var walk func(fyne.CanvasObject)
	walk = func(o fyne.CanvasObject) {
		if o == nil || !o.Visible() {
			return
		}
		switch x := o.(type) {
		case *canvas.Text:
			out.WriteString(x.Text + "\n")
		case *fyne.Container:
			for _, c := range x.Objects {
				walk(c)
			}
		case fyne.Widget:
			for _, c := range test.WidgetRenderer(x).Objects() {
				walk(c)
			}
		}
	}
	walk(o)
	return out.String()
}
