package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// worker owns one live mission. Everything but the snapshot is touched by its
// goroutine alone.
type worker struct {
	s    *Supervisor
	cmds chan func()
	done chan struct{} // closed when the goroutine has ended

	mu   sync.Mutex
	seen Record       // what was last journaled or shown
	tree proc.Guarded // the guard's processes, zero before it runs

	rec                 Record
	next                *Record // what a commit is about to keep; functions in its transaction may change it
	guard               *guard.Client
	alive               mission.GuardState // what is known of the guard
	claimed             *wire.ClaimResult  // of an adopted guard, until the journal has caught up with it
	starting            bool               // a guard is being brought up
	forgo               func()             // gives up fetching the secrets of the guard to come, and its checkout; nil before the first
	handed              handed             // with the recovery that a person is asked about
	calling             bool               // a guard call for a turn is under way
	pausing             bool               // the turn in flight is to end in paused
	watch               []*watcher         // who waits for a condition
	timer               *time.Timer
	quiet               time.Duration // jittered, drawn anew for each wait
	fault               error         // why nothing is started now; see fault.go
	again               []func()      // what is done again once the journal can be written
	told                uint64        // the last entry of the attempt's log that was announced
	expired             bool          // what waited was expired; see expire
	damaged             uint64        // entries of the log that could not be read
	endTree             string        // of the checkout at the end; see pictureEnd
	draining            bool          // its guard is being ended for an update; see update.go
	losing              bool          // the guard's connection ended; whether it lives is being found out
	picturing, pictured bool
	dirty               bool // activity changed since the last announcement
	flush               *time.Timer
}

// watcher is a call that answers when the record satisfies a condition.
type watcher struct {
	ok   func(Record) bool
	done chan Record
}

func newWorker(s *Supervisor, r Record) *worker {
	w := &worker{s: s, rec: r, seen: r, told: r.Ingested, cmds: make(chan func()), done: make(chan struct{}), timer: time.NewTimer(time.Hour), flush: time.NewTimer(time.Hour), quiet: mission.Jitter(mission.QuietInterval, rand.Float64())}
	w.timer.Stop()
	w.flush.Stop()
	return w
}

func (w *worker) run() {
	defer close(w.done)
	defer func() {
		w.timer.Stop()
		w.flush.Stop()
		if w.guard != nil {
			w.guard.Close()
		}
		for _, x := range w.watch {
			close(x.done)
		}
	}()
	for !w.rec.Phase.Terminal() {
		select {
		case <-w.s.ctx.Done():
			return
		case fn := <-w.cmds:
			w.protect(fn)
		case <-w.timer.C:
		case <-w.flush.C:
			w.show()
		}
		w.protect(w.schedule)
	}
	w.s.forget(w.rec.ID)
}

// do runs fn on the goroutine and waits for it.
func (w *worker) do(ctx context.Context, fn func(w *worker) error) error {
	result := make(chan error, 1)
	select {
	case w.cmds <- func() {
		err := errors.New("the mission's goroutine failed; the log of the service tells more")
		defer func() { result <- err }()
		err = fn(w)
	}:
		return <-result
	case <-w.done:
		return w.gone()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *worker) gone() error {
	if w.s.ctx.Err() != nil {
		return wire.Errorf(wire.CodeShuttingDown, "The service is shutting down; the mission goes on in its guard.")
	}
	return wire.Errorf(wire.CodeConflict, "The mission has ended; start a new one.")
}

// post hands fn to the goroutine without waiting for its result.
func (w *worker) post(fn func()) bool {
	select {
	case w.cmds <- fn:
		return true
	case <-w.done:
		return false
	}
}

// async runs call beside the goroutine and then done on it. Once the service
// ends, a failure may only mean that; the next service looks for itself.
func (w *worker) async(call func(ctx context.Context) error, done func(error)) {
	w.s.wg.Go(func() {
		err := call(w.s.ctx)
		if w.s.ctx.Err() == nil {
			w.post(func() { done(err) })
		}
	})
}

// await returns when ok holds for the record, or with an error when the
// mission's goroutine ended first.
func (w *worker) await(ctx context.Context, ok func(Record) bool) (Record, error) {
	x := &watcher{ok: ok, done: make(chan Record, 1)}
	err := w.do(ctx, func(w *worker) error {
		if ok(w.rec) {
			x.done <- w.rec
			return nil
		}
		w.watch = append(w.watch, x)
		return nil
	})
	if err != nil {
		if r := w.snapshot(); ok(r) {
			return r, nil
		}
		return w.snapshot(), err
	}
	select {
	case r, good := <-x.done:
		if good {
			return r, nil
		}
		return w.snapshot(), w.gone()
	case <-ctx.Done():
		return w.snapshot(), ctx.Err()
	}
}

func (w *worker) snapshot() Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.clone()
}

func (w *worker) guarded() (proc.Guarded, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tree, w.tree.Root.PID != 0
}

func (w *worker) setTree(t proc.Guarded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree = t
}

// commit changes a copy of the record, journals it together with what more
// adds, and only then keeps and announces it.
func (w *worker) commit(change func(r *Record), more ...func(tx *store.Tx) error) error {
	next := w.rec.clone()
	change(&next)
	next.Revision++
	w.next = &next
	defer func() { w.next = nil }()
	err := w.s.DB.Update(context.WithoutCancel(w.s.ctx), func(tx *store.Tx) error {
		for _, fn := range more {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return save(tx, next)
	})
	if err != nil {
		return err
	}
	w.rec = next
	w.show()
	return nil
}

// step is commit for one event of the phase machine.
func (w *worker) step(e mission.Event, change func(r *Record), more ...func(tx *store.Tx) error) error {
	next, err := w.rec.Phase.On(e)
	if err != nil {
		return wire.Errorf(wire.CodeConflict, "That can't be done now: the mission is %s.", w.rec.Phase)
	}
	return w.commit(func(r *Record) {
		r.Phase = next
		if next.Terminal() {
			r.EndedAt, r.Activity, r.NextTurn = w.s.now(), nil, time.Time{}
		}
		if change != nil {
			change(r)
		}
	}, more...)
}

// show publishes the record as it stands.
func (w *worker) show() {
	w.dirty = false
	w.flush.Stop()
	w.rec.Guard, w.rec.Fault = w.alive, w.faultText()
	if w.guard != nil {
		w.rec.Protocol = w.guard.Record.Protocol
	}
	w.mu.Lock()
	w.seen = w.rec.clone()
	w.mu.Unlock()
	w.s.Announce.Mission(w.rec.clone())
	keep := w.watch[:0]
	for _, x := range w.watch {
		if x.ok(w.rec) {
			x.done <- w.rec.clone()
		} else {
			keep = append(keep, x)
		}
	}
	w.watch = keep
}

// touch notes that something changed which is not worth a journal entry; it is
// shown a little later, together with what follows.
func (w *worker) touch() {
	if !w.dirty {
		w.dirty = true
		w.flush.Reset(200 * time.Millisecond)
	}
}

// block parks the mission until a person acts.
func (w *worker) block(code mission.Code, why string) {
	err := w.step(mission.EvBlock, func(r *Record) {
		r.BlockedBy, r.NextTurn, r.Activity = why, time.Time{}, nil
		if code != "" && r.Failure == nil {
			r.Failure = &Failure{Stage: mission.StageExecution, Code: code, Message: code.Sentence(), Retryable: code.Retryable()}
		} else if code != "" && r.Failure.Code == code {
			r.Failure.Message = why // it tells more, such as until when
		}
	})
	if err != nil {
		w.fail("a mission could not be blocked ("+why+")", err, func() {
			if _, err := w.rec.Phase.On(mission.EvBlock); err == nil {
				w.block(code, why)
			}
		})
	}
}
