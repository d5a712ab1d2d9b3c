//go:build unix

package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider"
)

// spender is a provider that tells of 100 tokens and a tenth of a dollar more
// with each piece of text, as providers do: for the turn so far. It does so while
// there is a file, so that nothing is spent before a test is ready for it.
type spender struct {
	provider.Provider
	file string
}

func (p spender) Open(ctx context.Context, spec provider.Spec) (provider.Conn, error) {
	conn, err := p.Provider.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	c := spenderConn{conn, p.file, make(chan provider.Event)}
	go c.spend()
	return c, nil
}

type spenderConn struct {
	provider.Conn
	file   string
	events chan provider.Event
}

func (c spenderConn) Events() <-chan provider.Event { return c.events }

func (c spenderConn) spend() {
	defer close(c.events)
	var tokens int64
	usage := func() mission.Usage {
		n, cost := tokens, float64(tokens)/1000
		return mission.Usage{Provider: "acp:demo", Semantics: mission.IncludesCache, Input: &n, Output: new(int64), CostUSD: &cost}
	}
	for e := range c.Conn.Events() {
		switch x := e.(type) {
		case provider.Text:
			if _, err := os.Stat(c.file); err == nil {
				tokens += 100
				c.events <- provider.UsageReported{Usage: usage()}
			}
		case provider.TurnFinished:
			x.Outcome.Usage = usage()
			e, tokens = x, 0
		}
		c.events <- e
	}
}

// spending makes guards of an agent that tells what it spends, and returns the
// file without which it spends nothing.
func (h *house) spending() (file string) {
	h.t.Helper()
	h.s.Close()
	file = filepath.Join(h.dir, "spend")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.env = []string{"TEST_SPENDS=" + file}
	h.reopen()
	return file
}

// A budget of tokens or cost ends a mission inside the turn that reaches it,
// and one of turns never does.
func TestBudgetEndsTheTurn(t *testing.T) {
	for what, budget := range map[string]mission.Budget{
		"tokens": {Turns: 1, Tokens: 500}, "cost": {Turns: 1, CostUSD: 0.5},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			h.spending()
			r := h.beginTerms("a", "demo:slow 100000", func(t *mission.Terms) { t.Budget = budget })
			r = h.phase(r.ID, mission.Stopped)
			if r.EndReason != mission.EndBudget || r.Failure == nil || r.Failure.Code != mission.BudgetReached || h.owned(r.Terms.Folder) != "" {
				t.Fatalf("ended by %s, %+v; the checkout belongs to %q", r.EndReason, r.Failure, h.owned(r.Terms.Folder))
			}
			if out := r.Turns[0].Outcome; len(r.Turns) != 1 || out == nil || out.Outcome != mission.Interrupted {
				t.Fatalf("%d turns, the first %+v", len(r.Turns), out)
			}
			if spent := r.Spent(); spent.Turns != 1 || spent.Tokens < 500 || r.Usage.Tokens() != spent.Tokens {
				t.Errorf("spent %+v, shown %d tokens", spent, r.Usage.Tokens())
			}
		})
	}
}

// What a turn spent before counts in the next one, and what it spent while no
// service ran ends the mission as soon as one does.
func TestBudgetIsReadFromTheLog(t *testing.T) {
	h := newHouse(t)
	spend := h.spending()
	r := h.beginTerms("a", "demo:slow 1\ndemo:wait", func(t *mission.Terms) { t.Budget.Tokens = 1000 })
	r = h.until(r.ID, "first turn", func(r Record) bool { return r.Phase == mission.Waiting && len(r.Turns) == 1 })
	before := r.Spent().Tokens
	if before == 0 || before > 500 {
		t.Fatalf("the first turn spent %d tokens", before)
	}
	if err := os.Remove(spend); err != nil {
		t.Fatal(err)
	}
	if _, err := h.s.Steer(within(t), r.ID, "demo:slow 100000"); err != nil {
		t.Fatal(err)
	}
	r = h.until(r.ID, "second turn", func(r Record) bool { return len(r.Turns) == 2 && r.Turns[1].Heard })
	h.s.Close()
	if err := os.WriteFile(spend, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.logged(r, wire.KindUsage, 1000/100+int(before/100))
	h.reopen()
	r = h.phase(r.ID, mission.Stopped)
	if r.EndReason != mission.EndBudget || len(r.Turns) != 2 || r.Spent().Tokens < 1000 {
		t.Fatalf("ended by %s after %d turns, %+v", r.EndReason, len(r.Turns), r.Spent())
	}
}

// What a turn spent counts also when its guard is lost inside it.
func TestLostTurnIsPaidFor(t *testing.T) {
	h := newHouse(t)
	h.spending()
	r := h.beginTerms("a", "demo:slow 100000", func(*mission.Terms) {})
	r = h.until(r.ID, "turn", func(r Record) bool { return len(r.Turns) > 0 && r.Turns[0].Heard })
	h.logged(r, wire.KindUsage, 3)
	h.signal(h.guardOf(r), syscall.SIGKILL)
	r = h.lost(r.ID)
	if spent := r.Spent(); spent.Tokens < 300 || r.Usage.Tokens() != spent.Tokens || r.Turns[0].Spending != nil {
		t.Errorf("spent %+v, shown %d tokens, %+v", spent, r.Usage.Tokens(), r.Turns[0])
	}
}
