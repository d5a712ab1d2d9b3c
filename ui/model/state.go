package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// Link is how a program stands with the service.
type Link string

// The links.
const (
	Connecting Link = "connecting"
	Running    Link = "running"
	NoService  Link = "no-service" // nothing listens
	Mismatch   Link = "mismatch"   // it speaks another version
	Updating   Link = "updating"   // it closed for an update and will be back
	Blind      Link = "blind"      // it runs, and does not tell what goes on
)

// State is everything that one program knows of the service. Snapshots and
// deltas may repeat and may arrive late: what is newer wins, so that every
// order ends in the same state.
type State struct {
	// PID is the program's own process id: answers of any other process are
	// told as news. 0 tells all of them.
	PID int
	// Unmanaged says that this system has nothing that could start the service
	// at log-on.
	Unmanaged bool

	link     Link
	linkText string
	service  wire.Service
	missions map[string]wire.Mission
	waiting  map[string]wire.Approval // those that wait for a person
	settled  map[string]wire.Approval // the newest of the others
	refusals []wire.Refusal
	seen     map[string]uint64 // the revision of a mission that a person saw
	before   *Seen             // what an earlier run kept
	known    map[string]bool   // topics that had a snapshot
	blind    map[string]string // topics that have none, and why
	rooms    map[string]wire.Room
	unread   map[string]int             // messages of others in a room that no person saw
	looked   map[string]string          // the last message of a room that a person saw
	open     map[string]wire.Effect     // effects that are executed, or uncertain
	closed   map[string]wire.Effect     // the newest of the others
	doubts   map[string]map[string]bool // the ids of a mission's uncertain effects
}

// maxRefusals is how many refusals are kept for showing; the audit has all.
const maxRefusals = 100

// maxSettled is how many settled approvals, and closed effects, are kept; the
// service's snapshots carry as many. The audit has all.
const maxSettled = 200

// NewState returns the state of a program that is connecting.
func NewState(pid int) *State {
	return &State{PID: pid, link: Connecting, missions: map[string]wire.Mission{}, waiting: map[string]wire.Approval{}, settled: map[string]wire.Approval{},
		seen: map[string]uint64{}, known: map[string]bool{}, rooms: map[string]wire.Room{}, unread: map[string]int{}, looked: map[string]string{},
		open: map[string]wire.Effect{}, closed: map[string]wire.Effect{}, doubts: map[string]map[string]bool{}}
}

// SetLink says how the connection stands; text is a sentence for a person about
// what is wrong, and may be empty. What is known of missions stays.
func (s *State) SetLink(l Link, text string) { s.link, s.linkText, s.blind = l, text, nil }

// Link returns how the connection stands, and a sentence that says what to do
// when it isn't running, or that the service is about to be replaced.
func (s *State) Link() (Link, string) {
	if why, blind := s.unseen(); blind && s.link == Running {
		return Blind, say.T("Missions and approvals can't be seen, and some may wait for you. The service says: %s If it stays like this, quit this program and open Reeve from the desktop's menu.", why)
	}
	if s.linkText == "" && s.link == Running && s.service.State == "updating" {
		return s.link, say.T("Reeve is being updated: turns go on, and nothing new begins until it is done.")
	}
	if s.linkText != "" || s.link == Running {
		return s.link, s.linkText
	}
	switch s.link {
	case NoService:
		return s.link, say.T("The service is not running. Start it to go on; nothing is lost.")
	case Mismatch:
		return s.link, say.T("The service speaks another version. Restart the service after an update, or update this program.")
	case Updating:
		return s.link, say.T("The service is being updated and will be back by itself.")
	}
	return s.link, say.T("Connecting to the service.")
}

// Service returns what the service said of itself last.
func (s *State) Service() wire.Service { return s.service }

// Mission returns a mission by its whole id.
func (s *State) Mission(id string) (wire.Mission, bool) {
	m, ok := s.missions[id]
	return m, ok
}

// Approval returns an approval by its whole id.
func (s *State) Approval(id string) (wire.Approval, bool) {
	a, ok := s.waiting[id]
	if !ok {
		a, ok = s.settled[id]
	}
	return a, ok
}

// Pending returns the approvals that wait for a person, oldest first; of one
// mission, or of all when mission is empty.
func (s *State) Pending(mission string) []wire.Approval {
	var out []wire.Approval
	for _, a := range s.waiting {
		if mission == "" || a.Mission == mission {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b wire.Approval) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// Refusals returns what workers were refused, newest first, as far as this
// program heard of it.
func (s *State) Refusals() []wire.Refusal { return s.refusals }

// ChangeKind is what happened, as far as a person may want to hear of it.
type ChangeKind string

// The changes.
const (
	Asked    ChangeKind = "asked"    // an approval waits
	Answered ChangeKind = "answered" // another program settled an approval
	Vanished ChangeKind = "vanished" // an approval waits no longer, and nobody here saw how it was settled
	Finished ChangeKind = "finished" // a mission ended
	Halted   ChangeKind = "blocked"  // a mission needs a person to go on
	Refused  ChangeKind = "refused"  // a worker tried what only a person may do
	Doubted  ChangeKind = "doubted"  // nobody knows whether an effect happened
)

// Change is one thing that happened. The field that belongs to the kind is set,
// and with a question its mission, where that is known.
type Change struct {
	Kind     ChangeKind
	Mission  wire.Mission
	Approval wire.Approval
	Refusal  wire.Refusal
	Effect   wire.Effect
}

// Snapshot takes the whole of a topic: what it does not name is gone. The
// changes it returns are what happened since this state last knew the topic;
// of a first snapshot these are only the questions that wait.
func (s *State) Snapshot(topic string, items []json.RawMessage) ([]Change, error) {
	var changes []Change
	first := !s.known[topic]
	switch topic {
	case wire.TopicService:
		for _, it := range items {
			if err := s.putService(it); err != nil {
				return nil, err
			}
		}
	case wire.TopicMissions:
		present, err := decode[wire.Mission](items, "mission")
		if err != nil {
			return nil, err
		}
		keep := map[string]bool{}
		for _, m := range present {
			keep[m.ID] = true
			c := s.putMission(m)
			if first {
				s.recall(m)
				continue
			}
			changes = append(changes, c...)
		}
		for id := range s.missions {
			if !keep[id] {
				delete(s.missions, id)
				delete(s.seen, id)
			}
		}
	case wire.TopicApprovals:
		present, err := decode[wire.Approval](items, "approval")
		if err != nil {
			return nil, err
		}
		changes = s.putApprovals(present, first)
	case wire.TopicRooms:
		if err := s.putRooms(items, first); err != nil {
			return nil, err
		}
	case wire.TopicEffects:
		var err error
		if changes, err = s.putEffects(items); err != nil {
			return nil, err
		}
	}
	s.known[topic] = true
	return changes, nil
}

// Delta takes one event and returns what happened with it. Events that it does
// not know change nothing.
func (s *State) Delta(ev wire.Event) ([]Change, error) {
	switch ev.Event {
	case wire.EvService:
		return nil, s.putService(ev.Data)
	case wire.EvMission:
		var m wire.Mission
		if err := json.Unmarshal(ev.Data, &m); err != nil {
			return nil, fmt.Errorf("read a mission event: %w", err)
		}
		return s.putMission(m), nil
	case wire.EvApproval:
		var a wire.Approval
		if err := json.Unmarshal(ev.Data, &a); err != nil {
			return nil, fmt.Errorf("read an approval event: %w", err)
		}
		return s.putApproval(a), nil
	case wire.EvRoom:
		return nil, s.putMessage(ev.Data)
	case wire.EvRoomChanged:
		return nil, s.putRoom(ev.Data)
	case wire.EvEffect:
		var e wire.Effect
		if err := json.Unmarshal(ev.Data, &e); err != nil {
			return nil, fmt.Errorf("read an effect: %w", err)
		}
		return s.putEffect(e), nil
	case wire.EvRefusal:
		var r wire.Refusal
		if err := json.Unmarshal(ev.Data, &r); err != nil {
			return nil, fmt.Errorf("read a refusal event: %w", err)
		}
		if slices.Contains(s.refusals, r) {
			return nil, nil
		}
		s.refusals = append(s.refusals, r)
		slices.SortFunc(s.refusals, func(a, b wire.Refusal) int { return b.At.Compare(a.At) })
		s.refusals = s.refusals[:min(len(s.refusals), maxRefusals)]
		return []Change{{Kind: Refused, Refusal: r}}, nil
	}
	return nil, nil
}

func (s *State) putService(data json.RawMessage) error {
	var v wire.Service
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("read the state of the service: %w", err)
	}
	if v.Generation >= s.service.Generation {
		s.service = v
	}
	return nil
}

// putMission keeps the newer of two records. Activity and usage change without
// a new revision, so between equals the later activity wins.
func (s *State) putMission(m wire.Mission) []Change {
	old, had := s.missions[m.ID]
	if had && (m.Revision < old.Revision || m.Revision == old.Revision && activityAt(m).Before(activityAt(old))) {
		return nil
	}
	s.missions[m.ID] = m
	if !had {
		return nil
	}
	was, is := mission.Phase(old.Phase), mission.Phase(m.Phase)
	switch {
	case is.Terminal() && !was.Terminal() && is != mission.Denied:
		return []Change{{Kind: Finished, Mission: m}}
	case is == mission.Blocked && was != mission.Blocked:
		return []Change{{Kind: Halted, Mission: m}}
	}
	return nil
}

func activityAt(m wire.Mission) time.Time {
	if m.Activity == nil {
		return time.Time{}
	}
	return m.Activity.At
}

// putApprovals takes the approvals of a snapshot. What was settled before the
// first is no news; after it a snapshot ends a gap, and what another program
// answered meanwhile is told whether the question was ever seen here or not.
func (s *State) putApprovals(present []wire.Approval, first bool) []Change {
	var changes []Change
	keep := map[string]bool{}
	for _, a := range present {
		keep[a.ID] = true
		for _, c := range s.putApproval(a) {
			if c.Kind == Asked || !first {
				changes = append(changes, c)
			}
		}
	}
	for _, a := range s.Pending("") {
		if !keep[a.ID] {
			delete(s.waiting, a.ID)
			changes = append(changes, Change{Kind: Vanished, Approval: a})
		}
	}
	maps.DeleteFunc(s.settled, func(id string, _ wire.Approval) bool { return !keep[id] })
	return changes
}

// putApproval never goes back from settled to pending: answers are final.
func (s *State) putApproval(a wire.Approval) []Change {
	_, waits := s.waiting[a.ID]
	_, settled := s.settled[a.ID]
	if a.State == string(approval.Pending) {
		if waits || settled {
			return nil
		}
		s.waiting[a.ID] = a
		return []Change{{Kind: Asked, Approval: a, Mission: s.missions[a.Mission]}}
	}
	delete(s.waiting, a.ID)
	s.settled[a.ID] = a
	trim(s.settled, settledAt)
	if !settled && a.Answer != nil && a.Answer.Via == "program" && (s.PID == 0 || a.Answer.PID != s.PID) {
		return []Change{{Kind: Answered, Approval: a}}
	}
	return nil
}

// settledAt is when an approval was answered, or was asked if nobody did.
func settledAt(a wire.Approval) time.Time {
	if a.Answer != nil {
		return a.Answer.At
	}
	return a.CreatedAt
}

// trim forgets the oldest once there are twice as many as are kept.
func trim[T any](m map[string]T, at func(T) time.Time) {
	if len(m) <= 2*maxSettled {
		return
	}
	ids := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(at(m[a]).Compare(at(m[b])), strings.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-maxSettled] {
		delete(m, id)
	}
}

func decode[T any](items []json.RawMessage, what string) ([]T, error) {
	out := make([]T, len(items))
	for i, it := range items {
		if err := json.Unmarshal(it, &out[i]); err != nil {
			return nil, fmt.Errorf("read %s %d of a snapshot: %w", what, i, err)
		}
	}
	return out, nil
}
