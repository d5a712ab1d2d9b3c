package supervisor

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// A long text is kept in memory to be read in pieces; the newest always, older
// ones while there is room.
func TestPages(t *testing.T) {
	s := &Supervisor{}
	defer s.pages.clear()
	read := func(ref wire.BlobRef) []byte {
		var all []byte
		for {
			piece, total, ok := s.Page(ref.Blob, int64(len(all)), wire.BlobPiece)
			if !ok {
				return nil
			}
			if total != ref.Bytes {
				t.Fatalf("%d bytes in all, want %d", total, ref.Bytes)
			}
			if all = append(all, piece...); len(piece) == 0 {
				return all
			}
		}
	}
	pack := func(text string) (ref wire.BlobRef) {
		raw, err := s.pages.pack(text)
		if err != nil || json.Unmarshal(raw, &ref) != nil || ref.Blob == "" {
			t.Fatalf("%.100s, %v", raw, err)
		}
		return ref
	}
	if raw, err := s.pages.pack("short"); err != nil || string(raw) != `"short"` || len(s.pages.list) != 0 {
		t.Fatalf("%s, %v", raw, err)
	}
	first := strings.Repeat("a", pageBytes/2)
	a := pack(first)
	if want, _ := json.Marshal(first); !bytes.Equal(read(a), want) {
		t.Fatal("what is read is not what was packed")
	}
	b := pack(strings.Repeat("b", pageBytes/4))
	if read(a) == nil || read(b) == nil {
		t.Fatal("there was room for both")
	}
	if again := pack(first); again != a || len(s.pages.list) != 2 {
		t.Fatalf("the same text twice: %v, %d kept", again, len(s.pages.list))
	}
	c := pack(strings.Repeat("c", 2*pageBytes))
	if read(c) == nil || read(a) != nil || read(b) != nil {
		t.Error("the newest alone is kept beyond the limit")
	}
	if _, _, ok := s.Page(c.Blob, -1, 10); ok {
		t.Error("something lies before the beginning")
	}
	s.pages.drop(c.Blob, []byte("an earlier copy"))
	if read(c) == nil {
		t.Error("the end of an earlier copy's time took the newer one")
	}
}
