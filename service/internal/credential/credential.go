// Package credential is the broker of secrets: it knows which there are, finds
// them in memory, in the keychain or in an encrypted file, and gives them to
// work that waits for them.
//
// Names are those of environment variables that providers document. The journal
// has an index of the names; no value is ever written but to the keychain and
// to the encrypted file, and none is in an error.
//
// Lock order: keeping, then Broker.mu, which is a leaf and is never held while
// the keychain, the journal or the disk is used.
package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/keychain"
)

// Limits.
const (
	MaxCredentials = 64
	MaxSecret      = 8 << 10 // bytes of a secret
	maxPassphrase  = 1 << 10
	minPassphrase  = 8
)

// again is how often work that waits tries the keychain anew: nothing tells when
// it was unlocked.
const again = 5 * time.Second

// Place is where a secret lies.
type Place string

// The places. What is in memory was handed over, and is gone with this service.
const (
	Keychain Place = "keychain"
	File     Place = "file"
	Memory   Place = "memory"
)

// Words names the place for a person.
func (p Place) Words() string {
	switch p {
	case File:
		return "from the encrypted file"
	case Memory:
		return "handed over"
	}
	return "from the keychain"
}

// Problem says why a secret can't be had now, or why it was not kept, and what
// to do. It holds no secret.
type Problem struct {
	Message string
	Fix     string
}

func (p *Problem) Error() string { return p.Message + " " + p.Fix }

// Reasons that clients tell apart.
var (
	ErrUnknown    = errors.New("there is no credential by that name")
	ErrFull       = fmt.Errorf("there are %d credentials already; remove one first", MaxCredentials)
	ErrPassphrase = errors.New("the passphrase does not open the encrypted file")
	ErrNoFile     = errors.New("there is no encrypted file")
	ErrSize       = fmt.Errorf("a secret has 1 to %d bytes", MaxSecret)
	ErrShort      = fmt.Errorf("a passphrase has %d to %d bytes", minPassphrase, maxPassphrase)
	errClosed     = errors.New("the service is shutting down")
)

// Keeper is a keychain. Its errors are *keychain.Error, keychain.ErrNone or the
// end of a context.
type Keeper interface {
	Get(ctx context.Context, name string) (string, error)
	Set(ctx context.Context, name, secret string) error
	Remove(ctx context.Context, name string) error
	State(ctx context.Context) error
}

// Entry is one credential of the index.
type Entry struct {
	Name      string    `json:"name"`
	In        Place     `json:"in"`
	UpdatedAt time.Time `json:"updated_at"`
}

const bucket = "credentials" // by name

// Options is what a broker is made of.
type Options struct {
	DB       *store.DB
	Keychain Keeper
	File     string // path of the encrypted file, which need not exist
	Now      func() time.Time
	// Changed is called when what List or Wanted answer may have changed. It
	// must not block.
	Changed func()
}

// Broker finds secrets. Its methods may be called from any goroutine.
type Broker struct {
	Options
	life   context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	work   int // of scrypt, as a power of two

	keeping sync.Mutex // one change at a time

	mu      sync.Mutex
	index   map[string]Entry
	memory  map[string]string
	opened  *opened        // the encrypted file; nil while it is locked
	wanted  map[string]int // how many wait for a name
	moved   chan struct{}  // closed at the next change
	flights map[string]*flight
	closed  bool
}

// Open reads the index. Close ends the broker.
func Open(o Options) (*Broker, error) {
	b := &Broker{Options: o, work: scryptWork, index: map[string]Entry{}, memory: map[string]string{}, wanted: map[string]int{}, moved: make(chan struct{}), flights: map[string]*flight{}}
	b.life, b.cancel = context.WithCancel(context.Background())
	err := o.DB.View(func(tx *store.Tx) error {
		return store.EachJSON(tx, bucket, func(name string, e Entry) (bool, error) { b.index[name] = e; return true, nil })
	})
	return b, err
}

// Close lets go of every secret and waits for what runs.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	b.memory, b.opened = nil, nil
	b.mu.Unlock()
	b.cancel()
	b.wg.Wait()
}

// List returns every credential that is known by name, in order.
func (b *Broker) List() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := maps.Clone(b.index)
	for name := range b.memory {
		if _, ok := all[name]; !ok {
			all[name] = Entry{Name: name, In: Memory}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(x, y Entry) int { return cmp.Compare(x.Name, y.Name) })
}

// Where says where a credential lies, and whether there is one.
func (b *Broker) Where(name string) (Place, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.index[name]; ok {
		return e.In, true
	}
	_, ok := b.memory[name]
	return Memory, ok
}

// Wanted names what work waits for, in order.
func (b *Broker) Wanted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.wanted))
}

// Get finds a secret: in memory, else in the keychain, else in the encrypted
// file. It fails with ErrUnknown, *keychain.Error, *Problem or the end of ctx.
func (b *Broker) Get(ctx context.Context, name string) (string, error) {
	b.mu.Lock()
	e, known := b.index[name]
	secret, ok := b.memory[name]
	if !ok && e.In == File && b.opened != nil {
		secret, ok = b.opened.secrets[name]
	}
	b.mu.Unlock()
	switch {
	case ok:
		return secret, nil
	case !known:
		return "", ErrUnknown
	case e.In == File:
		return "", &Problem{"The encrypted file that holds " + name + " is locked.", "Open it with `reeve credentials unlock`, or in the settings of the desktop."}
	}
	secret, err := b.fly(ctx, "read "+name, func(ctx context.Context) (string, error) { return b.Keychain.Get(ctx, name) })
	if errors.Is(err, keychain.ErrNone) {
		err = &Problem{"The keychain no longer has " + name + ".", "Store it again with `reeve credentials set " + name + "`, or remove it."}
	}
	return secret, err
}

// Await finds all of names, however long that takes. While one of them can't be
// had, told is given the reason, each time that it is another; if told fails,
// nothing is awaited any more.
func (b *Broker) Await(ctx context.Context, names []string, told func(error) error) (map[string]string, error) {
	out := map[string]string{}
	var reason, wanted string
	defer func() { b.want(wanted, "") }()
	for {
		b.mu.Lock()
		moved := b.moved
		b.mu.Unlock()
		missing, why := "", error(nil)
		for _, name := range names {
			if out[name], why = b.Get(ctx, name); why != nil {
				missing = name
				break
			}
		}
		if why == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if why.Error() != reason {
			reason = why.Error()
			if err := told(why); err != nil {
				return nil, err
			}
		}
		b.want(wanted, missing)
		wanted = missing
		if err := b.wait(ctx, moved); err != nil {
			return nil, err
		}
	}
}

// wait waits until something changes or it is time to look again.
func (b *Broker) wait(ctx context.Context, moved <-chan struct{}) error {
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	case <-b.life.Done():
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// want says that one who waited for a secret waits for another one now.
func (b *Broker) want(no, yes string) {
	if no == yes {
		return
	}
	b.mu.Lock()
	if yes != "" {
		b.wanted[yes]++
	}
	if no != "" {
		if b.wanted[no]--; b.wanted[no] == 0 {
			delete(b.wanted, no)
		}
	}
	b.mu.Unlock()
	b.Changed()
}

// change tells all who wait that something changed.
func (b *Broker) change(fn func()) {
	b.mu.Lock()
	if !b.closed {
		fn()
	}
	close(b.moved)
	b.moved = make(chan struct{})
	b.mu.Unlock()
	b.Changed()
}

// HandOver keeps secrets in memory until this service ends; journal is called
// before, once it is known that nothing is wrong with them.
func (b *Broker) HandOver(secrets map[string]string, journal func() error) error {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	known := map[string]bool{}
	for _, e := range b.List() {
		known[e.Name] = true
	}
	for name, secret := range secrets {
		if secret == "" || len(secret) > MaxSecret {
			return ErrSize
		}
		known[name] = true
	}
	if len(known) > MaxCredentials {
		return ErrFull
	}
	if err := journal(); err != nil {
		return err
	}
	b.change(func() { maps.Copy(b.memory, secrets) })
	return nil
}

// Set stores a secret and journals its name, together with what more adds. A
// passphrase is needed for File alone, and makes the file if there is none.
func (b *Broker) Set(ctx context.Context, name, secret string, in Place, passphrase string, more func(tx *store.Tx) error) error {
	if secret == "" || len(secret) > MaxSecret {
		return ErrSize
	}
	b.keeping.Lock()
	defer b.keeping.Unlock()
	was, known := b.indexed(name)
	if !known && len(b.List()) >= MaxCredentials {
		if _, inMemory := b.Where(name); !inMemory {
			return ErrFull
		}
	}
	if in == File {
		o, err := b.openOrNew(passphrase)
		if err == nil {
			err = b.rewrite(o, func(secrets map[string]string) { secrets[name] = secret })
		}
		if err != nil {
			return err
		}
	} else if err := b.Keychain.Set(ctx, name, secret); err != nil {
		return err
	}
	e := Entry{Name: name, In: in, UpdatedAt: b.Now().Round(0).UTC()}
	err := b.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return errors.Join(store.PutJSON(tx, bucket, name, e), more(tx))
	})
	if err != nil {
		return fmt.Errorf("the secret was stored, but its name could not be journaled: %w", err)
	}
	b.change(func() { b.index[name] = e; delete(b.memory, name) })
	if known && was.In != in {
		if err := b.forgetIn(ctx, was); err != nil && !errors.Is(err, keychain.ErrNone) {
			return &Problem{"The secret was stored and counts from now on, but the older one is still in the " + string(was.In) + ": " + err.Error(), "Set it again there, then remove it."}
		}
	}
	return nil
}

func (b *Broker) indexed(name string) (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.index[name]
	return e, ok
}

// Remove forgets a secret everywhere. What can't be reached is not removed:
// then nothing is forgotten. had is false when the keychain where it should be
// has nothing by that name: its name is forgotten all the same, but there may be
// a secret elsewhere.
func (b *Broker) Remove(ctx context.Context, name string, more func(tx *store.Tx) error) (had bool, err error) {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	e, known := b.indexed(name)
	had = true
	if !known {
		if _, ok := b.Where(name); !ok {
			return false, ErrUnknown
		}
	} else if err := b.forgetIn(ctx, e); errors.Is(err, keychain.ErrNone) {
		had = false
	} else if err != nil {
		return false, err
	}
	err = b.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return errors.Join(tx.Delete(bucket, []byte(name)), more(tx))
	})
	if err != nil {
		return had, fmt.Errorf("the secret is gone, but that could not be journaled: %w", err)
	}
	b.change(func() { delete(b.index, name); delete(b.memory, name) })
	return had, nil
}

func (b *Broker) forgetIn(ctx context.Context, e Entry) error {
	if e.In != File {
		return b.Keychain.Remove(ctx, e.Name)
	}
	b.mu.Lock()
	o := b.opened
	b.mu.Unlock()
	if o == nil {
		return &Problem{"The encrypted file that holds " + e.Name + " is locked.", "Open it with `reeve credentials unlock`, then try again."}
	}
	return b.rewrite(o, func(secrets map[string]string) { delete(secrets, e.Name) })
}
