//go:build unix

package supervisor

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// A guard that may be alive keeps the checkout: a stop says so instead of
// giving the checkout away, and the mission ends once the guard has.
func TestStopOfAnUncertainGuardKeepsTheCheckout(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	g := h.guardOf(r)
	h.s.Close() // the service ends, the guard goes on
	h.signal(g, syscall.SIGSTOP)
	t.Cleanup(func() { h.signal(g, syscall.SIGCONT) })
	h.reopen()
	r = h.phase(r.ID, mission.Blocked)
	if r.Guard != mission.GuardUncertain {
		t.Fatalf("the guard is %q", r.Guard)
	}
	r, err := h.s.Stop(within(t), r.ID)
	if err != nil || r.Phase != mission.Blocked || len(r.Left) == 0 {
		t.Fatalf("stopped to %s with %v left, %v", r.Phase, r.Left, err)
	}
	if owner := h.owned(r.Terms.Folder); owner != r.ID {
		t.Fatalf("the checkout belongs to %q while the guard lives", owner)
	}
	if proc.ID(g.Process).State() == proc.Gone {
		t.Fatal("the guard was killed on suspicion")
	}
	// The person ends it by hand; nobody has to tell the service.
	h.signal(g, syscall.SIGKILL)
	r = h.phase(r.ID, mission.Stopped)
	if r.EndReason != mission.EndPerson || h.owned(r.Terms.Folder) != "" {
		t.Errorf("ended by %s; the checkout belongs to %q", r.EndReason, h.owned(r.Terms.Folder))
	}
}

// A mission that was quarantined for a while goes on where it was: nobody has
// to resume it.
func TestQuarantineIsTakenBack(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	h.s.Close()
	g := h.guardOf(r)
	h.signal(g, syscall.SIGSTOP)
	h.reopen()
	h.phase(r.ID, mission.Blocked)
	h.s.Close()
	h.signal(g, syscall.SIGCONT)
	h.reopen()
	r = h.phase(r.ID, mission.Working)
	if len(r.Turns) != 1 || r.BlockedBy != "" || r.Guard != mission.GuardAnswers {
		t.Errorf("%d turns, %q, guard %s", len(r.Turns), r.BlockedBy, r.Guard)
	}
}

// A service that is told to end while it adopts decides nothing.
func TestEndInsideAdoptionDecidesNothing(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	g := h.guardOf(r)
	h.s.Close()
	h.signal(g, syscall.SIGSTOP) // so that the adoption is still under way
	t.Cleanup(func() { h.signal(g, syscall.SIGCONT) })
	h.renew()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	notes, err := h.s.Adopt(ctx)
	if err != nil || len(notes) != 1 {
		t.Fatalf("%q, %v", notes, err)
	}
	now, err := h.s.Get(r.ID)
	if err != nil || now.Phase != mission.Working {
		t.Errorf("the mission is %s (%s), %v", now.Phase, now.BlockedBy, err)
	}
	h.s.Close()
	h.signal(g, syscall.SIGCONT)
	h.reopen()
	h.phase(r.ID, mission.Working)
}

// Commands that come while a lost guard is looked for neither crash nor give
// the checkout away early.
func TestCommandsWhileAGuardIsLost(t *testing.T) {
	for name, command := range map[string]func(h *house, id string) error{
		"pause": func(h *house, id string) error { _, err := h.s.Pause(within(h.t), id); return err },
		"stop":  func(h *house, id string) error { _, err := h.s.Stop(within(h.t), id); return err },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.allow.Store(true)
			r := h.begin("a", "demo:slow 100000")
			w := h.s.lookup(r.ID)
			// Its connection ends, and its process is still there.
			var conn interface{ Close() error }
			if err := w.do(within(t), func(w *worker) error { conn = w.guard; w.lost(w.guard); return nil }); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			err := command(h, r.ID)
			now, _ := h.s.Get(r.ID)
			switch name {
			case "pause":
				if wire.CodeOf(err) != wire.CodeConflict {
					t.Errorf("pause: %v", err)
				}
			case "stop":
				if err != nil || now.Phase != mission.Blocked || len(now.Left) == 0 {
					t.Errorf("stop: %s, left %v, %v", now.Phase, now.Left, err)
				}
			}
			if owner := h.owned(r.Terms.Folder); owner != r.ID {
				t.Errorf("the checkout belongs to %q", owner)
			}
			h.signal(h.guardOf(r), syscall.SIGKILL)
			if name == "stop" {
				h.phase(r.ID, mission.Stopped)
				return
			}
			h.lost(r.ID)
		})
	}
}

// A guard that stands still can't be stopped; the person is told which process
// it is, and what waits is not given away.
func TestStopOfAGuardThatStandsStill(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	g := h.guardOf(r)
	h.signal(g, syscall.SIGSTOP)
	t.Cleanup(func() { h.signal(g, syscall.SIGCONT) })
	r, err := h.s.Stop(within(t), r.ID)
	if err != nil || r.Phase != mission.Blocked || len(r.Left) != 1 || !strings.Contains(r.Left[0], "does not answer") {
		t.Fatalf("%s, left %q, %v", r.Phase, r.Left, err)
	}
	h.signal(g, syscall.SIGCONT)
	h.phase(r.ID, mission.Stopped)
}

// A recovery may open a fresh session for the one that was lost with the guard,
// and so may the next, though no turn ended between them.
func TestRecoveredTwice(t *testing.T) {
	h := newHouse(t)
	_, ask := h.propose("a", "demo:slow 100000")
	var r Record
	for range 3 { // the start, and two recoveries
		if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
			t.Fatal(err)
		}
		before := r.Attempt
		r = h.until(ask.Mission, "turn in an open session", func(r Record) bool {
			if r.Phase == mission.Blocked && r.Failure != nil {
				t.Fatalf("it is blocked: %+v", r.Failure)
			}
			now := r.turn()
			return r.Attempt != before && now != nil && now.Outcome == nil && now.Heard
		})
		h.signal(h.guardOf(r), syscall.SIGKILL)
		h.lost(r.ID)
		var err error
		if ask, err = h.recover(r.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// What waits for a mission without a guard expires with its deadline.
func TestRecoveryExpires(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	h.allow.Store(false)
	h.signal(h.guardOf(r), syscall.SIGKILL)
	r = h.lost(r.ID)
	_, ask, err := h.s.Recover(within(t), r.ID, r.Ref(), r.Terms, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.clock.Store(int64(20 * time.Minute))
	w := h.s.lookup(r.ID)
	if err := w.do(within(t), func(*worker) error { return nil }); err != nil { // so that it looks at the clock
		t.Fatal(err)
	}
	for {
		h.mu.Lock()
		state, changed := h.asks[ask.ID].State, h.changed
		h.mu.Unlock()
		if state == approval.Expired {
			break
		}
		select {
		case <-changed:
		case <-within(t).Done():
			t.Fatalf("the recovery is %s after the deadline", state)
		}
	}
}

// A pause that overtakes the turn on its way to the guard still interrupts it.
func TestPauseAtTheBeginOfATurn(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	for i := range 3 {
		r, ask := h.propose(string(rune('a'+i)), "demo:slow 100000")
		if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
			t.Fatal(err)
		}
		h.phase(r.ID, mission.Working) // announced before the guard was called
		r, err := h.s.Pause(within(t), r.ID)
		if err != nil || r.Phase != mission.Paused {
			t.Fatalf("%s, %v", r.Phase, err)
		}
		if _, err := h.s.Stop(within(t), r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// reopen is the next service on the same state.
func (h *house) reopen() {
	h.t.Helper()
	h.renew()
	if _, err := h.s.Adopt(within(h.t)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) renew() {
	h.t.Helper()
	if err := h.db.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	clear(h.records)
	h.mu.Unlock()
	h.open()
}

// A request that was lost with a damaged part of the log leaves no agent
// waiting: the turn is ended, and the person sees why.
func TestLostRequestIsShown(t *testing.T) {
	h := newHouse(t)
	r := h.begin("a", "demo:slow 120\ndemo:command true")
	h.until(r.ID, "session", func(r Record) bool { return r.ProviderSession != "" })
	h.s.Close() // so that the request is in the log alone
	path := h.s.LogPath(r.Attempt)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var log []byte
	at := -1
	for ctx := within(t); at < 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("nothing was asked")
		}
		var err error
		if log, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		at = bytes.Index(log, []byte(wire.KindPermissionAsked+"{"))
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("!"), int64(at+len(wire.KindPermissionAsked)+5)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	h.allow.Store(true)
	h.reopen()
	r = h.until(r.ID, "block", func(r Record) bool {
		return r.Phase == mission.Blocked && len(r.Turns) > 0 && r.Turns[0].Outcome != nil
	})
	if !strings.Contains(r.BlockedBy, "lost") || r.Turns[0].Outcome.Outcome != mission.Interrupted {
		t.Errorf("%q, the turn %s", r.BlockedBy, r.Turns[0].Outcome.Outcome)
	}
	if _, err := h.s.Resume(within(t), r.ID); err != nil {
		t.Fatal(err)
	}
	h.phase(r.ID, mission.Completed)
}
