package claude

import (
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// state of a message that was sent in a turn.
type state int

const (
	sent    state = iota // not yet read by the model
	started              // read
	ended                // answered, or dropped
)

// turn is what is known about the turn in flight. messages and interrupted are
// guarded by conn.mu; the rest is the reader's.
type turn struct {
	began       time.Time
	prompt      string           // uuid of its first message
	messages    map[string]state // by uuid
	interrupted bool

	result     *message // the last one; nil while the model works
	seen       failure
	limit      rateLimit // as last reported
	model      string
	modelFrom  string
	modelCalls int
	toolCalls  int
	running    tokens  // of the messages that were streamed
	total      *tokens // of the results
	cost       *float64
	noCost     bool
}

// settled reports whether the result in hand is the turn's last: nothing that
// was sent waits to be read. Needs conn.mu.
func (t *turn) settledLocked() bool {
	if t.result == nil {
		return false
	}
	for _, s := range t.messages {
		if s == sent {
			return false
		}
	}
	return true
}

// add takes in the usage of a result. What it lists since the last result
// includes requests that were cut off and is not cumulative, unlike its totals.
func (t *turn) add(m message) {
	sum := tokens{}
	switch {
	case m.Since != nil:
		for model, u := range m.Since {
			sum.add(tokens{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite})
			if t.model == "" {
				t.model, t.modelFrom = model, "model-usage"
			}
			if u.CostUSD == nil {
				t.noCost = true
				continue
			}
			if t.cost == nil {
				t.cost = new(float64)
			}
			*t.cost += *u.CostUSD
		}
		if t.cost == nil {
			t.cost = new(float64)
		}
	case m.Usage != nil:
		sum, t.noCost = *m.Usage, true
	default:
		t.noCost = true
		return
	}
	if t.total == nil {
		t.total = &tokens{}
	}
	t.total.add(sum)
}

func (t *tokens) add(o tokens) {
	t.Input += o.Input
	t.Output += o.Output
	t.CacheRead += o.CacheRead
	t.CacheWrite += o.CacheWrite
}

// usage returns the usage of the turn so far. Without a result, only what was
// streamed is known.
func (t *turn) usage() mission.Usage {
	calls, tools := t.modelCalls, t.toolCalls
	u := mission.Usage{
		Provider: name, Model: t.model, ModelSource: t.modelFrom, Semantics: mission.Uncached,
		ModelCalls: &calls, ToolCalls: &tools, ToolCounts: mission.CountsComplete,
		Seconds: time.Since(t.began).Seconds(),
	}
	sum := t.running
	if t.total != nil {
		sum = *t.total
	}
	if t.total != nil || t.modelCalls > 0 {
		u.Input, u.Output, u.CacheRead, u.CacheWrite = &sum.Input, &sum.Output, &sum.CacheRead, &sum.CacheWrite
	}
	if t.cost != nil && !t.noCost {
		cost := *t.cost
		u.CostUSD = &cost
	}
	return u
}

// finishTurn ends the turn with exactly one TurnFinished. gone says that the
// program has ended.
func (c *conn) finishTurn(gone bool) {
	c.mu.Lock()
	t := c.turn
	c.turn = nil
	broken := c.broken
	var interrupted bool
	if t != nil {
		interrupted = t.interrupted
	}
	withdrawn := c.open
	c.open = map[string]*ask{}
	c.mu.Unlock()

	for id := range withdrawn {
		c.events.Emit(provider.PermissionWithdrawn{Request: id})
	}
	for id := range c.calls {
		c.events.Emit(provider.ToolFinished{Call: id, Status: "cancelled"})
	}
	clear(c.calls)
	clear(c.streamed)
	clear(c.thought)
	if t == nil {
		return
	}
	e := provider.TurnFinished{}
	r := t.result
	if r != nil {
		e.Final = r.Result
		e.Message = strings.Join(r.Errors, "\n")
	}
	switch {
	case broken != "":
		e.Outcome = mission.FailedTurn(mission.StageExecution, mission.PermissionRequired)
		e.Message, e.Final = broken, ""
	case r == nil && interrupted, r != nil && strings.HasPrefix(r.TerminalReason, "aborted"):
		e.Outcome.Outcome = mission.Interrupted
	case r != nil && r.Subtype == "success" && !r.IsError:
		e.Outcome.Outcome = mission.Succeeded
		e.Outcome.Next = mission.ParseWorkNext(r.Result)
	default:
		f := t.seen
		if r != nil {
			f.text += strings.Join(r.Errors, "\n")
			if r.APIStatus != nil {
				f.status = *r.APIStatus
			}
			e.Message, e.Final = strings.TrimSpace(r.Result+"\n"+f.text), ""
		}
		if gone {
			f.text += "\n" + c.p.Tail()
			e.Message = strings.TrimSpace(e.Message + "\n" + c.p.Tail())
		}
		e.Outcome = mission.FailedTurn(mission.StageExecution, f.code())
		if e.Outcome.Code == mission.RateLimited && t.limit.Status == "rejected" && t.limit.ResetsAt > 0 {
			e.Outcome.ResetAt = time.Unix(t.limit.ResetsAt, 0).UTC()
		}
	}
	e.Outcome.Usage = t.usage()
	e.Outcome.Seconds = e.Outcome.Usage.Seconds
	c.events.Emit(e)
}
