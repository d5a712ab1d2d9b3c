package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/reevehq/reeve/service/internal/agents"
	"github.com/reevehq/reeve/service/internal/store"
)

// stateNames are what Reeve makes in its state directory, and stateFiles the
// beginnings of the names of files there.
var (
	stateNames = []string{"attempts", "blobs", "logs", "run", agents.FileName}
	stateFiles = []string{"reeve.db", manifestFile, "secrets.age"}
)

// PurgeState removes the state of a service that does not run, for good: what
// Reeve made, and the directory if nothing else is in it. What else there is is
// left and returned. It refuses while a service has the state.
func PurgeState(dir string) (left []string, err error) {
	if err := store.CheckFile(filepath.Join(dir, "reeve.db"), store.Options{}); errors.Is(err, store.ErrInUse) {
		return nil, fmt.Errorf("a service has the state %s; stop it first", dir)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !ourState(e.Name()) {
			left = append(left, path)
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return left, err
		}
	}
	if len(left) == 0 {
		return nil, os.Remove(dir)
	}
	return left, nil
}

func ourState(name string) bool {
	for _, n := range stateNames {
		if name == n {
			return true
		}
	}
	for _, n := range stateFiles {
		if strings.HasPrefix(strings.TrimPrefix(name, "."), n) {
			return true
		}
	}
	return false
}
