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
)

// beginTerms starts a mission of the demo agent with terms of its own.
func (h *house) beginTerms(name, scope string, change func(*mission.Terms)) Record {
	h.t.Helper()
	agent, err := demoProvider()
	if err != nil {
		h.t.Fatal(err)
	}
	found := agent.Probe(context.Background(), nil)
	terms := mission.Terms{Provider: agent.Name(), Folder: h.checkout(name), Scope: scope, Minutes: 60}
	change(&terms)
	r, ask, err := h.s.Propose(within(h.t), Proposal{
		Terms: terms.Normalize(), Program: Program{Path: found.Path, Args: found.Args, Version: found.Version},
		Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": h.dir},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if strings.Contains(string(ask.Subject), `"wait_for_reset":true`) != terms.WaitForReset {
		h.t.Error("the approval does not say whether the mission may wait for a rate limit")
	}
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// limited makes the last turn one that failed for a rate limit with a reset.
func (h *house) limited(id string, reset time.Time, failures int) {
	h.t.Helper()
	err := h.s.do(within(h.t), id, func(w *worker) error {
		last := mission.FailedTurn(mission.StageExecution, mission.RateLimited)
		last.ResetAt = reset
		w.rec.Last, w.rec.LastEnded, w.rec.Failures = &last, w.s.now(), failures
		w.rec.Failure = &Failure{Stage: last.Stage, Code: last.Code, Message: last.Sentence(), Retryable: true}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// A rate limit whose end is known is waited for where that was approved: no
// turn is tried before, whatever failed earlier, and the next one runs then.
func TestRateLimitIsWaitedFor(t *testing.T) {
	h := newHouse(t)
	r := h.beginTerms("a", "demo:slow 1\ndemo:wait", func(t *mission.Terms) { t.WaitForReset = true })
	h.until(r.ID, "pause", func(r Record) bool { return r.Phase == mission.Waiting && len(r.Turns) == 1 })
	reset := h.now().Wall.Add(30 * time.Minute).Round(time.Second).UTC()
	h.limited(r.ID, reset, 3)
	h.until(r.ID, "wait for the reset", func(r Record) bool { return r.NextTurn.Sub(reset).Abs() < time.Second })
	h.clock.Add(int64(29 * time.Minute))
	if err := h.s.do(within(t), r.ID, func(w *worker) error { w.schedule(); return nil }); err != nil {
		t.Fatal(err)
	}
	if now, err := h.s.Get(r.ID); err != nil || len(now.Turns) != 1 || now.Phase != mission.Waiting {
		t.Fatalf("%d turns, %s, %v", len(now.Turns), now.Phase, err)
	}
	h.clock.Add(int64(2 * time.Minute))
	h.until(r.ID, "turn after the reset", func(r Record) bool { return len(r.Turns) == 2 })
}

// Without that term it blocks at once and says when it could go on.
func TestRateLimitBlocks(t *testing.T) {
	h := newHouse(t)
	r := h.beginTerms("a", "demo:slow 1\ndemo:wait", func(*mission.Terms) {})
	h.until(r.ID, "pause", func(r Record) bool { return r.Phase == mission.Waiting && len(r.Turns) == 1 })
	reset := h.now().Wall.Add(3 * time.Hour)
	h.limited(r.ID, reset, 1)
	r = h.phase(r.ID, mission.Blocked)
	want := mission.Limited(reset.In(time.Local))
	if len(r.Turns) != 1 || r.BlockedBy != want || r.Failure == nil || r.Failure.Code != mission.RateLimited || r.Failure.Message != want {
		t.Fatalf("%d turns, %q, %+v", len(r.Turns), r.BlockedBy, r.Failure)
	}
}

// A session that is gone is replaced by one fresh session; when that one is
// gone as well before any turn succeeded, the mission blocks. It never loops.
func TestMissingSessionIsReplacedOnce(t *testing.T) {
	h := newHouse(t)
	r := h.beginTerms("a", "demo:fail", func(*mission.Terms) {})
	ended := func(n int) Record {
		t.Helper()
		return h.until(r.ID, "end of a turn", func(r Record) bool {
			return len(r.Turns) >= n && r.Turns[n-1].Outcome != nil && r.Phase != mission.Working
		})
	}
	forget := func(r Record) {
		t.Helper()
		files, _ := filepath.Glob(filepath.Join(h.s.attemptDir(r.Attempt), "provider", "reeve-demo-*.json"))
		if len(files) == 0 {
			t.Fatal("the demo agent kept no session")
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget(ended(1))
	h.clock.Add(int64(time.Minute))
	now := ended(3) // missing, then at once afresh
	if now.Turns[1].Outcome.Code != mission.MissingSession || now.Turns[2].Outcome.Code != mission.LocalExecutionFailure {
		t.Fatalf("turns ended %q and %q", now.Turns[1].Outcome.Code, now.Turns[2].Outcome.Code)
	}
	forget(now)
	h.clock.Add(int64(time.Minute))
	now = h.phase(r.ID, mission.Blocked)
	if len(now.Turns) != 4 || now.Failure == nil || now.Failure.Code != mission.SessionRecoveryFailed || !strings.Contains(now.BlockedBy, "fresh") {
		t.Fatalf("%d turns, %q, %+v", len(now.Turns), now.BlockedBy, now.Failure)
	}
	// A person who resumes it, as it says, gets a session that opens.
	if _, err := h.s.Resume(within(t), r.ID); err != nil {
		t.Fatal(err)
	}
	if now = ended(5); now.Turns[4].Outcome.Code != mission.LocalExecutionFailure || !now.Turns[4].Heard {
		t.Errorf("after a resume the turn ended %q, heard: %v", now.Turns[4].Outcome.Code, now.Turns[4].Heard)
	}
}

// A used-up budget ends a mission as its deadline does.
func TestBudgetEnds(t *testing.T) {
	h := newHouse(t)
	r := h.beginTerms("a", "demo:turns 5", func(t *mission.Terms) { t.Budget.Turns = 2 })
	r = h.phase(r.ID, mission.Stopped)
	if r.EndReason != mission.EndBudget || len(r.Turns) != 2 || h.owned(r.Terms.Folder) != "" {
		t.Fatalf("%s after %d turns, the checkout is %q's", r.EndReason, len(r.Turns), h.owned(r.Terms.Folder))
	}
}
