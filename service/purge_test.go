package service

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/store"
)

// Only what Reeve made is removed, and never below a service that runs.
func TestPurgeState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if left, err := PurgeState(dir); err != nil || len(left) > 0 {
		t.Errorf("with nothing there: %v, %v", left, err)
	}
	for _, sub := range []string{"attempts/a", "blobs", "logs", "run", "shop/.git"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"attempts/a/log", "logs/service.log", "agents.json", "update.json.refused", "reeve.db.bak-v1", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := store.Open(filepath.Join(dir, "reeve.db"), store.Options{AppVersion: "1", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PurgeState(dir); err == nil {
		t.Error("it was removed below a service that has it")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := PurgeState(dir)
	if want := []string{filepath.Join(dir, "notes.txt"), filepath.Join(dir, "shop")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v, %v", left, err)
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := PurgeState(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}
