// Package runlog is the format of a session log: what happened in one worker,
// in order, each record protected by a checksum. A guard writes it, and others
// read it while it grows.
//
// A log is a header and records, one after the other, all little-endian:
//
//	header: "reevelog" | version u32 | id length u8 | id | CRC32C u32 of all that
//	record: length u32 | CRC32C u32 of the payload | payload
//	payload: sequence u64 | wall time i64, ns since 1970 | kind length u8 | kind | JSON
//
// Sequences begin at 1 and grow by one. A log is never repaired: nobody appends
// to one after its writer ended, so a torn tail is in nobody's way, and what is
// damaged inside is passed over.
package runlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// MaxRecord is the size in bytes that a payload may have.
const MaxRecord = 64 << 20

// Record is one event.
type Record struct {
	Seq  uint64
	Time time.Time // wall time, to the nanosecond
	Kind string    // 1 to 255 bytes
	Data json.RawMessage
}

// ErrTorn says that the log ends inside a record: its writer is just writing
// it, or died while it did. See TornError for where.
var ErrTorn = errors.New("the log ends inside a record")

// TornError is the ErrTorn that Next and Open return.
type TornError struct {
	Offset int64 // where the incomplete record begins: the length of the good part
	Bytes  int64 // how many bytes of it there are
}

// Error says where and how much.
func (e *TornError) Error() string {
	return fmt.Sprintf("%v: %d bytes from offset %d on", ErrTorn, e.Bytes, e.Offset)
}

// Is makes errors.Is(err, ErrTorn) hold.
func (e *TornError) Is(target error) bool { return target == ErrTorn }

// CorruptError says that bytes inside the log are damaged, with good records
// behind them. The reader goes on behind them with the next call.
type CorruptError struct {
	Offset int64  // where the damage begins
	Next   int64  // where the next good record begins
	First  uint64 // the first sequence that is missing
	Last   uint64 // the last one; First-1 if none is missing
}

// Error says where, and what is lost.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the log is damaged from offset %d to %d: records %d to %d are lost", e.Offset, e.Next, e.First, e.Last)
}

const (
	magic     = "reevelog"
	version   = 1
	frameSize = 8         // length and checksum
	fixedSize = 8 + 8 + 1 // of a payload, with an empty kind
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendHeader(b []byte, logID string) []byte {
	from := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = append(b, byte(len(logID)))
	b = append(b, logID...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

func appendRecord(b []byte, r Record) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(fixedSize+len(r.Kind)+len(r.Data)))
	sum := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.Seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Time.UnixNano()))
	b = append(b, byte(len(r.Kind)))
	b = append(b, r.Kind...)
	b = append(b, r.Data...)
	binary.LittleEndian.PutUint32(b[sum:], crc32.Checksum(b[sum+4:], castagnoli))
	return b
}

// payload takes the fields out of a payload whose checksum held.
func payload(b []byte) (Record, bool) {
	if len(b) < fixedSize {
		return Record{}, false
	}
	kind := int(b[16])
	if kind == 0 || len(b) < fixedSize+kind {
		return Record{}, false
	}
	return Record{
		Seq:  binary.LittleEndian.Uint64(b),
		Time: time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:]))),
		Kind: string(b[fixedSize : fixedSize+kind]),
		Data: json.RawMessage(b[fixedSize+kind:]),
	}, true
}
