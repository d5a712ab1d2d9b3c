package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/reevehq/reeve/service/internal/private"
)

func damaged(path, detail string) *DamagedError {
	mend := "Stop the service and keep a copy of the file. "
	if old, _ := filepath.Glob(path + ".bak-v*"); len(old) > 0 {
		sort.Slice(old, func(i, j int) bool { return len(old[i]) < len(old[j]) || len(old[i]) == len(old[j]) && old[i] < old[j] })
		mend += "Put a backup of it in its place (the newest here is " + old[len(old)-1] + "), or move it away to begin with an empty journal"
	} else {
		mend += "Put a backup of it in its place, or move it away to begin with an empty journal"
	}
	return &DamagedError{Path: path, Detail: detail, Mend: mend}
}

// Check verifies the whole file: every page, the schema record and the audit
// chain. No write happens meanwhile. It returns a *DamagedError that names what
// does not hold.
func (db *DB) Check() error {
	// Holding the writer keeps the pages still; the check needs that.
	btx, err := db.bolt.Begin(true)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	} else if err != nil {
		return fmt.Errorf("store: check %s: %w", db.path, err)
	}
	defer btx.Rollback()
	return check(btx, db.file, db.path)
}

// CheckFile does what Check does for a file that no process has open, without
// changing it. It returns ErrInUse when one has, *private.Violation for a file
// that is not private, and *NewerError for a schema that is not known.
func CheckFile(path string, o Options) error {
	if err := checkPages(path); err != nil {
		return err
	}
	b, f, err := openBolt(path, true)
	if err != nil {
		return err
	}
	defer b.Close()
	btx, err := b.Begin(false)
	if err != nil {
		return fmt.Errorf("store: check %s: %w", path, err)
	}
	defer btx.Rollback()
	if err := check(btx, f, path); err != nil {
		return err
	}
	_, _, err = readSchema(&Tx{b: btx}, path, o.complete())
	return err
}

func check(btx *bbolt.Tx, f *os.File, path string) error {
	// bbolt's own check trusts the pages that it follows, so it comes second.
	if err := walkPages(f); err != nil {
		return damaged(path, err.Error())
	}
	var wrong []string
	for err := range btx.Check() {
		if len(wrong) < 8 {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return damaged(path, strings.Join(wrong, "; "))
	}
	tx := &Tx{b: btx}
	if len(tx.Get(bucketMeta, []byte(keySchema))) == 0 {
		return damaged(path, "it has no schema version")
	}
	report, err := verifyAudit(context.Background(), func(fn func(*Tx) error) error { return protect(fn, tx) })
	if err != nil {
		return err
	}
	if report.BrokenAt != 0 {
		return damaged(path, fmt.Sprintf("the audit log breaks at entry %d: %s", report.BrokenAt, report.Detail))
	}
	return nil
}

// checkPages verifies the pages before bbolt maps them, because bbolt can end
// the program on pages that make no sense.
func checkPages(path string) error {
	walk := func() error {
		f, err := private.Open(path, os.O_RDONLY)
		if err != nil {
			return fmt.Errorf("store: open %s: %w", path, err)
		}
		defer f.Close()
		if err := walkPages(f); err != nil {
			return damaged(path, err.Error())
		}
		return nil
	}
	err := walk()
	var d *DamagedError
	if !errors.As(err, &d) {
		return err
	}
	// Pages that another process is writing look damaged too. A shared lock tells
	// the two apart: only when nobody writes does a second look count.
	b, _, lockErr := openBolt(path, true)
	if errors.Is(lockErr, ErrInUse) {
		return lockErr
	}
	if lockErr == nil {
		defer b.Close()
	}
	return walk()
}
