//go:build testhooks

package osservice

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kardianos/service"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// TestMain makes the test binary the launcher and the service as well.
func TestMain(m *testing.M) {
	switch {
	case slices.Equal(os.Args[1:], launcherArgs):
		if err := Launch(context.Background()); err != nil {
			os.Exit(1)
		}
	case len(os.Args) == 3 && os.Args[1] == "serve": // notes that it is there, and stays
		f, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(strconv.Itoa(os.Getpid()) + " " + os.Getenv("REEVE_STATE") + "\n")
		}
		if errors.Join(err, f.Close()) != nil {
			os.Exit(4)
		}
		time.Sleep(time.Hour)
	default:
		os.Exit(m.Run())
	}
}

// who reads which services were started, with n of them at least.
func who(t *testing.T, file string, n int) (pids []int) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for {
		b, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		if n == 0 && len(b) == 0 {
			return nil
		}
		if len(lines) >= n && strings.HasSuffix(string(b), "\n") {
			for _, l := range lines {
				word, state, _ := strings.Cut(l, " ")
				pid, err := strconv.Atoi(word)
				if err != nil || strings.TrimSpace(state) != `C:\a state` {
					t.Fatalf("a service said %q", l)
				}
				pids = append(pids, pid)
			}
			return pids
		}
		if time.Now().After(end) {
			t.Fatalf("want %d starts, got %q", n, b)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func alive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	e, err := windows.WaitForSingleObject(h, 0)
	return err == nil && e == uint32(windows.WAIT_TIMEOUT)
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = p.Wait()
}

// The launcher below the Service Control Manager, with the program in a folder
// that only administrators write: one service for each user, at the first
// session, again after a crash, and not with the launcher's end.
func TestLauncher(t *testing.T) {
	if !windows.GetCurrentProcessToken().IsElevated() {
		t.Skip("it needs admin rights")
	}
	if _, there := launcherExe(); there {
		t.Skip("there is a launcher on this machine")
	}
	dir := filepath.Join(os.Getenv("ProgramFiles"), "Reeve test")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	started := filepath.Join(dir, "started")
	u := Unit{Exe: filepath.Join(dir, "reeve.exe"), Args: []string{"serve", started}, Env: map[string]string{"REEVE_STATE": `C:\a state`}}
	copySelf(t, u.Exe)
	inSessions(t, "")
	t.Cleanup(func() {
		_ = Uninstall(context.Background())
		_ = RemoveLauncher(u.Exe)
		_ = registry.DeleteKey(registry.LOCAL_MACHINE, testKey)
		if b, err := os.ReadFile(started); err == nil {
			for _, pid := range who(t, started, strings.Count(string(b), "\n")) {
				if alive(pid) {
					kill(t, pid)
				}
			}
		}
		_ = os.RemoveAll(dir)
	})

	for range 2 { // installing it again changes nothing
		if err := Install(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Look(t.Context())
	if err != nil || !r.Registered || !r.AtLogon || r.Exe != u.Exe || r.Edited {
		t.Fatalf("%+v: %v", r, err)
	}
	if k, err := registry.OpenKey(registry.CURRENT_USER, runKey, registry.QUERY_VALUE); err == nil {
		if line, _, err := k.GetStringValue(runValue); err == nil {
			t.Errorf("the log-on would start it once more: %s", line)
		}
		_ = k.Close()
	}
	if has, works := launcherExe(); !works || has != u.Exe {
		t.Errorf("the launcher is %q, %v", has, works)
	}
	state(t, service.StatusRunning)
	who(t, started, 0)

	inSessions(t, "7")
	lookNow(t)
	first := who(t, started, 1)[0]
	inSessions(t, "7 9")
	lookNow(t)
	kill(t, first)
	second := who(t, started, 2)[1]

	// The launcher of another program, and then the own one. The desktop beside
	// it goes, under the name that an upgrade left it; another's stays.
	elsewhere := filepath.Join(t.TempDir(), desktop)
	var desktops []*os.Process
	for _, exe := range []string{filepath.Join(dir, desktop), elsewhere} {
		copySelf(t, exe)
		cmd := exec.Command(exe, "serve", filepath.Join(dir, "desktops"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		desktops = append(desktops, cmd.Process)
	}
	if err := os.Rename(filepath.Join(dir, desktop), filepath.Join(dir, desktop+".old7")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = desktops[1].Kill()
		_, _ = desktops[1].Wait()
	}()
	if err := RemoveLauncher(filepath.Join(os.Getenv("ProgramFiles"), "Another", "reeve.exe")); err != nil {
		t.Error(err)
	}
	state(t, service.StatusRunning)
	if err := RemoveLauncher(strings.ToUpper(u.Exe)); err != nil {
		t.Fatal(err)
	}
	state(t, service.StatusUnknown)
	if alive(desktops[0].Pid) || !alive(desktops[1].Pid) {
		t.Errorf("the desktop beside it lives: %v, and another: %v", alive(desktops[0].Pid), alive(desktops[1].Pid))
	}
	_, _ = desktops[0].Wait()
	if !alive(second) {
		t.Error("the service ended with the launcher")
	}
	if n := len(who(t, started, 2)); n != 2 {
		t.Errorf("%d services were started", n)
	}
	if r, err := Look(t.Context()); err != nil || !r.Registered || r.AtLogon {
		t.Errorf("without a launcher: %+v: %v", r, err)
	}
	if err := errors.Join(Uninstall(t.Context()), Uninstall(t.Context())); err != nil {
		t.Fatal(err)
	}
	if r, err := Look(t.Context()); err != nil || r.Registered {
		t.Errorf("uninstalled: %+v: %v", r, err)
	}
}

// Elsewhere an entry of the user's own does, and `Start` what it does.
func TestLogonEntry(t *testing.T) {
	if r, err := Look(t.Context()); err != nil || r.Registered {
		t.Skipf("a service is registered here: %+v, %v", r, err)
	}
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	u := Unit{Exe: filepath.Join(dir, "reeve.exe"), Args: []string{"serve", started}, Env: map[string]string{"REEVE_STATE": `C:\a state`}}
	copySelf(t, u.Exe)
	t.Cleanup(func() { _ = Uninstall(context.Background()) })
	if err := Install(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if r, err := Look(t.Context()); err != nil || !r.Registered || !r.AtLogon || r.Edited {
		t.Errorf("%+v: %v", r, err)
	}
	if err := Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	kill(t, who(t, started, 1)[0])
	second := who(t, started, 2)[1]
	info, err := parent(second)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, info) // the launcher, or it would repair this as well
	kill(t, second)
	if err := Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := Look(t.Context()); err != nil || r.Registered || r.AtLogon {
		t.Errorf("%+v: %v", r, err)
	}
	if err := Start(t.Context()); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("started: %v", err)
	}
}

func parent(pid int) (int, error) {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return 0, err
	}
	defer windows.CloseHandle(snap)
	var e windows.ProcessEntry32
	e.Size = uint32(unsafe.Sizeof(e))
	for err = windows.Process32First(snap, &e); err == nil; err = windows.Process32Next(snap, &e) {
		if int(e.ProcessID) == pid {
			return int(e.ParentProcessID), nil
		}
	}
	return 0, err
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

// inSessions says in which sessions this user is.
func inSessions(t *testing.T, ids string) {
	t.Helper()
	k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, testKey, registry.SET_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.SetStringValue(testSessions, ids); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, want service.Status) {
	t.Helper()
	if got, err := launcherState(); err != nil || got != want {
		t.Fatalf("the launcher's state is %v, want %v: %v", got, want, err)
	}
}

// lookNow has the launcher see the sessions that there are now.
func lookNow(t *testing.T) {
	t.Helper()
	m, err := mgr.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Disconnect() }()
	s, err := m.OpenService(launcherName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Control(svc.Cmd(128)); err != nil {
		t.Fatal(err)
	}
}
