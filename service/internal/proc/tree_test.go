//go:build linux

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// methods runs a test each way. The ways that the machine doesn't offer are
// left out, with the reason. Scopes are tried by TestUnderUserManager.
func methods(t *testing.T, f func(t *testing.T, method string)) {
	all := []string{"cgroup", "subreaper"}
	if os.Getenv(managerVar) != "" {
		all = []string{"scope"}
	}
	for _, m := range all {
		t.Run(m, func(t *testing.T) {
			if m == "scope" {
				scoped(t, "guard", m)
			} else if got := run(t, self("guard", m)).answer().Method; got != m {
				t.Skipf("no cgroup can be made here, the tree works by %q", got)
			}
			f(t, m)
		})
	}
}

// scoped runs a guard in a scope. On a machine that is very busy the manager may
// take longer to make one than a guard waits.
func scoped(t *testing.T, role ...string) (*program, reply) {
	t.Helper()
	for try := 1; ; try++ {
		p := run(t, self(role...))
		g := p.answer()
		if g.Method == "scope" {
			return p, g
		}
		if try == 5 {
			t.Fatalf("beside a user manager the tree works by %q", g.Method)
		}
	}
}

func TestStopEndsWhatEscaped(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		p := run(t, self("guard", method))
		p.answer()
		p.ask("start wait")
		p.ask("start orphan setsid orphan setsid wait stubborn listen")
		p.ask("start orphan nohup wait stubborn listen")
		pids, ports := p.ready(3)
		m := p.ask("members")
		for _, pid := range pids {
			if !slices.ContainsFunc(m.Members, func(id ID) bool { return id.PID == pid }) {
				t.Fatalf("members: %+v, want %v among them", m, pids)
			}
		}
		if r := p.ask("stop 0 50 100"); r.Err != "" || len(r.Left) != 0 {
			t.Fatalf("stop: %+v", r)
		}
		mustGone(t, pids)
		for _, port := range ports {
			if port != 0 {
				mustFree(t, port)
			}
		}
		if r := p.ask("close"); r.Err != "" {
			t.Fatal(r.Err)
		}
	})
}

func TestStopIsGentleFirst(t *testing.T) {
	// A plan whose later steps never come shows that the interrupt sufficed.
	p := run(t, self("guard", "subreaper"))
	p.answer()
	p.ask("start wait")
	p.ready(1)
	if r := p.ask("stop 0 3600000 3600000"); r.Err != "" {
		t.Fatal(r.Err)
	}
}

func TestFiftyChildren(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		script := filepath.Join(t.TempDir(), "many")
		writeScript(t, script, `for i in 1 2 3 4 5 6 7 8 9 10; do
  for j in 1 2 3 4 5; do (trap '' INT TERM; sleep 1000 & sleep 1000) & done
done
trap '' INT TERM
echo ready $$ 0
wait`)
		p := run(t, self("guard", method))
		p.answer()
		p.ask("start script " + script)
		p.ready(1)
		if m := p.ask("members"); len(m.Members) < 50 {
			t.Fatalf("%d members, want at least 50", len(m.Members))
		}
		if r := p.ask("stop 0 10 20"); r.Err != "" {
			t.Fatal(r.Err)
		}
		if m := p.ask("members"); len(m.Members) != 0 {
			t.Fatalf("members after stop: %v", m.Members)
		}
	})
}

// A storm of processes, each of which starts its successors and ends, is the
// hardest to catch: what was seen is gone before a signal reaches it.
func TestForkStorm(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		script := filepath.Join(t.TempDir(), "comet")
		writeScript(t, script, `trap '' INT TERM
[ -n "$COMET" ] || echo ready $$ 0
export COMET=1
setsid "$0" &
exit 0`)
		p := run(t, self("guard", method))
		p.answer()
		for range 3 {
			p.ask("start script " + script)
			p.ready(1)
		}
		if r := p.ask("stop 0 10 20"); r.Err != "" {
			t.Fatal(r.Err)
		}
		if m := p.ask("members"); len(m.Members) != 0 {
			t.Fatalf("members after stop: %v", m.Members)
		}
		_ = p.in.Close()
		p.silence() // nobody holds the pipe, so nobody escaped
	})
}

func TestOrphansAreReaped(t *testing.T) {
	p := run(t, self("guard", "subreaper"))
	p.answer()
	script := filepath.Join(t.TempDir(), "orphans")
	writeScript(t, script, `for i in 1 2 3 4 5 6 7 8 9 10; do ( (exec true) & ) ; done; echo ready $$ 0; exec sleep 1000`)
	p.ask("start script " + script)
	p.ready(1)
	if r := p.ask("kill"); r.Err != "" {
		t.Fatal(r.Err)
	}
	if r := p.ask("close"); r.Err != "" { // reaps a last time
		t.Fatal(r.Err)
	}
	if m := p.ask("members"); m.Zombies > 1 { // the script itself belongs to cmd.Wait
		t.Fatalf("%d zombies are left", m.Zombies)
	}
}

func TestOthersAreLeftAlone(t *testing.T) {
	// Another agent: the same program, with the same arguments, not ours.
	other := run(t, self("wait"))
	t.Cleanup(func() { _ = other.cmd.Process.Kill() })
	other.ready(1)
	otherGuard := run(t, self("guard", "subreaper"))
	otherGuard.answer()
	otherGuard.ask("start wait")
	pids, _ := otherGuard.ready(1)

	p := run(t, self("guard", "subreaper"))
	p.answer()
	p.ask("start wait")
	p.ready(1)
	if m := p.ask("members"); len(m.Members) != 1 {
		t.Fatalf("members: %v, want 1", m.Members)
	}
	if r := p.ask("kill"); r.Err != "" {
		t.Fatal(r.Err)
	}
	for _, pid := range []int{other.cmd.Process.Pid, pids[0]} {
		id, err := Identify(pid)
		if err != nil || id.State() != Alive {
			t.Fatalf("the other agent %d: %v, %v", pid, id.State(), err)
		}
	}
}

func TestGuardDiesKeeperCleans(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		p := run(t, self("keeper", "guard", method, "kept"))
		g := p.answer()
		pids, ports := p.ready(2)
		if err := g.Self.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if code := p.line("kept"); code != "137" {
			t.Errorf("the keeper returned %s, want 137", code)
		}
		p.silence()
		mustGone(t, pids)
		for _, port := range ports {
			mustFree(t, port)
		}
		mustGoGroup(t, g)
	})
}

func TestKeeperDiesGuardCleans(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		p := run(t, self("keeper", "guard", method, "kept"))
		g := p.answer()
		pids, _ := p.ready(2)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.silence()
		mustGone(t, append(pids, g.Self.PID))
		mustGoGroup(t, g)
	})
}

// Killing both at once leaves the group, which whoever has its name can end.
func TestBothDieGroupIsEnded(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		if method == "subreaper" {
			t.Skip("without a control group this is a documented limit")
		}
		p := run(t, self("keeper", "guard", method, "kept"))
		g := p.answer()
		pids, _ := p.ready(2)
		keeper, err := Identify(p.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, sig := range []os.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, id := range []ID{keeper, g.Self} {
				if err := id.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustGone(t, []int{g.Self.PID})
		for _, pid := range pids {
			if id, err := Identify(pid); err != nil || id.State() != Alive {
				t.Errorf("process %d ended by itself, so this proves nothing", pid)
			}
		}
		left, err := EndGroup(t.Context(), g.Cgroup)
		if err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		mustGone(t, pids)
		mustGoGroup(t, g)
	})
}

// Only names are tried, and never EndGroup: a test that is broken on purpose
// would end every process of the machine.
func TestEndGroupTouchesNoOther(t *testing.T) {
	for group, want := range map[string]bool{
		"/": false, "": false, "/user.slice": false, "/app.slice/reeve.service": false, "/app.slice/reeve-x.service": false,
		"/reeve-x.slice": false, "/reeve-x/../y": false, "/reeve-x/..": false, "/app.slice/other.scope": false, "reeve-x": false, "/reeve-": false,
		"/reeve-x": true, "/app.slice/reeve-a-1.scope": true,
	} {
		if madeHere(group) != want {
			t.Errorf("%q was made for a tree: %v", group, !want)
		}
	}
}

// mustGoGroup wants the control group of a guard to be removed. By the scope
// way the user manager does that, a moment after the last process has ended.
func mustGoGroup(t *testing.T, g reply) {
	t.Helper()
	if g.Cgroup == "" {
		return
	}
	dir, err := groupDir(g.Cgroup)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if g.Method != "scope" || time.Now().After(deadline) {
			t.Fatalf("the control group %s is still there", dir)
		}
	}
}

// A look at the members that fails keeps nobody from being ended.
func TestMembersThatCantBeListed(t *testing.T) {
	p := run(t, self("guard", "subreaper"))
	p.answer()
	p.ask("start orphan setsid wait stubborn")
	pids, _ := p.ready(1)
	group := t.TempDir()
	if err := os.Mkdir(filepath.Join(group, "cgroup.procs"), 0o700); err != nil { // a folder in the place of the list
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.events"), []byte("populated 0\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.ask("group " + group)
	if r := p.ask("members"); r.Err == "" {
		t.Fatalf("the members can be listed, so this proves nothing: %v", r.Members)
	}
	if r := p.ask("stop 0 10 20"); r.Err != "" || len(r.Left) > 0 {
		t.Errorf("left %v, %s", r.Left, r.Err)
	}
	mustGone(t, pids)
}

// A group that can't be read is not taken for an empty one.
func TestGroupThatCantBeRead(t *testing.T) {
	p := run(t, self("guard", "subreaper"))
	p.answer()
	group := t.TempDir()
	for _, name := range []string{"cgroup.events", "cgroup.procs"} {
		if err := os.Mkdir(filepath.Join(group, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.ask("group " + group)
	if r := p.ask("members"); r.Err == "" {
		t.Errorf("nobody is said to be left: %v", r.Members)
	}
	if err := os.RemoveAll(group); err != nil {
		t.Fatal(err)
	}
	if r := p.ask("stop 0 10 20"); r.Err != "" || len(r.Left) > 0 {
		t.Errorf("a group that is gone has left %v, %s", r.Left, r.Err)
	}
}

// What can't be looked up is not taken for what is not there.
func TestEndGroupWithoutMounts(t *testing.T) {
	mountInfo = filepath.Join(t.TempDir(), "none")
	defer func() { mountInfo = "/proc/self/mountinfo" }()
	if _, err := EndGroup(t.Context(), "/reeve-x"); err == nil {
		t.Error("a group is said to be empty that could not be found")
	}
	if err := os.WriteFile(mountInfo, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if left, err := EndGroup(t.Context(), "/reeve-x"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// What the kernel does not let the guard end is named, and Kill returns.
func TestRefusedByTheKernel(t *testing.T) {
	if !isRoot(t) {
		t.Skip("needs root, to make a program that becomes another user")
	}
	dir, err := os.MkdirTemp("", "proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "prog")
	if err := os.WriteFile(bin, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, bin: 0o755 | os.ModeSetuid} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := self("guard", "subreaper")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	// The guard runs a copy without the bit, its child the one with it.
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = plain, []string{plain}
	script := filepath.Join(dir, "script")
	writeScript(t, script, roleVar+`="wait root" exec `+bin)
	p := run(t, cmd)
	p.answer()
	p.ask("start script " + script)
	line := p.line("ready")
	var pid int
	_, _ = fmt.Sscan(line, &pid)
	id, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	r := p.ask("kill")
	if len(r.Left) != 1 || r.Left[0] != id || !strings.Contains(r.Err, "not permitted") {
		t.Errorf("kill: %+v, want %v left and the reason", r, id)
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestTreeRefusesBadNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "a\nb", "a.scope"} {
		if tree, err := NewTreeWith(name, Options{NoCgroup: true}); err == nil {
			_ = tree.Close()
			t.Errorf("%q was taken for a name", name)
		}
	}
}

func writeScript(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
