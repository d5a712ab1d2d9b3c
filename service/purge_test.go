package service

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
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
	db, err = store.Open(filepath.Join(dir, "reeve.db"), store.Options{AppVersion: "1", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := PurgeState(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}

// A folder that only has names like those of a state is somebody else's.
func TestPurgeNoState(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"logs", "run", "attempts", "blobs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub, "mine"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check := func(why string) {
		t.Helper()
		if left, err := PurgeState(dir); err == nil {
			t.Errorf("%s: it was removed; left %v", why, left)
		}
		for _, sub := range []string{"logs", "run", "attempts", "blobs"} {
			if _, err := os.Stat(filepath.Join(dir, sub, "mine")); err != nil {
				t.Errorf("%s: %v", why, err)
			}
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	check("without a journal")
	if err := os.WriteFile(filepath.Join(dir, "reeve.db"), []byte("a file of theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("with a file that others may read")
	if err := errors.Join(os.Chmod(filepath.Join(dir, "reeve.db"), 0o600), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	check("in a directory that others may read")
}

// The state is how what still runs can be ended.
func TestPurgeBelowAWorker(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	attempt := filepath.Join(dir, "attempts", "a-1")
	if err := os.MkdirAll(attempt, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(wire.GuardRecord{Process: wire.Process(self)})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{filepath.Join(dir, "reeve.db"): []byte("damaged"), filepath.Join(attempt, "guard.json"): record} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := PurgeState(dir); err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("it was removed below a worker: left %v, %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(attempt, "guard.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if left, err := PurgeState(dir); err == nil {
		t.Errorf("whether a worker runs was not known: left %v", left)
	}
	if err := os.Remove(filepath.Join(attempt, "guard.json")); err != nil {
		t.Fatal(err)
	}
	if left, err := PurgeState(dir); err != nil || len(left) > 0 {
		t.Errorf("a damaged journal is a state, too: left %v, %v", left, err)
	}
}
