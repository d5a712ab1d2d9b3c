package codex

import (
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// turn is what is known about the turn in flight. The reader alone writes id,
// under conn.mu and before known is closed; interrupted is guarded by conn.mu;
// the rest is the reader's.
type turn struct {
	began       time.Time
	id          string
	known       chan struct{} // closed when the program has named the turn
	interrupted bool

	final      string // the agent's last message
	base       *tokens
	spent      *tokens
	modelCalls int
	toolCalls  int
}

// nameLocked needs conn.mu.
func (t *turn) nameLocked(id string) {
	if t.id == "" && id != "" {
		t.id = id
		close(t.known)
	}
}

// usage takes in the thread's total. What a turn spent is the difference to the
// total before it, so nothing is counted twice, whatever is told how often.
func (c *conn) usage(p params) {
	before := c.total
	now := p.TokenUsage.Total
	c.total = &now
	t := c.inFlight()
	if t == nil || p.TurnID != t.id {
		return // a resumed thread tells what it spent before
	}
	if t.base == nil {
		base := now.minus(p.TokenUsage.Last)
		if before != nil {
			base = *before
		}
		t.base = &base
	}
	spent := now.minus(*t.base)
	if t.spent != nil && *t.spent == spent {
		return
	}
	t.spent = &spent
	t.modelCalls++
	c.events.Emit(provider.UsageReported{Usage: c.turnUsage(t)})
}

// turnUsage is the usage of the turn so far.
func (c *conn) turnUsage(t *turn) mission.Usage {
	calls, tools := t.modelCalls, t.toolCalls
	u := mission.Usage{
		Provider: name, Model: c.model, ModelSource: c.modelFrom, Semantics: mission.IncludesCache,
		ModelCalls: &calls, ToolCalls: &tools, ToolCounts: mission.CountsComplete,
		Seconds: time.Since(t.began).Seconds(),
	}
	if t.spent != nil {
		sum := *t.spent
		u.Input, u.Output, u.CacheRead, u.CacheWrite = &sum.Input, &sum.Output, &sum.CacheRead, &sum.CacheWrite
	}
	return u
}

// finishTurn ends the turn with exactly one TurnFinished. end is nil when the
// program has ended.
func (c *conn) finishTurn(end *wireTurn) {
	c.mu.Lock()
	t := c.turn
	c.turn = nil
	broken := c.broken
	interrupted := t != nil && t.interrupted
	withdrawn := c.open
	c.open = map[string]*ask{}
	c.allowed, c.denied = map[string]bool{}, map[string]bool{}
	c.mu.Unlock()

	for id := range withdrawn {
		c.events.Emit(provider.PermissionWithdrawn{Request: id})
	}
	for id := range c.calls {
		c.events.Emit(provider.ToolFinished{Call: id, Status: "cancelled"})
	}
	if end != nil && len(c.calls) > 0 {
		// The turn's commands may run on. This is the polite way; the tree's
		// owner ends what is left.
		c.tell("thread/backgroundTerminals/clean", object{"threadId": c.threadID()})
	}
	clear(c.calls)
	clear(c.settles)
	clear(c.streamed)
	if t == nil {
		return
	}
	e := provider.TurnFinished{}
	switch {
	case broken != "":
		e.Outcome = mission.FailedTurn(mission.StageExecution, mission.PermissionRequired)
		e.Message = broken
	case end == nil && interrupted, end != nil && end.Status == "interrupted":
		e.Outcome.Outcome = mission.Interrupted
	case end != nil && end.Status == "completed":
		e.Outcome.Outcome = mission.Succeeded
		e.Outcome.Next = mission.ParseWorkNext(t.final)
		e.Final = t.final
	case end != nil:
		e.Outcome = mission.FailedTurn(mission.StageExecution, end.Error.code())
		if e.Outcome.Code == mission.RateLimited {
			e.Outcome.ResetAt = c.limitEnds
		}
		if end.Error != nil {
			e.Message = end.Error.Message
		}
	default:
		e.Outcome = mission.FailedTurn(mission.StageExecution, mission.LocalExecutionFailure)
		e.Message = strings.TrimSpace(c.p.Tail())
	}
	e.Outcome.Usage = c.turnUsage(t)
	e.Outcome.Seconds = e.Outcome.Usage.Seconds
	c.events.Emit(e)
}
