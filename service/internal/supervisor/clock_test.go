//go:build unix

package supervisor

import (
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
)

// A clock that is set back makes no agent wait for it to come around again, and
// a turn whose guard says nothing ends by the boot clock.
func TestClockSetBack(t *testing.T) {
	h := newHouse(t)
	r, _ := h.propose("a", "demo:wait")
	start := mission.Instant{Wall: time.Unix(1_000_000, 0), Boot: time.Hour, BootID: "b"}
	r.Deadline = mission.NewDeadline(start, 60)
	r.Last, r.LastEnded = &mission.TurnOutcome{Outcome: mission.Succeeded, Next: mission.NextWaiting}, start.Wall.Add(10*time.Minute)
	r.Turns = []Turn{{ID: "t-1", Number: 1, Outcome: r.Last}}
	w := newWorker(h.s, r)
	w.quiet = time.Minute
	back := mission.Instant{Wall: start.Wall.Add(-time.Hour), Boot: start.Boot + 10*time.Minute, BootID: "b"}
	if d := mission.Schedule(w.input(back)); d.Act != mission.Wait || d.Until.Sub(back.Wall) > time.Minute {
		t.Errorf("%s until %s later", d.Act, d.Until.Sub(back.Wall))
	}
	later := mission.Instant{Wall: back.Wall.Add(2 * time.Minute), Boot: back.Boot + 2*time.Minute, BootID: "b"}
	if d := mission.Schedule(w.input(later)); d.Act != mission.Run {
		t.Errorf("two minutes later: %s", d.Act)
	}
}

// What a worker tried is counted for its mission even when that has ended.
func TestRefusedAfterTheEnd(t *testing.T) {
	h := newHouse(t)
	r, _ := h.propose("a", "demo:wait")
	if err := h.s.Refused(within(t), r.ID, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := h.s.Stop(within(t), r.ID); err != nil {
		t.Fatal(err)
	}
	if err := h.s.Refused(within(t), r.ID, 5); err != nil {
		t.Fatal(err)
	}
	if r, err := h.s.Get(r.ID); err != nil || r.Refusals != 7 || r.Phase != mission.Stopped {
		t.Errorf("%d refusals, %s, %v", r.Refusals, r.Phase, err)
	}
	if err := h.s.Refused(within(t), "m-nobody", 1); err == nil {
		t.Error("a mission that does not exist was counted for")
	}
}
