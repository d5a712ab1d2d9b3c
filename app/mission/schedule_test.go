package mission_test

import (
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// waiting is a mission whose last turn ended a minute ago with nothing to do.
func waiting() mission.ScheduleInput {
	now := mission.Instant{Wall: noon, Boot: time.Hour, BootID: "a"}
	return mission.ScheduleInput{
		Now: now, Deadline: mission.NewDeadline(now, 60), Project: mission.ProjectStarted, ContactKnown: true,
		Last: &mission.TurnOutcome{Outcome: mission.Succeeded, Next: mission.NextWaiting}, LastEnded: noon.Add(-time.Minute),
		Spent: mission.Spent{Turns: 1},
	}
}

func TestSchedule(t *testing.T) {
	type in = mission.ScheduleInput
	fail := func(code mission.Code, n int, ago time.Duration) func(*in) {
		return func(i *in) {
			last := mission.FailedTurn(mission.StageExecution, code)
			i.Last, i.Failures, i.LastEnded = &last, n, noon.Add(-ago)
		}
	}
	next := func(n mission.WorkNext) func(*in) {
		return func(i *in) { i.Last = &mission.TurnOutcome{Outcome: mission.Succeeded, Next: n} }
	}
	both := func(fs ...func(*in)) func(*in) {
		return func(i *in) {
			for _, f := range fs {
				f(i)
			}
		}
	}
	limited := func(in time.Duration, n int, mayWait bool) func(*mission.ScheduleInput) {
		return func(i *mission.ScheduleInput) {
			fail(mission.RateLimited, n, 0)(i)
			i.Last.ResetAt, i.WaitForReset = noon.Add(in), mayWait
		}
	}
	steer := func(i *in) { i.SteeringQueued = 1 }
	paused := func(i *in) { i.Project = mission.ProjectPaused }
	over := func(i *in) { i.Now.Wall = noon.Add(time.Hour) }
	rows := []struct {
		name string
		set  func(*in)
		act  mission.Act
		end  mission.EndReason
		code mission.Code
		wait time.Duration
	}{
		{"waiting", func(*in) {}, mission.Wait, "", "", 14 * time.Minute},
		{"waiting, own interval", func(i *in) { i.Quiet = 5 * time.Minute }, mission.Wait, "", "", 4 * time.Minute},
		{"quiet for long enough", func(i *in) { i.LastEnded = noon.Add(-15 * time.Minute) }, mission.Run, "", "", 0},
		{"clock set back since", func(i *in) { i.LastEnded = noon.Add(9 * time.Hour) }, mission.Wait, "", "", 15 * time.Minute},
		{"deadline before the quiet interval", func(i *in) { i.Deadline.At = noon.Add(time.Minute) }, mission.Wait, "", "", time.Minute},
		{"first turn", func(i *in) { i.First, i.Last = true, nil }, mission.Run, "", "", 0},
		{"resumed by a person", func(i *in) { i.Last = nil }, mission.Run, "", "", 0},
		{"runnable", next(mission.NextRunnable), mission.Run, "", "", 0},
		{"no last line", next(""), mission.Wait, "", "", 14 * time.Minute},
		{"done", next(mission.NextDone), mission.Stop, mission.EndScopeDone, "", 0},
		{"done, but the person wants more", both(next(mission.NextDone), steer), mission.Run, "", "", 0},
		{"done, but a person wrote something", both(next(mission.NextDone), func(i *in) { i.News.Unread = 1 }), mission.Run, "", "", 0},
		{"done by a turn that failed", func(i *in) { fail(mission.RateLimited, 1, 0)(i); i.Last.Next = mission.NextDone }, mission.Wait, "", "", 10 * time.Second},
		{"done in a paused project", both(next(mission.NextDone), paused), mission.Stop, mission.EndScopeDone, "", 0},
		{"steering", steer, mission.Run, "", "", 0},
		{"a deferred send", func(i *in) { i.DeliveriesPending = 1 }, mission.Run, "", "", 0},
		{"newer revision", func(i *in) { i.News.Revision = 1 }, mission.Run, "", "", 0},
		{"seen revision", func(i *in) { i.News.Revision, i.News.Seen = 4, 4 }, mission.Wait, "", "", 14 * time.Minute},
		{"unread", func(i *in) { i.News.Unread = 1 }, mission.Run, "", "", 0},
		{"work in the project", func(i *in) { i.News.Runnable = true }, mission.Run, "", "", 0},
		{"deadline", over, mission.Stop, mission.EndDeadline, "", 0},
		{"deadline before everything", both(over, steer, next(mission.NextRunnable)), mission.Stop, mission.EndDeadline, "", 0},
		{"deadline on the boot clock", func(i *in) { i.Now.Boot += time.Hour; i.Now.Wall = noon.Add(-time.Hour) }, mission.Stop, mission.EndDeadline, "", 0},
		{"turns used up", both(steer, func(i *in) { i.Budget.Turns, i.Spent.Turns = 3, 3 }), mission.Stop, mission.EndBudget, mission.BudgetReached, 0},
		{"tokens used up", both(steer, func(i *in) { i.Budget.Tokens, i.Spent.Tokens = 10, 11 }), mission.Stop, mission.EndBudget, mission.BudgetReached, 0},
		{"cost used up", both(steer, func(i *in) { i.Budget.CostUSD, i.Spent.CostUSD = 1, 1 }), mission.Stop, mission.EndBudget, mission.BudgetReached, 0},
		{"a turn left", both(steer, func(i *in) { i.Budget.Turns, i.Spent.Turns = 3, 2 }), mission.Run, "", "", 0},
		{"project unknown", both(steer, func(i *in) { i.Project = mission.ProjectUnknown }), mission.Wait, "", "", time.Hour},
		{"project not set", both(steer, func(i *in) { i.Project = "" }), mission.Wait, "", "", time.Hour},
		{"project not started", both(steer, func(i *in) { i.Project = mission.ProjectNotStarted }), mission.Wait, "", "", time.Hour},
		{"project paused", both(steer, paused), mission.Wait, "", "", time.Hour},
		{"contact unknown", both(steer, func(i *in) { i.ContactKnown = false }), mission.Wait, "", "", time.Hour},
		{"interrupted by a project pause, resumed", func(i *in) { i.Interrupted = true }, mission.Run, "", "", 0},
		{"interrupted by a person, resumed", func(i *in) { i.Last.Outcome = mission.Interrupted }, mission.Run, "", "", 0},
		{"not interrupted, resumed", func(*in) {}, mission.Wait, "", "", 14 * time.Minute},
		{"rate limit with a reset, waiting allowed", limited(3*time.Hour, 1, true), mission.Wait, "", "", time.Hour}, // to the deadline
		{"rate limit with a reset before the deadline", limited(30*time.Minute, 1, true), mission.Wait, "", "", 30 * time.Minute},
		{"rate limit with a reset, third failure", limited(30*time.Minute, 3, true), mission.Wait, "", "", 30 * time.Minute},
		{"rate limit with a reset, steered", both(limited(30*time.Minute, 1, true), steer), mission.Wait, "", "", 30 * time.Minute},
		{"rate limit with a reset, waiting not allowed", limited(30*time.Minute, 1, false), mission.Block, "", mission.RateLimited, 0},
		{"rate limit that is over sooner than the next try", limited(5*time.Second, 1, false), mission.Wait, "", "", 10 * time.Second},
		{"rate limit lifted", both(limited(30*time.Minute, 1, true), func(i *in) { i.Now.Wall = noon.Add(30 * time.Minute) }), mission.Run, "", "", 0},
		{"rate limit lifted, third failure", both(limited(30*time.Minute, 3, true), func(i *in) { i.Now.Wall = noon.Add(30 * time.Minute) }), mission.Run, "", "", 0},
		{"rate limit in the last minutes", both(limited(30*time.Minute, 1, true), over), mission.Stop, mission.EndDeadline, "", 0},
		{"rate limit, budget used up", both(limited(30*time.Minute, 1, true), func(i *in) { i.Budget.Turns, i.Spent.Turns = 3, 3 }), mission.Stop, mission.EndBudget, mission.BudgetReached, 0},
		{"a reset with another failure", func(i *in) { fail(mission.LocalExecutionFailure, 1, 0)(i); i.Last.ResetAt = noon.Add(time.Hour) }, mission.Wait, "", "", 10 * time.Second},
		{"first failure", fail(mission.LocalExecutionFailure, 1, 0), mission.Wait, "", "", 10 * time.Second},
		{"second failure", fail(mission.RateLimited, 2, 0), mission.Wait, "", "", 20 * time.Second},
		{"steering does not hurry it", both(fail(mission.RateLimited, 1, 0), steer), mission.Wait, "", "", 10 * time.Second},
		{"backed off", fail(mission.LocalExecutionFailure, 2, 20*time.Second), mission.Run, "", "", 0},
		{"third failure", fail(mission.LocalExecutionFailure, 3, time.Hour), mission.Block, "", mission.LocalExecutionFailure, 0},
		{"contact failure", fail(mission.RuntimeContactFailure, 1, 0), mission.Wait, "", "", 10 * time.Second},
		{"not signed in", fail(mission.AuthenticationRequired, 1, 0), mission.Block, "", mission.AuthenticationRequired, 0},
		{"an adapter's word is not enough", func(i *in) { fail(mission.AuthenticationRequired, 1, 0)(i); i.Last.Retryable = true }, mission.Block, "", mission.AuthenticationRequired, 0},
		{"a lasting contact failure", func(i *in) { fail(mission.RuntimeContactFailure, 1, 0)(i); i.Last.Retryable = false }, mission.Block, "", mission.RuntimeContactFailure, 0},
		{"failure without a code", fail("", 1, 0), mission.Block, "", mission.Unknown, 0},
		{"timed out", func(i *in) { i.Last.Outcome, i.LastEnded = mission.TimedOut, noon }, mission.Wait, "", "", 10 * time.Second},
		{"unanswered messages", both(steer, func(i *in) { i.Unacknowledged = 3 }), mission.Block, "", "", 0},
		{"two unanswered", both(steer, func(i *in) { i.Unacknowledged = 2 }), mission.Run, "", "", 0},
	}
	for _, row := range rows {
		i := waiting()
		row.set(&i)
		got := mission.Schedule(i)
		if got.Act != row.act || got.End != row.end || got.Code != row.code {
			t.Errorf("%s: got %+v, want %s %s %s", row.name, got, row.act, row.end, row.code)
		}
		if got.Act == mission.Wait && got.Until.Sub(i.Now.Wall) != row.wait {
			t.Errorf("%s: waits %v, want %v", row.name, got.Until.Sub(i.Now.Wall), row.wait)
		}
		if got.Reason == "" {
			t.Errorf("%s: no reason", row.name)
		}
	}
}

func drawInput(t *rapid.T) mission.ScheduleInput {
	i := waiting()
	minutes := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(-90, 90).Draw(t, name)) * time.Minute
	}
	i.Now.Wall = noon.Add(minutes("wall"))
	i.Now.Boot += minutes("boot")
	i.LastEnded = noon.Add(minutes("ended"))
	i.Project = rapid.SampledFrom([]mission.ProjectState{"", "unknown", "not_started", "started", "paused"}).Draw(t, "project")
	i.ContactKnown = rapid.Bool().Draw(t, "contact")
	i.News = mission.News{Unread: rapid.IntRange(0, 2).Draw(t, "unread"), Revision: rapid.Uint64Range(0, 3).Draw(t, "revision"), Seen: 1}
	i.SteeringQueued = rapid.IntRange(0, 2).Draw(t, "steering")
	i.Failures = rapid.IntRange(0, 4).Draw(t, "failures")
	i.Unacknowledged = rapid.IntRange(0, 4).Draw(t, "unacknowledged")
	i.First = rapid.Bool().Draw(t, "first")
	i.Budget.Turns = rapid.IntRange(0, 3).Draw(t, "budget")
	i.Spent.Turns = rapid.IntRange(0, 3).Draw(t, "turns")
	if i.First {
		i.Last = nil
	} else {
		i.Last.Outcome = rapid.SampledFrom([]mission.Outcome{"succeeded", "failed", "interrupted", "timed_out"}).Draw(t, "outcome")
		i.Last.Code = rapid.SampledFrom(append(mission.Codes(), "")).Draw(t, "code")
		i.Last.Retryable = rapid.Bool().Draw(t, "retryable")
		if rapid.Bool().Draw(t, "reset") {
			i.Last.ResetAt = noon.Add(minutes("reset at"))
		}
		i.WaitForReset = rapid.Bool().Draw(t, "wait for reset")
		i.Last.Next = rapid.SampledFrom([]mission.WorkNext{"", "runnable", "waiting", "done"}).Draw(t, "next")
	}
	return i
}

func TestScheduleHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := drawInput(t)
		d := mission.Schedule(i)
		if d != mission.Schedule(i) {
			t.Fatal("the same input gave two decisions")
		}
		switch d.Act {
		case mission.Run:
			switch {
			case i.Deadline.Passed(i.Now):
				t.Fatal("runs after the deadline")
			case i.Project != mission.ProjectStarted || !i.ContactKnown:
				t.Fatal("runs in a project that is not known to be started")
			case i.Budget.Turns > 0 && i.Spent.Turns >= i.Budget.Turns:
				t.Fatal("runs beyond the budget")
			case i.Failures >= 3 || i.Unacknowledged >= 3:
				t.Fatal("runs though a person is needed")
			}
		case mission.Wait:
			if !d.Until.After(i.Now.Wall) {
				t.Fatalf("waits until %v, which is not after %v", d.Until, i.Now.Wall)
			}
			if d.Until.After(i.Now.Wall.Add(i.Deadline.Remaining(i.Now))) {
				t.Fatal("waits beyond the deadline")
			}
		case mission.Stop:
			if d.End == "" {
				t.Fatal("stops without a reason")
			}
		case mission.Block:
			if d.End != "" {
				t.Fatal("blocks with an end reason")
			}
		default:
			t.Fatalf("unknown act %q", d.Act)
		}
	})
}

func TestJitterStaysWithinATenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "base"))
		got := mission.Jitter(base, rapid.Float64().Draw(t, "r"))
		if got < base*9/10-time.Microsecond || got > base*11/10+time.Microsecond {
			t.Fatalf("%v became %v", base, got)
		}
	})
}
