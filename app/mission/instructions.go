package mission

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

const workNextRule = `End your answer with exactly one of these as its last line, with nothing after it:
WORK_NEXT: runnable   (there is more inside the scope that you can do now)
WORK_NEXT: waiting    (nothing useful can be done until there is news)
WORK_NEXT: done       (the whole scope is done)
Write only the part before the bracket. A missing or different last line is read as waiting.`

// Instructions returns the text of the mission's private instruction file. The
// same terms always give the same text: its digest is fixed in the approval,
// and a later one that differs is refused.
func Instructions(t Terms) string {
	t = t.Normalize()
	var b strings.Builder
	fmt.Fprintf(&b, `# Your mission

A person approved this mission. It runs for at most %d minutes, in the folder %s.

## Scope
%s

## Rules
1. Work only inside the approved scope and inside this folder.
2. When one task is finished, choose the next useful one inside the scope yourself. Do not ask for leave to go on.
3. The mission is done only when the whole scope is done, not when one task of it is.
4. If something stops you, write down exactly what it is. Tell the person when they have to act. Then take another task inside the scope.
5. If nothing useful is left to do now, wait. Do not invent work.
6. Start no other agents, and leave no background process running.
7. Change nothing about CI/CD, deployment, infrastructure, credentials, repository permissions or branch protection, unless the scope names it.
8. A check that fails never entitles you to weaken, skip or remove it.
9. An action that was denied stays denied. Do not disguise it, split it, or reach the same end in another way. Say that it was denied, and do something else.
10. Some actions wait for the person's answer. No answer is not a yes.
11. These instructions are not a sandbox of the operating system. That something works does not mean that it is allowed.

## What runs without asking
%s

## The last line of every turn
%s
`, t.Minutes, t.Folder, t.Scope, unaskedText(t.Unasked), workNextRule)
	return b.String()
}

func unaskedText(list []Unasked) string {
	lines := map[Unasked]string{
		UnaskedReads: "- Reading and searching files inside the folder.",
		UnaskedEdits: "- Editing files inside the folder.",
		UnaskedPlan:  "- Keeping your own task list.",
		UnaskedRoom:  "- The tools of the MCP server reeve.",
	}
	var out []string
	for _, u := range list {
		if s := lines[u]; s != "" {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return "Nothing. Every tool asks the person first."
	}
	return strings.Join(out, "\n") + "\nEverything else asks the person first."
}

// PromptInput is what one turn's prompt is made of.
type PromptInput struct {
	Scope        string
	EndsAt       time.Time
	Turn         int      // from 1
	Steering     []string // the person's instructions for this turn, oldest first
	Recovered    bool     // first turn after a crash
	Continuation string   // why this turn goes on from the last one, if it does
	Deliveries   []string // sends and notices that were already processed
	// Messages are what others wrote in the room since the agent read it, oldest
	// first; MoreMessages says that they are not all. Answers is the message
	// that the turn's final answer is published as the answer to.
	Messages     []RoomMessage
	MoreMessages bool
	Answers      string
	// Uncertain are effects of which nobody knows whether they happened, Settled
	// those that a person has settled since: a sentence each.
	Uncertain, Settled []string
}

// RoomMessage is a message as a prompt tells of it.
type RoomMessage struct {
	ID   string // msg_<n>
	From string // such as "the person"
	Text string
}

// TurnPrompt returns the prompt of one turn.
func TurnPrompt(p PromptInput) string {
	var b strings.Builder
	section := func(title, text string) { fmt.Fprintf(&b, "## %s\n%s\n\n", title, text) }
	fmt.Fprintf(&b, "This is turn %d of your mission. It ends at %s at the latest.\n\n", p.Turn, p.EndsAt.UTC().Format(time.RFC3339))
	section("Scope", trim(p.Scope))
	if p.Recovered {
		section("After an interruption", "The last turn may have finished work without recording it. Before you do anything again, inspect the checkout, the effect journal and the room, and find out what has already happened.")
	}
	if p.Continuation != "" {
		section("Going on", trim(p.Continuation))
	}
	if len(p.Steering) > 0 {
		section("New instructions from the person", list(p.Steering))
	}
	if len(p.Deliveries) > 0 {
		section("Already processed, don't send again", list(p.Deliveries))
	}
	if len(p.Uncertain) > 0 {
		section("Not known", list(p.Uncertain)+"\nDo none of these again. Find out whether it happened if you can; the person settles what became of it.")
	}
	if len(p.Settled) > 0 {
		section("Settled by the person", list(p.Settled))
	}
	if len(p.Messages) > 0 {
		section("New in the room", messages(p))
	}
	section("First", "Read the project: its README, its notes, its recent commits and the state of the checkout. In the room the person and you leave each other messages; what is new there stands in this prompt.\nCompare that with your earlier work before you repeat any action that reaches outside this folder.")
	section("Last", workNextRule)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// messages lists what is new in the room, so that no text can look like another
// message, and says what becomes of the final answer.
func messages(p PromptInput) string {
	items := make([]string, 0, len(p.Messages))
	for _, m := range p.Messages {
		items = append(items, m.ID+", from "+m.From+":\n"+trim(m.Text))
	}
	text := list(items)
	if p.MoreMessages {
		text += "\nThere are more; read them with the tool get_updates."
	}
	if p.Answers != "" {
		text += "\nYour final answer of this turn is published in the room as the answer to " + p.Answers + ", once. Send no other answer to it."
	}
	return text
}

// list numbers the items and indents their further lines, so that the text of
// one cannot look like another.
func list(items []string) string {
	var b strings.Builder
	for i, s := range items {
		fmt.Fprintf(&b, "%d. %s\n", i+1, strings.ReplaceAll(trim(s), "\n", "\n   "))
	}
	return strings.TrimRight(b.String(), "\n")
}

// InstructionDigest returns the SHA-256 of text as lower-case hex. A saved
// session is bound to it.
func InstructionDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
