package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

// gone waits until nothing of this machine runs but what ok allows.
func (m *machine) gone(ok func(process string) bool) {
	m.t.Helper()
	deadline := time.After(waitLimit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left := slices.DeleteFunc(m.processes(), ok)
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			m.t.Fatalf("still runs: %v", left)
		}
	}
}

// free waits until nothing listens at addr: a process that is ending is no longer
// to be seen in /proc a moment before the kernel closes its sockets.
func (m *machine) free(addr, when string) {
	m.t.Helper()
	deadline := time.After(waitLimit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			_ = l.Close()
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			m.t.Fatalf("%s: the port is not free: %v", when, err)
		}
	}
}

func ours(process string) bool {
	return strings.Contains(process, "reeve guard") || strings.Contains(process, "reeve service")
}

// TestToolServerEnds is case 1: a server that a tool left behind in a session of
// its own, after a double fork, with a port, ends with its turn, with its
// mission, and with a turn that no service watches any more.
func TestToolServerEnds(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t).start()
	v := m.watch()
	for i, c := range []struct {
		name, scope string
		end         func(mi wire.Mission)
	}{
		{"the turn ends", "demo:wait\ndemo:command sh serve.sh", func(mi wire.Mission) { v.turned(mi.ID, 1, "waiting") }},
		{"the mission is stopped", "demo:command sh serve.sh\ndemo:slow 100000", func(mi wire.Mission) {
			do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
		}},
		{"the service is killed, then the turn ends", "demo:wait\ndemo:command sh serve.sh\ndemo:slow 20", func(wire.Mission) {
			m.signal(syscall.SIGKILL)
		}},
	} {
		repo := m.repo(fmt.Sprint("repo", i))
		fifo := filepath.Join(repo, "port")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf("export REEVE_E2E_LISTEN=\"$PWD/port\"\nsetsid sh -c '(%s >/dev/null 2>&1 &)' &\n", shellQuoteInside(self))
		if err := os.WriteFile(filepath.Join(repo, "serve.sh"), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		mi := v.begin(m.demoTerms(repo, c.scope))
		ask, _ := v.asked(mi.ID, "serve.sh")
		v.answer(ask, wire.AnswerParams{Allow: true})
		addr := "127.0.0.1:" + m.told(fifo)
		c.end(mi)
		m.gone(ours)
		m.free(addr, c.name)
	}
	m.start()
}

// shellQuoteInside is for a path inside single quotes: those of test programs
// have no characters of the shell.
func shellQuoteInside(path string) string {
	if strings.ContainsAny(path, " '\"$`\\") {
		panic("a test program at " + path)
	}
	return path
}

// init is the server that a tool leaves behind.
func init() {
	path := os.Getenv("REEVE_E2E_LISTEN")
	if path == "" {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(path, fmt.Appendln(nil, l.Addr().(*net.TCPAddr).Port), 0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = l.Accept() // nobody comes
	os.Exit(0)
}

// TestHundredTurns is case 2: after a hundred turns there are as many processes
// as before the first one.
func TestHundredTurns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := plain(); err != nil {
		t.Fatal(err)
	}
	m.reeve = filepath.Join(bin, "plain", "reeve")
	m.start()
	v := m.watch()
	var all []wire.Mission
	for i := range 4 {
		all = append(all, v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), "demo:wait\ndemo:turns 25")))
	}
	for _, mi := range all {
		end := v.phase(mi.ID, "waiting", "completed", "blocked", "stopped")
		for end.Turn < 25 && end.Phase == "waiting" { // between two turns
			v.wait("the last turn", func() bool {
				end = v.missions[mi.ID]
				return end.Turn == 25 && end.Phase == "waiting" || end.EndedAt != nil
			})
		}
		if end.Phase != "waiting" || end.Turn != 25 {
			t.Errorf("%s after %d turns: %+v", end.Phase, end.Turn, end.Failure)
		}
	}
	m.gone(ours)
	// What is just being started, such as git to look at a checkout, still has
	// its parent's name.
	for late := time.Now().Add(waitLimit); ; time.Sleep(tick) {
		left := m.processes()
		if len(left) == 1+2*len(all) { // the service; a keeper and a guard each
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%d processes after a hundred turns: %v", len(left), left)
		}
	}
}

// TestSameNameIsNotOurs is case 3: what a person runs under the same name, in
// the same folder, is no worker: it is neither signalled nor told of.
func TestSameNameIsNotOurs(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	person := exec.Command(m.reeve, "demo-agent")
	person.Env, person.Dir = m.env, repo
	in, err := person.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := person.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- person.Wait() }()
	defer func() { _ = in.Close(); <-ended }()

	stopped := v.begin(m.demoTerms(repo, "demo:slow 100000"))
	entry(v, stopped, wire.KindText, func(wire.Text) bool { return true })
	end := do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: stopped.ID}).Mission
	if len(end.Left) > 0 || end.CheckoutOwned {
		t.Errorf("after the stop: left %v, owned %v", end.Left, end.CheckoutOwned)
	}
	lost := v.lose(v.begin(m.demoTerms(repo, "demo:slow 100000")))
	if len(lost.Left) > 0 || strings.Contains(lost.BlockedBy, fmt.Sprint(person.Process.Pid)) {
		t.Errorf("after the loss: left %v, %s", lost.Left, lost.BlockedBy)
	}
	m.signal(syscall.SIGKILL)
	m.start()
	if r := m.run("doctor"); strings.Contains(r.out, fmt.Sprint(person.Process.Pid)) {
		t.Errorf("doctor tells of it:\n%s", r.out)
	}
	if r := must[wire.ServiceStopResult](m, "service", "stop", "--workers"); len(r.Left) > 0 {
		t.Errorf("left: %v", r.Left)
	}
	<-m.exited
	m.cmd = nil
	select {
	case err := <-ended:
		ended <- err
		t.Errorf("the person's own program was ended: %v", err)
	default:
	}
}

// TestReusedPid is case 4: a record whose pid belongs to another process by now
// is that of a guard that is gone, and nothing is signalled.
func TestReusedPid(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	var all []wire.Mission
	for i := range 2 {
		mi := v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), "demo:slow 100000"))
		entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
		all = append(all, mi)
	}
	m.signal(syscall.SIGKILL)
	var others []*exec.Cmd
	for i, mi := range all {
		g := m.guardOf(mi.Attempt)
		for _, pid := range []int{g.Keeper.PID, g.PID} {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		other := exec.Command("sleep", "4247")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, other)
		defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
		old := fmt.Sprintf(`"pid":%d,`, g.PID)
		file := filepath.Join(m.state, "attempts", mi.Attempt, "guard.json")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), old, fmt.Sprintf(`"pid":%d,`, other.Process.Pid))
		text = strings.ReplaceAll(text, fmt.Sprintf(`"pid":%d,`, g.Keeper.PID), fmt.Sprintf(`"pid":%d,`, other.Process.Pid))
		if i == 1 { // its start is right, but it is from before a reboot
			text = strings.ReplaceAll(text, g.BootID, strings.Repeat("0", len(g.BootID)))
		}
		if text == string(b) {
			t.Fatalf("the record could not be changed: %s", b)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.gone(func(p string) bool { return strings.Contains(p, "sleep 4247") })
	m.start()
	v.wait("the new generation", func() bool { return v.service.Generation == 2 })
	for i, mi := range all {
		got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
		if got.Recovery != "approval_required" || len(got.Left) > 0 {
			t.Errorf("mission %d: %s, %s, left %v", i, got.Recovery, got.BlockedBy, got.Left)
		}
		do[wire.MissionResult](v, wire.MethodMissionCancel, wire.MissionParams{ID: mi.ID})
		if !alive(others[i].Process.Pid) {
			t.Errorf("the process that has the pid of mission %d was ended", i)
		}
	}
}

// TestTerminalCloses is case 5: the terminal that started the service and the
// mission hangs up, and the worker goes on.
func TestTerminalCloses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	repo := m.repo("repo")
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	// Where these tests were started with nohup, what they start hears no hang-up
	// either, unless they do.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	// A shell that leads a session, as a login does; with its end everything in
	// the session is hung up.
	shell := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`"%s" service start && "%s" start --provider acp:demo --folder "$REPO" --scope "demo:slow 100000" --propose --json; kill -HUP 0`, m.reeve, m.reeve))
	shell.Env, shell.Dir = append(append([]string{}, m.env...), "REPO="+repo), m.dir
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, _ := shell.Output()
	if shell.ProcessState.Success() {
		t.Fatalf("the session was not hung up:\n%s", out)
	}
	defer m.run("service", "stop", "--workers")
	v := m.watch()
	var id string
	v.wait("the proposal", func() bool {
		for id = range v.missions {
			return len(v.approvals) == 1
		}
		return false
	})
	v.answer(v.pending(id, string(approval.MissionStart)), wire.AnswerParams{Allow: true})
	mi := v.phase(id, "working")
	v.f.Watch(wire.TopicSession + mi.Session)
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	g := m.guardOf(do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: id}).Mission.Attempt)
	// The worker shares a session with nobody who could hang up.
	for _, pid := range []int{g.PID, g.Keeper.PID} {
		if sid, err := getsid(pid); err != nil || sid == shell.ProcessState.Pid() {
			t.Errorf("process %d is in session %d: %v", pid, sid, err)
		}
	}
}

func getsid(pid int) (int, error) {
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sid), nil
}

// TestUpdateInATurn is case 10: the program is replaced and the service
// restarted in the middle of a turn, which goes on in its guard.
func TestUpdateInATurn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := plain(); err != nil {
		t.Fatal(err)
	}
	m.reeve = filepath.Join(m.dir, "reeve")
	m.install(filepath.Join(bin, "reeve"), m.reeve)
	m.start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:wait\ndemo:slow 60"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	m.signal(syscall.SIGTERM)
	m.install(filepath.Join(bin, "plain", "reeve"), m.reeve)
	m.start()
	v.wait("the new generation", func() bool { return v.service.Generation == 2 })
	got := v.turned(mi.ID, 1, "waiting", "blocked", "stopped")
	if got.Phase != "waiting" || got.Turn != 1 || got.Turns[0].Outcome != "succeeded" {
		t.Errorf("the turn: %+v", got)
	}
	do[wire.MissionResult](v, wire.MethodMissionSteer, wire.SteerParams{ID: mi.ID, Text: "Go on."})
	v.wait("a turn after the update", func() bool { x := v.missions[mi.ID]; return len(x.Turns) == 2 })
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
	gapless(t, v.log(mi))
}
