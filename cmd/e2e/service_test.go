package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// demoTerms proposes a mission of the built-in agent.
func (m *machine) demoTerms(folder, scope string) wire.MissionStartParams {
	return wire.MissionStartParams{
		Provider: "acp:demo", Folder: folder, Scope: scope, Minutes: 15,
		Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": m.home, "LANG": "C.UTF-8"},
	}
}

// guardOf reads the record of a mission's guard.
func (m *machine) guardOf(attempt string) wire.GuardRecord {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.state, "attempts", attempt, "guard.json"))
	if err != nil {
		m.t.Fatal(err)
	}
	var r wire.GuardRecord
	if err := json.Unmarshal(b, &r); err != nil {
		m.t.Fatal(err)
	}
	return r
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// TestSecondService: one owns the state; the other says who, with its own exit
// code, and touches nothing.
func TestSecondService(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	r := m.run("service", "run")
	if r.code != 7 || !strings.Contains(r.err, fmt.Sprint(m.cmd.Process.Pid)) {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := m.run("service", "status"); r.code != 0 {
		t.Errorf("the first one: exit %d %s", r.code, r.err)
	}
}

// TestRestartAdopts: SIGTERM and SIGKILL end the service, not the turn; the
// next generation adopts the guard and misses nothing.
func TestRestartAdopts(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			m := newMachine(t).start()
			v := m.watch()
			repo := m.repo("repo")
			mi := v.begin(m.demoTerms(repo, "demo:slow 200"))
			entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
			g := m.guardOf(mi.Attempt)
			m.signal(sig)
			if !alive(g.PID) || !alive(g.Keeper.PID) {
				t.Fatal("the guard ended with its service")
			}
			m.start()
			v.wait("the new generation", func() bool { return v.service.Generation == 2 })
			end := v.turned(mi.ID, 1, "waiting", "completed", "stopped", "blocked")
			if end.Turns[0].Outcome != "succeeded" || end.Generation != 2 {
				t.Errorf("end: %+v", end)
			}
			if !m.logs.wait("was adopted", waitLimit) {
				t.Errorf("the start did not say what it adopted:\n%s", m.logs.text())
			}
			if r, err := try[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID}); err != nil && wire.CodeOf(err) != wire.CodeConflict {
				t.Errorf("stop: %+v %v", r, err)
			}
			gapless(t, v.log(mi))
			v.noProvider(end)
		})
	}
}

// TestRestartWhileAnApprovalWaits is case 14: it is still there after SIGKILL,
// answerable once.
func TestRestartWhileAnApprovalWaits(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	mi := v.begin(m.demoTerms(repo, "demo:command touch made.txt"))
	ask, _ := v.asked(mi.ID, "touch made.txt")
	m.signal(syscall.SIGKILL)
	m.start()
	v.wait("the new generation", func() bool { return v.service.Generation == 2 && v.f.Client() != nil })
	v.answer(ask, wire.AnswerParams{Allow: true})
	entry(v, mi, wire.KindToolFinished, func(f wire.ToolFinished) bool { return f.Status == "ok" })
	if _, err := os.Stat(filepath.Join(repo, "made.txt")); err != nil {
		t.Error(err)
	}
	_, err := try[wire.ApprovalResult](v, wire.MethodApprovalAnswer, wire.AnswerParams{ID: ask.ID, Digest: ask.Digest, Allow: true})
	if wire.CodeOf(err) != wire.CodeAlreadyAnswered {
		t.Errorf("the second answer: %v", err)
	}
	v.phase(mi.ID, "completed")
}

// TestSilentGuardIsQuarantined: a guard that may be alive but does not answer
// is neither taken over nor killed.
func TestSilentGuardIsQuarantined(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	mi := v.begin(m.demoTerms(repo, "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	g := m.guardOf(mi.Attempt)
	m.signal(syscall.SIGKILL)
	if err := syscall.Kill(g.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	m.start()
	v.wait("the new generation", func() bool { return v.service.Generation == 2 })
	got := v.phase(mi.ID, "blocked")
	if got.Recovery != "owner_uncertain" || !got.CheckoutOwned || !alive(g.PID) {
		t.Errorf("%+v", got)
	}
	if err := syscall.Kill(g.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m.signal(syscall.SIGTERM)
	m.start()
	v.wait("the next generation", func() bool { return v.service.Generation == 3 && v.missions[mi.ID].Recovery == "supervisor_present" })
}

// TestKilledGuard: the keeper ends what a killed guard leaves, and the mission
// says that it needs a person.
func TestKilledGuard(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	mi := v.begin(m.demoTerms(repo, "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	g := m.guardOf(mi.Attempt)
	if err := syscall.Kill(g.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	blocked := v.lost(mi.ID)
	if blocked.BlockedBy == "" || !blocked.CheckoutOwned || blocked.Recovery != "approval_required" || blocked.RecoveryRef == "" {
		t.Errorf("blocked: %+v", blocked)
	}
	v.noProvider(blocked)
	end := do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID}).Mission
	if end.Phase != "stopped" || end.CheckoutOwned {
		t.Errorf("end: %s owned %v", end.Phase, end.CheckoutOwned)
	}
}

// TestKilledGuardAndKeeper: where there is a cgroup, even killing both at once
// leaves nothing, and nothing of it counts as a person meanwhile.
func TestKilledGuardAndKeeper(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	fifo := filepath.Join(repo, "pipe")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	script := ("env -i PATH=\"$PATH\" setsid sh -c '(echo $$ >pipe; sleep 4245) &' &\nsleep 4246\n")
	if err := os.WriteFile(filepath.Join(repo, "escape.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	mi := v.begin(m.demoTerms(repo, "demo:command sh escape.sh"))
	ask, _ := v.asked(mi.ID, "escape.sh")
	v.answer(ask, wire.AnswerParams{Allow: true})
	m.told(fifo)
	g := m.guardOf(mi.Attempt)
	if g.Cgroup == "" {
		t.Log("no writable cgroup here: killing guard and keeper at once is a documented limit")
		return
	}
	for _, pid := range []int{g.PID, g.Keeper.PID} {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range []int{g.PID, g.Keeper.PID} {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	blocked := v.lost(mi.ID)
	if len(blocked.Left) > 0 {
		t.Errorf("left: %v", blocked.Left)
	}
	v.noProvider(blocked)
}

// TestStopWithWorkers ends the service and everything it ran.
func TestStopWithWorkers(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	var guards []wire.GuardRecord
	for i := range 3 {
		mi := v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), "demo:slow 100000"))
		entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
		guards = append(guards, m.guardOf(mi.Attempt))
	}
	got := must[wire.ServiceStopResult](m, "service", "stop", "--workers")
	if got.Stopped != 3 || len(got.Left) > 0 {
		t.Errorf("stopped: %+v", got)
	}
	<-m.exited
	m.cmd = nil
	for _, g := range guards {
		if alive(g.PID) || alive(g.Keeper.PID) {
			t.Errorf("guard %d still runs", g.PID)
		}
	}
}

// TestOneOfFiveStops is case 6: the others never notice.
func TestOneOfFiveStops(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	var all []wire.Mission
	for i := range 5 {
		mi := v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), "demo:slow 100000"))
		entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
		all = append(all, mi)
	}
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: all[2].ID})
	for i, mi := range all {
		got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
		if want := map[bool]string{true: "stopped", false: "working"}[i == 2]; got.Phase != want {
			t.Errorf("mission %d is %s, want %s", i, got.Phase, want)
		}
		if i != 2 {
			n := len(v.log(mi))
			v.wait("more of a mission that goes on", func() bool { return len(v.entries[wire.TopicSession+mi.Session]) > n })
		}
	}
}

// TestFolderRemoved is case 33: the checkout is deleted under a running worker,
// which is stopped and blocked with that reason.
func TestFolderRemoved(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	mi := v.begin(m.demoTerms(repo, "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	if err := os.Rename(repo, repo+" moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(repo, 0o755); err != nil { // another folder of that name
		t.Fatal(err)
	}
	blocked := v.phase(mi.ID, "blocked")
	if f := blocked.Failure; f == nil || f.Stage != "checkout_ownership" || !strings.Contains(blocked.BlockedBy, "removed or replaced") {
		t.Errorf("blocked by %q, %+v", blocked.BlockedBy, f)
	}
	v.noProvider(blocked)
	if r, err := try[wire.MissionResult](v, wire.MethodMissionResume, wire.MissionParams{ID: mi.ID}); err == nil {
		v.wait("the next turn to be refused, too", func() bool {
			x := v.missions[mi.ID]
			return x.Phase == "blocked" && len(x.Turns) == 2 && x.Turns[1].Outcome == "failed"
		})
		_ = r
	}
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
}
