package guard

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"

	"github.com/oklog/ulid/v2"
)

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
