package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// ErrNotText means that a line holds a NUL or is not UTF-8. The reader stands
// at the next line and goes on.
var ErrNotText = errors.New("the line holds a NUL or is not UTF-8 text")

// TooLongError means that a line is longer than MaxLine. Where the next line
// begins is unknown, so the connection has to end. Prefix is the start of it.
type TooLongError struct{ Prefix []byte }

func (*TooLongError) Error() string {
	return fmt.Sprintf("the line is longer than %d bytes", MaxLine)
}

// LineReader reads newline-terminated lines of at most MaxLine bytes.
type LineReader struct {
	r    *bufio.Reader
	long []byte
}

// NewLineReader reads lines from r.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 8<<10)}
}

// Next returns the next line without its newline; it is valid until the call
// after. With ErrNotText it returns the line too. A last line without a newline
// is io.ErrUnexpectedEOF: it may be cut off anywhere.
func (l *LineReader) Next() ([]byte, error) {
	l.long = nil // an idle connection shall not hold a megabyte
	for {
		part, err := l.r.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		if len(l.long)+len(part) > MaxLine {
			return nil, &TooLongError{Prefix: prefix(l.long, part)}
		}
		switch {
		case err == nil && l.long == nil:
			return part, checkText(part)
		case err == nil:
			l.long = append(l.long, part...)
			return l.long, checkText(l.long)
		case errors.Is(err, bufio.ErrBufferFull):
			l.long = append(l.long, part...)
		case errors.Is(err, io.EOF) && len(l.long)+len(part) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

func prefix(a, b []byte) []byte {
	const enough = 4 << 10
	p := append([]byte(nil), a[:min(len(a), enough)]...)
	return append(p, b[:min(len(b), enough-len(p))]...)
}

func checkText(b []byte) error {
	if bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
		return ErrNotText
	}
	return nil
}

// Encode returns v as one line, newline included, or a *TooLongError.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// Transcripts are full of < and >, which needn't be escaped here.
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if b.Len()-1 > MaxLine {
		return nil, &TooLongError{Prefix: prefix(b.Bytes(), nil)}
	}
	return b.Bytes(), nil
}
