//go:build linux

package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		p := run(t, self("guard", method))
		p.answer()
		// One that has ended before the first look counts by its time.
		p.ask("start burn exit")
		p.ready(1)
		p.ask("await")
		u := usage(p)
		if u.CPU < burnTime || u.Processes != 0 || u.Memory >= burnMemory {
			t.Errorf("after one that ended: %+v", u)
		}
		// An orphan counts as any other.
		p.ask("start orphan setsid burn")
		p.ready(1)
		p.ask("await")
		u = usage(p)
		// What /proc tells of one that runs, as user and as system time, is
		// rounded down to ticks.
		const tick = 10 * time.Millisecond
		if u.CPU < 2*burnTime-2*tick || u.Processes != 1 || u.Memory < burnMemory || u.Peak < u.Memory {
			t.Errorf("with one that stays: %+v", u)
		}
		if r := p.ask("kill"); r.Err != "" {
			t.Fatal(r.Err)
		}
		last := usage(p)
		if last.CPU < u.CPU || last.Processes != 0 || last.Memory >= burnMemory || last.Peak < burnMemory || last.OOMKills != 0 {
			t.Errorf("after %+v: %+v", u, last)
		}
	})
}

func usage(p *program) Usage {
	p.t.Helper()
	r := p.ask("usage")
	if r.Err != "" {
		p.t.Fatal(r.Err)
	}
	return r.Usage
}

func TestLimitMemory(t *testing.T) {
	methods(t, func(t *testing.T, method string) {
		p := run(t, self("guard", method))
		p.answer()
		r := p.ask(fmt.Sprint("limit ", burnMemory/2))
		switch {
		case r.Err != "":
			t.Fatal(r.Err)
		case r.By == "":
			t.Skip("the memory controller isn't handed down here, so memory.max can't be tried")
		case method == "subreaper" || r.By != "cgroup":
			t.Fatalf("limited by %q", r.By)
		}
		p.ask("start wait")
		p.ready(1)
		p.ask("start burn")
		p.ask("await") // both are ended, the one that stays within the limit too
		if u := usage(p); u.Processes != 0 || u.OOMKills == 0 {
			t.Errorf("%+v", u)
		}
	})
	if _, err := (&Tree{}).LimitMemory(0); err == nil {
		t.Error("no memory at all is no limit")
	}
}

// What the files of a group with the memory controller say, for machines that
// don't have one.
func TestGroupFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"cgroup.procs":     fmt.Sprintln(os.Getpid()),
		"cpu.stat":         "usage_usec 1500\nuser_usec 1000\n",
		"memory.current":   "1000000\n",
		"memory.stat":      "anon 1\nfile 600000\nshmem 5000\nslab_reclaimable 100\n",
		"memory.events":    "low 0\noom 3\noom_kill 2\n",
		"memory.max":       "",
		"memory.swap.max":  "",
		"memory.oom.group": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree := &Tree{group: dir}
	want := Usage{CPU: 1500 * time.Microsecond, Memory: 404_900, Peak: 404_900, Processes: 1, OOMKills: 2}
	if u, err := tree.Usage(); err != nil || u != want {
		t.Errorf("%+v, %v; want %+v", u, err, want)
	}
	if by, err := tree.LimitMemory(123); by != "cgroup" || err != nil {
		t.Errorf("limited by %q, %v", by, err)
	}
	for name, want := range map[string]string{"memory.max": "123", "memory.swap.max": "0", "memory.oom.group": "1"} {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "memory.max")); err != nil {
		t.Fatal(err)
	}
	if by, err := tree.LimitMemory(123); by != "" || err != nil {
		t.Errorf("without a controller limited by %q, %v", by, err)
	}
}
