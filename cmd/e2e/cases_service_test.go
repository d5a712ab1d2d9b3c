package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestReadopt64: a service with as many live workers as it may have is killed (with a
// quarter of them unless REEVE_TEST_CRASH is all).
// The next one adopts them all, interrupts and loses nothing, and says so of
// each.
func TestReadopt64(t *testing.T) {
	live := 16 // beside all other tests
	if os.Getenv("REEVE_TEST_CRASH") == "all" {
		live = 64
	}
	m := newMachine(t)
	if err := plain(); err != nil {
		t.Fatal(err)
	}
	m.reeve = filepath.Join(bin, "plain", "reeve") // 128 programs with a race detector need too much memory
	m.start()
	v := m.watch()
	all := make([]wire.Mission, live)
	asked := map[int]wire.Approval{}
	for i := range all {
		scope := []string{"demo:wait\ndemo:burst 200", "demo:slow 100000", "demo:command touch made.txt", "demo:wait\ndemo:turns 1"}[i%4]
		all[i] = v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), scope))
	}
	for i, mi := range all {
		switch i % 4 {
		case 1:
			entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
		case 2:
			asked[i], _ = v.asked(mi.ID, "touch made.txt")
		default:
			v.phase(mi.ID, "waiting")
			v.wait("its first turn", func() bool { return v.missions[mi.ID].Turn == 1 })
		}
	}
	m.signal(syscall.SIGKILL)
	m.start()
	v.wait("the new generation", func() bool { return v.service.Generation == 2 && v.f.Client() != nil })
	status := do[wire.Service](v, wire.MethodServiceStatus, nil)
	if n := strings.Count(strings.Join(status.Notes, "\n"), "was adopted"); n != live {
		t.Errorf("the status tells of %d adopted guards: %v", n, status.Notes)
	}
	if n := strings.Count(m.logs.text(), "was adopted"); n != live {
		t.Errorf("%d lines of the log tell of adopted guards", n)
	}
	for i, mi := range all {
		got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
		if got.Recovery != "supervisor_present" || got.Generation != 2 || len(got.Turns) != 1 {
			t.Errorf("mission %d: %s in generation %d with %d turns, %s", i, got.Recovery, got.Generation, len(got.Turns), got.BlockedBy)
		}
	}
	for i, mi := range all {
		switch i % 4 {
		case 0: // a second turn, which steering ends
			do[wire.MissionResult](v, wire.MethodMissionSteer, wire.SteerParams{ID: mi.ID, Text: "Come to an end."})
		case 1:
			n := len(v.log(mi))
			v.wait("more of a turn that goes on", func() bool { return len(v.entries[wire.TopicSession+mi.Session]) > n })
		case 2:
			v.answer(asked[i], wire.AnswerParams{Allow: true})
		}
	}
	for i, mi := range all {
		if i%4 == 0 || i%4 == 2 {
			v.phase(mi.ID, "completed")
		}
		if i%4 == 2 {
			if _, err := os.Stat(filepath.Join(mi.Folder, "made.txt")); err != nil {
				t.Errorf("mission %d: %v", i, err)
			}
		}
	}
	if r := must[wire.ServiceStopResult](m, "service", "stop", "--workers"); r.Stopped != live/2 || len(r.Left) > 0 {
		t.Errorf("stopped: %+v", r)
	}
	<-m.exited
	m.cmd = nil
	for _, mi := range all {
		gapless(t, v.log(mi))
	}
}

// TestServicesAtOnce is cases 7 and 12: behind a killed service, four start at
// once. One binds, and adopts the worker; each other says who owns the state,
// ends with its own code, and touches nothing.
func TestServicesAtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	m.signal(syscall.SIGKILL) // its socket is left
	if _, err := os.Lstat(m.socket()); err != nil {
		t.Fatal(err)
	}
	type end struct {
		code int
		text string
	}
	ends := make(chan end, 3)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 3 {
		cmd := exec.Command(m.reeve, "service", "run")
		cmd.Env, cmd.Dir = m.env, m.dir
		wg.Go(func() {
			out, _ := cmd.CombinedOutput()
			ends <- end{cmd.ProcessState.ExitCode(), string(out)}
		})
	}
	mine := m.tryStart()
	if !mine {
		// The one that binds has to end, or nobody would come to the end of waiting
		// for it.
		defer func() {
			if r := m.run("service", "stop", "--workers"); r.code != 0 {
				t.Errorf("stop: exit %d %s", r.code, r.err)
			}
		}()
		<-m.exited
		ends <- end{m.cmd.ProcessState.ExitCode(), m.logs.text()}
	}
	v.wait("the new generation", func() bool { return v.service.Generation == 2 && v.f.Client() != nil })
	owner := do[wire.Service](v, wire.MethodServiceStatus, nil)
	for range 3 {
		if e := <-ends; e.code != 7 || !strings.Contains(e.text, "already runs") {
			t.Errorf("another: exit %d\n%s", e.code, e.text)
		}
	}
	got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
	if got.Recovery != "supervisor_present" || got.Phase != "working" {
		t.Errorf("the mission: %s %s", got.Phase, got.BlockedBy)
	}
	if r := m.run("service", "run"); r.code != 7 || !strings.Contains(r.err, fmt.Sprint(owner.PID)) {
		t.Errorf("one more: exit %d %s", r.code, r.err)
	}
}

// TestBusyOwnerKeepsItsState is the rest of case 12: a service that does not
// answer, because it stands still, keeps its socket.
func TestBusyOwnerKeepsItsState(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	before, err := os.Lstat(m.socket())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r := m.run("service", "run")
	if err := m.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r.code != 7 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if after, err := os.Lstat(m.socket()); err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket was replaced: %v", err)
	}
	if r := m.run("service", "status"); r.code != 0 {
		t.Errorf("the owner: exit %d %s", r.code, r.err)
	}
}

// TestNoSocketNoFolder is cases 12 and 13: what lies in the way is refused by
// name, and nothing of it is removed.
func TestNoSocketNoFolder(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	socket := m.socket()
	m.signal(syscall.SIGTERM)
	if err := os.WriteFile(socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := m.run("service", "run"); r.code == 0 || !strings.Contains(r.err, socket) {
		t.Errorf("a file in the place of the socket: exit %d %s", r.code, r.err)
	}
	if b, err := os.ReadFile(socket); err != nil || string(b) != "mine" {
		t.Errorf("the file: %q %v", b, err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(socket)
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if r := m.run("service", "run"); r.code == 0 || !strings.Contains(r.err, dir) || !strings.Contains(r.err, "chmod") {
		t.Errorf("a folder that others can write: exit %d %s", r.code, r.err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m.start()
	st, err := os.Lstat(socket)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", st.Mode(), err)
	}
}

// TestFenced is case 8: a service whose database was replaced changes nothing
// any more and says why, in every answer and in its status, but obeys stop; its
// workers go on.
func TestFenced(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	g := m.guardOf(mi.Attempt)
	file := filepath.Join(m.state, "reeve.db")
	if err := os.Rename(file, file+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, call := range []func() error{
		func() error {
			_, err := try[wire.MissionResult](v, wire.MethodMissionSteer, wire.SteerParams{ID: mi.ID, Text: "Do more."})
			return err
		},
		func() error {
			_, err := try[wire.MissionResult](v, wire.MethodMissionPause, wire.MissionParams{ID: mi.ID})
			return err
		},
	} {
		if err := call(); wire.CodeOf(err) != wire.CodeUnavailable || !strings.Contains(err.Error(), "was replaced by another file") {
			t.Errorf("a mutation without the database: %v", err)
		}
	}
	v.wait("the fence to be shown", func() bool { return v.service.State == "fenced" && len(v.service.Notes) == 1 })
	if r := m.run("service", "status"); r.code != 0 || !strings.Contains(r.out, "fenced") || !strings.Contains(r.out, "replaced") {
		t.Errorf("service status: %d %s %s", r.code, r.out, r.err)
	}
	if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission; got.Phase != "working" {
		t.Errorf("it can't be read: %+v", got)
	}
	if r := m.run("service", "stop"); r.code != 0 {
		t.Errorf("service stop: %d %s", r.code, r.err)
	}
	select {
	case <-m.exited:
	case <-time.After(waitLimit):
		t.Fatal("the fenced service doesn't obey")
	}
	m.cmd = nil
	if !alive(g.PID) {
		t.Error("the guard ended with it")
	}
	if err := os.Rename(file+".old", file); err != nil {
		t.Fatal(err)
	}
	m.start()
	v.wait("the next generation", func() bool { return v.service.Generation == 2 && v.f.Client() != nil })
	if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission; got.Recovery != "supervisor_present" || len(got.Steering) != 0 {
		t.Errorf("afterwards: %s %s, steering %v", got.Phase, got.Recovery, got.Steering)
	}
}

// TestUninstallKeepsWhatWorkersNeed: a worker outlived a service that can't be
// started any more. The state tells how to end it, so that is not removed below
// it, and leaving it is no success.
func TestUninstallKeepsWhatWorkersNeed(t *testing.T) {
	m := newMachine(t)
	m.start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:wait"))
	v.phase(mi.ID, "waiting")
	m.signal(syscall.SIGKILL)
	journal := filepath.Join(m.state, "reeve.db")
	sound, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := m.run("service", "uninstall", "--purge", "--yes", "--json"); r.code != 4 || !strings.Contains(r.err, "outlived the service") {
		t.Errorf("the state below a worker: exit %d %s%s", r.code, r.out, r.err)
	}
	if r := m.run("service", "uninstall", "--json"); r.code != 1 || !strings.Contains(r.out, `"outlived":["`) {
		t.Errorf("a worker that goes on: exit %d %s%s", r.code, r.out, r.err)
	}
	// The journal is mended: the worker is adopted, and ended with its state.
	if err := os.WriteFile(journal, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := m.run("service", "uninstall", "--stop-missions", "--purge", "--yes", "--json"); r.code != 0 || !strings.Contains(r.out, `"outlived":[]`) {
		t.Errorf("everything: exit %d %s%s", r.code, r.out, r.err)
	}
	if left := m.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(m.state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state is there: %v", err)
	}
}
