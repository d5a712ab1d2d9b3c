package e2e

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// chain checks an exported audit log as docs/protocol.md says it: with nothing
// but the lines, and a head from elsewhere.
func chain(ts *testscript.TestScript, args []string) {
	prev, n := "", 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		n++
		var e struct {
			Seq                                                    int
			Time, Kind, Actor, Mission, Approval, Text, Prev, Hash string
			Data                                                   json.RawMessage
		}
		ts.Check(json.Unmarshal([]byte(line), &e))
		h := sha256.New()
		for _, field := range []string{prev, strconv.Itoa(n), e.Time, e.Kind, e.Actor, e.Mission, e.Approval, e.Text, string(e.Data)} {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field))))
			h.Write([]byte(field))
		}
		if hash := hex.EncodeToString(h.Sum(nil)); e.Seq != n || e.Prev != prev || e.Hash != hash {
			ts.Fatalf("line %d does not hold, its hash is %s: %s", n, hash, line)
		}
		prev = e.Hash
	}
	if prev != args[1] {
		ts.Fatalf("%d lines end with %q, the head is %s", n, prev, args[1])
	}
}
