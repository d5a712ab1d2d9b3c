package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// session is the agent session that the worker holds in its room. The service
// wants it bound before the agent waits for news.
type session struct {
	l    *link
	turn chan struct{} // holds a token; who has it binds

	mu    sync.Mutex
	token string
	// bound is the service that confirmed the binding; zero if none did, or
	// none that can be told from its successor.
	bound wire.NegotiateResult
}

func newSession(l *link) *session {
	s := &session{l: l, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

var errDeferred = errors.New("Reeve has no credential for this session at hand yet, so nothing can be read. Your inbox is kept; call get_updates again in a minute.")

// ready returns when the session is bound with the service that answers now.
// A binding that this service confirmed is only verified.
func (s *session) ready(ctx context.Context, w worker) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	s.mu.Lock()
	token, bound := s.token, s.bound
	s.mu.Unlock()
	if bound.Generation != 0 && s.verify(ctx, w, token, bound) {
		return nil
	}
	s.unbind()
	if token != "" {
		err := s.bind(ctx, w, token)
		if err == nil || refusal(err) == nil {
			return err
		}
	}
	token, err := s.borrow(ctx, w)
	if err != nil {
		return err
	}
	return s.bind(ctx, w, token)
}

// unbind forgets who confirmed the binding, so that the next wait binds anew.
func (s *session) unbind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound = wire.NegotiateResult{}
}

// verify says whether the service that confirmed the binding is still there,
// and still holds it.
func (s *session) verify(ctx context.Context, w worker, token string, bound wire.NegotiateResult) bool {
	ctx, cancel := s.l.limit(ctx, verifyLimit)
	defer cancel()
	c, err := s.l.get(ctx, w.socket)
	return err == nil && same(c.Identity(), bound) && c.Call(ctx, wire.MethodVerifyWorker, s.params(w, token), nil) == nil
}

func (s *session) bind(ctx context.Context, w worker, token string) error {
	var r wire.BindResult
	id, err := s.l.ask(ctx, w.socket, outage, request{
		method: wire.MethodBindWorker, params: fixed(s.params(w, token)), result: &r, limit: requestLimit,
	})
	if err == nil && (!r.Bound || r.Entry != w.Entry || r.Session != w.session) {
		err = wire.Errorf(wire.CodeConflict, "The service bound another session than this worker's. Install one release of Reeve.")
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	if id.Generation != 0 && id.PID != 0 && !id.StartedAt.IsZero() {
		s.bound = id
	}
	return nil
}

// borrow asks for the session's token; an owner's is never used instead.
func (s *session) borrow(ctx context.Context, w worker) (string, error) {
	if !w.borrows {
		return "", errNotSupervised("REEVE_SUPERVISED_BOUNDED_TURNS is not 1")
	}
	var r wire.BorrowResult
	_, err := s.l.ask(ctx, w.socket, outage, request{method: wire.MethodBorrow, result: &r, limit: requestLimit,
		params: func(id wire.NegotiateResult) any {
			return wire.BorrowParams{Coordinates: w.Coordinates, Room: w.room, Session: w.session, Generation: id.Generation, APIURL: w.apiURL}
		}})
	switch {
	case err != nil:
		return "", err
	case r.Status == wire.BorrowAvailable && r.Credential != "":
		return r.Credential, nil
	case r.Status == wire.BorrowDeferred:
		return "", errDeferred
	}
	return "", wire.Errorf(wire.CodeCredentialStale, "The service lends this worker's session no more: its run is over, or another bridge has bound a session of its own. Read the room through that one, or end your turn.")
}

func (s *session) params(w worker, token string) wire.BindParams {
	c := w.Coordinates
	c.Turn = "" // a binding outlives turns
	return wire.BindParams{Coordinates: c, WorkerSession: wire.WorkerSession{Room: w.room, Session: w.session, Token: token, APIURL: w.apiURL}}
}

func same(a, b wire.NegotiateResult) bool {
	return a.Generation == b.Generation && a.PID == b.PID && a.StartedAt.Equal(b.StartedAt)
}

// checkpoints writes down what the agent has acknowledged, off the path of its
// calls: the newest cursor only, one request at a time.
type checkpoints struct {
	clock
	// send returns the cursor that counts then, which may be another.
	send func(ctx context.Context, w worker, cursor string) (string, error)
	// refused is called when the service wants none of it.
	refused func(error)

	mu      sync.Mutex
	w       worker
	waiting []int // acknowledged, in any order, and not on record
	kept    int   // on record
	running bool
	wg      sync.WaitGroup
	quit    context.Context
	stop    context.CancelFunc
}

// retries are how long each new try waits after the one before.
var retries = []time.Duration{250 * time.Millisecond, time.Second, 3 * time.Second}

// note has cursor n checkpointed, unless a newer one is; it returns at once.
func (k *checkpoints) note(w worker, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.room != k.w.room {
		k.waiting, k.kept = nil, 0 // each room counts its own messages
	}
	k.w = w
	if n > k.kept && !slices.Contains(k.waiting, n) {
		k.waiting = append(k.waiting, n)
	}
	if k.running || len(k.waiting) == 0 || k.quit.Err() != nil {
		return
	}
	k.running = true
	k.wg.Go(k.run)
}

// run ends when the newest cursor is on record, was refused, or was tried often
// enough; the next note tries again. One that the room has not is forgotten, or
// nothing that was really read would ever be the newest.
func (k *checkpoints) run() {
	for tries := 0; ; {
		k.mu.Lock()
		if len(k.waiting) == 0 {
			k.running = false
			k.mu.Unlock()
			return
		}
		w, n := k.w, slices.Max(k.waiting)
		k.mu.Unlock()
		now, err := k.send(context.WithoutCancel(k.quit), w, cursor(n))
		no := refusal(err)
		if no != nil {
			k.refused(err)
		}
		switch {
		case err == nil, no != nil && no.Code == wire.CodeInvalidParams:
			k.ended(w, n, now)
			tries = 0
			continue
		case no == nil && tries < len(retries) && k.sleep(k.quit, retries[tries]) == nil:
			tries++
			continue
		}
		k.mu.Lock()
		k.running = false
		k.mu.Unlock()
		return
	}
}

// ended takes cursor n of w's room, and what is older than what is on record now,
// from those that wait.
func (k *checkpoints) ended(w worker, n int, now string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.room != k.w.room {
		return
	}
	if kept, ok := parseCursor(now); ok {
		k.kept = max(k.kept, kept)
	}
	k.waiting = slices.DeleteFunc(k.waiting, func(x int) bool { return x == n || x <= k.kept })
}

// close waits for the try that runs.
func (k *checkpoints) close() {
	k.stop()
	k.wg.Wait()
}
