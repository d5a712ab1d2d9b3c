package approvals

import (
	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/service/internal/store"
)

// Join adds a request that repeats one which still waits: the same mission,
// attempt and turn want exactly the same thing again. A repeat is not shown by
// itself; the answer to the first request is its answer, too. When nothing that
// waits is repeated, joined is false and nothing was changed.
func Join(tx *store.Tx, r Record) (joined bool, err error) {
	if r.Same == "" || tx.Get(bucket, []byte(r.ID)) != nil {
		return false, nil
	}
	open, err := Pending(tx, r.Mission)
	if err != nil || len(open) >= MaxMissionPending {
		return false, err
	}
	for _, o := range open {
		if o.Joins != "" || o.Attempt != r.Attempt || o.Turn != r.Turn || o.Same != r.Same {
			continue
		}
		r.State, r.Joins = approval.Pending, o.ID
		o.Joined = append(o.Joined, r.ID)
		if err := put(tx, o); err != nil {
			return false, err
		}
		if err := put(tx, r); err != nil {
			return false, err
		}
		return true, tx.Audit(store.AuditEntry{Kind: store.AuditApproval, Mission: r.Mission, Approval: r.ID,
			Text: string(r.Kind) + " asked again; it joins " + o.ID, Data: auditData(map[string]any{"digest": r.Digest})})
	}
	return false, nil
}

// Together returns the requests that joined r, whose answer is that of r.
func Together(tx *store.Tx, r Record) ([]Record, error) {
	var out []Record
	for _, id := range r.Joined {
		j, ok, err := Get(tx, id)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, j)
		}
	}
	return out, nil
}

// handOn gives the question of r, which ended without an answer, to the first
// request that repeats it and still waits.
func handOn(tx *store.Tx, r Record) error {
	joined, err := Together(tx, r)
	if err != nil {
		return err
	}
	first := -1
	for i, j := range joined {
		switch {
		case j.State != approval.Pending:
			continue
		case first < 0:
			first = i
			joined[i].Joins = ""
		default:
			joined[i].Joins = joined[first].ID
			joined[first].Joined = append(joined[first].Joined, j.ID)
		}
	}
	for _, j := range joined {
		if j.State == approval.Pending {
			if err := put(tx, j); err != nil {
				return err
			}
		}
	}
	return nil
}
