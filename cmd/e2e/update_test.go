package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// later makes a program of a later Reeve, whose service speaks no guard protocol
// that the guards of this one do.
var later = fmt.Sprint("REEVE_TEST_OLDEST_GUARD=", tooNew)

const tooNew = wire.GuardProtocol + 1

// restart runs `reeve service restart`. The service that it starts is ended
// with the test.
func (m *machine) restart(env []string, args ...string) result {
	m.t.Helper()
	r := m.runIn(m.dir, env, append([]string{"service", "restart"}, args...)...)
	if r.code != 0 {
		m.t.Fatalf("reeve service restart: exit %d\n%s%s", r.code, r.out, r.err)
	}
	if m.cmd != nil {
		<-m.exited
		m.cmd = nil
		m.t.Cleanup(func() {
			if r := m.run("service", "stop", "--workers"); r.code != 0 {
				m.t.Errorf("reeve service stop --workers: exit %d\n%s%s", r.code, r.out, r.err)
			}
			m.gone(func(string) bool { return false })
		})
	}
	return r
}

func (v *view) generation(n uint64) {
	v.m.t.Helper()
	v.wait("the next generation", func() bool { return v.service.Generation == n && v.f.Client() != nil })
}

// TestUpdateGoesOn is case 10 again, by the command: a turn and what waits in it
// go on in their guard, and nothing is lost.
func TestUpdateGoesOn(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	mi := v.begin(m.demoTerms(repo, "demo:command touch made.txt"))
	ask, _ := v.asked(mi.ID, "touch made.txt")
	other := v.begin(m.demoTerms(m.repo("other"), "demo:wait\ndemo:slow 100000"))
	entry(v, other, wire.KindText, func(wire.Text) bool { return true })
	r := m.restart(nil)
	if !strings.Contains(r.out, "Prepared: 2 workers go on.") || !strings.Contains(r.out, "generation 2") {
		t.Errorf("it says:\n%s", r.out)
	}
	v.generation(2)
	if _, err := os.Stat(filepath.Join(m.state, "update.json")); !os.IsNotExist(err) {
		t.Errorf("the manifest: %v", err)
	}
	v.answer(ask, wire.AnswerParams{Allow: true})
	entry(v, mi, wire.KindToolFinished, func(f wire.ToolFinished) bool { return f.Status == "ok" })
	v.phase(mi.ID, "completed")
	got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: other.ID}).Mission
	if got.Phase != "working" || got.Attempt != other.Attempt || len(got.Turns) != 1 {
		t.Errorf("the other worker: %+v", got)
	}
	gapless(t, v.log(other))
	closing := false
	v.mu.Lock()
	for _, p := range v.states {
		closing = closing || p == client.Closing
	}
	v.mu.Unlock()
	if !closing {
		t.Error("clients were not told")
	}
}

// TestUpdateDrains: a worker that is too old for the next service is ended, and
// its mission goes on there by itself, to its old deadline.
func TestUpdateDrains(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo := m.repo("repo")
	cut := v.begin(m.demoTerms(repo, "demo:command touch made.txt"))
	ask, _ := v.asked(cut.ID, "touch made.txt")
	first := v.begin(m.demoTerms(m.repo("first"), "demo:slow 40\ndemo:turns 9"))
	entry(v, first, wire.KindText, func(wire.Text) bool { return true })
	cut = do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: cut.ID}).Mission
	r := m.restart([]string{later}, "--json")
	var said struct {
		Update  wire.PrepareUpdateResult `json:"update"`
		Service wire.Service             `json:"service"`
	}
	if err := json.Unmarshal([]byte(r.out), &said); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if u := said.Update; u.Interrupted != 1 || u.Finished+u.Idle != 1 || u.GoOn != 0 || len(u.Left) > 0 || said.Service.Generation != 2 {
		t.Errorf("%s", r.out)
	}
	if notes := strings.Join(said.Service.Notes, "\n"); strings.Count(notes, "goes on after the update") != 2 {
		t.Errorf("%s", notes)
	}
	v.generation(2)
	v.wait("what waited to be withdrawn", func() bool { return v.approvals[ask.ID].State == "withdrawn" })
	second := entry(v, cut, wire.KindTurnStarted, func(s wire.TurnStarted) bool { return s.Number == 2 })
	if !strings.Contains(second.Prompt, "may have finished work") || !strings.Contains(strings.ToLower(second.Prompt), "inspect") {
		t.Errorf("the prompt after the update: %s", second.Prompt)
	}
	next, _ := v.asked(cut.ID, "touch made.txt")
	v.answer(next, wire.AnswerParams{Allow: true})
	entry(v, cut, wire.KindToolFinished, func(f wire.ToolFinished) bool { return f.Status == "ok" })
	now := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: cut.ID}).Mission
	if now.Attempt == cut.Attempt || !now.DeadlineAt.Equal(*cut.DeadlineAt) {
		t.Errorf("attempt %s, deadline %v was %v", now.Attempt, now.DeadlineAt, cut.DeadlineAt)
	}
	for _, a := range do[wire.ApprovalListResult](v, wire.MethodApprovalList, wire.ApprovalListParams{All: true}).Approvals {
		if a.Kind == "mission_recover" {
			t.Errorf("somebody was asked: %+v", a)
		}
	}
	v.wait("a turn of the other mission", func() bool {
		x := v.missions[first.ID]
		return x.Attempt != first.Attempt && len(x.Turns) > 1
	})
}

// TestUpdateIsOwned: one update at a time, which belongs to the connection that
// began it; nothing begins meanwhile, and what ends something works. It is
// undone whole when its owner cancels it, goes away, or takes too long.
func TestUpdateIsOwned(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:command touch made.txt"))
	v.asked(mi.ID, "touch made.txt")
	for i, end := range []func(owner *client.Client){
		func(owner *client.Client) {
			r, err := client.Do[wire.UpdateResult](t.Context(), owner, wire.MethodServiceCancelUpdate, nil)
			if err != nil || r.State != "cancelled" || len(r.Resumed) != 1 {
				t.Errorf("cancel: %+v, %v", r, err)
			}
		},
		func(owner *client.Client) { owner.Close() },
		func(*client.Client) { m.setClock(90 * time.Second) },
	} {
		before := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
		owner := m.dial()
		r, err := client.Do[wire.PrepareUpdateResult](t.Context(), owner, wire.MethodServicePrepareUpdate, wire.PrepareUpdateParams{OldestGuard: tooNew})
		if err != nil || r.Interrupted != 1 {
			t.Fatalf("prepare %d: %+v, %v", i, r, err)
		}
		if _, err := os.Stat(filepath.Join(m.state, "update.json")); err != nil {
			t.Error(err)
		}
		v.wait("the update to be seen", func() bool { return v.service.State == "updating" })
		for method, params := range map[string]any{
			wire.MethodServicePrepareUpdate: wire.PrepareUpdateParams{}, wire.MethodServiceCommitUpdate: nil, wire.MethodServiceCancelUpdate: nil,
			wire.MethodMissionStart: m.demoTerms(m.dir, "x"), wire.MethodMissionSteer: wire.SteerParams{ID: mi.ID, Text: "x"},
			wire.MethodMissionResume: wire.MissionParams{ID: mi.ID}, wire.MethodMissionRecover: wire.RecoverParams{ID: mi.ID, Ref: "x"},
		} {
			if _, err := try[json.RawMessage](v, method, params); wire.CodeOf(err) != wire.CodeUpdateInProgress {
				t.Errorf("%s: %v", method, err)
			}
		}
		end(owner)
		v.wait("the update to be undone", func() bool {
			x := v.missions[mi.ID]
			return v.service.State == "running" && x.Attempt != before.Attempt && len(x.Turns) > len(before.Turns)
		})
		if _, err := os.Stat(filepath.Join(m.state, "update.json")); !os.IsNotExist(err) {
			t.Errorf("the manifest is left: %v", err)
		}
		v.asked(mi.ID, "touch made.txt")
		if do[wire.Service](v, wire.MethodServiceStatus, nil).Generation != 1 {
			t.Fatal("the service ended")
		}
	}
	owner := m.dial()
	if r, err := client.Do[wire.PrepareUpdateResult](t.Context(), owner, wire.MethodServicePrepareUpdate, nil); err != nil || r.GoOn != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	ask, _ := v.asked(mi.ID, "touch made.txt")
	v.answer(ask, wire.AnswerParams{})
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
	if r, err := client.Do[wire.UpdateResult](t.Context(), owner, wire.MethodServiceCancelUpdate, nil); err != nil || r.State != "cancelled" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestUpdateManifestOnce: a service that is killed between manifest and end
// leaves what the update ended to the next one, which goes on with that and
// with nothing else, and only the next one: not the same manifest found again.
func TestUpdateManifestOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:command touch made.txt"))
	v.asked(mi.ID, "touch made.txt")
	r, err := client.Do[wire.PrepareUpdateResult](t.Context(), m.dial(), wire.MethodServicePrepareUpdate, wire.PrepareUpdateParams{OldestGuard: tooNew})
	if err != nil || r.Interrupted != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	manifest := filepath.Join(m.state, "update.json")
	kept, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	m.signal(syscall.SIGKILL)
	db, err := os.ReadFile(filepath.Join(m.state, "reeve.db"))
	if err != nil {
		t.Fatal(err)
	}
	// A service that finds no manifest changes nothing about the mission, so
	// what is written there would still fit.
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	m.start()
	v.generation(2)
	v.wait("the loss", func() bool { return v.missions[mi.ID].Recovery == "approval_required" })
	m.signal(syscall.SIGTERM)
	for name, text := range map[string][]byte{
		"of an earlier service": kept, "damaged": kept[:len(kept)/2],
		"of a later format": []byte(strings.Replace(string(kept), `"format": 1`, `"format": 2`, 1)),
	} {
		if err := os.WriteFile(manifest, text, 0o600); err != nil {
			t.Fatal(err)
		}
		m.start()
		v.wait("the next service", func() bool { return v.f.Client() != nil && v.service.PID == m.cmd.Process.Pid })
		status := do[wire.Service](v, wire.MethodServiceStatus, nil)
		if !strings.Contains(strings.Join(status.Notes, "\n"), "resumes nothing") {
			t.Errorf("%s: %v", name, status.Notes)
		}
		got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission
		if got.Recovery != "approval_required" || got.Attempt != mi.Attempt {
			t.Errorf("%s: %s in %s", name, got.Recovery, got.Attempt)
		}
		if _, err := os.Stat(manifest); !os.IsNotExist(err) {
			t.Errorf("%s: it is left: %v", name, err)
		}
		m.signal(syscall.SIGTERM)
	}
	// As it was after the kill.
	if err := os.WriteFile(filepath.Join(m.state, "reeve.db"), db, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	m.start()
	v.wait("the mission to go on", func() bool { x := v.missions[mi.ID]; return x.Attempt != mi.Attempt && len(x.Turns) > 1 })
	v.asked(mi.ID, "touch made.txt")
}
