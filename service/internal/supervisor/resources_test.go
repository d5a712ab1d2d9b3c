//go:build unix

package supervisor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// An agent that eats memory is ended by its own limit (case 11): its mission
// says so and needs a person, and the mission beside it never notices.
func TestMemoryLimitBlocks(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	other := h.begin("b", "demo:slow 100000")
	r := h.beginWith("a", "demo:eat-memory 1024", mission.Limits{MemoryMB: 256})
	r = h.phase(r.ID, mission.Blocked)
	if !strings.Contains(r.BlockedBy, "256 MiB") || r.Failure == nil || r.Failure.Code != mission.LocalExecutionFailure || r.Failure.Retryable || r.Failure.Message != r.BlockedBy {
		t.Fatalf("%q, %+v", r.BlockedBy, r.Failure)
	}
	if len(r.Turns) != 1 || r.Failures != 1 || r.Guard != mission.GuardAnswers {
		t.Fatalf("%d turns, %d failures, guard %s", len(r.Turns), r.Failures, r.Guard)
	}
	if use := r.Resources(); use == nil || use.PeakBytes < 200<<20 || use.CPUSeconds == 0 || use.Processes != 0 {
		t.Fatalf("%+v", use)
	}
	if now, err := h.s.Get(other.ID); err != nil || now.Phase != mission.Working || len(now.Turns) != 1 || now.Failures != 0 {
		t.Fatalf("the other mission is %s, %+v, %v", now.Phase, now.Failure, err)
	}
	// What it uses is shown while it works.
	h.until(other.ID, "figures", func(r Record) bool {
		use := r.Resources()
		return use != nil && use.MemoryBytes > 0 && use.Processes > 0
	})
	// What was used stays with the mission when the worker is lost, and counts
	// in the next attempt.
	r, _ = h.s.Get(r.ID)
	before := r.Resources()
	h.signal(h.guardOf(r), syscall.SIGKILL)
	lost := h.lost(r.ID)
	if use := lost.Resources(); use == nil || use.CPUSeconds < before.CPUSeconds || use.PeakBytes < before.PeakBytes || use.MemoryBytes != 0 {
		t.Fatalf("%+v after %+v", use, before)
	}
	_, ask, err := h.s.Recover(within(t), lost.ID, lost.Ref(), lost.Terms, nil)
	if err != nil {
		t.Fatal(err)
	}
	var subject approval.Subject
	if err := json.Unmarshal(ask.Subject, &subject); err != nil || subject.Mission.Limits.MemoryMB != 256 {
		t.Fatalf("the recovery shows %+v, %v", subject.Mission, err)
	}
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	again := h.until(r.ID, "second attempt", func(r Record) bool { return len(r.Turns) == 2 && r.Use.Now != nil })
	if again.Use.CPU < before.CPUSeconds || again.Resources().CPUSeconds < again.Use.CPU || again.Resources().PeakBytes < before.PeakBytes {
		t.Fatalf("%+v after %+v", again.Use, before)
	}
}

// Used-up processor time ends a mission as a used-up budget does.
func TestCPULimitEnds(t *testing.T) {
	h := newHouse(t)
	r := h.beginWith("a", "demo:two-turns", mission.Limits{CPUMinutes: 1})
	ask := h.waits(r.ID)
	err := h.s.do(within(t), r.ID, func(w *worker) error {
		w.measured(wire.Resources{CPUSeconds: 61})
		w.measured(wire.Resources{CPUSeconds: 5}) // late
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.allow.Store(true)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	r = h.phase(r.ID, mission.Stopped)
	if r.EndReason != mission.EndBudget || len(r.Turns) != 1 || r.Failure == nil || r.Failure.Code != mission.BudgetReached || !strings.Contains(r.Failure.Message, "processor time") {
		t.Fatalf("%s after %d turns, %+v", r.EndReason, len(r.Turns), r.Failure)
	}
}

// onlyGuards is a program that runs the guards of workers with exe, and all
// else with this program: an earlier service did not look at checkouts so.
func (h *house) onlyGuards(exe string) string {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	name := filepath.Join(h.dir, "reeve")
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' --git '*) exec '%s' \"$@\";; esac\nexec '%s' \"$@\"\n", self, exe)
	if err := os.WriteFile(name, []byte(script), 0o700); err != nil {
		h.t.Fatal(err)
	}
	return name
}

// A guard of the protocol before is adopted in the middle of a turn: its turn
// goes on, what it asks can be answered, and it takes new turns.
func TestGuardOfTheProtocolBefore(t *testing.T) {
	for name, exe := range map[string]string{"of this build": "", "of an earlier commit": os.Getenv("REEVE_EARLIER_GUARD")} {
		t.Run(name, func(t *testing.T) {
			if name != "of this build" && exe == "" {
				t.Skip("REEVE_EARLIER_GUARD names no reeve program of an earlier commit")
			}
			h := newHouse(t)
			if exe != "" {
				exe = h.onlyGuards(exe)
			}
			h.s.Close()
			h.exe, h.env = exe, []string{"TEST_PROTOCOL=1"}
			h.reopen()
			r := h.begin("a", "demo:two-turns")
			ask := h.waits(r.ID)
			if p := h.guardOf(r).Protocol; p != 1 {
				t.Fatalf("the guard speaks protocol %d", p)
			}
			h.s.Close()
			h.renew()
			notes, err := h.s.Adopt(within(t))
			if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "earlier Reeve") {
				t.Fatalf("%q, %v", notes, err)
			}
			h.allow.Store(true)
			if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
				t.Fatal(err)
			}
			end := h.phase(r.ID, mission.Completed, mission.Blocked, mission.Stopped)
			if end.Phase != mission.Completed || len(end.Turns) != 2 || end.Attempt != r.Attempt || end.Resources() != nil {
				t.Fatalf("%s %q after %d turns, %+v", end.Phase, end.BlockedBy, len(end.Turns), end.Resources())
			}
		})
	}
}
