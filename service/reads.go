package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// project is what get_project gives.
type project struct {
	Folder     string        `json:"folder"`
	Repository string        `json:"repository,omitempty"`
	Room       string        `json:"room_id"`
	Rooms      []projectRoom `json:"rooms"` // that can be joined, this one included
}

type projectRoom struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Mission string   `json:"mission_id"`
	Workers []string `json:"workers"`
}

// maxRooms is how many rooms one project tells of.
const maxRooms = 200

func getProject(_ context.Context, s *Service, c toolCall) (any, error) {
	out := project{Folder: c.r.Folder(), Repository: c.r.Project, Room: c.r.Bridge.Room, Rooms: []projectRoom{}}
	err := s.db.View(func(tx *store.Tx) error {
		own, _, err := room.Of(tx, c.r.ID)
		if err != nil {
			return err
		}
		all, err := room.List(tx)
		for _, x := range all {
			if x.Project != own.Project || len(out.Rooms) == maxRooms {
				continue
			}
			if m, live := s.sup.Current(x.Mission); live && m.Phase.Live() {
				out.Rooms = append(out.Rooms, projectRoom{ID: x.ID, Title: x.Title, Mission: x.Mission})
			}
		}
		return err
	})
	in := s.sup.InRooms()
	for i, r := range out.Rooms {
		out.Rooms[i].Workers = append([]string{}, in[r.ID]...)
	}
	return out, err
}

// ownMission is what get_mission gives: what was approved, and what is left of
// it.
type ownMission struct {
	ID       string      `json:"id"`
	Title    string      `json:"title"`
	Phase    string      `json:"phase"`
	Scope    string      `json:"scope"`
	Folder   string      `json:"folder"`
	Turn     int         `json:"turn"`
	Deadline string      `json:"deadline_at"`
	Seconds  int64       `json:"remaining_seconds"`
	Budget   wire.Budget `json:"budget"`
	// Used counts what the provider has reported until now.
	Used    wire.Budget `json:"used"`
	Limits  wire.Limits `json:"limits"`
	Unasked []string    `json:"allow_unasked"`
	Room    string      `json:"room_id"`
	// Uncertain are effects that must not be done again.
	Uncertain []uncertainEffect `json:"uncertain_effects"`
}

type uncertainEffect struct {
	ID    string          `json:"id"`
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
	Known string          `json:"known"`
}

// maxUncertain is how many uncertain effects one answer tells of.
const maxUncertain = 10

func getMission(_ context.Context, s *Service, c toolCall) (any, error) {
	v := s.missionWith(c.r, nil)
	out := ownMission{
		ID: v.ID, Title: v.Title, Phase: v.Phase, Scope: v.Scope, Folder: c.r.Folder(), Turn: v.Turn, Seconds: v.RemainingSeconds,
		Budget: v.Budget, Limits: v.Limits, Unasked: v.Unasked, Room: c.r.Bridge.Room, Uncertain: []uncertainEffect{},
	}
	if v.DeadlineAt != nil {
		out.Deadline = v.DeadlineAt.Format("2006-01-02T15:04:05Z07:00")
	}
	out.Used = wire.Budget(c.r.Spent())
	err := s.db.View(func(tx *store.Tx) error {
		list, err := effects.List(tx, c.r.ID, maxUncertain, effects.Uncertain)
		for _, e := range list {
			out.Uncertain = append(out.Uncertain, uncertainEffect{e.ID, e.Tool, e.Input, e.Known()})
		}
		return err
	})
	return out, err
}

// updates is what get_updates gives: messages of others, oldest first. Cursor
// is how far they reach; passing it as after_message_id says that they were
// read. What the worker was not told comes whatever it passes.
type updates struct {
	Room     string             `json:"room_id"`
	Messages []wire.RoomMessage `json:"messages"`
	Cursor   string             `json:"cursor,omitempty"`
	More     bool               `json:"more"`
}

// One answer of get_updates holds at most this.
const (
	maxUpdates     = 50
	maxUpdateBytes = 128 << 10
)

func getUpdates(ctx context.Context, s *Service, c toolCall) (any, error) {
	over := time.NewTimer(time.Duration(c.in.Wait) * time.Second)
	defer over.Stop()
	for waiting := c.in.Wait > 0; ; {
		changed := s.pulse.next()
		out, err := s.updates(c)
		if err == nil && len(out.Messages) > 0 {
			err = s.bridged(ctx, func(tx *store.Tx) error {
				n, err := room.ParseCursor(out.Cursor)
				return errors.Join(err, room.Tell(tx, out.Room, c.r.ID, n))
			})
		}
		if err != nil || len(out.Messages) > 0 || !waiting {
			return out, err
		}
		now, _ := s.sup.Current(c.r.ID)
		if _, err := now.Authority(c.p.Coordinates, s.o.Now()); err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-over.C:
			waiting = false
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Service) updates(c toolCall) (updates, error) {
	out := updates{Room: c.r.Bridge.Room, Messages: []wire.RoomMessage{}, Cursor: c.in.After}
	err := s.db.View(func(tx *store.Tx) error {
		r, _, err := room.Get(tx, out.Room)
		if err != nil {
			return err
		}
		from, err := room.Read(tx, out.Room, c.r.ID)
		if err != nil {
			return err
		}
		if c.in.After != "" {
			n, _ := room.ParseCursor(c.in.After)
			if from, err = told(tx, c.r, n); errors.Is(err, room.ErrBeyond) {
				return beyond(c.in.After, r)
			} else if err != nil {
				return err
			}
		}
		size := 0
		for from < r.Last {
			list, err := room.After(tx, out.Room, from, maxUpdates)
			if err != nil || len(list) == 0 {
				return err
			}
			for _, m := range list {
				if m.Mission != c.r.ID {
					if size += len(m.Text); len(out.Messages) == maxUpdates || len(out.Messages) > 0 && size > maxUpdateBytes {
						out.More = true
						return nil
					}
					out.Messages = append(out.Messages, messageView(m))
				}
				from, out.Cursor = m.Number, room.Cursor(m.Number)
			}
		}
		return nil
	})
	return out, err
}

// told is the newest message up to n before which the worker was told everything,
// by a prompt or by get_updates. One that names a newer message, such as one that
// it wrote itself, has not read what others wrote between, and must not miss it.
func told(tx *store.Tx, r supervisor.Record, n int) (int, error) {
	known := 0
	for _, t := range r.Turns {
		if t.Room == r.Bridge.Room {
			known = max(known, t.Read)
		}
	}
	return room.Told(tx, r.Bridge.Room, r.ID, known, n)
}

// beyond refuses to wait for what comes after a message that is not there yet:
// nothing would come, and what is unread would stay so.
func beyond(after string, r room.Record) error {
	newest := "and the room " + r.ID + " has no message yet"
	if r.Last > 0 {
		newest = "but the newest message of the room " + r.ID + " is " + room.Cursor(r.Last)
	}
	return wire.InvalidField("input.after_message_id", fmt.Sprintf("is %s, %s; give the id of the last message that you have read there, or leave it out to get what is unread", after, newest))
}
