package runlog

import (
	"context"
	"errors"
	"io"
)

// Report says what Check found.
type Report struct {
	LogID   string
	Records uint64          // good ones
	Last    uint64          // the last sequence
	Torn    *TornError      // the tail: of a writer that is just writing or has died
	Corrupt []*CorruptError // what is damaged inside, the first maxCorrupt
	Lost    uint64          // records that are missing inside
}

// maxCorrupt is how many damages a report lists, whatever the size of the log.
const maxCorrupt = 100

// Check reads a whole log, one record at a time, and reports what is wrong
// inside. It changes nothing.
func Check(ctx context.Context, path string) (Report, error) {
	r, err := Open(path)
	if err != nil {
		return Report{}, err
	}
	defer r.Close()
	rep := Report{LogID: r.LogID()}
	for {
		if err := ctx.Err(); err != nil {
			return rep, err
		}
		rec, err := r.Next()
		var bad *CorruptError
		switch {
		case err == nil:
			rep.Records++
			rep.Last = rec.Seq
		case errors.Is(err, io.EOF), errors.As(err, &rep.Torn):
			return rep, nil
		case errors.As(err, &bad):
			rep.Lost += bad.Last + 1 - bad.First
			if len(rep.Corrupt) < maxCorrupt {
				rep.Corrupt = append(rep.Corrupt, bad)
			}
		default:
			return rep, err
		}
	}
}
