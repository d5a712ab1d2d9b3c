package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"path/filepath"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// startLimit bounds the whole handshake with a new guard.
const startLimit = 20 * time.Second

// start brings up the guard of a mission that was just allowed: the private
// files first, then guard, claim and start.
func (w *worker) start() {
	r := w.rec.clone()
	w.starting = true
	var unended error
	coming, forgo := context.WithCancel(w.s.ctx)
	w.forgo = forgo
	w.async(func(ctx context.Context) error {
		defer forgo()
		secrets, err := w.fetch(coming, r)
		if err != nil {
			return err
		}
		err = w.s.prepare(coming, r, func(change func(*Record)) error {
			// A worktree is known by more than its name now.
			seen, err := w.s.look(ctx, r)
			if err != nil {
				return err
			}
			return w.do(ctx, func(w *worker) error {
				err := w.commit(change, func(tx *store.Tx) error { return checkout.Take(tx, seen, r.ID, r.Attempt, w.s.now()) })
				r = w.rec.clone()
				return err
			})
		})
		if err != nil {
			return err
		}
		fault.Point("service.checkout-journaled")
		launching, cancel := context.WithTimeout(ctx, startLimit)
		defer cancel()
		g, err := w.launch(launching, r, secrets)
		if err == nil && !w.post(func() { w.started(g) }) {
			_ = g.Close()
		}
		if err == nil || ctx.Err() != nil {
			return err // the next service adopts what is there
		}
		ending, cancel := context.WithTimeout(ctx, 2*startLimit)
		defer cancel()
		_, unended = guard.EndUnadopted(ending, w.s.attemptDir(r.Attempt))
		return err
	}, func(err error) {
		if err != nil {
			w.startFailed(err, unended)
		}
	})
}

func (w *worker) launch(ctx context.Context, r Record, secrets map[string]string) (*guard.Client, error) {
	s := w.s
	dir := s.attemptDir(r.Attempt)
	if err := private.EnsureDir(dir); err != nil {
		return nil, err
	}
	text, err := s.instructions(r)
	if err != nil {
		return nil, err
	}
	if err := private.WriteFile(s.instructionsPath(r.Attempt), []byte(text)); err != nil {
		return nil, err
	}
	fault.Point("service.instructions-written")
	token := make([]byte, 32)
	if _, err := rand.Read(token); err != nil {
		return nil, err
	}
	b := wire.Bootstrap{
		Attempt: r.Attempt, Mission: r.ID, Token: base64.RawURLEncoding.EncodeToString(token), Protocols: []int{wire.GuardProtocol, wire.OldestGuardProtocol},
		DeadlineAt: r.Deadline.At, Boot: r.Deadline.Boot, BootID: r.Deadline.BootID,
		Socket: filepath.Join(s.StateDir, "run", r.Attempt+".sock"), CreatedAt: s.now(),
	}
	keeper, err := guard.Spawn(ctx, s.Exe, dir, b, s.GuardEnv)
	if err != nil {
		return nil, err
	}
	fault.Point("service.guard-spawned")
	g, err := keeper.Connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	rec, err := guard.ReadRecord(dir)
	if err != nil {
		_ = g.Close()
		return nil, err
	}
	w.setTree(guardedBy(rec))
	if _, err := g.Claim(ctx, b.Token, s.Generation); err != nil {
		_ = g.Close()
		return nil, err
	}
	fault.Point("service.guard-claimed")
	if err := g.Start(ctx, s.startParams(r, secrets)); err != nil {
		_ = g.Close()
		return nil, err
	}
	fault.Point("service.guard-started")
	return g, nil
}

// startParams is how the provider of a mission is run. The secrets that came
// with the proposal are in memory alone; stored ones were just fetched.
func (s *Supervisor) startParams(r Record, stored map[string]string) wire.StartParams {
	env := append([]string{}, r.Env...)
	for name, value := range stored {
		env = append(env, name+"="+value)
	}
	s.mu.Lock()
	for name, value := range s.secrets[r.ID] {
		env = append(env, name+"="+value)
	}
	s.mu.Unlock()
	return wire.StartParams{Launch: wire.Launch{
		Provider: r.Terms.Provider, Path: r.Provider.Path, Args: r.Provider.Args, Mode: r.Provider.Mode, Model: r.Terms.Model, Endpoint: r.Terms.Endpoint,
		Folder: r.Folder(), Instructions: s.instructionsPath(r.Attempt), Digest: r.Instructions, Env: env, Bridge: s.bridge(r),
	}, Limits: wire.Limits(r.Terms.Limits), UsedCPU: r.Use.CPU}
}

func (s *Supervisor) instructionsPath(attempt string) string {
	return filepath.Join(s.attemptDir(attempt), "instructions.md")
}

// guardedBy tells what descends from a guard. Its keeper is the root of
// everything; the guard alone is named as well for the time the keeper is gone.
func guardedBy(rec wire.GuardRecord) proc.Guarded {
	g := proc.Guarded{Root: proc.ID(rec.Keeper), Sessions: []int{rec.PID}}
	if g.Root.PID == 0 {
		g.Root = proc.ID(rec.Process)
	}
	if rec.Cgroup != "" {
		g.Cgroups = []string{rec.Cgroup}
	}
	return g
}

func (w *worker) started(g *guard.Client) {
	w.guard, w.starting, w.alive = g, false, mission.GuardAnswers
	w.follow(g)
	if w.rec.Phase == mission.Stopping {
		// The person changed their mind while the guard came up.
		w.stopGuard(string(w.rec.EndReason))
		return
	}
	w.begun()
}

// begun enters waiting: the guard has what it needs.
func (w *worker) begun() {
	tree, _ := w.guarded()
	err := w.step(mission.EvStarted, func(r *Record) { r.Generation = w.s.Generation }, func(tx *store.Tx) error {
		return checkout.Mark(tx, w.rec.Folder(), w.rec.ID, tree.Root, "")
	})
	if err != nil {
		w.fail("a started mission could not be journaled", err, func() {
			if w.rec.Phase == mission.Starting && w.guard != nil {
				w.begun()
			}
		})
	}
}

// handOver finishes the start of a guard that an earlier service had spawned;
// unless it is new, it has what it needs already.
func (w *worker) handOver(isNew bool) {
	if !isNew {
		w.begun()
		return
	}
	if !w.s.haveSecrets(w.rec) {
		_ = w.end(mission.EndAuthority)
		return
	}
	g, r := w.guard, w.rec.clone()
	var missing error
	w.async(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		var secrets map[string]string
		if secrets, missing = w.s.secretsOf(ctx, r, func(why error) error { return why }); missing != nil {
			return missing
		}
		return g.Start(ctx, w.s.startParams(r, secrets))
	}, func(err error) {
		switch {
		case w.rec.Phase != mission.Starting || w.guard != g:
		case missing != nil:
			// The guard was never started and ends by itself soon. Then the
			// mission can be recovered, and waits for what it needs.
			w.s.Log.Warn("a guard was not started, as a credential is missing", "mission", w.rec.ID, "err", missing)
		case err != nil:
			w.s.Log.Error("a guard could not be started", "mission", w.rec.ID, "err", err)
			_ = w.end(mission.EndAuthority)
		default:
			w.begun()
		}
	})
}

// follow hands every entry of the guard's log to the goroutine, in order. The
// connection ends only with the guard, or with this service.
func (w *worker) follow(g *guard.Client) {
	w.s.wg.Go(func() {
		for {
			next := func() { w.lost(g) }
			open := true
			select {
			case r := <-g.Resources():
				next = func() { w.measured(r) }
			case e, more := <-g.Entries():
				if open = more; more {
					next = func() { w.ingest(e) }
				}
			}
			if !w.post(next) || !open {
				return
			}
		}
	})
}

// startFailed gives back everything the start had taken. A guard that was
// spawned and could not be ended keeps the checkout.
func (w *worker) startFailed(cause, unended error) {
	w.starting = false
	w.s.Log.Error("a mission could not start", "mission", w.rec.ID, "err", cause, "left", unended)
	if unended != nil {
		w.alive = mission.GuardUncertain
		w.settle([]string{unended.Error()})
		return
	}
	w.alive = mission.GuardGone
	code := mission.LocalExecutionFailure
	var v *private.Violation
	if errors.As(cause, &v) {
		code = mission.PrivateStateFailure
	}
	if w.rec.Phase == mission.Stopping {
		w.settle(nil)
		return
	}
	if w.rec.Recovered {
		w.settleLost("The worker could not be started again: "+cause.Error()+". See what is in the way, then recover or stop the mission.", nil)
		return
	}
	err := w.step(mission.EvStartFailed, func(r *Record) {
		r.EndReason = mission.EndReason(code)
		r.Failure = &Failure{Stage: mission.StageExecution, Code: code, Message: "The worker could not be started: " + cause.Error()}
	}, func(tx *store.Tx) error {
		if err := checkout.Release(tx, w.rec.Folder(), w.rec.ID); err != nil {
			return err
		}
		return tx.Audit(store.AuditEntry{Kind: store.AuditMission, Mission: w.rec.ID, Text: "startup failed"})
	})
	if err != nil {
		w.fail("a failed start could not be journaled", err, func() {
			if w.rec.Phase == mission.Starting {
				w.startFailed(cause, nil)
			}
		})
	}
}
