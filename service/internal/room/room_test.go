package room_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
)

func open(t *testing.T) *store.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reeve.db")
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), store.CheckFile(path, store.Options{})); err != nil {
			t.Error(err)
		}
	})
	return db
}

func update(t testing.TB, db *store.DB, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := db.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

// opened returns a database with the own rooms of missions m-1 and m-10.
func opened(t *testing.T) *store.DB {
	db := open(t)
	update(t, db, func(tx *store.Tx) error {
		for i, n := range []string{"1", "10"} {
			if _, err := room.Open(tx, room.Record{ID: "r-" + n, Title: "t" + n, Mission: "m-" + n, CreatedAt: time.Unix(int64(i), 0)}); err != nil {
				return err
			}
		}
		return nil
	})
	return db
}

func says(in, from, text string) room.Message {
	m := room.Message{Room: in, Kind: room.Text, From: room.Person, Text: text, At: time.Unix(7, 0)}
	if from != "" {
		m.From, m.Mission = room.Agent, from
	}
	return m
}

func TestParseCursor(t *testing.T) {
	for s, want := range map[string]int{
		"msg_1": 1, "msg_12": 12, "msg_2147483647": 2147483647,
		"": 0, "msg_": 0, "12": 0, "msg_0": 0, "msg_-1": 0, "msg_+1": 0, "msg_01": 0, "msg_1 ": 0, " msg_1": 0, "MSG_1": 0, "msg_1_0": 0,
		"msg_0x1": 0, "msg_1.0": 0, "msg_2147483648": 0, "msg_9999999999999999999999": 0, "msg_١": 0, "msg_msg_1": 0, "msg_1\x00": 0,
	} {
		got, err := room.ParseCursor(s)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d (%v), want %d", s, got, err, want)
		}
		if want > 0 && room.Cursor(want) != s {
			t.Errorf("%d is written %q", want, room.Cursor(want))
		}
	}
	if room.Cursor(0) != "" {
		t.Errorf("no message is called %q", room.Cursor(0))
	}
}

// Whatever parses is the one id of its message.
func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"msg_1", "msg_007", "msg_2147483647", "msg_+3", "msg_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := room.ParseCursor(s)
		if err == nil && (n < 1 || n > 1<<31-1 || room.Cursor(n) != s) || err != nil && n != 0 {
			t.Errorf("%q is %d, which is written %q (%v)", s, n, room.Cursor(n), err)
		}
	})
}

func TestOpen(t *testing.T) {
	db := opened(t)
	update(t, db, func(tx *store.Tx) error {
		if _, _, err := room.Append(tx, says("r-1", "", "hello")); err != nil {
			return err
		}
		again, err := room.Open(tx, room.Record{ID: "r-2", Title: "other", Mission: "m-1"})
		if err != nil || again.ID != "r-1" || again.Title != "t1" || again.Last != 1 {
			t.Errorf("opening again gave %+v, %v", again, err)
		}
		if _, ok, _ := room.Get(tx, "r-2"); ok {
			t.Error("a mission has two rooms")
		}
		if own, ok, err := room.Of(tx, "m-10"); err != nil || !ok || own.ID != "r-10" {
			t.Errorf("m-10 has %+v, %v", own, err)
		}
		if _, ok, err := room.Of(tx, "m-3"); err != nil || ok {
			t.Errorf("m-3 has a room: %v", err)
		}
		list, err := room.List(tx)
		if err != nil || len(list) != 2 || list[0].ID != "r-10" || list[1].ID != "r-1" {
			t.Errorf("listed %+v, %v", list, err)
		}
		for _, bad := range []room.Record{
			{ID: "r-3"}, {Mission: "m-3"}, {ID: "r-1", Mission: "m-3"}, {ID: "r\x00", Mission: "m-3"}, {ID: "r\n", Mission: "m-3"},
			{ID: "r\x85", Mission: "m-3"}, {ID: "r\u0085", Mission: "m-3"}, {ID: strings.Repeat("é", 1025), Mission: "m-3"},
		} {
			if _, err := room.Open(tx, bad); err == nil {
				t.Errorf("%+v was opened", bad)
			}
		}
		_, err = room.Open(tx, room.Record{ID: strings.Repeat("é", 1024), Mission: "m-3"})
		return err
	})
}

func TestAppend(t *testing.T) {
	db := opened(t)
	update(t, db, func(tx *store.Tx) error {
		first, added, err := room.Append(tx, says("r-1", "", strings.Repeat("x", room.MaxText)))
		if err != nil || !added || first.Number != 1 {
			t.Errorf("%d, %v, %v", first.Number, added, err)
		}
		r, _, err := room.Get(tx, "r-1")
		if err != nil || r.Last != 1 || !r.LastAt.Equal(first.At) {
			t.Errorf("%+v, %v", r, err)
		}
		with := func(change func(*room.Message)) room.Message {
			m := says("r-1", "", "x")
			change(&m)
			return m
		}
		for name, c := range map[string]struct {
			m    room.Message
			want error // nil: any
		}{
			"no room":       {says("r-2", "", "x"), room.ErrNotFound},
			"empty":         {says("r-1", "", ""), room.ErrText},
			"too long":      {says("r-1", "", strings.Repeat("x", room.MaxText+1)), room.ErrText},
			"NUL":           {says("r-1", "", "a\x00b"), room.ErrText},
			"not UTF-8":     {says("r-1", "", "a\xffb"), room.ErrText},
			"itself":        {with(func(m *room.Message) { m.Answers = 2 }), room.ErrAnswers},
			"before all":    {with(func(m *room.Message) { m.Answers = -1 }), room.ErrAnswers},
			"unknown kind":  {with(func(m *room.Message) { m.Kind = "shout" }), nil},
			"from nobody":   {with(func(m *room.Message) { m.From = "" }), nil},
			"too long key":  {with(func(m *room.Message) { m.Key = strings.Repeat("k", room.MaxKey+1) }), nil},
			"a room's name": {says("r-1\x00", "", "x"), room.ErrNotFound},
		} {
			if _, added, err := room.Append(tx, c.m); err == nil || added || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: added %v, %v", name, added, err)
			}
		}
		answer := with(func(m *room.Message) { m.Answers, m.Kind = 1, room.Answer })
		if m, _, err := room.Append(tx, answer); err != nil || m.Number != 2 || m.Answers != 1 {
			t.Errorf("%+v, %v", m, err)
		}
		return nil
	})
}

func TestTheSameKeyIsTheSameMessage(t *testing.T) {
	db := opened(t)
	keyed := func(in, text string) room.Message {
		m := says(in, "m-1", text)
		m.Key = "turn-1"
		return m
	}
	update(t, db, func(tx *store.Tx) error {
		_, _, err := room.Append(tx, says("r-1", "", "question"))
		if err == nil {
			_, _, err = room.Append(tx, keyed("r-1", "first"))
		}
		return err
	})
	update(t, db, func(tx *store.Tx) error {
		m, added, err := room.Append(tx, keyed("r-1", "second"))
		if err != nil || added || m.Number != 2 || m.Text != "first" {
			t.Errorf("a repeat gave %+v, %v, %v", m, added, err)
		}
		if m, added, err := room.Append(tx, keyed("r-10", "elsewhere")); err != nil || !added || m.Number != 1 {
			t.Errorf("another room gave %+v, %v, %v", m, added, err)
		}
		if m, added, err := room.Append(tx, says("r-1", "m-1", "without a key")); err != nil || !added || m.Number != 3 {
			t.Errorf("without a key: %+v, %v, %v", m, added, err)
		}
		return nil
	})
}

func TestAFullRoomSaysSo(t *testing.T) {
	db := opened(t)
	update(t, db, func(tx *store.Tx) error {
		r, _, err := room.Get(tx, "r-1")
		if err != nil {
			return err
		}
		r.Last = room.MaxMessages - 1 // as if they had all been written
		if err := store.PutJSON(tx, "rooms", r.ID, r); err != nil {
			return err
		}
		last := says("r-1", "", "last")
		last.Key = "k"
		if m, _, err := room.Append(tx, last); err != nil || m.Number != room.MaxMessages {
			t.Errorf("%+v, %v", m, err)
		}
		if _, _, err := room.Append(tx, says("r-1", "", "one more")); !errors.Is(err, room.ErrFull) {
			t.Errorf("one more: %v", err)
		}
		if _, added, err := room.Append(tx, last); err != nil || added {
			t.Errorf("a repeat in a full room: %v, %v", added, err)
		}
		if list, err := room.Newest(tx, "r-1", 5); err != nil || len(list) != 1 || list[0].Text != "last" {
			t.Errorf("%+v, %v", list, err)
		}
		return nil
	})
}

func TestAcknowledge(t *testing.T) {
	db := opened(t)
	update(t, db, func(tx *store.Tx) error {
		for i := range 12 {
			if _, _, err := room.Append(tx, says("r-1", "", fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range []struct {
		n, want int
		err     error
	}{{9, 9, nil}, {9, 9, nil}, {3, 9, nil}, {0, 9, nil}, {12, 12, nil}, {13, 12, room.ErrBeyond}, {1 << 30, 12, room.ErrBeyond}, {9, 12, nil}} {
		update(t, db, func(tx *store.Tx) error {
			if got, err := room.Acknowledge(tx, "r-1", "m-1", c.n); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("acknowledging %d gave %d, %v", c.n, got, err)
			}
			if got, err := room.Read(tx, "r-1", "m-1"); got != c.want || err != nil {
				t.Errorf("after %d the cursor is %d, %v", c.n, got, err)
			}
			return nil
		})
	}
	update(t, db, func(tx *store.Tx) error {
		for _, other := range [][2]string{{"r-1", "m-10"}, {"r-1", "m-"}, {"r-10", "m-1"}} {
			if got, err := room.Read(tx, other[0], other[1]); got != 0 || err != nil {
				t.Errorf("the cursor of %v moved to %d, %v", other, got, err)
			}
		}
		if _, err := room.Acknowledge(tx, "r-2", "m-1", 1); !errors.Is(err, room.ErrNotFound) {
			t.Errorf("in no room: %v", err)
		}
		return nil
	})
}

// Nobody has read beyond the first message of others that they were not told.
func TestTold(t *testing.T) {
	db := opened(t)
	update(t, db, func(tx *store.Tx) error {
		for _, m := range []room.Message{says("r-1", "", "1"), says("r-1", "m-1", "2"), says("r-1", "m-10", "3"), says("r-1", "m-1", "4"), says("r-10", "", "1")} {
			if _, _, err := room.Append(tx, m); err != nil {
				return err
			}
		}
		want := func(when string, known int, told ...int) {
			t.Helper()
			for n, want := range told {
				if got, err := room.Told(tx, "r-1", "m-1", known, n+1); got != want || err != nil {
					t.Errorf("%s, up to %d: %d, %v", when, n+1, got, err)
				}
			}
		}
		want("at first", 0, 0, 0, 0, 0)
		want("told 1 otherwise", 1, 1, 2, 2, 2)
		want("told 3 otherwise", 3, 1, 2, 3, 4)
		for _, n := range []int{1, 0} { // only ever forward
			if err := room.Tell(tx, "r-1", "m-1", n); err != nil {
				return err
			}
			want("told 1", 0, 1, 2, 2, 2)
		}
		if _, err := room.Acknowledge(tx, "r-1", "m-1", 3); err != nil {
			return err
		}
		want("has read 3", 0, 1, 2, 3, 4)
		if _, err := room.Told(tx, "r-1", "m-1", 4, 5); !errors.Is(err, room.ErrBeyond) {
			t.Errorf("beyond the newest: %v", err)
		}
		if _, err := room.Told(tx, "r-2", "m-1", 0, 1); !errors.Is(err, room.ErrNotFound) {
			t.Errorf("in no room: %v", err)
		}
		for _, other := range [][2]string{{"r-1", "m-10"}, {"r-10", "m-1"}} {
			if got, err := room.Told(tx, other[0], other[1], 0, 1); got != 0 || err != nil {
				t.Errorf("%v was told %d, %v", other, got, err)
			}
		}
		return nil
	})
}

// Two agents in a room don't wake each other: only persons are news.
func TestNewsIsFromPersons(t *testing.T) {
	db := opened(t)
	update(t, db, func(tx *store.Tx) error {
		for _, m := range []room.Message{
			says("r-1", "", "1"), says("r-1", "m-1", "2"), says("r-1", "m-10", "3"), says("r-1", "", "4"), says("r-1", "m-10", "5"), says("r-10", "", "1"),
			{Room: "r-1", Kind: room.Notice, From: room.Reeve, Text: "6"},
		} {
			if _, _, err := room.Append(tx, m); err != nil {
				return err
			}
		}
		want := func(when string, count, newest int, unread ...int) {
			t.Helper()
			if c, n, err := room.News(tx, "r-1", "m-1"); c != count || n != newest || err != nil {
				t.Errorf("%s: %d new, the newest is %d, %v", when, c, n, err)
			}
			list, err := room.Unread(tx, "r-1", "m-1", 100)
			if fmt.Sprint(numbers(list)) != fmt.Sprint(unread) || err != nil {
				t.Errorf("%s: unread are %v, %v", when, numbers(list), err)
			}
		}
		want("at first", 2, 4, 1, 3, 4, 5, 6)
		if _, err := room.Acknowledge(tx, "r-1", "m-1", 1); err != nil {
			return err
		}
		want("after 1", 1, 4, 3, 4, 5, 6)
		if _, err := room.Acknowledge(tx, "r-1", "m-1", 4); err != nil {
			return err
		}
		want("after 4", 0, 0, 5, 6)
		if list, err := room.Unread(tx, "r-1", "m-1", 1); err != nil || fmt.Sprint(numbers(list)) != "[5]" {
			t.Errorf("limited: %v, %v", numbers(list), err)
		}
		return nil
	})
}

func numbers(list []room.Message) []int {
	out := []int{}
	for _, m := range list {
		out = append(out, m.Number)
	}
	return out
}
