package credential

import (
	"context"
	"fmt"
)

// flight is something that many wait for and that is done once.
type flight struct {
	done   chan struct{}
	secret string
	err    error
}

// fly does fn, unless it is under way for the same key: then it waits for that.
// Who asks may give up; fn goes on for the others, as long as the broker lives.
func (b *Broker) fly(ctx context.Context, key string, fn func(ctx context.Context) (string, error)) (string, error) {
	b.mu.Lock()
	f := b.flights[key]
	if f == nil {
		if b.closed {
			b.mu.Unlock()
			return "", errClosed
		}
		f = b.takeOff(key, fn, nil)
	}
	b.mu.Unlock()
	return f.land(ctx)
}

// takeOff begins a flight; landed, if there is one, is told the outcome at the
// moment from which on nobody joins it any more. Broker.mu is held here and there.
func (b *Broker) takeOff(key string, fn func(ctx context.Context) (string, error), landed func(secret string, err error)) *flight {
	f := &flight{done: make(chan struct{})}
	b.flights[key] = f
	b.wg.Go(func() {
		f.secret, f.err = guarded(b.life, fn)
		b.mu.Lock()
		delete(b.flights, key)
		if landed != nil && !b.closed {
			landed(f.secret, f.err)
		}
		b.mu.Unlock()
		close(f.done)
		if landed != nil {
			b.change(func() {})
		}
	})
	return f
}

// guarded makes an error of a panic. What it panicked of may hold a secret.
func guarded(ctx context.Context, fn func(ctx context.Context) (string, error)) (secret string, err error) {
	defer func() {
		if p := recover(); p != nil {
			secret, err = "", fmt.Errorf("an internal error (%T)", p)
		}
	}()
	if secret, err = fn(ctx); err != nil {
		secret = ""
	}
	return secret, err
}

func (f *flight) land(ctx context.Context) (string, error) {
	select {
	case <-f.done:
		return f.secret, f.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Refresh returns a secret that is newer than had, which did not do any more.
// However many ask, fetch runs once for each generation of the secret: those
// that come while it runs share its outcome, and those that come later with
// what it replaced get what it made. The new secret is in memory from then on;
// fetch keeps it wherever else it has to be, before it returns. It is for the
// tokens of a project service; nothing that Reeve keeps today runs out like that.
func (b *Broker) Refresh(ctx context.Context, name, had string, fetch func(ctx context.Context) (string, error)) (string, error) {
	b.mu.Lock()
	if now, ok := b.memory[name]; ok && now != had {
		b.mu.Unlock()
		return now, nil
	}
	if b.closed {
		b.mu.Unlock()
		return "", errClosed
	}
	key := "refresh " + name
	f := b.flights[key]
	if f == nil {
		f = b.takeOff(key, func(ctx context.Context) (string, error) {
			secret, err := fetch(ctx)
			if err == nil && (secret == "" || len(secret) > MaxSecret) {
				err = ErrSize
			}
			return secret, err
		}, func(secret string, err error) {
			if err == nil {
				b.memory[name] = secret
			}
		})
	}
	b.mu.Unlock()
	return f.land(ctx)
}
