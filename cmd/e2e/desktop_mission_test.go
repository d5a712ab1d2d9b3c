package e2e

import (
	"image"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// Where the answers of an approval are: the row of buttons over the hint.
const (
	allowX, denyX = -78, 66
	answersY      = -58
)

// Where the form's parts are: it has one layout at one size.
var (
	folderField = image.Pt(300, 116)
	demoCard    = image.Pt(700, 231)
	scopeField  = image.Pt(300, 400)
)

// armed waits until the approval can be allowed: its button turns tinted, and
// stays so for a second. One look may be at the question before, in a window
// that was not drawn anew yet.
func (s *screen) armed(w window) (at image.Point) {
	s.t.Helper()
	var since time.Time
	s.until("a button that allows", func() (ok bool) {
		if at, ok = w.allow(); !ok {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		return ok && time.Since(since) > time.Second
	})
	return at
}

// allow is where the button is that allows, once it can be pressed.
func (w window) allow() (image.Point, bool) {
	img := w.image()
	for _, r := range fills(img, accentTint, image.Pt(80, 24)) {
		if r.Max.Y > img.Bounds().Max.Y-90 {
			return r.Min.Add(r.Size().Div(2)), true
		}
	}
	return image.Point{}, false
}

// allowed allows an approval by a click in the window with that title. A click
// right when the window turns to another question decides nothing, so it is made
// again while the approval waits.
func (s *screen) allowed(v *view, title, id string) {
	s.t.Helper()
	var clicked time.Time
	s.until("the answer by a click", func() bool {
		if do[wire.ApprovalResult](v, wire.MethodApprovalGet, wire.IDParams{ID: id}).Approval.State != "pending" {
			return true
		}
		if w, shown := s.lookup(title); shown && time.Since(clicked) > 3*time.Second {
			if at, ok := w.allow(); ok {
				clicked = time.Now()
				_, _ = s.tool("xdotool", "mousemove", "--window", w.id, strconv.Itoa(at.X), strconv.Itoa(at.Y), "click", "1")
			}
		}
		return false
	})
	v.wait("the answer", func() bool { return v.approvals[id].State == "allowed" })
}

// start proposes a mission from elsewhere and allows it in the dialog that this
// opens.
func (s *screen) start(v *view, p wire.MissionStartParams) wire.Mission {
	s.t.Helper()
	r := do[wire.MissionStartResult](v, wire.MethodMissionStart, p)
	s.allowed(v, "Start this mission?", r.Approval.ID)
	s.gone("Start this mission?")
	m := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: r.Mission.ID}).Mission
	v.f.Watch(wire.TopicSession + m.Session)
	return m
}

// answered checks who gave an answer: this desktop program.
func (s *screen) answered(v *view, id string, p *program) {
	s.t.Helper()
	v.mu.Lock()
	a := v.approvals[id]
	v.mu.Unlock()
	if a.Answer == nil || a.Answer.Via != "program" || filepath.Base(a.Answer.Program) != "reeve-desktop" || a.Answer.PID != p.cmd.Process.Pid {
		s.t.Errorf("%s was answered by %+v, want the desktop, pid %d", id, a.Answer, p.cmd.Process.Pid)
	}
}

// sample makes the demo's repository, with a plain name that can be typed, and
// leaves no mission behind.
func (m *machine) sample(s *screen) string {
	m.t.Helper()
	dir := filepath.Join(s.dir, "demo")
	r := must[wire.MissionStartResult](m, "demo", "--folder", dir, "--propose")
	must[wire.ApprovalResult](m, "deny", r.Approval.ID)
	return dir
}

// pending waits for the one approval that waits, of a mission.
func (v *view) pending(mission, kind string) wire.Approval {
	v.m.t.Helper()
	var found wire.Approval
	v.wait("an approval of kind "+kind, func() bool {
		for _, a := range v.approvals {
			if a.State == "pending" && (mission == "" || a.Mission == mission) && a.Kind == kind {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

func (v *view) state(id string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.approvals[id].State
}

// TestDesktopDismissal is case 17: a dialog that is closed decided nothing.
func TestDesktopDismissal(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	h := s.trayHost()
	p := s.reeve("-hidden")
	h.registered()
	h.says("Reeve: No mission is running")
	mi := s.start(v, m.demoTerms(m.repo("repo"), "demo:command touch made.txt"))
	ask, _ := v.asked(mi.ID, "touch made.txt")
	const title = "Allow this command?"

	// It opens by itself; Escape, which was meant for it or not, leaves it.
	dialog := s.window(title)
	s.until("the dialog in front", dialog.active)
	s.armed(dialog)
	s.xdo("key", "Escape")
	s.gone(title)
	h.choose("▲")
	dialog = s.window(title)
	s.armed(dialog)
	dialog.close()
	s.gone(title)
	// A second one turns up beside the first, and neither is lost.
	second := do[wire.MissionStartResult](v, wire.MethodMissionStart, m.demoTerms(m.repo("second"), "demo:slow 100000"))
	dialog = s.window("Start this mission?")
	s.armed(dialog)
	dialog.close()
	l := h.says("Reeve: 2 approvals wait for you")
	if n := len(l.menu); n < 2 || !strings.HasPrefix(l.menu[0].label, "▲") || !strings.HasPrefix(l.menu[1].label, "▲") {
		t.Errorf("the menu does not begin with both: %v", l.labels())
	}
	for _, id := range []string{ask.ID, second.Approval.ID} {
		if got := v.state(id); got != "pending" {
			t.Errorf("dismissing made %s %s", id, got)
		}
	}

	// Enter, pressed on purpose, denies.
	h.choose("▲ demo:slow")
	dialog = s.window("Start this mission?")
	s.armed(dialog)
	s.until("the dialog in front", dialog.active)
	s.xdo("key", "Return")
	v.wait("the denial", func() bool { return v.approvals[second.Approval.ID].State == "denied" })
	s.answered(v, second.Approval.ID, p)
	if got := v.state(ask.ID); got != "pending" {
		t.Errorf("denying one made the other %s", got)
	}
}

// TestDesktopHaste: somebody clicks and clicks where the dialog comes up. What
// nobody could have read yet is not allowed by that.
func TestDesktopHaste(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	h := s.trayHost()
	p := s.reeve("-hidden")
	h.registered()
	mi := s.start(v, m.demoTerms(m.repo("repo"), "demo:command touch made.txt"))
	ask, _ := v.asked(mi.ID, "touch made.txt")
	const title = "Allow this command?"
	dialog := s.window(title)
	at := s.armed(dialog)
	s.xdo("mousemove", "--window", dialog.id, strconv.Itoa(at.X), strconv.Itoa(at.Y))
	s.xdo("key", "Escape")
	s.gone(title)

	clicks := s.spawn(nil, "xdotool", "click", "--repeat", "100000", "--delay", "15", "1")
	h.choose("▲")
	var before time.Time // when it was not there yet
	for deadline := time.Now().Add(waitLimit); ; {
		now := time.Now()
		if _, shown := s.lookup(title); shown || now.After(deadline) {
			break
		}
		before = now
	}
	v.wait("an answer", func() bool { return v.approvals[ask.ID].State != "pending" })
	clicks.end()
	v.mu.Lock()
	took := v.approvals[ask.ID].Answer.At.Sub(before)
	v.mu.Unlock()
	t.Logf("allowed at most %v after it came up", took)
	if took < 400*time.Millisecond {
		t.Error("that is too soon")
	}
	s.answered(v, ask.ID, p)
	v.phase(mi.ID, "completed")
}

// TestDesktopDemoMission is the way of a person: a new mission in the form, its
// approval, the agent's questions, the end; all with a real keyboard and mouse.
func TestDesktopDemoMission(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	h := s.trayHost()
	folder := m.sample(s)
	p := s.reeve()
	h.registered()
	main := s.window("Reeve").raise()
	h.says("Reeve: No mission is running")

	s.xdo("key", "ctrl+n")
	form := s.window("New mission")
	s.until("the form in front", form.active)
	s.xdo("type", "--delay", "20", folder)
	form.click(demoCard.X, demoCard.Y)
	form.click(scopeField.X, scopeField.Y)
	s.xdo("type", "--delay", "20", "Mend the conversion in convert.sh and run check.sh")
	s.until("a form that can be sent", func() bool { return s.canContinue(form) })
	form.shot("form-filled")

	// Enter on the button sends it, and stays down: a key that was meant for the
	// form decides nothing in the dialog.
	form.click(folderField.X, folderField.Y)
	s.xdo("key", "shift+Tab") // from the first field round to the last button
	s.xdo("keydown", "Return")
	start := v.pending("", "mission_start")
	dialog := s.window("Start this mission?")
	s.armed(dialog)
	s.xdo("keyup", "Return")
	dialog.shot("start")
	if got := v.state(start.ID); got != "pending" {
		t.Fatalf("a key that was down before the dialog made it %s", got)
	}
	mi := v.phase(start.Mission, "proposed")
	if mi.Folder != folder || mi.Provider != "acp:demo" {
		t.Errorf("proposed: %+v", mi)
	}
	s.allowed(v, "Start this mission?", start.ID)
	s.answered(v, start.ID, p)

	// The agent asks to edit, then to run a command. What it reads is allowed.
	edit := v.pending(mi.ID, "file_change")
	dialog = s.window("Allow this change?")
	s.armed(dialog)
	dialog.shot("change")
	s.allowed(v, "Allow this change?", edit.ID)
	s.answered(v, edit.ID, p)

	command := v.pending(mi.ID, "tool_call")
	dialog = s.window("Allow this command?")
	s.armed(dialog)
	dialog.shot("command")
	s.until("the dialog in front", dialog.active)
	s.xdo("key", "Tab", "key", "Tab", "key", "Tab", "key", "Tab", "key", "space") // past the menu of rules
	v.wait("the answer", func() bool { return v.approvals[command.ID].State == "allowed" })
	s.answered(v, command.ID, p)

	end := v.phase(mi.ID, "completed")
	text, err := os.ReadFile(filepath.Join(folder, "convert.sh"))
	if err != nil || !strings.Contains(string(text), "* 5 / 9") {
		t.Errorf("the checkout was not mended: %v\n%s", err, text)
	}
	h.says("Reeve: No mission is running")
	s.gone("Allow this command?")
	s.window("Reeve: " + end.Title).raise().shot("mission-done")
	main.raise().shot("missions-done")
	v.f.Watch(wire.TopicSession + end.Session)
	entry(v, end, wire.KindTurnFinished, func(wire.TurnFinished) bool { return true })
	v.settled(end)
}

// canContinue tells whether the form's button is filled: it is grey before.
func (s *screen) canContinue(form window) bool {
	return len(fills(form.image(), accent, image.Pt(100, 24))) > 0
}
