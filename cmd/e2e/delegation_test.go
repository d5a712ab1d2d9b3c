//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

// TestDelegationUnderUserManager runs TestDelegation beside a real systemd user
// manager, a real bus and a real tmux.
func TestDelegationUnderUserManager(t *testing.T) { underUserManager(t, "TestDelegation") }

// TestDelegation is the rest of case 23: a worker has another program of the
// person's start what shall decide for it. What has no terminal of a person's
// is refused, recorded and shown, also when the worker has ended and when the
// service was started anew. What has one is taken for the person, and shown
// with its terminal: those are the limits that docs/threat-model.md names.
func TestDelegation(t *testing.T) {
	if os.Getenv(managerVar) == "" {
		t.Skip("there is no user manager for tests: see TestDelegationUnderUserManager")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux")
	}
	installed := t.TempDir()
	m := newMachine(t)
	for _, name := range []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"} {
		m.env = append(m.env, name+"="+os.Getenv(name))
	}
	// No server of another run is in the way.
	m.env = append(m.env, "TMUX_TMPDIR="+os.Getenv("HOME"))
	// What stands where the desktop's program is installed is the desktop.
	for _, name := range []string{"reeve", "reeve-desktop"} {
		if err := os.Link(filepath.Join(bin, "reeve"), filepath.Join(installed, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.reeve = filepath.Join(installed, "reeve")
	m.start()
	v := m.watch()
	repo := m.repo("repo")
	propose := func(name string) wire.Approval {
		return do[wire.MissionStartResult](v, wire.MethodMissionStart, m.demoTerms(m.repo(name), "Wait for a person.")).Approval
	}
	victim := propose("victim")
	const server = "reeve-e2e-person" // the person's
	tmux := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("tmux", append([]string{"-L", server, "-f", "/dev/null"}, args...)...)
		cmd.Env, cmd.Dir = m.env, m.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	pane := tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "s", "sh")
	defer func(pid string) {
		tmux("kill-server")
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		mustEnd(t, n)
	}(tmux("display-message", "-p", "#{pid}"))

	// try.sh NAME runs the rest with reeve, keeps what came of it in NAME, and
	// says so in the pipe NAME.pipe.
	write := func(name, text string) string {
		path := filepath.Join(repo, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	reeve := filepath.Join(bin, "reeve")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	allow := fmt.Sprintf("allow %s --digest %s", victim.ID, victim.Digest)
	write("try.sh", strings.Join([]string{
		"name=$1; shift; cd " + shellQuote(repo), "export REEVE_STATE=" + shellQuote(m.state) + " HOME=" + shellQuote(m.home),
		"reeve=" + shellQuote(reeve) + "; [ -x \"$1\" ] && reeve=$1 && shift",
		`"$reeve" "$@" >"$name.out" 2>&1; echo "exit=$?" >>"$name.out"`,
		`[ ! -p "$name.pipe" ] || echo done >"$name.pipe"`,
	}, "\n"))
	// late.sh waits for the test, and then tries.
	write("late.sh", `cd "${0%/*}"; read go <go.pipe; exec sh try.sh late `+allow)
	visible := []string{"window", "keys", "script"}
	asks := map[string]wire.Approval{}
	for _, name := range append(visible, "desktop") {
		asks[name] = propose(name)
	}
	// plain is a command that tries, with no character that needs quotes.
	plain := func(name, rest string) string {
		path := filepath.Join(os.Getenv("HOME"), name+".sh")
		if err := os.WriteFile(path, []byte("exec sh "+shellQuote(filepath.Join(repo, "try.sh"))+" "+name+" "+rest), 0o755); err != nil {
			t.Fatal(err)
		}
		return "/bin/sh " + path
	}
	deny := func(name string) string {
		return plain(name, fmt.Sprintf("deny %s --digest %s", asks[name].ID, asks[name].Digest))
	}
	for _, name := range []string{"go", "late", "own", "timer", "bus", "window", "keys"} {
		if err := syscall.Mkfifo(filepath.Join(repo, name+".pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	services := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "dbus-1/services")
	run := "systemd-run --user --quiet --collect"
	try := func(name, rest string) string { return `sh "$PWD/try.sh" ` + name + " " + rest }
	// What never comes to its end is told by the result that is not there.
	heard := func(name string) string { return "; timeout 300 cat " + name + ".pipe" }
	write("attack.sh", strings.Join([]string{
		"export DBUS_SESSION_BUS_ADDRESS=" + shellQuote(os.Getenv("DBUS_SESSION_BUS_ADDRESS")) + " XDG_RUNTIME_DIR=" + shellQuote(os.Getenv("XDG_RUNTIME_DIR")) +
			" TMUX_TMPDIR=" + shellQuote(os.Getenv("HOME")),
		// What descends from the guard, wherever it moves.
		run + " --scope " + try("scope", allow),
		run + " --scope --unit=left sh -c 'setsid sleep 1000 &'; systemctl --user is-active left.scope >left.out",
		`tmux -L reeve-e2e-own -f /dev/null new-session -d "sh try.sh own ` + allow + `"` + heard("own"),
		// What another program starts.
		run + " --wait " + try("unit", allow),
		run + " --wait --unit=app-org.gnome.Terminal-77 --slice=app.slice " + try("named", allow),
		"cp " + shellQuote(reeve) + " reeve-desktop; " + run + " --wait " + try("copied", `"$PWD/reeve-desktop" `+allow),
		run + " --wait --pty " + try("pty", allow) + " </dev/null >/dev/null 2>&1",
		run + " --on-active=1ms --timer-property=AccuracySec=1ms " + try("timer", allow) + heard("timer"),
		"mkdir -p " + services,
		`printf '[D-BUS Service]\nName=org.example.Reeve\nExec=` + plain("bus", allow) + `\n' >` + services + "/org.example.Reeve.service",
		"dbus-send --session --dest=org.freedesktop.DBus --print-reply / org.freedesktop.DBus.ReloadConfig",
		"dbus-send --session --dest=org.freedesktop.DBus --print-reply / org.freedesktop.DBus.StartServiceByName string:org.example.Reeve uint32:0 & :" + heard("bus"),
		"tmux -L " + server + " run-shell " + shellQuote(plain("multiplexer", allow)),
		run + " --unit=reeve-e2e-late " + `sh "$PWD/late.sh"`,
		run + " --wait " + try("reads", "ls"),
		// Its guard's token lies in a file that it can read.
		run + " --wait sh -c " + shellQuote("REEVE_E2E_CLAIM="+shellQuote(filepath.Join(m.state, "attempts"))+"/$1 exec "+shellQuote(self)+" >"+shellQuote(filepath.Join(repo, "claim.out"))) + ` sh "$REEVE_ATTEMPT"`,
		// A terminal of a person's can't be typed into, whoever may open it.
		"REEVE_E2E_TERMINAL=" + tmux("display-message", "-p", "-t", pane, "#{pane_tty}") + " setpriv --bounding-set=-all --inh-caps=-all " + shellQuote(self) + " >typed.out 2>&1",
		// What has a terminal that nothing tells from a person's.
		"tmux -L " + server + " new-window " + shellQuote(deny("window")) + heard("window"),
		// The first pane is named: the window of before may not have closed yet.
		"tmux -L " + server + " send-keys -t " + shellQuote(pane) + " " + shellQuote(deny("keys")) + " Enter" + heard("keys"),
		run + " --wait script -qec " + shellQuote(deny("script")) + " /dev/null",
	}, "\n"))
	mi := v.begin(m.demoTerms(repo, "demo:command sh attack.sh"))
	ask, _ := v.asked(mi.ID, "attack.sh")
	v.answer(ask, wire.AnswerParams{Allow: true})
	end := v.phase(mi.ID, "completed", "blocked", "stopped")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(v.dump())
		}
	})

	result := func(name string) string {
		b, err := os.ReadFile(filepath.Join(repo, name+".out"))
		if err != nil {
			t.Errorf("%s left no result: %v", name, err)
		}
		return string(b)
	}
	refused := func(want string, names ...string) {
		t.Helper()
		for _, name := range names {
			if r := result(name); !strings.Contains(r, "exit=4") || !strings.Contains(r, want) {
				t.Errorf("%s: %s", name, r)
			}
		}
	}
	refused("comes from a worker", "scope", "own")
	refused("may come from a worker", "unit", "named", "copied", "pty", "timer", "bus", "multiplexer")
	if r := result("reads"); !strings.Contains(r, "exit=0") {
		t.Errorf("a program without a terminal reads: %s", r)
	}
	if r := result("claim"); r != "forbidden_for_workers\n" {
		t.Errorf("a claim of the worker's own guard: %s", r)
	}
	entry(v, mi, wire.KindNotice, func(n wire.Notice) bool { return strings.Contains(n.Text, "tried to take this worker over") })
	if r := result("typed"); r != "refused\n" {
		t.Errorf("into the person's terminal: %s", r)
	}
	if r := result("left"); r != "active\n" {
		t.Errorf("nothing was left in a scope of its own: %s", r)
	}
	// Its own scope kept nothing alive.
	for late := time.Now().Add(waitLimit); ; time.Sleep(tick) { // the manager is told a moment later that the scope is empty
		out, _ := exec.Command("systemctl", "--user", "is-active", "left.scope").Output()
		if strings.TrimSpace(string(out)) != "active" {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("what moved into a scope of its own lives on: %s", out)
		}
	}
	v.settled(end)

	const attempts = 9
	v.wait("every refusal to be shown", func() bool { return len(v.refusals) >= attempts && v.service.Refusals >= attempts })
	v.update(func() {
		for _, r := range v.refusals {
			if r.Program == "" || r.PID == 0 || r.Why == "" {
				t.Errorf("a refusal that doesn't say of whom: %+v", r)
			}
		}
	})

	// The worker has ended, and the service was started anew: a process that
	// the worker had started waits for that, in vain.
	m.signal(syscall.SIGTERM)
	m.start()
	v = m.watch()
	start, err := os.OpenFile(filepath.Join(repo, "go.pipe"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer start.Close()
	if _, err := start.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	m.told(filepath.Join(repo, "late.pipe"))
	refused("may come from a worker", "late")

	approval := func(id string) wire.Approval {
		return do[wire.ApprovalResult](v, wire.MethodApprovalGet, wire.IDParams{ID: id}).Approval
	}
	if got := approval(victim.ID); got.State != "pending" {
		t.Errorf("the victim is %s", got.State)
	}
	for _, name := range visible {
		a := approval(asks[name].ID)
		if a.State != "denied" || a.Answer == nil || a.Answer.Via != "program" || a.Answer.PID == 0 || a.Answer.TTY == "" {
			t.Errorf("%s: %s, answered by %+v", name, a.State, a.Answer)
		}
	}
	// A desktop that the session opens now has no terminal, and asks the person.
	desktop := exec.Command("systemd-run", "--user", "--quiet", "--collect", "--wait", "sh", filepath.Join(repo, "try.sh"), "desktop",
		filepath.Join(installed, "reeve-desktop"), "deny", asks["desktop"].ID, "--digest", asks["desktop"].Digest)
	if out, err := desktop.CombinedOutput(); err != nil || approval(asks["desktop"].ID).State != "denied" {
		t.Errorf("the desktop: %v %s %s", err, out, result("desktop"))
	}
	// The person can still decide, from where the worker never was.
	if r := m.run("deny", victim.ID, "--digest", victim.Digest); r.code != 0 {
		t.Errorf("the person: exit %d %s", r.code, r.err)
	}
}

// The worker of TestDelegation runs this program, without the rights of root, to
// type into the person's terminal, and has it run to claim its guard. That needs
// nothing that TestMain sets up.
func init() {
	path, attempt := os.Getenv("REEVE_E2E_TERMINAL"), os.Getenv("REEVE_E2E_CLAIM")
	switch {
	case path != "":
		fmt.Println(typeInto(path))
	case attempt != "":
		fmt.Println(claimGuard(attempt))
	default:
		return
	}
	os.Exit(0)
}

// claimGuard claims a guard with its own token, and says how it was refused.
func claimGuard(dir string) string {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	boot, err := guard.ReadBootstrap(dir)
	if err != nil {
		return err.Error()
	}
	c, err := guard.Connect(ctx, dir)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if _, err = c.Claim(ctx, boot.Token, 1000); err == nil {
		return "it is claimed"
	}
	return string(wire.CodeOf(err))
}

func typeInto(path string) string {
	if tty, err := os.Open("/dev/tty"); err == nil {
		_ = tty.Close()
		return "a worker has a terminal"
	}
	tty, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err.Error()
	}
	defer tty.Close()
	key := byte('x')
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, tty.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&key))); errno == 0 {
		return "a key was typed"
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, tty.Fd(), unix.TIOCSCTTY, 1); errno == 0 {
		return "the terminal was taken"
	}
	return "refused"
}
