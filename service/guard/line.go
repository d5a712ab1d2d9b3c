package guard

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/reevehq/reeve/ipc/wire"
)

// readLine reads one line without its newline, refusing one over wire.MaxLine.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > wire.MaxLine+1 {
			return nil, wire.Errorf(wire.CodeLimitExceeded, "a line has more than %d bytes", wire.MaxLine)
		}
		if err == nil {
			return line[:len(line)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// encode is json.Marshal without the escapes for HTML, which would change the
// bytes of values that are passed through.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// newID makes an id: the prefix and a lower-case ULID.
func newID(prefix string) string {
	return prefix + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
}

func sameProcess(pid int) bool { return pid == os.Getpid() }
