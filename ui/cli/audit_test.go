package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

func TestAuditVerify(t *testing.T) {
	w := newWorld(t, &fake{verify: wire.AuditVerifyResult{Entries: 7, Head: "abc", OK: true}})
	w.expect(ExitOK, "7 entries, unbroken.\nHead abc", "", "audit", "verify")
	w = newWorld(t, &fake{verify: wire.AuditVerifyResult{Entries: 1, Head: "abc", OK: true}})
	w.expect(ExitOK, "1 entry, unbroken.\n", "", "audit", "verify")
	w = newWorld(t, &fake{verify: wire.AuditVerifyResult{Entries: 7, BrokenAt: 3, Detail: "hash differs"}})
	w.expect(ExitFailed, "", "The audit log is broken at entry 3: hash differs.", "audit", "verify")
}

// chain is n entries that follow each other; what they say is not plain.
func chain(n int) (lines []string) {
	for i := 1; i <= n; i++ {
		prev := ""
		if i > 1 {
			prev = fmt.Sprintf("h%d", i-1)
		}
		lines = append(lines, fmt.Sprintf(`{"seq":%d,"time":"2026-03-04T13:00:00Z","kind":"answer","text":"<&>\\u001b","data":{"z":1.0,"a":"<"},"prev":%q,"hash":"h%d"}`, i, prev, i))
	}
	return lines
}

func TestAuditExport(t *testing.T) {
	f := &fake{audit: chain(5)}
	w := newWorld(t, f)
	want := strings.Join(f.audit, "\n") + "\n"
	for _, args := range [][]string{{"audit", "export"}, {"audit", "export", "--json"}} {
		if out, errs := w.expect(ExitOK, "", "5 entries exported.\nHead h5\n", args...); out != want || errs != "5 entries exported.\nHead h5\n" {
			t.Errorf("%v: %q %q", args, out, errs)
		}
	}
	// What comes while the pages are read comes along, once.
	pages := 0
	f.with(func() {
		f.onAudit = func() { f.with(func() { pages++; f.audit = chain(min(1+2*pages, 5)) }) }
	})
	if out, _ := w.expect(ExitOK, "", "5 entries exported.\nHead h5\n", "audit", "export"); out != want {
		t.Errorf("%q", out)
	}
	// An edited log is exported all the same: it is what there is to show.
	f.with(func() { f.onAudit, f.audit = nil, append(chain(2), chain(5)[3:]...) })
	if out, _ := w.expect(ExitFailed, "", "The audit log is broken at entry 3.", "audit", "export"); strings.Count(out, "\n") != 4 {
		t.Errorf("%q", out)
	}
}

func TestAuditExportToAFile(t *testing.T) {
	f := &fake{audit: chain(5)}
	w := newWorld(t, f)
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	files := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	// A page that does not come leaves nothing.
	f.with(func() { f.refuse = wire.Errorf(wire.CodeUnavailable, "The audit log is damaged.") })
	w.expect(ExitFailed, "", "The audit log is damaged.", "audit", "export", "--output", path)
	if got := files(); got != nil {
		t.Errorf("left %q", got)
	}
	f.with(func() { f.refuse = nil })
	out, _ := w.expect(ExitOK, "", "5 entries exported.\nHead h5\n", "audit", "export", "--output", path)
	st, err := os.Stat(path)
	if err != nil || out != "" || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v, printed %q", st, err, out)
	}
	want := strings.Join(f.audit, "\n") + "\n"
	whole := func() {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != want || len(files()) != 1 {
			t.Errorf("%q %v, beside it %q", got, err, files())
		}
	}
	whole()
	// It replaces nothing, neither what was there before nor what comes meanwhile.
	f.with(func() { f.audit = chain(6) })
	w.expect(ExitRefused, "", "audit.jsonl is there already. Name a new file", "audit", "export", "-o", path)
	whole()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.with(func() {
		f.onAudit = func() {
			if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	w.expect(ExitRefused, "", "is there already", "audit", "export", "-o", path)
	whole()
	w.expect(ExitUsage, "", "--output takes the name", "audit", "export", "--output", "")
	w.expect(ExitRefused, "", "There is no folder ", "audit", "export", "--output", filepath.Join(dir, "none", "a.jsonl"))
}
