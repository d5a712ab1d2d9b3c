//go:build unix

package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// long is more time than any turn of these tests takes.
const long = 40 * time.Second

// old makes guards of the protocol before.
func (h *house) old() {
	h.s.Close()
	h.env = []string{"TEST_PROTOCOL=1"}
	h.reopen()
}

// gone proves that a guard and its keeper have ended.
func (h *house) gone(g wire.GuardRecord) {
	h.t.Helper()
	for _, id := range []proc.ID{proc.ID(g.Process), proc.ID(g.Keeper)} {
		if err := id.Wait(within(h.t)); err != nil {
			h.t.Errorf("%v: %v", id, err)
		}
	}
}

func (h *house) entry(rep UpdateReport, id string) mission.UpdateEntry {
	h.t.Helper()
	for _, e := range rep.Missions {
		if e.Mission == id {
			return e
		}
	}
	h.t.Fatalf("mission %s is not in %+v", id, rep)
	return mission.UpdateEntry{}
}

// A worker that the next service can talk to goes on; no turn begins meanwhile.
func TestUpdateLeavesTurnsAlone(t *testing.T) {
	h := newHouse(t)
	r := h.begin("a", "demo:two-turns")
	ask := h.waits(r.ID)
	rep := h.s.PrepareUpdate(t.Context(), t.Context(), 2, long)
	if e := h.entry(rep, r.ID); rep.GoOn != 1 || !e.GoesOn || e.Resume || e.Turn != 1 || e.Phase != mission.Working {
		t.Fatalf("%+v", rep)
	}
	h.allow.Store(true)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	r = h.until(r.ID, "wait for the update", func(r Record) bool { return r.Phase == mission.Waiting && !r.NextTurn.IsZero() })
	if len(r.Turns) != 1 {
		t.Fatalf("a turn began in the middle of an update: %+v", r.Turns)
	}
	h.s.Thaw()
	h.until(r.ID, "second turn", func(r Record) bool { return len(r.Turns) == 2 })
}

// A worker that the next service could not talk to finishes its turn first. The
// next service goes on with its mission in a worker of its own, unasked.
func TestUpdateDrainsOldGuards(t *testing.T) {
	h := newHouse(t)
	h.old()
	h.allow.Store(true)
	idle := h.begin("b", "demo:wait")
	h.phase(idle.ID, mission.Waiting)
	held := h.begin("c", "demo:slow 100000")
	if _, err := h.s.Pause(within(t), held.ID); err != nil {
		t.Fatal(err)
	}
	steered, err := h.s.Steer(within(t), held.ID, "Mind the gap.")
	if err != nil {
		t.Fatal(err)
	}
	busy := h.begin("a", "demo:slow 60\ndemo:turns 3")
	guards := h.guards()
	rep := h.s.PrepareUpdate(t.Context(), t.Context(), 2, long)
	if rep.Finished != 1 || rep.Idle != 2 || rep.GoOn != 0 || rep.Interrupted != 0 || len(rep.Left) != 0 {
		t.Fatalf("%+v", rep)
	}
	for _, g := range guards {
		h.gone(g)
	}
	if e := h.entry(rep, held.ID); e.Phase != mission.Paused || !e.Resume || len(e.Queued) != 1 {
		t.Errorf("%+v", e)
	}
	h.env = nil
	h.s.Close()
	h.renew()
	if _, err := h.s.Adopt(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, n := range h.s.GoOn(within(t), rep.Missions) {
		if !strings.Contains(n, "goes on") {
			t.Error(n)
		}
	}
	got := h.until(busy.ID, "second turn in a new attempt", func(r Record) bool {
		return len(r.Turns) == 2 && r.Attempt != busy.Attempt
	})
	if !got.Deadline.At.Equal(busy.Deadline.At) || got.Turns[0].Outcome.Outcome != mission.Succeeded || got.Turns[1].Reconcile {
		t.Errorf("%+v", got)
	}
	got = h.until(held.ID, "pause in a new attempt", func(r Record) bool {
		return r.Phase == mission.Paused && r.Attempt != held.Attempt
	})
	if got.Steering[0].State != steered.Steering[0].State || len(got.Turns) != 1 {
		t.Errorf("%+v", got)
	}
	h.until(idle.ID, "new attempt", func(r Record) bool { return r.Phase == mission.Waiting && r.Attempt != idle.Attempt })
	// Once is enough.
	for _, n := range h.s.GoOn(within(t), rep.Missions) {
		if strings.Contains(n, "goes on") {
			t.Error(n)
		}
	}
}

// A turn that waits for a person can't end by itself. It is interrupted, what
// waited is withdrawn, and the agent is told that its work may be half done.
func TestUpdateInterrupts(t *testing.T) {
	h := newHouse(t)
	h.old()
	r := h.begin("a", "demo:command touch made.txt")
	ask := h.waits(r.ID)
	g := h.guardOf(r)
	rep := h.s.PrepareUpdate(t.Context(), t.Context(), 2, long)
	if e := h.entry(rep, r.ID); rep.Interrupted != 1 || !e.Interrupted || !e.Resume || e.Phase != mission.Working {
		t.Fatalf("%+v", rep)
	}
	h.gone(g)
	h.mu.Lock()
	state := h.asks[ask.ID].State
	h.mu.Unlock()
	if state != approval.Withdrawn {
		t.Errorf("what waited is %s", state)
	}
	if got, err := h.s.Get(r.ID); err != nil || got.Phase != mission.Blocked || got.BlockedBy != endedForUpdate || got.Failure != nil {
		t.Errorf("%+v, %v", got, err)
	}
	// The update is undone.
	if notes := h.s.GoOn(within(t), rep.Missions); len(notes) != 1 || !strings.Contains(notes[0], "goes on") {
		t.Fatalf("%q", notes)
	}
	h.s.Thaw()
	// The agent may have lost its session with the turn; a fresh one is told
	// the same then.
	if _, err := h.answer(h.waits(r.ID), approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	got := h.until(r.ID, "end of a later turn", func(r Record) bool {
		o := r.turn().Outcome
		return len(r.Turns) > 1 && o != nil && o.Outcome == mission.Succeeded
	})
	if !got.turn().Reconcile || !got.Deadline.At.Equal(r.Deadline.At) || len(got.Earlier) != 1 {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "a", "made.txt")); err != nil {
		t.Error(err)
	}
}

// A turn that takes too long is interrupted; an update that is undone before
// that lets it go on.
func TestUpdatePatience(t *testing.T) {
	h := newHouse(t)
	h.old()
	r := h.begin("a", "demo:slow 100000")
	undo, cancel := context.WithCancel(t.Context())
	cancel()
	rep := h.s.PrepareUpdate(t.Context(), undo, 2, long)
	if got, err := h.s.Get(r.ID); err != nil || got.Phase != mission.Working || rep.Interrupted+rep.Finished+rep.Idle != 0 {
		t.Fatalf("%+v after %+v, %v", got, rep, err)
	}
	h.s.Thaw()
	rep = h.s.PrepareUpdate(t.Context(), t.Context(), 2, time.Millisecond)
	if rep.Interrupted != 1 {
		t.Fatalf("%+v", rep)
	}
	h.s.Thaw()
	h.s.GoOn(within(t), rep.Missions)
	h.until(r.ID, "second turn", func(r Record) bool { return len(r.Turns) == 2 && r.Turns[1].Reconcile })
}

// What changed since the manifest was written does not go on by itself, and
// says so; nor does what an update did not end.
func TestUpdateGoesOnOnlyAsWritten(t *testing.T) {
	h := newHouse(t)
	h.old()
	r := h.begin("a", "demo:command touch made.txt")
	h.waits(r.ID)
	rep := h.s.PrepareUpdate(t.Context(), t.Context(), 2, long)
	e := h.entry(rep, r.ID)
	for name, change := range map[string]func(e *mission.UpdateEntry){
		"attempt": func(e *mission.UpdateEntry) { e.Attempt = "a-other" },
		"turn":    func(e *mission.UpdateEntry) { e.Turn++ },
		"queue":   func(e *mission.UpdateEntry) { e.Queued = []int{1} },
		"resume":  func(e *mission.UpdateEntry) { e.Resume = false },
	} {
		other := e
		change(&other)
		h.s.GoOn(within(t), []mission.UpdateEntry{other})
		if got, err := h.s.Get(r.ID); err != nil || got.Phase != mission.Blocked || got.Attempt != r.Attempt {
			t.Errorf("%s: %s, %v", name, got.Phase, err)
		}
	}
	h.s.Thaw()
}
