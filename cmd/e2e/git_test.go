package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// TestRepositoryCannotDecide is case 37: a repository carries a clean filter,
// by way of an include, that tries to allow another mission whenever git looks
// at a file: by itself, in a session of its own, and after a double fork with a
// clean environment. Each try is refused, journaled and shown, whether the
// service looks because the mission starts or because a person wants to see
// the changes, and nothing that the filter leaves behind lives on. Hooks, the
// file system monitor and drivers for differences do not run at all.
func TestRepositoryCannotDecide(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	repo, other, out := m.repo("repo"), m.repo("other"), filepath.Join(m.dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(out, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	victim := do[wire.MissionStartResult](v, wire.MethodMissionStart, m.demoTerms(other, "Wait for a person."))
	write := func(path string, lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(repo, "try.sh"),
		"export REEVE_STATE="+shellQuote(m.state), "cd "+shellQuote(out),
		fmt.Sprintf("%s allow %s --digest %s >$1 2>&1", shellQuote(filepath.Join(bin, "reeve")), victim.Approval.ID, victim.Approval.Digest),
		"echo exit=$? >>$1")
	write(filepath.Join(repo, "filter.sh"), // once each time that it is armed
		"out="+shellQuote(out),
		`if rm "$out/armed" 2>/dev/null; then`,
		"sh try.sh 1",
		"setsid sh try.sh 2",
		`export out; (setsid env -i out="$out" sh -c '(sh try.sh 3; echo >"$out/pipe"; exec sleep 300) >/dev/null &' &)`,
		`read x <"$out/pipe"`,
		"fi", "cat")
	ran := filepath.Join(out, "ran")
	program := filepath.Join(repo, "program.sh")
	write(program, "#!/bin/sh", "echo \"$0\" >>"+shellQuote(ran))
	for _, hook := range []string{"post-index-change", "reference-transaction", "pre-commit", "post-commit", "post-checkout"} {
		if err := os.Symlink(program, filepath.Join(repo, ".git", "hooks", hook)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(repo, ".git", "more"), "[filter \"evil\"]", "\tclean = sh filter.sh")
	write(filepath.Join(repo, ".gitattributes"), "notes.txt filter=evil diff=evil")
	for key, value := range map[string]string{
		"include.path": "more", "core.fsmonitor": "sh program.sh",
		"diff.external": "sh program.sh", "diff.evil.command": "sh program.sh", "diff.evil.textconv": "sh program.sh",
	} {
		cmd := exec.Command("git", "config", key, value)
		cmd.Dir, cmd.Env = repo, m.env
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}

	refused := 0
	check := func(when, mission string) {
		t.Helper()
		refused += 3
		for n, how := range []string{"from the filter", "in its own session", "after a double fork with a clean environment"} {
			name := filepath.Join(out, fmt.Sprint(n+1))
			if r, err := os.ReadFile(name); err != nil || !strings.Contains(string(r), "exit=4") || !strings.Contains(string(r), "person") {
				t.Errorf("%s, %s: %s %v", when, how, r, err)
			}
			_ = os.Remove(name)
		}
		v.wait("every refusal to be shown", func() bool { return len(v.refusals) >= refused && v.service.Refusals >= refused })
		for _, r := range v.refused() {
			if r.Mission != mission || r.Method != wire.MethodApprovalAnswer {
				t.Errorf("%s: %+v", when, r)
			}
		}
		if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mission}).Mission; got.Refusals != refused {
			t.Errorf("%s: the mission counts %d refusals of %d", when, got.Refusals, refused)
		}
		if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: victim.Mission.ID}).Mission; got.Phase != "proposed" {
			t.Errorf("%s: the other mission is %s", when, got.Phase)
		}
		m.gone(func(p string) bool { return !strings.Contains(p, "sleep 300") })
		if b, err := os.ReadFile(ran); err == nil {
			t.Errorf("%s: these ran: %s", when, b)
		}
	}

	// Git filters only what may have changed since it looked last.
	write(filepath.Join(repo, "notes.txt"), "alpha", "delta")
	write(filepath.Join(out, "armed"))
	mi := v.begin(m.demoTerms(repo, "demo:command true"))
	v.asked(mi.ID, "true")
	check("at the start", mi.ID)

	write(filepath.Join(repo, "notes.txt"), "alpha", "gamma")
	write(filepath.Join(out, "armed"))
	before := do[wire.AuditVerifyResult](v, wire.MethodAuditVerify, struct{}{}).Entries
	changes := do[wire.ChangesResult](v, wire.MethodMissionChanges, wire.ChangesParams{ID: mi.ID})
	if len(changes.Files) != 1 || !strings.Contains(string(changes.Patch), "gamma") {
		t.Errorf("the changes: %+v", changes)
	}
	check("with the changes", mi.ID)
	if a := do[wire.AuditVerifyResult](v, wire.MethodAuditVerify, struct{}{}); !a.OK || a.Entries < before+3 {
		t.Errorf("the journal has %d entries, before there were %d: %+v", a.Entries, before, a)
	}

	// The person, from outside, can still decide.
	if r := m.run("deny", victim.Approval.ID, "--digest", victim.Approval.Digest); r.code != 0 {
		t.Errorf("the person: exit %d %s", r.code, r.err)
	}
	if r := m.run("stop", mi.ID); r.code != 0 {
		t.Errorf("stop: exit %d %s", r.code, r.err)
	}
	v.settled(v.phase(mi.ID, "stopped"))
}
