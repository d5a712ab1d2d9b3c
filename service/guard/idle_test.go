package guard

import "testing"

// Between turns nothing of a worker runs, so there is nothing to wake up for.
func TestIdleWorkerIsNotLookedAt(t *testing.T) {
	g := new(guard)
	if next, more := g.look(); more {
		t.Fatalf("an idle worker is looked at again after %v", next)
	}
}
