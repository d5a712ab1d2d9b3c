//go:build linux

package proc

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestIdentity(t *testing.T) {
	id, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if id.State() != Alive {
		t.Fatalf("this test is %v", id.State())
	}
	b, _ := json.Marshal(id)
	var back ID
	if err := json.Unmarshal(b, &back); err != nil || back != id {
		t.Fatalf("%s became %+v, %v", b, back, err)
	}
	reused, rebooted := id, id
	reused.Start++
	rebooted.BootID = "another"
	for _, other := range []ID{reused, rebooted, {}, {PID: -1}} {
		if other.State() != Gone {
			t.Errorf("%+v is %v, want gone", other, other.State())
		}
	}
	// Another process has this pid by now: signalling it would end this test.
	if err := reused.Signal(syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("signal to a successor: %v", err)
	}
	if _, err := Inspect(1 << 30); !errors.Is(err, ErrGone) {
		t.Errorf("inspect nobody: %v", err)
	}
}

func TestZombieIsGone(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() { waited <- id.Wait(ctx) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled wait: %v", err)
	}
	_ = in.Close()
	if err := id.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id.State() != Gone {
		t.Errorf("a zombie is %v", id.State())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal("the wait took the exit status:", err)
	}
	if err := id.Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("signal after the end: %v", err)
	}
}

func TestBootTime(t *testing.T) {
	a, boot, err := BootTime()
	if err != nil || boot == "" || a <= 0 {
		t.Fatal(a, boot, err)
	}
	if b, again, _ := BootTime(); b < a || again != boot {
		t.Errorf("went from %v %s to %v %s", a, boot, b, again)
	}
}

func TestAncestors(t *testing.T) {
	chain, err := Ancestors(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if chain[0].PID != os.Getpid() || len(chain) < 2 || chain[1].PID != os.Getppid() {
		t.Fatalf("%+v", chain)
	}
	if chain[0].Exe == "" || chain[0].PidNS == "" {
		t.Errorf("details are missing: %+v", chain[0])
	}
}

// live looks at the real system, except that the test itself is its root, so
// that the result does not depend on where the tests are run from.
func live(pid int) (Info, error) {
	info, err := Inspect(pid)
	if pid == os.Getpid() {
		info.PPID, info.SID, info.attempt = 0, pid, ""
	}
	return info, err
}

func verdict(t *testing.T, pid int, guards ...Guarded) Verdict {
	t.Helper()
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return classify(pid, live, guards, ns)
}

func TestLiveOrdinaryPrograms(t *testing.T) {
	t.Setenv(AttemptVar, "")
	p := run(t, self("guard", "subreaper"))
	guard := []Guarded{{Root: p.answer().Self}}

	// From a terminal: a shell that leads a session, and its child.
	shell := self("leader", "wait")
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	sh := run(t, shell)
	t.Cleanup(func() { _ = shell.Process.Kill() })
	pids, _ := sh.ready(2)
	for _, pid := range pids {
		if pid != shell.Process.Pid {
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		}
		if v := verdict(t, pid, guard...); v.Worker {
			t.Errorf("a program in a terminal: %s", v.Why)
		}
	}

	// From a launcher, which forks twice and stays: the session's leader lives.
	launcher := self("leader", "orphan", "nohup", "wait")
	launcher.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	la := run(t, launcher)
	pids, _ = la.ready(2)
	app := pids[0] + pids[1] - launcher.Process.Pid
	orphan, err := Identify(app)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = orphan.Signal(os.Kill) })
	if v := verdict(t, app, guard...); v.Worker {
		t.Errorf("a program from a launcher: %s", v.Why)
	}
	_ = launcher.Process.Kill()
	_, _ = launcher.Process.Wait()
	if v := verdict(t, app, guard...); !v.Worker {
		t.Errorf("an orphan of a dead session passed: %s", v.Why)
	}

	// A daemon: leads its session, its parent has gone.
	d := run(t, self("orphan", "setsid", "wait"))
	pids, _ = d.ready(1)
	daemon, err := Identify(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Signal(os.Kill) })
	if v := verdict(t, daemon.PID, guard...); v.Worker {
		t.Errorf("a daemon: %s", v.Why)
	}
}

func TestLiveWorkers(t *testing.T) {
	t.Setenv(AttemptVar, "")
	p := run(t, self("guard", "subreaper"))
	guard := p.answer().Self
	p.ask("start leader wait")
	p.ask("start orphan setsid orphan setsid wait")
	p.ask("start orphan nohup wait")
	pids, _ := p.ready(4)
	for _, pid := range append(pids, guard.PID) {
		if v := DescendsFromGuard(pid, nil, []Guarded{{Root: guard}}); !v.Worker {
			t.Errorf("%d passed: %s", pid, v.Why)
		}
	}
}

func TestLiveCgroupAndMark(t *testing.T) {
	t.Setenv(AttemptVar, "")
	p := run(t, self("guard", "cgroup"))
	first := p.answer()
	p.ask("start wait")
	pids, _ := p.ready(1)
	if first.Method == "cgroup" {
		v := verdict(t, pids[0], Guarded{Cgroups: []string{first.Cgroup}})
		if !v.Worker {
			t.Errorf("a member of %s passed: %s", first.Cgroup, v.Why)
		}
	} else {
		t.Logf("no cgroup can be made here (%s): that rule is tried on made-up processes only", first.Method)
	}
	marked := self("wait")
	marked.Env = append(marked.Env, AttemptVar+"=a-1")
	m := run(t, marked)
	t.Cleanup(func() { _ = marked.Process.Kill() })
	pids, _ = m.ready(1)
	if v := verdict(t, pids[0]); !v.Worker {
		t.Errorf("a marked program passed: %s", v.Why)
	}
}

func TestPidfdOfAnExitedPeer(t *testing.T) {
	cmd := exec.Command("true")
	pidfd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if pidfd < 0 {
		t.Skip("this kernel gives no pidfd")
	}
	f := os.NewFile(uintptr(pidfd), "peer")
	defer f.Close()
	// Its pid stands for a process that lives: only the handle tells.
	if v := DescendsFromGuard(os.Getpid(), f, nil); !v.Worker {
		t.Errorf("the handle of a dead process passed: %s", v.Why)
	}
}

func TestWaitManyTimes(t *testing.T) {
	// Handles are given back: more waits than there may be open files.
	id, _ := Self()
	ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
	defer cancel()
	<-ctx.Done()
	for range 5000 {
		if err := id.Wait(ctx); err == nil {
			t.Fatal("this test has ended, it is said")
		}
		if err := id.Signal(syscall.Signal(0)); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11"))
	f.Add([]byte("77 (a) R 1 (b)) Z 5 6 7 34816 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 10 11"))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = parseStat(b) })
}

func TestParseStatHostileName(t *testing.T) {
	p, err := parseStat([]byte("77 (a) R 1 (b)) Z 5 6 7 34817 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 10 11\n"))
	if err != nil || p.PID != 77 || p.Comm != "a) R 1 (b)" || p.PPID != 5 || p.SID != 7 || p.Start != 99 || !p.zombie || p.TTY != "/dev/pts/1" {
		t.Errorf("%+v, %v", p, err)
	}
}
