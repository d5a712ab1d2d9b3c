package model

import (
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// Seen is what is kept between two runs of a program, so that a person is told
// what changed in between.
type Seen struct {
	// At is when it was kept. What is not listed was seen then, or did not exist.
	At time.Time `json:"at"`
	// Missions are the revisions that the person saw, 0 for none; ended missions
	// only if they were not looked at since.
	Missions map[string]uint64 `json:"missions"`
}

// maxSeen bounds what is kept; the newest missions are.
const maxSeen = 500

// MarkSeen says that a person looked at the mission, and returns whether that is
// news.
func (s *State) MarkSeen(id string) bool {
	m, ok := s.missions[id]
	if !ok {
		return false
	}
	was, ok := s.seen[id]
	s.seen[id] = m.Revision
	return !ok || was != m.Revision
}

// Seen returns what is to be kept; false as long as no mission is known.
func (s *State) Seen(now time.Time) (Seen, bool) {
	if !s.known[wire.TopicMissions] {
		return Seen{}, false
	}
	var kept []wire.Mission
	for id, m := range s.missions {
		if !mission.Phase(m.Phase).Terminal() || s.seen[id] < m.Revision {
			kept = append(kept, m)
		}
	}
	slices.SortFunc(kept, func(a, b wire.Mission) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	out := Seen{At: now, Missions: map[string]uint64{}}
	for _, m := range kept[:min(len(kept), maxSeen)] {
		out.Missions[m.ID] = s.seen[m.ID]
	}
	return out, true
}

// Remember takes up what an earlier run kept. Without it, everything that the
// first snapshot has counts as seen.
func (s *State) Remember(seen Seen) { s.before = &seen }

// recall says what a person saw of a mission before this run.
func (s *State) recall(m wire.Mission) {
	if s.before != nil {
		if revision, ok := s.before.Missions[m.ID]; ok {
			s.seen[m.ID] = min(revision, m.Revision)
			return
		}
		if sortTime(m).After(s.before.At) {
			return
		}
	}
	s.MarkSeen(m.ID)
}
