package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/reevehq/reeve/service/internal/store"
)

func TestMain(m *testing.M) {
	if child(os.Getenv("REEVE_STORE_TEST_CHILD")) {
		return
	}
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

// anySchema lets CheckFile take what tests with migrations of their own wrote.
var anySchema = store.Options{Migrations: make([]store.Migration, 9)}

// newPath returns where a test's database goes, and checks that file when the
// test ends.
func newPath(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "reeve.db")
	t.Cleanup(func() {
		if _, err := os.Lstat(path); err != nil {
			return
		}
		if err := store.CheckFile(path, anySchema); err != nil {
			t.Errorf("after the test: %v", err)
		}
	})
	return path
}

func open(t testing.TB, path string, o store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func put(key, value string) func(*store.Tx) error {
	return func(tx *store.Tx) error { return tx.Put("b", []byte(key), []byte(value)) }
}

func get(t testing.TB, db *store.DB, key string) string {
	t.Helper()
	var v []byte
	if err := db.View(func(tx *store.Tx) error { v = tx.Get("b", []byte(key)); return nil }); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// raw changes the file behind the store's back.
func raw(t testing.TB, path string, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	must(t, err)
	must(t, errors.Join(b.Update(fn), b.Close()))
}

func TestRecordsSurviveReopening(t *testing.T) {
	path := newPath(t)
	db := open(t, path, store.Options{})
	type record struct{ A, B string }
	must(t, db.Update(ctx, func(tx *store.Tx) error {
		return store.PutJSON(tx, "things", "x", record{"<a>", "b"})
	}))
	must(t, db.Close())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	db = open(t, path, store.Options{})
	must(t, db.View(func(tx *store.Tx) error {
		v, ok, err := store.GetJSON[record](tx, "things", "x")
		if err != nil || !ok || v != (record{"<a>", "b"}) {
			t.Errorf("got %v %v %v", v, ok, err)
		}
		if _, ok, err := store.GetJSON[record](tx, "nothing", "x"); ok || err != nil {
			t.Errorf("a missing bucket gave %v %v", ok, err)
		}
		n := 0
		err = store.EachJSON(tx, "things", func(key string, v record) (bool, error) { n++; return true, nil })
		if n != 1 || err != nil {
			t.Errorf("each saw %d, %v", n, err)
		}
		return nil
	}))
}

func TestCloseKeepsWaitingWritesAndRefusesLater(t *testing.T) {
	path := newPath(t)
	db := open(t, path, store.Options{})
	started, release := make(chan struct{}), make(chan struct{})
	results := make(chan error, 2)
	go func() {
		results <- db.Update(ctx, func(tx *store.Tx) error {
			close(started)
			<-release
			return tx.Put("b", []byte("first"), []byte("1"))
		})
	}()
	<-started
	go func() { close(release) }()
	must(t, db.Close())
	must(t, <-results)
	if err := db.Update(ctx, put("late", "1")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("update after close: %v", err)
	}
	if err := db.View(func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Errorf("view after close: %v", err)
	}
	if err := db.Check(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("check after close: %v", err)
	}
	must(t, db.Close())
	db = open(t, path, store.Options{})
	if get(t, db, "first") != "1" {
		t.Error("the waiting write was lost")
	}
}

// hold keeps the committer busy until the returned function is called, so that
// everything sent meanwhile shares one batch.
func hold(t testing.TB, db *store.DB) (release func()) {
	started, gate, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = db.Update(ctx, func(*store.Tx) error { close(started); <-gate; return nil })
	}()
	<-started
	return func() { close(gate); <-done }
}

func TestOneFailureDoesNotHurtTheBatch(t *testing.T) {
	db := open(t, newPath(t), store.Options{})
	bad := errors.New("bad")
	release := hold(t, db)
	var wg sync.WaitGroup
	errs := make([]error, 40)
	for i := range errs {
		wg.Go(func() {
			errs[i] = db.Update(ctx, func(tx *store.Tx) error {
				if i%10 == 4 {
					return bad // before any write
				}
				if err := tx.Put("b", []byte(fmt.Sprint(i)), []byte("v")); err != nil {
					return err
				}
				switch i % 10 {
				case 3:
					return bad
				case 7:
					panic("seven")
				}
				return nil
			})
		})
	}
	release()
	wg.Wait()
	for i, err := range errs {
		failed := i%10 == 3 || i%10 == 4 || i%10 == 7
		switch {
		case !failed && err != nil:
			t.Errorf("%d: %v", i, err)
		case i%10 == 7 && (err == nil || !strings.Contains(err.Error(), "seven")):
			t.Errorf("%d: a panic gave %v", i, err)
		case failed && i%10 != 7 && !errors.Is(err, bad):
			t.Errorf("%d: %v", i, err)
		}
		if kept := get(t, db, fmt.Sprint(i)) == "v"; kept == failed {
			t.Errorf("%d: failed %v, kept %v", i, failed, kept)
		}
	}
}

func TestViewReturnsAPanicAsError(t *testing.T) {
	db := open(t, newPath(t), store.Options{})
	if err := db.View(func(*store.Tx) error { panic("here") }); err == nil || !strings.Contains(err.Error(), "here") {
		t.Errorf("got %v", err)
	}
}

func TestContextEndsTheWaitOnlyBeforeTheWrite(t *testing.T) {
	db := open(t, newPath(t), store.Options{})
	release := hold(t, db)
	waiting, cancel := context.WithCancel(ctx)
	result := make(chan error)
	go func() { result <- db.Update(waiting, put("cancelled", "1")) }()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	must(t, db.Update(ctx, put("next", "1")))
	if get(t, db, "cancelled") != "" {
		t.Error("a write that was given up was kept")
	}
	// Once taken, the true outcome is told although ctx has ended.
	taken, cancelTaken := context.WithCancel(ctx)
	must(t, db.Update(taken, func(tx *store.Tx) error { cancelTaken(); return put("taken", "1")(tx) }))
	if get(t, db, "taken") != "1" {
		t.Error("an acknowledged write was lost")
	}
}

func TestReservedBucketsAreRefused(t *testing.T) {
	db := open(t, newPath(t), store.Options{})
	for _, bucket := range []string{"store.meta", "store.audit", "store.other"} {
		must(t, db.Update(ctx, func(tx *store.Tx) error {
			_, err := tx.Next(bucket)
			for _, err := range []error{err, tx.Put(bucket, []byte("k"), nil), tx.Delete(bucket, []byte("k"))} {
				if err == nil {
					t.Errorf("%s: not refused", bucket)
				}
			}
			return nil
		}))
	}
}

func TestGenerationsRise(t *testing.T) {
	path := newPath(t)
	for want := uint64(1); want < 4; want++ {
		db := open(t, path, store.Options{})
		got, err := db.BeginGeneration(ctx)
		if err != nil || got != want {
			t.Fatalf("got %d, %v; want %d", got, err, want)
		}
		must(t, db.Update(ctx, put("k", "v")))
		must(t, db.Close())
	}
}

func TestReplacedFileFences(t *testing.T) {
	path := newPath(t)
	db := open(t, path, store.Options{})
	must(t, db.Update(ctx, put("k", "old")))
	other := path + ".other"
	must(t, open(t, other, store.Options{}).Close())
	must(t, os.Rename(other, path))
	for range 2 {
		if err := db.Update(ctx, put("k", "new")); !errors.Is(err, store.ErrFenced) {
			t.Fatalf("got %v", err)
		}
	}
	<-db.Fenced()
	if get(t, db, "k") != "old" {
		t.Error("a fenced store can't be read, or wrote")
	}
}

func TestRemovedFileFences(t *testing.T) {
	path := newPath(t)
	db := open(t, path, store.Options{})
	must(t, os.Remove(path))
	if err := db.Update(ctx, put("k", "v")); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("got %v", err)
	}
	<-db.Fenced()
}

func TestNewerGenerationFences(t *testing.T) {
	path := newPath(t)
	db := open(t, path, store.Options{})
	_, err := db.BeginGeneration(ctx)
	must(t, err)
	// A second service whose lock did not hold (a network file system, say)
	// begins its generation in the same file.
	image, err := os.ReadFile(path)
	must(t, err)
	copied := filepath.Join(t.TempDir(), "copy.db")
	must(t, os.WriteFile(copied, image, 0o600))
	second := open(t, copied, store.Options{})
	_, err = second.BeginGeneration(ctx)
	must(t, err)
	must(t, second.Close())
	image, err = os.ReadFile(copied)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(image, 0)
	must(t, errors.Join(err, f.Close()))

	if err := db.Update(ctx, put("k", "v")); !errors.Is(err, store.ErrFenced) || !strings.Contains(err.Error(), "generation 2 is journaled") {
		t.Fatalf("got %v", err)
	}
	<-db.Fenced()
}

func TestGenerationStaysASafeInteger(t *testing.T) {
	path := newPath(t)
	must(t, open(t, path, store.Options{}).Close())
	raw(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("store.meta")).Put([]byte("generation"), []byte{0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	})
	db := open(t, path, store.Options{})
	if n, err := db.BeginGeneration(ctx); err == nil {
		t.Errorf("began %d", n)
	}
}

func TestInUse(t *testing.T) {
	path := newPath(t)
	db := open(t, path, store.Options{})
	if _, err := store.Open(path, store.Options{}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("open: %v", err)
	}
	if err := store.CheckFile(path, anySchema); !errors.Is(err, store.ErrInUse) {
		t.Errorf("check: %v", err)
	}
	must(t, db.Check())
}

func TestConcurrentCreatorsShareOneFile(t *testing.T) {
	path := newPath(t)
	var wg sync.WaitGroup
	opened := make(chan *store.DB, 8)
	for range cap(opened) {
		wg.Go(func() {
			db, err := store.Open(path, store.Options{})
			if err == nil {
				opened <- db
			} else if !errors.Is(err, store.ErrInUse) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(opened)
	if len(opened) != 1 {
		t.Errorf("%d opened", len(opened))
	}
	for db := range opened {
		must(t, db.Update(ctx, put("k", "v")))
		must(t, db.Close())
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("left behind: %v %v", names, err)
	}
}
