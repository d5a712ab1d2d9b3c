package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a program leaves behind when it is asked for its version is known by its
// session: one that the person doesn't sit in.
func TestVersionIsAskedAlone(t *testing.T) {
	script := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nread -r _ _ _ _ _ session _ </proc/$$/stat\necho $$ $session\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := Version(t.Context(), "Agent", script, nil, strings.TrimSpace)
	if pid, session, ok := strings.Cut(said, " "); err != nil || !ok || pid != session {
		t.Errorf("it runs as pid and session %q: %v", said, err)
	}
}
