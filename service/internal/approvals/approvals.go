// Package approvals keeps the durable queue of questions that only a person
// may answer. It writes inside the caller's transaction, so that an answer and
// what follows from it are journaled together; announcing and delivering come
// after the commit and belong to the caller.
package approvals

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/service/internal/store"
)

// MaxPending is how many approvals may wait at once. Of these, MaxProposed may
// be starts of missions, so that a program which proposes in a loop leaves room
// for what running agents ask, and MaxMissionPending of one mission, so that its
// agent leaves room for what others ask.
const (
	MaxPending        = 1024
	MaxProposed       = 256
	MaxMissionPending = 64
)

const (
	bucket  = "approvals"
	pending = "approvals_pending" // index: ids that still wait, and whose they are
	unheard = "approvals_unheard" // index: answers that no guard acknowledged yet
)

// Reasons why an answer is refused.
var (
	ErrNotFound = errors.New("there is no such approval")
	ErrMismatch = errors.New("the digest is not that of this approval; look at it again before answering")
	ErrAnswered = errors.New("the approval was answered already")
	ErrStale    = errors.New("the request is gone; nothing was decided")
	ErrProposed = fmt.Errorf("%d missions wait to be started already; answer some first", MaxProposed)
	ErrFull     = fmt.Errorf("%d approvals wait already; answer some first", MaxPending)
	// ErrMissionFull is the ErrFull of a mission that has as many waiting as one
	// mission may have; others can still ask.
	ErrMissionFull error = missionFull{}
)

type missionFull struct{}

func (missionFull) Error() string {
	return fmt.Sprintf("%d approvals of this mission wait already; answer some first", MaxMissionPending)
}

func (missionFull) Is(target error) bool { return target == ErrFull }

// Record is one approval from the moment it was asked.
type Record struct {
	ID      string          `json:"id"`
	Kind    approval.Kind   `json:"kind"`
	Mission string          `json:"mission"`
	Attempt string          `json:"attempt,omitempty"`
	Turn    string          `json:"turn,omitempty"`
	TurnNo  int             `json:"turn_number,omitempty"`
	Tool    string          `json:"tool,omitempty"` // as the subject names it
	Subject json.RawMessage `json:"subject"`        // JSON, or a reference to a blob
	Digest  string          `json:"digest"`
	Ref     string          `json:"ref,omitempty"` // the record that a recovery is about
	// Effect is the call of a tool of Reeve's own that asks. No guard waits for
	// the answer then: it completes the effect.
	Effect    string         `json:"effect,omitempty"`
	CreatedAt time.Time      `json:"created_at"`
	State     approval.State `json:"state"`
	Answer    *Answer        `json:"answer,omitempty"`
	// Request is what rules see of it, where a rule can be made of it; Rule is
	// the one that its answer made. Same tells requests for the same thing.
	Request *approval.Request `json:"request,omitempty"`
	Rule    string            `json:"rule,omitempty"`
	Same    string            `json:"same,omitempty"`
	// Joins is the request that this one repeats: it waits for the same answer
	// and is not shown. Joined are those that do so with this one.
	Joins  string   `json:"joins,omitempty"`
	Joined []string `json:"joined,omitempty"`
	// Delivered: the guard acknowledged the answer. Until then it is sent
	// again.
	Delivered bool `json:"delivered,omitempty"`
}

// Who names who or what decided. Via is program, rule, deadline, stop or turn.
type Who struct {
	Via     string `json:"via"`
	Program string `json:"program,omitempty"`
	PID     int    `json:"pid,omitempty"`
	TTY     string `json:"tty,omitempty"`
	Client  string `json:"client,omitempty"`
	Rule    string `json:"rule,omitempty"`
}

func (w Who) String() string {
	switch {
	case w.Rule != "":
		return "rule " + w.Rule
	case w.Program != "" && w.TTY != "":
		return fmt.Sprintf("%s (pid %d, %s)", w.Program, w.PID, w.TTY)
	case w.Program != "":
		return fmt.Sprintf("%s (pid %d)", w.Program, w.PID)
	}
	return w.Via
}

// Answer is a decision and where it came from.
type Answer struct {
	approval.Answer
	Who  Who       `json:"who"`
	At   time.Time `json:"at"`
	Text string    `json:"text,omitempty"`
}

// Ask adds a pending approval. Asking again with the same id changes nothing,
// so that a log can be read twice.
func Ask(tx *store.Tx, r Record) error {
	if tx.Get(bucket, []byte(r.ID)) != nil {
		return nil
	}
	all, starts, ours := 0, 0, 0
	err := scan(tx, pending, func(_ string, w waiting) error {
		all++
		if w.Kind == approval.MissionStart {
			starts++
		}
		if w.Mission == r.Mission {
			ours++
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case all >= MaxPending:
		return ErrFull
	case r.Kind == approval.MissionStart && starts >= MaxProposed:
		return ErrProposed
	case r.Kind != approval.MissionRecover && ours >= MaxMissionPending: // that one the service asks
		return ErrMissionFull
	}
	r.State = approval.Pending
	if err := put(tx, r); err != nil {
		return err
	}
	return tx.Audit(store.AuditEntry{Kind: store.AuditApproval, Mission: r.Mission, Approval: r.ID, Text: string(r.Kind) + " asked", Data: auditData(map[string]any{"digest": r.Digest})})
}

// Decide records a person's or a rule's answer. The digest must repeat the
// approval's. On ErrAnswered and ErrStale the record tells how it ended. rule
// is the one that the answer makes, or nil: both are journaled or neither.
func Decide(tx *store.Tx, id, digest string, a Answer, rule *approval.Rule) (Record, error) {
	r, ok, err := store.GetJSON[Record](tx, bucket, id)
	if err != nil {
		return Record{}, err
	}
	if !ok {
		return Record{}, ErrNotFound
	}
	switch r.State {
	case approval.Pending:
	case approval.Allowed, approval.Denied:
		return r, ErrAnswered
	default:
		return r, ErrStale
	}
	if subtle.ConstantTimeCompare([]byte(r.Digest), []byte(digest)) != 1 {
		return r, ErrMismatch
	}
	r.State, r.Answer = approval.Denied, &a
	if a.Allow {
		r.State = approval.Allowed
	}
	if rule != nil {
		r.Rule = rule.ID
		if err := AddRule(tx, *rule); err != nil {
			return r, err
		}
	}
	joined, err := Together(tx, r)
	for _, j := range joined {
		if err == nil && j.State == approval.Pending {
			j.State, j.Answer = r.State, r.Answer
			err = settle(tx, j)
		}
	}
	if err != nil {
		return r, err
	}
	return r, settle(tx, r)
}

// Rule records a request that a rule of the mission's terms allowed unasked:
// it never waits, but it stands in the journal and the audit like any other.
func Rule(tx *store.Tx, r Record, rule string, at time.Time) (Record, error) {
	if old, ok, err := store.GetJSON[Record](tx, bucket, r.ID); err != nil || ok {
		return old, err
	}
	r.State = approval.Allowed
	r.Answer = &Answer{Answer: approval.Answer{Allow: true, For: approval.ForOnce}, Who: Who{Via: "rule", Rule: rule}, At: at}
	return r, settle(tx, r)
}

// Refuse records a request that was denied without asking anybody, with why as
// its answer.
func Refuse(tx *store.Tx, r Record, why Answer) (Record, error) {
	if old, ok, err := store.GetJSON[Record](tx, bucket, r.ID); err != nil || ok {
		return old, err
	}
	r.State, r.Answer = approval.Denied, &why
	return r, settle(tx, r)
}

// Close ends a pending approval that nobody answered. An approval that is
// settled already stays as it is.
func Close(tx *store.Tx, id string, state approval.State, via string, at time.Time) (Record, bool, error) {
	r, ok, err := store.GetJSON[Record](tx, bucket, id)
	if err != nil || !ok || r.State != approval.Pending {
		return r, false, err
	}
	r.State, r.Answer = state, &Answer{Who: Who{Via: via}, At: at}
	if err := handOn(tx, r); err != nil {
		return r, false, err
	}
	return r, true, settle(tx, r)
}

// CloseAll ends everything that waits for a mission.
func CloseAll(tx *store.Tx, mission string, state approval.State, via string, at time.Time) ([]Record, error) {
	waiting, err := Pending(tx, mission)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(waiting, func(a, b Record) int { return strings.Compare(b.Joins, a.Joins) }) // repeats first: none is handed a question that ends, too
	for i, r := range waiting {
		if waiting[i], _, err = Close(tx, r.ID, state, via, at); err != nil {
			return nil, err
		}
	}
	// Nobody is left to hear what was answered.
	answered, err := Unheard(tx, mission)
	if err != nil {
		return nil, err
	}
	for _, r := range answered {
		if err := tx.Delete(unheard, []byte(r.ID)); err != nil {
			return nil, err
		}
	}
	return waiting, nil
}

// Delivered notes that the guard took the answer, or, when gone, that the
// answer reached nobody: then the approval ends as stale.
func Delivered(tx *store.Tx, id string, gone bool) (Record, error) {
	r, ok, err := store.GetJSON[Record](tx, bucket, id)
	if err != nil || !ok {
		return r, err
	}
	r.Delivered = true
	if gone && (r.State == approval.Allowed || r.State == approval.Denied) {
		r.State = approval.Stale
		return r, settle(tx, r)
	}
	return r, put(tx, r)
}

// Get returns one approval by its whole id.
func Get(tx *store.Tx, id string) (Record, bool, error) {
	return store.GetJSON[Record](tx, bucket, id)
}

// Pending returns what waits, oldest first, repeats included; mission "" means
// all.
func Pending(tx *store.Tx, mission string) ([]Record, error) {
	return listed(tx, pending, mission)
}

// Unheard returns the answers for a mission that its guard did not acknowledge
// yet, oldest first.
func Unheard(tx *store.Tx, mission string) ([]Record, error) {
	return listed(tx, unheard, mission)
}

// listed reads what an index names; mission "" means all.
func listed(tx *store.Tx, index, mission string) ([]Record, error) {
	var out []Record
	err := scan(tx, index, func(id string, w waiting) error {
		if mission != "" && w.Mission != mission {
			return nil
		}
		r, ok, err := Get(tx, id)
		if ok {
			out = append(out, r)
		}
		return err
	})
	return out, err
}

// Waiting counts what waits, by mission, without reading the requests.
func Waiting(tx *store.Tx) (map[string]int, error) {
	out := map[string]int{}
	err := scan(tx, pending, func(_ string, w waiting) error {
		if w.Joins == "" {
			out[w.Mission]++
		}
		return nil
	})
	return out, err
}

// waiting is an entry of an index.
type waiting struct {
	Mission string        `json:"mission"`
	Kind    approval.Kind `json:"kind"`
	Joins   string        `json:"joins,omitempty"`
}

func scan(tx *store.Tx, index string, fn func(id string, w waiting) error) error {
	return tx.Scan(index, nil, func(k, v []byte) (bool, error) {
		var w waiting
		if len(v) == 0 { // written before the index said whose they are
			r, _, err := Get(tx, string(k))
			if err != nil {
				return false, err
			}
			w = waiting{r.Mission, r.Kind, r.Joins}
		} else if err := json.Unmarshal(v, &w); err != nil {
			return false, fmt.Errorf("read the index %s: %w", index, err)
		}
		return true, fn(string(k), w)
	})
}

// Recent returns up to limit approvals, settled ones included, newest first.
func Recent(tx *store.Tx, mission string, limit int) ([]Record, error) {
	var out []Record
	err := tx.ScanReverse(bucket, nil, func(_, v []byte) (bool, error) {
		var r Record
		if err := json.Unmarshal(v, &r); err != nil {
			return false, err
		}
		if mission == "" || r.Mission == mission {
			out = append(out, r)
		}
		return len(out) < limit, nil
	})
	return out, err
}

func settle(tx *store.Tx, r Record) error {
	if err := put(tx, r); err != nil {
		return err
	}
	e := store.AuditEntry{Kind: store.AuditAnswer, Mission: r.Mission, Approval: r.ID, Text: string(r.Kind) + " " + string(r.State)}
	if r.Answer != nil {
		e.Actor = r.Answer.Who.String()
		e.Data = auditData(map[string]any{"digest": r.Digest, "who": r.Answer.Who, "reason": r.Answer.Reason, "stop": r.Answer.Stop,
			"for": r.Answer.For, "pattern": r.Answer.Pattern, "rule_made": r.Rule})
	}
	return tx.Audit(e)
}

func put(tx *store.Tx, r Record) error {
	answered := r.State == approval.Allowed || r.State == approval.Denied
	asks := r.Attempt != "" && r.Kind != approval.MissionRecover && r.Effect == "" // a guard asks, and waits for the answer
	for index, in := range map[string]bool{pending: r.State == approval.Pending, unheard: answered && asks && !r.Delivered} {
		var err error
		if in {
			err = store.PutJSON(tx, index, r.ID, waiting{r.Mission, r.Kind, r.Joins})
		} else {
			err = tx.Delete(index, []byte(r.ID))
		}
		if err != nil {
			return err
		}
	}
	return store.PutJSON(tx, bucket, r.ID, r)
}

func auditData(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
