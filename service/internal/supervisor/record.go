package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/store"
)

// maxTurns is how many turns a record lists. It is written with each change and
// sent whole, so it must not grow with every turn.
const maxTurns = 200

const (
	bucket = "missions"
	live   = "missions_live" // index: ids that are not terminal
	texts  = "mission_texts" // the instruction files of these, as they were proposed
)

// Record is a mission as the journal keeps it.
type Record struct {
	ID       string        `json:"id"`
	Title    string        `json:"title"`
	Terms    mission.Terms `json:"terms"`
	Provider Program       `json:"program"`
	// Project is the repository that the folder is a working tree of.
	Project string `json:"project,omitempty"`
	// Env is what the provider gets, secrets excluded; Secrets names the
	// variables that live in memory only.
	Env     []string `json:"env"`
	Secrets []string `json:"secrets,omitempty"`
	// Stored are those that are fetched anew for each guard. Awaits: the mission
	// is blocked because one of them can't be had, and nothing runs of it.
	Stored []Stored `json:"stored,omitempty"`
	Awaits bool     `json:"awaits,omitempty"`

	Phase     mission.Phase     `json:"phase"`
	EndReason mission.EndReason `json:"end_reason,omitempty"`
	Failure   *Failure          `json:"failure,omitempty"`
	BlockedBy string            `json:"blocked_by,omitempty"`
	Left      []string          `json:"left,omitempty"`
	// Ended is what the guard of this attempt said last.
	Ended *wire.SessionEnded `json:"session_ended,omitempty"`

	CreatedAt time.Time        `json:"created_at"`
	StartedAt time.Time        `json:"started_at,omitzero"`
	EndedAt   time.Time        `json:"ended_at,omitzero"`
	Deadline  mission.Deadline `json:"deadline,omitzero"`
	NextTurn  time.Time        `json:"next_turn,omitzero"`

	Session         string `json:"session,omitempty"`
	Attempt         string `json:"attempt,omitempty"`
	Generation      uint64 `json:"generation,omitempty"`
	ProviderSession string `json:"provider_session,omitempty"`
	ActualModel     string `json:"actual_model,omitempty"`
	Renewed         bool   `json:"renewed,omitempty"` // a fresh session replaced a missing one
	Instructions    string `json:"instructions_digest"`
	Bridge          Bridge `json:"bridge,omitzero"` // of this attempt
	Ingested        uint64 `json:"ingested_seq"`    // of the attempt's log

	Turns     []Turn               `json:"turns,omitempty"`      // the newest maxTurns
	Older     mission.Spent        `json:"older_turns,omitzero"` // those before them
	Steering  []Steering           `json:"steering,omitempty"`
	Usage     mission.Usage        `json:"usage"`
	Last      *mission.TurnOutcome `json:"last,omitempty"`
	LastEnded time.Time            `json:"last_ended,omitzero"`
	Failures  int                  `json:"failures,omitempty"`
	Result    string               `json:"result,omitempty"`
	ToolCalls int                  `json:"tool_calls,omitempty"`
	Activity  *Activity            `json:"activity,omitempty"`
	Denials   Denials              `json:"denials"`
	Unasked   map[string]int       `json:"unasked_uses,omitempty"`
	Refusals  int                  `json:"refusals,omitempty"`
	Use       Use                  `json:"use,omitzero"`
	Revision  uint64               `json:"revision"`

	// Recovered: this attempt continues one whose guard was lost, and Reconcile
	// that its first turn has still to be told so.
	Recovered bool `json:"recovered,omitempty"`
	Reconcile bool `json:"reconcile,omitempty"`
	// LostAt is when the guard of this attempt was found to be gone.
	LostAt time.Time `json:"lost_at,omitzero"`
	// Earlier are the attempts before this one, oldest first.
	Earlier []string `json:"earlier_attempts,omitempty"`

	// Worktree is the mission's own working tree, where it has one.
	Worktree *Worktree `json:"worktree,omitempty"`
	// Base is the checkout as it was claimed, and End the git tree of it at the
	// mission's end, "" if unknown.
	Base checkout.Base `json:"base,omitzero"`
	End  string        `json:"end_tree,omitempty"`

	// Held is the phase that a mission had when its guard could not be talked
	// to; it is taken up again when the guard answers.
	Held mission.Phase `json:"held,omitempty"`

	// Guard is what is known of the guard now, Protocol what it speaks, and
	// Fault why the record can't be written; none is ever journaled.
	Guard    mission.GuardState `json:"-"`
	Protocol int                `json:"-"`
	Fault    string             `json:"-"`
}

// Worktree is the working tree that was made for a mission alone.
type Worktree struct {
	checkout.Worktree
	Made    bool   `json:"made,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	Merged  string `json:"merged,omitempty"` // the commit that has its branch
}

// Folder is where the mission's worker works, and what it claims: its own
// worktree if it has one, else the folder that was approved.
func (r Record) Folder() string {
	if r.Worktree != nil {
		return r.Worktree.Path
	}
	return r.Terms.Folder
}

// instructions is the text of the private instruction file in the words of this
// Reeve.
func (r Record) instructions() string {
	t := r.Terms
	t.Folder = r.Folder()
	return mission.Instructions(t)
}

// instructions is that text as the mission was proposed with it. An update may
// have other words for the same terms, and the agent follows those that a person
// allowed.
func (s *Supervisor) instructions(r Record) (text string, err error) {
	text = r.instructions() // of a Reeve that kept none
	err = s.DB.View(func(tx *store.Tx) error {
		if kept := tx.Get(texts, []byte(r.ID)); kept != nil {
			text = string(kept)
		}
		return nil
	})
	if err == nil && mission.InstructionDigest(text) != r.Instructions {
		err = wire.Errorf(wire.CodeConflict, "The instructions that were allowed were not kept, and since the update they read otherwise. Start a new mission.")
	}
	return text, err
}

// Ref names exactly this state of the record. A recovery is allowed for the
// state that the person saw, so that two of them can't both win.
func (r Record) Ref() string { return fmt.Sprintf("%s@%d", r.Attempt, r.Revision) }

// Attempts lists every attempt of the mission, oldest first.
func (r Record) Attempts() []string {
	if r.Attempt == "" {
		return nil
	}
	return append(slices.Clone(r.Earlier), r.Attempt)
}

// Program is the provider's executable as it was approved.
type Program struct {
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"`
	Version string   `json:"version"`
	Mode    string   `json:"mode,omitempty"` // the session mode that it is put into
}

// Failure is why a turn or the start failed.
type Failure struct {
	Stage     mission.Stage `json:"stage"`
	Code      mission.Code  `json:"code"`
	Message   string        `json:"message"`
	Retryable bool          `json:"retryable,omitempty"`
}

// Turn is one model invocation.
type Turn struct {
	ID        string               `json:"id"`
	Number    int                  `json:"number"`
	StartedAt time.Time            `json:"started_at"`
	EndedAt   time.Time            `json:"ended_at,omitzero"`
	Outcome   *mission.TurnOutcome `json:"outcome,omitempty"`
	Tools     int                  `json:"tools"`
	// Spending is what it used until now, as reported; its outcome has the whole.
	Spending *mission.Usage `json:"spending,omitempty"`
	// Begun: the guard's log says that it began. Heard: the provider's session
	// was open, so the agent has the prompt.
	Begun bool `json:"begun,omitempty"`
	Heard bool `json:"heard,omitempty"`
	// Reconcile: its prompt says that work of a lost attempt may be half done.
	Reconcile bool `json:"reconcile,omitempty"`
	// Room is where the worker was, Read the message up to which its prompt
	// tells what is new there, and Source the one of a person that its final
	// answer answers; 0 for none.
	Room   string `json:"room,omitempty"`
	Read   int    `json:"read,omitempty"`
	Source int    `json:"source,omitempty"`
	// Told are the effects of which its prompt tells what became of them.
	Told []Told `json:"told,omitempty"`
}

// Told is an effect as a prompt told of it.
type Told struct {
	ID       string `json:"id"`
	Revision uint64 `json:"revision"`
}

// States of steering.
const (
	SteerReceived    = "received"
	SteerApplied     = "applied"
	SteerUnconfirmed = "unconfirmed"
)

// Steering is one instruction of the person.
type Steering struct {
	ID    int       `json:"id"`
	Text  string    `json:"text"`
	State string    `json:"state"`
	At    time.Time `json:"at"`
	Turn  int       `json:"turn,omitempty"`
}

// Activity is the newest thing the worker did.
type Activity struct {
	Tool   string    `json:"tool,omitempty"`
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at"`
}

// Denials counts what a person refused.
type Denials struct {
	Count  int       `json:"count"`
	Tools  []string  `json:"tools,omitempty"`
	LastAt time.Time `json:"last_at,omitzero"`
}

func (r *Record) denied(tool string, at time.Time) {
	r.Denials.Count++
	r.Denials.LastAt = at
	if tool != "" && !slices.Contains(r.Denials.Tools, tool) {
		r.Denials.Tools = append(r.Denials.Tools, tool)
	}
}

// clone copies the record so that a change can be thrown away when it could
// not be journaled.
func (r Record) clone() Record {
	r.Turns = slices.Clone(r.Turns)
	r.Steering = slices.Clone(r.Steering)
	r.Earlier = slices.Clone(r.Earlier)
	r.Denials.Tools = slices.Clone(r.Denials.Tools)
	r.Unasked = maps.Clone(r.Unasked)
	return r
}

// turn returns the turn in flight or the last one; nil before the first.
func (r *Record) turn() *Turn {
	if len(r.Turns) == 0 {
		return nil
	}
	return &r.Turns[len(r.Turns)-1]
}

// Spent is what all turns used until now.
func (r *Record) Spent() mission.Spent {
	sum := r.Older
	for _, t := range r.Turns {
		sum.Count(t.used())
	}
	return sum
}

// used is what the turn used until now, as far as it is known.
func (t Turn) used() (u mission.Usage) {
	switch {
	case t.Outcome != nil:
		u = t.Outcome.Usage
	case t.Spending != nil:
		u = *t.Spending
	}
	return u
}

// TurnCount is how many turns were begun, those included that are no longer
// listed.
func (r *Record) TurnCount() int { return r.Older.Turns + len(r.Turns) }

// fold adds up the turns that are too many to list; the session's log has them.
func (r *Record) fold() {
	n := max(0, len(r.Turns)-maxTurns)
	for _, t := range r.Turns[:n] {
		r.Older.Count(t.used())
	}
	r.Turns = slices.Delete(r.Turns, 0, n)
}

// ended notes the outcome of the last turn, and adds what it used.
func (r *Record) ended(out *mission.TurnOutcome, at time.Time) {
	t := r.turn()
	t.EndedAt, t.Outcome, t.Spending = at, out, nil
	if sum, err := r.Usage.Add(out.Usage); err == nil {
		r.Usage = sum
	}
	if out.Usage.Model != "" {
		r.ActualModel = out.Usage.Model
	}
}

// unheard takes back what the last turn was to tell the agent, for the next one
// to tell it.
func (r *Record) unheard() {
	t := r.turn()
	r.Reconcile = r.Reconcile || t.Reconcile
	for i := range r.Steering {
		if r.Steering[i].Turn == t.Number {
			r.Steering[i].State, r.Steering[i].Turn = SteerReceived, 0
		}
	}
}

func (r *Record) queued() (n int) {
	for _, s := range r.Steering {
		if s.State == SteerReceived {
			n++
		}
	}
	return n
}

func save(tx *store.Tx, r Record) error {
	if r.Phase.Terminal() {
		if err := approvals.EndRules(tx, r.ID); err != nil {
			return err
		}
		if err := errors.Join(tx.Delete(live, []byte(r.ID)), tx.Delete(texts, []byte(r.ID))); err != nil {
			return err
		}
	} else if err := tx.Put(live, []byte(r.ID), nil); err != nil {
		return err
	}
	return store.PutJSON(tx, bucket, r.ID, r)
}

// Load returns a mission from the journal.
func Load(tx *store.Tx, id string) (Record, bool, error) {
	r, ok, err := store.GetJSON[Record](tx, bucket, id)
	r.fold() // an earlier Reeve listed all
	return r, ok, err
}

// LoadLive returns every mission that is not terminal, oldest first.
func LoadLive(tx *store.Tx) ([]Record, error) {
	var ids []string
	if err := tx.Scan(live, nil, func(k, _ []byte) (bool, error) { ids = append(ids, string(k)); return true, nil }); err != nil {
		return nil, err
	}
	var out []Record
	for _, id := range ids {
		if r, ok, err := Load(tx, id); err != nil {
			return nil, err
		} else if ok {
			out = append(out, r)
		}
	}
	return out, nil
}
