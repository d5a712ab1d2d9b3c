//go:build unix

package guard_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

// A claim that could not be made durable is refused and changes nothing: the
// owner before it still commands, and the same generation can claim later.
func TestAClaimThatIsNotOnRecord(t *testing.T) {
	w, first := started(t, "fake")
	ctx := within(t)
	fence := filepath.Join(w.dir, "fence.json")
	if err := os.Remove(fence); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(fence, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	second := w.connect()
	_, err := second.Claim(ctx, token, 2)
	code(t, err, wire.CodeInternal)
	code(t, first.Interrupt(ctx, wire.InterruptParams{}), "")
	if err := os.RemoveAll(fence); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Claim(ctx, token, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fence); err != nil {
		t.Fatal(err)
	}
}

// A provider that was still opening when the deadline came does not start.
func TestNoProviderAfterTheDeadline(t *testing.T) {
	w := spawn(t)
	w.launch.Model = "late"
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	open := w.opening(c)
	w.shift(time.Hour, time.Hour)
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if fin := finished(t, c); fin.Outcome != "timed_out" {
		t.Fatalf("%+v", fin)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "provider.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a provider was started after the deadline (%v)", err)
	}
}

// A provider that does not come back from its opening holds nothing up.
func TestHungOpening(t *testing.T) {
	t.Parallel()
	w := spawn(t)
	w.launch.Model = "late"
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	w.opening(c)
	w.shift(time.Hour, time.Hour)
	if fin := finished(t, c); fin.Outcome != "timed_out" {
		t.Fatalf("%+v", fin)
	}
	if end := data[wire.SessionEnded](t, next(t, c, wire.KindSessionEnded)); end.Reason != "deadline" {
		t.Fatalf("%+v", end)
	}
	_ = c.Close()
	<-w.proc.Done()
}

// opening begins a turn of the model "late" and returns when its provider is
// being opened. It goes on when the file is closed.
func (w *worker) opening(c *guard.Client) *os.File {
	w.t.Helper()
	name := filepath.Join(w.folder, "open")
	mkfifo(w.t, name)
	w.turn(c, "true")
	f, err := os.OpenFile(name, os.O_WRONLY, 0) // waits for who reads
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = f.Close() })
	return f
}

// A stop that comes when the time is over must not make a person's end of what
// the deadline ended.
func TestStopAfterTheDeadline(t *testing.T) {
	t.Parallel()
	w, c := started(t, "fake")
	w.turn(c, `echo "@ask 1 execute rm x"; read a; echo "answer $a"; sleep 300`)
	asked(t, c)
	w.shift(time.Hour, time.Hour)
	if _, err := c.Stop(within(t), wire.GuardStopParams{Reason: "deadline"}); err != nil {
		t.Fatal(err)
	}
	if r := data[wire.PermissionResolved](t, next(t, c, wire.KindPermissionResolved)); r.Outcome != "expired" {
		t.Errorf("the request: %+v", r)
	}
	if fin := finished(t, c); fin.Outcome != "timed_out" {
		t.Errorf("the turn: %+v", fin)
	}
}
