package service

import (
	"runtime"
	"testing"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
)

// Only the connection that began an update commits or cancels it.
func TestUpdateOwner(t *testing.T) {
	owner, other := make(chan struct{}), make(chan struct{})
	s := &Service{o: Options{Now: Now}, update: &update{owner: owner, by: "reeve, pid 1", prepared: true}}
	for name, call := range map[string]func() error{
		"commit": func() error { _, err := s.CommitUpdate(t.Context(), server.Actor{}, other); return err },
		"cancel": func() error { _, err := s.CancelUpdate(t.Context(), server.Actor{}, other); return err },
		"begin": func() error {
			_, err := s.PrepareUpdate(t.Context(), server.Actor{}, wire.PrepareUpdateParams{}, other)
			return err
		},
		"change": func() error { _, err := s.enter(); return err },
	} {
		if err := call(); wire.CodeOf(err) != wire.CodeUpdateInProgress {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.update.prepared = false
	if _, err := s.CommitUpdate(t.Context(), server.Actor{}, owner); wire.CodeOf(err) != wire.CodeConflict {
		t.Errorf("commit before it is prepared: %v", err)
	}
	s.update = nil
	if _, err := s.CommitUpdate(t.Context(), server.Actor{}, owner); wire.CodeOf(err) != wire.CodeConflict {
		t.Errorf("commit without an update: %v", err)
	}
}

// An update that is undone does not wait for a change that never ends.
func TestUndoWaitsForNoChange(t *testing.T) {
	h := newHouse(t)
	s := h.s
	leave, err := s.enter()
	if err != nil {
		t.Fatal(err)
	}
	owner, prepared := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.PrepareUpdate(t.Context(), server.Actor{}, wire.PrepareUpdateParams{}, owner)
		prepared <- err
	}()
	for {
		s.mu.Lock()
		begun := s.update != nil
		s.mu.Unlock()
		if begun {
			break
		}
		runtime.Gosched()
	}
	close(owner)
	if err := <-prepared; wire.CodeOf(err) != wire.CodeUnavailable {
		t.Errorf("undone: %v", err)
	}
	s.watching.Wait()
	other, err := s.enter()
	if err != nil {
		t.Fatalf("a change after it: %v", err)
	}
	other()
	leave()
	owner = make(chan struct{})
	if _, err := s.PrepareUpdate(t.Context(), server.Actor{}, wire.PrepareUpdateParams{}, owner); err != nil {
		t.Errorf("the next one: %v", err)
	}
	close(owner)
	s.watching.Wait()
}
