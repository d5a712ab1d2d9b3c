//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
)

// desktopEntry is the name of the desktop entries that the packages install.
const desktopEntry = "io.github.reevehq.reeve.desktop"

// TestDesktopAutostart: the packaged entries are read by what sessions read
// them with. The one for log-on starts one tray program, without a window;
// whatever starts it once more, that one shows itself.
func TestDesktopAutostart(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	s := newScreen(m)
	s.panel()
	host := s.connect().Object(watcherName, "/StatusNotifierWatcher")
	etc, share := filepath.Join(s.dir, "etc"), filepath.Join(s.dir, "share")
	autostart := s.packaged("autostart/"+desktopEntry, filepath.Join(etc, "autostart"))
	menu := s.packaged(desktopEntry, filepath.Join(share, "applications"))
	s.env = append(s.env, "XDG_CONFIG_DIRS="+etc, "XDG_CONFIG_HOME="+filepath.Join(s.dir, "config"), "XDG_DATA_DIRS="+share+":/usr/share")

	// systemd's part of a session takes it for an entry that is to be started.
	command := s.atLogon()
	if want := filepath.Join(bin, "reeve-desktop") + " -hidden"; command != want {
		t.Errorf("at log-on %q is run, want %q", command, want)
	}

	// So does GLib's, which is in most desktops.
	t.Cleanup(s.endDesktops)
	s.launch(autostart)
	s.until("the tray program", func() bool { return len(s.desktops()) == 1 && items(host) == 1 })
	first := s.desktops()[0]
	if args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(first), "cmdline")); err != nil || !strings.HasSuffix(string(args), "reeve-desktop\x00-hidden\x00") {
		t.Errorf("it was started as %q, %v", args, err)
	}
	if _, shown := s.lookup("Reeve"); shown {
		t.Error("it shows a window at log-on")
	}

	// From the menu, from there once more with another window in front, and by a
	// second log-on.
	s.launch(menu)
	w := s.window("Reeve")
	s.until("the window in front", w.active)
	for _, entry := range []string{menu, autostart} {
		s.park()
		s.xdo("key", "ctrl+n")
		form := s.window("New mission")
		s.until("the form in front", form.active)
		s.launch(entry)
		s.until("the main window in front again", w.active)
		form.close()
		s.gone("New mission")
	}
	s.until("one program alone", func() bool { return slices.Equal(s.desktops(), []int{first}) })
	if n := items(host); n != 1 {
		t.Errorf("the tray has %d items", n)
	}

	// Who doesn't want it at log-on says so as the README tells.
	s.write(filepath.Join(s.dir, "config", "autostart", desktopEntry), "[Desktop Entry]\nHidden=true\n")
	if command := s.atLogon(); command != "" {
		t.Errorf("hidden by the user, at log-on %q is run", command)
	}
}

// TestDesktopAutostartTwice: two that are started at the same moment, as by an
// autostart entry and a restored session, become one.
func TestDesktopAutostartTwice(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	s := newScreen(m)
	s.panel()
	host := s.connect().Object(watcherName, "/StatusNotifierWatcher")
	autostart := s.packaged("autostart/"+desktopEntry, filepath.Join(s.dir, "etc", "autostart"))
	t.Cleanup(s.endDesktops)
	for range 2 {
		s.launch(autostart)
	}
	s.window("Reeve") // the later one has the earlier one show itself
	s.until("one program alone, with one item", func() bool { return len(s.desktops()) == 1 && items(host) == 1 })
}

// packaged puts a desktop entry of the packages into a folder.
func (s *screen) packaged(name, folder string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("../../packaging/linux", name))
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(folder, filepath.Base(name))
	s.write(path, string(text))
	return path
}

// launch starts what a desktop entry says, as a desktop does.
func (s *screen) launch(entry string) {
	s.t.Helper()
	if code := s.spawn(nil, "gio", "launch", entry).ends(); code != 0 {
		s.t.Fatalf("gio launch %s: exit %d", entry, code)
	}
}

// atLogon is the command that systemd would run at log-on, "" for none.
func (s *screen) atLogon() string {
	s.t.Helper()
	out := filepath.Join(s.dir, "units")
	if err := os.RemoveAll(out); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Mkdir(out, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.tool("/usr/lib/systemd/user-generators/systemd-xdg-autostart-generator", out, out, out); err != nil {
		s.t.Fatalf("systemd's generator for autostart entries: %v", err)
	}
	units, _ := filepath.Glob(filepath.Join(out, "xdg-desktop-autostart.target.wants", "*reeve*"))
	switch len(units) {
	case 0:
		return ""
	case 1:
	default:
		s.t.Fatalf("units: %v", units)
	}
	text, err := os.ReadFile(units[0])
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok {
			return strings.TrimLeft(command, ":")
		}
	}
	s.t.Fatalf("no command:\n%s", text)
	return ""
}

// desktops lists the desktop programs of this session.
func (s *screen) desktops() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		program, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if filepath.Base(program) == "reeve-desktop" && strings.Contains(string(env), "XDG_RUNTIME_DIR="+s.dir+"\x00") {
			out = append(out, pid)
		}
	}
	return out
}

// endDesktops ends those that the session started, which nobody waits for.
func (s *screen) endDesktops() {
	for _, pid := range s.desktops() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		mustEnd(s.t, pid)
	}
}

// items counts what the tray shows, by the host's own word.
func items(host dbus.BusObject) int {
	v, err := host.GetProperty(watcherName + ".RegisteredStatusNotifierItems")
	if err != nil {
		return -1
	}
	names, _ := v.Value().([]string)
	return len(names)
}
