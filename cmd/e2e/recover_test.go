package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// lose kills the guard of a mission in its first turn and returns the mission
// as it waits for a recovery.
func (v *view) lose(mi wire.Mission) wire.Mission {
	v.m.t.Helper()
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	if err := syscall.Kill(v.m.guardOf(mi.Attempt).PID, syscall.SIGKILL); err != nil {
		v.m.t.Fatal(err)
	}
	return v.lost(mi.ID)
}

// lost waits until a mission whose guard was killed can be recovered. Before that
// it may be blocked already, as one whose guard is not known to be gone.
func (v *view) lost(id string) wire.Mission {
	v.m.t.Helper()
	var m wire.Mission
	v.wait("the loss", func() bool {
		m = v.missions[id]
		return m.Phase == "blocked" && m.Recovery == "approval_required"
	})
	return m
}

func recovery(m wire.Mission) wire.RecoverParams {
	return wire.RecoverParams{ID: m.ID, Ref: m.RecoveryRef, Provider: m.Provider, Model: m.RequestedModel, Folder: m.Folder, Scope: m.Scope}
}

// TestRecover: a mission whose guard was killed goes on with a fresh approval,
// the same terms and the original deadline, and tells the agent to reconcile.
func TestRecover(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	do[wire.MissionResult](v, wire.MethodMissionSteer, wire.SteerParams{ID: mi.ID, Text: "Later."})
	lost := v.lose(mi)
	if lost.Turns[0].Outcome != "interrupted" {
		t.Errorf("the turn is %s", lost.Turns[0].Outcome)
	}
	for name, change := range map[string]func(*wire.RecoverParams){
		"another reference": func(p *wire.RecoverParams) { p.Ref += "0" },
		"another scope":     func(p *wire.RecoverParams) { p.Scope = "Do more." },
		"another provider":  func(p *wire.RecoverParams) { p.Provider = "claude" },
		"another folder":    func(p *wire.RecoverParams) { p.Folder = "/" },
		"another model":     func(p *wire.RecoverParams) { p.Model = "x" },
	} {
		p := recovery(lost)
		change(&p)
		if _, err := try[wire.MissionStartResult](v, wire.MethodMissionRecover, p); wire.CodeOf(err) != wire.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := do[wire.MissionStartResult](v, wire.MethodMissionRecover, recovery(lost))
	if r.Approval.Kind != "mission_recover" || !strings.Contains(string(r.Approval.Subject), "may have finished work") {
		t.Errorf("asked: %s %s", r.Approval.Kind, r.Approval.Subject)
	}
	v.noProvider(lost)
	again := do[wire.MissionStartResult](v, wire.MethodMissionRecover, recovery(lost))
	if again.Approval.ID != r.Approval.ID {
		t.Error("asking twice made two approvals")
	}
	v.answer(r.Approval, wire.AnswerParams{Allow: true})
	second := entry(v, mi, wire.KindTurnStarted, func(s wire.TurnStarted) bool { return s.Number == 2 })
	if !strings.Contains(second.Prompt, "Later.") || !strings.Contains(strings.ToLower(second.Prompt), "inspect") {
		t.Errorf("the first prompt after the recovery: %s", second.Prompt)
	}
	now := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
	if !now.Recovered || now.Attempt == mi.Attempt || !now.DeadlineAt.Equal(*lost.DeadlineAt) {
		t.Errorf("recovered %v, attempt %s, deadline %v was %v", now.Recovered, now.Attempt, now.DeadlineAt, lost.DeadlineAt)
	}
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
	// The transcript of both attempts can be read from its start.
	logs := map[string]bool{}
	p := wire.MessagesParams{Session: mi.ID, Limit: 1000}
	for more := true; more; {
		page := do[wire.MessagesResult](v, wire.MethodSessionMessages, p)
		for _, e := range page.Entries {
			logs[e.Log] = true
		}
		p.After, more = page.Next, page.More
	}
	if !logs[mi.Attempt] || !logs[now.Attempt] {
		t.Errorf("the transcript has %v", logs)
	}
}

// TestRecoverOnce: of two recoveries that were both allowed, one wins.
func TestRecoverOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:slow 100000"))
	lost := v.lose(mi)
	r := do[wire.MissionStartResult](v, wire.MethodMissionRecover, recovery(lost))
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := try[wire.ApprovalResult](v, wire.MethodApprovalAnswer, wire.AnswerParams{ID: r.Approval.ID, Digest: r.Approval.Digest, Allow: true})
			errs <- err
		}()
	}
	wins := 0
	for range 2 {
		if err := <-errs; err == nil {
			wins++
		} else if wire.CodeOf(err) != wire.CodeAlreadyAnswered {
			t.Errorf("the loser: %v", err)
		}
	}
	if wins != 1 {
		t.Errorf("%d recoveries won", wins)
	}
	v.phase(mi.ID, "waiting", "working")
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
	guards := m.glob(filepath.Join("attempts", "*", "guard.json"))
	if len(guards) != 2 {
		t.Errorf("guards: %v", guards)
	}
}

// TestRecoverRefuses: a changed instruction file, a passed deadline, a mission
// that runs.
func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	running := v.begin(m.demoTerms(m.repo("running"), "demo:slow 100000"))
	p := recovery(running)
	p.Ref = "x"
	if _, err := try[wire.MissionStartResult](v, wire.MethodMissionRecover, p); wire.CodeOf(err) != wire.CodeConflict {
		t.Errorf("a running one: %v", err)
	}
	if _, err := try[wire.MissionResult](v, wire.MethodMissionCancel, wire.MissionParams{ID: running.ID}); wire.CodeOf(err) != wire.CodeConflict {
		t.Errorf("cancelling a running one: %v", err)
	}
	changed := v.lose(v.begin(m.demoTerms(m.repo("changed"), "demo:slow 100000")))
	file := filepath.Join(m.state, "attempts", changed.Attempt, "instructions.md")
	if err := os.WriteFile(file, []byte("Do what you like."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := try[wire.MissionStartResult](v, wire.MethodMissionRecover, recovery(changed)); wire.CodeOf(err) != wire.CodeConflict {
		t.Errorf("a changed instruction file: %v", err)
	}
	if got := do[wire.MissionResult](v, wire.MethodMissionCancel, wire.MissionParams{ID: changed.ID}).Mission; got.CheckoutOwned || got.Phase != "stopped" {
		t.Errorf("cancelled: %s", got.Phase)
	}
	late := v.lose(v.begin(m.demoTerms(m.repo("late"), "demo:slow 100000")))
	m.setClock(16 * time.Minute)
	if _, err := try[wire.MissionStartResult](v, wire.MethodMissionRecover, recovery(late)); wire.CodeOf(err) != wire.CodeDeadlinePassed {
		t.Errorf("after the deadline: %v", err)
	}
	v.phase(running.ID, "stopped")
}

// TestDeadGuardsAreReaped is case 9 at a smaller size: live guards are adopted,
// dead ones reaped, one line each.
func TestDeadGuardsAreReaped(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	var all []wire.Mission
	for i := range 6 {
		mi := v.begin(m.demoTerms(m.repo(fmt.Sprint("repo", i)), "demo:slow 100000"))
		entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
		all = append(all, mi)
	}
	m.signal(syscall.SIGKILL)
	for _, mi := range all[:4] {
		g := m.guardOf(mi.Attempt)
		for _, pid := range []int{g.PID, g.Keeper.PID} {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	m.start()
	v.wait("the new generation", func() bool { return v.service.Generation == 2 })
	for i, mi := range all {
		want := "supervisor_present"
		if i < 4 {
			want = "approval_required"
		}
		got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
		if got.Recovery != want {
			t.Errorf("mission %d: %s (%s), want %s", i, got.Recovery, got.BlockedBy, want)
		}
	}
	if n := strings.Count(m.logs.text(), "can be recovered"); n != 4 {
		t.Errorf("%d lines tell of reaped guards", n)
	}
	if n := strings.Count(m.logs.text(), "was adopted"); n != 2 {
		t.Errorf("%d lines tell of adopted guards", n)
	}
}
