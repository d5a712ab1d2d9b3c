//go:build linux

package proc

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// managerVar says that this test runs beside a user manager of its own.
const managerVar = "PROC_TEST_MANAGER"

// TestUnderUserManager runs what concerns scopes again, beside a real systemd
// user manager that lives for this test.
func TestUnderUserManager(t *testing.T) {
	if os.Getenv(managerVar) != "" {
		t.Skip("this is that run")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../../packaging/systemd-user.sh", exe, "-test.v", "-test.timeout", "15m", "-test.run",
		"^Test(StopEndsWhatEscaped|FiftyChildren|ForkStorm|GuardDiesKeeperCleans|KeeperDiesGuardCleans|BothDieGroupIsEnded|Usage|LimitMemory|Scope)$")
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

// Guard and workers live in one scope and in different groups of it.
func TestScope(t *testing.T) {
	if os.Getenv(managerVar) == "" {
		t.Skip("there is no user manager for tests: see TestUnderUserManager")
	}
	// A manager that has just come up may take longer than a guard waits for it.
	if out, err := exec.Command("systemd-run", "--user", "--scope", "--quiet", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p, g := scoped(t, "keeper", "guard", "scope", "kept")
	pids, _ := p.ready(2)
	for pid, want := range map[int]string{p.cmd.Process.Pid: ctlGroup, g.Self.PID: ctlGroup, pids[0]: workGroup, pids[1]: workGroup} {
		info, err := Inspect(pid)
		if err != nil || info.Cgroup != filepath.Join(g.Cgroup, want) {
			t.Errorf("process %d is in %q, want %s in %s: %v", pid, info.Cgroup, want, g.Cgroup, err)
		}
		// By the group alone: whoever is in it acts for a worker.
		if v := DescendsFromGuard(pid, nil, []Guarded{{Cgroups: []string{g.Cgroup}}}); !v.Worker {
			t.Errorf("process %d passed: %s", pid, v.Why)
		}
	}
	if v := DescendsFromGuard(os.Getpid(), nil, []Guarded{{Cgroups: []string{g.Cgroup}}}); v.Worker {
		t.Errorf("this test is taken for a worker: %s", v.Why)
	}
	// The unit's name stands for all of them, and goes with them.
	if out, err := exec.Command("systemctl", "--user", "kill", "--signal=KILL", filepath.Base(g.Cgroup)).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	p.silence()
	mustGone(t, append(pids, g.Self.PID))
	mustGoGroup(t, g)
}

// Without a manager, or with one that doesn't answer, a tree works another way.
func TestNoUserManager(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, address := range map[string]string{
		"no bus":  "unix:path=" + filepath.Join(dir, "none"),
		"silence": "unix:path=" + filepath.Join(dir, "bus"),
		"program": "unixexec:path=/bin/false",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := self("guard", "scope")
			cmd.Env = append(cmd.Env, "DBUS_SESSION_BUS_ADDRESS="+address, "XDG_RUNTIME_DIR=")
			p := run(t, cmd)
			if m := p.answer().Method; m == "scope" || m == "" {
				t.Errorf("the tree works by %q", m)
			}
			p.ask("start wait")
			p.ready(1)
			if r := p.ask("kill"); r.Err != "" {
				t.Error(r.Err)
			}
		})
	}
}

func TestUserBusSocket(t *testing.T) {
	for _, c := range []struct{ address, dir, want string }{
		{"", "", ""},
		{"", "/run/user/1", "/run/user/1/bus"},
		{"", "run/user/1", ""},
		{"unix:path=/tmp/a%20b,guid=12", "/run/user/1", "/tmp/a b"},
		{"tcp:host=example.org,port=1;unix:guid=1,path=/x", "", "/x"},
		{"unix:abstract=/tmp/x", "", "@/tmp/x"},
		{"unixexec:path=/bin/sh", "", ""},
		{"autolaunch:", "/run/user/1", "/run/user/1/bus"},
	} {
		env := map[string]string{"DBUS_SESSION_BUS_ADDRESS": c.address, "XDG_RUNTIME_DIR": c.dir}
		got, err := userBusSocket(func(name string) string { return env[name] })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q and %q give %q, %v; want %q", c.address, c.dir, got, err, c.want)
		}
	}
}
