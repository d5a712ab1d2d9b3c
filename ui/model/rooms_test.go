package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/ipc/wire"
)

func said(n int, from, text string) wire.RoomMessage {
	return wire.RoomMessage{ID: fmt.Sprintf("msg_%d", n), Room: "r-1", Kind: wire.RoomText, From: from, Name: "Codex", Mission: "m-1", Text: text, At: at(15, n%60)}
}

func topic[T any](t interface{ Fatal(...any) }, s *State, name string, items ...T) []Change {
	var raws []json.RawMessage
	for _, it := range items {
		raws = append(raws, raw(t, it))
	}
	changes, err := s.Snapshot(name, raws)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func heard(t interface{ Fatal(...any) }, s *State, m wire.RoomMessage) {
	if _, err := s.Delta(delta(t, wire.EvRoom, m)); err != nil {
		t.Fatal(err)
	}
}

func TestUnread(t *testing.T) {
	s := NewState(0)
	room := wire.Room{ID: "r-1", Mission: "m-1", Last: "msg_2", Count: 2}
	want := func(step string, n int) {
		t.Helper()
		if got := s.Unread("m-1"); got != n {
			t.Errorf("%s: %d unread, want %d", step, got, n)
		}
	}
	topic(t, s, wire.TopicRooms, room)
	want("what was there before", 0)
	heard(t, s, said(2, "agent", "late"))
	want("late", 0)
	heard(t, s, said(3, "person", "Look at the lexer."))
	want("your own", 0)
	heard(t, s, said(4, "agent", "It is done."))
	heard(t, s, said(4, "agent", "It is done."))
	want("an answer, twice", 1)
	heard(t, s, said(5, "reeve", "The worker is gone."))
	want("a notice", 2)
	s.MarkRead("r-1")
	want("read", 0)
	room.Last, room.Count = "msg_8", 8
	topic(t, s, wire.TopicRooms, room)
	want("while nobody listened", 3)
	room.Last, room.Count = "msg_1", 1
	topic(t, s, wire.TopicRooms, room) // of an earlier moment
	heard(t, s, said(8, "agent", "late"))
	want("a late snapshot", 3)
	m := said(1, "agent", "New here")
	m.Room, m.Mission = "r-2", "m-2"
	heard(t, s, m)
	if s.Unread("m-2") != 1 {
		t.Error("a room that no snapshot named is not known by its messages")
	}
	topic[wire.Room](t, s, wire.TopicRooms)
	want("gone", 0)
	if _, ok := s.Room("r-1"); ok {
		t.Error("a room that a snapshot does not name is still there")
	}
}

// A room is known as soon as it is there, and who is in it; its messages are
// told apart from that.
func TestRoomChanges(t *testing.T) {
	s := NewState(0)
	topic[wire.Room](t, s, wire.TopicRooms)
	changed := func(r wire.Room) {
		t.Helper()
		if _, err := s.Delta(delta(t, wire.EvRoomChanged, r)); err != nil {
			t.Fatal(err)
		}
	}
	room := wire.Room{ID: "r-1", Mission: "m-1", Title: "Port it", Workers: []string{"m-1"}}
	changed(room)
	if got, ok := s.RoomOf("m-1"); !ok || got.Title != "Port it" || !slices.Equal(got.Workers, room.Workers) {
		t.Errorf("a new room: %+v", got)
	}
	heard(t, s, said(1, "agent", "Done."))
	room.Workers, room.Last, room.Count = []string{"m-1", "m-2"}, "msg_2", 2 // the second is on its way
	changed(room)
	if got, _ := s.Room("r-1"); len(got.Workers) != 2 || got.Last != "msg_1" || s.Unread("m-1") != 1 {
		t.Errorf("after a move: %+v, %d unread", got, s.Unread("m-1"))
	}
	heard(t, s, said(2, "agent", "Hello."))
	if s.Unread("m-1") != 2 {
		t.Errorf("%d unread", s.Unread("m-1"))
	}
}

// However a person's messages, others' and repeats come in, what is unread is
// what others wrote that is new.
func TestUnreadCountsOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewState(0)
		topic(t, s, wire.TopicRooms, wire.Room{ID: "r-1", Mission: "m-1"})
		others, last := 0, 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			n := rapid.IntRange(max(1, last-2), last+1).Draw(t, "number")
			from := rapid.SampledFrom([]string{"person", "agent", "reeve"}).Draw(t, "from")
			heard(t, s, said(n, from, "x"))
			if n > last {
				last = n
				if from != "person" {
					others++
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "reads") == 0 {
				s.MarkRead("r-1")
				others = 0
			}
			if got := s.Unread("m-1"); got != others {
				t.Fatalf("%d unread, want %d", got, others)
			}
		}
	})
}

func TestRoomLog(t *testing.T) {
	l := NewRoomLog("msg_2")
	if n, _ := l.Earlier(200); n != 0 || l.Last() != "" {
		t.Error("an empty log knows of messages")
	}
	answer := said(4, "agent", "It reads\u202e bytes.\n")
	answer.Kind, answer.Answers = wire.RoomAnswer, "msg_3"
	gone := said(5, "agent", "Twice")
	gone.Answers = "msg_1"
	page := wire.RoomMessagesResult{Room: wire.Room{ID: "r-1", Read: "msg_3", Workers: []string{"m-1"}},
		Messages: []wire.RoomMessage{said(2, "agent", "Hello"), said(3, "person", "What does the lexer\nread?"), answer, gone, said(6, "person", "And now?"), said(7, "reeve", "Restarted.")}}
	if !l.Take(page) || l.Take(page) || l.Len() != 6 {
		t.Errorf("%d messages", l.Len())
	}
	var got []string
	for i := range l.Len() {
		r := l.Row(i, at(15, 30))
		got = append(got, fmt.Sprintf("%s %s|%s|%s new=%v waits=%v", r.When, r.Who, r.Answers, r.Text, r.New, r.Waits))
	}
	want := []string{
		"15:02 Codex||Hello new=false waits=false",
		"15:03 You||What does the lexer\nread? new=false waits=false",
		"15:04 Codex|“What does the lexer”|It reads‹U+202E› bytes. new=true waits=false",
		"15:05 Codex|msg_1|Twice new=false waits=false",
		"15:06 You||And now? new=false waits=true",
		"15:07 Reeve||Restarted. new=false waits=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	news := func() (ids string) {
		for i := range l.Len() {
			if l.Row(i, at(15, 30)).New {
				ids += l.messages[i].ID
			}
		}
		return ids
	}
	l.Take(wire.RoomMessagesResult{Room: page.Room, Messages: []wire.RoomMessage{said(8, "agent", "Before their eyes.")}})
	if got := news(); got != "msg_4" {
		t.Errorf("new is %s", got)
	}
	l.Came()
	if l.Take(wire.RoomMessagesResult{Room: page.Room}); news() != "" {
		t.Errorf("nothing came, and new is %s", news())
	}
	l.Came()
	l.Take(wire.RoomMessagesResult{Room: page.Room, Messages: []wire.RoomMessage{said(9, "person", "From elsewhere."), said(10, "agent", "While nobody looked."), said(11, "agent", "Twice.")}})
	if got := news(); got != "msg_10" {
		t.Errorf("new is %s", got)
	}
	if n, after := l.Earlier(200); n != 1 || after != "msg_0" {
		t.Errorf("%d earlier, after %s", n, after)
	}
	page.Room.ID = "r-2"
	page.Messages = page.Messages[:1]
	if l.Take(page); l.Len() != 1 {
		t.Error("messages of two rooms in one log")
	}
}

// Pages in any order, overlapping, make one list in order.
func TestRoomLogPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewRoomLog("")
		have := map[int]bool{}
		for range rapid.IntRange(1, 10).Draw(t, "pages") {
			page := wire.RoomMessagesResult{Room: wire.Room{ID: "r-1"}}
			from := rapid.IntRange(1, 30).Draw(t, "from")
			for n := from; n < from+rapid.IntRange(0, 10).Draw(t, "length"); n++ {
				page.Messages = append(page.Messages, said(n, "agent", "x"))
				have[n] = true
			}
			l.Take(page)
		}
		if l.Len() != len(have) {
			t.Fatalf("%d messages of %d", l.Len(), len(have))
		}
		for i := 1; i < l.Len(); i++ {
			if messageNo(l.messages[i-1].ID) >= messageNo(l.messages[i].ID) {
				t.Fatal("out of order")
			}
		}
	})
}
