package approval

import "encoding/json"

// Kind is what is asked for.
type Kind string

// The kinds.
const (
	MissionStart      Kind = "mission_start"
	MissionRecover    Kind = "mission_recover"
	ToolCall          Kind = "tool_call"
	FileChange        Kind = "file_change"
	NetworkOrEndpoint Kind = "network_or_endpoint"
	QuestionAsked     Kind = "question" // a dialog of the agent: choose, confirm, text
)

// State is where an approval stands. Only a pending one can be answered.
type State string

// The states. Expired and withdrawn are not denials by a person, though the
// provider is refused all the same.
const (
	Pending   State = "pending"
	Allowed   State = "allowed"
	Denied    State = "denied"
	Expired   State = "expired"   // the mission's deadline passed
	Withdrawn State = "withdrawn" // the turn was interrupted, or the mission stopped
	Stale     State = "stale"     // the worker that asked is gone
)

// Envelope is an approval as its digest covers it.
type Envelope struct {
	ID      string  `json:"id"`
	Kind    Kind    `json:"kind"`
	Mission string  `json:"mission"`
	Attempt string  `json:"attempt"` // the work attempt that asks
	Turn    int     `json:"turn"`    // 0 before the first turn
	Subject Subject `json:"subject"`
}

// Subject is exactly what would happen: whole, never shortened.
type Subject struct {
	Title    string            `json:"title,omitempty"`  // one line, such as "Run a command"
	Tool     string            `json:"tool,omitempty"`   // as the provider names it
	Server   string            `json:"server,omitempty"` // the MCP server of the tool
	Command  string            `json:"command,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Reason   string            `json:"reason,omitempty"` // the agent's own words
	Env      map[string]string `json:"env,omitempty"`    // changes to the environment
	Paths    []string          `json:"paths,omitempty"`
	Diff     string            `json:"diff,omitempty"`  // unified
	Input    json.RawMessage   `json:"input,omitempty"` // the tool's exact arguments
	Mission  *MissionSubject   `json:"mission,omitempty"`
	Question *Question         `json:"question,omitempty"`
}

// MissionSubject is what the approval of a start or recovery shows.
type MissionSubject struct {
	Provider            string   `json:"provider"`
	ProviderPath        string   `json:"provider_path,omitempty"`
	ProviderVersion     string   `json:"provider_version,omitempty"`
	Model               string   `json:"model,omitempty"`
	Endpoint            string   `json:"endpoint,omitempty"`
	Folder              string   `json:"folder"`
	Scope               string   `json:"scope"`
	Minutes             int      `json:"minutes"`
	Budget              Budget   `json:"budget,omitzero"`
	Limits              Limits   `json:"limits,omitzero"`
	Unasked             []string `json:"unasked"` // rules for what runs without asking
	Worktree            bool     `json:"worktree,omitempty"`
	WaitForReset        bool     `json:"wait_for_reset,omitempty"`        // it may wait for the end of a rate limit
	WorktreePath        string   `json:"worktree_path,omitempty"`         // made beside the folder, where the agent works
	WorktreeBranch      string   `json:"worktree_branch,omitempty"`       // made for it
	WorktreeBase        string   `json:"worktree_base,omitempty"`         // the commit that it begins at
	Instructions        string   `json:"instructions,omitempty"`          // whole text of the instruction file
	Prompt              string   `json:"prompt,omitempty"`                // whole text of the first turn's prompt
	EnvNames            []string `json:"env_names,omitempty"`             // variables that the provider gets
	GitExecutableConfig []string `json:"git_executable_config,omitempty"` // settings of the repository that run programs
	Notes               []string `json:"notes,omitempty"`
}

// Budget is the budget as the approval shows it. Zero means no limit.
type Budget struct {
	Turns   int     `json:"turns,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// Limits are the limits of the mission's processes as the approval shows them.
// Zero means no limit.
type Limits struct {
	MemoryMB   int64 `json:"memory_mb,omitempty"` // MiB
	CPUMinutes int64 `json:"cpu_minutes,omitempty"`
}

// Question is a dialog of the agent. With no options the answer is free text.
type Question struct {
	Text    string   `json:"text"`
	Options []string `json:"options,omitempty"`
	Multi   bool     `json:"multi,omitempty"` // more than one option may be chosen
}

// Answer is what a person decided.
type Answer struct {
	Allow  bool   `json:"allow"`
	Reason string `json:"reason,omitempty"` // for the agent, with a denial
	Stop   bool   `json:"stop,omitempty"`   // deny and stop the mission
	For    string `json:"for,omitempty"`    // how far it reaches: once, mission or project
	// Pattern is what the rule that the answer makes stands for, as it was
	// offered; empty is exactly the request.
	Pattern string `json:"pattern,omitempty"`
}
