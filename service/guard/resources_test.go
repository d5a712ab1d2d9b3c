//go:build unix

package guard_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

// use is what a worker runs to use the machine:
//
//	use memory <MiB> [detached]   holds so much, and waits for its end
//	use cpu <ms>                  uses so much processor time
//
// A detached one is in a session of its own, and its parent has ended.
func use(args []string) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		panic(err)
	}
	if len(args) > 2 {
		exe, err := os.Executable()
		if err != nil {
			panic(err)
		}
		cmd := exec.Command(exe, "use", args[0], args[1])
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	switch args[0] {
	case "memory":
		held, err := syscall.Mmap(-1, 0, n<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		select {
		case <-time.After(time.Hour):
		}
	case "cpu":
		for {
			var u syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
				panic(err)
			}
			if time.Duration(u.Utime.Nano()+u.Stime.Nano()) >= time.Duration(n)*time.Millisecond {
				os.Exit(0)
			}
		}
	}
}

// limited is a started guard whose worker has limits and a program to break
// them with.
func limited(t *testing.T, providerName string, p wire.StartParams, env ...string) (*worker, *guard.Client) {
	t.Helper()
	w := spawn(t, append(env, "TEST_LOOK=30ms")...)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.launch.Provider = providerName
	w.launch.Env = append(w.launch.Env, "USE="+exe, "GORACE=atexit_sleep_ms=0")
	c, _ := w.claim(1)
	p.Launch = w.launch
	if err := c.Start(within(t), p); err != nil {
		t.Fatal(err)
	}
	return w, c
}

// measured waits for a figure that satisfies ok, and reads the log on.
func measured(t *testing.T, c *guard.Client, what string, ok func(wire.Resources) bool) wire.Resources {
	t.Helper()
	ctx := within(t)
	var last wire.Resources
	for {
		select {
		case last = <-c.Resources():
			if ok(last) {
				return last
			}
		case e := <-c.Entries():
			if e.Kind == wire.KindTurnFinished {
				t.Fatalf("the turn ended before %s was measured: %s; last %+v", what, e.Data, last)
			}
		case <-ctx.Done():
			t.Fatalf("%s was never measured; last %+v", what, last)
		}
	}
}

const noCgroup = "TEST_NO_CGROUP=1"

func TestMemoryLimit(t *testing.T) {
	limits := wire.Limits{MemoryMB: 256}
	for name, c := range map[string]struct{ provider, script, env string }{
		"one process":          {"fake", `"$USE" use memory 400`, noCgroup},
		"a detached one":       {"fake", `"$USE" use memory 400 detached; sleep 600`, noCgroup},
		"two of half the size": {"fake", `"$USE" use memory 160 detached; "$USE" use memory 160`, noCgroup},
		"a deaf agent":         {"fake-deaf", `"$USE" use memory 400`, noCgroup},
		"an agent that stays":  {"fake-keep", `"$USE" use memory 400`, noCgroup},
		// Here the system keeps the limit where it can.
		"as it comes": {"fake", `"$USE" use memory 400 detached; "$USE" use memory 400`, "A=b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, g := limited(t, c.provider, wire.StartParams{Limits: limits}, c.env)
			w.turn(g, `echo $$ >agent; `+c.script)
			next(t, g, wire.KindSessionStarted)
			fin := finished(t, g)
			if fin.Outcome != "failed" || fin.Code != "local_execution_failure" || fin.Retryable || fin.Limit != wire.LimitMemory {
				t.Fatalf("%+v", fin)
			}
			if !strings.Contains(fin.Message, "256 MiB") || !strings.Contains(fin.Message, "memory") {
				t.Fatalf("message %q", fin.Message)
			}
			r := fin.Resources
			if r == nil || r.PeakBytes < 200<<20 || r.MemoryBytes > r.PeakBytes/2 || r.Processes != 0 || r.LimitBy == "" || c.env == noCgroup && r.LimitBy != "guard" || r.Method == "" {
				t.Fatalf("%+v", r)
			}
			t.Logf("held by %s, limited by %s", r.Method, r.LimitBy)
			// The guard goes on, and so does the next turn.
			w.turn(g, `echo '@final fine'`)
			if fin := finished(t, g); fin.Outcome != "succeeded" {
				t.Fatalf("the next turn: %+v", fin)
			}
		})
	}
}

// A provider that stays between turns and holds too much is ended with its
// worker.
func TestMemoryLimitBetweenTurns(t *testing.T) {
	w, g := limited(t, "fake-fat", wire.StartParams{Limits: wire.Limits{MemoryMB: 256}})
	w.turn(g, `echo '@final fine'`)
	if fin := finished(t, g); fin.Outcome != "succeeded" {
		t.Fatalf("%+v", fin)
	}
	end := data[wire.SessionEnded](t, next(t, g, wire.KindSessionEnded))
	if end.Reason != guard.ReasonMemory || len(end.Left) > 0 {
		t.Fatalf("%+v", end)
	}
	<-w.proc.Done()
}

// What is used is told while it is used, and adds up over the turns, each of
// which has a provider and a tree of its own.
func TestResources(t *testing.T) {
	w, g := limited(t, "fake", wire.StartParams{})
	for i := 1; i <= 2; i++ {
		w.turn(g, `"$USE" use cpu 400; "$USE" use memory 100 detached; exec "$USE" use memory 50`)
		next(t, g, wire.KindSessionStarted)
		r := measured(t, g, "all of it", func(r wire.Resources) bool { return r.MemoryBytes > 150<<20 && r.CPUSeconds >= 0.4*float64(i) })
		if r.Processes < 3 || r.PeakBytes < r.MemoryBytes || r.LimitBy != "" || r.At.IsZero() {
			t.Fatalf("turn %d: %+v", i, r)
		}
		if err := g.Interrupt(within(t), wire.InterruptParams{}); err != nil {
			t.Fatal(err)
		}
		fin := finished(t, g)
		if fin.Limit != "" || fin.Resources == nil || fin.Resources.CPUSeconds < r.CPUSeconds || fin.Resources.PeakBytes < r.PeakBytes || fin.Resources.MemoryBytes > 10<<20 {
			t.Fatalf("turn %d: %+v %+v, before it ended %+v", i, fin, fin.Resources, r)
		}
	}
}

// Processor time counts over turns and attempts, and ends a turn for good.
func TestCPULimit(t *testing.T) {
	w, g := limited(t, "fake", wire.StartParams{Limits: wire.Limits{CPUMinutes: 1}, UsedCPU: 58.5})
	w.turn(g, `"$USE" use cpu 500; echo '@final fine'`)
	if fin := finished(t, g); fin.Outcome != "succeeded" {
		t.Fatalf("%+v", fin)
	}
	w.turn(g, `"$USE" use cpu 60000`)
	fin := finished(t, g)
	if fin.Outcome != "failed" || fin.Code != "budget_reached" || fin.Retryable || fin.Limit != wire.LimitCPU || !strings.Contains(fin.Message, "1 minute") {
		t.Fatalf("%+v", fin)
	}
	if r := fin.Resources; r == nil || r.CPUSeconds < 1.5 || r.CPUSeconds > 30 {
		t.Fatalf("%+v", r)
	}
	// Nothing of another turn is run.
	w.turn(g, `touch ran`)
	if fin := finished(t, g); fin.Code != "budget_reached" {
		t.Fatalf("%+v", fin)
	}
	if _, err := os.Stat(filepath.Join(w.folder, "ran")); err == nil {
		t.Fatal("a turn ran without processor time left")
	}
}

func TestBadLimits(t *testing.T) {
	w := spawn(t)
	c, _ := w.claim(1)
	code(t, c.Start(within(t), wire.StartParams{Launch: w.launch, Limits: wire.Limits{MemoryMB: 1}}), wire.CodeInvalidParams)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
}

// protocols are those of a guard that a test makes older.
func protocols() []int {
	v := os.Getenv("TEST_PROTOCOL")
	if v == "" {
		return nil
	}
	var n int
	if _, err := fmt.Sscan(v, &n); err != nil {
		panic(err)
	}
	return []int{n}
}
