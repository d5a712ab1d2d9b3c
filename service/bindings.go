package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"sync"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

const bindingBucket = "bindings"

// binding is the agent session that a mission's bridge holds. Its token lies in
// memory alone; the journal has the token's SHA-256, so that a token outlives the
// service as something that can be recognised, and not as something to steal.
type binding struct {
	Attempt   string `json:"attempt"`
	Execution string `json:"execution"`
	Room      string `json:"room"`
	Session   string `json:"session"`
	Origin    string `json:"origin"`
	Hash      string `json:"token_sha256"`
	// Bound: a bridge has shown the token. Before that it was only lent.
	Bound bool `json:"bound,omitempty"`
	// Cursor is how far the session has read a room that is not kept here.
	Cursor int `json:"cursor,omitempty"`

	token string // "" when only an earlier service had it
}

// is says whether b is exactly what p names. The token is compared in a time
// that tells nothing about it.
func (b binding) is(p wire.BindParams, origin string) bool {
	return b.Attempt == p.Attempt && b.Execution == p.Execution && b.Room == p.Room && b.holds(p.Session, origin, p.Token)
}

func (b binding) holds(session, origin, token string) bool {
	same := subtle.ConstantTimeCompare([]byte(b.Hash), []byte(tokenHash(token))) == 1
	return same && b.Session == session && b.Origin == origin
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// bindings has at most one binding for each mission.
//
// Lock order: write before mu. write is held while the journal is written, mu
// never is, so that verifying never waits for a disk.
type bindings struct {
	db *store.DB

	write sync.Mutex
	mu    sync.RWMutex
	of    map[string]binding // by mission
}

// loadBindings reads what an earlier service journaled, and forgets what
// belongs to missions that are over.
func loadBindings(ctx context.Context, db *store.DB) (*bindings, error) {
	b := &bindings{db: db, of: map[string]binding{}}
	var over []string
	err := db.View(func(tx *store.Tx) error {
		return store.EachJSON(tx, bindingBucket, func(entry string, x binding) (bool, error) {
			r, ok, err := supervisor.Load(tx, entry)
			if err == nil && ok && r.Phase.Live() && r.Bridge.Execution == x.Execution {
				b.of[entry] = x
			} else {
				over = append(over, entry)
			}
			return true, err
		})
	})
	if err != nil || len(over) == 0 {
		return b, err
	}
	return b, db.Update(ctx, func(tx *store.Tx) error {
		for _, entry := range over {
			if err := tx.Delete(bindingBucket, []byte(entry)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bindings) get(entry string) (binding, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	x, ok := b.of[entry]
	return x, ok
}

func (b *bindings) keep(entry string, x binding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[entry] = x
}

// runIs drops the binding of every run of the mission but this one; "" is none.
// The journal is cleared by the next service.
func (b *bindings) runIs(entry, execution string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x, ok := b.of[entry]; ok && x.Execution != execution {
		delete(b.of, entry)
	}
}

// put journals a binding, then keeps it.
func (b *bindings) put(ctx context.Context, entry string, x binding) error {
	fault.Point("bridge.bound-deciding")
	err := b.db.Update(ctx, func(tx *store.Tx) error { return store.PutJSON(tx, bindingBucket, entry, x) })
	if err != nil {
		return err
	}
	fault.Point("bridge.bound-journaled")
	b.keep(entry, x)
	return nil
}

// verify says whether p is the binding that counts. It waits for nothing.
func (b *bindings) verify(p wire.BindParams) bool {
	origin, ok := wire.Origin(p.APIURL)
	x, found := b.get(p.Entry)
	return ok && found && x.Bound && x.is(p, origin)
}

// localOrigin is the origin of local rooms.
var localOrigin, _ = wire.Origin(wire.LocalOrigin)

// bind makes p the mission's binding. run is what the mission goes by now; p
// names that run already. The same again is fine; a live binding is not
// replaced by another, and a local session has only the token that it was lent.
func (b *bindings) bind(ctx context.Context, p wire.BindParams, run supervisor.Bridge) error {
	origin, _ := wire.Origin(p.APIURL)
	if p.Room != run.Room {
		return wire.Errorf(wire.CodeCredentialStale, "The worker is in another room by now; bind for the room that the service names.")
	}
	b.write.Lock()
	defer b.write.Unlock()
	have, ok := b.get(p.Entry)
	if ok = ok && have.Execution == p.Execution; ok && have.holds(p.Session, origin, p.Token) {
		again := have.Bound && have.is(p, origin)
		have.Room, have.Bound, have.token = p.Room, true, p.Token
		if again {
			b.keep(p.Entry, have)
			return nil
		}
		return b.put(ctx, p.Entry, have)
	}
	switch {
	case ok && have.Bound:
		return wire.Errorf(wire.CodeConflict, "Another session or token is bound to this worker's run, and stays so.")
	case origin == localOrigin:
		return wire.Errorf(wire.CodeCredentialStale, "This is not the token of the worker's session; borrow it first.")
	}
	return b.put(ctx, p.Entry, binding{
		Attempt: p.Attempt, Execution: p.Execution, Room: p.Room, Session: p.Session, Origin: origin, Hash: tokenHash(p.Token), Bound: true, token: p.Token,
	})
}

// borrow lends the token of exactly the session, room and origin that p names.
// That of a local session is made when none is in memory, and the one before it
// counts no more; that of another service has to be bound first.
func (b *bindings) borrow(ctx context.Context, p wire.BorrowParams, run supervisor.Bridge) (wire.BorrowResult, error) {
	origin, _ := wire.Origin(p.APIURL)
	stale := wire.BorrowResult{Status: wire.BorrowStale}
	if p.Room != run.Room {
		return stale, nil
	}
	b.write.Lock()
	defer b.write.Unlock()
	have, ok := b.get(p.Entry)
	ok = ok && have.Execution == p.Execution
	mine := ok && have.Session == p.Session && have.Origin == origin && (have.Room == p.Room || origin == localOrigin)
	switch {
	case mine && have.token != "":
		return wire.BorrowResult{Status: wire.BorrowAvailable, Credential: have.token}, nil
	case ok && !mine:
		return stale, nil
	case origin != localOrigin:
		return wire.BorrowResult{Status: wire.BorrowDeferred}, nil
	case p.Session != run.Session:
		return stale, nil
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return stale, err
	}
	token := base64.RawURLEncoding.EncodeToString(secret[:])
	err := b.put(ctx, p.Entry, binding{
		Attempt: p.Attempt, Execution: p.Execution, Room: p.Room, Session: p.Session, Origin: origin, Hash: tokenHash(token), token: token,
	})
	if err != nil {
		return stale, err
	}
	return wire.BorrowResult{Status: wire.BorrowAvailable, Credential: token}, nil
}

// checkpoint moves the cursor of a session whose room another service keeps,
// and returns the one that counts. ok is false for any other session.
func (b *bindings) checkpoint(ctx context.Context, p wire.CheckpointParams, n int) (cursor int, ok bool, err error) {
	b.write.Lock()
	defer b.write.Unlock()
	have, found := b.get(p.Entry)
	if !found || have.Execution != p.Execution || have.Session != p.Session || !have.Bound || have.Origin == localOrigin {
		return 0, false, nil
	}
	if n <= have.Cursor {
		return have.Cursor, true, nil
	}
	have.Cursor = n
	return n, true, b.put(ctx, p.Entry, have)
}
