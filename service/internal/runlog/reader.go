package runlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"

	"github.com/reevehq/reeve/service/internal/private"
)

// Reader reads a log from its beginning, also while it grows. It is for one
// goroutine.
type Reader struct {
	f     *os.File
	logID string
	first int64 // offset of the first record
	off   int64 // offset of the next record
	seen  int64 // size of the file when it was last looked at
	seq   uint64
	win   window
	index []place // sparse: about one for each indexStep bytes
}

// place says that behind offset off comes what follows the record seq.
type place struct {
	seq uint64
	off int64
}

// indexStep is the distance of index entries in bytes: a seek reads at most
// that much, and a log of 1 GiB has 4,096 entries.
const indexStep = 256 << 10

// Open opens a log for reading. It fails with ErrTorn when even the header is
// incomplete, as after a crash in Create, and with a *private.Violation when
// others could have written the file.
func Open(path string) (*Reader, error) {
	f, err := private.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	r := &Reader{f: f, win: window{f: f}}
	if err := r.readHeader(); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open the log %s: %w", path, err)
	}
	r.off = r.first
	r.index = []place{{0, r.first}}
	return r, nil
}

func (r *Reader) readHeader() error {
	b := make([]byte, len(magic)+4+1+255+4)
	n, err := r.f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return err
	}
	b = b[:n]
	if len(bytes.Trim(b, "\x00")) == 0 { // only its size reached the disk
		return &TornError{Offset: 0, Bytes: int64(n)}
	}
	if known := min(n, len(magic)); string(b[:known]) != magic[:known] {
		return errors.New("it is not a session log")
	}
	const fixed = len(magic) + 4 + 1
	if n < fixed {
		return &TornError{Offset: 0, Bytes: int64(n)}
	}
	if v := binary.LittleEndian.Uint32(b[len(magic):]); v != version {
		return fmt.Errorf("it has the format version %d, and this program knows %d; update it", v, version)
	}
	end := fixed + int(b[fixed-1])
	if n < end+4 {
		return &TornError{Offset: 0, Bytes: int64(n)}
	}
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) || end == fixed {
		return errors.New("its header is damaged")
	}
	r.logID = string(b[fixed:end])
	r.first = int64(end + 4)
	return nil
}

// LogID is the id that the log was created with.
func (r *Reader) LogID() string { return r.logID }

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Next returns the next record. At the clean end it returns io.EOF, and inside
// an incomplete record a *TornError; both can pass, and a later call reads on
// at the same place. For damaged bytes it returns a *CorruptError once and
// then goes on behind them. The record's data is only there until the next
// call: clone it to keep it.
func (r *Reader) Next() (Record, error) {
	rec, _, err := r.next()
	return rec, err
}

// next also returns the offset behind the record.
func (r *Reader) next() (Record, int64, error) {
	// What lies within the size that was seen last needs no new look at it.
	if r.off < r.seen {
		if rec, end, err := r.recordAt(r.off, r.seen); err == nil && end >= 0 && rec.Seq == r.seq+1 {
			r.advance(rec.Seq, end)
			return rec, end, nil
		}
	}
	size, err := r.size()
	if err != nil {
		return Record{}, 0, err
	}
	if r.off == size {
		return Record{}, 0, io.EOF
	}
	if r.off > size {
		return Record{}, 0, fmt.Errorf("read the log: it shrank from at least %d to %d bytes", r.off, size)
	}
	rec, end, err := r.recordAt(r.off, size)
	if err != nil {
		return Record{}, 0, err
	}
	if end < 0 || rec.Seq != r.seq+1 {
		return Record{}, 0, r.damage(size)
	}
	r.advance(rec.Seq, end)
	return rec, end, nil
}

func (r *Reader) size() (int64, error) {
	st, err := r.f.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the log: %w", err)
	}
	r.seen = st.Size()
	return r.seen, nil
}

func (r *Reader) advance(seq uint64, off int64) {
	r.seq, r.off = seq, off
	if last := r.index[len(r.index)-1]; off-last.off >= indexStep {
		r.index = append(r.index, place{seq, off})
	}
}

// recordAt reads the record at off; end is -1 if there is no good one that
// ends within size.
func (r *Reader) recordAt(off, size int64) (rec Record, end int64, err error) {
	if size-off < frameSize+fixedSize {
		return Record{}, -1, nil
	}
	frame, err := r.win.at(off, frameSize, size)
	if err != nil {
		return Record{}, -1, err
	}
	n, sum := int64(binary.LittleEndian.Uint32(frame)), binary.LittleEndian.Uint32(frame[4:])
	// The length is believed only as far as the file goes, before room is
	// made for it.
	if n < fixedSize || n > MaxRecord || off+frameSize+n > size {
		return Record{}, -1, nil
	}
	b, err := r.win.at(off+frameSize, int(n), size)
	if err != nil {
		return Record{}, -1, err
	}
	rec, ok := payload(b)
	if !ok || crc32.Checksum(b, castagnoli) != sum {
		return Record{}, -1, nil
	}
	return rec, off + frameSize + n, nil
}

// damage tells a torn tail from damage in the middle by what comes behind: a
// good record with a later sequence makes it the middle. A wrong length would
// otherwise let all that follows pass for a tail.
func (r *Reader) damage(size int64) error {
	for off := r.off + 1; off+frameSize+fixedSize <= size; off++ {
		head, err := r.win.at(off, frameSize+fixedSize, size)
		if err != nil {
			return err
		}
		n := int64(binary.LittleEndian.Uint32(head))
		seq := binary.LittleEndian.Uint64(head[frameSize:])
		kind := int64(head[frameSize+16])
		// Cheap tests first. JSON has no bytes below 0x20, so inside a text the
		// length alone rules out every place.
		if seq <= r.seq || seq-r.seq > 1<<32 || n < fixedSize+kind || kind == 0 || n > MaxRecord || off+frameSize+n > size {
			continue
		}
		rec, end, err := r.recordAt(off, size)
		if err != nil {
			return err
		}
		if end < 0 {
			continue
		}
		bad := &CorruptError{Offset: r.off, Next: off, First: r.seq + 1, Last: rec.Seq - 1}
		r.advance(rec.Seq-1, off)
		return bad
	}
	return &TornError{Offset: r.off, Bytes: size - r.off}
}

// Seek makes Next return the record seq. It fails with io.EOF or a *TornError
// when the log does not have it yet; the reader then stands at the end. Lost
// records are passed over: Next then returns the first one behind them.
func (r *Reader) Seek(seq uint64) error {
	if seq <= r.seq || r.seq == 0 {
		// The last place whose records all come before seq.
		i := sort.Search(len(r.index), func(i int) bool { return r.index[i].seq >= seq })
		if i > 0 {
			i--
		}
		r.seq, r.off = r.index[i].seq, r.index[i].off
	} else if last := r.index[len(r.index)-1]; last.seq < seq && last.seq > r.seq {
		r.seq, r.off = last.seq, last.off
	}
	for r.seq+1 < seq {
		_, _, err := r.next()
		var bad *CorruptError
		if err != nil && !errors.As(err, &bad) {
			return err
		}
	}
	return nil
}

// window is a piece of the file that was read ahead.
type window struct {
	f    *os.File
	buf  []byte
	from int64
}

const windowSize = 256 << 10

// at returns n bytes at off, through the window when they fit. They are there
// until the next call.
func (w *window) at(off int64, n int, size int64) ([]byte, error) {
	if n > windowSize {
		b := make([]byte, n)
		if _, err := w.f.ReadAt(b, off); err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		return b, nil
	}
	if off < w.from || off+int64(n) > w.from+int64(len(w.buf)) {
		if w.buf == nil {
			w.buf = make([]byte, windowSize)
		}
		w.buf = w.buf[:min(windowSize, size-off)]
		w.from = off
		if _, err := w.f.ReadAt(w.buf, off); err != nil {
			w.buf = w.buf[:0]
			return nil, fmt.Errorf("read the log: %w", err)
		}
	}
	return w.buf[off-w.from:][:n], nil
}
