package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// A job is one waiting Update.
type job struct {
	fn    func(*Tx) error
	taken atomic.Bool // set by whoever decides first: the committer or the caller giving up
	done  chan error  // gets exactly one answer when the committer took it
	err   error       // fn's own failure
}

// Update runs fn in a write transaction and returns when its writes are durable.
// Writes that wait at the same time share one commit. When one of them fails,
// the shared transaction is rolled back and the others run again, so fn must
// have no effect outside tx and must be safe to run more than once (assigning
// results to captured variables is fine). An error or panic of fn is returned
// to its caller only, and nothing of it is kept.
//
// A ctx that ends before fn was taken up gives ctx.Err() and fn never runs;
// after that the true outcome is awaited, so an error always means "not kept",
// except for one that wraps ErrFenced after a failed commit. fn runs on the
// committer's goroutine: it must not block, call Update, View or Close, or end
// its goroutine (no t.FailNow in it).
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{fn: fn, done: make(chan error, 1)}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return ErrClosed
	}
	db.queue = append(db.queue, j)
	db.mu.Unlock()
	db.wakeUp()
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		if j.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-j.done
	}
}

func (db *DB) wakeUp() {
	select {
	case db.wake <- struct{}{}:
	default:
	}
}

// commitLoop is the only writer. It ends when the DB is closed and the queue is
// empty; Close waits for it.
func (db *DB) commitLoop() {
	defer close(db.done)
	// A page that can't be read any more must fail its batch, not the service.
	debug.SetPanicOnFault(true)
	for range db.wake {
		for {
			batch, closed := db.take()
			if len(batch) > 0 {
				db.answer(batch, db.commit(batch))
			} else if closed {
				return
			} else {
				break
			}
		}
	}
}

func (db *DB) take() (batch []*job, closed bool) {
	db.mu.Lock()
	waiting := db.queue
	db.queue = nil
	closed = db.closed
	db.mu.Unlock()
	for _, j := range waiting {
		if j.taken.CompareAndSwap(false, true) {
			batch = append(batch, j)
		}
	}
	return batch, closed
}

func (db *DB) answer(batch []*job, err error) {
	for _, j := range batch {
		if err != nil {
			j.done <- err
		} else {
			j.done <- j.err
		}
	}
}

// commit runs the batch in one transaction. Its error is everybody's; a failure
// of one function is left in that job.
func (db *DB) commit(batch []*job) error {
	if err := db.checkFence(); err != nil {
		return err
	}
	for {
		again, err := db.attempt(batch)
		if err != nil || !again {
			return err
		}
	}
}

// attempt runs every job that has not failed yet. again says that one failed
// after it had written, so the transaction was rolled back and the rest must
// run once more.
func (db *DB) attempt(batch []*job) (again bool, err error) {
	btx, err := db.bolt.Begin(true)
	if err != nil {
		return false, fmt.Errorf("store: begin a write to %s: %w", db.path, err)
	}
	defer func() {
		if p := recover(); p != nil {
			_ = btx.Rollback()
			again, err = false, db.fence(fmt.Errorf("commit to %s: %v", db.path, p))
		}
	}()
	tx := &Tx{b: btx, now: db.now}
	if have, mine := readUint(tx, keyGeneration), db.generation.Load(); have > mine {
		_ = btx.Rollback()
		return false, db.fence(fmt.Errorf("%w: generation %d is journaled, this is generation %d", ErrDisowned, have, mine))
	}
	for _, j := range batch {
		if j.err != nil {
			continue // it failed in an earlier attempt
		}
		before := tx.writes
		j.err = protect(j.fn, tx)
		if j.err != nil && tx.writes != before {
			return true, btx.Rollback()
		}
	}
	if tx.writes == 0 {
		return false, btx.Rollback()
	}
	id := btx.ID()
	if err := btx.Commit(); err != nil {
		err = fmt.Errorf("commit to %s: %w", db.path, err)
		// When the new root can be seen although the commit failed, nobody can
		// say what the disk holds: stop writing, and let a restart read it.
		// Before that point only free pages were touched, and trying again later
		// (after a full disk, say) is safe.
		if db.visible(id) {
			return false, db.fence(err)
		}
		return false, fmt.Errorf("store: %w", err)
	}
	if tx.generation != 0 {
		db.generation.Store(tx.generation)
	}
	return false, nil
}

func (db *DB) visible(id int) bool {
	seen := true
	_ = db.bolt.View(func(tx *bbolt.Tx) error {
		seen = tx.ID() >= id
		return nil
	})
	return seen
}

// checkFence says whether this DB may still write: the file under its path must
// be the one that was opened.
func (db *DB) checkFence() error {
	db.mu.Lock()
	err := db.fenceErr
	db.mu.Unlock()
	if err != nil {
		return err
	}
	now, err := os.Lstat(db.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return db.fence(fmt.Errorf("%w: %s was removed", ErrDisowned, db.path))
	case err != nil:
		return fmt.Errorf("store: look at %s before a write: %w", db.path, err)
	case !os.SameFile(now, db.info):
		return db.fence(fmt.Errorf("%w: %s was replaced by another file", ErrDisowned, db.path))
	}
	return nil
}

// fence stops all later writes, and returns the error that says why.
func (db *DB) fence(why error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.fenceErr == nil {
		db.fenceWhy, db.fenceErr = why, fmt.Errorf("%w: %w", ErrFenced, why)
		close(db.fenced)
	}
	return db.fenceErr
}
