package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/keychain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// chain is a keychain that can be locked. The real one has tests of its own.
type chain struct {
	mu      sync.Mutex
	items   map[string]string
	problem *keychain.Error
	gets    int
	inside  chan struct{} // a Get waits here, if it is not nil
}

var locked = &keychain.Error{State: keychain.Locked, Message: "The keychain is locked.", Fix: "Unlock it."}

func (c *chain) lock(p *keychain.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = p
}

func (c *chain) do(fn func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem != nil {
		return c.problem
	}
	fn()
	return nil
}

func (c *chain) Get(ctx context.Context, name string) (secret string, err error) {
	var ok bool
	err = c.do(func() { secret, ok = c.items[name]; c.gets++ })
	if err == nil && !ok {
		err = keychain.ErrNone
	}
	if c.inside != nil {
		<-c.inside
	}
	return secret, err
}
func (c *chain) Set(_ context.Context, name, secret string) error {
	return c.do(func() { c.items[name] = secret })
}
func (c *chain) Remove(_ context.Context, name string) error {
	var ok bool
	err := c.do(func() { _, ok = c.items[name]; delete(c.items, name) })
	if err == nil && !ok {
		err = keychain.ErrNone
	}
	return err
}
func (c *chain) State(context.Context) error { return c.do(func() {}) }

type world struct {
	*Broker
	chain   *chain
	dir     string
	changes atomic.Int64
}

func newWorld(t testing.TB, dir string) *world {
	t.Helper()
	db, err := store.Open(filepath.Join(dir, "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.BeginGeneration(ctx); err != nil {
		t.Fatal(err)
	}
	w := &world{chain: &chain{items: map[string]string{}}, dir: dir}
	w.Broker, err = Open(Options{
		DB: db, Keychain: w.chain, File: filepath.Join(dir, "secrets.age"), Now: time.Now,
		Changed: func() { w.changes.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.work = 4
	t.Cleanup(func() { w.end(t) })
	return w
}

func (w *world) end(t testing.TB) {
	if w.DB == nil {
		return
	}
	w.Close()
	if err := w.DB.Close(); err != nil {
		t.Error(err)
	}
	w.DB = nil
}

// again is the next service with the same state and keychain.
func (w *world) again(t testing.TB) *world {
	t.Helper()
	items := w.chain
	w.end(t)
	next := newWorld(t, w.dir)
	next.chain, next.Keychain = items, items
	return next
}

func nothing(*store.Tx) error { return nil }
func quiet() error            { return nil }

func (w *world) set(t testing.TB, name, secret string, in Place) {
	t.Helper()
	if err := w.Set(ctx, name, secret, in, "a passphrase", nothing); err != nil {
		t.Fatal(err)
	}
}

func (w *world) has(t testing.TB, name, want string) {
	t.Helper()
	if got, err := w.Get(ctx, name); got != want || err != nil {
		t.Errorf("%s is %q, %v; want %q", name, got, err, want)
	}
}

const marked = "marked-secret-7f3a"

func TestKeychain(t *testing.T) {
	w := newWorld(t, t.TempDir())
	if _, err := w.Get(ctx, "A"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	w.set(t, "A", marked, Keychain)
	w.has(t, "A", marked)
	w = w.again(t)
	w.has(t, "A", marked)
	w.chain.lock(locked)
	if _, err := w.Get(ctx, "A"); !errors.Is(err, locked) {
		t.Errorf("got %v", err)
	}
	if err := w.Set(ctx, "A", "other", Keychain, "", nothing); !errors.Is(err, locked) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Remove(ctx, "A", nothing); !errors.Is(err, locked) {
		t.Errorf("got %v", err)
	}
	if err := w.HandOver(map[string]string{"A": "handed over"}, quiet); err != nil {
		t.Fatal(err)
	}
	w.has(t, "A", "handed over")
	w = w.again(t) // what was handed over is gone
	if _, err := w.Get(ctx, "A"); !errors.Is(err, locked) {
		t.Errorf("got %v", err)
	}
	w.chain.lock(nil)
	w.has(t, "A", marked)
	if err := w.HandOver(map[string]string{"A": "older"}, quiet); err != nil {
		t.Fatal(err)
	}
	w.set(t, "A", "newer", Keychain)
	w.has(t, "A", "newer")
	delete(w.chain.items, "A")
	var p *Problem
	if _, err := w.Get(ctx, "A"); !errors.As(err, &p) {
		t.Errorf("got %v", err)
	}
	if had, err := w.Remove(ctx, "A", nothing); had || err != nil {
		t.Errorf("what is not there was removed: %v, %v", had, err)
	}
	if _, ok := w.Where("A"); ok || len(w.List()) != 0 {
		t.Error("it is still known")
	}
	w.set(t, "A", marked, Keychain)
	if had, err := w.Remove(ctx, "A", nothing); !had || err != nil || len(w.chain.items) != 0 {
		t.Errorf("removed: %v, %v", had, err)
	}
	if err := w.HandOver(map[string]string{"A": marked}, quiet); err != nil {
		t.Fatal(err)
	}
	if had, err := w.Remove(ctx, "A", nothing); !had || err != nil {
		t.Errorf("what was handed over: %v, %v", had, err)
	}
	// An older one that is gone is no fault of the newer one.
	w.set(t, "A", marked, Keychain)
	delete(w.chain.items, "A")
	w.set(t, "A", marked, File)
}

func TestFile(t *testing.T) {
	w := newWorld(t, t.TempDir())
	if err := w.Unlock("a passphrase", quiet); !errors.Is(err, ErrNoFile) {
		t.Errorf("got %v", err)
	}
	if err := w.Set(ctx, "A", marked, File, "short", nothing); !errors.Is(err, ErrShort) {
		t.Errorf("got %v", err)
	}
	if err := w.Set(ctx, "A", marked, File, "", nothing); !errors.Is(err, ErrPassphrase) {
		t.Errorf("got %v", err)
	}
	w.set(t, "A", marked, File)
	w.set(t, "B", "b", File)
	if err := w.Set(ctx, "C", "c", File, "another one", nothing); !errors.Is(err, ErrPassphrase) {
		t.Errorf("got %v", err)
	}
	st, err := os.Stat(w.File)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	w = w.again(t)
	var p *Problem
	if _, err := w.Get(ctx, "A"); !errors.As(err, &p) || !strings.Contains(p.Message, "locked") {
		t.Errorf("got %v", err)
	}
	if err := w.Unlock("a wrong passphrase", quiet); !errors.Is(err, ErrPassphrase) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Remove(ctx, "A", nothing); !errors.As(err, &p) {
		t.Errorf("removed from a locked file: %v", err)
	}
	if err := w.Unlock("a passphrase", quiet); err != nil {
		t.Fatal(err)
	}
	w.has(t, "A", marked)
	w.set(t, "A", "moved", Keychain)
	w.has(t, "A", "moved")
	w = w.again(t)
	if err := w.Unlock("a passphrase", quiet); err != nil {
		t.Fatal(err)
	}
	w.has(t, "B", "b")
	if _, ok := w.opened.secrets["A"]; ok {
		t.Error("the file still has what was moved to the keychain")
	}
	if err := os.WriteFile(w.File, []byte("age-encryption.org/v1\nnonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	w = w.again(t)
	if err := w.Unlock("a passphrase", quiet); !errors.As(err, &p) {
		t.Errorf("a damaged file: %v", err)
	}
}

// No value and no passphrase is in any file but the keychain's.
func TestNothingIsWrittenInPlainText(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.set(t, "A", marked+"-a", Keychain)
	w.set(t, "B", marked+"-b", File)
	if err := w.HandOver(map[string]string{"C": marked + "-c"}, quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Refresh(ctx, "D", "", func(context.Context) (string, error) { return marked + "-d", nil }); err != nil {
		t.Fatal(err)
	}
	w.end(t)
	files := 0
	_ = filepath.WalkDir(w.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		b, _ := os.ReadFile(path)
		if bytes.Contains(b, []byte(marked)) || bytes.Contains(b, []byte("a passphrase")) {
			t.Errorf("%s holds a secret", path)
		}
		return nil
	})
	if files < 2 {
		t.Errorf("only %d files were searched", files)
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, t.TempDir())
	for _, secret := range []string{"", strings.Repeat("x", MaxSecret+1)} {
		if err := w.Set(ctx, "A", secret, Keychain, "", nothing); !errors.Is(err, ErrSize) {
			t.Errorf("got %v", err)
		}
		if err := w.HandOver(map[string]string{"A": secret}, quiet); !errors.Is(err, ErrSize) {
			t.Errorf("got %v", err)
		}
	}
	many := map[string]string{}
	for i := range MaxCredentials {
		many[fmt.Sprint("N", i)] = strings.Repeat("x", MaxSecret)
	}
	if err := w.HandOver(many, quiet); err != nil {
		t.Fatal(err)
	}
	if err := w.HandOver(map[string]string{"A": "a"}, quiet); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	if err := w.Set(ctx, "A", "a", Keychain, "", nothing); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	w.set(t, "N1", "kept", Keychain)
}

// What could not be journaled is not known, and counts for nothing.
func TestNotJournaled(t *testing.T) {
	w := newWorld(t, t.TempDir())
	full := errors.New("the disk is full")
	if err := w.Set(ctx, "A", "a", Keychain, "", func(*store.Tx) error { return full }); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	if err := w.HandOver(map[string]string{"A": "a"}, func() error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if _, ok := w.Where("A"); ok {
		t.Error("it is known all the same")
	}
	w.set(t, "B", "b", File)
	w = w.again(t)
	if err := w.Unlock("a passphrase", func() error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Get(ctx, "B"); err == nil {
		t.Error("the file is open all the same")
	}
}

func TestAwait(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.set(t, "A", "a", Keychain)
	w.set(t, "B", "b", Keychain)
	w.chain.lock(locked)
	told := make(chan error, 10)
	type result struct {
		got map[string]string
		err error
	}
	done := make(chan result, 1)
	go func() {
		got, err := w.Await(ctx, []string{"A", "B"}, func(err error) error { told <- err; return nil })
		done <- result{got, err}
	}()
	if err := <-told; !errors.Is(err, locked) {
		t.Errorf("told %v", err)
	}
	if err := w.HandOver(map[string]string{"A": "handed over"}, quiet); err != nil {
		t.Fatal(err)
	}
	for len(w.Wanted()) != 1 || w.Wanted()[0] != "B" {
		w.mu.Lock()
		moved := w.moved
		w.mu.Unlock()
		select {
		case r := <-done:
			t.Fatalf("it did not wait for B: %v", r)
		case <-moved:
		case <-time.After(time.Millisecond): // Wanted has no channel of its own
		}
	}
	if err := w.HandOver(map[string]string{"B": "too"}, quiet); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || r.got["A"] != "handed over" || r.got["B"] != "too" {
		t.Errorf("%v", r)
	}
	if len(w.Wanted()) != 0 || len(told) != 0 {
		t.Errorf("wanted %v, told %d times more", w.Wanted(), len(told))
	}
	// Who refuses to hear of it does not wait, nor does one that gives up.
	w.chain.lock(locked)
	refuse := errors.New("no")
	if _, err := w.Await(ctx, []string{"C"}, func(error) error { return refuse }); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	giving, up := context.WithCancel(ctx)
	if _, err := w.Await(giving, []string{"C"}, func(error) error { up(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Await(ctx, []string{"C"}, func(error) error { go w.Close(); return nil }); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

// bare is a broker without a journal.
func bare() *Broker {
	b := &Broker{Options: Options{Changed: func() {}}, memory: map[string]string{}, index: map[string]Entry{}, wanted: map[string]int{}, moved: make(chan struct{}), flights: map[string]*flight{}}
	b.life, b.cancel = context.WithCancel(ctx)
	return b
}

// Many missions that start at once read the keychain once.
func TestReadsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bare()
		defer b.Close()
		c := &chain{items: map[string]string{"A": "a"}, inside: make(chan struct{})}
		b.Keychain, b.index["A"] = c, Entry{Name: "A", In: Keychain}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got, err := b.Get(ctx, "A"); got != "a" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		gone, cancel := context.WithCancel(ctx)
		all.Go(func() {
			if _, err := b.Get(gone, "A"); !errors.Is(err, context.Canceled) {
				t.Errorf("who gave up got %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(c.inside)
		all.Wait()
		if c.gets != 1 {
			t.Errorf("%d reads", c.gets)
		}
	})
}

// Who comes while a refresh runs waits for that one.
func TestRefreshIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bare()
		defer b.Close()
		hold, running := make(chan struct{}), 0 // one at a time, or the race detector says so
		for range 3 {
			go func() {
				got, err := b.Refresh(t.Context(), "hub", "", func(context.Context) (string, error) {
					running++
					<-hold
					return "token", nil
				})
				if got != "token" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			}()
			synctest.Wait()
		}
		if running != 1 {
			t.Errorf("%d refreshers at once", running)
		}
		close(hold)
		synctest.Wait()
	})
}

// However many ask for a newer token at once, with failures and with some that
// give up: one refresher runs at a time, none runs for a token that was replaced
// already, and nobody is left with a token that does not do any more (case 31).
func TestRefresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bare()
		defer b.Close()
		var running, fetched, over atomic.Int64
		fails := rapid.SliceOfN(rapid.Bool(), 1, 8).Draw(t, "fails")
		failed := errors.New("no answer")
		fetch := func(ctx context.Context) (string, error) {
			if running.Add(1) > 1 {
				over.Add(1)
			}
			defer running.Add(-1)
			n := fetched.Add(1)
			if int(n) <= len(fails) && fails[n-1] {
				if n%2 == 0 {
					panic("a bug")
				}
				return "", failed
			}
			return fmt.Sprint("token ", n), nil
		}
		var all sync.WaitGroup
		askers := rapid.IntRange(1, 30).Draw(t, "askers")
		for i := range askers {
			asking, cancel := context.WithCancel(ctx)
			if rapid.Bool().Draw(t, "gives up") && i > 0 {
				cancel()
			}
			all.Go(func() {
				defer cancel()
				got, err := b.Refresh(asking, "hub", "", fetch)
				if err == nil && !strings.HasPrefix(got, "token ") || err != nil && got != "" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		all.Wait()
		if over.Load() > 0 {
			t.Errorf("%d refreshers at once", over.Load())
		}
		// All of them had none; so what was made counts for all that came later.
		now, err := b.Refresh(ctx, "hub", "", fetch)
		for err != nil {
			now, err = b.Refresh(ctx, "hub", "", fetch)
		}
		n := fetched.Load()
		if same, err := b.Refresh(ctx, "hub", "an older one", fetch); same != now || err != nil || fetched.Load() != n {
			t.Errorf("an older token was refreshed again: %q, %v", same, err)
		}
		successes := 0
		for i := range int(n) {
			if i >= len(fails) || !fails[i] {
				successes++
			}
		}
		if successes != 1 {
			t.Errorf("%d tokens were made where one was needed", successes)
		}
		next, err := b.Refresh(ctx, "hub", now, func(context.Context) (string, error) { return "newer", nil })
		if next != "newer" || err != nil {
			t.Errorf("got %q, %v", next, err)
		}
	})
}
