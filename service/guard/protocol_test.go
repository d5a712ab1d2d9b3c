//go:build unix

package guard_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

// A guard of the protocol before is commanded as any other; it has no limits
// and measures nothing.
func TestOlderGuard(t *testing.T) {
	w := spawn(t, "TEST_PROTOCOL=1", "TEST_LOOK=20ms")
	c, _ := w.claim(1)
	if c.Record.Protocol != 1 || c.Measures() {
		t.Fatalf("%+v", c.Record)
	}
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch, Limits: wire.Limits{MemoryMB: 256}}); err == nil {
		t.Fatal("limits that nobody keeps were taken")
	}
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	w.turn(c, `echo '@ask r1 execute make'; read -r a; echo "@final $a"`)
	p := asked(t, c)
	// Another generation takes over in the middle of the turn.
	c, res := w.claim(2)
	if res.Turn != "t-1" || len(res.Pending) != 1 {
		t.Fatalf("%+v", res)
	}
	if got, err := c.Resolve(within(t), wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "person"}); err != nil || got.State != "delivered" {
		t.Fatalf("%+v, %v", got, err)
	}
	fin := finished(t, c)
	if fin.Outcome != "succeeded" || fin.Resources != nil {
		t.Fatalf("%+v", fin)
	}
	w.turn(c, `echo again`)
	if fin := finished(t, c); fin.Outcome != "succeeded" {
		t.Fatalf("%+v", fin)
	}
	select {
	case r := <-c.Resources():
		t.Fatalf("a guard of protocol 1 told %+v", r)
	default:
	}
	if _, err := c.Stop(within(t), wire.GuardStopParams{Reason: "person"}); err != nil {
		t.Fatal(err)
	}
}

// A guard of today also serves a service of the protocol before: that is how
// an update is taken back.
func TestOlderService(t *testing.T) {
	w := spawn(t)
	w.record(func(r *wire.GuardRecord) {
		if r.Protocol != wire.GuardProtocol {
			t.Errorf("recorded protocol %d", r.Protocol)
		}
		r.Protocol = wire.OldestGuardProtocol
	})
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	w.turn(c, `echo hello`)
	if fin := finished(t, c); fin.Outcome != "succeeded" {
		t.Fatalf("%+v", fin)
	}
}

// A guard older than that is never commanded, but it can be ended.
func TestTooOldGuard(t *testing.T) {
	w, first := started(t, "fake")
	w.turn(first, `sleep 600`)
	next(t, first, wire.KindSessionStarted)
	_ = first.Close()
	w.record(func(r *wire.GuardRecord) { r.Protocol = wire.OldestGuardProtocol - 1 })
	if c, err := guard.Connect(within(t), w.dir); !errors.Is(err, guard.ErrTooOld) {
		if err == nil {
			_ = c.Close()
		}
		t.Fatalf("connect to a guard that is too old: %v", err)
	}
	if n, err := guard.EndUnadopted(within(t), w.dir); err != nil || n != 2 {
		t.Fatalf("ended %d, %v", n, err)
	}
	<-w.proc.Done()
	if _, err := guard.Connect(within(t), w.dir); !errors.Is(err, guard.ErrGone) {
		t.Fatalf("connect to an old guard that is gone: %v", err)
	}
}

// A guard that shares no protocol with the service does not begin.
func TestNoCommonProtocol(t *testing.T) {
	w := spawn(t, "TEST_PROTOCOL=7")
	select {
	case <-w.proc.Done():
	case <-time.After(patience):
		t.Fatal("it runs")
	}
	if w.proc.Exit() == 0 {
		t.Fatal("it says that all was well")
	}
}

// record changes what the guard wrote of itself, once it is there.
func (w *worker) record(change func(*wire.GuardRecord)) {
	w.t.Helper()
	c := w.connect()
	r := c.Record
	_ = c.Close()
	change(&r)
	raw, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "guard.json"), raw, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
