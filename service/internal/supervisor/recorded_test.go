//go:build unix

package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// What was recorded of a checkout for a mission that ended long ago goes when
// the next mission begins there, and not before.
func TestRecordedStatesAreDropped(t *testing.T) {
	h := newHouse(t)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", filepath.Join(h.dir, "a")}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1") // not as this machine is set up
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	run := func() Record {
		t.Helper()
		r := h.begin("a", "demo:wait")
		if err := os.WriteFile(filepath.Join(h.dir, "a", r.ID), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.s.Stop(within(t), r.ID); err != nil {
			t.Fatal(err)
		}
		return h.phase(r.ID, mission.Stopped)
	}
	recorded := func(r Record) bool { return strings.Contains(git("for-each-ref"), "refs/reeve/"+r.ID+"/") }

	first := run()
	second := run()
	if !recorded(first) || !recorded(second) {
		t.Fatalf("dropped at once: %s", git("for-each-ref"))
	}
	h.clock.Add(int64(keepRecorded + time.Hour))
	third := run()
	if recorded(first) || recorded(second) || !recorded(third) {
		t.Fatalf("kept: %s", git("for-each-ref"))
	}
	if _, err := h.s.Changes(within(t), third.ID, ""); err != nil {
		t.Error(err)
	}
	git("gc", "-q", "--prune=now")
	if _, err := h.s.Changes(within(t), first.ID, ""); wire.CodeOf(err) != wire.CodeNotFound || !strings.Contains(err.Error(), "30 days") {
		t.Errorf("the changes that git no longer has: %v", err)
	}
	if _, err := h.s.Changes(within(t), third.ID, ""); err != nil {
		t.Error(err)
	}
}
