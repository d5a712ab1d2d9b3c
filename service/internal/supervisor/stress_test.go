//go:build unix

package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/store"
)

// Whatever persons, guards and services do in whatever order, a mission can be
// brought to its end, and then nothing waits, nothing is owned and nothing
// runs. That what is announced is journaled is checked all the while.
func TestAnyOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := newHouse(t)
	scopes := []string{"demo:slow 60\ndemo:command true\ndemo:slow 60", "demo:wait\ndemo:command true", "demo:two-turns", "demo:fail", "demo:spawn\ndemo:crash"}
	var ids []string
	for i, scope := range scopes {
		r, ask := h.propose(fmt.Sprint("r", i), scope)
		ids = append(ids, r.ID)
		if i%2 == 0 { // others are decided at random
			if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 4 {
		var persons sync.WaitGroup
		for p := range 3 {
			rnd := rand.New(rand.NewPCG(seed, uint64(round*10+p)))
			persons.Go(func() {
				for range 12 {
					h.disturb(rnd, ids[rnd.IntN(len(ids))])
				}
			})
		}
		persons.Wait()
		if round%2 == 1 {
			h.s.Close()
			h.reopen()
		}
	}
	for _, id := range ids {
		r, err := h.s.Stop(within(t), id)
		if err == nil && r.Phase == mission.Blocked {
			r, err = h.s.Stop(within(t), id)
		}
		if err != nil || !r.Phase.Terminal() {
			t.Errorf("mission %s is %s (%s), left %v, %v", id, r.Phase, r.BlockedBy, r.Left, err)
		}
	}
	err := h.db.View(func(tx *store.Tx) error {
		waiting, err := approvals.Pending(tx, "")
		if err != nil {
			return err
		}
		for _, a := range waiting {
			t.Errorf("%s of %s waits for ever", a.Kind, a.Mission)
		}
		if n, err := checkout.Count(tx); err != nil || n != 0 {
			t.Errorf("%d checkouts are owned, %v", n, err)
		}
		live, err := LoadLive(tx)
		if len(live) > 0 {
			t.Errorf("%d missions are live in the journal", len(live))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// An end is announced a little before its goroutine has ended.
	eventually(t, "end of all that was kept of missions", func() bool {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		return len(h.s.workers) == 0 && len(h.s.secrets) == 0
	})
}

// disturb does one thing to a mission; that it is refused is fine.
func (h *house) disturb(rnd *rand.Rand, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r, err := h.s.Get(id)
	if err != nil {
		h.t.Error(err)
		return
	}
	what := rnd.IntN(20)
	switch {
	case what < 3:
		_, _ = h.s.Pause(ctx, id)
	case what < 6:
		_, _ = h.s.Resume(ctx, id)
	case what < 8:
		_, _ = h.s.Steer(ctx, id, "Go on.")
	case what < 9:
		_, _ = h.s.Stop(ctx, id)
	case what < 10:
		_, _ = h.s.Cancel(ctx, id)
	case what < 12:
		if r.Attempt == "" {
			return
		}
		for _, g := range h.guards() {
			if rnd.IntN(3) == 0 {
				h.signal(g, syscall.SIGKILL)
				return
			}
		}
	case what < 14:
		_, _, _ = h.s.Recover(ctx, id, r.Ref(), r.Terms, nil)
	case what < 15:
		select { // lets the agents come further
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	default:
		var waiting []approvals.Record
		if err := h.db.View(func(tx *store.Tx) (err error) { waiting, err = approvals.Pending(tx, id); return }); err != nil {
			h.t.Error(err)
		}
		for _, a := range waiting {
			allow := rnd.IntN(4) > 0
			_, _ = h.s.Answer(ctx, a.ID, a.Digest, approvals.Answer{Answer: approval.Answer{Allow: allow, Stop: !allow && rnd.IntN(4) == 0}, Who: approvals.Who{Via: "program"}})
		}
	}
}
