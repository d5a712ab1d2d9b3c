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
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/credential"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/room"
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
	// Socket is where the service serves, for the bridges of workers; without
	// one workers get no bridge.
	Socket string
	// Exe is the reeve binary that runs guards.
	Exe      string
	GuardEnv []string
	// Provider finds a provider by its name, nil if there is none.
	Provider func(name string) provider.Provider
	// Credentials are the stored secrets; nil: there are none.
	Credentials *credential.Broker
	Now         func() mission.Instant
	Log         *slog.Logger
	Announce    Announcer
}

// Announcer tells the world what was journaled. The functions must not block.
type Announcer struct {
	Mission  func(Record)
	Approval func(approvals.Record)
	Entry    func(session string, e wire.Entry)
	Message  func(room.Message)
	Effect   func(effects.Record)
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
	known   map[*proc.Guarded]string     // trees of git commands, and their missions
	held    map[string]bool              // checkouts that a person has changed; see hold
	closed  bool
	gits    chan struct{} // a place for each git command that runs

	pages pages // of changes that were asked for

	updating atomic.Bool // no turn begins; see PrepareUpdate
}

// New makes a supervisor. Close ends it.
func New(o Options) *Supervisor {
	s := &Supervisor{
		Options: o, workers: map[string]*worker{}, secrets: map[string]map[string]string{},
		known: map[*proc.Guarded]string{}, held: map[string]bool{}, gits: make(chan struct{}, gitAtOnce),
	}
	if s.Announce.Message == nil {
		s.Announce.Message = func(room.Message) {}
	}
	if s.Announce.Effect == nil {
		s.Announce.Effect = func(effects.Record) {}
	}
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
	s.pages.clear()
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
	Tree    checkout.Tree
	Program Program
	Env     map[string]string
	Vars    []mission.Variable
	Fixed   []string // NAME=value that the provider gets whatever Env says
	Notes   []string
	GitExec []string
}

// Propose journals a proposed mission together with the approval it waits for.
func (s *Supervisor) Propose(ctx context.Context, p Proposal) (Record, approvals.Record, error) {
	at := s.now()
	plain, secrets := environment(p.Env, p.Vars)
	plain = fix(plain, p.Fixed)
	r := Record{
		ID: NewID("m"), Title: mission.Title(p.Terms.Scope), Terms: p.Terms, Provider: p.Program, Project: p.Tree.Repository(), Env: plain,
		Phase: mission.Proposed, CreatedAt: at, Revision: 1,
	}
	r.Secrets, r.Stored = slices.Sorted(maps.Keys(secrets)), s.stored(p.Vars, secrets)
	if p.Terms.Worktree {
		plan, err := checkout.PlanWorktree(ctx, p.Tree, s.StateDir, r.ID)
		if err != nil {
			return Record{}, approvals.Record{}, Refuse(err)
		}
		r.Worktree = &Worktree{Worktree: plan}
	}
	text := r.instructions()
	r.Instructions = mission.InstructionDigest(text)
	subject := approval.Subject{Title: "Start a mission", Cwd: r.Folder()}
	subject.Mission = missionSubject(r, text, mission.PromptInput{EndsAt: at.Add(time.Duration(p.Terms.Minutes) * time.Minute), Turn: 1}, p.Notes)
	subject.Mission.GitExecutableConfig = p.GitExec
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
		if err := tx.Put(texts, []byte(r.ID), []byte(text)); err != nil {
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

// missionSubject is what a person is shown before a mission starts or goes on:
// its terms, the program, the whole instruction file and the next prompt.
func missionSubject(r Record, instructions string, prompt mission.PromptInput, notes []string) *approval.MissionSubject {
	prompt.Scope = r.Terms.Scope
	m := &approval.MissionSubject{
		Provider: r.Terms.Provider, ProviderPath: r.Provider.Path, ProviderVersion: r.Provider.Version,
		Model: r.Terms.Model, Endpoint: r.Terms.Endpoint, Folder: r.Terms.Folder, Scope: r.Terms.Scope,
		Minutes: r.Terms.Minutes, Budget: approval.Budget(r.Terms.Budget), Limits: approval.Limits(r.Terms.Limits), Worktree: r.Terms.Worktree, WaitForReset: r.Terms.WaitForReset,
		Instructions: instructions, EnvNames: names(r.Env, r.Secrets, r.Stored), Notes: notes, Prompt: mission.TurnPrompt(prompt),
	}
	if r.Worktree != nil {
		m.WorktreePath, m.WorktreeBranch, m.WorktreeBase = r.Worktree.Path, r.Worktree.Branch, r.Worktree.Base
	}
	for _, u := range r.Terms.Unasked {
		m.Unasked = append(m.Unasked, string(u))
	}
	return m
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

// phaseWords says how a mission ended, in words.
func phaseWords(r Record) string {
	switch r.EndReason {
	case mission.EndScopeDone:
		return "the whole scope is done"
	case mission.EndPerson:
		return "stopped by you"
	case mission.EndDeadline:
		return "stopped at its deadline"
	case mission.EndBudget:
		return "stopped when its budget was used"
	case mission.EndAuthority:
		return "stopped because it lost its authority"
	case mission.EndDenied:
		return "its start was denied"
	}
	if r.Phase == mission.StartupFailed {
		return "it could not start"
	}
	return strings.ReplaceAll(string(r.Phase), "_", " ")
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
