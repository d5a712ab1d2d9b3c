package room

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reevehq/reeve/service/internal/store"
)

// Who a message is from, in Message.From.
const (
	Person = "person"
	Agent  = "agent"
	Reeve  = "reeve"
)

// Kinds of messages.
const (
	Text   = "text"
	Answer = "answer" // the final answer of a turn that a message woke
	Intent = "intent" // what a worker is about to do
	Notice = "notice" // from Reeve itself
)

// Message is one message. Number counts from 1 in its room without gaps, and
// is never used again.
type Message struct {
	Room    string    `json:"room"`
	Number  int       `json:"number"`
	Kind    string    `json:"kind"`
	From    string    `json:"from"`              // Person, Agent or Reeve
	Name    string    `json:"name,omitempty"`    // as it is shown
	Mission string    `json:"mission,omitempty"` // whose worker wrote it
	Turn    string    `json:"turn,omitempty"`
	Answers int       `json:"answers,omitempty"` // number of the message that it answers; 0 for none
	Text    string    `json:"text"`
	At      time.Time `json:"at"`
	// Key names the cause of the message, such as a turn's answer or an effect:
	// what is appended again under the same key is the same message. Empty: none.
	Key string `json:"key,omitempty"`
}

// Append adds a message to its room, gives it its number, and tells whether it
// was added: the repeat of a key adds nothing and returns the first message.
// The errors are ErrNotFound, ErrText, ErrAnswers, ErrFull or of the journal.
func Append(tx *store.Tx, m Message) (kept Message, added bool, err error) {
	r, ok, err := Get(tx, m.Room)
	if err == nil && !ok {
		err = ErrNotFound
	}
	if err != nil {
		return m, false, err
	}
	key := keyOf(m.Room, m.Key)
	if first := tx.Get(keys, key); m.Key != "" && first != nil {
		kept, err = get(tx, append(prefix(m.Room), first...))
		return kept, false, err
	}
	switch {
	case m.Text == "" || len(m.Text) > MaxText || !utf8.ValidString(m.Text) || strings.Contains(m.Text, "\x00"):
		return m, false, ErrText
	case m.Answers < 0 || m.Answers > r.Last:
		return m, false, ErrAnswers
	case len(m.Key) > MaxKey:
		return m, false, fmt.Errorf("append to room %s: a key of %d bytes; at most %d", m.Room, len(m.Key), MaxKey)
	case !slices.Contains([]string{Person, Agent, Reeve}, m.From), !slices.Contains([]string{Text, Answer, Intent, Notice}, m.Kind):
		return m, false, fmt.Errorf("append to room %s: a %q from %q is no message", m.Room, m.Kind, m.From)
	case r.Last >= MaxMessages:
		return m, false, ErrFull
	}
	m.Number = r.Last + 1
	r.Last, r.LastAt = m.Number, m.At
	if err := store.PutJSON(tx, bucket, r.ID, r); err != nil {
		return m, false, err
	}
	if m.Key != "" {
		if err := tx.Put(keys, key, number(m.Number)); err != nil {
			return m, false, err
		}
	}
	at := place(m.Room, m.Number)
	if m.From == Person {
		if err := tx.Put(persons, at, nil); err != nil {
			return m, false, err
		}
	}
	return m, true, store.PutJSON(tx, messages, string(at), m)
}

// After returns up to limit messages with numbers above after, oldest first.
func After(tx *store.Tx, room string, after, limit int) ([]Message, error) {
	return read(tx, room, after, limit, func(Message) bool { return true })
}

// Newest returns the last limit messages, oldest first.
func Newest(tx *store.Tx, room string, limit int) ([]Message, error) {
	r, ok, err := Get(tx, room)
	if err != nil || !ok {
		return nil, err
	}
	return After(tx, room, max(r.Last-limit, 0), limit)
}

// read returns up to limit messages above after that fit.
func read(tx *store.Tx, room string, after, limit int, fits func(Message) bool) ([]Message, error) {
	if limit <= 0 || after >= MaxMessages {
		return nil, nil
	}
	var out []Message
	err := tx.Scan(messages, place(room, max(after, 0)+1), func(k, raw []byte) (bool, error) {
		if !within(k, room) {
			return false, nil
		}
		var m Message
		if err := json.Unmarshal(raw, &m); err != nil {
			return false, fmt.Errorf("read a message of room %s: %w", room, err)
		}
		if fits(m) {
			out = append(out, m)
		}
		return len(out) < limit, nil
	})
	return out, err
}

func get(tx *store.Tx, at []byte) (Message, error) {
	m, ok, err := store.GetJSON[Message](tx, messages, string(at))
	if err == nil && !ok {
		err = fmt.Errorf("read a message: %q is in the index and not there", at)
	}
	return m, err
}

// No room's id holds a NUL, so no room's keys begin with another's.
func prefix(room string) []byte { return append([]byte(room), 0) }

func keyOf(room, key string) []byte { return append(prefix(room), key...) }

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func place(room string, n int) []byte { return append(prefix(room), number(n)...) }

// within reports whether k is the place of a message of the room.
func within(k []byte, room string) bool {
	return len(k) == len(room)+5 && strings.HasPrefix(string(k), room+"\x00")
}
