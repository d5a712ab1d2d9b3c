package e2e

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestSleepInAMission is case 27: the machine sleeps two hours inside a mission
// of 15 minutes. At the wake-up the turn has timed out and the mission is
// stopped; what waited for its next turn starts none.
func TestSleepInAMission(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	working := v.begin(m.demoTerms(m.repo("working"), "demo:slow 100000"))
	waiting := v.begin(m.demoTerms(m.repo("waiting"), "demo:wait\ndemo:turns 1"))
	entry(v, working, wire.KindText, func(wire.Text) bool { return true })
	v.phase(waiting.ID, "waiting")
	v.wait("its first turn", func() bool { x := v.missions[waiting.ID]; return x.Turn == 1 && x.Phase == "waiting" })
	m.setClock(2 * time.Hour)
	for name, mi := range map[string]wire.Mission{"in a turn": working, "between turns": waiting} {
		end := v.phase(mi.ID, "stopped", "blocked", "completed")
		if end.Phase != "stopped" || end.EndReason != "deadline" || len(end.Turns) != 1 {
			t.Errorf("%s: %s (%s) after %d turns", name, end.Phase, end.EndReason, len(end.Turns))
		}
		if want := map[bool]string{true: "timed_out", false: "succeeded"}[mi.ID == working.ID]; end.Turns[0].Outcome != want {
			t.Errorf("%s: the turn is %s, want %s", name, end.Turns[0].Outcome, want)
		}
	}
	v.noProvider(working)
}

// TestClockIsSet is the rest of case 27: a wall clock that is set back gives a
// mission no more time, and one that is set forward takes its time away.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("back"), "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	m.setClocks(-time.Hour, 0)
	if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission; got.Phase != "working" {
		t.Errorf("with the clock set back: %s", got.Phase)
	}
	m.setClocks(-time.Hour+16*time.Minute, 16*time.Minute)
	if end := v.phase(mi.ID, "stopped", "blocked"); end.EndReason != "deadline" || end.Turns[0].Outcome != "timed_out" {
		t.Errorf("16 minutes after its start: %s (%s)", end.Phase, end.EndReason)
	}
	mi = v.begin(m.demoTerms(m.repo("forward"), "demo:slow 100000"))
	entry(v, mi, wire.KindText, func(wire.Text) bool { return true })
	m.setClocks(2*time.Hour, 16*time.Minute)
	if end := v.phase(mi.ID, "stopped", "blocked"); end.EndReason != "deadline" {
		t.Errorf("with the clock set forward: %s (%s)", end.Phase, end.EndReason)
	}
}

// TestPauseWithdraws is case 15: the turn is interrupted while its request
// waits, which is withdrawn, and an answer that comes too late says so.
func TestPauseWithdraws(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v, other := m.watch(), m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), "demo:command touch made.txt"))
	ask, _ := v.asked(mi.ID, "touch made.txt")
	do[wire.MissionResult](v, wire.MethodMissionPause, wire.MissionParams{ID: mi.ID})
	for _, w := range []*view{v, other} {
		w.wait("the withdrawal", func() bool { return w.approvals[ask.ID].State == "withdrawn" })
	}
	_, err := try[wire.ApprovalResult](v, wire.MethodApprovalAnswer, wire.AnswerParams{ID: ask.ID, Digest: ask.Digest, Allow: true})
	if code := wire.CodeOf(err); code != wire.CodeApprovalStale && code != wire.CodeAlreadyAnswered {
		t.Errorf("a late answer: %v", err)
	}
	if got := v.phase(mi.ID, "paused"); got.Turns[0].Outcome != "interrupted" {
		t.Errorf("the turn is %s", got.Turns[0].Outcome)
	}
	v.noProvider(mi)
}

// TestTwoWindowsAnswer is case 16: both click; one wins, and the other is told
// who answered what.
func TestTwoWindowsAnswer(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	one, two := m.watch(), m.watch()
	mi := one.begin(m.demoTerms(m.repo("repo"), "demo:command touch made.txt"))
	ask, _ := one.asked(mi.ID, "touch made.txt")
	type answer struct {
		got wire.ApprovalResult
		err error
	}
	answers := make(chan answer, 2)
	for i, v := range []*view{one, two} {
		go func() {
			r, err := try[wire.ApprovalResult](v, wire.MethodApprovalAnswer, wire.AnswerParams{ID: ask.ID, Digest: ask.Digest, Allow: i == 0})
			answers <- answer{r, err}
		}()
	}
	won := 0
	for range 2 {
		a := <-answers
		switch {
		case a.err == nil:
			won++
		case wire.CodeOf(a.err) != wire.CodeAlreadyAnswered:
			t.Errorf("the loser: %v", a.err)
		case !strings.Contains(a.err.Error(), "allowed") && !strings.Contains(a.err.Error(), "denied"):
			t.Errorf("the loser is not told what was answered: %v", a.err)
		}
	}
	if won != 1 {
		t.Errorf("%d answers won", won)
	}
	for _, v := range []*view{one, two} {
		v.wait("the answer", func() bool { a := v.approvals[ask.ID]; return a.State == "allowed" || a.State == "denied" })
	}
	one.mu.Lock()
	two.mu.Lock()
	if a, b := one.approvals[ask.ID], two.approvals[ask.ID]; a.State != b.State || a.Answer == nil || a.Answer.PID == 0 || !reflect.DeepEqual(a.Answer, b.Answer) {
		t.Errorf("one window shows %s by %+v, the other %s by %+v", a.State, a.Answer, b.State, b.Answer)
	}
	two.mu.Unlock()
	one.mu.Unlock()
	one.phase(mi.ID, "completed")
}

// TestManyLinesThenExit is case 25: an agent prints 20,000 lines and is done at
// once. Every line is stored, and the outcome is what the agent said.
func TestManyLinesThenExit(t *testing.T) {
	t.Parallel()
	const many = 20_000
	m := newMachine(t).start()
	v := m.watch()
	mi := v.begin(m.demoTerms(m.repo("repo"), fmt.Sprint("demo:burst ", many)))
	end := v.phase(mi.ID, "completed", "blocked", "stopped")
	if end.Phase != "completed" || end.Turns[0].Outcome != "succeeded" {
		t.Fatalf("%s: %+v", end.Phase, end.Failure)
	}
	var text strings.Builder
	p := wire.MessagesParams{Session: mi.ID, Limit: 1000}
	for more := true; more; {
		page := do[wire.MessagesResult](v, wire.MethodSessionMessages, p)
		for _, e := range page.Entries {
			if e.Kind == wire.KindText {
				text.WriteString(textOf(t, e))
			}
		}
		p.After, more = page.Next, page.More
	}
	next := 1
	for line := range strings.Lines(text.String()) {
		if line == fmt.Sprintf("line %d\n", next) {
			next++
		}
	}
	if next != many+1 {
		t.Errorf("line %d is missing", next)
	}
	v.settled(end)
}

func textOf(t *testing.T, e wire.Entry) string {
	t.Helper()
	var x wire.Text
	if err := json.Unmarshal(e.Data, &x); err != nil {
		t.Fatal(err)
	}
	return x.Text
}
