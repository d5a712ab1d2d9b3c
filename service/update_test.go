package service

import (
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
