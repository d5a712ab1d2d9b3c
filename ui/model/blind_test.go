package model

import (
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// A program that sees no approvals never says that none waits.
func TestBlindIsNotIdle(t *testing.T) {
	s := NewState(7)
	s.SetLink(Running, "")
	if got := s.Tray(at(15, 6)); got.State != TrayNoService || got.Tooltip != "Reeve: Connecting to the service." {
		t.Errorf("before anything is known: %s %q", got.State, got.Tooltip)
	}
	const why = "Only a person may do this, and this comes from a worker."
	s.Failed(wire.TopicApprovals, why+"\n")
	if l, text := s.Link(); l != Blind || !strings.Contains(text, "The service says: "+why+" If it stays") {
		t.Errorf("refused: %s %q", l, text)
	}
	if got := s.Unheard(); got != "The service tells this program nothing" {
		t.Errorf("answers are taken: %q", got)
	}
	for _, topic := range []string{wire.TopicService, wire.TopicMissions} {
		if _, err := s.Snapshot(topic, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Tray(at(15, 6)); got.State != TrayNoService || !strings.Contains(got.Tooltip, why) {
		t.Errorf("without approvals: %s %q", got.State, got.Tooltip)
	}
	if _, err := s.Snapshot(wire.TopicApprovals, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Tray(at(15, 6)); got.State != TrayIdle {
		t.Errorf("when all is known: %s %q", got.State, got.Tooltip)
	}
	if got := s.Unheard(); got != "" {
		t.Errorf("when all is known, no answer is taken: %q", got)
	}
	s.Failed(wire.TopicApprovals, "It could not be read.") // what is known goes on
	if l, _ := s.Link(); l != Running {
		t.Errorf("a later failure: %s", l)
	}
}
