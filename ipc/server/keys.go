package server

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/reevehq/reeve/ipc/wire"
)

// keptKeys is how many results are kept for repeats.
const keptKeys = 1024

// keys makes a mutation that is repeated with its request_key happen once:
// a repeat gets the first result, or waits for it. Refusals are not kept, as
// nothing happened then.
type keys struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // newest first, of *keyed
}

type keyed struct {
	key    string
	params [sha256.Size]byte
	done   chan struct{}
	result json.RawMessage
	err    error
}

func newKeys() *keys {
	return &keys{byKey: map[string]*list.Element{}, order: list.New()}
}

// do runs f, unless it runs or ran for the same key. f must not panic.
func (k *keys) do(ctx context.Context, key string, params json.RawMessage, f func() (json.RawMessage, error)) (json.RawMessage, error) {
	digest := sha256.Sum256(params)
	k.mu.Lock()
	if at, ok := k.byKey[key]; ok {
		k.order.MoveToFront(at)
		k.mu.Unlock()
		first := at.Value.(*keyed)
		if first.params != digest {
			return nil, wire.Errorf(wire.CodeConflict, "This request_key was used for another request. Use a new one.")
		}
		select {
		case <-first.done:
			return first.result, first.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	e := &keyed{key: key, params: digest, done: make(chan struct{})}
	at := k.order.PushFront(e)
	k.byKey[key] = at
	k.evictLocked()
	k.mu.Unlock()

	e.result, e.err = f()
	if e.err != nil {
		k.mu.Lock()
		k.removeLocked(at)
		k.mu.Unlock()
	}
	close(e.done)
	return e.result, e.err
}

// evictLocked drops the oldest results, but never one that is being worked out.
func (k *keys) evictLocked() {
	for at := k.order.Back(); at != nil && k.order.Len() > keptKeys; {
		before := at.Prev()
		select {
		case <-at.Value.(*keyed).done:
			k.removeLocked(at)
		default:
		}
		at = before
	}
}

func (k *keys) removeLocked(at *list.Element) {
	if e := at.Value.(*keyed); k.byKey[e.key] == at {
		delete(k.byKey, e.key)
		k.order.Remove(at)
	}
}
