//go:build linux

package keychain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/keychain/keyring"
)

// on points this process at a bus; "" is none.
func on(t *testing.T, address string) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(t.TempDir(), "none"))
}

func state(t *testing.T, err error, want State) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.State != want || e.Message == "" || e.Fix == "" {
		t.Fatalf("%v, want the state %s", err, want)
	}
	return e
}

// every tries what needs the keychain.
func every(t *testing.T, k *Keychain, want State) {
	t.Helper()
	ctx := context.Background()
	_, err := k.Get(ctx, "NAME")
	messages := map[string]bool{}
	for _, err := range []error{err, k.Set(ctx, "NAME", "hidden-value"), k.Remove(ctx, "NAME"), k.State(ctx)} {
		e := state(t, err, want)
		messages[e.Message] = true
		if strings.Contains(e.Error(), "hidden-value") {
			t.Errorf("an error holds the secret: %v", e)
		}
	}
	if len(messages) != 1 {
		t.Errorf("one state, and %d messages: %v", len(messages), messages)
	}
}

func TestWithoutABus(t *testing.T) {
	on(t, "")
	k := Open("")
	for _, none := range []string{"", "autolaunch:"} {
		on(t, none)
		every(t, k, Absent)
		if err := k.State(context.Background()); !strings.Contains(err.Error(), "no session bus") {
			t.Errorf("%q was tried: %v", none, err)
		}
	}
	// Nothing was started: the library would have set the address of its bus.
	if got := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); got != "autolaunch:" {
		t.Errorf("the address is %q now", got)
	}
	on(t, "unix:path=/nonexistent/bus")
	every(t, k, Absent)
	on(t, "nonsense")
	every(t, k, Absent)
}

func TestStates(t *testing.T) {
	ctx := context.Background()
	bus := keyring.Start(t, "")
	on(t, bus.Address)
	patient := func(state string) *Keychain { k := Open(state); k.limit = time.Hour; return k } // a busy machine is no slow keychain
	k := patient("")

	every(t, k, NoService)
	bus.Locked() // and no keyring yet, on which go-keyring hangs
	every(t, k, Absent)
	bus.Unlocked()
	if err := k.State(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Get(ctx, "NAME"); !errors.Is(err, ErrNone) {
		t.Errorf("got %v, want ErrNone", err)
	}
	if err := k.Remove(ctx, "NAME"); !errors.Is(err, ErrNone) {
		t.Errorf("got %v, want ErrNone", err)
	}
	for _, secret := range []string{"first", "second with spaces, \n a line and ünïcödé", strings.Repeat("x", 8<<10)} {
		if err := k.Set(ctx, "NAME", secret); err != nil {
			t.Fatal(err)
		}
		if got, err := k.Get(ctx, "NAME"); got != secret || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := patient("/private/state").Set(ctx, "NAME", "another instance's"); err != nil {
		t.Fatal(err)
	}
	if got, _ := k.Get(ctx, "NAME"); got != strings.Repeat("x", 8<<10) {
		t.Error("two instances share a secret")
	}
	state(t, k.Set(ctx, "NAME", strings.Repeat("x", most+1)), TooLarge)

	bus.Lock()
	every(t, k, Locked)
	bus.Locked() // as after a start of the machine without a password
	every(t, k, Locked)
	bus.Unlocked()
	if got, err := k.Get(ctx, "NAME"); got == "" || err != nil {
		t.Errorf("nothing was kept: %v", err)
	}
	if err := k.Remove(ctx, "NAME"); err != nil {
		t.Error(err)
	}
	if _, err := k.Get(ctx, "NAME"); !errors.Is(err, ErrNone) {
		t.Errorf("got %v, want ErrNone", err)
	}
}

func TestRefusing(t *testing.T) {
	bus := keyring.Start(t, keyring.Refusing)
	bus.Unlocked()
	on(t, bus.Address)
	k := Open("")
	k.limit = time.Hour
	every(t, k, Refused)
}

// A keychain that hangs is waited for once; what comes after is told at once,
// and nothing piles up behind it.
func TestSlow(t *testing.T) {
	ctx := context.Background()
	bus := keyring.Start(t, "")
	bus.Unlocked()
	on(t, bus.Address)
	k := Open("")
	k.limit = time.Hour
	if err := k.Set(ctx, "NAME", "hidden-value"); err != nil {
		t.Fatal(err)
	}
	bus.Hang()
	k.limit = 200 * time.Millisecond
	_, err := k.Get(ctx, "NAME")
	state(t, err, Slow)
	bus.Wake()
	k.limit = time.Hour
	if got, err := k.Get(ctx, "NAME"); got != "hidden-value" || err != nil {
		t.Errorf("after the hang: %q, %v", got, err)
	}
}

// go-keyring itself can hang for ever. The calls that come after don't wait for
// it, and go on when it has returned.
func TestOneAtATime(t *testing.T) {
	bus := keyring.Start(t, "")
	bus.Unlocked()
	on(t, bus.Address)
	ctx, cancel := context.WithCancel(context.Background())
	stuck, free := make(chan struct{}), make(chan struct{})
	hanging := make(chan error, 1)
	go func() {
		_, err := call(ctx, Limit, func() (int, error) { close(stuck); <-free; return 0, nil })
		hanging <- err
	}()
	<-stuck
	cancel()
	if err := <-hanging; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	for range 100 {
		_, err := call(context.Background(), 0, func() (int, error) { t.Error("a second call began"); return 0, nil })
		state(t, err, Slow)
	}
	k := Open("")
	k.limit = time.Hour
	again := make(chan error, 1)
	go func() { again <- k.State(context.Background()) }()
	gone, cancelled := context.WithCancel(context.Background())
	cancelled()
	if err := k.State(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	close(free)
	if err := <-again; err != nil {
		t.Error(err)
	}
}

// What go-keyring panics of, such as the end of the bus while it waits for an
// answer on the screen, ends the call alone.
func TestPanic(t *testing.T) {
	bus := keyring.Start(t, "")
	bus.Unlocked()
	on(t, bus.Address)
	_, err := call(context.Background(), Limit, func() (int, error) { panic("no signal") })
	state(t, err, Refused)
	if err := Open("").State(context.Background()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
