package mission

import (
	"strings"
	"time"
)

// Outcome is how a turn ended.
type Outcome string

// The outcomes.
const (
	Succeeded   Outcome = "succeeded"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
	TimedOut    Outcome = "timed_out"
)

// Stage is the step of a turn that failed.
type Stage string

// The stages, in the order of a turn.
const (
	StageContact   Stage = "runtime_contact"
	StageOwnership Stage = "checkout_ownership"
	StageExecution Stage = "native_execution"
	StageCleanup   Stage = "checkout_cleanup"
	StageReport    Stage = "runtime_report"
)

// TurnOutcome is what a turn left behind.
type TurnOutcome struct {
	Outcome   Outcome  `json:"outcome"`
	Stage     Stage    `json:"stage,omitempty"`
	Code      Code     `json:"code,omitempty"`
	Retryable bool     `json:"retryable,omitempty"`
	Next      WorkNext `json:"next,omitempty"`
	Usage     Usage    `json:"usage"`
	Seconds   float64  `json:"seconds"`
	// ResetAt is when a rate limit ends, where the provider said so.
	ResetAt time.Time `json:"reset_at,omitzero"`
	// Why is a sentence of its own, where the code's would not tell enough:
	// which limit of the mission ended the turn.
	Why string `json:"why,omitempty"`
}

// FailedTurn returns the outcome of a turn that failed at stage with code.
// Retryable follows from the code.
func FailedTurn(stage Stage, code Code) TurnOutcome {
	return TurnOutcome{Outcome: Failed, Stage: stage, Code: code, Retryable: code.Retryable()}
}

// WorkNext is what the agent said about the work that is left.
type WorkNext string

// What an agent can say.
const (
	NextRunnable WorkNext = "runnable" // more can be done now
	NextWaiting  WorkNext = "waiting"  // nothing to do until there is news
	NextDone     WorkNext = "done"     // the whole scope is done
)

// ParseWorkNext reads the agent's last line. Only a last non-empty line that is
// exactly `WORK_NEXT: runnable`, `WORK_NEXT: waiting` or `WORK_NEXT: done`
// counts (white space after it is ignored, as nobody sees it); anything else
// means waiting, the one answer that neither spends nor ends anything.
func ParseWorkNext(text string) WorkNext {
	text = strings.TrimRight(text, " \t\r\n")
	line := text[strings.LastIndexByte(text, '\n')+1:]
	switch line {
	case "WORK_NEXT: runnable":
		return NextRunnable
	case "WORK_NEXT: done":
		return NextDone
	}
	return NextWaiting
}

// WithoutWorkNext returns the agent's words without the last line that
// ParseWorkNext reads, and without white space around them.
func WithoutWorkNext(text string) string {
	text = strings.TrimSpace(text)
	if at := strings.LastIndexByte(text, '\n') + 1; strings.HasPrefix(text[at:], "WORK_NEXT:") {
		text = text[:at]
	}
	return strings.TrimSpace(text)
}

// Sentence tells a person why the turn failed and what to do.
func (o TurnOutcome) Sentence() string {
	if o.Stage == StageOwnership {
		return "The folder was removed or replaced while the mission owned it, so its agent was stopped. Look at what happened there, then stop the mission."
	}
	if o.Why != "" {
		return o.Why
	}
	return o.Code.Sentence()
}
