//go:build unix

package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// A mission that had thousands of turns hides nobody: it fits a line, counts all
// of them, and stands beside the others.
func TestManyTurnsFitALine(t *testing.T) {
	h := newHouse(t)
	const n = 3_000
	long := supervisor.Record{ID: "m-long", Phase: mission.Stopped, Usage: mission.Usage{Semantics: mission.IncludesCache, Input: new(int64)}}
	*long.Usage.Input = 10 * n
	for i := range n {
		tokens := int64(10)
		long.Turns = append(long.Turns, supervisor.Turn{
			ID: supervisor.NewID("t"), Number: i + 1, StartedAt: h.s.o.Now().Wall.UTC(), EndedAt: h.s.o.Now().Wall.UTC(),
			Outcome: &mission.TurnOutcome{Outcome: mission.Succeeded, Usage: mission.Usage{Provider: "acp:demo", Semantics: mission.IncludesCache, Input: &tokens}},
		})
	}
	err := h.s.db.Update(t.Context(), func(tx *store.Tx) error {
		for _, r := range []supervisor.Record{long, {ID: "m-other", Phase: mission.Stopped}} {
			if err := store.PutJSON(tx, "missions", r.ID, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	items, err := h.s.missionSnapshot()
	if err != nil || len(items) != 2 {
		t.Fatalf("%d missions, %v", len(items), err)
	}
	for _, item := range items {
		var m wire.Mission
		if err := json.Unmarshal(item, &m); err != nil || len(item) > wire.MaxLine/4 {
			t.Fatalf("a mission of %d bytes, %v", len(item), err)
		}
		if m.ID != long.ID {
			continue
		}
		last := m.Turns[len(m.Turns)-1].Number
		if got := fmt.Sprint(m.Turn, len(m.Turns), m.Turns[0].Number, last, *m.Usage.Input); got != fmt.Sprint(n, 200, n-199, n, 10*n) {
			t.Errorf("turns in all, listed, from, to, and tokens: %s", got)
		}
	}
}

// A long patch is read in pieces, and looking at it leaves nothing behind.
func TestLongPatchIsNotKept(t *testing.T) {
	h := newHouse(t)
	folder := h.checkout("a")
	r := h.start(folder, "demo:slow 100000", "")
	h.until(r.ID, "turn", func(r supervisor.Record) bool { return len(r.Turns) > 0 })
	for n := range 2 {
		if err := os.WriteFile(filepath.Join(folder, "long"), bytes.Repeat([]byte{'a' + byte(n), '\n'}, 200_000), 0o600); err != nil {
			t.Fatal(err)
		}
		changes, err := h.s.MissionChanges(t.Context(), wire.ChangesParams{ID: r.ID})
		if err != nil {
			t.Fatal(err)
		}
		var ref wire.BlobRef
		if err := json.Unmarshal(changes.Patch, &ref); err != nil || ref.Bytes < 400_000 {
			t.Fatalf("%.100s, %v", changes.Patch, err)
		}
		whole := sha256.New()
		for at, eof := int64(0), false; !eof; {
			piece, err := h.s.BlobRead(t.Context(), wire.BlobReadParams{Digest: ref.Blob, Offset: at})
			if err != nil || piece.Bytes != ref.Bytes {
				t.Fatalf("%d of %d bytes, %v", piece.Bytes, ref.Bytes, err)
			}
			whole.Write(piece.Data)
			at, eof = at+int64(len(piece.Data)), piece.EOF
		}
		if got := hex.EncodeToString(whole.Sum(nil)); got != ref.Blob {
			t.Errorf("read %s, want %s", got, ref.Blob)
		}
	}
	if kept, err := os.ReadDir(h.s.path("blobs")); err != nil || len(kept) != 0 {
		t.Errorf("%d values are kept on the disk, %v", len(kept), err)
	}
}
