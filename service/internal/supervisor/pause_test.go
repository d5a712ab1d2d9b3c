//go:build unix

package supervisor

import (
	"testing"

	"github.com/reevehq/reeve/app/mission"
)

// A pause is of one turn: when that ends in a mission that was blocked meanwhile,
// nothing of it is left for the next one.
func TestPauseEndsWithItsTurn(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	h.until(r.ID, "session", func(r Record) bool { return r.ProviderSession != "" })
	within := within(t)
	if err := h.s.do(within, r.ID, func(w *worker) error {
		w.pausing = true
		w.cutShort("Something can't be read.")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.until(r.ID, "end of the turn", func(r Record) bool { return r.Phase == mission.Blocked && r.Turns[0].Outcome != nil })
	if err := h.s.do(within, r.ID, func(w *worker) error {
		if w.pausing {
			t.Error("the next turn is to be paused, too")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
