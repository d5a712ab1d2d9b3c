// Package effects keeps the journal of what workers do beyond their own
// processes, so that nothing is done twice and nothing is forgotten. It writes
// inside the caller's transaction: an effect that the service runs itself is
// journaled together with its completion. Announcing comes after the commit
// and belongs to the caller.
//
// An effect is executing from the moment its worker may do it. It ends as
// completed or failed when somebody who can know says so, and as uncertain when
// nobody is left who could. Only a person settles an uncertain one. Nothing is
// ever executed again by itself.
package effects

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Limits of the journal.
const (
	MaxEffects   = 4096 // of one attempt, with the reads that are kept
	MaxReads     = 256  // that have ended and are kept, of one attempt
	MaxExecuting = 1024 // at once, of all missions together
	// MaxMissionExecuting is how many of these may be one mission's, so that it
	// leaves the others theirs.
	MaxMissionExecuting = 64
	// MaxKept is how many bytes of an input, and of a result, are kept; a longer
	// one is kept as a JSON string of its beginning.
	MaxKept  = 64 << 10
	maxError = 4 << 10 // bytes of an error text
	maxField = 1024    // bytes of each part of a Key
)

// Reasons why the journal refuses. Where a record is returned beside one, it is
// the effect as it is.
var (
	ErrNotFound  = errors.New("there is no such effect of this worker's run")
	ErrOther     = errors.New("this request id stands for another tool, input or kind of effect; use a new id for a new request")
	ErrContrary  = errors.New("it is on record already that it ended the other way, and that stays")
	ErrUncertain = errors.New("nobody knows whether it happened; a person settles it")
	ErrCertain   = errors.New("what became of the effect is known or will be; only an uncertain one can be settled")
	ErrSettled   = errors.New("a person settled the effect already")
	ErrChanged   = errors.New("the effect has changed since it was read; look at it again before settling it")
	ErrOutcome   = errors.New("an effect is settled as happened, did_not or left")
	ErrMany      = fmt.Errorf("this attempt has its %d effects; the next attempt of the mission can go on", MaxEffects)
	// ErrMissionBusy is of one mission alone.
	ErrMissionBusy = fmt.Errorf("%d effects of this mission are being executed already; try again when some have ended", MaxMissionExecuting)
	ErrBusy        = fmt.Errorf("%d effects are being executed already; try again when some have ended", MaxExecuting)
)

// State is what is known of an effect.
type State string

// States. None is ever left but Executing and Uncertain.
const (
	Executing State = "executing" // its worker, or the service for it, may be doing it
	Completed State = "completed" // it happened
	Failed    State = "failed"    // it did not happen
	Uncertain State = "uncertain" // it was begun, and nobody can say how it ended
	Settled   State = "settled"   // a person said what became of an uncertain one
)

// Outcome is what a person settles an effect with.
type Outcome string

// Outcomes.
const (
	Happened Outcome = "happened"
	DidNot   Outcome = "did_not"
	Left     Outcome = "left" // nobody knows, and it is left at that
)

// Coordinates say whose effect it is. Each part lies within the one before.
type Coordinates struct {
	Mission   string `json:"mission"`
	Attempt   string `json:"attempt"`
	Execution string `json:"execution"`
	Turn      string `json:"turn"`
}

// Key names one request. There is at most one effect for each.
type Key struct {
	Coordinates
	Request string `json:"request"` // id of the MCP request, as text
}

// Process is the identity of a process; two are the same exactly when they are
// equal. A proc.ID converts to it.
type Process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`
	BootID string `json:"boot_id"`
}

// Record is one effect.
type Record struct {
	ID string `json:"id"`
	Key
	TurnNo int    `json:"turn_number,omitempty"`
	Room   string `json:"room"`
	Tool   string `json:"tool"`
	// Input is JSON: the whole input, or when Cut a string of its beginning.
	// Digest is of the whole, see Digest.
	Input  json.RawMessage `json:"input"`
	Cut    bool            `json:"input_cut,omitempty"`
	Digest string          `json:"digest"`
	// Mutation: it changes something outside. A read may run again.
	Mutation bool `json:"mutation"`
	// Own: only the service itself executes it, in one transaction with its
	// completion. While that is not on record it has not happened, so it may be
	// begun again and is never uncertain.
	Own bool `json:"own,omitempty"`
	// Action is what the worker's bridge was told to do, with the message that
	// a final answer answers or the room that the worker moves to.
	Action      string `json:"action"`
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	State       State  `json:"state"`
	// By is the process that executes it, or asks the service to.
	By        Process         `json:"by"`
	CreatedAt time.Time       `json:"created_at"`
	EndedAt   time.Time       `json:"ended_at,omitzero"` // also when it became uncertain, then when it was settled
	Result    json.RawMessage `json:"result,omitempty"`  // of a completed one; a string of the beginning when ResultCut
	ResultCut bool            `json:"result_cut,omitempty"`
	Error     string          `json:"error,omitempty"` // of a failed one, as its worker said
	Why       string          `json:"why,omitempty"`   // a clause: why nobody can say more
	Outcome   Outcome         `json:"outcome,omitempty"`
	SettledBy string          `json:"settled_by,omitempty"`
	Revision  uint64          `json:"revision"` // 1, and one more with each change
}

// End is how an effect ended: with an Error it did not happen, without one it
// did. Result is JSON or empty.
type End struct {
	Result json.RawMessage
	Error  string
	By     Process // who says so
	At     time.Time
}

// Known is a sentence about what is known of the effect.
func (r Record) Known() string {
	because := ""
	if r.Why != "" {
		because = ": " + r.Why
	}
	switch r.State {
	case Executing:
		return "It is being executed; how it ends is not known yet."
	case Completed:
		return "It happened."
	case Failed:
		if r.Error == "" {
			return "It did not happen" + because + "."
		}
		return "It did not happen, as its worker said."
	case Uncertain:
		return "It was begun, and it may have happened or not" + because + "."
	case Settled:
		switch r.Outcome {
		case Happened:
			return "It happened, as " + r.SettledBy + " said."
		case DidNot:
			return "It did not happen, as " + r.SettledBy + " said."
		}
		return "Nobody knows whether it happened; " + r.SettledBy + " left it at that."
	}
	return ""
}
