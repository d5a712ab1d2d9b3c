package room_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/room"
	"github.com/reevehq/reeve/service/internal/store"
)

// Whatever is written, repeated, acknowledged, undone and opened again, a room
// holds its messages in order under numbers without gaps, each key once, and no
// cursor moves back or beyond them.
func TestRoomsModel(t *testing.T) {
	path, run := filepath.Join(t.TempDir(), "reeve.db"), 0
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(db.Close(), store.CheckFile(path, store.Options{})); err != nil {
			t.Error(err)
		}
	}()
	rapid.Check(t, func(t *rapid.T) { // each in rooms of its own, since a new file costs more than the test
		run++
		missions := []string{fmt.Sprintf("m-%d-1", run), fmt.Sprintf("m-%d-10", run)}
		model := map[string][]room.Message{}
		read := map[string]int{}
		draw := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		undo := errors.New("undone")
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			were, had := map[string][]room.Message{}, map[string]int{}
			for k, v := range model {
				were[k] = v[:len(v):len(v)]
			}
			for k, v := range read {
				had[k] = v
			}
			failing := rapid.IntRange(0, 4).Draw(t, "fails") == 0
			err := db.Update(context.Background(), func(tx *store.Tx) error {
				for _, m := range missions {
					if _, err := room.Open(tx, room.Record{ID: "r" + m[1:], Mission: m}); err != nil {
						return err
					}
				}
				for range rapid.IntRange(1, 6).Draw(t, "steps") {
					in, who := "r"+draw("room", missions...)[1:], draw("who", missions...)
					if rapid.Bool().Draw(t, "acknowledge") {
						n := rapid.IntRange(0, 12).Draw(t, "n")
						got, err := room.Acknowledge(tx, in, who, n)
						if (n > len(model[in])) != errors.Is(err, room.ErrBeyond) {
							t.Fatalf("acknowledging %d of %d: %v", n, len(model[in]), err)
						}
						if err == nil {
							read[in+who] = max(read[in+who], n)
						}
						if got != read[in+who] {
							t.Fatalf("the cursor is %d, want %d", got, read[in+who])
						}
						continue
					}
					m := says(in, who, draw("text", "a", "b"))
					m.Key = draw("key", "", "", "k1", "k2")
					if rapid.Bool().Draw(t, "person") {
						m.From, m.Mission = room.Person, ""
					}
					got, added, err := room.Append(tx, m)
					if err != nil {
						return err
					}
					first := -1
					for i, old := range model[in] {
						if m.Key != "" && old.Key == m.Key {
							first = i
						}
					}
					if added != (first < 0) {
						t.Fatalf("%+v was added: %v", m, added)
					}
					if first < 0 {
						m.Number = len(model[in]) + 1
						model[in] = append(model[in], m)
						first = len(model[in]) - 1
					}
					if !same(got, model[in][first]) {
						t.Fatalf("got %+v, want %+v", got, model[in][first])
					}
				}
				if failing {
					return undo
				}
				return nil
			})
			if failing && errors.Is(err, undo) {
				model, read = were, had
			} else if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "restarts") == 0 {
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				if db, err = store.Open(path, store.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, db, missions, model, read)
		}
	})
}

func same(a, b room.Message) bool {
	at := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return at && a == b
}

func compare(t *rapid.T, db *store.DB, missions []string, model map[string][]room.Message, read map[string]int) {
	after, limit := rapid.IntRange(-1, 12).Draw(t, "after"), rapid.IntRange(0, 12).Draw(t, "limit")
	list := func(what string, got []room.Message, err error, want []room.Message) {
		t.Helper()
		equal := err == nil && len(got) == len(want)
		for i := range got {
			equal = equal && same(got[i], want[i])
		}
		if !equal {
			t.Fatalf("%s: %+v (%v), want %+v", what, got, err, want)
		}
	}
	err := db.View(func(tx *store.Tx) error {
		for _, own := range missions {
			in := "r" + own[1:]
			all := model[in]
			got, err := room.After(tx, in, after, limit)
			from := min(max(after, 0), len(all))
			list("after", got, err, all[from:min(from+limit, len(all))])
			got, err = room.Newest(tx, in, limit)
			list("newest", got, err, all[max(len(all)-limit, 0):])
			for _, reader := range missions {
				var unread []room.Message
				news, newest := 0, 0
				for _, m := range all[read[in+reader]:] {
					if m.Mission != reader {
						unread = append(unread, m)
					}
					if m.From == room.Person {
						news, newest = news+1, m.Number
					}
				}
				got, err := room.Unread(tx, in, reader, limit)
				list("unread", got, err, unread[:min(limit, len(unread))])
				if c, n, err := room.News(tx, in, reader); err != nil || c != news || n != newest {
					t.Fatalf("%d news, the newest %d (%v), want %d and %d", c, n, err, news, newest)
				}
				if n, err := room.Read(tx, in, reader); err != nil || n != read[in+reader] {
					t.Fatalf("the cursor of %s in %s is %d (%v), want %d", reader, in, n, err, read[in+reader])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
