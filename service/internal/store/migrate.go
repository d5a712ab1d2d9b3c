package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/reevehq/reeve/service/internal/private"
)

// A Migration brings the schema one version further.
type Migration struct {
	Name  string // what it changes, for errors
	Apply func(*Tx) error
}

// migrations is the schema's history: never change or remove one that was
// released, add one at the end.
var migrations = []Migration{
	{Name: "first schema", Apply: func(*Tx) error { return nil }},
}

// create makes a new database beside path and links it there when it is
// complete, so that a crash leaves either no database or a whole one, and an
// empty file under the name is always damage.
func create(path string, o Options) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return err
	}
	b, err := bbolt.Open(tmp.Name(), 0o600, &bbolt.Options{Timeout: lockTimeout, NoSync: true, NoGrowSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = errors.Join(upgrade(b, 0, o), b.Sync())
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	// Link refuses to replace a file that another process made meanwhile; where
	// links don't exist, rename is all there is.
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		if err := os.Rename(tmp.Name(), path); err != nil {
			return err
		}
	}
	return private.SyncDir(filepath.Dir(path))
}

// dropNewName removes the name that create gave the file at path at first, which
// a crash just after the second name leaves: a private file has one.
func dropNewName(path string) error {
	whole, err := os.Lstat(path)
	if err != nil {
		return err
	}
	dir, base := filepath.Split(path)
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), base+".new-") {
			continue
		}
		info, err := n.Info()
		if err != nil || !os.SameFile(info, whole) {
			continue // gone, or of a creation that was cut short
		}
		if err := os.Remove(filepath.Join(dir, n.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// migrate checks the schema version of an opened file and brings it up to date.
func migrate(b *bbolt.DB, path string, o Options) error {
	var have int
	var app string
	err := viewBolt(b, path, func(tx *Tx) (err error) { have, app, err = readSchema(tx, path, o); return err })
	if err != nil {
		return err
	}
	if have < len(o.Migrations) {
		if err := backup(b, fmt.Sprintf("%s.bak-v%d", path, have)); err != nil {
			return fmt.Errorf("store: back up %s before the migration from schema %d: %w", path, have, err)
		}
		return upgrade(b, have, o)
	}
	if app == o.AppVersion {
		return nil
	}
	return b.Update(func(btx *bbolt.Tx) error {
		return (&Tx{b: btx}).put(bucketMeta, []byte(keyApp), []byte(o.AppVersion))
	})
}

// readSchema returns the schema version of the file and the program that wrote
// it last, or *NewerError when this program does not know that schema.
func readSchema(tx *Tx, path string, o Options) (have int, app string, err error) {
	raw := tx.Get(bucketMeta, []byte(keySchema))
	if have, err = strconv.Atoi(string(raw)); err != nil || have < 1 {
		return 0, "", damaged(path, fmt.Sprintf("its schema version is %q", raw))
	}
	app = string(tx.Get(bucketMeta, []byte(keyApp)))
	if have > len(o.Migrations) {
		return have, app, &NewerError{Have: have, Known: len(o.Migrations), AppVersion: app}
	}
	return have, app, nil
}

// upgrade applies the migrations after version have, each in a transaction that
// also records the version it reached.
func upgrade(b *bbolt.DB, have int, o Options) error {
	for v := have; v < len(o.Migrations); v++ {
		err := b.Update(func(btx *bbolt.Tx) error {
			tx := &Tx{b: btx, now: o.Now}
			if err := protect(o.Migrations[v].Apply, tx); err != nil {
				return err
			}
			if err := tx.put(bucketMeta, []byte(keySchema), []byte(strconv.Itoa(v+1))); err != nil {
				return err
			}
			return tx.put(bucketMeta, []byte(keyApp), []byte(o.AppVersion))
		})
		if err != nil {
			return fmt.Errorf("store: migration to schema %d (%s): %w", v+1, o.Migrations[v].Name, err)
		}
	}
	return nil
}

// backup writes a consistent copy to path, complete before it has that name.
func backup(b *bbolt.DB, path string) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	err = b.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(tmp)
		return err
	})
	err = errors.Join(err, tmp.Sync())
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return private.SyncDir(filepath.Dir(path))
}
