// Package room keeps the rooms in which a person and workers leave each other
// messages, and how far each worker has read. It writes inside the caller's
// transaction, so that a message and what it follows from are journaled
// together; announcing comes after the commit and belongs to the caller.
package room

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/reevehq/reeve/service/internal/store"
)

// Limits of a room.
const (
	MaxMessages = 100_000  // in one room; nothing is ever dropped to make place
	MaxText     = 16 << 10 // bytes of a message
	MaxKey      = 1024     // bytes of an idempotency key
	maxID       = 1024     // characters of a room's id, as the bridge protocol has it
)

const (
	bucket   = "rooms"
	ofOwner  = "room_of_mission" // index: a mission's own room
	messages = "room_messages"   // room, 0, number of 4 bytes
	persons  = "room_persons"    // index: the same keys, for what persons wrote
	keys     = "room_keys"       // room, 0, idempotency key: number
	cursors  = "room_cursors"    // room, 0, reader: number
	told     = "room_told"       // the same: how far it was told when it asked
)

// Reasons why a room is not opened, read or written.
var (
	ErrNotFound = errors.New("there is no such room")
	ErrFull     = fmt.Errorf("the room has its %d messages; go on in the room of another mission", MaxMessages)
	ErrText     = fmt.Errorf("a message is 1 byte to %d KiB of UTF-8 text without NUL; send less, or in parts", MaxText>>10)
	ErrAnswers  = errors.New("it answers a message that is not in the room")
	ErrBeyond   = errors.New("the cursor is beyond the newest message of the room; acknowledge only what was read")
)

// Record is a room.
type Record struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Mission   string    `json:"mission"` // whose own room it is
	Project   string    `json:"project,omitempty"`
	Last      int       `json:"last,omitempty"` // number of the newest message, and how many there are; the next has Last+1
	CreatedAt time.Time `json:"created_at"`
	LastAt    time.Time `json:"last_at,omitzero"` // of the newest message
}

// Open adds a mission's own room with its id, title, mission, project and time.
// A mission that has one keeps it as it is: opening again changes nothing and
// returns that.
func Open(tx *store.Tx, r Record) (Record, error) {
	if own, ok, err := Of(tx, r.Mission); err != nil || ok {
		return own, err
	}
	switch {
	case r.Mission == "":
		return r, errors.New("open a room: it is nobody's; name the mission")
	case r.ID == "" || utf8.RuneCountInString(r.ID) > maxID || !utf8.ValidString(r.ID) || strings.ContainsFunc(r.ID, unicode.IsControl):
		return r, fmt.Errorf("open a room: the id %q is not 1 to %d characters without control characters", r.ID, maxID)
	case tx.Get(bucket, []byte(r.ID)) != nil:
		return r, fmt.Errorf("open a room for %s: %s is another mission's; take a new id", r.Mission, r.ID)
	}
	r.Last, r.LastAt = 0, time.Time{}
	if err := tx.Put(ofOwner, []byte(r.Mission), []byte(r.ID)); err != nil {
		return r, err
	}
	return r, store.PutJSON(tx, bucket, r.ID, r)
}

// Get returns one room by its whole id.
func Get(tx *store.Tx, id string) (Record, bool, error) {
	return store.GetJSON[Record](tx, bucket, id)
}

// Of returns a mission's own room, which is not always the one that its worker
// is in.
func Of(tx *store.Tx, mission string) (Record, bool, error) {
	id := tx.Get(ofOwner, []byte(mission))
	if id == nil {
		return Record{}, false, nil
	}
	return Get(tx, string(id))
}

// List returns every room, the newest first.
func List(tx *store.Tx) ([]Record, error) {
	var out []Record
	err := store.EachJSON(tx, bucket, func(_ string, r Record) (bool, error) { out = append(out, r); return true, nil })
	slices.SortStableFunc(out, func(a, b Record) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return out, err
}
