package mission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"pgregory.net/rapid"
)

var events = []mission.Event{mission.EvAllowed, mission.EvDenied, mission.EvExpired, mission.EvStarted, mission.EvStartFailed,
	mission.EvTurnStarted, mission.EvTurnEnded, mission.EvPause, mission.EvResume, mission.EvBlock, mission.EvStop,
	mission.EvDone, mission.EvSettled, mission.EvSettledDone, mission.EvClaimStuck}

func TestPhasePaths(t *testing.T) {
	for path, want := range map[string]mission.Phase{
		"allowed started turn_started turn_ended done settled_done": mission.Completed,
		"allowed started turn_started pause resume stop settled":    mission.Stopped,
		"allowed started turn_started expired settled":              mission.Stopped,
		"allowed started block resume turn_started":                 mission.Working,
		"allowed started stop claim_stuck":                          mission.Blocked,
		"allowed started stop claim_stuck stop settled":             mission.Stopped,
		"allowed start_failed":                                      mission.StartupFailed,
		"denied":                                                    mission.Denied,
		"expired settled":                                           mission.Stopped, // case 18: nobody answered, which is no denial
	} {
		p := mission.Proposed
		for e := range strings.SplitSeq(path, " ") {
			var err error
			if p, err = p.On(mission.Event(e)); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		if p != want {
			t.Errorf("%s leads to %s, want %s", path, p, want)
		}
	}
}

func TestPhaseMachine(t *testing.T) {
	reached := map[mission.Phase]bool{mission.Proposed: true}
	for _, p := range mission.Phases() {
		if p.Terminal() && p.Live() {
			t.Errorf("%s is both terminal and live", p)
		}
		for _, e := range append(events, "nonsense") {
			next, err := p.On(e)
			if err != nil {
				if next != p || !strings.Contains(err.Error(), string(p)) || !strings.Contains(err.Error(), string(e)) {
					t.Errorf("%s on %s: phase %s, error %q", p, e, next, err)
				}
				continue
			}
			reached[next] = true
			if p.Terminal() {
				t.Errorf("terminal %s goes on to %s", p, next)
			}
			if (next == mission.Completed || next == mission.Stopped) && p != mission.Stopping {
				t.Errorf("%s is entered from %s on %s, before anything settled", next, p, e)
			}
			if next == mission.Working && p != mission.Waiting {
				t.Errorf("a turn starts from %s", p)
			}
			if next == mission.Starting && e != mission.EvAllowed {
				t.Errorf("a mission starts on %s", e)
			}
		}
		if p.Live() && p != mission.Stopping {
			if _, err := p.On(mission.EvStop); err != nil {
				t.Errorf("a person cannot stop a mission that is %s", p)
			}
			if _, err := p.On(mission.EvExpired); err != nil {
				t.Errorf("the deadline cannot end a mission that is %s", p)
			}
		}
	}
	for _, p := range mission.Phases() {
		if !reached[p] {
			t.Errorf("%s cannot be reached", p)
		}
	}
}

func TestEndReasons(t *testing.T) {
	for r, want := range map[mission.EndReason]mission.Phase{
		mission.EndScopeDone: mission.Completed, mission.EndPerson: mission.Stopped, mission.EndDeadline: mission.Stopped,
		mission.EndBudget: mission.Stopped, mission.EndAuthority: mission.Stopped, mission.EndDenied: mission.Denied,
		mission.EndReason(mission.AuthenticationRequired): mission.StartupFailed,
	} {
		if got := r.Phase(); got != want {
			t.Errorf("%s ends as %s, want %s", r, got, want)
		}
		from := mission.Waiting
		switch want {
		case mission.Denied:
			from = mission.Proposed
		case mission.StartupFailed:
			from = mission.Starting
		}
		p, err := from.On(r.Event())
		if err == nil && p == mission.Stopping {
			p, err = p.On(r.Settled())
		}
		if err != nil || p != want {
			t.Errorf("%s: its events lead to %s (%v), want %s", r, p, err, want)
		}
	}
}

func TestDeadline(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	start := mission.Instant{Wall: at, Boot: time.Hour, BootID: "a"}
	d := mission.NewDeadline(start, 30)
	now := func(wall, boot time.Duration, id string) mission.Instant {
		return mission.Instant{Wall: at.Add(wall), Boot: time.Hour + boot, BootID: id}
	}
	for _, row := range []struct {
		name string
		now  mission.Instant
		left time.Duration
	}{
		{"at the start", start, 30 * time.Minute},
		{"ten minutes on", now(10*time.Minute, 10*time.Minute, "a"), 20 * time.Minute},
		{"asleep for two hours", now(2*time.Hour, 2*time.Hour, "a"), 0},
		{"wall clock set back an hour", now(-30*time.Minute, 30*time.Minute, "a"), 0},
		{"wall clock set back, time left", now(-50*time.Minute, 10*time.Minute, "a"), 20 * time.Minute},
		{"wall clock set forward", now(time.Hour, time.Minute, "a"), 0},
		{"another boot: its clock means nothing", now(10*time.Minute, -time.Hour, "b"), 20 * time.Minute},
		{"another boot, over", now(30*time.Minute, -time.Hour, "b"), 0},
		{"no boot clock", now(10*time.Minute, 9*time.Hour, ""), 20 * time.Minute},
	} {
		if got := d.Remaining(row.now); got != row.left {
			t.Errorf("%s: %v left, want %v", row.name, got, row.left)
		}
		if d.Passed(row.now) != (row.left == 0) {
			t.Errorf("%s: passed is %v", row.name, d.Passed(row.now))
		}
	}
	if !(mission.Deadline{}).Passed(start) {
		t.Error("a deadline that was never set has not passed")
	}
}

func TestNoClockGainsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(1_700_000_000, 0)
		minutes := rapid.IntRange(1, 16).Draw(t, "quarters") * 15
		d := mission.NewDeadline(mission.Instant{Wall: at, Boot: time.Minute, BootID: "a"}, minutes)
		passed := time.Duration(rapid.Int64Range(0, int64(5*time.Hour)).Draw(t, "passed"))
		shift := time.Duration(rapid.Int64Range(int64(-9*time.Hour), int64(9*time.Hour)).Draw(t, "clock set by"))
		left := d.Remaining(mission.Instant{Wall: at.Add(passed + shift), Boot: time.Minute + passed, BootID: "a"})
		if honest := max(time.Duration(minutes)*time.Minute-passed, 0); left > honest || left < 0 {
			t.Fatalf("%v left, but only %v are", left, honest)
		}
	})
}
