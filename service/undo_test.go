//go:build unix

package service

import (
	"runtime"
	"testing"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
)

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
