//go:build unix

package service

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/agents"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
	"github.com/reevehq/reeve/service/provider/demo"
)

// The test binary is also the program of guards and of the demo agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "guard" && os.Args[2] == "--git" {
		os.Exit(guard.GitMain(context.Background(), guard.Options{Inner: os.Args[len(os.Args)-1] == "--inner", Now: Now}))
	}
	if len(os.Args) > 2 && os.Args[1] == "guard" {
		os.Exit(guard.Main(context.Background(), os.Args[len(os.Args)-1], guard.Options{
			Inner: os.Args[2] == "--inner", Now: Now, Look: 50 * time.Millisecond,
			Providers: func(string) (provider.Provider, error) { return demoAgent() },
		}))
	}
	if len(os.Args) == 2 && os.Args[1] == "demo-agent" {
		if demo.Main(context.Background(), os.Stdin, os.Stdout) != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func demoAgent() (*acp.Provider, error) {
	exe, err := os.Executable()
	return acp.Demo(exe), err
}

// house is a service behind its socket, with guards and the demo agent, all
// real. Tests call it as the socket does, with actors as the kernel would show
// them.
type house struct {
	t     *testing.T
	dir   string
	s     *Service
	ahead atomic.Int64 // of the clock, in ns
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir}
	h.open()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
		defer cancel()
		h.s.sup.StopAll(ctx)
		h.close()
		_ = os.RemoveAll(dir)
	})
	return h
}

// open begins a service on the state, as Run does.
func (h *house) open() {
	h.t.Helper()
	agent, err := demoAgent()
	exe, e := os.Executable()
	self, e2 := proc.Self()
	if err != nil || e != nil || e2 != nil {
		h.t.Fatal(err, e, e2)
	}
	s := &Service{
		o: Options{
			StateDir: filepath.Join(h.dir, "state"), Exe: exe, Socket: filepath.Join(h.dir, "s"), Version: "test",
			GuardEnv:  []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "GORACE=atexit_sleep_ms=0"},
			Providers: []provider.Provider{agent},
			Now: func() mission.Instant {
				now := Now()
				d := time.Duration(h.ahead.Load())
				now.Wall, now.Boot = now.Wall.Add(d), now.Boot+d
				return now
			},
		},
		log: slog.New(slog.DiscardHandler), windowEnds: time.NewTimer(time.Hour), life: context.Background(), agents: agents.In(filepath.Join(h.dir, "state")),
	}
	if testing.Verbose() {
		s.log = slog.New(slog.NewTextHandler(h.t.Output(), nil))
	}
	for _, dir := range []string{"", "attempts", "blobs", "run"} {
		if err := private.EnsureDir(s.path(dir)); err != nil {
			h.t.Fatal(err)
		}
	}
	if s.db, err = store.Open(s.path("reeve.db"), store.Options{AppVersion: "test"}); err != nil {
		h.t.Fatal(err)
	}
	s.blobs = store.OpenBlobs(s.path("blobs"))
	if s.id.Generation, err = s.db.BeginGeneration(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	if s.bindings, err = loadBindings(context.Background(), s.db); err != nil {
		h.t.Fatal(err)
	}
	s.compose(self)
	if _, err := s.sup.Adopt(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	h.s = s
}

func (h *house) close() {
	h.s.sup.Close()
	if err := h.s.db.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *house) restart() { h.close(); h.open() }

// checkout makes a repository.
func (h *house) checkout(name string) string {
	h.t.Helper()
	dir := filepath.Join(h.dir, name)
	cmd := exec.Command("git", "init", "-q", dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1") // not as this machine is set up
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// start starts a mission in a folder; project makes it one of several of a
// repository.
func (h *house) start(folder, scope, project string) supervisor.Record {
	h.t.Helper()
	agent, err := demoAgent()
	if err != nil {
		h.t.Fatal(err)
	}
	found := agent.Probe(context.Background(), nil)
	r, ask, err := h.s.sup.Propose(context.Background(), supervisor.Proposal{
		Terms:   mission.Terms{Provider: agent.Name(), Folder: folder, Scope: scope, Minutes: 15}.Normalize(),
		Program: supervisor.Program{Path: found.Path, Args: found.Args, Version: found.Version},
		Env:     map[string]string{"PATH": os.Getenv("PATH"), "HOME": h.dir}, Tree: checkout.Tree{Path: project},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.s.sup.Answer(context.Background(), ask.ID, ask.Digest, approvals.Answer{Answer: approval.Answer{Allow: true}}); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// asking waits until the agent of a mission asks in its n-th turn, and returns
// the mission: that turn is in flight, and goes on once this is answered.
func (h *house) asking(id string, n int) supervisor.Record {
	h.t.Helper()
	return h.until(id, "question of the agent", func(r supervisor.Record) bool {
		return len(r.Turns) >= n && h.question(id).ID != ""
	})
}

// question is what the agent asks, if anything.
func (h *house) question(id string) (out approvals.Record) {
	h.t.Helper()
	err := h.s.db.View(func(tx *store.Tx) error {
		waiting, err := approvals.Pending(tx, id)
		for _, a := range waiting {
			if a.Effect == "" {
				out = a
			}
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// goOn answers what the agent asks, so that its turn ends.
func (h *house) goOn(id string) {
	h.t.Helper()
	h.answer(h.question(id), approval.Answer{Allow: true})
}

func (h *house) answer(a approvals.Record, x approval.Answer) approvals.Record {
	h.t.Helper()
	out, err := h.s.sup.Answer(context.Background(), a.ID, a.Digest, approvals.Answer{Answer: x, Who: approvals.Who{Via: "program", Program: "test"}})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// until waits for a mission that satisfies ok.
func (h *house) until(id, what string, ok func(supervisor.Record) bool) supervisor.Record {
	h.t.Helper()
	limit := time.After(4 * time.Minute)
	for {
		changed := h.s.pulse.next()
		r, err := h.s.sup.Get(id)
		if err != nil {
			h.t.Fatal(err)
		}
		if ok(r) {
			return r
		}
		select {
		case <-changed:
		case <-limit:
			h.t.Fatalf("no %s: %s, %q, fault %q, %d turns", what, r.Phase, r.BlockedBy, r.Fault, len(r.Turns))
		}
	}
}

// actor is a process of a mission's worker, n of several.
func actor(r supervisor.Record, n int) server.Actor {
	return server.Actor{Worker: true, Mission: r.ID, PID: 1000 + n, Process: wire.Process{PID: 1000 + n, Start: 1, BootID: "test"}}
}

// at are the coordinates of a mission's turn in flight.
func at(r supervisor.Record) wire.Coordinates {
	return wire.Coordinates{Entry: r.ID, Attempt: r.Attempt, Execution: r.Bridge.Execution, Turn: r.Turns[len(r.Turns)-1].ID}
}
