package acp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// catchUp is how long the end of a turn waits for what an agent says beside the
// protocol.
const catchUp = 5 * time.Second

// seen is what was seen of a turn beside the protocol.
type seen struct {
	busy    bool                       // it works on a prompt; guarded by conn.mu
	rest    chan struct{}              // closed when the agent rests after a prompt; nil where nothing is watched
	inputs  map[string]json.RawMessage // of calls; guarded by conn.mu
	more    chan struct{}              // closed when there is another input; guarded by conn.mu
	failure string                     // what the model's service said; guarded by conn.mu
	gaveUp  mission.Code               // why the agent was not left to wait; guarded by conn.mu
	reset   time.Time                  // when what it waited for comes; guarded by conn.mu

	lock   sync.Mutex
	ids    []string // of the model calls, in order
	models map[string]mission.Usage
}

// startWatch begins to follow an agent for which there is a way to.
func (c *conn) startWatch(ctx context.Context) error {
	if c.watch == nil {
		return nil
	}
	// The beginning has ctx, what follows lasts as long as the agent.
	stop := context.AfterFunc(ctx, c.unwatch)
	run, err := c.watch(c.watched, c)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	c.prompts.Go(run)
	return nil
}

// called notes what a model call of the running turn used. It may be told again,
// even after its prompt was counted.
func (c *conn) called(id string, u mission.Usage) {
	t := c.current()
	if t == nil {
		return
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.models == nil {
		t.models = map[string]mission.Usage{}
	}
	if _, told := t.models[id]; !told {
		t.ids = append(t.ids, id)
	}
	t.models[id] = u
}

// working notes whether the agent works on a prompt. That it rests it may say
// more than once, so only the first after its work counts.
func (c *conn) working(busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.turn
	if t == nil {
		return
	}
	if t.busy && !busy {
		select {
		case <-t.rest: // it rested before, and went on by itself
		default:
			close(t.rest)
		}
	}
	t.busy = busy
}

// input notes what a call was given.
func (c *conn) input(call string, in json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.turn
	if t == nil || t.inputs[call] != nil {
		return
	}
	if t.inputs == nil {
		t.inputs = map[string]json.RawMessage{}
	}
	t.inputs[call] = in
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// forget keeps no input of a call that is over, even if it is told again.
func (c *conn) forget(t *turn, call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watch == nil {
		return
	}
	if t.inputs == nil {
		t.inputs = map[string]json.RawMessage{}
	}
	t.inputs[call] = json.RawMessage{}
}

// awaitInput waits a little for the input of a call of which the request says
// nothing, so that a person sees it.
func (c *conn) awaitInput(ctx context.Context, call string) {
	if c.watch == nil {
		return
	}
	timer := time.NewTimer(catchUp)
	defer timer.Stop()
	for {
		c.mu.Lock()
		t := c.turn
		if t == nil || t.inputs[call] != nil {
			c.mu.Unlock()
			return
		}
		if t.more == nil {
			t.more = make(chan struct{})
		}
		more := t.more
		c.mu.Unlock()
		select {
		case <-more:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-c.watched.Done():
			return
		}
	}
}

// failed notes what the model's service said.
func (c *conn) failed(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		c.turn.failure = what
	}
}

// question asks the person what the agent asks beside the protocol in a call, and
// returns the answer. There is none where the person won't answer, or isn't asked.
func (c *conn) question(call string, q provider.Question) (text string, answered bool) {
	const yes, no = "answer", "refuse"
	id, a := c.request(sdk.ToolCallUpdate{ToolCallId: sdk.ToolCallId(call), Title: &q.Text}, []sdk.PermissionOption{
		{OptionId: yes, Kind: sdk.PermissionOptionKindAllowOnce}, {OptionId: no, Kind: sdk.PermissionOptionKindRejectOnce}}, &q)
	if a == nil {
		return "", false
	}
	outcome := c.await(c.watched, id, a)
	if outcome.Selected == nil {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return a.text, outcome.Selected.OptionId == yes
}

// giveUp ends a turn in which the agent would only wait, as Reeve waits better:
// a person sees for what, and it costs no running program.
func (c *conn) giveUp(code mission.Code, reset time.Time) {
	c.mu.Lock()
	t := c.turn
	if t == nil || t.gaveUp != "" {
		c.mu.Unlock()
		return
	}
	t.gaveUp, t.reset = code, reset
	c.mu.Unlock()
	c.prompts.Go(func() {
		c.rpc.Cancel(context.Background(), sdk.CancelNotification{SessionId: c.session}) // fails only when the agent is gone
	})
}

// caughtUp waits at the end of a prompt until what is said beside the protocol
// has arrived, too.
func (c *conn) caughtUp(t *turn) {
	if t.rest == nil {
		return
	}
	timer := time.NewTimer(catchUp)
	defer timer.Stop()
	select {
	case <-t.rest:
	case <-c.watched.Done():
	case <-c.p.Gone():
	case <-timer.C:
	}
	c.mu.Lock()
	t.rest, t.busy = make(chan struct{}), false // for the next prompt
	c.mu.Unlock()
}

// calls puts the model calls of a prompt in the place of what the protocol said,
// which may be that of the last call alone.
func (t *turn) calls(m *mission.Usage) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if len(t.ids) == 0 {
		return
	}
	var sum mission.Usage
	for _, id := range t.ids {
		u := t.models[id]
		u.Provider, u.Model, u.ModelSource = m.Provider, m.Model, m.ModelSource
		sum, _ = sum.Add(u) // of one provider, counted alike
	}
	*m, t.ids = sum, nil
}
