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
	m := newMachine(t).start()
	r := m.run("service", "run")
	if r.code != 7 || !strings.Contains(r.err, fmt.Sprint(m.cmd.Process.Pid)) {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := m.run("service", "status"); r.code != 0 {
		t.Errorf("the first one: exit %d %s", r.code, r.err)
	}
}

// TestTermLeavesGuards: SIGTERM ends the service, not the turn.
func TestTermLeavesGuards(t *testing.T) {
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	mi := v.begin(m.demoTerms(repo, "demo:slow 4000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	g := m.guardOf(mi.Attempt)
	m.signal(syscall.SIGTERM)
	if !alive(g.PID) || !alive(g.Keeper.PID) {
		t.Error("the guard ended with its service")
	}
	v.f.Close()
	m.start()
	v = m.watch()
	end := v.phase(mi.ID, "stopped")
	if end.EndReason != "authority" || end.Failure == nil {
		t.Errorf("end: %+v", end)
	}
	if alive(g.PID) || alive(g.Keeper.PID) {
		t.Error("the guard of the earlier service still runs")
	}
	if !m.logs.wait("had left running", time.Second) {
		t.Errorf("the start did not say what it stopped:\n%s", m.logs.text())
	}
	v.noProvider(end)
	// The checkout is free again.
	again := v.begin(m.demoTerms(repo, "Say hello."))
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: again.ID})
}

// TestKilledGuard: the keeper ends what a killed guard leaves, and the mission
// says that it needs a person.
func TestKilledGuard(t *testing.T) {
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	mi := v.begin(m.demoTerms(repo, "demo:slow 4000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	g := m.guardOf(mi.Attempt)
	if err := syscall.Kill(g.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	blocked := v.phase(mi.ID, "blocked")
	if blocked.BlockedBy == "" || !blocked.CheckoutOwned {
		t.Errorf("blocked: %+v", blocked)
	}
	v.noProvider(blocked)
	end := do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID}).Mission
	if end.Phase != "stopped" || end.CheckoutOwned {
		t.Errorf("end: %s owned %v", end.Phase, end.CheckoutOwned)
	}
}

// TestStopWithWorkers ends the service and everything it ran.
func TestStopWithWorkers(t *testing.T) {
	m := newMachine(t).start()
	v := m.watch()
	var guards []wire.GuardRecord
	for i := range 3 {
		mi := v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), "demo:slow 4000"))
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
	m := newMachine(t).start()
	v := m.watch()
	var all []wire.Mission
	for i := range 5 {
		mi := v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), "demo:slow 4000"))
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
