package model

import (
	"slices"
	"strings"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

// Answered returns approvals that no longer wait, the newest answer first, at
// most limit of them.
func (s *State) Answered(limit int) []wire.Approval {
	var out []wire.Approval
	for _, a := range s.approvals {
		if a.State != string(approval.Pending) {
			out = append(out, a)
		}
	}
	at := func(a wire.Approval) int64 {
		if a.Answer != nil {
			return a.Answer.At.UnixNano()
		}
		return a.CreatedAt.UnixNano()
	}
	slices.SortFunc(out, func(a, b wire.Approval) int {
		if x, y := at(a), at(b); x != y {
			if x > y {
				return -1
			}
			return 1
		}
		return strings.Compare(b.ID, a.ID)
	})
	return out[:min(limit, len(out))]
}

// Folders returns the checkouts of known missions, the most recently used
// first, each once.
func (s *State) Folders(limit int) []string {
	var out []string
	list := s.sorted()
	slices.SortStableFunc(list, func(a, b wire.Mission) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for _, m := range list {
		if m.Folder != "" && !slices.Contains(out, m.Folder) && len(out) < limit {
			out = append(out, m.Folder)
		}
	}
	return out
}

// Known reports whether a topic had its first snapshot.
func (s *State) Known(topic string) bool { return s.known[topic] }
