package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/reevehq/reeve/ipc/wire"
)

// Answered returns approvals that no longer wait, the newest answer first, at
// most limit of them.
func (s *State) Answered(limit int) []wire.Approval {
	out := slices.SortedFunc(maps.Values(s.settled), func(a, b wire.Approval) int {
		return cmp.Or(settledAt(b).Compare(settledAt(a)), strings.Compare(b.ID, a.ID))
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
