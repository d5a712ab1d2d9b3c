package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// serveVar makes the test binary a service instead: it says how it goes.
const serveVar = "REEVE_CLI_TEST_SERVE"

func TestMain(m *testing.M) {
	if how := os.Getenv(serveVar); how != "" {
		os.Exit(serveFake(how))
	}
	goleak.VerifyTestMain(m)
}

// serveFake is what `reeve service run` is in these tests.
func serveFake(how string) int {
	if how == "damaged" {
		os.Stderr.WriteString("reeve: The database is damaged.\n")
		return ExitFailed
	}
	if how == "owned" {
		os.Stderr.WriteString("reeve: A service with pid 1 already runs.\n")
		return ExitOwned
	}
	path, err := sock.Path(os.Getenv)
	if err != nil {
		return 1
	}
	l, err := sock.Listen(path)
	if err != nil {
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &fake{hub: server.NewHub(3), stop: cancel}
	b.topics()
	s := server.New(l, b, b.hub, server.Options{Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	<-ctx.Done()
	s.Close(wire.ClosingShutdown)
	<-served
	return 0
}

// fake is a service in memory. It embeds the interface so that a method that no
// test expects panics.
type fake struct {
	server.Backend
	hub                          *server.Hub
	service, missions, approvals *server.Topic
	roomTopic, effectTopic       *server.Topic
	stop                         func()

	mu        sync.Mutex
	refuse    *wire.Error // what every mutation is answered with
	list      []wire.Mission
	asks      []wire.Approval
	log       []wire.Entry
	rooms     []wire.Room
	said      []wire.RoomMessage
	done      []wire.Effect
	settled   []wire.EffectSettleParams
	chain     wire.Keychain
	wanted    []string
	note      string // what the removal of a credential is answered with
	told      []any  // about credentials
	started   *wire.MissionStartParams
	recovered *wire.RecoverParams
	answers   []wire.AnswerParams
	steered   string
	verify    wire.AuditVerifyResult
	audit     []string // its entries
	onAudit   func()   // before each page
	checks    []wire.Check
	live      int // missions that run
	secrets   []wire.Credential
	onAnswer  func()
	onHistory func()
}

// with runs a test's look at, or change of, the service under its lock.
func (f *fake) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) taken() []wire.AnswerParams {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.answers)
}

func (f *fake) proposed() wire.MissionStartParams {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.started
}

func (f *fake) topics() {
	f.service = f.hub.Topic(wire.TopicService, func() ([]json.RawMessage, error) { return raws(wire.Service{State: "running"}), nil })
	f.missions = f.hub.Topic(wire.TopicMissions, func() ([]json.RawMessage, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return raws(f.list...), nil
	})
	f.approvals = f.hub.Topic(wire.TopicApprovals, func() ([]json.RawMessage, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return raws(f.asks...), nil
	})
	f.roomTopic = f.hub.Topic(wire.TopicRooms, func() ([]json.RawMessage, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return raws(f.rooms...), nil
	})
	f.effectTopic = f.hub.Topic(wire.TopicEffects, func() ([]json.RawMessage, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return raws(f.done...), nil
	})
}

func raws[T any](items ...T) []json.RawMessage {
	var out []json.RawMessage
	for _, it := range items {
		b, err := json.Marshal(it)
		if err != nil {
			panic(err)
		}
		out = append(out, b)
	}
	return out
}

func (f *fake) Actor(sock.Peer) server.Actor                     { return server.Actor{Program: "reeve"} }
func (f *fake) Confirm(_ sock.Peer, a server.Actor) server.Actor { return a }
func (f *fake) Fenced() *wire.Error                              { return nil }

func (f *fake) Identity() wire.NegotiateResult {
	return wire.NegotiateResult{ProtocolVersion: 2, Generation: 3, PID: 1, StartedAt: time.Unix(1, 0), AppVersion: "1.0.0"}
}
func (f *fake) Status(context.Context) (wire.Service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wire.Service{State: "running", Version: "1.0.0", Generation: 3, PID: 42, Socket: "/s", StateDir: "/d", StartedAt: at(13, 0), Live: f.live}, nil
}
func (f *fake) PrepareUpdate(context.Context, server.Actor, wire.PrepareUpdateParams, <-chan struct{}) (wire.PrepareUpdateResult, error) {
	return wire.PrepareUpdateResult{State: "prepared", GoOn: 2, Finished: 1, Interrupted: 1, Until: time.Unix(91, 0).UTC()}, nil
}
func (f *fake) CommitUpdate(context.Context, server.Actor, <-chan struct{}) (wire.UpdateResult, error) {
	return wire.UpdateResult{State: "committed"}, nil
}
func (f *fake) CancelUpdate(context.Context, server.Actor, <-chan struct{}) (wire.UpdateResult, error) {
	return wire.UpdateResult{State: "cancelled"}, nil
}
func (f *fake) Stop(context.Context, server.Actor, wire.ServiceStopParams) (wire.ServiceStopResult, error) {
	f.stop()
	return wire.ServiceStopResult{Stopping: true, GoingOn: 1}, nil
}
func (f *fake) CredentialList(context.Context) (wire.CredentialListResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wire.CredentialListResult{Credentials: slices.Clone(f.secrets), Keychain: f.chain, Wanted: f.wanted}, nil
}
func (f *fake) CredentialRemove(_ context.Context, _ server.Actor, p wire.CredentialRemoveParams) (wire.CredentialListResult, error) {
	f.mu.Lock()
	f.secrets = slices.DeleteFunc(f.secrets, func(c wire.Credential) bool { return c.Name == p.Name })
	f.mu.Unlock()
	r, err := f.CredentialList(context.Background())
	r.Note = f.note
	return r, err
}
func (f *fake) Check(context.Context) (wire.CheckResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wire.CheckResult{Checks: slices.Clone(f.checks)}, nil
}
func (f *fake) AuditVerify(context.Context) (wire.AuditVerifyResult, error) { return f.verify, nil }

// AuditRead tells two entries a page.
func (f *fake) AuditRead(_ context.Context, p wire.AuditReadParams) (wire.AuditReadResult, error) {
	f.mu.Lock()
	do := f.onAudit
	f.mu.Unlock()
	if do != nil {
		do()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil && p.After > 0 {
		return wire.AuditReadResult{}, f.refuse
	}
	next := min(p.After+2, uint64(len(f.audit)))
	r := wire.AuditReadResult{Entries: []json.RawMessage{}, Next: next, More: next < uint64(len(f.audit))}
	for _, line := range f.audit[p.After:next] {
		r.Entries = append(r.Entries, json.RawMessage(line))
	}
	return r, nil
}
func (f *fake) ProviderAdd(_ context.Context, _ server.Actor, p wire.ProviderAddParams) (wire.ProviderResult, error) {
	return wire.ProviderResult{Provider: wire.Provider{Name: "acp:" + p.Name, Title: p.Name, Own: true, Problem: p.Name + " is not installed: there is no program " + p.Command + ".", Fix: "Install it."}}, nil
}
func (f *fake) ProviderRemove(_ context.Context, _ server.Actor, p wire.ProviderRemoveParams) (wire.ProviderResult, error) {
	return wire.ProviderResult{Provider: wire.Provider{Name: "acp:" + p.Name, Title: p.Name, Own: true}}, nil
}
func (f *fake) ProviderList(context.Context, wire.ProviderListParams) (wire.ProviderListResult, error) {
	no := false
	yes := true
	return wire.ProviderListResult{Providers: []wire.Provider{{Name: "claude", Title: "Claude Code", Found: true, Version: "2.1", SignedIn: &no, Problem: "It is not signed in.", Fix: "Run claude once."},
		{Name: "acp:demo", Title: "Demo agent", Found: true, Path: "/bin/reeve", Version: "1", SignedIn: &yes}}}, nil
}

func (f *fake) find(id string) (int, *wire.Error) {
	i := slices.IndexFunc(f.list, func(m wire.Mission) bool { return strings.HasSuffix(m.ID, id) })
	if i < 0 {
		return 0, wire.Errorf(wire.CodeNotFound, "There is no mission %s. Run reeve ls.", id)
	}
	return i, nil
}

func (f *fake) MissionStart(_ context.Context, _ server.Actor, p wire.MissionStartParams) (wire.MissionStartResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = &p
	if f.refuse != nil {
		return wire.MissionStartResult{}, f.refuse
	}
	return wire.MissionStartResult{Mission: f.list[0], Approval: f.asks[0]}, nil
}
func (f *fake) MissionRecover(_ context.Context, _ server.Actor, p wire.RecoverParams) (wire.MissionStartResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recovered = &p
	return wire.MissionStartResult{Mission: f.list[0], Approval: f.asks[0]}, nil
}
func (f *fake) MissionList(context.Context, wire.MissionListParams) (wire.MissionListResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wire.MissionListResult{Missions: slices.Clone(f.list)}, nil
}
func (f *fake) MissionGet(_ context.Context, p wire.IDParams) (wire.MissionResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(p.ID)
	if err != nil {
		return wire.MissionResult{}, err
	}
	return wire.MissionResult{Mission: f.list[i]}, nil
}
func (f *fake) MissionSteer(_ context.Context, _ server.Actor, p wire.SteerParams) (wire.MissionResult, error) {
	f.with(func() { f.steered = p.Text })
	return f.change(p.ID)
}
func (f *fake) MissionPause(_ context.Context, _ server.Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return f.change(p.ID)
}
func (f *fake) MissionStop(_ context.Context, _ server.Actor, p wire.MissionParams) (wire.MissionResult, error) {
	return f.change(p.ID)
}
func (f *fake) change(id string) (wire.MissionResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return wire.MissionResult{}, f.refuse
	}
	i, err := f.find(id)
	if err != nil {
		return wire.MissionResult{}, err
	}
	return wire.MissionResult{Mission: f.list[i]}, nil
}
func (f *fake) ApprovalList(context.Context, wire.ApprovalListParams) (wire.ApprovalListResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wire.ApprovalListResult{Approvals: slices.Clone(f.asks)}, nil
}
func (f *fake) ApprovalGet(_ context.Context, p wire.IDParams) (wire.ApprovalResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asks {
		if strings.HasSuffix(a.ID, p.ID) {
			return wire.ApprovalResult{Approval: a}, nil
		}
	}
	return wire.ApprovalResult{}, wire.Errorf(wire.CodeNotFound, "There is no approval %s.", p.ID)
}
func (f *fake) ApprovalAnswer(_ context.Context, _ server.Actor, p wire.AnswerParams) (wire.ApprovalResult, error) {
	f.mu.Lock()
	f.answers = append(f.answers, p)
	a := f.asks[0]
	f.mu.Unlock()
	if p.Digest != a.Digest {
		return wire.ApprovalResult{}, wire.Errorf(wire.CodeApprovalMismatch, "The request changed; look at it again.")
	}
	a.State = "denied"
	if p.Allow {
		a.State = "allowed"
	}
	if do := f.onAnswer; do != nil {
		do()
	}
	return wire.ApprovalResult{Approval: a}, nil
}
func (f *fake) Session(_ context.Context, id string) (server.SessionRef, error) {
	return server.SessionRef{Session: "s-1", Mission: "m-01aaaaaa"}, nil
}
func (f *fake) History(_ context.Context, _ string, after *wire.Cursor, emit func(wire.Entry) bool) (wire.Cursor, error) {
	at := wire.Cursor{Log: "a-1"}
	if f.onHistory != nil {
		f.onHistory()
	}
	for _, e := range f.log {
		if after != nil && e.Seq <= after.Sequence {
			continue
		}
		if !emit(e) {
			break
		}
		at.Sequence = e.Seq
	}
	return at, nil
}

var zone = time.FixedZone("here", 2*3600)

func at(hour, minute int) time.Time { return time.Date(2026, 3, 4, hour, minute, 0, 0, zone) }

func ptr[T any](v T) *T { return &v }

// world is where a test's commands run.
type world struct {
	secrets  []string // what is typed without an echo
	t        *testing.T
	vars     map[string]string
	terminal bool
	exe      string
	stdin    string
	fake     *fake
	sample   func(string) error
	state    []wire.Check // what is found without a service
	ctx      context.Context
	onOutput func(string) // hears of all that is printed
	manager  Manager
	outlived []string
	purged   []string // states that were removed
}

// listener is a buffer that tells what is written to it.
type listener struct {
	bytes.Buffer
	heard func(string)
}

func (l *listener) Write(b []byte) (int, error) {
	if l.heard != nil {
		l.heard(string(b))
	}
	return l.Buffer.Write(b)
}

// newWorld makes a world with a service of which the test says what it knows.
func newWorld(t *testing.T, f *fake) *world {
	t.Helper()
	w := quietWorld(t)
	if f == nil {
		return w
	}
	w.fake = f
	f.hub = server.NewHub(3)
	f.topics()
	path, err := sock.Path(w.getenv)
	if err != nil {
		t.Fatal(err)
	}
	l, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(l, f, f.hub, server.Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	served := make(chan struct{})
	go func() {
		defer close(served)
		go func() { <-ctx.Done(); s.Close(wire.ClosingShutdown) }()
		_ = s.Serve(ctx)
	}()
	t.Cleanup(func() { cancel(); s.Close(wire.ClosingShutdown); <-served })
	return w
}

func quietWorld(t *testing.T) *world {
	dir, err := os.MkdirTemp("", "rv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &world{t: t, vars: map[string]string{"REEVE_STATE": dir + "/state", "HOME": "/home/me", "PATH": "/bin", "SECRET_TOKEN": "x"}}
}

func (w *world) getenv(name string) string { return w.vars[name] }

// run runs one command and returns its exit code and what it printed.
func (w *world) run(args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	var errs bytes.Buffer
	out := listener{heard: w.onOutput}
	if w.ctx == nil {
		w.ctx = w.t.Context()
	}
	env := Env{Args: args, Stdin: strings.NewReader(w.stdin), Stdout: &out, Stderr: &errs, Getenv: w.getenv,
		InTerminal: func() bool { return w.terminal }, OutTerminal: func() bool { return w.terminal },
		ReadSecret: w.readSecret,
		Version:    "1.0.0", Exe: w.exe, Now: func() time.Time { return at(15, 5) },
		Serve: func(_ context.Context, o ServeOptions) error {
			_, err := io.WriteString(o.Log, "serving "+o.StateDir+" "+o.Socket+"\n")
			return err
		},
		Guard:      func(_ context.Context, args []string) int { out.WriteString(strings.Join(args, "|")); return 9 },
		DemoAgent:  func(context.Context) int { return 0 },
		Sample:     func(dir string) error { return w.sample(dir) },
		CheckState: func(context.Context, string) []wire.Check { return w.state },
		Manager:    w.manager,
		Outlived:   func(string) ([]string, error) { return w.outlived, nil },
		PurgeState: func(dir string) ([]string, error) {
			w.purged = append(w.purged, dir)
			return []string{dir + "/mine"}, nil
		},
	}
	code = Main(w.ctx, env)
	return code, out.String(), errs.String()
}

// expect runs a command and checks its exit code and that both outputs contain
// what they must.
func (w *world) expect(code int, stdout, stderr string, args ...string) (out, errs string) {
	w.t.Helper()
	got, out, errs := w.run(args...)
	if got != code || !strings.Contains(out, stdout) || !strings.Contains(errs, stderr) || stderr == "" && errs != "" {
		w.t.Errorf("reeve %s: exit %d, want %d\nstdout %q\n  want %q\nstderr %q\n  want %q", strings.Join(args, " "), got, code, out, stdout, errs, stderr)
	}
	return out, errs
}

func sign(a wire.Approval, sub approval.Subject) wire.Approval {
	a.Subject = raws(sub)[0]
	d, err := approval.Digest(approval.Envelope{ID: a.ID, Kind: approval.Kind(a.Kind), Mission: a.Mission, Attempt: a.Attempt, Turn: a.TurnNo, Subject: sub})
	if err != nil {
		panic(err)
	}
	a.Digest = d
	return a
}

// populated is a service with a mission that waits for a command, one that
// works, and one that is done.
func populated() *fake {
	f := &fake{}
	f.list = []wire.Mission{
		{ID: "m-01aaaaaa", Title: "Port parser to Go", Phase: "working", Provider: "claude", ActualModel: "opus", Folder: "/home/me/code/parser", Scope: "Port the parser.\nKeep names.",
			Minutes: 60, CreatedAt: at(14, 17), StartedAt: ptr(at(14, 17)), DeadlineAt: ptr(at(15, 17)), Turn: 1, ToolCalls: 18, Session: "s-1",
			Usage: wire.Usage{Input: ptr(int64(212_000)), CostUSD: ptr(1.84)}, Unasked: []string{"reads"},
			Limits: wire.Limits{MemoryMB: 2048, CPUMinutes: 30}, Resources: &wire.Resources{MemoryBytes: 412 << 20, PeakBytes: 611 << 20, CPUSeconds: 72, Processes: 3},
			Turns:    []wire.TurnInfo{{ID: "t-1", Number: 1, StartedAt: at(14, 17), Tools: 18}},
			Steering: []wire.Steering{{ID: 1, Text: "Keep offsets.", State: "applied", Turn: 1}}},
		{ID: "m-01bbbbbb", Title: "日付を直す", Phase: "working", Provider: "acp:opencode", Folder: "/x/infra", CreatedAt: at(14, 0), StartedAt: ptr(at(14, 0)), DeadlineAt: ptr(at(18, 0)),
			Activity: &wire.Activity{Tool: "Edit", Detail: "evil\x1b[2J.go"}},
		{ID: "m-01cccccc", Title: "Fix flaky test", Phase: "completed", Provider: "claude", Folder: "/x/shop", StartedAt: ptr(at(14, 0)), EndedAt: ptr(at(14, 38)), EndReason: "scope_done", LastResult: "3 files changed"},
	}
	f.asks = []wire.Approval{sign(wire.Approval{ID: "q-01dddddd", Kind: "tool_call", Mission: "m-01aaaaaa", Title: "Port parser to Go", Provider: "claude",
		Folder: "/home/me/code/parser", Attempt: "a-1", TurnNo: 1, CreatedAt: at(15, 4), State: "pending"},
		approval.Subject{Tool: "Bash", Command: "go test ./... && rm -rf build\u200b", Cwd: "/home/me/code/parser"})}
	entry := func(seq uint64, kind string, data any) wire.Entry {
		return wire.Entry{Log: "a-1", Seq: seq, At: at(14, 20), Kind: kind, Data: raws(data)[0]}
	}
	f.log = []wire.Entry{
		entry(1, wire.KindTurnStarted, wire.TurnStarted{Turn: "t-1", Number: 1, Steering: []string{"Keep offsets."}}),
		entry(2, wire.KindText, wire.Text{Text: "I'll start "}), entry(3, wire.KindText, wire.Text{Text: "with\x1b[31m the lexer."}),
		entry(4, wire.KindToolStarted, wire.ToolStarted{Call: "c", Tool: "Bash", Command: "go vet ./..."}),
		entry(5, wire.KindToolFinished, wire.ToolFinished{Call: "c", Status: "failed", Exit: ptr(1), Output: "undefined: eof\n", Seconds: 1.8}),
		entry(6, wire.KindTurnFinished, wire.TurnFinished{Turn: "t-1", Outcome: "succeeded", Seconds: 60, Usage: wire.Usage{Input: ptr(int64(64_000))}}),
	}
	return f
}
