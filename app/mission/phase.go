package mission

import "fmt"

// Phase is where a mission stands.
type Phase string

// The phases. Completed, Stopped, Denied and StartupFailed are terminal.
const (
	Proposed      Phase = "proposed" // waits for the start approval; owns nothing
	Starting      Phase = "starting" // claims the checkout, opens the provider
	Waiting       Phase = "waiting"  // between turns
	Working       Phase = "working"  // one turn is in flight
	Paused        Phase = "paused"   // by a person; the deadline stands
	Blocked       Phase = "blocked"  // needs a person
	Stopping      Phase = "stopping" // the turn settles, the claim is released
	Completed     Phase = "completed"
	Stopped       Phase = "stopped"
	Denied        Phase = "denied"
	StartupFailed Phase = "startup_failed"
)

// Phases lists every phase, in the order of a mission's life.
func Phases() []Phase {
	return []Phase{Proposed, Starting, Waiting, Working, Paused, Blocked, Stopping, Completed, Stopped, Denied, StartupFailed}
}

// Terminal reports whether nothing follows.
func (p Phase) Terminal() bool {
	return p == Completed || p == Stopped || p == Denied || p == StartupFailed
}

// Live reports whether the mission owns, or may own, a checkout.
func (p Phase) Live() bool {
	switch p {
	case Starting, Waiting, Working, Paused, Blocked, Stopping:
		return true
	}
	return false
}

// Event is what moves a mission from one phase to another.
type Event string

// The events.
const (
	EvAllowed     Event = "allowed"      // the person allowed the start
	EvDenied      Event = "denied"       // the person denied the start
	EvExpired     Event = "expired"      // the deadline passed, or nobody answered the start approval in time
	EvStarted     Event = "started"      // checkout claimed, provider open
	EvStartFailed Event = "start_failed" // starting failed, and everything it had taken was given back
	EvTurnStarted Event = "turn_started"
	EvTurnEnded   Event = "turn_ended"
	EvPause       Event = "pause" // by a person, after the turn in flight settled
	EvResume      Event = "resume"
	EvBlock       Event = "block"
	EvRecover     Event = "recover"      // a person allowed a mission whose guard is gone to go on
	EvStop        Event = "stop"         // by a person, the budget or lost authority
	EvDone        Event = "done"         // the agent finished the whole scope
	EvSettled     Event = "settled"      // process tree empty and claim released; ends as stopped
	EvSettledDone Event = "settled_done" // the same after EvDone; ends as completed
	EvClaimStuck  Event = "claim_stuck"  // the claim could not be released; ownership is kept
)

// transitions is the whole phase machine. Completed and stopped are entered
// only from stopping, so that neither can be shown while a process lives or a
// checkout is owned; that holds for a proposal too, which settles at once.
var transitions = map[Phase]map[Event]Phase{
	Proposed: {EvAllowed: Starting, EvDenied: Denied, EvExpired: Stopping, EvStop: Stopping},
	Starting: {EvStarted: Waiting, EvStartFailed: StartupFailed, EvBlock: Blocked, EvExpired: Stopping, EvStop: Stopping, EvClaimStuck: Blocked},
	Waiting:  {EvTurnStarted: Working, EvPause: Paused, EvBlock: Blocked, EvDone: Stopping, EvExpired: Stopping, EvStop: Stopping},
	Working:  {EvTurnEnded: Waiting, EvPause: Paused, EvBlock: Blocked, EvDone: Stopping, EvExpired: Stopping, EvStop: Stopping},
	Paused:   {EvResume: Waiting, EvBlock: Blocked, EvExpired: Stopping, EvStop: Stopping},
	Blocked:  {EvResume: Waiting, EvRecover: Starting, EvExpired: Stopping, EvStop: Stopping},
	Stopping: {EvSettled: Stopped, EvSettledDone: Completed, EvClaimStuck: Blocked},
}

// On returns the phase after e, or an error that names both. The phase is
// unchanged when there is an error.
//
// A mission that is blocked because its claim is stuck already has an end
// reason; its owner repeats EvStop rather than resuming it.
func (p Phase) On(e Event) (Phase, error) {
	if next, ok := transitions[p][e]; ok {
		return next, nil
	}
	return p, fmt.Errorf("a mission that is %s cannot take the event %s", p, e)
}

// EndReason says why a mission ended: one of the constants, or the Code of the
// failure that kept it from starting.
type EndReason string

// The end reasons that are not failure codes.
const (
	EndScopeDone EndReason = "scope_done"
	EndPerson    EndReason = "person"
	EndDeadline  EndReason = "deadline"
	EndBudget    EndReason = "budget"
	EndAuthority EndReason = "authority"
	EndDenied    EndReason = "denied"
)

// Phase returns the terminal phase that belongs to the reason.
func (r EndReason) Phase() Phase {
	switch r {
	case EndScopeDone:
		return Completed
	case EndPerson, EndDeadline, EndBudget, EndAuthority:
		return Stopped
	case EndDenied:
		return Denied
	}
	return StartupFailed
}

// Event returns what starts the ending for this reason.
func (r EndReason) Event() Event {
	switch r.Phase() {
	case Completed:
		return EvDone
	case Denied:
		return EvDenied
	case StartupFailed:
		return EvStartFailed
	}
	if r == EndDeadline {
		return EvExpired
	}
	return EvStop
}

// Settled returns the event that a stopping mission takes once its process
// tree is empty and its claim released.
func (r EndReason) Settled() Event {
	if r == EndScopeDone {
		return EvSettledDone
	}
	return EvSettled
}
