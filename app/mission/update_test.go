package mission

import (
	"testing"
	"time"
)

func TestUpdateAct(t *testing.T) {
	for _, c := range []struct {
		name string
		w    UpdateWorker
		want UpdateAct
	}{
		{"spoken, in a turn", UpdateWorker{Phase: Working, Guard: GuardAnswers, Protocol: 2, Turn: true}, UpdateGoesOn},
		{"newer, asks", UpdateWorker{Phase: Working, Guard: GuardAnswers, Protocol: 3, Turn: true, Asks: true}, UpdateGoesOn},
		{"spoken, stopping", UpdateWorker{Phase: Stopping, Guard: GuardAnswers, Protocol: 2}, UpdateGoesOn},
		{"old, in a turn", UpdateWorker{Phase: Working, Guard: GuardAnswers, Protocol: 1, Turn: true}, UpdateWait},
		{"old, its turn asks", UpdateWorker{Phase: Working, Guard: GuardAnswers, Protocol: 1, Turn: true, Asks: true}, UpdateEnd},
		{"old, waiting", UpdateWorker{Phase: Waiting, Guard: GuardAnswers, Protocol: 1}, UpdateEnd},
		{"old, paused", UpdateWorker{Phase: Paused, Guard: GuardAnswers, Protocol: 1}, UpdateEnd},
		{"old, blocked", UpdateWorker{Phase: Blocked, Guard: GuardAnswers, Protocol: 1}, UpdateEnd},
		{"old, blocked in a turn that is being interrupted", UpdateWorker{Phase: Blocked, Guard: GuardAnswers, Protocol: 1, Turn: true}, UpdateWait},
		{"old, stopping", UpdateWorker{Phase: Stopping, Guard: GuardAnswers, Protocol: 1}, UpdateWait},
		{"starting", UpdateWorker{Phase: Starting}, UpdateWait},
		{"silent", UpdateWorker{Phase: Blocked, Guard: GuardUncertain, Protocol: 1}, UpdateLeave},
		{"gone", UpdateWorker{Phase: Blocked, Guard: GuardGone, Protocol: 1}, UpdateLeave},
		{"proposed", UpdateWorker{Phase: Proposed}, UpdateLeave},
		{"ended", UpdateWorker{Phase: Stopped, Guard: GuardAnswers}, UpdateLeave},
	} {
		if got := c.w.Act(2); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestResumesAfterUpdate(t *testing.T) {
	for _, p := range Phases() {
		want := p == Waiting || p == Working || p == Paused
		if got := ResumesAfterUpdate(p, false); got != want {
			t.Errorf("%s: %v", p, got)
		}
		if ResumesAfterUpdate(p, true) {
			t.Errorf("%s with secrets goes on without them", p)
		}
	}
}

func TestManifest(t *testing.T) {
	then := Instant{Wall: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Boot: time.Hour, BootID: "b"}
	later := func(d time.Duration) Instant {
		return Instant{Wall: then.Wall.Add(d), Boot: then.Boot + d, BootID: "b"}
	}
	m := NewManifest(then, 4, []UpdateEntry{{Mission: "m-2"}, {Mission: "m-1"}})
	if m.Missions[0].Mission != "m-1" {
		t.Errorf("the younger mission comes first: %+v", m.Missions)
	}
	reboot, newer, unknown := later(time.Minute), m, m
	reboot.BootID = "c"
	newer.Format++
	unknown.BootID = ""
	for _, c := range []struct {
		name       string
		m          UpdateManifest
		now        Instant
		generation uint64
		takes      bool
	}{
		{"at once", m, later(0), 5, true},
		{"in time", m, later(10 * time.Minute), 5, true},
		{"late", m, later(10*time.Minute + 1), 5, false},
		{"before it was written", m, later(-time.Second), 5, false},
		{"wall clock set back", m, Instant{Wall: then.Wall.Add(-time.Hour), Boot: then.Boot + time.Minute, BootID: "b"}, 5, true},
		{"after another service", m, later(time.Minute), 6, false},
		{"by the service itself", m, later(time.Minute), 4, false},
		{"after a reboot", m, reboot, 5, false},
		{"boot not known", unknown, Instant{Wall: then.Wall}, 5, false},
		{"of a newer format", newer, later(0), 5, false},
		{"empty", UpdateManifest{}, later(0), 1, false},
	} {
		if why := c.m.Refuse(c.now, c.generation); (why == "") != c.takes {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

func TestUpdateEntryFits(t *testing.T) {
	e := UpdateEntry{Attempt: "a-1", Turn: 3, Queued: []int{2}}
	if !e.Fits("a-1", 3, []int{2}) || e.Fits("a-2", 3, []int{2}) || e.Fits("a-1", 4, []int{2}) || e.Fits("a-1", 3, nil) {
		t.Error("an entry fits what it should not, or the other way round")
	}
}

func TestUpdateOver(t *testing.T) {
	began := Instant{Wall: time.Unix(1000, 0), Boot: time.Hour, BootID: "b"}
	for _, c := range []struct {
		name       string
		wall, boot time.Duration
		id         string
		want       bool
	}{
		{"in time", 89 * time.Second, 89 * time.Second, "b", false},
		{"over", 90 * time.Second, 90 * time.Second, "b", true},
		{"clock set back", -time.Hour, 90 * time.Second, "b", true},
		{"no boot clock", 90 * time.Second, 0, "", true},
		{"another boot clock", 0, 90 * time.Second, "", false},
	} {
		if got := UpdateOver(began, Instant{Wall: began.Wall.Add(c.wall), Boot: began.Boot + c.boot, BootID: c.id}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// No turn begins while an update is open.
func TestScheduleWaitsForUpdate(t *testing.T) {
	now := Instant{Wall: time.Unix(1000, 0)}
	in := ScheduleInput{Now: now, Deadline: NewDeadline(now, 60), Project: ProjectStarted, ContactKnown: true, First: true, Updating: true}
	if d := Schedule(in); d.Act != Wait {
		t.Errorf("%+v", d)
	}
	if in.Updating = false; Schedule(in).Act != Run {
		t.Error("it waits without an update, too")
	}
}
