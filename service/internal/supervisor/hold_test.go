//go:build unix

package supervisor

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// waited is a context that tells when a write waits in the journal's queue: only
// then does the journal ask for the context's end.
type waited struct {
	context.Context
	once sync.Once
	by   chan struct{}
}

func (w *waited) Done() <-chan struct{} {
	callers := make([]uintptr, 1)
	runtime.Callers(2, callers)
	if by, _ := runtime.CallersFrames(callers).Next(); strings.HasSuffix(by.Function, "store.(*DB).Update") {
		w.once.Do(func() { close(w.by) })
	}
	return w.Context.Done()
}

// TestHoldSharesAFailedCommit: the journal runs what waits in one transaction,
// and once more without the part that failed. A hold in it is not refused for
// its own mark, and a hold that is refused leaves none.
func TestHoldSharesAFailedCommit(t *testing.T) {
	h := newHouse(t)
	const tree = "/nowhere/tree"
	for range 20 {
		entered, gate := make(chan struct{}), make(chan struct{})
		first, failed := make(chan error, 1), make(chan error, 1)
		go func() {
			first <- h.db.Update(t.Context(), func(*store.Tx) error { close(entered); <-gate; return nil })
		}()
		<-entered
		ctx := &waited{Context: t.Context(), by: make(chan struct{})}
		var release func()
		held := make(chan error, 1)
		go func() { r, err := h.s.hold(ctx, "m-x", tree); release = r; held <- err }()
		<-ctx.by
		refused := errors.New("refused")
		ctx = &waited{Context: t.Context(), by: make(chan struct{})}
		go func() {
			failed <- h.db.Update(ctx, func(tx *store.Tx) error {
				return errors.Join(tx.Put("b", []byte("k"), nil), refused)
			})
		}()
		<-ctx.by
		close(gate)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.Is(err, refused) {
			t.Fatalf("the write that fails: %v", err)
		}
		if err := <-held; err != nil {
			t.Fatalf("nobody holds it, yet: %v", err)
		}
		if _, err := h.s.hold(t.Context(), "m-y", tree); wire.CodeOf(err) != wire.CodeConflict {
			t.Fatalf("two hold it: %v", err)
		}
		release()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.s.hold(ended, "m-x", tree); err == nil {
		t.Fatal("held without the journal")
	}
	release, err := h.s.hold(t.Context(), "m-x", tree)
	if err != nil {
		t.Fatalf("nobody holds it any more, yet: %v", err)
	}
	release()
}
