package service

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// RoomList is every room, the newest first, as far as they fit an answer.
func (s *Service) RoomList(context.Context) (wire.RoomListResult, error) {
	rooms, err := s.rooms()
	size := 0
	for i, r := range rooms {
		if size += len(r.Title) + len(r.Project) + 64*len(r.Workers) + 512; size > maxListed {
			rooms = rooms[:i]
			break
		}
	}
	return wire.RoomListResult{Rooms: rooms}, err
}

func (s *Service) rooms() ([]wire.Room, error) {
	out := []wire.Room{}
	err := s.db.View(func(tx *store.Tx) error {
		list, err := room.List(tx)
		for _, r := range list {
			v, e := roomView(tx, r)
			if e != nil {
				return e
			}
			out = append(out, v)
		}
		return err
	})
	in := s.sup.InRooms()
	for i, r := range out {
		out[i].Workers = append(r.Workers, in[r.ID]...)
	}
	return out, err
}

// beginning is the cursor before the first message.
const beginning = "msg_0"

// RoomMessages reads a room.
func (s *Service) RoomMessages(_ context.Context, p wire.RoomMessagesParams) (wire.RoomMessagesResult, error) {
	out := wire.RoomMessagesResult{Messages: []wire.RoomMessage{}}
	after := 0
	if p.After != "" && p.After != beginning {
		var err error
		if after, err = room.ParseCursor(p.After); err != nil {
			return out, wire.InvalidField("after_message_id", "must be msg_<n>")
		}
	}
	id, err := s.roomID(p.Room)
	if err != nil {
		return out, err
	}
	err = s.db.View(func(tx *store.Tx) error {
		r, _, err := room.Get(tx, id)
		if err != nil {
			return err
		}
		if out.Room, err = roomView(tx, r); err != nil {
			return err
		}
		if p.After == "" {
			after = max(0, r.Last-p.Limit)
		}
		list, err := room.After(tx, id, after, p.Limit)
		size := 0
		for _, m := range list {
			// Control characters take up to six bytes in JSON.
			v := messageView(m)
			if raw, err := json.Marshal(v); err != nil {
				return err
			} else if size += len(raw); size > maxListed {
				break
			}
			out.Messages = append(out.Messages, v)
			after = m.Number
		}
		out.More = after < r.Last
		return err
	})
	out.Room.Workers = append([]string{}, s.sup.InRooms()[id]...)
	return out, err
}

// RoomSend adds a person's message and wakes the room's workers.
func (s *Service) RoomSend(ctx context.Context, a server.Actor, p wire.RoomSendParams) (wire.RoomSendResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.RoomSendResult{}, err
	}
	defer leave()
	id, err := s.roomID(p.Room)
	if err != nil {
		return wire.RoomSendResult{}, err
	}
	if err := s.heard(id); err != nil {
		return wire.RoomSendResult{}, err
	}
	m := room.Message{Room: id, Kind: room.Text, From: room.Person, Name: "Person", Text: strings.TrimSpace(p.Text), At: s.now()}
	err = s.db.Update(ctx, func(tx *store.Tx) (err error) { m, _, err = room.Append(tx, m); return })
	if err != nil {
		return wire.RoomSendResult{}, roomRefusal(err)
	}
	s.log.Info("a message of a person", "room", id, "message", room.Cursor(m.Number), "program", a.Program, "pid", a.PID)
	s.announceMessage(m)
	s.sup.Wake(id)
	return wire.RoomSendResult{Message: messageView(m)}, nil
}

// heard refuses a person's message where nobody is left to read it: the mission
// whose room it is has ended, and no other worker came there.
func (s *Service) heard(id string) error {
	var r room.Record
	err := s.db.View(func(tx *store.Tx) (err error) { r, _, err = room.Get(tx, id); return })
	if err != nil {
		return err
	}
	m, err := s.sup.Get(r.Mission)
	if err != nil || !m.Phase.Terminal() || len(s.sup.InRooms()[id]) > 0 {
		return err
	}
	return wire.Errorf(wire.CodeConflict, "Nothing was sent: the mission has ended and no worker is in its room, so nobody would read it. Write into the room of another mission, or start one.")
}

func (s *Service) announceMessage(m room.Message) {
	s.topics.rooms.Publish(wire.EvRoom, messageView(m))
	s.pulse.beat()
}

// inRooms knows in which room each live mission's worker was told to be.
type inRooms struct {
	mu sync.Mutex // held over the telling, so that the last word is the newest
	at map[string]string
}

// announceRoomOf tells of the rooms that a mission's worker came into, left, or
// was given.
func (s *Service) announceRoomOf(r supervisor.Record) {
	s.inRooms.mu.Lock()
	defer s.inRooms.mu.Unlock()
	was, is := s.inRooms.at[r.ID], ""
	if r.Phase.Live() {
		is = r.Bridge.Room
	}
	if was == is {
		return
	}
	if s.inRooms.at == nil {
		s.inRooms.at = map[string]string{}
	}
	if s.inRooms.at[r.ID] = is; is == "" {
		delete(s.inRooms.at, r.ID)
	}
	in := s.sup.InRooms()
	for _, id := range []string{was, is} {
		if id == "" {
			continue
		}
		var v wire.Room
		err := s.db.View(func(tx *store.Tx) error {
			x, ok, err := room.Get(tx, id)
			if err == nil && ok {
				v, err = roomView(tx, x)
			}
			return err
		})
		if err != nil || v.ID == "" {
			s.log.Error("a room can't be told of", "room", id, "err", err)
			continue
		}
		v.Workers = append(v.Workers, in[id]...)
		s.topics.rooms.Publish(wire.EvRoomChanged, v)
	}
}

// roomRefusal turns a room's reasons into what clients are told.
func roomRefusal(err error) error {
	switch {
	case errors.Is(err, room.ErrFull):
		return wire.Errorf(wire.CodeLimitExceeded, "Nothing was sent: %v.", err)
	case errors.Is(err, room.ErrText):
		return wire.InvalidField("text", "can't be sent: "+err.Error())
	case errors.Is(err, room.ErrAnswers):
		return wire.InvalidField("reply_to", "names no message of the room")
	case errors.Is(err, room.ErrNotFound):
		return wire.Errorf(wire.CodeNotFound, "There is no such room; run reeve room to see them.")
	}
	return err
}

// roomID completes the id of a room, or of the mission that has it.
func (s *Service) roomID(id string) (string, error) {
	if rest, ok := strings.CutPrefix(strings.ToLower(id), "m-"); ok {
		id = "r-" + rest
	}
	return s.complete("room", "rooms", "r-", id, "reeve room")
}

// roomSnapshot is every room.
func (s *Service) roomSnapshot() ([]json.RawMessage, error) {
	rooms, err := s.rooms()
	if err != nil {
		return nil, err
	}
	return encodeAll(rooms)
}

// roomView is a room without its workers, which the journal doesn't know.
func roomView(tx *store.Tx, r room.Record) (wire.Room, error) {
	read, err := room.Read(tx, r.ID, r.Mission)
	return wire.Room{
		ID: r.ID, Title: r.Title, Mission: r.Mission, Project: r.Project, Workers: []string{},
		Last: room.Cursor(r.Last), Read: room.Cursor(read), Count: r.Last, LastAt: timePtr(r.LastAt),
	}, err
}

func messageView(m room.Message) wire.RoomMessage {
	return wire.RoomMessage{
		ID: room.Cursor(m.Number), Room: m.Room, Kind: m.Kind, From: m.From, Name: m.Name, Mission: m.Mission, Turn: m.Turn,
		Answers: room.Cursor(m.Answers), Text: m.Text, At: m.At,
	}
}
