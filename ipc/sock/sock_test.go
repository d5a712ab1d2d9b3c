//go:build linux

package sock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleVar makes the test binary play one of the programs below.
const roleVar = "SOCK_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role, os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}

func play(role, path string) int {
	switch role {
	case "listen": // says what came of it, and keeps what it has until its input ends
		if mask := os.Getenv("SOCK_TEST_UMASK"); mask != "" {
			n, _ := strconv.ParseInt(mask, 8, 32)
			syscall.Umask(int(n))
		}
		l, err := Listen(path)
		switch {
		case errors.Is(err, ErrInUse):
			fmt.Println("in use")
		case err != nil:
			fmt.Println("error:", err)
		default:
			fmt.Println("listening")
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		if l != nil {
			_ = l.Close()
		}
	case "raw": // connects without asking who serves
		c, err := net.Dial("unix", path)
		if err != nil {
			fmt.Println("error:", err)
			return 0
		}
		fmt.Println("connected")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = c.Close()
	case "dial":
		c, err := Dial(context.Background(), path)
		if errors.Is(err, ErrForeign) {
			fmt.Println("foreign")
			return 0
		}
		if err != nil {
			fmt.Println("error:", err)
			return 0
		}
		fmt.Println("connected")
		_ = c.Close()
	}
	return 0
}

type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func run(t *testing.T, role, path string, change ...func(*exec.Cmd)) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, path)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", roleVar+"="+role)
	cmd.Stderr = os.Stderr
	for _, f := range change {
		f(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(p.end)
	return p
}

func (p *program) end() {
	_ = p.in.Close()
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Wait()
}

func (p *program) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatal("the program ended without a word")
	}
	return p.out.Text()
}

func listenAt(t *testing.T, path string) *Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// exchange proves that a client reaches this listener, and who is who.
func exchange(t *testing.T, l *Listener) {
	t.Helper()
	c, err := Dial(t.Context(), l.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := PeerOf(s)
	if err != nil || p.PID != os.Getpid() || !SameUser(p) {
		t.Errorf("peer %+v, %v", p, err)
	}
	if p.Pidfd != nil {
		_ = p.Pidfd.Close()
	}
	other := p
	other.UID = "4242"
	if SameUser(other) || SameUser(Peer{}) {
		t.Error("another user is taken for the same")
	}
}

func TestPaths(t *testing.T) {
	own, foreign := t.TempDir(), "/proc/1"
	runUser := fmt.Sprintf("/run/user/%d", os.Getuid())
	fallback := "/h/.local/state/reeve/run/reeve.sock"
	if ownDir(runUser) {
		fallback = runUser + "/reeve/reeve.sock"
	}
	if os.Getuid() == 0 {
		foreign = filepath.Join(t.TempDir(), "foreign")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 65534, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"REEVE_STATE": "/s t", "XDG_RUNTIME_DIR": own}, "/s t/run/reeve.sock"},
		{map[string]string{"REEVE_STATE": "rel"}, ""},
		{map[string]string{"XDG_RUNTIME_DIR": own}, own + "/reeve/reeve.sock"},
		{map[string]string{"XDG_RUNTIME_DIR": foreign, "HOME": "/h"}, fallback},
		{map[string]string{"XDG_RUNTIME_DIR": "rel", "HOME": "/h"}, fallback},
		{map[string]string{"HOME": "/h"}, fallback},
	} {
		got, err := Path(func(k string) string { return c.env[k] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v: %q, %v, want %q", c.env, got, err, c.want)
		}
	}
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/reeve"},
		{map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/reeve"},
		{map[string]string{}, ""},
	} {
		got, err := StateDir(func(k string) string { return c.env[k] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v: %q, %v, want %q", c.env, got, err, c.want)
		}
	}
	for _, c := range []struct{ set, want string }{{"", ""}, {"/x", "/x"}, {"/x/", "/x"}, {"/y/..//x/.", "/x"}} {
		if got, err := PrivateState(func(k string) string { return map[string]string{"REEVE_STATE": c.set, "HOME": "/h"}[k] }); got != c.want || err != nil {
			t.Errorf("REEVE_STATE=%s: %q, %v, want %q", c.set, got, err, c.want)
		}
	}
	if got, err := PrivateState(func(k string) string { return map[string]string{"REEVE_STATE": "x", "HOME": "/h"}[k] }); err == nil {
		t.Errorf("a relative REEVE_STATE is %q", got)
	}
}

func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b", "-lead", "漢字", "🦉", `q"u'o`, "$(x);&", "new\nline"} {
		l := listenAt(t, filepath.Join(t.TempDir(), name, "s"))
		exchange(t, l)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLongPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("長", 60), strings.Repeat("x", 200), "reeve.sock")
	at, err := place(path)
	if err != nil || at == path || len(at) > 80 {
		t.Fatal(at, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(at)) })
	l := listenAt(t, path)
	exchange(t, l)
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Error("a second listener:", err)
	}
	if st, err := os.Stat(filepath.Dir(at)); err != nil || st.Mode().Perm() != 0o700 {
		t.Error(st, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	// The substitute is checked by both sides, since others can make it.
	if err := os.Chmod(filepath.Dir(at), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Error(err)
	}
	if _, err := Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Error(err)
	}
}

func TestModesUnderAnyUmask(t *testing.T) {
	for _, mask := range []string{"000", "077"} {
		path := filepath.Join(t.TempDir(), "run", "s")
		p := run(t, "listen", path, func(c *exec.Cmd) { c.Env = append(c.Env, "SOCK_TEST_UMASK="+mask) })
		if got := p.line(t); got != "listening" {
			t.Fatal(got)
		}
		for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + ".lock": 0o600} {
			if st, err := os.Stat(name); err != nil || st.Mode().Perm() != want {
				t.Errorf("umask %s: %s is %v, %v", mask, name, st.Mode(), err)
			}
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "s")
	p := run(t, "listen", path)
	p.line(t)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	if _, err := Dial(t.Context(), path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal("the socket is not stale:", err)
	}
	// And what a kill between bind and rename leaves.
	if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path + newSuffix}); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
	}
	l := listenAt(t, path)
	exchange(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("after the close:", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error("a second close:", err)
	}
}

// A stopped owner answers nothing, with and without our lock, and even when
// its backlog is full. Its socket stays.
func TestBusyOwnerKeepsItsSocket(t *testing.T) {
	for _, locked := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "run", "s")
		p := run(t, "listen", path)
		p.line(t)
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if !locked {
			if err := os.Remove(path + ".lock"); err != nil {
				t.Fatal(err)
			}
		}
		var before, after unix.Stat_t
		if err := unix.Lstat(path, &before); err != nil {
			t.Fatal(err)
		}
		var fds []int
		for range 10000 { // fill the backlog
			fd, err := knock(path)
			if err != nil {
				if err != unix.EAGAIN {
					t.Fatal(err)
				}
				break
			}
			fds = append(fds, fd)
			var used *InUseError
			if len(fds) == 1 {
				if _, err := Listen(path); !errors.As(err, &used) || used.PID != p.cmd.Process.Pid {
					t.Errorf("locked %v: %v", locked, err)
				}
			}
		}
		if _, err := Listen(path); !errors.Is(err, ErrInUse) {
			t.Errorf("locked %v, %d waiting: %v", locked, len(fds), err)
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		if err := unix.Lstat(path, &after); err != nil || before.Ino != after.Ino {
			t.Errorf("the owner's socket was touched: %v", err)
		}
	}
}

func TestNotASocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link", "dir"} {
		if _, err := Listen(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, _ := os.ReadFile(file); string(b) != "mine" {
		t.Error("the file was changed")
	}
	if _, err := Listen("relative"); err == nil {
		t.Error("a relative path was taken")
	}
}

func TestOpenDirectoryIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(filepath.Join(dir, "s")); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Error(err)
	}
	if err := os.Symlink(t.TempDir(), dir+"link"); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(filepath.Join(dir+"link", "s")); err == nil {
		t.Error("a linked directory was taken")
	}
}

func TestSuccessorsSocketIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "s")
	l := listenAt(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error("the successor's socket was removed:", err)
	}
}

func TestManyStartAtOnce(t *testing.T) {
	for round := range 3 {
		path := filepath.Join(t.TempDir(), "run", "s")
		if round > 0 { // with a stale socket
			first := run(t, "listen", path)
			first.line(t)
			_ = first.cmd.Process.Kill()
			_ = first.cmd.Wait()
		}
		var all []*program
		for range 4 {
			all = append(all, run(t, "listen", path))
		}
		count := map[string]int{}
		for _, p := range all {
			count[p.line(t)]++
		}
		if count["listening"] != 1 || count["in use"] != 3 {
			t.Errorf("round %d: %v", round, count)
		}
		for _, p := range all {
			p.end()
		}
	}
}

func TestAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to start a program of another user")
	}
	// Open to all, as it never is in use: the kernel's word has to suffice.
	base, err := os.MkdirTemp("", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	dir := filepath.Join(base, "run")
	path := filepath.Join(dir, "s")
	l := listenAt(t, path)
	defer l.Close()
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(base, "prog")
	if err := os.WriteFile(bin, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	nobody := func(c *exec.Cmd) {
		c.Path, c.Dir = bin, "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if got := run(t, "raw", path, nobody).line(t); !strings.Contains(got, "permission denied") {
		t.Errorf("another user got to the socket: %s", got)
	}
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	p := run(t, "raw", path, nobody)
	if got := p.line(t); got != "connected" {
		t.Fatal(got)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := PeerOf(c)
	if err != nil || peer.UID != "65534" || peer.PID != p.cmd.Process.Pid || SameUser(peer) {
		t.Errorf("%+v, %v", peer, err)
	}
	if peer.Pidfd != nil {
		_ = peer.Pidfd.Close()
	}
	if got := run(t, "dial", path, nobody).line(t); got != "foreign" {
		t.Errorf("a client spoke to a server of another user: %s", got)
	}
}

func TestPidfdFollowsThePeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "s")
	l := listenAt(t, path)
	defer l.Close()
	p := run(t, "raw", path)
	p.line(t)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := PeerOf(c)
	if err != nil {
		t.Fatal(err)
	}
	if peer.Pidfd == nil {
		t.Skip("this kernel gives no handle on the peer (before Linux 6.5)")
	}
	defer peer.Pidfd.Close()
	ended := func(timeout int) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(peer.Pidfd.Fd()), Events: unix.POLLIN}}, timeout)
		return n == 1
	}
	if ended(0) {
		t.Error("the peer has ended, says its handle")
	}
	_ = p.cmd.Process.Kill()
	if !ended(240_000) {
		t.Error("the handle does not show the end")
	}
}
