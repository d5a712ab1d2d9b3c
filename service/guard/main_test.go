//go:build unix

package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
	"github.com/reevehq/reeve/service/provider/demo"
)

// The test binary is also the guard's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "guard" && os.Args[2] == "--git" {
		os.Exit(guard.GitMain(context.Background(), guard.Options{Inner: len(os.Args) > 3}))
	}
	if len(os.Args) > 2 && os.Args[1] == "git-service" {
		os.Exit(serviceOfGit(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "guard" {
		os.Exit(guard.Main(context.Background(), os.Args[len(os.Args)-1], guard.Options{
			Inner:       os.Args[2] == "--inner",
			Providers:   findFake,
			Now:         shiftedNow,
			StartWithin: duration("TEST_START"),
			Adopt:       duration("TEST_ADOPT"),
			Check:       20 * time.Millisecond,
			MaxLog:      int64(duration("TEST_MAXLOG")),
			Look:        duration("TEST_LOOK"),
			Protocols:   protocols(),
			NoCgroup:    os.Getenv("TEST_NO_CGROUP") != "",
		}))
	}
	if len(os.Args) == 2 && os.Args[1] == "demo-agent" {
		if demo.Main(context.Background(), os.Stdin, os.Stdout) != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "use" {
		use(os.Args[2:])
	}
	if len(os.Args) > 2 && os.Args[1] == "claim" {
		os.Exit(claimAs(os.Args[2], len(os.Args) > 3))
	}
	// Each check of a property takes dozens of round trips to a real guard.
	_ = flag.Set("rapid.checks", "15")
	// The tests wait for most of their time.
	_ = flag.Set("test.parallel", "8")
	goleak.VerifyTestMain(m)
}

func findFake(name string) (provider.Provider, error) {
	if name == "fake-late" { // is there once somebody wrote to the pipe
		_, err := os.ReadFile(os.Getenv("TEST_LATE"))
		return fakes["fake"], err
	}
	if f, ok := fakes[name]; ok {
		return f, nil
	}
	if exe, err := os.Executable(); err == nil && name == "acp:demo" {
		return acp.Demo(exe), nil
	}
	return nil, errors.New("unknown")
}

func duration(name string) time.Duration {
	d, _ := time.ParseDuration(os.Getenv(name))
	return d
}

// shiftedNow is the machine's clock plus what the test's clock file says.
func shiftedNow() mission.Instant {
	boot, id, err := proc.BootTime()
	if err != nil {
		panic(err)
	}
	now := mission.Instant{Wall: time.Now(), Boot: boot, BootID: id}
	if raw, err := os.ReadFile(os.Getenv("TEST_CLOCK")); err == nil {
		var wall, boot time.Duration
		if _, err := fmt.Sscan(string(raw), (*int64)(&wall), (*int64)(&boot)); err == nil {
			now.Wall, now.Boot = now.Wall.Add(wall), now.Boot+boot
		}
	}
	return now
}

const token = "the-token-of-this-attempt"

// worker is one guard under test.
type worker struct {
	t      *testing.T
	dir    string
	folder string
	clock  string
	proc   *guard.Process
	state  *os.File // the journal, which this process has locked as a service has
	launch wire.Launch
	turns  int
}

// patience is a safety net, not a measure: a machine that is busy with other
// things may stand still for a long time.
const patience = 4 * time.Minute

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// spawn starts a guard; env adds to its environment.
func spawn(t *testing.T, env ...string) *worker {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return spawnOf(t, exe, env...)
}

// spawnOf is spawn with another program for the guard.
func spawnOf(t *testing.T, exe string, env ...string) *worker {
	t.Helper()
	base, err := os.MkdirTemp("", "guard")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	attempt := "a-" + filepath.Base(base)
	w := &worker{t: t, dir: filepath.Join(base, "attempts", attempt), folder: filepath.Join(base, "a folder"), clock: filepath.Join(base, "clock")}
	if err := os.Mkdir(w.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "attempts"), 0o700); err != nil {
		t.Fatal(err)
	}
	if w.state, err = os.Create(filepath.Join(base, "reeve.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.state.Close() })
	w.lock(syscall.LOCK_EX | syscall.LOCK_NB)
	instructions := filepath.Join(base, "instructions.md")
	if err := os.WriteFile(instructions, []byte("do it"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.launch = wire.Launch{
		Provider: "fake", Path: "/bin/sh", Folder: w.folder, Instructions: instructions,
		Digest: mission.InstructionDigest("do it"),
		Env:    []string{"PATH=" + os.Getenv("PATH"), "API_KEY=canary-secret-value"},
	}
	now := shiftedNow()
	end := mission.NewDeadline(now, 30)
	b := wire.Bootstrap{
		Attempt: attempt, Mission: "m-1", Token: token, Protocols: []int{wire.GuardProtocol, wire.OldestGuardProtocol},
		DeadlineAt: end.At, Boot: end.Boot, BootID: end.BootID,
		Socket: filepath.Join(base, "run", "guard.sock"), CreatedAt: now.Wall,
	}
	// The race detector would hold every guard for a second at its end.
	env = append(env, "GORACE=atexit_sleep_ms=0", "PATH="+os.Getenv("PATH"), "TEST_CLOCK="+w.clock)
	if w.proc, err = guard.Spawn(within(t), exe, w.dir, b, env); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := guard.EndUnadopted(context.Background(), w.dir)
		if err != nil {
			t.Errorf("end the guard of the test: %v", err)
		}
		_ = proc.ID(w.proc.ID).Signal(syscall.SIGKILL)
		<-w.proc.Done()
		if t.Failed() {
			out, _ := os.ReadFile(filepath.Join(w.dir, "guard.log"))
			t.Logf("guard.log:\n%s", out)
		}
	})
	return w
}

// lock takes the lock on the journal, or lets it go.
func (w *worker) lock(how int) {
	w.t.Helper()
	if err := syscall.Flock(int(w.state.Fd()), how); err != nil {
		w.t.Fatal(err)
	}
}

// shift sets the guard's clock, wall and boot, off by d.
func (w *worker) shift(wall, boot time.Duration) {
	w.t.Helper()
	if err := os.WriteFile(w.clock+".new", fmt.Appendf(nil, "%d %d", wall, boot), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.clock+".new", w.clock); err != nil {
		w.t.Fatal(err)
	}
}

func (w *worker) connect() *guard.Client {
	w.t.Helper()
	c, err := guard.Connect(within(w.t), w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *worker) claim(generation uint64) (*guard.Client, wire.ClaimResult) {
	w.t.Helper()
	c := w.connect()
	res, err := c.Claim(within(w.t), token, generation)
	if err != nil {
		w.t.Fatal(err)
	}
	return c, res
}

// started is a guard that is claimed by generation 1 and started.
func started(t *testing.T, providerName string, env ...string) (*worker, *guard.Client) {
	t.Helper()
	w := spawn(t, env...)
	w.launch.Provider = providerName
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	return w, c
}

func (w *worker) turn(c *guard.Client, script string) {
	w.t.Helper()
	w.turns++
	err := c.Turn(within(w.t), wire.TurnParams{Turn: fmt.Sprintf("t-%d", w.turns), Number: w.turns, Prompt: script})
	if err != nil {
		w.t.Fatal(err)
	}
}

// next returns the next entry of one of the kinds.
func next(t *testing.T, c *guard.Client, kinds ...string) wire.Entry {
	t.Helper()
	ctx := within(t)
	for {
		select {
		case e, ok := <-c.Entries():
			if !ok {
				t.Fatalf("the connection ended before %v: %v", kinds, c.Err())
			}
			for _, k := range kinds {
				if e.Kind == k {
					return e
				}
			}
		case <-ctx.Done():
			t.Fatalf("no %v came", kinds)
		}
	}
}

func data[T any](t *testing.T, e wire.Entry) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		t.Fatalf("%s: %v", e.Kind, err)
	}
	return v
}

// spoken is the text of a turn up to its end. How many entries it is in depends
// on when it was said.
func spoken(t *testing.T, c *guard.Client) (text string, end wire.TurnFinished) {
	t.Helper()
	for {
		e := next(t, c, wire.KindText, wire.KindTurnFinished)
		if e.Kind == wire.KindTurnFinished {
			return text, data[wire.TurnFinished](t, e)
		}
		text += data[wire.Text](t, e).Text
	}
}

func finished(t *testing.T, c *guard.Client) wire.TurnFinished {
	t.Helper()
	return data[wire.TurnFinished](t, next(t, c, wire.KindTurnFinished))
}

func asked(t *testing.T, c *guard.Client) wire.Permission {
	t.Helper()
	return data[wire.Permission](t, next(t, c, wire.KindPermissionAsked))
}

// log reads the whole session log.
func (w *worker) log() []wire.Entry {
	w.t.Helper()
	r, err := runlog.Open(filepath.Join(w.dir, "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	var all []wire.Entry
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, wire.Entry{Log: r.LogID(), Seq: rec.Seq, At: rec.Time.UTC(), Kind: rec.Kind, Data: append(json.RawMessage(nil), rec.Data...)})
	}
}

// pidIn reads the identity whose pid a script wrote into the folder.
func (w *worker) pidIn(name string) proc.ID {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.folder, name))
	if err != nil {
		w.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(strings.TrimSpace(string(raw)), &pid); err != nil {
		w.t.Fatal(err)
	}
	id, err := proc.Identify(pid)
	if err != nil {
		w.t.Fatalf("process %d of the script: %v", pid, err)
	}
	return id
}

func ends(t *testing.T, what string, id proc.ID) {
	t.Helper()
	if err := id.Wait(within(t)); err != nil {
		t.Fatalf("%s (%v) still runs: %v", what, id, err)
	}
}

func code(t *testing.T, err error, want wire.Code) {
	t.Helper()
	if got := wire.CodeOf(err); got != want {
		t.Fatalf("code %q (%v), want %q", got, err, want)
	}
}
