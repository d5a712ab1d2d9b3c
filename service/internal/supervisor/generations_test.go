//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/internal/session"
	"github.com/reevehq/reeve/service/internal/store"
)

// ghost is a generation that claimed a guard and was overtaken before it
// learned of that.
type ghost struct {
	dir        string
	c          *guard.Client
	generation uint64
}

// haunt lets a generation between two services claim the guard of r.
func (h *house) haunt(r Record) ghost {
	h.t.Helper()
	dir := h.s.attemptDir(r.Attempt)
	boot, err := guard.ReadBootstrap(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	g := ghost{dir: dir}
	if g.generation, err = h.db.BeginGeneration(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	if g.c, err = guard.Connect(within(h.t), dir); err != nil {
		h.t.Fatal(err)
	}
	if _, err = g.c.Claim(within(h.t), boot.Token, g.generation); err != nil {
		h.t.Fatal(err)
	}
	return g
}

// commands are what the ghost might do: each would change how the mission ends.
func (g ghost) commands(ask approvals.Record, as uint64) map[string]func(ctx context.Context) error {
	cmd := wire.Command{Generation: as}
	return map[string]func(context.Context) error{
		"deny": func(ctx context.Context) error {
			_, err := g.c.Resolve(ctx, wire.ResolveParams{Command: cmd, Request: ask.ID, Digest: ask.Digest, By: "a ghost"})
			return err
		},
		"allow": func(ctx context.Context) error {
			_, err := g.c.Resolve(ctx, wire.ResolveParams{Command: cmd, Request: ask.ID, Digest: ask.Digest, Allow: true, By: "a ghost"})
			return err
		},
		"interrupt": func(ctx context.Context) error {
			return g.c.Interrupt(ctx, wire.InterruptParams{Command: cmd})
		},
		"turn": func(ctx context.Context) error {
			return g.c.Turn(ctx, wire.TurnParams{Command: cmd, Turn: "t-ghost", Number: 9, Prompt: "Haunt."})
		},
		"stop": func(ctx context.Context) error {
			_, err := g.c.Stop(ctx, wire.GuardStopParams{Command: cmd, Reason: "a ghost"})
			return err
		},
	}
}

// TestGenerations: whatever services follow each other in the middle of what,
// over one real guard: nothing that an older one still says takes effect, every
// entry is ingested once, and every answer of a person reaches the agent once.
func TestGenerations(t *testing.T) {
	h := newHouse(t)
	n := 0
	few(t, 4, func(rt *rapid.T) {
		n++
		asks := rapid.IntRange(2, 4).Draw(rt, "requests")
		name := fmt.Sprint("g", n)
		scope := strings.Repeat("demo:burst 200\ndemo:command sh ../tick.sh "+name+"\n", asks)
		if err := os.WriteFile(filepath.Join(h.dir, "tick.sh"), []byte("echo $1 >>../effects\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := h.begin(name, scope)
		allowed := 0
		for range asks {
			ask := h.waits(r.ID)
			var ghosts []ghost
			for range rapid.IntRange(0, 2).Draw(rt, "services before the answer") {
				ghosts = append(ghosts, h.handOver(rt, r, nil))
			}
			for _, g := range ghosts {
				h.powerless(rt, g, ask)
			}
			// Two persons answer at once, perhaps while the service goes.
			allow := []bool{rapid.Bool().Draw(rt, "first"), rapid.Bool().Draw(rt, "second")}
			var wins, denials atomic.Int32
			var persons sync.WaitGroup
			s := h.s
			for _, yes := range allow {
				persons.Go(func() {
					out, err := s.Answer(within(t), ask.ID, ask.Digest, approvals.Answer{Answer: approval.Answer{Allow: yes}, Who: approvals.Who{Via: "program"}})
					if err == nil {
						wins.Add(1)
						if out.State == approval.Denied {
							denials.Add(1)
						}
					}
				})
			}
			if rapid.Bool().Draw(rt, "the service goes meanwhile") {
				h.powerless(rt, h.handOver(rt, r, &persons), ask)
			}
			persons.Wait()
			kept := h.approval(ask.ID)
			if kept.State == approval.Pending { // neither came through
				if wins.Load() > 0 {
					rt.Fatal("an answer was taken and is not journaled")
				}
				if _, err := h.answer(kept, approval.Answer{Allow: true}); err != nil {
					rt.Fatal(err)
				}
				kept = h.approval(ask.ID)
			} else if wins.Load() != 1 || (denials.Load() == 1) != (kept.State == approval.Denied) {
				rt.Fatalf("%d answers were taken, %d of them denials; the approval is %s", wins.Load(), denials.Load(), kept.State)
			}
			if kept.State == approval.Allowed {
				allowed++
			}
			h.update(func() { delete(h.asks, ask.ID) })
		}
		end := h.phase(r.ID, mission.Completed)
		h.once(rt, end, name, asks, allowed)
	})
}

// handOver ends the service, lets another generation claim and be overtaken, and
// begins the next service. Before it returns, the claim of that was answered.
func (h *house) handOver(rt *rapid.T, r Record, during *sync.WaitGroup) ghost {
	h.s.Close()
	if during != nil {
		during.Wait() // the journal is about to be closed
	}
	g := h.haunt(r)
	h.t.Cleanup(func() { _ = g.c.Close() })
	h.reopen()
	if got, err := h.s.Get(r.ID); err != nil || got.Guard != mission.GuardAnswers || got.Phase != mission.Working {
		rt.Fatalf("after an adoption: %s, guard %s, %q, %v", got.Phase, got.Guard, got.BlockedBy, err)
	}
	return g
}

// powerless: nothing that an overtaken generation says is done, over the
// connection that it had or over another, under its own number or the newest.
func (h *house) powerless(rt *rapid.T, g ghost, ask approvals.Record) {
	as := g.generation
	if rapid.Bool().Draw(rt, "another connection") {
		c, err := guard.Connect(within(h.t), g.dir)
		if err != nil {
			rt.Fatal(err)
		}
		defer c.Close()
		g.c = c
		if rapid.Bool().Draw(rt, "as the newest") {
			as = h.s.Generation
		}
	}
	all := g.commands(ask, as)
	for _, name := range rapid.Permutation([]string{"deny", "allow", "interrupt", "turn", "stop"}).Draw(rt, "the ghost tries") {
		if err := all[name](within(h.t)); err == nil {
			rt.Fatalf("%s of generation %d took effect after a newer claim", name, g.generation)
		}
	}
}

func (h *house) approval(id string) (r approvals.Record) {
	h.t.Helper()
	if err := h.db.View(func(tx *store.Tx) (err error) { r, _, err = approvals.Get(tx, id); return }); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// once compares the log of a mission with its record, its approvals and what its
// commands did.
func (h *house) once(rt *rapid.T, r Record, name string, asks, allowed int) {
	tools, asked, resolved, turns := 0, 0, map[string]string{}, 0
	last := uint64(0)
	_, err := session.History(within(h.t), h.s.LogPath(r.Attempt), 0, func(e runlog.Record) bool {
		if e.Seq != last+1 {
			rt.Fatalf("entry %d follows %d", e.Seq, last)
		}
		last = e.Seq
		switch e.Kind {
		case wire.KindTurnStarted:
			turns++
		case wire.KindToolStarted:
			tools++
		case wire.KindPermissionAsked:
			asked++
		case wire.KindPermissionResolved:
			var p wire.PermissionResolved
			if err := json.Unmarshal(e.Data, &p); err != nil || resolved[p.Request] != "" {
				rt.Fatalf("%s was answered as %s and as %s, %v", p.Request, resolved[p.Request], p.Outcome, err)
			}
			resolved[p.Request] = p.Outcome
		}
		return true
	})
	if err != nil {
		rt.Fatal(err)
	}
	for id, outcome := range resolved {
		if a := h.approval(id); string(a.State) != outcome {
			rt.Fatalf("the agent was told %s; the approval is %s", outcome, a.State)
		}
	}
	ran := 0
	if raw, err := os.ReadFile(filepath.Join(h.dir, "effects")); err == nil {
		ran = strings.Count(string(raw), name+"\n")
	}
	if turns != 1 || len(r.Turns) != 1 || asked != asks || len(resolved) != asks || ran != allowed || r.Denials.Count != asks-allowed {
		rt.Fatalf("%d turns (%d journaled), %d asked, %d answered, %d allowed, %d ran, %d denials", turns, len(r.Turns), asked, len(resolved), allowed, ran, r.Denials.Count)
	}
	if r.ToolCalls != tools || r.Turns[0].Tools != tools {
		rt.Fatalf("%d tool calls in the log, %d and %d counted", tools, r.ToolCalls, r.Turns[0].Tools)
	}
}

// TestRecoveryRaces: whatever several persons decide at once about a mission
// whose worker is lost, one decision wins, and the record is one that it alone
// would have made.
func TestRecoveryRaces(t *testing.T) {
	h := newHouse(t)
	n := 0
	few(t, 6, func(rt *rapid.T) {
		n++
		r := h.begin(fmt.Sprint("r", n), "demo:slow 100000")
		h.signal(h.guardOf(r), syscall.SIGKILL)
		lost := h.lost(r.ID)
		_, ask, err := h.s.Recover(within(t), lost.ID, lost.Ref(), lost.Terms, nil)
		if err != nil {
			rt.Fatal(err)
		}
		what := rapid.SliceOfN(rapid.SampledFrom([]string{"allow", "allow", "deny", "cancel", "stop", "recover", "resume"}), 2, 5).Draw(rt, "at once")
		var mu sync.Mutex
		wins := map[string]int{}
		var persons sync.WaitGroup
		begin := make(chan struct{})
		for _, x := range what {
			persons.Go(func() {
				<-begin
				var err error
				switch x {
				case "allow", "deny":
					_, err = h.s.Answer(within(t), ask.ID, ask.Digest, approvals.Answer{Answer: approval.Answer{Allow: x == "allow"}, Who: approvals.Who{Via: "program"}})
				case "cancel":
					_, err = h.s.Cancel(within(t), lost.ID)
				case "stop":
					_, err = h.s.Stop(within(t), lost.ID)
				case "recover":
					_, _, err = h.s.Recover(within(t), lost.ID, lost.Ref(), lost.Terms, nil)
				case "resume":
					if _, err = h.s.Resume(within(t), lost.ID); err == nil {
						rt.Errorf("a mission without a guard was resumed")
					}
				}
				if err == nil {
					mu.Lock()
					wins[x]++
					mu.Unlock()
				}
			})
		}
		close(begin)
		persons.Wait()
		now, err := h.s.Get(lost.ID)
		if err != nil {
			rt.Fatal(err)
		}
		state := h.approval(ask.ID).State
		switch {
		case wins["allow"]+wins["deny"] > 1:
			rt.Fatalf("%v of %v: one question was answered twice", wins, what)
		case wins["allow"] == 1 && state != approval.Allowed, wins["deny"] == 1 && state != approval.Denied:
			rt.Fatalf("%v of %v: the approval is %s", wins, what, state)
		case wins["allow"] != len(now.Earlier):
			rt.Fatalf("%v of %v: the mission has %d earlier attempts", wins, what, len(now.Earlier))
		case wins["stop"]+wins["cancel"] > 0 && !now.Phase.Terminal() && now.Phase != mission.Stopping:
			rt.Fatalf("%v of %v: the mission is %s", wins, what, now.Phase)
		case wins["allow"]+wins["stop"]+wins["cancel"] == 0 && (now.Phase != mission.Blocked || now.Attempt != lost.Attempt):
			rt.Fatalf("%v of %v: the mission is %s", wins, what, now.Phase)
		case !now.Deadline.At.Equal(lost.Deadline.At):
			rt.Fatalf("the deadline moved from %v to %v", lost.Deadline.At, now.Deadline.At)
		}
		if _, err := h.s.Stop(within(t), lost.ID); err != nil {
			rt.Fatal(err)
		}
		h.until(lost.ID, "end", func(r Record) bool { return r.Phase.Terminal() }) // a guard that is slow to end is named as left before that
		// Nothing waits for an answer, and nothing is owned.
		err = h.db.View(func(tx *store.Tx) error {
			waiting, err := approvals.Pending(tx, lost.ID)
			if len(waiting) > 0 {
				rt.Errorf("%v of %v: %d questions still wait", wins, what, len(waiting))
			}
			if owned, err := checkout.Count(tx); err != nil || owned != 0 {
				rt.Errorf("%v of %v: %d checkouts are owned, %v", wins, what, owned, err)
			}
			return err
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// few checks a property n times: each check takes seconds with real guards, and
// the timing of a failure can't be kept in a file.
func few(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(n), "rapid.nofailfile": "true"} {
		old := flag.Lookup(name).Value.String()
		_ = flag.Set(name, value)
		defer func() { _ = flag.Set(name, old) }()
	}
	rapid.Check(t, property)
}
