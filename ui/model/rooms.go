package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// messageNo is the number of a message, msg_<n>; 0 for none.
func messageNo(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "msg_"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Room returns a room by its whole id.
func (s *State) Room(id string) (wire.Room, bool) {
	r, ok := s.rooms[id]
	return r, ok
}

// Unread counts what workers and Reeve wrote into the rooms of a mission since
// a person looked.
func (s *State) Unread(mission string) int {
	n := 0
	for id, count := range s.unread {
		if s.rooms[id].Mission == mission {
			n += count
		}
	}
	return n
}

// RoomOf returns a mission's own room, as far as it is known.
func (s *State) RoomOf(mission string) (wire.Room, bool) {
	for _, r := range s.rooms {
		if r.Mission == mission {
			return r, true
		}
	}
	return wire.Room{}, false
}

// MarkRead says that a person saw all that is in the room.
func (s *State) MarkRead(room string) {
	delete(s.unread, room)
	if r, ok := s.rooms[room]; ok {
		s.looked[room] = r.Last
	}
}

// Looked is the last message that was there when a person looked last, or when
// this program began; "" when there was none.
func (s *State) Looked(room string) string { return s.looked[room] }

// putRooms takes every room there is. What came while nobody listened counts as
// unread: who wrote it is not told.
func (s *State) putRooms(items []json.RawMessage, first bool) error {
	list, err := decode[wire.Room](items, "room")
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, r := range list {
		keep[r.ID] = true
		old := s.rooms[r.ID]
		if n := messageNo(r.Last) - messageNo(old.Last); n > 0 && !first {
			s.unread[r.ID] += n
		} else if n < 0 {
			r.Last, r.Count, r.LastAt = old.Last, old.Count, old.LastAt
		}
		s.rooms[r.ID] = r
		if first {
			s.looked[r.ID] = r.Last
		}
	}
	for id := range s.rooms {
		if !keep[id] {
			delete(s.rooms, id)
			delete(s.unread, id)
			delete(s.looked, id)
		}
	}
	return nil
}

// putRoom takes a room that is new, or that somebody came into or left. Its
// messages are told one by one.
func (s *State) putRoom(data json.RawMessage) error {
	var r wire.Room
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("read a room: %w", err)
	}
	old := s.rooms[r.ID]
	r.Last, r.Count, r.LastAt = old.Last, old.Count, old.LastAt
	s.rooms[r.ID] = r
	return nil
}

// putMessage takes a message that was added. A room that is new has nothing
// but its messages to be known by, and its id, which is that of its mission.
func (s *State) putMessage(data json.RawMessage) error {
	var m wire.RoomMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("read a message of a room: %w", err)
	}
	r, ok := s.rooms[m.Room]
	if !ok {
		r = wire.Room{ID: m.Room}
	}
	r.Mission = cmp.Or(r.Mission, "m-"+strings.TrimPrefix(m.Room, "r-"))
	n := messageNo(m.ID)
	if n > messageNo(r.Last) {
		r.Last, r.LastAt = m.ID, &m.At
		r.Count = max(r.Count+1, n)
		if m.From != fromPerson {
			s.unread[m.Room]++
		}
	}
	s.rooms[m.Room] = r
	return nil
}

// Who writes into rooms.
const (
	fromPerson = "person"
	fromReeve  = "reeve"
)

// RoomLog is a room as a person reads it: its messages in order, each once, as
// far as they were read from the service.
type RoomLog struct {
	Room     wire.Room
	messages []wire.RoomMessage
	// What a person finds as new are the messages of others after the one
	// numbered from, up to the last that was there when they came. What comes
	// before their eyes is not.
	from, to int
	came     bool // they came, and nothing was read for them yet
}

// NewRoomLog returns a log that nothing was read into, for a person who saw the
// room up to the message named seen; with "" nothing is told as new.
func NewRoomLog(seen string) *RoomLog {
	return &RoomLog{from: messageNo(seen), came: seen != ""}
}

// Came says that the person comes to look once more: what is new begins after
// what was there when they left.
func (l *RoomLog) Came() { l.from, l.came = max(l.to, messageNo(l.Last())), true }

// Take adds a page, and reports whether it brought a message.
func (l *RoomLog) Take(page wire.RoomMessagesResult) bool {
	if l.Room.ID != page.Room.ID {
		l.messages = nil // the worker is in another room now
	}
	l.Room = page.Room
	before := len(l.messages)
	for _, m := range page.Messages {
		i, had := slices.BinarySearchFunc(l.messages, messageNo(m.ID), func(a wire.RoomMessage, n int) int { return cmp.Compare(messageNo(a.ID), n) })
		if !had {
			l.messages = slices.Insert(l.messages, i, m)
		}
	}
	if l.came {
		l.came, l.to = false, max(messageNo(l.Last()), messageNo(page.Room.Last))
	}
	return len(l.messages) > before
}

// Len is the number of messages.
func (l *RoomLog) Len() int { return len(l.messages) }

// Last is the id of the newest message, "" where there is none.
func (l *RoomLog) Last() string {
	if len(l.messages) == 0 {
		return ""
	}
	return l.messages[len(l.messages)-1].ID
}

// First is the id of the oldest message that was read, "" where there is none.
func (l *RoomLog) First() string {
	if len(l.messages) == 0 {
		return ""
	}
	return l.messages[0].ID
}

// Earlier says how many messages stand before those that were read, and after
// which one to read to have the nearest n of them.
func (l *RoomLog) Earlier(n int) (count int, after string) {
	if len(l.messages) == 0 {
		return 0, ""
	}
	count = messageNo(l.messages[0].ID) - 1
	return count, fmt.Sprintf("msg_%d", max(count-n, 0))
}

// RoomRow is one message as it is shown.
type RoomRow struct {
	ID      string
	Kind    string // as on the wire
	Who     string // "You", an agent's name, "Reeve"
	You     bool
	Reeve   bool
	When    string
	Answers string // what it answers, in short
	Text    string // safe to draw, with its lines
	New     bool   // the first of others that came while nobody looked
	Waits   bool   // yours, and its worker has not read it
}

// maxQuoted is how many characters are shown of a message that is answered.
const maxQuoted = 80

// Row prepares a message for a person.
func (l *RoomLog) Row(i int, now time.Time) RoomRow {
	m := l.messages[i]
	n := messageNo(m.ID)
	r := RoomRowOf(m, now)
	fresh := func(m wire.RoomMessage) bool {
		n := messageNo(m.ID)
		return n > l.from && n <= l.to && m.From != fromPerson
	}
	r.New = fresh(m) && !slices.ContainsFunc(l.messages[:i], fresh)
	r.Waits = r.You && len(l.Room.Workers) > 0 && n > messageNo(l.Room.Read)
	if m.Answers != "" {
		r.Answers = oneLine(m.Answers)
		if j := slices.IndexFunc(l.messages, func(o wire.RoomMessage) bool { return o.ID == m.Answers }); j >= 0 {
			r.Answers = say.T("“%s”", cut(firstLine(l.messages[j].Text), maxQuoted))
		}
	}
	return r
}

// RoomRowOf prepares a message that is known by itself.
func RoomRowOf(m wire.RoomMessage, now time.Time) RoomRow {
	r := RoomRow{ID: m.ID, Kind: m.Kind, Who: oneLine(m.Name), You: m.From == fromPerson, Reeve: m.From == fromReeve,
		When: Clock(m.At, now), Answers: oneLine(m.Answers), Text: strings.TrimRight(Clean(m.Text), "\n\t ")}
	switch {
	case r.You:
		r.Who = say.T("You")
	case r.Reeve:
		r.Who = "Reeve"
	case r.Who == "":
		r.Who = say.T("Agent")
	}
	return r
}
