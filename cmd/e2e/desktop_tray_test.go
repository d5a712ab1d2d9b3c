package e2e

import (
	"bytes"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestDesktopTray reads what a panel would show, and uses the menu.
func TestDesktopTray(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := newScreen(m)
	h := s.trayHost()
	p := s.reeve("-hidden")
	h.registered()
	icons := map[string]string{}
	icons["no service"] = h.wait("words", func(l look) bool {
		return strings.HasPrefix(l.tooltip, "Reeve: ") && !strings.Contains(l.tooltip, "onnecting")
	}).icon
	m.start()
	v := m.watch()
	icons["idle"] = h.says("Reeve: No mission is running").icon

	slow := s.start(v, m.demoTerms(m.repo("slow"), "demo:slow 100000"))
	icons["working"] = h.says("Reeve: 1 mission under way").icon
	// Its start is answered elsewhere at once: the dialog of that turns to the
	// question that follows.
	asking := v.begin(m.demoTerms(m.repo("asking"), "demo:command touch a_b.txt"))
	ask, _ := v.asked(asking.ID, "touch a_b.txt")
	l := h.says("Reeve: 1 approval waits for you")
	icons["needs you"] = l.icon
	for a, x := range icons {
		for b, y := range icons {
			if a < b && x == y {
				t.Errorf("%s and %s have the same icon", a, b)
			}
		}
	}

	// What waits comes first, then what runs, then the rest.
	l = h.wait("both missions", func(l look) bool {
		_, a := find(l.menu, "● demo:slow")
		_, b := find(l.menu, "▲ demo:command", "Open")
		return a && b
	})
	want := []string{"▲ demo:command", "", "", "", "", "New mission…", "Open Reeve", "Pause all", "Service", "", "Quit desktop"}
	ok := len(l.menu) == len(want)
	for i := range min(len(want), len(l.menu)) {
		ok = ok && strings.HasPrefix(l.menu[i].label, want[i])
	}
	if !ok || !strings.Contains(l.menu[0].label, "touch a_b.txt") {
		t.Errorf("menu: %q", l.labels())
	}
	for _, path := range [][]string{{"● demo:slow", "Open"}, {"● demo:slow", "Pause"}, {"● demo:slow", "Stop…"}, {"Service", "Stop"}, {"Service", "Restart"}} {
		if it, ok := find(l.menu, path...); !ok || it.disabled {
			t.Errorf("the menu does not offer %v", path)
		}
	}
	if it, ok := find(l.menu, "Service", "Start"); !ok || !it.disabled {
		t.Error("the menu offers to start a service that runs")
	}

	// The entry opens the dialog, and decides nothing.
	s.window("Allow this command?").close()
	s.gone("Allow this command?")
	h.choose("▲ demo:command")
	dialog := s.window("Allow this command?")
	s.armed(dialog)
	if got := v.state(ask.ID); got != "pending" {
		t.Fatalf("opening it made it %s", got)
	}
	s.allowed(v, "Allow this command?", ask.ID)
	v.phase(asking.ID, "completed")
	if l := h.says("Reeve: 1 mission under way"); l.icon != icons["working"] {
		t.Error("the icon of working is another one than before")
	}

	// Pause and resume go to the service; what cannot wait for a turn's end
	// shows there.
	h.choose("● demo:slow", "Pause")
	v.phase(slow.ID, "paused")
	h.choose("‖ demo:slow", "Resume")
	v.phase(slow.ID, "working")
	s.park()
	h.choose("● demo:slow", "Open")
	s.window("Reeve: " + slow.Title)
	h.choose("Open Reeve")
	s.window("Reeve")
	h.choose("New mission…")
	s.window("New mission")

	// Quitting ends the desktop alone.
	h.choose("Quit desktop")
	if code := p.ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
	n := len(v.log(slow))
	v.wait("more of the mission", func() bool { return len(v.entries[wire.TopicSession+slow.Session]) > n })
	if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: slow.ID}).Mission; got.Phase != "working" {
		t.Errorf("the mission is %s", got.Phase)
	}
}

// TestDesktopNotifications: a notification tells and opens, and never decides.
func TestDesktopNotifications(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	h, n := s.trayHost(), s.notes()
	s.reeve("-hidden")
	h.registered()
	h.says("Reeve: No mission is running")
	mi := s.start(v, m.demoTerms(m.repo("repo"), "demo:command touch <b>made.txt"))
	ask, _ := v.asked(mi.ID, "made.txt")

	asks := n.one("Demo agent asks")
	if !strings.Contains(asks.body, "touch &lt;b&gt;made.txt") {
		t.Errorf("body: %q", asks.body)
	}
	if !slices.Contains(asks.actions, "review") || !slices.Contains(asks.actions, "default") {
		t.Errorf("actions: %v", asks.actions)
	}
	for _, a := range asks.actions {
		if a := strings.ToLower(a); strings.Contains(a, "allow") || strings.Contains(a, "deny") {
			t.Errorf("a notification offers to decide: %v", asks.actions)
		}
	}
	for _, action := range []string{"review", "default"} {
		s.window("Allow this command?").close()
		s.gone("Allow this command?")
		n.act(asks.id, action)
		s.armed(s.window("Allow this command?"))
		if got := v.state(ask.ID); got != "pending" {
			t.Fatalf("the action %s made it %s", action, got)
		}
	}

	// Another program answers: that is told, with its name and pid, and what
	// asked is taken back.
	if r := m.run("deny", ask.ID); r.code != 0 {
		t.Fatalf("deny: %s", r.err)
	}
	v.wait("the answer", func() bool { return v.approvals[ask.ID].State == "denied" })
	v.mu.Lock()
	pid := v.approvals[ask.ID].Answer.PID
	v.mu.Unlock()
	told := n.one("An approval was answered elsewhere")
	for _, want := range []string{"denied", "reeve", fmt.Sprint("pid ", pid), "no terminal"} {
		if !strings.Contains(told.body, want) {
			t.Errorf("it does not say %q: %q", want, told.body)
		}
	}
	n.wait("what asked being taken back", func(_ []note, closed []uint32) bool { return slices.Contains(closed, asks.id) })
	v.phase(mi.ID, "completed")
	count := 0
	for _, x := range n.all() {
		if x.summary == "Demo agent asks" {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d notifications for one approval: %+v", count, n.all())
	}
}

// panel starts a real tray host, the panel of Xfce, at the bottom of the screen.
func (s *screen) panel() {
	s.t.Helper()
	home := filepath.Join(s.dir, "home")
	s.write(filepath.Join(home, ".config/xfce4/xfconf/xfce-perchannel-xml/xfce4-panel.xml"), `<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-panel" version="1.0">
  <property name="configver" type="int" value="2"/>
  <property name="panels" type="array"><value type="int" value="1"/>
    <property name="panel-1" type="empty">
      <property name="position" type="string" value="p=10;x=640;y=785"/>
      <property name="length" type="uint" value="100"/>
      <property name="size" type="uint" value="30"/>
      <property name="position-locked" type="bool" value="true"/>
      <property name="plugin-ids" type="array"><value type="int" value="1"/><value type="int" value="2"/></property>
    </property>
  </property>
  <property name="plugins" type="empty">
    <property name="plugin-1" type="string" value="tasklist"/>
    <property name="plugin-2" type="string" value="systray"/>
  </property>
</channel>
`)
	env := s.env
	s.env = append(slices.Clone(s.env), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))
	defer func() { s.env = env }()
	s.spawn(nil, s.xfconfd())
	s.owned("org.xfce.Xfconf")
	blank := s.screenImage()
	s.spawn(nil, "xfce4-panel", "--disable-wm-check")
	s.owned(watcherName)
	strip := image.Rect(0, 770, 1280, 800)
	s.until("the panel", func() bool { return changed(blank, s.screenImage(), strip).Dx() > 600 })
	conf := filepath.Join(s.dir, "dunstrc")
	s.write(conf, "[global]\n")
	s.spawn(nil, "dunst", "-config", conf)
	s.owned(notesName)
}

// xfconfd finds the daemon that keeps the panel's settings: it is not on the
// PATH, and this bus starts nothing by itself.
func (s *screen) xfconfd() string {
	s.t.Helper()
	const file = "/usr/share/dbus-1/services/org.xfce.Xfconf.service"
	b, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatalf("a real tray host needs xfconf: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "Exec="); ok {
			return path
		}
	}
	s.t.Fatalf("%s names no program", file)
	return ""
}

// owned waits until a name of the bus has an owner.
func (s *screen) owned(name string) {
	s.t.Helper()
	c := s.connect()
	s.until(name, func() bool {
		var has bool
		err := c.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, name).Store(&has)
		return err == nil && has
	})
}

// changed is the area in which two pictures differ, within an area.
func changed(a, b *image.RGBA, in image.Rectangle) image.Rectangle {
	out := image.Rectangle{}
	in = in.Intersect(a.Rect).Intersect(b.Rect)
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			i := a.PixOffset(x, y)
			if !bytes.Equal(a.Pix[i:i+4], b.Pix[i:i+4]) {
				out = out.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return out
}

// TestDesktopInARealPanel: the icon shows in the tray of a real panel, its menu
// opens by a click, and a real notification opens the dialog.
func TestDesktopInARealPanel(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	s.panel()
	tray := image.Rect(0, 770, 1280, 800)
	before := s.still("before")
	s.reeve("-hidden")
	var icon image.Rectangle
	s.until("an icon in the panel", func() bool {
		icon = changed(before, s.screenImage(), tray)
		return icon.Dx() >= 8 && icon.Dy() >= 12
	})
	idle := s.shot("idle")
	mi := s.start(v, m.demoTerms(m.repo("slow"), "demo:slow 100000"))
	s.until("another icon", func() bool { return !changed(idle, s.screenImage(), tray).Empty() })
	asking := s.start(v, m.demoTerms(m.repo("asking"), "demo:command touch made.txt"))
	ask, _ := v.asked(asking.ID, "touch made.txt")
	dialog := s.window("Allow this command?")
	dialog.close()
	s.gone("Allow this command?")

	// The real notification: a middle click is what dunst does its action by.
	corner := image.Rect(640, 0, 1280, 300)
	var popup image.Rectangle
	s.until("the notification", func() bool {
		popup = changed(before, s.screenImage(), corner)
		return popup.Dx() > 100 && popup.Dy() > 20
	})
	s.shot("notification")
	mid := popup.Min.Add(popup.Size().Div(2))
	s.xdo("mousemove", fmt.Sprint(mid.X), fmt.Sprint(mid.Y), "click", "2")
	dialog = s.window("Allow this command?")
	s.armed(dialog)
	if got := v.state(ask.ID); got != "pending" {
		t.Errorf("the notification made it %s", got)
	}
	dialog.close()
	s.gone("Allow this command?")

	// The menu, by a real click on the icon.
	quiet := s.shot("quiet")
	mid = icon.Min.Add(icon.Size().Div(2))
	s.xdo("mousemove", fmt.Sprint(mid.X), fmt.Sprint(mid.Y), "click", "1")
	s.until("the menu", func() bool {
		r := changed(quiet, s.screenImage(), image.Rect(0, 300, 1280, 768))
		return r.Dx() > 150 && r.Dy() > 150
	})
	s.shot("menu")
	s.xdo("key", "Down", "key", "Return") // what waits comes first
	dialog = s.window("Allow this command?")
	s.armed(dialog)
	if got := v.state(ask.ID); got != "pending" {
		t.Errorf("the menu made it %s", got)
	}
	s.allowed(v, "Allow this command?", ask.ID)
	v.phase(asking.ID, "completed")
	v.phase(mi.ID, "working")
}

// still keeps a picture of a screen that stands still: what starts draws itself in
// steps.
func (s *screen) still(name string) *image.RGBA {
	s.t.Helper()
	last, same := s.screenImage(), 0
	s.until("a screen that stands still", func() bool {
		now := s.screenImage()
		if same++; now.Rect.Empty() || !bytes.Equal(now.Pix, last.Pix) {
			same = 0
		}
		last = now
		return same == 10
	})
	return s.shot(name)
}

// screenImage is what the whole screen shows.
func (s *screen) screenImage() *image.RGBA { return window{s, "root"}.image() }
