package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestMemoryLimit is case 11: an agent eats memory, its own limit ends it, and
// the mission says so. The service and the mission beside it live on.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	other := v.begin(m.demoTerms(m.repo("other"), "demo:slow 100000"))
	entry(v, other, wire.KindText, func(wire.Text) bool { return true })
	if other.Limits.MemoryMB == 0 {
		t.Error("a mission that was proposed without a memory limit has none")
	}

	terms := m.demoTerms(m.repo("repo"), "demo:eat-memory 1024")
	terms.Limits = wire.Limits{MemoryMB: 256, CPUMinutes: 30}
	r := do[wire.MissionStartResult](v, wire.MethodMissionStart, terms)
	var shown approval.Subject
	if err := json.Unmarshal(r.Approval.Subject, &shown); err != nil || shown.Mission.Limits != (approval.Limits{MemoryMB: 256, CPUMinutes: 30}) {
		t.Errorf("the person is shown %+v, %v", shown.Mission, err)
	}
	v.answer(r.Approval, wire.AnswerParams{Allow: true})
	ask, _ := v.asked(r.Mission.ID, "Hold 1024 MiB of memory")
	v.answer(ask, wire.AnswerParams{Allow: true})

	mi := v.phase(r.Mission.ID, "blocked")
	if !strings.Contains(mi.BlockedBy, "256 MiB") || mi.Failure == nil || mi.Failure.Code != "local_execution_failure" || mi.Failure.Retryable {
		t.Errorf("blocked by %q, %+v", mi.BlockedBy, mi.Failure)
	}
	if u := mi.Resources; u == nil || u.PeakBytes < 200<<20 || u.Processes != 0 || u.CPUSeconds <= 0 || u.LimitBy == "" || u.Method == "" {
		t.Errorf("used: %+v", mi.Resources)
	}
	if out := m.run("show", mi.ID).out; !strings.Contains(out, "at most 256 MiB of memory, 30 min of processor time") || !strings.Contains(out, "of 256 MiB") {
		t.Errorf("reeve show:\n%s", out)
	}
	v.wait("what the other mission uses", func() bool { return v.missions[other.ID].Resources != nil })
	now := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: other.ID}).Mission
	if now.Phase != "working" || now.Turn != 1 || now.Failure != nil || now.Resources == nil {
		t.Errorf("the other mission: %s, turn %d, %+v, %+v", now.Phase, now.Turn, now.Failure, now.Resources)
	}
	// It isn't tried again by itself, and a person can end it.
	end := do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID}).Mission
	if end.Phase != "stopped" || end.Turn != 1 || len(end.Left) > 0 {
		t.Errorf("stopped: %s, turn %d, left %v", end.Phase, end.Turn, end.Left)
	}
}
