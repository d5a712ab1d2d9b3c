package mission

// Code names the cause of a failure. Codes are stable; sentences may change.
type Code string

// Causes on this machine.
const (
	AuthenticationRequired Code = "authentication_required"
	PermissionRequired     Code = "permission_required"
	RateLimited            Code = "rate_limited"
	MissingSession         Code = "missing_session"
	PrivateStateFailure    Code = "private_state_failure"
	SessionRecoveryFailed  Code = "session_recovery_failed"
	LocalExecutionFailure  Code = "local_execution_failure"
	RuntimeContactFailure  Code = "runtime_contact_failure"
	BudgetReached          Code = "budget_reached"
)

// Causes that a project service reports.
const (
	Unauthorized          Code = "unauthorized"
	Forbidden             Code = "forbidden"
	ProjectBusy           Code = "project_busy"
	RunActive             Code = "run_active"
	RunSuperseded         Code = "run_superseded"
	RuntimeUpdateRequired Code = "runtime_update_required"
	RuntimeConflict       Code = "runtime_conflict"
	InternalError         Code = "internal_error"
)

// Unknown stands for every other cause.
const Unknown Code = "unknown"

var sentences = map[Code]string{
	AuthenticationRequired: "The provider is not signed in; sign in with its own command, then resume the mission.",
	PermissionRequired:     "The provider refused for lack of permission; check what your account may use, then resume the mission.",
	RateLimited:            "The provider is limiting requests; wait until the limit is lifted, and Reeve will try again.",
	MissingSession:         "The provider no longer has this session; resume the mission to begin a fresh one.",
	PrivateStateFailure:    "Reeve could not use its private files; run reeve doctor, mend what it names, then resume the mission.",
	SessionRecoveryFailed:  "Neither the old session nor a fresh one could be opened; check that the provider works by itself, then resume the mission.",
	LocalExecutionFailure:  "The provider's program failed; look at the last lines of the transcript, and resume the mission when it works again.",
	RuntimeContactFailure:  "The project service could not be reached; check the network, and Reeve will try again.",
	BudgetReached:          "The mission has used its budget; start a new mission with a larger one if there is more to do.",
	Unauthorized:           "The project service no longer accepts this machine; pair the project again.",
	Forbidden:              "The project service does not allow this; ask the owner of the project for access.",
	ProjectBusy:            "The project is busy with another worker; wait until that one ends, then resume the mission.",
	RunActive:              "Another run of this project is active; stop that one, or wait for it to end.",
	RunSuperseded:          "A newer run has taken over this project; use that one, or start a new mission.",
	RuntimeUpdateRequired:  "The project service needs a newer Reeve; update Reeve, then resume the mission.",
	RuntimeConflict:        "The project service has a different record of this run; stop the mission and start a new one.",
	InternalError:          "The project service failed; try again later, and tell its owner if it goes on.",
	Unknown:                "The turn failed for a reason that Reeve does not know; look at the transcript, then resume or stop the mission.",
}

// Codes lists every code.
func Codes() []Code {
	return []Code{AuthenticationRequired, PermissionRequired, RateLimited, MissingSession, PrivateStateFailure,
		SessionRecoveryFailed, LocalExecutionFailure, RuntimeContactFailure, BudgetReached, Unauthorized, Forbidden,
		ProjectBusy, RunActive, RunSuperseded, RuntimeUpdateRequired, RuntimeConflict, InternalError, Unknown}
}

// Sentence tells a person what happened and what to do. It never contains
// provider output, which could say anything. A code that is not known gets the
// sentence of Unknown.
func (c Code) Sentence() string {
	if s, ok := sentences[c]; ok {
		return s
	}
	return sentences[Unknown]
}

// Retryable reports whether a turn that failed with this code may be tried
// again without a person. Everything else blocks at once, because trying again
// cannot help or could do harm.
func (c Code) Retryable() bool {
	return c == LocalExecutionFailure || c == RateLimited || c == RuntimeContactFailure
}
