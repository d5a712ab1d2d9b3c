package supervisor

import (
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestAuthority: only the run that is under way, and in it a turn in flight,
// speaks for the mission.
func TestAuthority(t *testing.T) {
	start := mission.Instant{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for name, c := range map[string]struct {
		change func(*Record, *wire.Coordinates)
		later  time.Duration
		holds  bool
		may    bool
	}{
		"in flight":           {holds: true, may: true},
		"names no turn":       {change: func(_ *Record, c *wire.Coordinates) { c.Turn = "" }, holds: true, may: true},
		"another mission":     {change: func(_ *Record, c *wire.Coordinates) { c.Entry = "m-2" }},
		"an older attempt":    {change: func(_ *Record, c *wire.Coordinates) { c.Attempt = "a-0" }},
		"an older execution":  {change: func(_ *Record, c *wire.Coordinates) { c.Execution = "x-0" }},
		"an older turn":       {change: func(_ *Record, c *wire.Coordinates) { c.Turn = "t-0" }},
		"no bridge":           {change: func(r *Record, c *wire.Coordinates) { r.Bridge.Execution, c.Execution = "", "" }},
		"ended":               {change: func(r *Record, _ *wire.Coordinates) { r.Phase = mission.Completed }},
		"named turn over":     {change: func(r *Record, _ *wire.Coordinates) { r.Turns[0].Outcome = &mission.TurnOutcome{} }},
		"last turn over":      {change: func(r *Record, c *wire.Coordinates) { c.Turn, r.Turns[0].Outcome = "", &mission.TurnOutcome{} }, holds: true},
		"no turn yet":         {change: func(r *Record, c *wire.Coordinates) { c.Turn, r.Turns = "", nil }, holds: true},
		"waits, turn named":   {change: func(r *Record, _ *wire.Coordinates) { r.Phase = mission.Waiting }, holds: true},
		"waits, none named":   {change: func(r *Record, c *wire.Coordinates) { c.Turn, r.Phase = "", mission.Waiting }, holds: true},
		"a moment before end": {later: time.Hour - time.Nanosecond, holds: true, may: true},
		"at the deadline":     {later: time.Hour, holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := Record{Phase: mission.Working, Attempt: "a-1", Bridge: Bridge{Execution: "x-1"}, Turns: []Turn{{ID: "t-1"}}, Deadline: mission.NewDeadline(start, 60)}
			r.ID = "m-1"
			at := wire.Coordinates{Entry: "m-1", Attempt: "a-1", Execution: "x-1", Turn: "t-1"}
			if c.change != nil {
				c.change(&r, &at)
			}
			if err := r.Holds(at); (err == nil) != c.holds || err != nil && wire.CodeOf(err) != wire.CodeStaleGeneration {
				t.Errorf("Holds: %v", err)
			}
			turn, err := r.Authority(at, mission.Instant{Wall: start.Wall.Add(c.later)})
			if (err == nil) != c.may || err != nil && wire.CodeOf(err) != wire.CodeStaleGeneration {
				t.Errorf("Authority: %v", err)
			}
			if err == nil && turn.ID != "t-1" {
				t.Errorf("the turn in flight is %q", turn.ID)
			}
		})
	}
}
