package e2e

import (
	"image"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestDesktopWithoutDisplay: one sentence, no panic.
func TestDesktopWithoutDisplay(t *testing.T) {
	t.Parallel()
	if err := desktop(); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	cmd := exec.Command(filepath.Join(bin, "reeve-desktop"))
	// With the C locale Fyne has something to say of its own.
	cmd.Env = append(append([]string{}, m.env...), "LANG=en_US.UTF-8")
	out, _ := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if code := cmd.ProcessState.ExitCode(); code != 1 || strings.Contains(text, "\n") || !strings.HasPrefix(text, "reeve-desktop: there is no display") {
		t.Errorf("exit %d:\n%s", code, text)
	}
}

// notice is the part of the main window's footer that tells what this desktop
// lacks; it returns how wide the text is there, -1 before anything is drawn.
func notice(w window) int {
	img := w.image()
	b := img.Bounds()
	strip := image.Rect(b.Min.X+b.Dx()/2, b.Max.Y-22, b.Max.X-4, b.Max.Y-4)
	if strip.Empty() || !sideGround.is(img, strip.Min.X, strip.Min.Y) {
		return -1
	}
	left, right := strip.Max.X, strip.Min.X
	for y := strip.Min.Y; y < strip.Max.Y; y++ {
		for x := strip.Min.X; x < strip.Max.X; x++ {
			if !sideGround.is(img, x, y) {
				left, right = min(left, x), max(right, x)
			}
		}
	}
	return max(0, right-left)
}

// TestDesktopWithoutTray: the window opens at once, says so, and closing it
// ends the program, not the service.
func TestDesktopWithoutTray(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	p := s.reeve("-hidden") // hidden is only where there is a tray
	w := s.window("Reeve")
	s.until("the notice that there is no tray", func() bool { return notice(w) > 300 })
	w.shot("no-tray")
	w.close()
	if code := p.ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
	do[wire.Service](v, wire.MethodServiceStatus, nil)
}

// TestDesktopSingleInstance: a second start raises the first and ends well.
func TestDesktopSingleInstance(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	s := newScreen(m)
	h := s.trayHost()
	first := s.reeve("-hidden")
	h.registered()
	h.says("Reeve: No mission is running")
	if _, shown := s.lookup("Reeve"); shown {
		t.Error("it shows a window though it was started hidden")
	}
	if code := s.reeve().ends(); code != 0 {
		t.Errorf("the second start: exit %d", code)
	}
	w := s.window("Reeve")
	s.until("the window in front", w.active)
	s.until("the footer", func() bool { return notice(w) >= 0 })
	if n := notice(w); n > 300 {
		t.Errorf("it tells of no tray where there is one (%d)", n)
	}
	// With another window in front it comes back to the front.
	s.xdo("key", "ctrl+n")
	form := s.window("New mission")
	s.until("the form in front", form.active)
	if code := s.reeve().ends(); code != 0 {
		t.Errorf("the third start: exit %d", code)
	}
	s.until("the main window in front again", w.active)
	select {
	case <-first.exited:
		t.Error("the first one ended")
	default:
	}
	if len(h.names) > 0 {
		t.Error("there is a second tray item")
	}
}

// TestDesktopStartsTheService: where no service runs the window says so, and
// its button starts one.
func TestDesktopStartsTheService(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := newScreen(m)
	h := s.trayHost()
	s.reeve()
	h.registered()
	l := h.wait("no service", func(l look) bool {
		return strings.Contains(strings.ToLower(l.tooltip), "not running") || strings.Contains(strings.ToLower(l.tooltip), "stopped")
	})
	if it, ok := find(l.menu, "Service", "Start"); !ok || it.disabled {
		t.Errorf("the menu offers no start: %v", l.menu)
	}
	if _, ok := find(l.menu, "New mission"); ok {
		t.Error("the menu offers a new mission without a service")
	}
	w := s.window("Reeve")
	s.until("the button", func() bool { return len(fills(w.image(), accent, image.Pt(60, 20))) == 1 })
	w.shot("service-stopped")
	t.Cleanup(func() {
		if r := m.run("service", "stop", "--workers"); r.code != 0 {
			t.Errorf("stop: %s", r.err)
		}
		s.until("the end of the service", func() bool {
			for _, p := range m.processes() {
				if strings.Contains(p, "service") {
					return false
				}
			}
			return true
		})
	})
	w.press(0)
	h.says("Reeve: No mission is running")
	v := m.watch()
	if got := do[wire.Service](v, wire.MethodServiceStatus, nil); got.Generation != 1 {
		t.Errorf("service: %+v", got)
	}
}

// TestDesktopRecovers: the service is killed and comes back, the desktop is
// killed and comes back; the same approval waits and can be answered.
func TestDesktopRecovers(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	h := s.trayHost()
	p := s.reeve()
	h.registered()
	idle := h.says("Reeve: No mission is running")
	mi := s.start(v, m.demoTerms(m.repo("repo"), "demo:command touch made.txt"))
	ask, _ := v.asked(mi.ID, "touch made.txt")
	needs := h.says("Reeve: 1 approval waits for you")

	m.signal(syscall.SIGKILL)
	gone := h.wait("no service", func(l look) bool { return l.tooltip != needs.tooltip && l.icon != needs.icon })
	if gone.icon == idle.icon {
		t.Error("without a service the icon is that of an idle one")
	}
	if _, ok := find(gone.menu, "▲"); ok {
		t.Errorf("the menu offers an approval that nobody could answer: %v", gone.labels())
	}
	main := s.window("Reeve").raise()
	main.shot("service-killed")
	m.start()
	if back := h.says("Reeve: 1 approval waits for you"); back.icon != needs.icon {
		t.Error("the icon is another one than before")
	}

	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.ends()
	p = s.reeve("-hidden")
	h.registered()
	h.says("Reeve: 1 approval waits for you")
	h.choose("▲")
	s.allowed(v, "Allow this command?", ask.ID)
	s.answered(v, ask.ID, p)
	v.phase(mi.ID, "completed")
}
