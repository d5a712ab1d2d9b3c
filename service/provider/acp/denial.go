package acp

import (
	"cmp"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
)

// untold is what the agent has yet to hear about the denials of a turn. The
// protocol's answer to a request has no place for a reason, some agents end their
// work at a denial, and some refuse with the denied call all others that wait.
// So Reeve goes on with the turn by a further prompt that says it.
type untold struct {
	denied []mission.Denial
	along  []string
	reason bool            // one of the denials has a reason
	idle   bool            // the agent has done nothing since the last denial
	before map[string]bool // the calls that the last denial refuses along with its own
	ended  map[string]bool // calls that are over, for which nobody is asked any more
}

// deny notes that a person denied a call. Needs step.
func (c *conn) deny(t *turn, k *call, reason string) {
	k.denied = true
	t.denied = append(t.denied, mission.Denial{Call: k.words(), Reason: reason})
	t.reason = t.reason || reason != ""
	t.idle = true
	if !c.agent.joint {
		return
	}
	t.before = map[string]bool{}
	for id, other := range c.calls {
		t.before[id] = !other.allowed && !other.denied
	}
}

// words name a call as the person saw it.
func (k *call) words() string { return cmp.Or(k.tool.Command, k.tool.Title, k.tool.Name) }

// tell returns the prompt by which the turn goes on, or nothing if it is over.
func (c *conn) tell(t *turn, r sdk.PromptResponse, err error) string {
	c.step.Lock()
	defer c.step.Unlock()
	c.mu.Lock()
	over := err != nil || t.interrupted || c.broken != "" || t.gaveUp != "" || c.hears || len(t.denied) == 0 || !t.reason && !t.idle
	if !over {
		t.live = false // an interrupt from now on may be lost
	}
	c.mu.Unlock()
	if over {
		return ""
	}
	c.settle()
	c.count(t, r)
	t.final.Reset()
	text := mission.DenialPrompt(t.denied, t.along)
	t.untold = untold{ended: t.ended}
	return text
}
