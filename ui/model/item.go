package model

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// ItemKind is what one row of a transcript is.
type ItemKind int

// The kinds of rows.
const (
	ItemEarlier    ItemKind = iota + 1 // stands for all turns before the last
	ItemTurn                           // the heading of a turn
	ItemSteering                       // an instruction of the person
	ItemText                           // the agent's words
	ItemThought                        // the agent's visible reasoning
	ItemPlan                           // the agent's own steps
	ItemTool                           // a tool call
	ItemPermission                     // a question that waits, or its outcome
	ItemNotice                         // something of ours that is no part of the dialogue
)

// Item is one row of a transcript. Texts are cleaned. Which of the pointers is
// set follows from the kind.
type Item struct {
	Kind       ItemKind
	At         time.Time
	Turn       int    // index of its turn, -1 before the first
	Text       string // words, instruction or notice
	Note       string // "reached the agent at turn 4", the level of a notice
	Plan       []wire.PlanStep
	Tool       *ToolRow
	Permission *PermissionRow
	Heading    *Heading
	Open       bool // a tool's input and output are shown; a turn's rows are shown

	words *strings.Builder // the growing text of ItemText and ItemThought
}

// Heading is what the heading of a turn, or of the earlier turns, says.
type Heading struct {
	Text    string // "Turn 4", "Turns 1 to 3"
	From    time.Time
	To      *time.Time // nil while the turn runs
	Tools   int
	Tokens  string
	Outcome string // "" while it runs or when it succeeded
	Number  int
}

// ToolRow is one tool call.
type ToolRow struct {
	Name    string // "Bash", "Edit"
	Kind    string // the wire's kind of tool
	Object  string // the command, path or title, on one line
	Status  string // running, ok, failed, denied, cancelled, or unknown: its worker was lost
	Waits   bool   // it runs once a person has allowed it
	Problem string // of a failed call: "exit 1: lexer.go:44:9: undefined: eof"
	Plus    int    // lines added and removed by an edit
	Minus   int
	Seconds float64
	Command string // whole command, not cleaned
	Paths   []string
	Input   json.RawMessage // exact arguments
	Output  string          // not cleaned
	Cut     int64           // bytes that are left out of Output
	Diff    string
}

// PermissionRow is a question of the agent inside the transcript.
type PermissionRow struct {
	Approval string // its id
	Asks     Detail
	State    string // pending, or the outcome
	By       string // who or what settled it
	Reason   string

	call string // the tool call that it is about, "" when that isn't known
}
