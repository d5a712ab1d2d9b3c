package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// A program that the service runs for its version decides nothing, though it
// descends from no guard: nor when it leaves the service, and its own process.
func TestProbedProgramCannotDecide(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	v := m.watch()
	victim := do[wire.MissionStartResult](v, wire.MethodMissionStart, m.demoTerms(m.repo("repo"), "Wait for a person."))
	dir := t.TempDir()
	allow := fmt.Sprintf("%s allow %s --digest %s", shellQuote(m.reeve), victim.Approval.ID, victim.Approval.Digest)
	for name, lines := range map[string][]string{
		"claude": {
			"#!/bin/sh",
			"cd " + shellQuote(dir) + "; export REEVE_STATE=" + shellQuote(m.state),
			allow + " >1.$$ 2>&1; echo exit=$? >>1.$$; mv 1.$$ 1",
			"(sh left.sh $$ >/dev/null 2>&1 &)",
			"echo '2.1.0 (Claude Code)'",
		},
		// It waits until nothing but its session tells where it came from.
		"left.sh": {
			"while [ -e /proc/$1 ]; do sleep 0.1; done",
			allow + " >2.$1 2>&1; echo exit=$? >>2.$1; mv 2.$1 left",
		},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// On a busy machine it is ended before it has tried, for it may take only
	// seconds. So it is asked until it told its version.
	for began := time.Now(); ; {
		r := m.runIn(m.dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "providers")
		if r.code != 0 {
			t.Fatalf("reeve providers: exit %d %s", r.code, r.err)
		}
		if strings.Contains(r.out, "2.1.0") {
			break
		}
		if time.Since(began) > waitLimit {
			t.Fatalf("it never told its version: %s", r.out)
		}
	}
	for name, how := range map[string]string{"1": "below the service", "left": "left behind"} {
		v.wait("what was tried "+how, func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil })
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if r := string(b); !strings.Contains(r, "exit=4") || !strings.Contains(r, "person") {
			t.Errorf("%s: %s", how, r)
		}
	}
	if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: victim.Mission.ID}).Mission; got.Phase != "proposed" {
		t.Errorf("the mission is %s", got.Phase)
	}
}
