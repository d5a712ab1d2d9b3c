// Package supervisor runs missions: it proposes, starts, schedules turns,
// ingests what guards report, delivers answers, pauses, stops and settles.
//
// One goroutine owns one live mission and its record. Everything that changes
// a mission is a function sent to that goroutine; it changes a copy, journals
// it, and only then keeps and announces it. Calls to a guard run beside the
// goroutine and come back as functions, so that a mission never waits for its
// guard while the guard waits to be read.
//
// Lock order: Supervisor.mu is a leaf; it guards the maps and is never held
// while the journal or a guard is called.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/provider"
)

// MaxLive is how many missions may be live at once.
const MaxLive = 64

// Options is what a supervisor needs of its service.
type Options struct {
	DB         *store.DB
	Blobs      *store.Blobs
	StateDir   string
	Generation uint64
	Self       proc.ID
	// Exe is the reeve binary that runs guards.
	Exe       string
	GuardEnv  []string
	Providers map[string]provider.Provider
	Now       func() mission.Instant
	Log       *slog.Logger
	Announce  Announcer
}

// Announcer tells the world what was journaled. The functions must not block.
type Announcer struct {
	Mission  func(Record)
	Approval func(approvals.Record)
	Entry    func(session string, e wire.Entry)
}

// Supervisor owns every mission of the service.
type Supervisor struct {
	Options
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	workers map[string]*worker
	ended   int                          // workers that were forgotten
	secrets map[string]map[string]string // by mission, never written anywhere
	closed  bool
}

// New makes a supervisor. Close ends it.
func New(o Options) *Supervisor {
	s := &Supervisor{Options: o, workers: map[string]*worker{}, secrets: map[string]map[string]string{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close lets go of every mission and waits. Guards and their turns go on.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// NewID makes an id: a letter, a dash and a lower-case ULID.
func NewID(kind string) string { return kind + "-" + strings.ToLower(ulid.Make().String()) }

func (s *Supervisor) attemptDir(attempt string) string {
	return filepath.Join(s.StateDir, "attempts", attempt)
}

// LogPath is where the session log of an attempt lies.
func (s *Supervisor) LogPath(attempt string) string {
	return filepath.Join(s.attemptDir(attempt), "log")
}

// now is the wall clock in UTC, without a monotonic part.
func (s *Supervisor) now() time.Time { return s.Now().Wall.Round(0).UTC() }

// Proposal is a mission that a client wants to start. Terms are normalized and
// checked, Folder resolved.
type Proposal struct {
	Terms   mission.Terms
	Program Program
	Env     map[string]string
	Vars    []mission.Variable
	Notes   []string
	GitExec []string
}

// Propose journals a proposed mission together with the approval it waits for.
func (s *Supervisor) Propose(ctx context.Context, p Proposal) (Record, approvals.Record, error) {
	at := s.now()
	plain, secrets := environment(p.Env, p.Vars)
	text := mission.Instructions(p.Terms)
	r := Record{
		ID: NewID("m"), Title: mission.Title(p.Terms.Scope), Terms: p.Terms, Provider: p.Program, Env: plain,
		Phase: mission.Proposed, CreatedAt: at, Instructions: mission.InstructionDigest(text), Revision: 1,
	}
	r.Secrets = slices.Sorted(maps.Keys(secrets))
	subject := approval.Subject{
		Title: "Start a mission", Cwd: p.Terms.Folder,
		Mission: &approval.MissionSubject{
			Provider: p.Terms.Provider, ProviderPath: p.Program.Path, ProviderVersion: p.Program.Version,
			Model: p.Terms.Model, Endpoint: p.Terms.Endpoint, Folder: p.Terms.Folder, Scope: p.Terms.Scope,
			Minutes: p.Terms.Minutes, Budget: approval.Budget(p.Terms.Budget), Worktree: p.Terms.Worktree,
			Instructions: text, EnvNames: names(plain, r.Secrets), GitExecutableConfig: p.GitExec, Notes: p.Notes,
			Prompt: mission.TurnPrompt(mission.PromptInput{Scope: p.Terms.Scope, EndsAt: at.Add(time.Duration(p.Terms.Minutes) * time.Minute), Turn: 1, Local: true}),
		},
	}
	for _, u := range p.Terms.Unasked {
		subject.Mission.Unasked = append(subject.Mission.Unasked, string(u))
	}
	ask := approvals.Record{ID: NewID("p"), Kind: approval.MissionStart, Mission: r.ID, CreatedAt: at}
	var err error
	if ask.Digest, err = approval.Digest(approval.Envelope{ID: ask.ID, Kind: ask.Kind, Mission: r.ID, Subject: subject}); err != nil {
		return Record{}, approvals.Record{}, wire.Errorf(wire.CodeInvalidParams, "The terms can't be put before a person: %v.", err)
	}
	if ask.Subject, err = packSubject(subject, s.Blobs); err != nil {
		return Record{}, approvals.Record{}, err
	}
	err = s.DB.Update(ctx, func(tx *store.Tx) error {
		if err := save(tx, r); err != nil {
			return err
		}
		if err := approvals.Ask(tx, ask); err != nil {
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: r.ID, Text: "proposed"})
	})
	if errors.Is(err, approvals.ErrFull) || errors.Is(err, approvals.ErrProposed) {
		return Record{}, approvals.Record{}, wire.Errorf(wire.CodeLimitExceeded, "%v.", err)
	}
	if err != nil {
		return Record{}, approvals.Record{}, err
	}
	fault.Point("service.proposal-journaled")
	ask.State = approval.Pending
	if secrets != nil {
		s.mu.Lock()
		s.secrets[r.ID] = secrets
		s.mu.Unlock()
	}
	s.Announce.Mission(r)
	s.Announce.Approval(ask)
	return r, ask, nil
}

// errEnded: some mission ended meanwhile, so a record that was read before may
// be older than the journal.
var errEnded = errors.New("a mission ended meanwhile")

// worker returns the goroutine of a live mission, starting it if need be.
// ended is what s.ended was before r was read: a goroutine that began with the
// record of a mission that ended since would bring it back to life.
func (s *Supervisor) worker(r Record, ended int) (*worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, wire.Errorf(wire.CodeShuttingDown, "The service is shutting down; try again when it runs.")
	}
	if w := s.workers[r.ID]; w != nil {
		return w, nil
	}
	if s.ended != ended {
		return nil, errEnded
	}
	w := newWorker(s, r)
	s.workers[r.ID] = w
	s.wg.Go(w.run)
	return w, nil
}

// haveSecrets says whether every secret variable of a mission is in memory.
func (s *Supervisor) haveSecrets(r Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets[r.ID]) == len(r.Secrets)
}

func (s *Supervisor) lookup(id string) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[id]
}

func (s *Supervisor) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workers, id)
	delete(s.secrets, id)
	s.ended++
}

// Get returns a mission, as its worker has it when it is live.
func (s *Supervisor) Get(id string) (Record, error) {
	if w := s.lookup(id); w != nil {
		return w.snapshot(), nil
	}
	var r Record
	var ok bool
	err := s.DB.View(func(tx *store.Tx) (err error) { r, ok, err = Load(tx, id); return })
	if err == nil && !ok {
		err = wire.Errorf(wire.CodeNotFound, "There is no mission %s; run reeve ls to see them.", id)
	}
	return r, err
}

// List returns up to limit missions, newest first, from before the given id.
func (s *Supervisor) List(before string, limit int) (out []Record, more bool, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		var from []byte
		if before != "" {
			from = []byte(before)
		}
		return tx.ScanReverse(bucket, from, func(k, v []byte) (bool, error) {
			if string(k) == before {
				return true, nil
			}
			if len(out) == limit {
				more = true
				return false, nil
			}
			r, _, err := Load(tx, string(k))
			out = append(out, r)
			return true, err
		})
	})
	for i, r := range out {
		if w := s.lookup(r.ID); w != nil {
			out[i] = w.snapshot()
		}
	}
	return out, more, err
}

// do runs fn on the goroutine of a live mission.
func (s *Supervisor) do(ctx context.Context, id string, fn func(w *worker) error) error {
	for {
		s.mu.Lock()
		ended := s.ended
		s.mu.Unlock()
		r, err := s.Get(id)
		if err != nil {
			return err
		}
		if r.Phase.Terminal() {
			return wire.Errorf(wire.CodeConflict, "The mission has ended (%s); start a new one.", phaseWords(r))
		}
		w, err := s.worker(r, ended)
		if errors.Is(err, errEnded) {
			continue
		}
		if err != nil {
			return err
		}
		return w.do(ctx, fn)
	}
}

func phaseWords(r Record) string {
	if r.EndReason != "" {
		return fmt.Sprintf("%s, %s", r.Phase, r.EndReason)
	}
	return string(r.Phase)
}

// Guards tells which process trees belong to workers, for judging who may
// decide; the key is the mission.
func (s *Supervisor) Guards() map[string]proc.Guarded {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]proc.Guarded{}
	for id, w := range s.workers {
		if g, ok := w.guarded(); ok {
			out[id] = g
		}
	}
	return out
}

// Live counts missions that own or may own a checkout.
func (s *Supervisor) Live() int {
	n := 0
	s.mu.Lock()
	workers := make([]*worker, 0, len(s.workers))
	for _, w := range s.workers {
		workers = append(workers, w)
	}
	s.mu.Unlock()
	for _, w := range workers {
		if w.snapshot().Phase.Live() {
			n++
		}
	}
	return n
}

// StopAll stops every live mission and waits until each has settled or ctx is
// done. It returns how many ended and what is left.
func (s *Supervisor) StopAll(ctx context.Context) (stopped int, left []string) {
	s.mu.Lock()
	var ids []string
	for id := range s.workers {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	type result struct {
		id  string
		rec Record
		err error
	}
	results := make(chan result, len(ids))
	for _, id := range ids {
		s.wg.Go(func() {
			r, err := s.Stop(ctx, id)
			results <- result{id, r, err}
		})
	}
	for range ids {
		r := <-results
		switch {
		case r.err != nil && !r.rec.Phase.Terminal():
			left = append(left, fmt.Sprintf("mission %s: %v", r.id, r.err))
		default:
			stopped++
			left = append(left, r.rec.Left...)
		}
	}
	return stopped, left
}
