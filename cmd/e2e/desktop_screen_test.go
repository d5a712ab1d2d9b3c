package e2e

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// screen is a desktop session of its own: an X server, a session bus and a
// window manager, all private and all ended with the test.
type screen struct {
	t   *testing.T
	m   *machine
	dir string // of the session's own files, with a plain short name
	env []string
	bus string // address
	pic int    // screenshots so far
}

// tick is how often is looked where nothing tells of a change: windows and
// pixels have no events here.
const tick = 50 * time.Millisecond

// newScreen starts the session. Programs of it see the machine's state.
func newScreen(m *machine) *screen {
	m.t.Helper()
	if err := desktop(); err != nil {
		m.t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "reeve-x-")
	if err != nil {
		m.t.Fatal(err)
	}
	s := &screen{t: m.t, m: m, dir: dir}
	m.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.env = append(append([]string{}, m.env...),
		"XDG_RUNTIME_DIR="+dir, "LIBGL_ALWAYS_SOFTWARE=1", "GDK_BACKEND=x11", "NO_AT_BRIDGE=1",
		"FYNE_SCALE=1", "REEVE_THEME=light", "XDG_CURRENT_DESKTOP=XFCE")
	display := s.tell("Xvfb", "-displayfd", "3", "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset")
	s.env = append(s.env, "DISPLAY=:"+display)
	conf := filepath.Join(dir, "bus.conf")
	s.write(conf, `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=`+filepath.Join(dir, "bus")+`</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`)
	s.bus = s.tell("dbus-daemon", "--config-file="+conf, "--nofork", "--nopidfile", "--print-address=3")
	s.env = append(s.env, "DBUS_SESSION_BUS_ADDRESS="+s.bus)
	s.spawn(nil, "openbox", "--sm-disable")
	s.until("a window manager", func() bool {
		out, err := s.tool("wmctrl", "-m")
		return err == nil && strings.Contains(out, "Openbox")
	})
	return s
}

func (s *screen) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// program is a running program of the session.
type program struct {
	s      *screen
	cmd    *exec.Cmd
	logs   *lines
	exited chan struct{}
}

// spawn starts a program in a process group of its own, which is ended with the
// test.
func (s *screen) spawn(extra *os.File, name string, args ...string) *program {
	s.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if extra != nil {
		cmd.ExtraFiles = []*os.File{extra}
	}
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	p := &program{s: s, cmd: cmd, logs: read(r), exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait()
	}()
	s.t.Cleanup(func() {
		p.end()
		<-p.logs.eof
		_ = r.Close()
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", filepath.Base(name), p.logs.text())
		}
	})
	return p
}

// tell starts a program and returns the line that it writes to descriptor 3.
func (s *screen) tell(name string, args ...string) string {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	_ = r.SetReadDeadline(time.Now().Add(waitLimit))
	p := s.spawn(w, name, args...)
	_ = w.Close()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := r.Read(b); err != nil {
			s.t.Fatalf("%s said nothing: %v\n%s", name, err, p.logs.text())
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// end asks the program to end, and makes it where it does not.
func (p *program) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // its group: children of a panel
	<-p.exited
}

// ends waits until the program ended by itself and returns its exit code.
func (p *program) ends() int {
	p.s.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(waitLimit):
		p.s.t.Fatalf("%s does not end:\n%s", p.cmd.Path, p.logs.text())
	}
	return p.cmd.ProcessState.ExitCode()
}

// reeve starts the desktop program.
func (s *screen) reeve(args ...string) *program {
	s.t.Helper()
	return s.spawn(nil, filepath.Join(bin, "reeve-desktop"), args...)
}

// tool runs a program of the session to its end.
func (s *screen) tool(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	out, err := cmd.Output()
	return string(out), err
}

func (s *screen) xdo(args ...string) string {
	s.t.Helper()
	out, err := s.tool("xdotool", args...)
	if err != nil {
		s.t.Fatalf("xdotool %v: %v", args, err)
	}
	return strings.TrimSpace(out)
}

// park takes the pointer off all windows. Fyne ends with a panic when the
// pointer moves for the first time over a window that is just being closed
// (github.com/fyne-io/fyne/issues/5981), so a test that closes what it has just
// opened parks first.
func (s *screen) park() {
	s.t.Helper()
	s.xdo("mousemove", "1279", "799")
}

// until looks until cond holds.
func (s *screen) until(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(waitLimit)
	t := time.NewTicker(tick)
	defer t.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			s.shot("timeout")
			s.t.Fatalf("waited for %s; windows: %v", what, s.titles())
		}
		<-t.C
	}
}

// connect joins the session's bus.
func (s *screen) connect() *dbus.Conn {
	s.t.Helper()
	c, err := dbus.Connect(s.bus)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// shot keeps a picture of the whole screen, in $REEVE_E2E_SCREENS when that is
// set, and returns it.
func (s *screen) shot(name string) *image.RGBA {
	s.t.Helper()
	data, err := s.grab("root")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.keep(name, data)
}

func (s *screen) keep(name string, data []byte) *image.RGBA {
	s.t.Helper()
	img := pixels(data)
	if img.Rect.Empty() {
		s.t.Fatal("a picture of the screen can't be read")
	}
	dir := os.Getenv("REEVE_E2E_SCREENS")
	if dir == "" {
		dir = s.t.TempDir()
	}
	s.pic++
	file := filepath.Join(dir, fmt.Sprintf("%s-%02d-%s.png", strings.ReplaceAll(s.t.Name(), "/", "-"), s.pic, name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
	return img
}

// grab takes a picture of a window, as a PNG.
func (s *screen) grab(window string) ([]byte, error) {
	out, err := s.tool("import", "-silent", "-window", window, "-depth", "8", "-define", "png:compression-level=1", "png:-")
	if err != nil {
		return nil, fmt.Errorf("take a picture of window %s: %w", window, err)
	}
	return []byte(out), nil
}

// titles lists the windows that are shown.
func (s *screen) titles() []string {
	out, _ := s.tool("wmctrl", "-l")
	return strings.Split(strings.TrimSpace(out), "\n")
}

// window is one window, by its X id.
type window struct {
	s  *screen
	id string
}

// lookup returns the shown window with exactly this title.
func (s *screen) lookup(title string) (window, bool) {
	out, err := s.tool("xdotool", "search", "--onlyvisible", "--name", "^"+pattern(title)+"$")
	id, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return window{s, id}, err == nil && id != ""
}

// pattern quotes what xdotool would read as a regular expression.
func pattern(title string) string {
	return strings.NewReplacer("?", `\?`, "(", `\(`, ")", `\)`, "+", `\+`, ".", `\.`).Replace(title)
}

// window waits for a window with this title.
func (s *screen) window(title string) window {
	s.t.Helper()
	var w window
	s.until("the window "+title, func() (ok bool) {
		w, ok = s.lookup(title)
		return ok
	})
	return w
}

// gone waits until no window has this title.
func (s *screen) gone(title string) {
	s.t.Helper()
	s.until("the end of the window "+title, func() bool {
		_, shown := s.lookup(title)
		return !shown
	})
}

// active tells whether the window is the one that keys go to.
func (w window) active() bool {
	out, err := w.s.tool("xdotool", "getactivewindow")
	return err == nil && strings.TrimSpace(out) == w.id
}

// raise brings the window to the front, and waits for it.
func (w window) raise() window {
	w.s.t.Helper()
	if _, err := w.s.tool("xdotool", "windowactivate", w.id); err != nil {
		w.s.t.Fatalf("raise window %s: %v", w.id, err)
	}
	w.s.until("the window in front", w.active)
	return w
}

// size is the window's, in pixels.
func (w window) size() image.Point {
	w.s.t.Helper()
	var p image.Point
	for line := range strings.Lines(w.s.xdo("getwindowgeometry", "--shell", w.id)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "WIDTH":
			p.X = n
		case "HEIGHT":
			p.Y = n
		}
	}
	return p
}

// click presses the first button at a place of the window. Negative numbers
// count from the right and from the bottom.
func (w window) click(x, y int) {
	w.s.t.Helper()
	x, y = w.at(x, y)
	w.s.xdo("mousemove", "--window", w.id, strconv.Itoa(x), strconv.Itoa(y), "click", "1")
}

func (w window) at(x, y int) (int, int) {
	size := w.size()
	if x < 0 {
		x += size.X
	}
	if y < 0 {
		y += size.Y
	}
	return x, y
}

// close asks the window to close, as its close button does.
func (w window) close() {
	w.s.t.Helper()
	if _, err := w.s.tool("wmctrl", "-i", "-c", w.id); err != nil {
		w.s.t.Fatalf("close window %s: %v", w.id, err)
	}
}

// image is what the window shows now, empty when it is gone.
func (w window) image() *image.RGBA {
	data, _ := w.s.grab(w.id)
	return pixels(data)
}

// pixels reads a PNG into one known kind of image: reading pixels of any kind
// takes seconds a window under the race detector.
func pixels(data []byte) *image.RGBA {
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return image.NewRGBA(image.Rectangle{})
	}
	out := image.NewRGBA(image.Rectangle{Max: img.Bounds().Size()})
	draw.Draw(out, out.Rect, img, img.Bounds().Min, draw.Src)
	return out
}

// shot keeps a picture of the window.
func (w window) shot(name string) *image.RGBA {
	w.s.t.Helper()
	data, err := w.s.grab(w.id)
	if err != nil {
		w.s.t.Fatal(err)
	}
	return w.s.keep(name, data)
}

// rgb is a colour of the light palette.
type rgb uint32

const (
	accent      rgb = 0x2F5D8A
	accentTint  rgb = 0xE8EFF6
	waitingTint rgb = 0xFDF4E4
	wrongTint   rgb = 0xFBECEB
	sideGround  rgb = 0xF4F2EC
	doneInk     rgb = 0x2E6B3E
)

func (c rgb) is(img *image.RGBA, x, y int) bool {
	i := img.PixOffset(x, y)
	near := func(a uint8, b rgb) bool { return rgb(a) <= b+2 && b <= rgb(a)+2 }
	return near(img.Pix[i], c>>16&0xff) && near(img.Pix[i+1], c>>8&0xff) && near(img.Pix[i+2], c&0xff)
}

// fills finds the areas of one colour that are at least as large as least, from
// the top down.
func fills(img *image.RGBA, c rgb, least image.Point) []image.Rectangle {
	seen := make([]bool, len(img.Pix)/4)
	var out []image.Rectangle
	var stack []image.Point
	for y := range img.Rect.Max.Y {
		for x := range img.Rect.Max.X {
			if seen[img.PixOffset(x, y)/4] || !c.is(img, x, y) {
				continue
			}
			area := image.Rectangle{}
			stack = append(stack[:0], image.Pt(x, y))
			for len(stack) > 0 {
				p := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				if !p.In(img.Rect) || seen[img.PixOffset(p.X, p.Y)/4] || !c.is(img, p.X, p.Y) {
					continue
				}
				seen[img.PixOffset(p.X, p.Y)/4] = true
				area = area.Union(image.Rect(p.X, p.Y, p.X+1, p.Y+1))
				stack = append(stack, p.Add(image.Pt(1, 0)), p.Add(image.Pt(-1, 0)), p.Add(image.Pt(0, 1)), p.Add(image.Pt(0, -1)))
			}
			if area.Dx() >= least.X && area.Dy() >= least.Y {
				out = append(out, area)
			}
		}
	}
	return out
}

// press waits for the nth filled button of the window (the one kind that is
// filled: what the person most likely wants) and clicks it.
func (w window) press(n int) {
	w.s.t.Helper()
	var found []image.Rectangle
	w.s.until("a filled button", func() bool {
		found = fills(w.image(), accent, image.Pt(60, 20))
		return len(found) > n
	})
	mid := found[n].Min.Add(found[n].Size().Div(2))
	w.click(mid.X, mid.Y)
}
