//go:build unix

package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// otherwise makes a mission one that an earlier Reeve proposed, which had other
// words in its instructions, and kept them or not.
func (h *house) otherwise(r Record, text string, kept bool) {
	h.t.Helper()
	digest := mission.InstructionDigest(text)
	err := h.s.do(within(h.t), r.ID, func(w *worker) error {
		return w.commit(func(r *Record) { r.Instructions = digest }, func(tx *store.Tx) error {
			if !kept {
				return tx.Delete(texts, []byte(r.ID))
			}
			return tx.Put(texts, []byte(r.ID), []byte(text))
		})
	})
	if err == nil && r.Attempt != "" {
		err = os.WriteFile(h.s.instructionsPath(r.Attempt), []byte(text), 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) written(r Record) string {
	h.t.Helper()
	raw, err := os.ReadFile(h.s.instructionsPath(r.Attempt))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(raw)
}

// What an agent follows is what a person allowed, whatever words an update has
// for it: at the start of a mission that was proposed before, and at its recovery.
func TestAllowedInstructionsOutliveAnUpdate(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	const before, later = "Do it, said the Reeve before.\n", "Do it, said the one before that.\n"
	r, ask := h.propose("a", "demo:slow 100000")
	h.otherwise(r, before, true)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	r = h.until(r.ID, "turn", func(r Record) bool { return len(r.Turns) > 0 })
	if got := h.written(r); got != before {
		t.Fatalf("started with %q", got)
	}
	h.signal(h.guardOf(r), syscall.SIGKILL)
	h.otherwise(h.lost(r.ID), later, true)
	r = h.lost(r.ID)
	_, ask, err := h.s.Recover(within(t), r.ID, r.Ref(), r.Terms, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(ask.Subject), "one before that") {
		t.Errorf("the recovery shows %s", ask.Subject)
	}
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	r = h.until(r.ID, "second turn", func(r Record) bool { return len(r.Turns) == 2 })
	if got := h.written(r); got != later {
		t.Errorf("recovered with %q", got)
	}
}

// Where the words that were allowed were not kept, the mission goes on if they
// are the same still, and nobody is asked to recover what can't be.
func TestInstructionsThatWereNotKept(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	ours := h.written(r)
	h.signal(h.guardOf(r), syscall.SIGKILL)
	r = h.lost(r.ID)
	for text, want := range map[string]wire.Code{ours: "", "Other words.\n": wire.CodeConflict} {
		h.otherwise(r, text, false)
		r = h.lost(r.ID)
		_, _, err := h.s.Recover(within(t), r.ID, r.Ref(), r.Terms, nil)
		if wire.CodeOf(err) != want || want != "" && !strings.Contains(err.Error(), "Start a new mission") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	p, ask := h.propose("b", "demo:slow 100000")
	h.otherwise(p, "Other words.\n", false)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); wire.CodeOf(err) != wire.CodeConflict {
		t.Errorf("a start: %v", err)
	}
}

// A mission that could not be started again says why.
func TestRecoveryThatCannotStartSaysWhy(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	h.signal(h.guardOf(r), syscall.SIGKILL)
	h.lost(r.ID)
	h.s.Close()
	h.exe = filepath.Join(h.dir, "no-reeve") // which can't be run
	h.reopen()
	r = h.lost(r.ID)
	_, ask, err := h.s.Recover(within(t), r.ID, r.Ref(), r.Terms, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	r = h.until(r.ID, "second loss", func(now Record) bool {
		return now.Attempt != r.Attempt && now.Phase == mission.Blocked && now.Guard == mission.GuardGone
	})
	if !strings.Contains(r.BlockedBy, "no-reeve") || !strings.Contains(r.BlockedBy, "recover or stop") || r.Failure == nil || r.Failure.Message != r.BlockedBy {
		t.Errorf("%q, %+v", r.BlockedBy, r.Failure)
	}
}
