//go:build unix

package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// left is a house whose service has gone while a mission works, and the guard that
// it left.
func left(t *testing.T) (*house, Record, wire.GuardRecord) {
	t.Helper()
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	h.until(r.ID, "session", func(r Record) bool { return r.ProviderSession != "" })
	g := h.guardOf(r)
	h.s.Close()
	return h, r, g
}

// uncertain is the next service for a mission whose guard lives and can't be
// talked to: it is shown, keeps the checkout and is not killed, nothing is
// recovered beside it, and a stop says so.
func (h *house) uncertain(r Record, g wire.GuardRecord) Record {
	h.t.Helper()
	h.reopen()
	r = h.phase(r.ID, mission.Blocked)
	if r.Guard != mission.GuardUncertain {
		h.t.Fatalf("the guard is %q: %s", r.Guard, r.BlockedBy)
	}
	if _, _, err := h.s.Recover(within(h.t), r.ID, r.Ref(), r.Terms, nil); wire.CodeOf(err) != wire.CodeConflict {
		h.t.Errorf("a recovery beside it: %v", err)
	}
	tree, ok := h.s.lookup(r.ID).guarded()
	if !ok || tree.Root != proc.ID(g.Keeper) {
		h.t.Errorf("its worker is known as %+v, not as what is below %+v", tree, g.Keeper)
	}
	r, err := h.s.Stop(within(h.t), r.ID)
	if err != nil || r.Phase != mission.Blocked || len(r.Left) == 0 {
		h.t.Errorf("stopped to %s with %v left, %v", r.Phase, r.Left, err)
	}
	if proc.ID(g.Process).State() != proc.Alive || h.owned(r.Terms.Folder) != r.ID {
		h.t.Errorf("the guard is %v, the checkout belongs to %q", proc.ID(g.Process).State(), h.owned(r.Terms.Folder))
	}
	return r
}

// A guard of which nothing is left but its process still owns the checkout: the
// claim names it.
func TestGuardWithoutItsFolder(t *testing.T) {
	h, r, g := left(t)
	t.Cleanup(func() { // the house finds no guard without a record
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = proc.ID(g.Keeper).Signal(syscall.SIGTERM)
		if err := errors.Join(proc.ID(g.Process).Wait(ctx), proc.ID(g.Keeper).Wait(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := os.Rename(h.s.attemptDir(r.Attempt), filepath.Join(h.dir, "lost")); err != nil {
		t.Fatal(err)
	}
	r = h.uncertain(r, g)
	if err := proc.ID(g.Keeper).Signal(syscall.SIGTERM); err != nil { // as it says
		t.Fatal(err)
	}
	h.phase(r.ID, mission.Stopped)
}

// A guard whose socket file is gone has not ended, and is not ended for it.
func TestGuardWithoutItsSocket(t *testing.T) {
	h, r, g := left(t)
	if err := os.Remove(g.Socket); err != nil {
		t.Fatal(err)
	}
	r = h.uncertain(r, g)
	h.signal(g, syscall.SIGTERM)
	h.phase(r.ID, mission.Stopped)
}

// A guard that stood still when it was claimed is adopted once it goes on, or
// ended, if a person said so meanwhile.
func TestSilentGuardAnswersLate(t *testing.T) {
	for name, stop := range map[string]bool{"goes on": false, "is stopped": true} {
		t.Run(name, func(t *testing.T) {
			h, r, g := left(t)
			h.signal(g, syscall.SIGSTOP)
			t.Cleanup(func() { h.signal(g, syscall.SIGCONT) })
			if stop {
				h.uncertain(r, g)
			} else {
				h.reopen()
				h.phase(r.ID, mission.Blocked)
			}
			h.signal(g, syscall.SIGCONT)
			if stop {
				r = h.phase(r.ID, mission.Stopped)
				if r.EndReason != mission.EndPerson {
					t.Errorf("ended by %s", r.EndReason)
				}
				return
			}
			r = h.until(r.ID, "adoption", func(r Record) bool { return r.Guard == mission.GuardAnswers && r.Phase == mission.Working })
			if len(r.Turns) != 1 || r.BlockedBy != "" {
				t.Errorf("%d turns, %q", len(r.Turns), r.BlockedBy)
			}
		})
	}
}
