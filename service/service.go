// Package service composes Reeve's background service: it opens the private
// state, takes its generation, listens on the local socket and runs missions
// until it is told to end. Guards and their turns outlive it.
package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/agents"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/credential"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
	"github.com/reevehq/reeve/service/keychain"
	"github.com/reevehq/reeve/service/provider"
)

// Options is what a service is made of.
type Options struct {
	StateDir  string
	Socket    string
	Version   string
	Exe       string // the reeve binary, which guards are run from
	GuardEnv  []string
	Providers []provider.Provider
	// Keychain is where secrets are kept; nil: nowhere.
	Keychain *keychain.Keychain
	Now      func() mission.Instant
	// Log gets what a person at the terminal should see; everything goes to
	// the rotated log file as well. A regular file gets it until the service serves.
	Log io.Writer
	// Ready is called once the socket answers.
	Ready func(wire.NegotiateResult)
}

// RunningError says that another service owns the state.
type RunningError struct {
	StateDir string
	PID      int // 0 if it could not be asked
	Detail   string
}

func (e *RunningError) Error() string {
	who := "Another service"
	if e.PID != 0 {
		who = fmt.Sprintf("A service with pid %d", e.PID)
	}
	return fmt.Sprintf("%s already runs with the state %s%s. Use it, or end it with reeve service stop.", who, e.StateDir, e.Detail)
}

// Service is a running service.
type Service struct {
	o      Options
	db     *store.DB
	agents *agents.File

	credentials        *credential.Broker
	credentialsChanged chan struct{} // see tellCredentials

	blobs  *store.Blobs
	sup    *supervisor.Supervisor
	hub    *server.Hub
	srv    *server.Server
	topics struct{ service, missions, approvals, rooms, effects, rules *server.Topic }
	id     wire.NegotiateResult
	self   proc.ID // this process
	log    *slog.Logger
	stop   context.CancelFunc

	windowEnds *time.Timer // see refusals.go
	since      since       // see since.go
	inRooms    inRooms     // see rooms.go
	ruling     sync.Mutex  // held over telling of a rule, so that the last word is the newest

	bindings *bindings // see bindings.go
	flights  flights   // see tools.go
	calls    meter     // see bridge.go
	pulse    pulse     // beats with every change that a tool may wait for

	life     context.Context // ends with the service
	watching sync.WaitGroup  // who watches the open update

	mu       sync.Mutex // guards what follows; a leaf
	notes    []string
	refusals int
	refused  *wire.Refusal
	window   map[string]*refusals // by mission; nil while nothing is refused
	stopping bool
	closing  string
	update   *update       // the open one, or nil
	changing int           // changes that run; see enter
	calm     chan struct{} // closed when none does any more; nil: nobody waits for that
}

func run(ctx context.Context, o Options, m manager) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &Service{o: o, stop: cancel, closing: wire.ClosingShutdown, windowEnds: time.NewTimer(time.Hour)}
	s.windowEnds.Stop()
	s.life = ctx
	for _, dir := range []string{o.StateDir, s.path("attempts"), s.path("blobs"), s.path("logs"), s.path("run")} {
		if err := private.EnsureDir(dir); err != nil {
			return err
		}
	}
	logFile := &lumberjack.Logger{Filename: s.path("logs", "service.log"), MaxSize: 10, MaxBackups: 5}
	defer logFile.Close()
	told := &says{w: cmp.Or[io.Writer](o.Log, io.Discard)}
	out := io.MultiWriter(logFile, told)
	s.log = slog.New(slog.NewTextHandler(out, nil))

	db, err := store.Open(s.path("reeve.db"), store.Options{AppVersion: o.Version, Now: func() time.Time { return o.Now().Wall }})
	if errors.Is(err, store.ErrInUse) {
		return s.whoRuns(ctx)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	crashed, crashless, err := s.keepCrash() // now that no other service has this state
	if err != nil {
		return err
	}
	defer crashless()
	s.agents = agents.In(o.StateDir)
	s.db, s.blobs = db, store.OpenBlobs(s.path("blobs"))
	generation, err := db.BeginGeneration(ctx)
	if err != nil {
		return fmt.Errorf("begin a generation: %w", err)
	}
	self, err := proc.Self()
	if err != nil {
		return fmt.Errorf("identify this process: %w", err)
	}
	s.id = wire.NegotiateResult{
		ProtocolVersion: wire.MaxVersion, Generation: generation, PID: os.Getpid(), StartedAt: o.Now().Wall.Round(0).UTC(),
		AppVersion: o.Version, Capabilities: []string{"missions", "approvals", "sessions", "watch", "blobs", "bridge", "rooms", "effects"},
	}
	if err := s.loadSince(); err != nil {
		return err
	}
	if s.bindings, err = loadBindings(ctx, db); err != nil {
		return fmt.Errorf("read which sessions the workers have: %w", err)
	}
	if err := s.openCredentials(); err != nil {
		return fmt.Errorf("read which credentials there are: %w", err)
	}
	defer s.credentials.Close()
	s.compose(self)
	defer s.sup.Close()
	var summing sync.WaitGroup
	serving, served := context.WithCancel(context.WithoutCancel(ctx))
	summing.Go(func() { s.sumUpRefusals(serving) })
	summing.Go(func() { s.tellCredentials(serving) })
	defer summing.Wait()
	defer served()
	notes, err := s.sup.Adopt(ctx)
	if err != nil {
		return fmt.Errorf("adopt what an earlier service left: %w", err)
	}
	if ctx.Err() != nil {
		s.log.Info("ending before serving")
		return nil
	}
	if crashed != "" {
		notes = append([]string{crashed}, notes...)
	}
	s.notes = append(notes, s.takeManifest(ctx)...)
	for _, n := range s.notes {
		s.log.Info(n)
	}
	l, err := sock.Listen(o.Socket)
	if errors.Is(err, sock.ErrInUse) {
		return s.whoRuns(ctx)
	}
	if err != nil {
		return err
	}
	s.srv = server.New(l, s, s.hub, server.Options{Logger: s.log})
	ended := make(chan error, 1)
	// It is closed below, with the reason; the end of ctx has none.
	go func() { ended <- s.srv.Serve(context.WithoutCancel(ctx)) }()
	s.log.Info("serving", "socket", o.Socket, "generation", generation, "pid", s.id.PID, "version", o.Version)
	told.served()
	if o.Ready != nil {
		o.Ready(s.id)
	}
	m.tell("READY=1", fmt.Sprintf("STATUS=Serving, version %s, generation %d", o.Version, generation))
	s.watching.Go(func() { m.watchdog(ctx, s.well) })
	select {
	case <-ctx.Done():
	case <-db.Fenced():
		s.awaitStop(ctx)
	case err = <-ended:
		ended <- nil
	}
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	ending := ctx.Err() != nil
	m.tell("STOPPING=1", "STATUS=")
	cancel() // for an update that is open
	s.srv.Close(closing)
	s.watching.Wait()
	if e := <-ended; err == nil && e != nil && !ending {
		err = e
	}
	s.log.Info("ending", "reason", closing, "missions_going_on", s.sup.Live())
	return err
}

// awaitStop is what is left to a fenced service. One whose state is another's by
// now serves what only reads, says why it does no more, and waits for its end:
// its workers go on in their guards meanwhile. Without a way to be told it
// ends by itself, and so it does when the disk can't be trusted: a service that
// starts anew reads what is there.
func (s *Service) awaitStop(ctx context.Context) {
	s.mu.Lock()
	s.closing = wire.ClosingFenced
	s.mu.Unlock()
	why := s.db.FencedBy()
	s.log.Error("fenced: nothing is changed any more", "err", why)
	if !errors.Is(why, store.ErrDisowned) {
		return
	}
	s.topics.service.Publish(wire.EvService, s.status())
	tick := time.NewTicker(fencedLook)
	defer tick.Stop()
	for s.reachable(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// fencedLook is how often a fenced service looks whether it can be told to stop.
const fencedLook = 5 * time.Second

// reachable says whether the socket's name still leads to this process.
func (s *Service) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, fencedLook)
	defer cancel()
	c, err := sock.Dial(ctx, s.o.Socket)
	if err != nil {
		return false
	}
	defer c.Close()
	peer, err := sock.PeerOf(c)
	if peer.Pidfd != nil {
		_ = peer.Pidfd.Close()
	}
	return err == nil && peer.PID == os.Getpid()
}

// Fenced says why nothing is changed any more.
func (s *Service) Fenced() *wire.Error {
	if s.db.FencedBy() == nil {
		return nil
	}
	return wire.Errorf(wire.CodeUnavailable, "%s", s.fencedText())
}

func (s *Service) fencedText() string {
	return fmt.Sprintf("This service changes nothing any more: %v. Its workers go on in their guards. End it with `reeve service stop`, see to the state directory %s, then start it again.",
		s.db.FencedBy(), s.o.StateDir)
}

// compose ties hub and supervisor together: what the one journals, the other
// announces.
func (s *Service) compose(self proc.ID) {
	s.self = self
	s.hub = server.NewHub(s.id.Generation)
	s.topics.service = s.hub.Topic(wire.TopicService, func() ([]json.RawMessage, error) {
		return encodeAll([]wire.Service{s.status()})
	})
	s.topics.missions = s.hub.Topic(wire.TopicMissions, s.missionSnapshot)
	s.topics.approvals = s.hub.Topic(wire.TopicApprovals, s.approvalSnapshot)
	s.topics.rooms = s.hub.Topic(wire.TopicRooms, s.roomSnapshot)
	s.topics.effects = s.hub.Topic(wire.TopicEffects, s.effectSnapshot)
	s.topics.rules = s.hub.Topic(wire.TopicRules, s.ruleSnapshot)
	s.sup = supervisor.New(supervisor.Options{
		DB: s.db, Blobs: s.blobs, StateDir: s.o.StateDir, Generation: s.id.Generation, Self: self,
		Socket: s.o.Socket, Exe: s.o.Exe, GuardEnv: s.o.GuardEnv, Provider: s.provider, Credentials: s.credentials, Now: s.o.Now, Log: s.log,
		Announce: supervisor.Announcer{
			Mission: func(r supervisor.Record) {
				s.workerBegins(r)
				s.runBegins(r)
				s.topics.missions.Publish(wire.EvMission, s.missionView(r))
				s.announceRoomOf(r)
				if r.Phase.Terminal() {
					s.ruling.Lock() // after whoever read a rule of it before
					s.topics.rules.Publish(wire.EvRule, wire.RuleChange{Mission: r.ID})
					s.ruling.Unlock()
				}
			},
			Approval: func(a approvals.Record) { s.announceApproval(a) },
			Entry:    func(session string, e wire.Entry) { s.hub.PublishEntry(session, e) },
			Message:  s.announceMessage,
			Effect:   s.announceEffect,
		},
	})
}

func (s *Service) path(parts ...string) string {
	return filepath.Join(append([]string{s.o.StateDir}, parts...)...)
}

func (s *Service) audit(ctx context.Context, text string) error {
	return s.db.Update(ctx, func(tx *store.Tx) error {
		return tx.Audit(store.AuditEntry{Kind: store.AuditService, Text: text})
	})
}

// whoRuns asks the service that owns the state who it is.
func (s *Service) whoRuns(ctx context.Context) error {
	e := &RunningError{StateDir: s.o.StateDir}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := sock.Dial(ctx, s.o.Socket)
	if err != nil {
		e.Detail = " (it does not answer on its socket)"
		return e
	}
	defer conn.Close()
	if p, err := sock.PeerOf(conn); err == nil {
		e.PID = p.PID
		if p.Pidfd != nil {
			_ = p.Pidfd.Close()
		}
	}
	return e
}

func encodeAll[T any](items []T) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, 0, len(items))
	for _, it := range items {
		b, err := json.Marshal(it)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}
