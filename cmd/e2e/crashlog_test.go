//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestCrashIsOnRecord: what the runtime says of a crash of a service in the
// background is kept, and told of; a service that is just ended leaves nothing of
// the kind, and what it logs goes to its own log alone.
func TestCrashIsOnRecord(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	path := filepath.Join(m.state, "logs", "crash.log")
	start := func() wire.Service {
		t.Helper()
		if r := m.run("service", "start"); r.code != 0 {
			t.Fatal(r.err)
		}
		c := m.dial()
		defer c.Close()
		r, err := client.Do[wire.Service](t.Context(), c, wire.MethodServiceStatus, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := start()
	t.Cleanup(func() { m.run("service", "stop") })
	crash, err := os.FindProcess(first.PID)
	if err != nil {
		t.Fatal(err)
	}
	_ = crash.Signal(syscall.SIGQUIT) // the runtime prints where it is, and ends
	mustEnd(t, first.PID)
	text, err := os.ReadFile(path)
	if info, e := os.Stat(path); err != nil || e != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(text), "goroutine ") {
		t.Fatalf("%v, %v: %s", err, e, text)
	}
	second := start()
	if len(second.Notes) == 0 || !strings.Contains(second.Notes[0], "crashed on ") || !strings.HasSuffix(second.Notes[0], path+".before.") {
		t.Errorf("told %q", second.Notes)
	}
	if kept, err := os.ReadFile(path + ".before"); err != nil || string(kept) != string(text) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if r := m.run("service", "stop"); r.code != 0 {
		t.Fatal(r.err)
	}
	mustEnd(t, second.PID)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a service that was ended left something: %v", err)
	}
	if third := start(); len(third.Notes) != 0 {
		t.Errorf("told %q", third.Notes)
	}
}
