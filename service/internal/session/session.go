// Package session reads the transcript of a worker from the log that its guard
// writes. It never writes one.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/reevehq/reeve/service/internal/runlog"
)

// ErrBeyond says that a log does not reach the entry to read after.
var ErrBeyond = errors.New("the transcript does not reach that entry")

// History reads the log at path after the given sequence and hands each entry
// to emit, until the end, or until emit returns false. The data of an entry is
// only there until emit returns. It returns the sequence
// of the last entry handed over. A record that is still being written ends the
// reading like the end of the file; damaged records are passed over. A log that
// doesn't exist yet, or was cut off in its header by a loss of power, is empty.
func History(ctx context.Context, path string, after uint64, emit func(runlog.Record) bool) (uint64, error) {
	r, err := runlog.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, runlog.ErrTorn) {
		if after > 0 {
			return after, ErrBeyond
		}
		return 0, nil
	}
	if err != nil {
		return after, fmt.Errorf("read the transcript: %w", err)
	}
	defer r.Close()
	if err := r.Seek(after + 1); errors.Is(err, io.EOF) || errors.Is(err, runlog.ErrTorn) {
		return after, ErrBeyond
	} else if err != nil {
		return after, fmt.Errorf("read the transcript after entry %d: %w", after, err)
	}
	last := after
	for {
		if err := ctx.Err(); err != nil {
			return last, err
		}
		rec, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, runlog.ErrTorn) {
			return last, nil
		}
		var damage *runlog.CorruptError
		if errors.As(err, &damage) {
			continue // doctor tells of it; what lies behind it can be read
		}
		if err != nil {
			return last, fmt.Errorf("read the transcript after entry %d: %w", last, err)
		}
		last = rec.Seq
		if !emit(rec) {
			return last, nil
		}
	}
}
