//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reevehq/reeve/ipc/wire"
)

// managerVar says that the tests run beside a systemd user manager of theirs.
const managerVar = "REEVE_E2E_MANAGER"

// TestUnderUserManager runs TestScope beside a real systemd user manager that
// lives for this test.
func TestUnderUserManager(t *testing.T) { underUserManager(t, "TestScope") }

func underUserManager(t *testing.T, test string) {
	t.Helper()
	if os.Getenv(managerVar) != "" {
		t.Skip("this is that run")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../packaging/systemd-user.sh", exe, "-test.v", "-test.timeout", "15m", "-test.run", "^"+test+"$")
	cmd.Env = append(os.Environ(), managerVar+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// TestScope: a guard lives in a systemd scope of its own, beside the service
// and not below it. It outlives a killed service, ends with the user manager,
// and then its mission can be recovered.
func TestScope(t *testing.T) {
	if os.Getenv(managerVar) == "" {
		t.Skip("there is no user manager for tests: see TestUnderUserManager")
	}
	m := newMachine(t)
	for _, name := range []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"} {
		m.env = append(m.env, name+"="+os.Getenv(name))
	}
	m.start()
	v := m.watch()
	mi, g := v.scoped(m.repo("repo"))
	unit := "reeve-" + mi.Attempt + ".scope"
	if filepath.Base(g.Cgroup) != unit {
		t.Fatalf("the guard works by %q in %q", g.Tree, g.Cgroup)
	}
	v.wait("what the mission uses", func() bool {
		r := v.missions[mi.ID].Resources
		return r != nil && r.Method == "scope" && r.Processes > 0 && r.MemoryBytes > 0
	})
	out, err := exec.Command("systemctl", "--user", "show", unit, "-p", "ActiveState,Delegate,CollectMode").CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte("ActiveState=active")) || !bytes.Contains(out, []byte("Delegate=yes")) {
		t.Errorf("the unit %s: %v", unit, err)
	}
	// The keeper alone was told where the user's bus is.
	work, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", g.Cgroup, "work", "cgroup.procs"))
	pids := append(strings.Fields(string(work)), strconv.Itoa(g.PID))
	if err != nil || len(pids) < 2 {
		t.Fatalf("nobody is in the group of the workers: %v", err)
	}
	for _, pid := range pids {
		env, err := os.ReadFile("/proc/" + pid + "/environ")
		if n, _ := strconv.Atoi(pid); err != nil && n != g.PID && !alive(n) {
			continue // it had its turn
		}
		if err != nil || bytes.Contains(env, []byte("DBUS_SESSION_BUS_ADDRESS=")) || bytes.Contains(env, []byte("XDG_RUNTIME_DIR=")) {
			t.Errorf("process %s knows the bus: %v", pid, err)
		}
	}

	m.signal(syscall.SIGKILL)
	m.start()
	v = m.watch()
	v.phase(mi.ID, "working")
	if !alive(g.PID) || !alive(g.Keeper.PID) {
		t.Fatal("the guard ended with the service")
	}

	m.signal(syscall.SIGTERM)
	if !alive(g.PID) {
		t.Fatal("the guard ended with the service")
	}
	// As at the end of a session: the manager stops all its units and ends.
	if out, err := exec.Command("systemctl", "--user", "exit").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, pid := range []int{g.PID, g.Keeper.PID} {
		mustEnd(t, pid)
	}
	m.gone(func(string) bool { return false })
	m.start()
	v = m.watch()
	if got := v.phase(mi.ID, "blocked"); got.Recovery != "approval_required" || got.RecoveryRef == "" || len(got.Left) > 0 {
		t.Errorf("%+v", got)
	}
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
}

// scoped begins a mission whose guard has a scope of its own. On a machine that is
// very busy the manager may take longer to make one than a guard waits.
func (v *view) scoped(repo string) (wire.Mission, wire.GuardRecord) {
	v.m.t.Helper()
	for try := 1; ; try++ {
		mi := v.begin(v.m.demoTerms(repo, "demo:slow 100000"))
		entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
		g := v.m.guardOf(mi.Attempt)
		if g.Tree == "scope" {
			return mi, g
		}
		if try == 5 {
			v.m.t.Fatalf("the guard works by %q in %q", g.Tree, g.Cgroup)
		}
		do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
	}
}

// mustEnd waits until a process that was told to end has ended.
func mustEnd(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	late := time.Now().Add(waitLimit)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, max(0, int(time.Until(late)/time.Millisecond)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 {
			t.Fatalf("process %d is still there: %v", pid, err)
		}
		return
	}
}
