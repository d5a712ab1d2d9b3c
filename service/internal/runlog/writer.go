package runlog

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/reevehq/reeve/service/internal/private"
)

// Writer appends to a log. It may be used by several goroutines.
type Writer struct {
	mu   sync.Mutex // guards all
	f    *os.File
	buf  *bufio.Writer
	seq  uint64
	room []byte // reused for encoding
	err  error  // the first failure of a write; nothing is written after it
}

// Create makes a new log, 0600, whose header is durable when it returns. It
// fails with fs.ErrExist when there is a file. logID has 1 to 255 bytes.
func Create(path, logID string) (*Writer, error) {
	if logID == "" || len(logID) > 255 {
		return nil, fmt.Errorf("create the log %s: its id must have 1 to 255 bytes", path)
	}
	f, err := private.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create the log: %w", err)
	}
	w := &Writer{f: f, buf: bufio.NewWriterSize(f, 64<<10)}
	_, err = f.Write(appendHeader(nil, logID))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = private.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, fmt.Errorf("create the log %s: %w", path, err)
	}
	return w, nil
}

// Append adds a record and returns its sequence. It is buffered: readers see
// it after Flush, and it survives a loss of power after Sync. data must be
// JSON; it is not kept. Once a write failed every call returns that error,
// since the end of the file is unknown then.
func (w *Writer) Append(t time.Time, kind string, data []byte) (seq uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if kind == "" || len(kind) > 255 {
		return 0, fmt.Errorf("append to the log: the kind %q must have 1 to 255 bytes", kind)
	}
	if len(data) == 0 {
		return 0, errors.New("append to the log: there is no data; use null for none")
	}
	if n := fixedSize + len(kind) + len(data); n > MaxRecord {
		return 0, fmt.Errorf("append to the log: a record of %d bytes is over the limit of %d", n, MaxRecord)
	}
	w.room = appendRecord(w.room[:0], Record{Seq: w.seq + 1, Time: t, Kind: kind, Data: data})
	if _, err := w.buf.Write(w.room); err != nil {
		return 0, w.fail(err)
	}
	if cap(w.room) > 1<<20 {
		w.room = nil // one large record should not be paid for until the end
	}
	w.seq++
	return w.seq, nil
}

// Flush hands what was appended to the system, for readers to see.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// Sync makes what was appended durable.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return w.fail(err)
	}
	return nil
}

// Close makes everything durable and closes the file.
func (w *Writer) Close() error {
	err := w.Sync()
	w.mu.Lock()
	defer w.mu.Unlock()
	cerr := w.f.Close()
	if w.err == nil {
		w.err = fmt.Errorf("write the log: %w", os.ErrClosed)
	}
	return errors.Join(err, cerr)
}

func (w *Writer) flush() error {
	if w.err != nil {
		return w.err
	}
	if err := w.buf.Flush(); err != nil {
		return w.fail(err)
	}
	return nil
}

// fail keeps the first failure. A sync that failed once may succeed the next
// time without the data having reached the disk, so there is no second try.
func (w *Writer) fail(err error) error {
	w.err = fmt.Errorf("write the log: %w", err)
	return w.err
}
