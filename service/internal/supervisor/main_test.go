//go:build unix

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/credential"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
	"github.com/reevehq/reeve/service/provider/demo"
)

// The test binary is also the program of guards and of the demo agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "guard" && os.Args[2] == "--git" {
		os.Exit(guard.GitMain(context.Background(), guard.Options{Inner: os.Args[len(os.Args)-1] == "--inner", Now: machine}))
	}
	if len(os.Args) > 2 && os.Args[1] == "guard" {
		o := guard.Options{
			Inner: os.Args[2] == "--inner", Now: machine, Look: 50 * time.Millisecond,
			Providers: func(string) (provider.Provider, error) { return demoProvider() },
		}
		if file := os.Getenv("TEST_SPENDS"); file != "" {
			o.Providers = func(string) (provider.Provider, error) {
				agent, err := demoProvider()
				return spender{agent, file}, err
			}
		}
		if os.Getenv("TEST_PROTOCOL") == "1" {
			o.Protocols = []int{1}
		}
		os.Exit(guard.Main(context.Background(), os.Args[len(os.Args)-1], o))
	}
	if len(os.Args) == 2 && os.Args[1] == "demo-agent" {
		if demo.Main(context.Background(), os.Stdin, os.Stdout) != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func demoProvider() (*acp.Provider, error) {
	exe, err := os.Executable()
	return acp.Demo(exe), err
}

func machine() mission.Instant {
	now := mission.Instant{Wall: time.Now()}
	if boot, id, err := proc.BootTime(); err == nil {
		now.Boot, now.BootID = boot, id
	}
	return now
}

// house is a supervisor with its state, guards and the demo agent, all real.
type house struct {
	t       *testing.T
	dir     string
	db      *store.DB
	s       *Supervisor
	exe     string       // what runs guards; "": this program
	env     []string     // of its guards, beside the usual
	clock   atomic.Int64 // what the service's clock is ahead, in ns
	allow   atomic.Bool  // what agents ask is allowed at once
	answers sync.WaitGroup
	// keychain is that of the next service; nil: it knows no credentials.
	keychain credential.Keeper
	vars     []mission.Variable // that the agent documents
	own      map[string]string  // variables of who proposes, beside the usual

	mu      sync.Mutex
	changed chan struct{}
	records map[string]Record
	asks    map[string]approvals.Record
}

func newHouse(t *testing.T) *house {
	t.Helper()
	// Sockets have short names, so their directory has one too.
	dir, err := os.MkdirTemp("", "sup")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir, changed: make(chan struct{}), records: map[string]Record{}, asks: map[string]approvals.Record{}}
	for _, d := range []string{"", "run", "attempts", "blobs"} {
		if err := os.MkdirAll(filepath.Join(h.dir, "state", d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.open()
	t.Cleanup(func() {
		h.update(func() { h.allow.Store(false) }) // from now on nobody begins to answer
		h.answers.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		h.s.StopAll(ctx)
		h.close()
		for _, g := range h.guards() {
			// What was told to end may be a moment from its end.
			if err := errors.Join(proc.ID(g.Process).Wait(ctx), proc.ID(g.Keeper).Wait(ctx)); err != nil {
				t.Errorf("the guard %d or its keeper is left: %v", g.PID, err)
				_ = proc.ID(g.Process).Signal(os.Kill)
			}
		}
		_ = os.RemoveAll(dir)
	})
	return h
}

func (h *house) state() string { return filepath.Join(h.dir, "state") }

func (h *house) now() mission.Instant {
	now := machine()
	d := time.Duration(h.clock.Load())
	now.Wall, now.Boot = now.Wall.Add(d), now.Boot+d
	return now
}

// open begins a service's part: database, generation, supervisor, adoption.
func (h *house) open() {
	h.t.Helper()
	db, err := store.Open(filepath.Join(h.state(), "reeve.db"), store.Options{AppVersion: "test"})
	if err != nil {
		h.t.Fatal(err)
	}
	generation, err := db.BeginGeneration(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	exe := h.exe
	if exe == "" {
		if exe, err = os.Executable(); err != nil {
			h.t.Fatal(err)
		}
	}
	self, err := proc.Self()
	if err != nil {
		h.t.Fatal(err)
	}
	agent, err := demoProvider()
	if err != nil {
		h.t.Fatal(err)
	}
	h.db = db
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(h.t.Output(), nil))
	}
	var broker *credential.Broker
	if h.keychain != nil {
		if broker, err = credential.Open(credential.Options{DB: db, Keychain: h.keychain, Now: time.Now, Changed: func() {}}); err != nil {
			h.t.Fatal(err)
		}
	}
	h.s = New(Options{
		Credentials: broker,
		DB:          db, Blobs: store.OpenBlobs(filepath.Join(h.state(), "blobs")), StateDir: h.state(), Generation: generation, Self: self, Exe: exe,
		GuardEnv: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "GORACE=atexit_sleep_ms=0"}, h.env...),
		Provider: func(string) provider.Provider { return agent }, Now: h.now, Log: log,
		Announce: Announcer{Mission: h.told, Approval: h.asked, Entry: func(string, wire.Entry) {}},
	})
}

func (h *house) close() {
	h.s.Close()
	if b := h.s.Credentials; b != nil {
		b.Close()
	}
	if err := h.db.Close(); err != nil {
		h.t.Error(err)
	}
}

// told checks what is announced: never more than is journaled.
func (h *house) told(r Record) {
	var kept Record
	err := h.db.View(func(tx *store.Tx) (err error) { kept, _, err = Load(tx, r.ID); return })
	if err != nil || kept.Revision < r.Revision || kept.Revision == r.Revision && kept.Phase != r.Phase {
		h.t.Errorf("announced %s at %d, journaled %s at %d, %v", r.Phase, r.Revision, kept.Phase, kept.Revision, err)
	}
	h.update(func() { h.records[r.ID] = r })
}

func (h *house) asked(a approvals.Record) {
	var kept approvals.Record
	err := h.db.View(func(tx *store.Tx) (err error) { kept, _, err = approvals.Get(tx, a.ID); return })
	if err != nil || a.State != approval.Pending && kept.State != a.State && kept.State != approval.Stale {
		h.t.Errorf("announced %s, journaled %s, %v", a.State, kept.State, err)
	}
	h.update(func() {
		h.asks[a.ID] = a
		if a.State == approval.Pending && a.Kind != approval.MissionStart && a.Kind != approval.MissionRecover && h.allow.Load() {
			h.answers.Go(func() { _, _ = h.answer(a, approval.Answer{Allow: true}) })
		}
	})
}

func (h *house) update(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *house) answer(a approvals.Record, x approval.Answer) (approvals.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return h.s.Answer(ctx, a.ID, a.Digest, approvals.Answer{Answer: x, Who: approvals.Who{Via: "program", Program: "test"}})
}

// until waits for a record that satisfies ok.
func (h *house) until(id, what string, ok func(Record) bool) Record {
	h.t.Helper()
	limit := time.After(patience)
	for {
		h.mu.Lock()
		r, changed := h.records[id], h.changed
		h.mu.Unlock()
		if r.ID != "" && ok(r) {
			return r
		}
		select {
		case <-changed:
		case <-limit:
			h.t.Fatalf("no %s: %s, %q, fault %q, failure %+v", what, r.Phase, r.BlockedBy, r.Fault, r.Failure)
		}
	}
}

func (h *house) phase(id string, want ...mission.Phase) Record {
	h.t.Helper()
	return h.until(id, fmt.Sprint(want), func(r Record) bool {
		for _, p := range want {
			if r.Phase == p {
				return true
			}
		}
		return false
	})
}

// lost waits until a mission whose guard was killed can be recovered. On a busy
// machine it is blocked before that, as one whose guard may still be running.
func (h *house) lost(id string) Record {
	h.t.Helper()
	return h.until(id, "loss", func(r Record) bool { return r.Phase == mission.Blocked && r.Guard == mission.GuardGone })
}

// waits returns an approval of the mission that waits.
func (h *house) waits(id string) approvals.Record {
	h.t.Helper()
	limit := time.After(patience)
	for {
		h.mu.Lock()
		changed := h.changed
		for _, a := range h.asks {
			if a.Mission == id && a.State == approval.Pending {
				h.mu.Unlock()
				return a
			}
		}
		h.mu.Unlock()
		select {
		case <-changed:
		case <-limit:
			h.t.Fatal("nothing waits")
		}
	}
}

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

// propose proposes a mission for the demo agent in a checkout of its own.
func (h *house) propose(name, scope string) (Record, approvals.Record) {
	h.t.Helper()
	return h.proposeWith(name, scope, mission.Limits{})
}

func (h *house) proposeWith(name, scope string, limits mission.Limits) (Record, approvals.Record) {
	h.t.Helper()
	agent, err := demoProvider()
	if err != nil {
		h.t.Fatal(err)
	}
	found := agent.Probe(context.Background(), nil)
	env := merged(map[string]string{"PATH": os.Getenv("PATH"), "HOME": h.dir}, h.own)
	terms := mission.Terms{Provider: agent.Name(), Folder: h.checkout(name), Scope: scope, Minutes: 15, Limits: limits}.Normalize()
	r, ask, err := h.s.Propose(context.Background(), Proposal{
		Terms: terms, Program: Program{Path: found.Path, Args: found.Args, Version: found.Version},
		Env: env, Vars: h.vars,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r, ask
}

// begin starts a mission and waits until its first turn is under way.
func (h *house) begin(name, scope string) Record {
	h.t.Helper()
	return h.beginWith(name, scope, mission.Limits{})
}

func (h *house) beginWith(name, scope string, limits mission.Limits) Record {
	h.t.Helper()
	r, ask := h.proposeWith(name, scope, limits)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		h.t.Fatal(err)
	}
	return h.until(r.ID, "turn", func(r Record) bool { return len(r.Turns) > 0 })
}

func (h *house) guardOf(r Record) wire.GuardRecord {
	h.t.Helper()
	g, err := guard.ReadRecord(h.s.attemptDir(r.Attempt))
	if err != nil {
		h.t.Fatal(err)
	}
	return g
}

func (h *house) guards() []wire.GuardRecord {
	var out []wire.GuardRecord
	dirs, _ := filepath.Glob(filepath.Join(h.state(), "attempts", "*"))
	for _, d := range dirs {
		if g, err := guard.ReadRecord(d); err == nil {
			out = append(out, g)
		}
	}
	return out
}

func (h *house) signal(g wire.GuardRecord, sig syscall.Signal) {
	h.t.Helper()
	if err := proc.ID(g.Process).Signal(sig); err != nil && !errors.Is(err, proc.ErrGone) {
		h.t.Fatal(err)
	}
}

// owned tells who owns a checkout.
func (h *house) owned(folder string) string {
	h.t.Helper()
	var owner string
	err := h.db.View(func(tx *store.Tx) error {
		if c, ok, err := store.GetJSON[struct{ Mission string }](tx, "claims", folder); err != nil {
			return err
		} else if ok {
			owner = c.Mission
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return owner
}

// patience is a safety net, not a measure: a machine that is busy with other
// things may stand still for a long time.
const patience = 4 * time.Minute

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
