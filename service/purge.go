package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/agents"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// stateNames are what Reeve makes in its state directory, and stateFiles the
// beginnings of the names of files there.
var (
	stateNames = []string{"attempts", "blobs", "logs", "run", agents.FileName}
	stateFiles = []string{"reeve.db", manifestFile, "secrets.age"}
)

// PurgeState removes, for good, the state of a service that does not run: what
// Reeve made in dir, and dir itself if that leaves it empty. Everything else stays
// and is returned. It refuses while a service uses the state, while a worker that
// belongs to it lives, and where no journal shows that the directory is Reeve's:
// when REEVE_STATE names some other folder by mistake, nothing there may be lost.
func PurgeState(dir string) (left []string, err error) {
	journal := filepath.Join(dir, "reeve.db")
	var damaged *store.DamagedError
	var newer *store.NewerError
	switch err := store.CheckFile(journal, store.Options{}); {
	case err == nil, errors.As(err, &damaged), errors.As(err, &newer):
	case errors.Is(err, store.ErrInUse):
		return nil, fmt.Errorf("a service has the state %s; stop it first", dir)
	case errors.Is(err, fs.ErrNotExist):
		if entries, err := os.ReadDir(dir); errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("there is no journal in %s, so nothing shows that what is there is Reeve's; nothing was removed", dir)
	default:
		return nil, err
	}
	if err := private.CheckDir(dir); err != nil {
		return nil, err
	}
	if live, err := Outlived(dir); err != nil {
		return nil, err
	} else if len(live) > 0 {
		return nil, fmt.Errorf("workers of the state %s still run (process %s); stop them first", dir, strings.Join(live, ", "))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	// The journal goes last: what can't be removed now can be when asked again.
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int {
		switch journal := filepath.Base(journal); {
		case a.Name() == journal:
			return 1
		case b.Name() == journal:
			return -1
		}
		return 0
	})
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

// Outlived returns the process numbers of guards and keepers that live on with
// the state of a service that does not run. What can't be told is an error.
func Outlived(dir string) (live []string, err error) {
	attempts := filepath.Join(dir, "attempts")
	entries, err := os.ReadDir(attempts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		rec, err := guard.ReadRecord(filepath.Join(attempts, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return live, fmt.Errorf("whether a worker still runs can't be told: %w", err)
		}
		for _, id := range []proc.ID{proc.ID(rec.Process), proc.ID(rec.Keeper)} {
			if id.PID != 0 && id.State() != proc.Gone {
				live = append(live, strconv.Itoa(id.PID))
			}
		}
	}
	return live, nil
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
