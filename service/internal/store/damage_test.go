package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/store"
)

// filled returns the bytes of a closed database with branches, overflow pages,
// small and large buckets and an audit chain.
func filled(t testing.TB, path string) []byte {
	db := open(t, path, store.Options{AppVersion: "1.0.0"})
	for i := range 4 {
		must(t, db.Update(ctx, func(tx *store.Tx) error {
			for j := range 100 {
				if err := tx.Put("many", fmt.Appendf(nil, "%d-%d", i, j), bytes.Repeat([]byte("x"), 200)); err != nil {
					return err
				}
			}
			if err := tx.Put("small", []byte("k"), []byte("v")); err != nil {
				return err
			}
			if err := tx.Audit(store.AuditEntry{Kind: store.AuditService, Text: "filled"}); err != nil {
				return err
			}
			return tx.Put("large", fmt.Append(nil, i), make([]byte, 20_000))
		}))
	}
	must(t, db.Close())
	image, err := os.ReadFile(path)
	must(t, err)
	return image
}

func TestDamagedFilesAreRefusedAndKept(t *testing.T) {
	image := filled(t, newPath(t))
	page := os.Getpagesize()
	change := func(fn func(b []byte) []byte) []byte { return fn(bytes.Clone(image)) }
	cases := map[string][]byte{
		"empty":       {},
		"text":        []byte(strings.Repeat("not a database\n", 2000)),
		"one page":    image[:page],
		"half":        image[:len(image)/2],
		"both roots":  change(func(b []byte) []byte { clear(b[16:80]); clear(b[page+16 : page+80]); return b }),
		"zeroed body": change(func(b []byte) []byte { clear(b[2*page:]); return b }),
		"page ids": change(func(b []byte) []byte {
			for i := 2 * page; i < len(b); i += page {
				b[i] ^= 0x55
			}
			return b
		}),
		"page counts": change(func(b []byte) []byte {
			for i := 2 * page; i < len(b); i += page {
				b[i+10], b[i+11] = 0xff, 0xff
			}
			return b
		}),
	}
	for name, bad := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "reeve.db")
			must(t, os.WriteFile(path, bad, 0o600))
			var damage *store.DamagedError
			if _, err := store.Open(path, store.Options{}); !errors.As(err, &damage) {
				t.Fatalf("open: %v", err)
			}
			if damage.Path == "" || damage.Detail == "" || damage.Mend == "" {
				t.Errorf("the error says too little: %+v", damage)
			}
			if err := store.CheckFile(path, anySchema); !errors.As(err, &damage) {
				t.Errorf("check: %v", err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, bad) {
				t.Errorf("the damaged file was changed (%v)", err)
			}
		})
	}
}

func TestATornRootFallsBackToTheOneBefore(t *testing.T) {
	path := newPath(t)
	image := filled(t, path)
	for root := range 2 {
		bad := bytes.Clone(image)
		clear(bad[root*os.Getpagesize()+40 : root*os.Getpagesize()+80])
		must(t, os.WriteFile(path, bad, 0o600))
		must(t, open(t, path, store.Options{AppVersion: "1.0.0"}).Close())
	}
}

// A bad page must give an error, and never end the program.
func FuzzDamagedPages(f *testing.F) {
	image := filled(f, filepath.Join(f.TempDir(), "reeve.db"))
	for i := 0; i < len(image); i += 4999 {
		f.Add(uint32(i), []byte{0xff, 0xff})
	}
	for i := range 12 {
		for _, at := range []int{0, 8, 10, 12, 16, 20, 24} {
			f.Add(uint32(i*os.Getpagesize()+at), []byte{0xff, 0x7f, 0, 0xff})
		}
	}
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		bad := bytes.Clone(image)
		copy(bad[int(at)%len(bad):], patch)
		path := filepath.Join(t.TempDir(), "reeve.db")
		must(t, os.WriteFile(path, bad, 0o600))
		_ = store.CheckFile(path, anySchema)
		db, err := store.Open(path, store.Options{})
		if err != nil {
			return
		}
		_ = db.Check()
		_ = db.Update(ctx, put("k", "v"))
		_ = db.View(func(tx *store.Tx) error {
			return tx.Scan("many", nil, func(k, v []byte) (bool, error) { return true, nil })
		})
		must(t, db.Close())
	})
}

func TestNewerSchemaNamesTheVersionToUse(t *testing.T) {
	path := newPath(t)
	two := []store.Migration{{Name: "one", Apply: none}, {Name: "two", Apply: none}}
	must(t, open(t, path, store.Options{Migrations: two, AppVersion: "7.1.0"}).Close())
	var newer *store.NewerError
	_, err := store.Open(path, store.Options{Migrations: two[:1], AppVersion: "6.0.0"})
	if !errors.As(err, &newer) || *newer != (store.NewerError{Have: 2, Known: 1, AppVersion: "7.1.0"}) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "7.1.0") {
		t.Errorf("the message does not name the version: %v", err)
	}
	// The refused program must not have become the last writer.
	must(t, open(t, path, store.Options{Migrations: two, AppVersion: "7.1.0"}).Close())
}

func none(*store.Tx) error { return nil }

func TestMigrationKeepsABackup(t *testing.T) {
	path := newPath(t)
	first := store.Migration{Name: "first", Apply: none}
	db := open(t, path, store.Options{Migrations: []store.Migration{first}})
	must(t, db.Update(ctx, put("name", "old")))
	must(t, db.Close())

	rename := store.Migration{Name: "rename", Apply: func(tx *store.Tx) error {
		return tx.Put("b", []byte("title"), tx.Get("b", []byte("name")))
	}}
	drop := store.Migration{Name: "drop", Apply: func(tx *store.Tx) error { return tx.Delete("b", []byte("name")) }}
	broken := store.Migration{Name: "broken", Apply: func(tx *store.Tx) error {
		return errors.Join(tx.Put("b", []byte("half"), nil), errors.New("no"))
	}}

	// Every version is its own step: the one that works stays, the broken one
	// leaves nothing.
	if _, err := store.Open(path, store.Options{Migrations: []store.Migration{first, rename, broken}}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Fatalf("got %v", err)
	}
	db = open(t, path, store.Options{Migrations: []store.Migration{first, rename, drop}})
	if got := get(t, db, "title") + get(t, db, "name") + get(t, db, "half"); got != "old" {
		t.Errorf("after the migration: %q", got)
	}
	must(t, db.Close())

	for name, want := range map[string]string{".bak-v1": "old,", ".bak-v2": "old,old"} {
		must(t, store.CheckFile(path+name, anySchema))
		info, err := os.Stat(path + name)
		if err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
			t.Errorf("%s: %v %v", name, info, err)
		}
		raw(t, path+name, func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("b"))
			if got := string(b.Get([]byte("name"))) + "," + string(b.Get([]byte("title"))); got != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
			return nil
		})
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 3 {
		t.Errorf("left behind: %v", names)
	}
}

func TestDamageNamesTheNewestBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reeve.db")
	for _, name := range []string{"", ".bak-v2", ".bak-v9", ".bak-v10"} {
		must(t, os.WriteFile(path+name, nil, 0o600))
	}
	if _, err := store.Open(path, store.Options{}); err == nil || !strings.Contains(err.Error(), "bak-v10") {
		t.Errorf("got %v", err)
	}
}

// Only a file of the person alone is opened, and it is left as it is.
func TestOnlyAPrivateFileIsOpened(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("modes and links are not what makes a file private here")
	}
	image := filled(t, newPath(t))
	for name, spoil := range map[string]func(path string) error{
		"for others":    func(path string) error { return os.Chmod(path, 0o644) },
		"second name":   func(path string) error { return os.Link(path, path+".2") },
		"behind link":   func(path string) error { return errors.Join(os.Rename(path, path+".2"), os.Symlink(path+".2", path)) },
		"no plain file": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "reeve.db")
			must(t, os.WriteFile(path, image, 0o600))
			must(t, spoil(path))
			var bad *private.Violation
			if _, err := store.Open(path, store.Options{}); !errors.As(err, &bad) {
				t.Errorf("open: %v", err)
			}
			if err := store.CheckFile(path, store.Options{}); !errors.As(err, &bad) {
				t.Errorf("check: %v", err)
			}
			if now, err := os.ReadFile(path); err == nil && !bytes.Equal(now, image) {
				t.Error("the file was changed")
			}
		})
	}
}
