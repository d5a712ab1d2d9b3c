package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/reevehq/reeve/service/internal/powerloss"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/store"
)

func init() { children["powerloss"] = writeAcknowledged; children["blobs"] = putAcknowledged }

const (
	powerWriters = 3
	powerRounds  = 6
	powerBlobs   = 12
)

var powerMigrations = []store.Migration{
	{Name: "first", Apply: none},
	{Name: "second", Apply: func(tx *store.Tx) error { return tx.Put("migrated", []byte("k"), []byte("v")) }},
}

// writeAcknowledged makes a database, fills it in a first generation, brings it
// to a newer schema, and fills it more; it says what is durable.
func writeAcknowledged(path string) error {
	for generation := range len(powerMigrations) {
		db, err := store.Open(path, store.Options{AppVersion: "1", Migrations: powerMigrations[:generation+1]})
		if err != nil {
			return err
		}
		fmt.Println("schema", generation+1)
		g, err := db.BeginGeneration(ctx)
		if err != nil {
			return err
		}
		fmt.Println("generation", g)
		var wg sync.WaitGroup
		errs := make([]error, powerWriters)
		for w := range powerWriters {
			wg.Go(func() {
				for i := range powerRounds {
					n := generation*powerRounds + i + 1
					var id uint64
					if errs[w] = db.Update(ctx, func(tx *store.Tx) (err error) { id, err = powerWrite(tx, w, n); return err }); errs[w] != nil {
						return
					}
					fmt.Println("done", w, n, id)
				}
			})
		}
		wg.Wait()
		if err := errors.Join(append(errs, db.Close())...); err != nil {
			return err
		}
	}
	return nil
}

// powerWrite is a writer's n-th transaction: a record in two buckets, one of
// them large now and then, an id, a count, the removal of the record before,
// and a link of the audit chain.
func powerWrite(tx *store.Tx, w, n int) (id uint64, err error) {
	if id, err = tx.Next("ids"); err != nil {
		return 0, err
	}
	key := fmt.Appendf(nil, "%d-%d", w, n)
	return id, errors.Join(
		tx.Put("small", key, fmt.Append(nil, id)),
		tx.Put("large", key, powerValue(w, n)),
		tx.Put("counts", fmt.Append(nil, w), fmt.Append(nil, n)),
		tx.Put("newest", key, nil),
		tx.Delete("newest", fmt.Appendf(nil, "%d-%d", w, n-1)),
		tx.Audit(store.AuditEntry{Kind: store.AuditMission, Text: string(key)}),
	)
}

func powerValue(w, n int) []byte {
	size := 50 * n
	if n%4 == 0 {
		size = 9000 // more than a page
	}
	return []byte(strings.Repeat(fmt.Sprintf("%d-%d ", w, n), size/4))
}

// promise is what the lines of writeAcknowledged say is durable.
type promise struct {
	schema, generation int
	done               [powerWriters]int
	ids                map[uint64]bool
}

func promised(acked []string) (p promise, err error) {
	p.ids = map[uint64]bool{}
	for _, line := range acked {
		var w, n int
		var id uint64
		switch what, rest, _ := strings.Cut(line, " "); what {
		case "schema":
			_, err = fmt.Sscan(rest, &p.schema)
		case "generation":
			_, err = fmt.Sscan(rest, &p.generation)
		case "done":
			_, err = fmt.Sscan(rest, &w, &n, &id)
			p.done[w] = n
			p.ids[id] = true
		}
		if err != nil {
			return p, fmt.Errorf("%q: %w", line, err)
		}
	}
	return p, nil
}

// After a loss of power the database opens to what some whole transactions
// left, all acknowledged ones among them.
func TestPowerLoss(t *testing.T) {
	dir := t.TempDir()
	cmd := runChild(t, "powerloss:"+filepath.Join(dir, "reeve.db"))
	powerloss.Test(t, cmd, dir, func(dir string, acked []string) error {
		p, err := promised(acked)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "reeve.db")
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) && p.schema > 0 {
			return errors.New("the database is gone")
		}
		db, err := store.Open(path, store.Options{AppVersion: "1", Migrations: powerMigrations})
		if err != nil {
			return err
		}
		err = errors.Join(db.Check(), db.View(p.holds), p.goesOn(db), db.Close(), private.Check(path))
		if backup := path + ".bak-v1"; err == nil && p.schema == 2 {
			err = store.CheckFile(backup, store.Options{Migrations: powerMigrations})
		}
		return err
	})
}

// holds compares the database with what was promised, and with itself.
func (p promise) holds(tx *store.Tx) error {
	want := map[string]bool{}
	for w := range powerWriters {
		n := 0
		if raw := tx.Get("counts", fmt.Append(nil, w)); raw != nil {
			if _, err := fmt.Sscan(string(raw), &n); err != nil {
				return err
			}
		}
		if n < p.done[w] || n > p.done[w]+1 {
			return fmt.Errorf("writer %d has %d transactions, %d were acknowledged", w, n, p.done[w])
		}
		for i := 1; i <= n; i++ {
			key := fmt.Appendf(nil, "%d-%d", w, i)
			want[string(key)] = true
			if got := tx.Get("large", key); string(got) != string(powerValue(w, i)) {
				return fmt.Errorf("%s is wrong: %d bytes", key, len(got))
			}
			if newest := tx.Get("newest", key) != nil; newest != (i == n) {
				return fmt.Errorf("transaction %s is there in part", key)
			}
		}
	}
	ids := map[string]bool{}
	for _, bucket := range []string{"small", "large"} {
		n := 0
		err := tx.Scan(bucket, nil, func(k, v []byte) (bool, error) {
			n++
			if bucket == "small" {
				ids[string(v)] = true
			}
			return want[string(k)], nil
		})
		if err != nil || n != len(want) || len(ids) != len(want) {
			return fmt.Errorf("%s: %d records and %d ids of %d: %w", bucket, n, len(ids), len(want), err)
		}
	}
	return nil
}

// goesOn proves that generations and ids are not given twice, and that the
// database takes writes.
func (p promise) goesOn(db *store.DB) error {
	generation, err := db.BeginGeneration(ctx)
	if err != nil {
		return err
	}
	if generation <= uint64(p.generation) {
		return fmt.Errorf("generation %d begins again", generation)
	}
	used := map[string]bool{}
	var next uint64
	err = db.Update(ctx, func(tx *store.Tx) error {
		if string(tx.Get("migrated", []byte("k"))) != "v" {
			return errors.New("the migration is there in part")
		}
		if err := tx.Scan("small", nil, func(_, v []byte) (bool, error) { used[string(v)] = true; return true, nil }); err != nil {
			return err
		}
		next, err = tx.Next("ids")
		return errors.Join(err, tx.Audit(store.AuditEntry{Kind: store.AuditService, Text: "goes on"}))
	})
	if err == nil && (p.ids[next] || used[fmt.Sprint(next)]) {
		err = fmt.Errorf("the id %d is given again", next)
	}
	return err
}

// putAcknowledged lets several writers put the same blobs, and after them one
// alone puts what somebody left who did not come to the sync of the directory.
// Nor did who made the directory come to the sync of its name.
func putAcknowledged(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	blobs := store.OpenBlobs(dir)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for w := range errs {
		wg.Go(func() {
			for i := range powerBlobs {
				var digest string
				if digest, errs[w] = blobs.Put(powerValue(0, i)); errs[w] != nil {
					return
				}
				fmt.Println(digest)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range powerBlobs {
		data := powerValue(1, i)
		if err := leaveBlob(dir, data); err != nil {
			return err
		}
		digest, err := blobs.Put(data)
		if err != nil {
			return err
		}
		fmt.Println(digest)
	}
	return nil
}

// leaveBlob writes a blob whose name is not durable yet.
func leaveBlob(dir string, data []byte) error {
	f, err := os.CreateTemp(dir, ".left.*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	return os.Rename(f.Name(), filepath.Join(dir, hex.EncodeToString(sum[:])))
}

// A blob whose digest was returned survives, whoever wrote it; one that has its
// name is whole.
func TestBlobsAfterPowerLoss(t *testing.T) {
	dir := t.TempDir()
	cmd := runChild(t, "blobs:"+filepath.Join(dir, "blobs"))
	powerloss.Test(t, cmd, dir, func(dir string, acked []string) error {
		blobs := store.OpenBlobs(filepath.Join(dir, "blobs"))
		for _, digest := range acked {
			if _, _, err := blobs.ReadAt(digest, 0, 1<<20); err != nil {
				return err
			}
		}
		for i := range powerBlobs {
			digest, err := blobs.Put(powerValue(0, i))
			if err != nil {
				return err
			}
			if _, _, err := blobs.ReadAt(digest, 0, 1<<20); err != nil {
				return err
			}
		}
		return nil
	})
}
