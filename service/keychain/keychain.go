// Package keychain keeps secrets in the keychain of the person's desktop: Secret
// Service or KWallet, the macOS Keychain, the Windows Credential Manager. It is
// the only door to them, and every call has a time limit of its own.
//
// A keychain protects against other users and a stolen disk, not against
// programs of the same user.
package keychain

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	keyring "github.com/zalando/go-keyring"
)

// State is what is known of the keychain.
type State string

// The states. Only in Ready can anything be read or written. TooLarge is never
// the state of a keychain, but of a secret that it has no room for.
const (
	Ready     State = "ready"
	Absent    State = "absent"     // there is none here
	NoService State = "no_service" // there is a session bus, and nobody on it keeps secrets
	Locked    State = "locked"
	Refused   State = "refused"
	Slow      State = "slow" // it did not answer in time, or is still asked something
	TooLarge  State = "too_large"
)

// Error says why the keychain can't be used, and what mends that. It never holds
// a secret, nor what a keychain said: only the name of its error.
type Error struct {
	State   State
	Message string
	Fix     string
}

func (e *Error) Error() string { return e.Message + " " + e.Fix }

// ErrNone says that the keychain has nothing by that name.
var ErrNone = errors.New("the keychain has no such secret")

// Limit is how long a call may take.
const Limit = 5 * time.Second

// Keychain is the part of the person's keychain that belongs to one Reeve.
type Keychain struct {
	service string
	limit   time.Duration
}

// Open returns the keychain of the instance whose state is in the directory
// private, which has one spelling (sock.PrivateState); "" is the ordinary one. It
// touches nothing yet.
func Open(private string) *Keychain {
	k := &Keychain{service: "reeve", limit: Limit}
	if private != "" {
		sum := sha256.Sum256([]byte(private))
		k.service += "-" + hex.EncodeToString(sum[:4])
	}
	return k
}

// Get reads a secret. It fails with ErrNone, *Error or the end of ctx.
func (k *Keychain) Get(ctx context.Context, name string) (string, error) {
	return call(ctx, k.limit, func() (string, error) { return keyring.Get(k.service, name) })
}

// Set writes a secret and reads it back. It fails with *Error or the end of ctx;
// then it is not known whether the keychain has the secret.
func (k *Keychain) Set(ctx context.Context, name, secret string) error {
	if len(secret) > most {
		return tooLarge()
	}
	_, err := call(ctx, k.limit, func() (struct{}, error) {
		if err := keyring.Set(k.service, name, secret); err != nil {
			return struct{}{}, err
		}
		back, err := keyring.Get(k.service, name)
		if err == nil && subtle.ConstantTimeCompare([]byte(back), []byte(secret)) != 1 {
			err = &Error{Refused, "The keychain gave back something else than it was given.",
				"Look at it with the passwords program of your desktop; the secret was not stored."}
		}
		return struct{}{}, err
	})
	if errors.Is(err, ErrNone) {
		err = &Error{Refused, "The keychain took the secret and does not have it.",
			"Look at it with the passwords program of your desktop; the secret was not stored."}
	}
	return err
}

// Remove forgets a secret. It fails with ErrNone, *Error or the end of ctx.
func (k *Keychain) Remove(ctx context.Context, name string) error {
	_, err := call(ctx, k.limit, func() (struct{}, error) { return struct{}{}, keyring.Delete(k.service, name) })
	return err
}

// State looks whether the keychain can be used now; nil says that it can. It
// asks nobody to unlock it.
func (k *Keychain) State(ctx context.Context) error {
	_, err := call(ctx, k.limit, func() (struct{}, error) { return struct{}{}, probe(k.service) })
	if errors.Is(err, ErrNone) {
		return nil
	}
	return err
}

// gate lets one call at a time into the keychain, for the whole process: a call
// that hangs can't be interrupted, and must not be followed by more of them.
var gate struct {
	sync.Mutex
	busy  chan struct{} // closed when the call that runs has returned; nil: none runs
	since time.Time     // when it began
}

// enter waits for the gate, at most until the call inside has had its time.
func enter(ctx context.Context, limit time.Duration) error {
	for {
		gate.Lock()
		if gate.busy == nil {
			gate.busy, gate.since = make(chan struct{}), time.Now()
			gate.Unlock()
			return nil
		}
		busy, left := gate.busy, limit-time.Since(gate.since)
		gate.Unlock()
		if left <= 0 {
			return slow()
		}
		timer := time.NewTimer(left)
		select {
		case <-busy:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

func leave() {
	gate.Lock()
	defer gate.Unlock()
	close(gate.busy)
	gate.busy = nil
}

// call runs f once the keychain was looked at. What hangs stays behind and
// holds the gate until it returns.
func call[T any](ctx context.Context, limit time.Duration, f func() (T, error)) (T, error) {
	var none T
	if err := enter(ctx, limit); err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	go func() {
		defer leave()
		var r result
		defer func() {
			// go-keyring falls over when the bus ends while it waits.
			if p := recover(); p != nil {
				r = result{err: &Error{Refused, "The keychain ended while it was asked.", "Try again."}}
			}
			done <- r
		}()
		if r.err = look(limited); r.err == nil {
			r.value, r.err = f()
		}
	}()
	select {
	case r := <-done:
		return r.value, explain(r.err)
	case <-limited.Done():
		if err := ctx.Err(); err != nil {
			return none, err
		}
		return none, slow()
	}
}

// explain turns an error of the keychain into one for a person.
func explain(err error) error {
	var known *Error
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, ErrNone):
		return err
	case errors.Is(err, keyring.ErrNotFound):
		return ErrNone
	case errors.Is(err, keyring.ErrSetDataTooBig):
		return tooLarge()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return slow()
	}
	return classify(err)
}

func slow() *Error {
	return &Error{Slow, fmt.Sprintf("The keychain does not answer within %d seconds.", int(Limit.Seconds())),
		"Answer what it may be asking on your screen. If it asks nothing, restart it, or log in anew."}
}

func tooLarge() *Error {
	return &Error{TooLarge, fmt.Sprintf("The secret is too large for this keychain, which takes %d bytes.", most),
		"Keep it in the encrypted file instead."}
}

func refused(why string) *Error {
	return &Error{Refused, "The keychain refused (" + why + ").",
		"Look at it with the passwords program of your desktop, or keep the secret in the encrypted file."}
}
