package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/service/internal/store"
)

func TestBlobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	blobs := store.OpenBlobs(dir)
	want := bytes.Repeat([]byte("0123456789"), 1000)
	digest, err := blobs.Put(want)
	must(t, err)
	if again, err := blobs.Put(want); err != nil || again != digest {
		t.Fatalf("again: %s %v", again, err)
	}
	for _, c := range []struct {
		off   int64
		limit int
		want  []byte
	}{{0, 1 << 20, want}, {0, 10, want[:10]}, {9995, 10, want[9995:]}, {10000, 10, nil}, {1 << 40, 10, nil}, {5, 0, nil}} {
		got, total, err := blobs.ReadAt(digest, c.off, c.limit)
		if err != nil || total != int64(len(want)) || !bytes.Equal(got, c.want) {
			t.Errorf("%d+%d: %d bytes of %d, %v", c.off, c.limit, len(got), total, err)
		}
	}
	empty, err := blobs.Put(nil)
	must(t, err)
	if got, total, err := blobs.ReadAt(empty, 0, 5); err != nil || total != 0 || len(got) != 0 {
		t.Errorf("empty: %q %d %v", got, total, err)
	}
	path := filepath.Join(dir, digest)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("%v %v", info, err)
	}
	for _, bad := range []string{"", "../reeve.db", strings.ToUpper(digest), digest + "0", digest[:63] + "/"} {
		if _, _, err := blobs.ReadAt(bad, 0, 1); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, _, err := blobs.ReadAt(digest, -1, 1); err == nil {
		t.Error("a negative offset was taken")
	}
	if _, _, err := blobs.ReadAt(strings.Repeat("0", 64), 0, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("unknown: %v", err)
	}

	// A damaged blob is told, and one of the wrong size is mended by the next Put.
	must(t, os.WriteFile(path, bytes.ToUpper(append(want[:9999:9999], 'x')), 0o600))
	var damage *store.DamagedError
	if _, _, err := blobs.ReadAt(digest, 0, 1<<20); !errors.As(err, &damage) {
		t.Errorf("damaged: %v", err)
	}
	must(t, os.WriteFile(path, want[:10], 0o600))
	_, err = blobs.Put(want)
	must(t, err)
	if got, _, err := blobs.ReadAt(digest, 0, 1<<20); err != nil || !bytes.Equal(got, want) {
		t.Errorf("mended: %v", err)
	}
}

func TestCheckFindsDamagedBlobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	b := store.OpenBlobs(dir)
	var found []error
	report := func(err error) { found = append(found, err) }
	if n, err := b.Check(ctx, report); n != 0 || err != nil {
		t.Error("without any:", n, err)
	}
	var last string
	for i := range 5 {
		digest, err := b.Put(fmt.Append(nil, i))
		must(t, err)
		last = filepath.Join(dir, digest)
	}
	must(t, os.WriteFile(last, []byte("?"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".half.1"), []byte("?"), 0o600))
	n, err := b.Check(ctx, report)
	var damage *store.DamagedError
	if n != 4 || err != nil || len(found) != 1 || !errors.As(found[0], &damage) || damage.Path != last {
		t.Errorf("%d sound, %v, found %v", n, err, found)
	}
}
