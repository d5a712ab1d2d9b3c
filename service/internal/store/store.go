// Package store is the service's journal: one bbolt file that holds what was
// decided. It owns transactions, group commit, schema migrations, the
// generation that fences an older service, and the audit chain; every other
// package owns a bucket and the records in it.
//
// Lock order: DB.mu is a leaf. It is never held while a transaction runs or a
// file is touched.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/reevehq/reeve/service/internal/private"
)

var (
	// ErrInUse says that another process has the database open. Only the
	// service opens it: ask that service, or stop it first.
	ErrInUse = errors.New("store: the database is in use by another process; use the running service or stop it first")
	// ErrClosed says that the database was closed before the call.
	ErrClosed = errors.New("store: the database is closed")
	// ErrFenced says that this DB may never write again: its file was replaced,
	// a newer generation is journaled, or a commit ended in an unknown state.
	// Restart the service to go on from what the disk holds.
	ErrFenced = errors.New("store: fenced: this service may not write any more; restart it")
	// ErrDisowned is why a DB is fenced whose state belongs to another service
	// by now, or is gone. Starting anew would not bring it back.
	ErrDisowned = errors.New("the state is not this service's any more")
)

// DamagedError says that the database file can't be trusted. It is never
// repaired or recreated on its own, since that would lose decisions silently.
type DamagedError struct {
	Path   string // the database file
	Detail string // what is wrong
	Mend   string // what a person can do
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("store: %s is damaged: %s. %s", e.Path, e.Detail, e.Mend)
}

// NewerError says that a newer program wrote the database.
type NewerError struct {
	Have       int    // schema version of the file
	Known      int    // highest schema version that this program knows
	AppVersion string // version of the program that wrote it last
}

func (e *NewerError) Error() string {
	use := "a newer Reeve"
	if e.AppVersion != "" {
		use = "Reeve " + e.AppVersion + " or newer"
	}
	return fmt.Sprintf("store: the database has schema %d, this program knows up to %d: use %s", e.Have, e.Known, use)
}

// Options tell Open how to work. The zero value is usable.
type Options struct {
	// Now is the clock for audit entries; nil means time.Now.
	Now func() time.Time
	// Migrations bring the schema from version i to i+1 each; nil means the
	// package's own list.
	Migrations []Migration
	// AppVersion is the version of the running program, kept in the file so
	// that an older program can name the version to use.
	AppVersion string
}

func (o Options) complete() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Migrations == nil {
		o.Migrations = migrations
	}
	return o
}

// lockTimeout is how long Open waits for another process to let go of the file.
// bbolt would wait for ever without one.
const lockTimeout = 500 * time.Millisecond

// DB is an open database. Its methods may be called from any goroutine.
type DB struct {
	path string
	now  func() time.Time
	app  string // version of this program
	bolt *bbolt.DB
	file *os.File    // bbolt's own descriptor, for reading only
	info os.FileInfo // identity of the opened file

	generation atomic.Uint64 // newest generation this DB knows to be its own
	fenced     chan struct{}

	mu       sync.Mutex
	queue    []*job
	closed   bool
	fenceWhy error // why the DB is fenced, nil while it is not
	fenceErr error

	wake chan struct{} // holds one token when the queue changed or DB closes
	done chan struct{} // closed when the committer has ended

	closeOnce sync.Once
	closeErr  error
}

// Open opens the database at path, or creates it (mode 0600, complete before it
// appears under its name). It migrates an older schema after it has put a copy
// beside the file as <path>.bak-v<N>. It returns ErrInUse, *DamagedError,
// *NewerError or *private.Violation when the file can't be used as it is. The
// directory must exist.
func Open(path string, o Options) (*DB, error) {
	o = o.complete()
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store: open %s: %w", path, err)
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if err := create(path, o); err != nil {
			return nil, fmt.Errorf("store: create %s: %w", path, err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("store: open %s: %w", path, err)
	}
	if err := dropNewName(path); err != nil {
		return nil, fmt.Errorf("store: open %s: %w", path, err)
	}
	if err := checkPages(path); err != nil {
		return nil, err
	}
	b, f, err := openBolt(path, false)
	if err != nil {
		return nil, err
	}
	db := &DB{
		path: path, now: o.Now, app: o.AppVersion, bolt: b, file: f,
		fenced: make(chan struct{}),
		wake:   make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := db.prepare(o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	go db.commitLoop()
	return db, nil
}

// prepare brings the file to the schema of this program and reads what the
// fences compare with.
func (db *DB) prepare(o Options) error {
	info, err := db.file.Stat()
	if err != nil {
		return fmt.Errorf("store: open %s: %w", db.path, err)
	}
	db.info = info
	if err := migrate(db.bolt, db.path, o); err != nil {
		return err
	}
	return viewBolt(db.bolt, db.path, func(tx *Tx) error {
		db.generation.Store(readUint(tx, keyGeneration))
		return nil
	})
}

// openBolt opens the file with bbolt, and maps its failures to ours. bbolt
// panics on pages that make no sense, so that is caught too.
func openBolt(path string, readOnly bool) (b *bbolt.DB, f *os.File, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if f != nil {
				_ = f.Close() // lets go of the lock that bbolt still holds
			}
			b, f, err = nil, nil, damaged(path, fmt.Sprint(p))
		}
	}()
	b, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      lockTimeout,
		ReadOnly:     readOnly,
		FreelistType: bbolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flag int, _ os.FileMode) (*os.File, error) {
			// Never create here: a missing file is made by create alone.
			opened, err := private.Open(name, flag&^os.O_CREATE)
			f = opened
			return opened, err
		},
	})
	switch {
	case err == nil:
		return b, f, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, nil, fmt.Errorf("%w (%s)", ErrInUse, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, nil, damaged(path, err.Error())
	default:
		return nil, nil, fmt.Errorf("store: open %s: %w", path, err)
	}
}

// View runs fn in a read transaction that sees the newest commit. A panic in fn
// is returned as an error. fn must be short: an open read transaction keeps old
// pages alive and can hold up a growing file, so never write to a socket in it.
// View must not be called from inside Update or View.
func (db *DB) View(fn func(*Tx) error) error {
	return viewBolt(db.bolt, db.path, fn)
}

func viewBolt(b *bbolt.DB, path string, fn func(*Tx) error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	btx, err := b.Begin(false)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	} else if err != nil {
		return fmt.Errorf("store: read %s: %w", path, err)
	}
	defer btx.Rollback()
	return protect(fn, &Tx{b: btx})
}

// protect runs fn and turns a panic into an error, so that one caller's failure
// (or a page that went bad) never ends the service.
func protect(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 4096)
			err = fmt.Errorf("store: panic in a transaction: %v\n%s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	return fn(tx)
}

// Close lets the writes that already wait finish, ends the committer, waits for
// open views and closes the file. Other calls return ErrClosed from then on. It must not be
// called from inside Update or View.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		db.mu.Lock()
		db.closed = true
		db.mu.Unlock()
		db.wakeUp()
		<-db.done
		if err := db.bolt.Close(); err != nil {
			db.closeErr = fmt.Errorf("store: close %s: %w", db.path, err)
		}
	})
	return db.closeErr
}

// Fenced returns a channel that is closed when the DB may not write any more.
// Every Update then returns an error that wraps ErrFenced and says why.
func (db *DB) Fenced() <-chan struct{} { return db.fenced }

// FencedBy returns why the DB may not write any more, or nil.
func (db *DB) FencedBy() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.fenceWhy
}

// maxGeneration keeps generations exact in JSON readers that use doubles.
const maxGeneration = 1<<53 - 1

// BeginGeneration journals the next generation, in the audit log as well, and
// returns it once it is durable. The service calls it once, before it binds its
// socket.
func (db *DB) BeginGeneration(ctx context.Context) (uint64, error) {
	var next uint64
	err := db.Update(ctx, func(tx *Tx) error {
		next = readUint(tx, keyGeneration) + 1
		if next > maxGeneration {
			return fmt.Errorf("store: generation %d is out of range", next)
		}
		if err := writeUint(tx, keyGeneration, next); err != nil {
			return err
		}
		tx.generation = next
		return tx.Audit(AuditEntry{Kind: AuditService, Text: strings.TrimSpace(fmt.Sprintf("generation %d began %s", next, db.app))})
	})
	if err != nil {
		return 0, err
	}
	return next, nil
}
