package room

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/service/internal/store"
)

const cursorPrefix = "msg_"

// Cursor writes a message's number as its id, msg_<n>, which is also how far a
// reader has come. 0 is "": nothing.
func Cursor(n int) string {
	if n <= 0 {
		return ""
	}
	return cursorPrefix + strconv.Itoa(n)
}

// ParseCursor reads msg_<n>: n is decimal, from 1 to 2147483647, without sign or
// leading zeros, so that every message has exactly one id.
func ParseCursor(s string) (int, error) {
	digits, ok := strings.CutPrefix(s, cursorPrefix)
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || n < 1 || n > math.MaxInt32 || Cursor(int(n)) != s {
		return 0, fmt.Errorf("%.40q is no message id; one is msg_<n> with n from 1 to %d", s, math.MaxInt32)
	}
	return int(n), nil
}

// Read returns how far the reader, a mission, has acknowledged the room: the
// number of the last message, or 0.
func Read(tx *store.Tx, room, reader string) (int, error) { return reached(tx, cursors, room, reader) }

func reached(tx *store.Tx, in, room, reader string) (int, error) {
	v := tx.Get(in, keyOf(room, reader))
	switch len(v) {
	case 0:
		return 0, nil
	case 4:
		return int(binary.BigEndian.Uint32(v)), nil
	}
	return 0, fmt.Errorf("read the cursor of %s in room %s: it is %d bytes long", reader, room, len(v))
}

// Acknowledge moves the reader's cursor to message n and returns the cursor
// that counts now. It only ever moves forward: an older message is fine and
// changes nothing. ErrBeyond: there is no such message yet.
func Acknowledge(tx *store.Tx, room, reader string, n int) (int, error) {
	r, ok, err := Get(tx, room)
	if err != nil {
		return 0, err
	}
	have, err := Read(tx, room, reader)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return have, ErrNotFound
	case n > r.Last:
		return have, ErrBeyond
	case n <= have:
		return have, nil
	}
	return n, tx.Put(cursors, keyOf(room, reader), number(n))
}

// Tell notes that the reader, who asked, is told all messages up to n.
func Tell(tx *store.Tx, room, reader string, n int) error {
	have, err := reached(tx, told, room, reader)
	if err != nil || n <= have {
		return err
	}
	return tx.Put(told, keyOf(room, reader), number(n))
}

// Told returns the newest message up to n before which there is nothing of
// others that the reader was not told: neither when it asked nor otherwise, which
// reaches to known. Of its own messages it needn't be told. ErrBeyond: there is
// no message n yet.
func Told(tx *store.Tx, room, reader string, known, n int) (int, error) {
	r, ok, err := Get(tx, room)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, ErrNotFound
	case n > r.Last:
		return 0, ErrBeyond
	}
	have, err := Read(tx, room, reader)
	if err != nil {
		return 0, err
	}
	asked, err := reached(tx, told, room, reader)
	if err != nil {
		return 0, err
	}
	next, err := read(tx, room, max(known, have, asked), 1, func(m Message) bool { return m.Mission != reader })
	if err != nil || len(next) == 0 || next[0].Number > n {
		return n, err
	}
	return next[0].Number - 1, nil
}

// Unread returns up to limit messages after the reader's cursor that others
// wrote, oldest first.
func Unread(tx *store.Tx, room, reader string, limit int) ([]Message, error) {
	after, err := Read(tx, room, reader)
	if err != nil {
		return nil, err
	}
	return read(tx, room, after, limit, func(m Message) bool { return m.Mission != reader })
}

// News counts what persons wrote after the reader's cursor, and names the
// newest of it (0: none). Agents are left out, so that two of them can't wake
// each other for ever. It reads no message.
func News(tx *store.Tx, room, reader string) (count, newest int, err error) {
	after, err := Read(tx, room, reader)
	if err != nil || after >= MaxMessages {
		return 0, 0, err
	}
	err = tx.Scan(persons, place(room, after+1), func(k, _ []byte) (bool, error) {
		if !within(k, room) {
			return false, nil
		}
		count++
		newest = int(binary.BigEndian.Uint32(k[len(k)-4:]))
		return true, nil
	})
	return count, newest, err
}
