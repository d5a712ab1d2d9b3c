package mission

// Limits of the fields of a mission.
const (
	MaxScope        = 4000 // characters of the scope, after trimming
	MaxSteering     = 2000 // characters of one steering instruction, after trimming
	MaxInstructions = 64   // steering instructions of one mission
	MinMinutes      = 15
	MaxMinutes      = 240
	StepMinutes     = 15
	DefaultMinutes  = 60
)

// Terms are what a person approves when a mission starts. They stay fixed for
// the whole mission.
type Terms struct {
	Provider string    `json:"provider"`           // claude, codex or acp:<configured name>
	Model    string    `json:"model,omitempty"`    // empty: the provider's own default
	Endpoint string    `json:"endpoint,omitempty"` // API base URL; empty: the provider's default
	Folder   string    `json:"folder"`             // root of a git working tree, absolute
	Scope    string    `json:"scope"`              // what the agent may work on
	Minutes  int       `json:"minutes"`            // until the deadline, counted from the start
	Budget   Budget    `json:"budget,omitzero"`
	Limits   Limits    `json:"limits,omitzero"`
	Unasked  []Unasked `json:"unasked"` // null: the default; an empty list: ask for everything
	Worktree bool      `json:"worktree,omitempty"`
	// WaitForReset lets the mission wait, inside its time, for the end of a
	// rate limit that the provider named; without it, it blocks.
	WaitForReset bool `json:"wait_for_reset,omitempty"`
}

// Budget limits a mission beside its deadline, as the provider reports use.
// Zero means no limit.
type Budget struct {
	Turns   int     `json:"turns,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// Unasked names a rule that lets a tool run without an approval.
type Unasked string

// The rules that a mission may carry.
const (
	UnaskedReads Unasked = "reads" // reads and searches that resolve inside the folder
	UnaskedEdits Unasked = "edits" // file edits inside the folder
	UnaskedPlan  Unasked = "plan"  // the agent's own task list
	UnaskedRoom  Unasked = "room"  // the tools of Reeve's own MCP server: the mission's room and record
)

// DefaultUnasked returns what is allowed unasked when nothing else was chosen:
// reads inside the folder, and the mission's room.
func DefaultUnasked() []Unasked { return []Unasked{UnaskedReads, UnaskedRoom} }

// Normalize returns the terms as they are stored: the scope trimmed, line ends
// as newlines, the default duration and the default unasked rule filled in.
func (t Terms) Normalize() Terms {
	t.Scope = trim(t.Scope)
	if t.Minutes == 0 {
		t.Minutes = DefaultMinutes
	}
	if t.Unasked == nil {
		t.Unasked = DefaultUnasked()
	} else {
		t.Unasked = append([]Unasked{}, t.Unasked...)
	}
	return t
}

// Check returns everything that is wrong with the terms, in the order of the
// form's fields. Whether the folder exists and is a checkout, and whether the
// provider is installed, only the service can say.
func (t Terms) Check() []Problem {
	var out []Problem
	for _, p := range []*Problem{
		CheckProvider(t.Provider), CheckModel(t.Model), CheckEndpoint(t.Endpoint),
		CheckFolderSyntax(t.Folder), CheckScope(t.Scope), CheckMinutes(t.Minutes),
		CheckBudget(t.Budget), CheckLimits(t.Limits), CheckUnasked(t.Unasked),
	} {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out
}
