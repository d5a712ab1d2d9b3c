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

// History reads the log at path after the given sequence and hands each entry
// to emit, until the end, or until emit returns false. It returns the sequence
// of the last entry handed over. A record that is still being written ends the
// reading like the end of the file. A log that doesn't exist yet is empty.
func History(ctx context.Context, path string, after uint64, emit func(runlog.Record) bool) (uint64, error) {
	r, err := runlog.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return after, nil
	}
	if err != nil {
		return after, fmt.Errorf("read the transcript: %w", err)
	}
	defer r.Close()
	if err := r.Seek(after + 1); err != nil && !errors.Is(err, io.EOF) {
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
		if err != nil {
			return last, fmt.Errorf("read the transcript after entry %d: %w", last, err)
		}
		last = rec.Seq
		if !emit(rec) {
			return last, nil
		}
	}
}
