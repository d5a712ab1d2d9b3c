package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// Bounds of what is kept to be read in pieces. The newest is kept whatever its
// size.
const (
	pageTime  = 5 * time.Minute
	pageBytes = 32 << 20
)

// pages holds long texts that were just asked for, so that a client can read
// them in pieces. Nothing of them is written: whoever looks again gets them anew.
type pages struct {
	mu   sync.Mutex
	list []page // newest last
}

type page struct {
	digest string
	data   []byte
	over   *time.Timer
}

// pack makes a JSON string, or a reference that holds for pageTime.
func (p *pages) pack(text string) (json.RawMessage, error) {
	raw, err := json.Marshal(text)
	if err != nil || len(raw) <= wire.BlobThreshold {
		return raw, err
	}
	sum := sha256.Sum256(raw)
	digest := hex.EncodeToString(sum[:])
	p.put(digest, raw)
	return json.Marshal(wire.BlobRef{Blob: digest, Bytes: int64(len(raw))})
}

func (p *pages) put(digest string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked(digest)
	p.list = append(p.list, page{digest, data, time.AfterFunc(pageTime, func() { p.drop(digest, data) })})
	total := 0
	for i := len(p.list) - 1; i >= 0; i-- {
		if total += len(p.list[i].data); total > pageBytes && i < len(p.list)-1 {
			p.dropLocked(p.list[i].digest)
		}
	}
}

// drop forgets data whose time is over, unless it was asked for again since.
func (p *pages) drop(digest string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.list {
		if x.digest == digest && &x.data[0] == &data[0] {
			p.dropLocked(digest)
			return
		}
	}
}

func (p *pages) dropLocked(digest string) {
	p.list = slices.DeleteFunc(p.list, func(x page) bool {
		if x.digest == digest {
			x.over.Stop()
		}
		return x.digest == digest
	})
}

// clear forgets everything.
func (p *pages) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.list {
		x.over.Stop()
	}
	p.list = nil
}

// Page returns up to limit bytes from byte off on of a text that Changes gave a
// reference to, and its whole size; false, when it is not kept (any more).
func (s *Supervisor) Page(digest string, off int64, limit int) (data []byte, total int64, ok bool) {
	s.pages.mu.Lock()
	defer s.pages.mu.Unlock()
	for _, x := range s.pages.list {
		if x.digest == digest && off >= 0 {
			from := min(off, int64(len(x.data)))
			return x.data[from:min(from+int64(limit), int64(len(x.data)))], int64(len(x.data)), true
		}
	}
	return nil, 0, false
}
