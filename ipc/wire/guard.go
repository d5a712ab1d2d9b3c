package wire

import "time"

// GuardProtocol is the version of the guard's own socket protocol. A guard lives
// longer than the service that started it, so both sides also speak the version
// before, OldestGuardProtocol, and no other.
//
// Version 2 added the limits of guard.start and what is measured: the
// guard.resources event and the resources of turn.finished.
const (
	GuardProtocol       = 2
	OldestGuardProtocol = GuardProtocol - 1
)

// Methods of a guard's private socket. Every command carries the generation of
// the claim and an id of its own; a repeat of the id returns the first result.
const (
	GuardClaim       = "guard.claim"
	GuardStart       = "guard.start"
	GuardTurn        = "guard.turn"
	GuardInterrupt   = "guard.interrupt"
	GuardResolve     = "guard.resolve"
	GuardStop        = "guard.stop"
	EvGuardEntry     = "guard.entry"
	EvGuardResources = "guard.resources" // data: Resources
)

// Process names one process for good: a pid can be reused, the triple can't.
type Process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`
	BootID string `json:"boot_id"`
}

// Bootstrap is attempts/<id>/bootstrap.json, written before the guard starts.
type Bootstrap struct {
	Attempt    string        `json:"attempt"`
	Mission    string        `json:"mission"`
	Token      string        `json:"token"`
	Protocols  []int         `json:"protocols"`
	DeadlineAt time.Time     `json:"deadline_at"`
	Boot       time.Duration `json:"deadline_boot_ns"`
	BootID     string        `json:"boot_id"`
	Socket     string        `json:"socket"`
	CreatedAt  time.Time     `json:"created_at"`
}

// GuardRecord is attempts/<id>/guard.json, written by the guard when its
// socket is bound.
type GuardRecord struct {
	Process
	Keeper   Process `json:"keeper"`
	Socket   string  `json:"socket"`
	Protocol int     `json:"protocol"` // the highest that it shares with the service that started it
	Tree     string  `json:"tree"`     // scope | cgroup | subreaper | job | walk
	Cgroup   string  `json:"cgroup,omitempty"`
}

// Fence is attempts/<id>/fence.json: the highest generation that claimed.
type Fence struct {
	Generation uint64  `json:"generation"`
	Owner      Process `json:"owner"`
}

// Command is what every guard command but claim carries.
type Command struct {
	Generation uint64 `json:"generation"`
	CommandID  string `json:"command_id"`
}

// ClaimParams takes a guard over for one generation of the service.
type ClaimParams struct {
	Token      string  `json:"token"`
	Generation uint64  `json:"generation"`
	Owner      Process `json:"owner"`
}

// ClaimResult tells where the guard stands. Entries after LastSeq follow as
// guard.entry events on the same connection; earlier ones are in the log.
type ClaimResult struct {
	Attempt string   `json:"attempt"`
	LastSeq uint64   `json:"last_seq"`
	Pending []string `json:"pending"`
	Phase   string   `json:"phase"` // new | idle | turn | stopping
	Turn    string   `json:"turn,omitempty"`
}

// StartParams lets the guard begin; it carries what must not lie on disk.
type StartParams struct {
	Command
	Launch Launch `json:"launch"`
	// Limits are of the whole mission; UsedCPU is what attempts before this
	// one used of them, in seconds.
	Limits  Limits  `json:"limits,omitzero"`
	UsedCPU float64 `json:"used_cpu_seconds,omitempty"`
}

// Launch is how the provider is run. Env is complete: nothing else is passed.
type Launch struct {
	Provider     string   `json:"provider"`
	Path         string   `json:"path"`
	Args         []string `json:"args,omitempty"`
	Mode         string   `json:"mode,omitempty"`
	Model        string   `json:"model,omitempty"`
	Endpoint     string   `json:"endpoint,omitempty"`
	Folder       string   `json:"folder"`
	Instructions string   `json:"instructions"` // path of the private file
	Digest       string   `json:"instructions_digest"`
	Env          []string `json:"env"`
	// Bridge is what the worker's bridge is told, nil for a worker without one.
	// A guard of an earlier Reeve passes it over.
	Bridge *Bridge `json:"bridge,omitempty"`
}

// TurnParams runs one turn. Resume is the provider's session, empty for a new
// one.
type TurnParams struct {
	Command
	Turn     string   `json:"turn"`
	Number   int      `json:"number"`
	Prompt   string   `json:"prompt"`
	Steering []string `json:"steering,omitempty"`
	Resume   string   `json:"resume,omitempty"`
	// Room is where the worker is by now, if not where its launch said.
	Room string `json:"room_id,omitempty"`
}

// InterruptParams ends the turn in flight.
type InterruptParams struct {
	Command
	Reason string `json:"reason"`
}

// ResolveParams gives the person's answer to a pending permission.
type ResolveParams struct {
	Command
	Request string `json:"request"`
	Digest  string `json:"digest"`
	Allow   bool   `json:"allow"`
	Message string `json:"message,omitempty"`
	Text    string `json:"text,omitempty"`
	By      string `json:"by"`
}

// ResolveResult says whether the answer reached a live request.
type ResolveResult struct {
	State string `json:"state"` // delivered | gone
}

// GuardStopParams ends the turn, the tree and the guard.
type GuardStopParams struct {
	Command
	Reason string `json:"reason"`
}

// GuardStopResult is given when the tree is empty, or names what is left.
type GuardStopResult struct {
	Ended int      `json:"ended_processes"`
	Left  []string `json:"left,omitempty"`
}
