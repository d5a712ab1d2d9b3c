package effects

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/service/internal/store"
)

// List returns up to limit effects, newest first by id: of one mission, or of
// all when it is "", and in one of the states, or in any when there is none.
func List(tx *store.Tx, mission string, limit int, states ...State) ([]Record, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []Record
	fits := func(r Record) bool {
		return (mission == "" || r.Mission == mission) && (len(states) == 0 || slices.Contains(states, r.State))
	}
	open := len(states) > 0 && !slices.ContainsFunc(states, func(s State) bool { return s != Executing && s != Uncertain })
	if mission == "" && !open {
		err := tx.ScanReverse(bucket, nil, func(_, raw []byte) (bool, error) {
			var r Record
			if err := json.Unmarshal(raw, &r); err != nil {
				return false, fmt.Errorf("read an effect: %w", err)
			}
			if fits(r) {
				out = append(out, r)
			}
			return len(out) < limit, nil
		})
		return out, err
	}
	var ids []string
	var err error
	if open {
		for _, index := range []string{executing, uncertain} {
			some, e := indexed(tx, index, Coordinates{Mission: mission})
			ids, err = append(ids, some...), errors.Join(err, e)
		}
	} else {
		err = under(tx, byKey, mission, func(_, id []byte) { ids = append(ids, string(id)) })
	}
	slices.Sort(ids)
	for _, id := range slices.Backward(ids) {
		if err != nil || len(out) == limit {
			break
		}
		var r Record
		if r, err = mustGet(tx, id); err == nil && fits(r) {
			out = append(out, r)
		}
	}
	return out, err
}

// Untold returns up to limit effects of which the mission's worker must hear,
// oldest first: those that became uncertain, and those that are not uncertain
// any more.
func Untold(tx *store.Tx, mission string, limit int) ([]Record, error) {
	var ids []string
	err := under(tx, untold, mission, func(k, _ []byte) { ids = append(ids, string(k[len(mission)+1:])) })
	var out []Record
	for _, id := range ids[:min(len(ids), max(limit, 0))] {
		if err == nil {
			var r Record
			r, err = mustGet(tx, id)
			out = append(out, r)
		}
	}
	return out, err
}

// Told notes that the worker has heard of the effects as they are in told. One
// that has changed since stays untold.
func Told(tx *store.Tx, told []Record) error {
	for _, t := range told {
		if string(tx.Get(untold, t.untold())) != strconv.FormatUint(t.Revision, 10) {
			continue
		}
		if err := tx.Delete(untold, t.untold()); err != nil {
			return err
		}
	}
	return nil
}

// under calls fn for every entry whose key begins with the mission.
func under(tx *store.Tx, index, mission string, fn func(k, v []byte)) error {
	prefix := mission + "\x00"
	return tx.Scan(index, []byte(prefix), func(k, v []byte) (bool, error) {
		if !strings.HasPrefix(string(k), prefix) {
			return false, nil
		}
		fn(k, v)
		return true, nil
	})
}

// indexed returns the ids in an index that lie within of, oldest first.
func indexed(tx *store.Tx, index string, of Coordinates) ([]string, error) {
	within := func(want, have string) bool { return want == "" || want == have }
	var ids []string
	err := store.EachJSON(tx, index, func(id string, c Coordinates) (bool, error) {
		if within(of.Mission, c.Mission) && within(of.Attempt, c.Attempt) && within(of.Execution, c.Execution) && within(of.Turn, c.Turn) {
			ids = append(ids, id)
		}
		return true, nil
	})
	return ids, err
}
