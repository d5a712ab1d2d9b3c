package mission

import "time"

// Times of the scheduler.
const (
	QuietInterval = 15 * time.Minute // a waiting agent looks again after this
	firstBackoff  = 10 * time.Second
	maxBackoff    = 5 * time.Minute
	maxFailures   = 3 // failures in a row, or turns that left the same messages unacknowledged
)

// ProjectState is what the project service says about the project. A local
// project is always started.
type ProjectState string

// The states of a project. Unknown is not paused: it starts nothing and cancels
// nothing.
const (
	ProjectUnknown    ProjectState = "unknown"
	ProjectNotStarted ProjectState = "not_started"
	ProjectStarted    ProjectState = "started"
	ProjectPaused     ProjectState = "paused"
)

// News is what came from the room since the last turn began.
type News struct {
	Unread   int    // messages of persons that the agent has not acknowledged
	Revision uint64 // the newest revision of the work
	Seen     uint64 // the revision that the last turn saw
	Runnable bool   // the project says that there is work for this agent
}

// ScheduleInput is all that the scheduler looks at.
type ScheduleInput struct {
	Now               Instant
	Deadline          Deadline
	Project           ProjectState
	ContactKnown      bool
	News              News
	SteeringQueued    int
	DeliveriesPending int          // deferred sends that ask for a continuation
	First             bool         // no turn has run yet
	Last              *TurnOutcome // nil: none, or cleared by a person's resume; runs at once
	LastEnded         time.Time    // when Last ended
	Failures          int          // in a row, Last included
	Unacknowledged    int          // turns in a row that left the same messages unacknowledged
	Spent             Spent        // by all turns
	Budget            Budget
	CPUSeconds        float64 // processor time that the mission's processes used
	Limits            Limits
	Quiet             time.Duration // jittered quiet interval; zero: QuietInterval
	Interrupted       bool          // a project pause interrupted the last turn
	Updating          bool          // an update of the service is open
	WaitForReset      bool          // the mission may wait for the end of a rate limit
}

// Act is what to do now.
type Act string

// The acts.
const (
	Run   Act = "run"
	Wait  Act = "wait"
	Stop  Act = "stop"
	Block Act = "block"
)

// Decision is the scheduler's answer.
type Decision struct {
	Act    Act
	Until  time.Time // Wait: ask again then at the latest, and whenever an input changes
	Reason string    // a short sentence for the person
	Code   Code      // the failure behind Block, where there is one
	End    EndReason // Stop: why
}

// Schedule says whether the next turn runs now. It is deterministic: the same
// input gives the same decision. It never returns Run once the deadline passed,
// and a Wait never reaches beyond the deadline.
//
// The order of the rules matters: what ends a mission comes first, then what
// needs a person, then what keeps any turn from starting, then what starts one.
func Schedule(in ScheduleInput) Decision {
	if in.Deadline.Passed(in.Now) {
		return Decision{Act: Stop, End: EndDeadline, Reason: "The time of the mission is over."}
	}
	wanted := in.SteeringQueued > 0 || in.DeliveriesPending > 0 || in.News.Unread > 0
	if in.Last != nil && in.Last.Outcome == Succeeded && in.Last.Next == NextDone && !wanted {
		return Decision{Act: Stop, End: EndScopeDone, Reason: "The agent says that the whole scope is done."}
	}
	if what := in.Budget.reached(in.Spent); what != "" {
		return Decision{Act: Stop, End: EndBudget, Code: BudgetReached, Reason: "The mission has used its budget of " + what + "."}
	}
	if in.Limits.CPUReached(in.CPUSeconds) {
		return Decision{Act: Stop, End: EndBudget, Code: BudgetReached, Reason: in.Limits.OverCPU().Sentence()}
	}
	if d, blocked := in.blocked(); blocked {
		return d
	}
	if why := in.held(); why != "" {
		return in.wait(in.Deadline.Remaining(in.Now), why)
	}
	if in.First || in.Last == nil {
		return Decision{Act: Run, Reason: "The next turn can start."}
	}
	if in.failed() {
		left := in.left(backoff(max(in.Failures, 1)))
		if until := in.limited(); until.After(wall(in.Now.Wall)) {
			return in.wait(max(left, until.Sub(wall(in.Now.Wall))), "The provider is limiting requests; it will be tried again when the limit is lifted.")
		}
		if left > 0 {
			return in.wait(left, "The last turn failed; it will be tried again.")
		}
		return Decision{Act: Run, Reason: "The last turn failed and is tried again."}
	}
	switch {
	case in.SteeringQueued > 0:
		return Decision{Act: Run, Reason: "There is a new instruction from the person."}
	case in.DeliveriesPending > 0:
		return Decision{Act: Run, Reason: "The results of earlier sends have to be handed over."}
	case in.Interrupted || in.Last.Outcome == Interrupted:
		return Decision{Act: Run, Reason: "The interrupted turn goes on."}
	case in.Last.Next == NextRunnable:
		return Decision{Act: Run, Reason: "The agent has more to do."}
	case in.News.Revision > in.News.Seen, in.News.Unread > 0, in.News.Runnable:
		return Decision{Act: Run, Reason: "There is news in the project."}
	}
	quiet := in.Quiet
	if quiet <= 0 {
		quiet = QuietInterval
	}
	if left := in.left(quiet); left > 0 {
		return in.wait(left, "The agent waits for news.")
	}
	return Decision{Act: Run, Reason: "It has been quiet for a while; the agent looks again."}
}

// blocked reports what needs a person.
func (in ScheduleInput) blocked() (Decision, bool) {
	block := func(code Code, reason string) (Decision, bool) {
		return Decision{Act: Block, Code: code, Reason: reason}, true
	}
	if in.failed() {
		code := in.Last.Code
		if code == "" {
			code = Unknown
		}
		if until := in.limited(); !until.IsZero() {
			if in.WaitForReset {
				return Decision{}, false // nothing is tried meanwhile, so nothing is counted
			}
			if until.After(wall(in.Now.Wall)) {
				return block(code, Limited(until.In(in.Now.Wall.Location())))
			}
		}
		if !in.Last.retryable() || in.Failures >= maxFailures {
			return block(code, in.Last.Sentence())
		}
	} else if in.Failures >= maxFailures {
		return block(Unknown, Unknown.Sentence())
	}
	if in.Unacknowledged >= maxFailures {
		return block("", "Three turns left the same messages unanswered; read them, then steer or resume the mission.")
	}
	return Decision{}, false
}

// limited returns when the rate limit ends that made the last turn fail, zero
// if none did or its end is not known. A limit that is over before the turn
// would be tried again anyway is an ordinary failure.
func (in ScheduleInput) limited() time.Time {
	if !in.failed() || in.Last.Code != RateLimited || in.Last.ResetAt.IsZero() {
		return time.Time{}
	}
	until := wall(in.Last.ResetAt)
	if !until.After(wall(in.LastEnded).Add(backoff(max(in.Failures, 1)))) {
		return time.Time{}
	}
	return until
}

// Limited says that a rate limit blocks a mission, and until when, in the
// location of until.
func Limited(until time.Time) string {
	return "The provider is limiting requests until " + until.Format("15:04 on 2 January") +
		", and this mission may not wait for that by itself; resume it then, or stop it."
}

func (in ScheduleInput) failed() bool {
	return in.Last != nil && (in.Last.Outcome == Failed || in.Last.Outcome == TimedOut)
}

// retryable holds the adapter's word against the rule: both must agree. A turn
// that only ran out of time has no code and may run again.
func (o TurnOutcome) retryable() bool {
	if o.Outcome == TimedOut && o.Code == "" {
		return true
	}
	return o.Retryable && o.Code.Retryable()
}

// held reports why no turn may start, or nothing.
func (in ScheduleInput) held() string {
	switch {
	case in.Updating:
		return "Reeve is being updated."
	case in.Project == ProjectPaused:
		return "The project is paused."
	case in.Project == ProjectNotStarted:
		return "The project has not been started."
	case in.Project != ProjectStarted:
		return "The state of the project is not known yet."
	case !in.ContactKnown:
		return "The project service has not been reached."
	}
	return ""
}

// left returns what remains of d since the last turn ended. A clock that was
// set back must not make it longer than d.
func (in ScheduleInput) left(d time.Duration) time.Duration {
	return min(wall(in.LastEnded).Add(d).Sub(wall(in.Now.Wall)), d)
}

func (in ScheduleInput) wait(d time.Duration, reason string) Decision {
	d = min(d, in.Deadline.Remaining(in.Now))
	return Decision{Act: Wait, Until: wall(in.Now.Wall).Add(d), Reason: reason}
}

// backoff returns the pause after the n-th failure in a row, n from 1.
func backoff(n int) time.Duration {
	d := firstBackoff
	for range n - 1 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// Jitter spreads base by up to a tenth in both directions, so that many
// missions do not wake together. r is a random number from 0 to 1.
func Jitter(base time.Duration, r float64) time.Duration {
	if !(r >= 0) { // NaN, too
		r = 0
	}
	return time.Duration(float64(base) * (0.9 + 0.2*min(r, 1)))
}
