package mission

// GuardState is what is known of the guard of a mission.
type GuardState string

// The states of a guard.
const (
	GuardNone      GuardState = ""          // not up yet
	GuardAnswers   GuardState = "answers"   // alive, and claimed by this service
	GuardGone      GuardState = "gone"      // proven to have ended, with everything below it
	GuardUncertain GuardState = "uncertain" // it may be alive, but can't be identified or doesn't answer
)

// Recovery says what can be done about a mission that is not terminal. It is
// derived from the record and the guard each time it is shown, never stored.
type Recovery string

// The recoveries. NotRecoverable is a mission that runs no guard because it
// was not started yet, or that has ended or is about to.
const (
	NotRecoverable    Recovery = ""
	SupervisorPresent Recovery = "supervisor_present" // adopted; nobody has to act
	ApprovalRequired  Recovery = "approval_required"  // recover, with approval, or cancel
	RecoveryExpired   Recovery = "expired"            // only a new mission
	OwnerUncertain    Recovery = "owner_uncertain"    // nothing is taken over and nothing is killed
)

// Recover derives what can be done. expired says that the original deadline,
// which recovery never moves, has passed.
func Recover(p Phase, g GuardState, expired bool) Recovery {
	switch {
	case !p.Live(), g == GuardNone, p == Stopping && g == GuardGone:
		return NotRecoverable
	case g == GuardAnswers:
		return SupervisorPresent
	case g == GuardUncertain:
		return OwnerUncertain
	case expired:
		return RecoveryExpired
	}
	return ApprovalRequired
}
