//go:build unix

package supervisor

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/internal/session"
)

// What a turn was to tell the agent, and the agent never heard because its
// session could not be opened, is told in the next turn: the person's
// instructions, and after a recovery that work may be half done.
func TestUnheardIsToldAgain(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	if _, err := h.s.Steer(within(t), r.ID, "Later."); err != nil {
		t.Fatal(err)
	}
	h.until(r.ID, "session", func(r Record) bool { return r.ProviderSession != "" })
	h.signal(h.guardOf(r), syscall.SIGKILL)
	lost := h.lost(r.ID)
	_, ask, err := h.s.Recover(within(t), lost.ID, lost.Ref(), lost.Terms, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	// The demo agent's session is lost with its guard, so turn 2 can't open it.
	now := h.until(r.ID, "third turn", func(r Record) bool { return len(r.Turns) == 3 && r.Turns[2].Begun })
	if now.Turns[1].Outcome == nil || now.Turns[1].Outcome.Code != mission.MissingSession {
		t.Fatalf("turn 2: %+v", now.Turns[1].Outcome)
	}
	var third wire.TurnStarted
	_, err = session.History(within(t), h.s.LogPath(now.Attempt), 0, func(e runlog.Record) bool {
		var s wire.TurnStarted
		if e.Kind == wire.KindTurnStarted && json.Unmarshal(e.Data, &s) == nil && s.Number == 3 {
			third = s
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(third.Prompt, "Later.") || len(third.Steering) != 1 {
		t.Errorf("the agent is never told the instruction, which is called %s: %s", now.Steering[0].State, third.Prompt)
	}
	if s := now.Steering[0]; s.State != SteerApplied || s.Turn != 3 {
		t.Errorf("the instruction is %s in turn %d", s.State, s.Turn)
	}
	if !strings.Contains(strings.ToLower(third.Prompt), "inspect the checkout") {
		t.Errorf("the agent is never told to reconcile: %s", third.Prompt)
	}
}
