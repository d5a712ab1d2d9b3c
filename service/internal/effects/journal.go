package effects

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reevehq/reeve/service/internal/store"
)

const (
	bucket    = "effects"
	byKey     = "effect_keys"       // the parts of a Key with NULs between: id
	counts    = "effect_counts"     // attempt: how many effects it has, decimal
	executing = "effects_executing" // index: id, with its Coordinates
	uncertain = "effects_uncertain" // index: the same
	untold    = "effects_untold"    // mission, 0, id: what its worker must hear of
	reads     = "effect_reads"      // attempt, 0, id: ended and only read; its place in byKey
)

// Prepare records what a worker is about to do, before it does it. r holds its
// ID, Key, TurnNo, Room, Tool, the whole Input, Mutation, Own, Action with what
// belongs to it, By and CreatedAt; the rest is set here. The worker may go ahead
// exactly when the effect that comes back is Executing.
//
// Preparing the same Key again gives the effect that is there, with the action
// that was decided first. It changes only when another process asks: then what
// may not be repeated becomes Uncertain, because the process that executed it is
// gone, and what may goes on with the new process. changed tells that the
// journal was written.
//
// The errors are ErrOther, ErrMany, ErrBusy, ErrMissionBusy, what is wrong with r, or of the
// journal.
func Prepare(tx *store.Tx, r Record) (_ Record, changed bool, err error) {
	if r.Digest, err = Digest(r.Input); err != nil {
		return r, false, err
	}
	if err := r.check(); err != nil {
		return r, false, fmt.Errorf("prepare an effect of %q: %w", r.Mission, err)
	}
	if id := tx.Get(byKey, r.place()); id != nil {
		old, err := mustGet(tx, string(id))
		if err != nil {
			return old, false, err
		}
		if old.Tool != r.Tool || old.Digest != r.Digest || old.Mutation != r.Mutation {
			return old, false, ErrOther
		}
		return old.repeat(tx, r.By, r.CreatedAt)
	}
	if err := admit(tx, r); err != nil {
		return r, false, err
	}
	if len(r.Input) == 0 {
		r.Input = json.RawMessage("{}")
	}
	if r.Input, r.Cut, err = keep(r.Input); err != nil {
		return r, false, fmt.Errorf("prepare an effect: its input: %w", err)
	}
	if err := tx.Put(byKey, r.place(), []byte(r.ID)); err != nil {
		return r, false, err
	}
	r.State, r.Revision = Executing, 0
	r.EndedAt, r.Result, r.ResultCut, r.Error, r.Why, r.Outcome, r.SettledBy = time.Time{}, nil, false, "", "", "", ""
	r, err = r.put(tx, "", r.CreatedAt, r.By.String())
	return r, true, err
}

// admit counts the new effect, or says why there is no place for it.
func admit(tx *store.Tx, r Record) error {
	if tx.Get(bucket, []byte(r.ID)) != nil {
		return fmt.Errorf("prepare an effect of %q: the id %s is taken", r.Mission, r.ID)
	}
	of, err := count(tx, r.Attempt)
	if err != nil {
		return err
	}
	if of >= MaxEffects {
		return ErrMany
	}
	all, ours := 0, 0
	err = store.EachJSON(tx, executing, func(_ string, c Coordinates) (bool, error) {
		if all++; c.Mission == r.Mission {
			ours++
		}
		return true, nil
	})
	switch {
	case err != nil:
		return err
	case ours >= MaxMissionExecuting:
		return ErrMissionBusy
	case all >= MaxExecuting:
		return ErrBusy
	}
	return tx.Put(counts, []byte(r.Attempt), []byte(strconv.Itoa(of+1)))
}

// count is how many effects of an attempt are kept.
func count(tx *store.Tx, attempt string) (int, error) {
	v := tx.Get(counts, []byte(attempt))
	if v == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(v))
	if err != nil {
		return 0, fmt.Errorf("read how many effects %s has: %w", attempt, err)
	}
	return n, nil
}

// readEnded lets the oldest reads of an attempt go when it has many: an agent
// that looks for news every few seconds would fill the journal with them, and a
// read that is asked for again may run again. The audit keeps all of them.
func (r Record) readEnded(tx *store.Tx) error {
	prefix := r.Attempt + "\x00"
	if err := tx.Put(reads, []byte(prefix+r.ID), r.place()); err != nil {
		return err
	}
	var ids []string
	var places [][]byte
	err := tx.Scan(reads, []byte(prefix), func(k, v []byte) (bool, error) {
		id, ours := strings.CutPrefix(string(k), prefix)
		if ours {
			ids, places = append(ids, id), append(places, slices.Clone(v))
		}
		return ours, nil
	})
	for i := range max(len(ids)-MaxReads, 0) {
		n, e := count(tx, r.Attempt)
		err = errors.Join(err, e, tx.Put(counts, []byte(r.Attempt), []byte(strconv.Itoa(n-1))),
			tx.Delete(reads, []byte(prefix+ids[i])), tx.Delete(byKey, places[i]), tx.Delete(bucket, []byte(ids[i])))
	}
	return err
}

// repeat is what becomes of the effect when its key is prepared again.
func (r Record) repeat(tx *store.Tx, by Process, at time.Time) (Record, bool, error) {
	was := r.State
	next, err := r.State.after(asked, r.By == by, r.again())
	if err != nil || next == was && (was != Executing || r.By == by) {
		return r, false, err
	}
	if r.State = next; next == Uncertain {
		r.Why = "another process asked for it, so the one that executed it is gone"
	} else {
		r.By = by
	}
	r, err = r.put(tx, was, at, by.String())
	return r, true, err
}

// Complete records how an effect of this run ended; changed tells that it was
// not on record. The turn in of doesn't count, since a bridge may live across
// turns. Completing again with the same kind of end changes nothing and returns
// the effect with its first result; so an effect that the service executes does
// what it does only when changed is true, in this very transaction.
//
// An uncertain effect is completed by the process that executed it and by
// nobody else. The errors are ErrNotFound, ErrContrary, ErrUncertain,
// ErrSettled, what is wrong with the result, or of the journal.
func Complete(tx *store.Tx, of Coordinates, id string, e End) (_ Record, changed bool, err error) {
	r, ok, err := Get(tx, id)
	if err != nil {
		return r, false, err
	}
	if !ok || r.Mission != of.Mission || r.Attempt != of.Attempt || r.Execution != of.Execution {
		return Record{}, false, ErrNotFound
	}
	if e.Error != "" && len(e.Result) > 0 {
		return r, false, errors.New("an effect ends with a result or with an error, not with both")
	}
	was, end := r.State, succeeded
	if e.Error != "" {
		end = failed
	}
	next, err := r.State.after(end, r.By == e.By, r.again())
	if err != nil || next == was {
		return r, false, err
	}
	r.State, r.Why = next, ""
	if end == failed {
		r.Error = cutText(e.Error, maxError)
	} else if len(e.Result) > 0 {
		if r.Result, r.ResultCut, err = keep(e.Result); err != nil {
			return r, false, fmt.Errorf("complete the effect %s: its result: %w", id, err)
		}
	}
	r, err = r.put(tx, was, e.At, e.By.String())
	return r, true, err
}

// Lose ends everything that still executes and belongs to a run that is over:
// a turn, an execution, an attempt or a mission. Empty parts of of stand for
// any. What may have happened becomes Uncertain, what certainly did not, or
// only read, Failed. why is a clause that says what is over. The effects that
// changed are returned, oldest first.
func Lose(tx *store.Tx, of Coordinates, why string, at time.Time) ([]Record, error) {
	if of.Mission == "" {
		return nil, errors.New("lose effects: of no mission")
	}
	ids, err := indexed(tx, executing, of)
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, id := range ids {
		r, err := mustGet(tx, id)
		if err != nil {
			return nil, err
		}
		was := r.State
		next, err := was.after(lost, false, r.again())
		if err != nil {
			return nil, err
		}
		if next == was {
			continue
		}
		r.State, r.Why = next, why
		if r, err = r.put(tx, was, at, ""); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Refuse records of an effect that it did not happen, because the process that
// prepared it was never told to go on. why is a clause that says what stood in
// the way. An end that is on record stays, and is an error as for Complete.
func Refuse(tx *store.Tx, id, why string, at time.Time) (_ Record, changed bool, err error) {
	r, err := mustGet(tx, id)
	if err != nil {
		return r, false, err
	}
	was := r.State
	next, err := was.after(failed, true, r.again())
	if err != nil || next == was {
		return r, false, err
	}
	r.State, r.Why = next, why
	r, err = r.put(tx, was, at, r.By.String())
	return r, true, err
}

// Settle records what a person, by, said of an uncertain effect. revision must
// be that of the effect as they saw it. The errors are ErrNotFound, ErrOutcome,
// ErrSettled, ErrCertain, ErrChanged or of the journal.
func Settle(tx *store.Tx, id string, revision uint64, o Outcome, by string, at time.Time) (Record, error) {
	if !slices.Contains([]Outcome{Happened, DidNot, Left}, o) {
		return Record{}, ErrOutcome
	}
	r, ok, err := Get(tx, id)
	if err == nil && !ok {
		err = ErrNotFound
	}
	if err != nil {
		return r, err
	}
	was := r.State
	next, err := r.State.after(settled, false, r.again())
	if err != nil {
		return r, err
	}
	if r.Revision != revision {
		return r, ErrChanged
	}
	r.State, r.Outcome, r.SettledBy = next, o, by
	return r.put(tx, was, at, by)
}

// Get returns one effect by its whole id.
func Get(tx *store.Tx, id string) (Record, bool, error) {
	return store.GetJSON[Record](tx, bucket, id)
}

// Find returns the effect of a key, if that was ever prepared.
func Find(tx *store.Tx, k Key) (Record, bool, error) {
	id := tx.Get(byKey, k.place())
	if id == nil {
		return Record{}, false, nil
	}
	r, err := mustGet(tx, string(id))
	return r, err == nil, err
}

func mustGet(tx *store.Tx, id string) (Record, error) {
	r, ok, err := Get(tx, id)
	if err == nil && !ok {
		err = fmt.Errorf("read the effect %s: it is in an index and not there", id)
	}
	return r, err
}

// put writes the effect as its next revision, with every index and the audit.
func (r Record) put(tx *store.Tx, was State, at time.Time, actor string) (Record, error) {
	r.Revision++
	if r.State != Executing {
		r.EndedAt = at
	}
	for index, in := range map[string]bool{executing: r.State == Executing, uncertain: r.State == Uncertain} {
		var err error
		if in {
			err = store.PutJSON(tx, index, r.ID, r.Coordinates)
		} else if was == Executing || was == Uncertain {
			err = tx.Delete(index, []byte(r.ID))
		}
		if err != nil {
			return r, err
		}
	}
	if r.State == Uncertain || was == Uncertain {
		if err := tx.Put(untold, r.untold(), []byte(strconv.FormatUint(r.Revision, 10))); err != nil {
			return r, err
		}
	}
	raw, err := encode(r)
	if err != nil {
		return r, fmt.Errorf("write the effect %s: %w", r.ID, err)
	}
	if err := tx.Put(bucket, []byte(r.ID), raw); err != nil {
		return r, err
	}
	if !r.Mutation && was == Executing && r.State != Executing {
		if err := r.readEnded(tx); err != nil {
			return r, err
		}
	}
	if !r.Mutation && r.State == Executing {
		return r, nil // the audit has how it ended
	}
	data, err := json.Marshal(map[string]any{"effect": r.ID, "attempt": r.Attempt, "execution": r.Execution, "turn": r.Turn, "request": r.Request,
		"digest": r.Digest, "mutation": r.Mutation, "action": r.Action, "state": r.State, "revision": r.Revision, "why": r.Why, "outcome": r.Outcome})
	if err != nil {
		return r, err
	}
	return r, tx.Audit(store.AuditEntry{Time: at, Kind: store.AuditEffect, Actor: actor, Mission: r.Mission, Text: r.Tool + " " + string(r.State), Data: data})
}

// again reports whether executing the effect again does no harm.
func (r Record) again() bool { return !r.Mutation || r.Own }

// place is where the key stands in byKey.
func (k Key) place() []byte {
	return []byte(strings.Join([]string{k.Mission, k.Attempt, k.Execution, k.Turn, k.Request}, "\x00"))
}

func (r Record) untold() []byte { return []byte(r.Mission + "\x00" + r.ID) }

// check reports what is wrong with a new effect.
func (r Record) check() error {
	for _, f := range []struct{ name, value string }{
		{"id", r.ID}, {"mission", r.Mission}, {"attempt", r.Attempt}, {"execution", r.Execution}, {"turn", r.Turn}, {"request id", r.Request}, {"tool", r.Tool},
	} {
		if f.value == "" || len(f.value) > maxField || !utf8.ValidString(f.value) || strings.Contains(f.value, "\x00") {
			return fmt.Errorf("its %s is not 1 to %d bytes of UTF-8 text without NUL", f.name, maxField)
		}
	}
	if r.By.PID <= 0 {
		return errors.New("nobody knows which process asks")
	}
	return nil
}

// String names the process for logs and the audit.
func (p Process) String() string { return fmt.Sprintf("worker process %d", p.PID) }
