package wire

import (
	"encoding/json"
	"time"
)

// Entry is one record of a session log, as guards write and clients show it.
// Data is one of the structs below, chosen by Kind.
type Entry struct {
	Log  string          `json:"log,omitempty"`
	Seq  uint64          `json:"seq"`
	At   time.Time       `json:"at"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// Kinds of entries.
const (
	KindSessionStarted     = "session.started"
	KindSessionEnded       = "session.ended"
	KindTurnStarted        = "turn.started"
	KindTurnFinished       = "turn.finished"
	KindText               = "text"
	KindThought            = "thought"
	KindPlan               = "plan"
	KindToolStarted        = "tool.started"
	KindToolFinished       = "tool.finished"
	KindPermissionAsked    = "permission.requested"
	KindPermissionResolved = "permission.resolved"
	KindUsage              = "usage"
	KindNotice             = "notice"
)

// SessionStarted: the provider opened (or resumed) its conversation.
type SessionStarted struct {
	Provider string `json:"provider"`
	// ProviderSession is the provider's own id, used to resume.
	ProviderSession string `json:"provider_session"`
	Resumed         bool   `json:"resumed,omitempty"`
	Model           string `json:"model,omitempty"`
	Version         string `json:"version,omitempty"`
	PID             int    `json:"pid"`
}

// SessionEnded: the guard is done; Left names what could not be ended, and
// Processes says which those are, where that is known.
type SessionEnded struct {
	Reason    string    `json:"reason"`
	Ended     int       `json:"ended_processes"`
	Left      []string  `json:"left,omitempty"`
	Processes []Process `json:"left_processes,omitempty"`
}

// TurnStarted opens a turn; Prompt is what the provider was given.
type TurnStarted struct {
	Turn     string   `json:"turn"`
	Number   int      `json:"number"`
	Prompt   string   `json:"prompt"`
	Steering []string `json:"steering,omitempty"`
}

// TurnFinished closes a turn.
type TurnFinished struct {
	Turn      string  `json:"turn"`
	Outcome   string  `json:"outcome"`
	Stage     string  `json:"stage,omitempty"`
	Code      string  `json:"code,omitempty"`
	Message   string  `json:"message,omitempty"`
	Retryable bool    `json:"retryable,omitempty"`
	Next      string  `json:"work_next,omitempty"`
	Result    string  `json:"result,omitempty"`
	Usage     Usage   `json:"usage"`
	Seconds   float64 `json:"seconds"`
	// ResetAt is when a rate limit ends, where the provider said so.
	ResetAt *time.Time `json:"reset_at,omitempty"`
	// Ended counts processes the turn left behind, which the guard ended.
	Ended int      `json:"ended_processes,omitempty"`
	Left  []string `json:"left,omitempty"`
	// Why is a sentence that tells more than the code does, such as what made
	// a provider unsafe to run; never what the provider said.
	Why string `json:"why,omitempty"`
	// Limit names the limit of the mission that the turn was ended for:
	// LimitMemory, LimitCPU or empty.
	Limit string `json:"limit,omitempty"`
	// Resources is what was used up to the turn's end; null from a guard of
	// protocol 1.
	Resources *Resources `json:"resources,omitempty"`
}

// Limits that end a turn.
const (
	LimitMemory = "memory"
	LimitCPU    = "cpu"
)

// Text is a piece of the agent's answer (text) or reasoning (thought).
type Text struct {
	Turn string `json:"turn"`
	Text string `json:"text"`
}

// Plan is the agent's own list of steps.
type Plan struct {
	Turn  string     `json:"turn"`
	Steps []PlanStep `json:"steps"`
}

// PlanStep is one step and its status: pending, in_progress or completed.
type PlanStep struct {
	Text   string `json:"text"`
	Status string `json:"status"`
}

// Kinds of tools.
const (
	ToolRead    = "read"
	ToolSearch  = "search"
	ToolEdit    = "edit"
	ToolExecute = "execute"
	ToolFetch   = "fetch"
	ToolPlan    = "plan"
	ToolMCP     = "mcp"
	ToolOther   = "other"
)

// ToolStarted: the agent began a tool call.
type ToolStarted struct {
	Turn    string          `json:"turn"`
	Call    string          `json:"call"`
	Tool    string          `json:"tool"`
	Kind    string          `json:"kind"`
	Title   string          `json:"title,omitempty"`
	Command string          `json:"command,omitempty"`
	Paths   []string        `json:"paths,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
}

// ToolFinished: a tool call ended. Status is ok, failed, denied or cancelled.
type ToolFinished struct {
	Turn    string  `json:"turn"`
	Call    string  `json:"call"`
	Status  string  `json:"status"`
	Output  string  `json:"output,omitempty"`
	Cut     int64   `json:"cut_bytes,omitempty"`
	Diff    string  `json:"diff,omitempty"`
	Exit    *int    `json:"exit_code,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Permission is a question of the agent, with the exact subject and its digest.
type Permission struct {
	Turn    string          `json:"turn"`
	Request string          `json:"request"` // the approval's id
	Call    string          `json:"call,omitempty"`
	Kind    string          `json:"kind"` // approval kind
	Tool    string          `json:"tool"`
	Class   string          `json:"class"`         // kind of tool
	Own     bool            `json:"own,omitempty"` // a tool of Reeve's own MCP server, as the adapter has proven
	Paths   []ResolvedPath  `json:"paths,omitempty"`
	Subject json.RawMessage `json:"subject"`
	Digest  string          `json:"digest"`
}

// ResolvedPath is a path as asked and where it physically leads.
type ResolvedPath struct {
	Asked    string `json:"asked"`
	Resolved string `json:"resolved,omitempty"`
	Err      string `json:"error,omitempty"`
}

// PermissionResolved closes a question. Outcome is allowed, denied, withdrawn
// or expired; By says who or what.
type PermissionResolved struct {
	Turn    string `json:"turn"`
	Request string `json:"request"`
	Outcome string `json:"outcome"`
	By      string `json:"by"`
	Reason  string `json:"reason,omitempty"`
}

// UsageEntry is a usage report inside a turn.
type UsageEntry struct {
	Turn  string `json:"turn"`
	Usage Usage  `json:"usage"`
}

// Notice is something a person should know that is no part of the dialogue.
type Notice struct {
	Turn  string `json:"turn,omitempty"`
	Level string `json:"level"` // info | warning | error
	Text  string `json:"text"`
}
