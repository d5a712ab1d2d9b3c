package runlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Report says what Repair found and did. Nothing was done if Torn and Corrupt
// are empty.
type Report struct {
	Records uint64          // good records in the log now, gap records included
	Last    uint64          // the last sequence
	Torn    *TornError      // the tail that was cut
	Corrupt []*CorruptError // what was damaged inside
	Copy    string          // path of the copy of the log as it was; "" if nothing was lost but the tail
}

// Changed says whether the log was changed.
func (r Report) Changed() bool { return r.Torn != nil || len(r.Corrupt) > 0 }

// Check reads a whole log and reports what Repair would do, without doing it.
func Check(path string) (Report, error) {
	r, err := Open(path)
	if err != nil {
		return Report{}, err
	}
	defer r.Close()
	var rep Report
	for {
		rec, err := r.Next()
		var torn *TornError
		var bad *CorruptError
		switch {
		case err == nil:
			rep.Records++
			rep.Last = rec.Seq
		case err == io.EOF:
			return rep, nil
		case errors.As(err, &torn):
			rep.Torn = torn
			return rep, nil
		case errors.As(err, &bad):
			rep.Corrupt = append(rep.Corrupt, bad)
		default:
			return rep, err
		}
	}
}

// Repair makes a log whole again whose writer is dead, durably. A torn tail is
// cut. When something inside is damaged the file is first copied beside itself
// as it was, and then replaced by one with all good records, and a KindGap
// record for each loss. A damaged header cannot be repaired.
func Repair(path string) (Report, error) {
	rep, err := Check(path)
	if err != nil || !rep.Changed() {
		return rep, err
	}
	if len(rep.Corrupt) > 0 {
		return rebuild(path, rep)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return rep, fmt.Errorf("repair the log: %w", err)
	}
	err = f.Truncate(rep.Torn.Offset)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return rep, fmt.Errorf("repair the log %s: %w", path, err)
	}
	return rep, nil
}

func rebuild(path string, rep Report) (_ Report, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("repair the log %s: %w", path, err)
		}
	}()
	r, err := Open(path)
	if err != nil {
		return rep, err
	}
	defer r.Close()
	dir := filepath.Dir(path)
	keep, err := os.CreateTemp(dir, filepath.Base(path)+".damaged-*")
	if err != nil {
		return rep, err
	}
	if err := fill(keep, io.NewSectionReader(r.f, 0, 1<<62)); err != nil {
		_ = os.Remove(keep.Name())
		return rep, err
	}
	rep.Copy = keep.Name()

	fresh, err := os.CreateTemp(dir, "."+filepath.Base(path)+".repaired-*")
	if err != nil {
		return rep, err
	}
	defer func() {
		if err != nil {
			_ = fresh.Close()
			_ = os.Remove(fresh.Name())
		}
	}()
	if rep.Records, rep.Last, err = copyGood(fresh, r, filepath.Base(rep.Copy)); err != nil {
		return rep, err
	}
	if err := errors.Join(fresh.Sync(), fresh.Close()); err != nil {
		return rep, err
	}
	if err := os.Rename(fresh.Name(), path); err != nil {
		return rep, err
	}
	return rep, syncDir(dir)
}

// fill writes all of src to f, durably, and closes it.
func fill(f *os.File, src io.Reader) error {
	_, err := io.Copy(f, src)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// copyGood writes a log of all good records of r, and gaps for the others.
func copyGood(f *os.File, r *Reader, copyName string) (n, last uint64, err error) {
	w := bufio.NewWriterSize(f, 64<<10)
	if _, err := w.Write(appendHeader(nil, r.logID)); err != nil {
		return 0, 0, err
	}
	var when time.Time // of the record before, for gaps
	when = time.Unix(0, 0)
	put := func(rec Record) error {
		n, last, when = n+1, rec.Seq, rec.Time
		_, err := w.Write(appendRecord(nil, rec))
		return err
	}
	for {
		rec, err := r.Next()
		var bad *CorruptError
		switch {
		case err == nil:
			err = put(rec)
		case err == io.EOF || errors.Is(err, ErrTorn):
			return n, last, w.Flush()
		case errors.As(err, &bad):
			err = nil
			if bad.Last >= bad.First {
				var data []byte
				if data, err = json.Marshal(Gap{bad.First, bad.Last, copyName}); err == nil {
					err = put(Record{Seq: bad.Last, Time: when, Kind: KindGap, Data: data})
				}
			}
		}
		if err != nil {
			return n, last, err
		}
	}
}
