package mission

import (
	"strings"
	"testing"
	"time"
)

func TestCheckLimits(t *testing.T) {
	for _, c := range []struct {
		l  Limits
		ok bool
	}{
		{Limits{}, true}, {Limits{MemoryMB: 256, CPUMinutes: 1}, true}, {Limits{MemoryMB: 1 << 20, CPUMinutes: 14_400}, true},
		{Limits{MemoryMB: 255}, false}, {Limits{MemoryMB: 1<<20 + 1}, false}, {Limits{MemoryMB: -1}, false},
		{Limits{CPUMinutes: -1}, false}, {Limits{CPUMinutes: 14_401}, false},
	} {
		if p := CheckLimits(c.l); (p == nil) != c.ok || p != nil && p.Field != "limits" {
			t.Errorf("%+v: %v", c.l, p)
		}
	}
	terms := Terms{Provider: "claude", Folder: "/src", Scope: "s", Minutes: 60, Limits: Limits{MemoryMB: 1}}
	if p := terms.Check(); len(p) != 1 || p[0].Field != "limits" {
		t.Errorf("terms: %v", p)
	}
}

func TestDefaultMemory(t *testing.T) {
	for physical, want := range map[int64]int64{0: 0, -1: 0, 1 << 29: 1 << 10, 16 << 30: 12 << 10, 1 << 50: MaxMemoryMB} {
		if got := DefaultMemoryMB(physical); got != want {
			t.Errorf("of %d bytes: %d MiB, want %d", physical, got, want)
		}
	}
}

// A turn that a limit ended is not tried again by itself, and says which limit
// and what was used.
func TestOverALimit(t *testing.T) {
	l := Limits{MemoryMB: 512, CPUMinutes: 30}
	for used, want := range map[int64][]string{
		600 << 20: {"600 MiB", "512 MiB"}, 512 << 20: {"reached", "512 MiB"}, 3 << 29: {"1.5 GiB", "512 MiB"},
	} {
		o := l.OverMemory(used)
		for _, part := range want {
			if !strings.Contains(o.Sentence(), part) {
				t.Errorf("%d bytes: %q lacks %q", used, o.Sentence(), part)
			}
		}
		now := Instant{Wall: time.Unix(1e9, 0)}
		in := ScheduleInput{Now: now, Deadline: NewDeadline(now, 60), Project: ProjectStarted, ContactKnown: true, Last: &o, LastEnded: now.Wall, Failures: 1, Limits: l}
		if d := Schedule(in); d.Act != Block || d.Code != LocalExecutionFailure || d.Reason != o.Sentence() {
			t.Errorf("after %d bytes: %+v", used, d)
		}
		in.Last, in.Failures = nil, 0 // a person resumed it
		if d := Schedule(in); d.Act != Run {
			t.Errorf("resumed: %+v", d)
		}
	}
	if l.CPUReached(1799.9) || !l.CPUReached(1800) || (Limits{}).CPUReached(1e9) {
		t.Error("when processor time is used up")
	}
	now := Instant{Wall: time.Unix(1e9, 0)}
	in := ScheduleInput{Now: now, Deadline: NewDeadline(now, 60), Project: ProjectStarted, ContactKnown: true, Limits: l, First: true, CPUSeconds: 1799}
	if d := Schedule(in); d.Act != Run {
		t.Errorf("below: %+v", d)
	}
	out := l.OverCPU()
	in.CPUSeconds, in.First, in.Last, in.Failures, in.SteeringQueued = 1800, false, &out, 1, 1
	if d := Schedule(in); d.Act != Stop || d.End != EndBudget || d.Code != BudgetReached || !strings.Contains(d.Reason, "30 minutes") {
		t.Errorf("reached: %+v", d)
	}
}

func TestLookIn(t *testing.T) {
	const usual = 5 * time.Second
	for name, c := range map[string]struct {
		l       Limits
		memory  int64
		seconds float64
		watched bool
		want    time.Duration
	}{
		"no limit":           {Limits{}, 1 << 40, 1e9, true, usual},
		"far from it":        {Limits{MemoryMB: 32 << 10}, 1 << 30, 0, true, usual},
		"nearer":             {Limits{MemoryMB: 8 << 10}, 6 << 30, 0, true, time.Second},
		"small":              {Limits{MemoryMB: 256}, 0, 0, true, 250 * time.Millisecond},
		"over it":            {Limits{MemoryMB: 256}, 1 << 30, 0, true, 250 * time.Millisecond},
		"the system's":       {Limits{MemoryMB: 256}, 0, 0, false, usual},
		"processor time":     {Limits{CPUMinutes: 1}, 0, 56, false, time.Second},
		"much time is left":  {Limits{CPUMinutes: 60}, 0, 56, false, usual},
		"its time has ended": {Limits{CPUMinutes: 1}, 0, 90, false, 250 * time.Millisecond},
	} {
		if got := c.l.LookIn(usual, c.memory, c.seconds, 4, c.watched); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := (Limits{MemoryMB: 256}).LookIn(20*time.Millisecond, 0, 0, 1, true); got != 20*time.Millisecond {
		t.Errorf("a usual time below the least: %v", got)
	}
}
