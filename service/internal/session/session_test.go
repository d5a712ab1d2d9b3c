package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/runlog"
)

func TestHistoryWithoutALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	none := func(runlog.Record) bool { t.Error("an entry from nowhere"); return true }
	w, err := runlog.Create(path, "a-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(time.Unix(1, 0), "text", []byte(`"x"`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if last, err := History(t.Context(), path, 0, func(r runlog.Record) bool { return r.Seq == 1 }); err != nil || last != 1 {
		t.Error("a whole log:", last, err)
	}
	// A log whose header did not reach the disk, then none at all.
	for _, size := range []int64{11, 0, -1} {
		if size < 0 {
			err = os.Remove(path)
		} else {
			err = os.Truncate(path, size)
		}
		if err != nil {
			t.Fatal(err)
		}
		if last, err := History(t.Context(), path, 0, none); err != nil || last != 0 {
			t.Errorf("%d bytes: %d, %v", size, last, err)
		}
		if _, err := History(t.Context(), path, 3, none); !errors.Is(err, ErrBeyond) {
			t.Errorf("%d bytes, after 3: %v", size, err)
		}
	}
}
