//go:build unix

package supervisor

import (
	"encoding/json"
	"os/exec"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// What a guard could not end keeps the checkout for as long as it runs, also
// over a restart of the service, and no longer.
func TestLeftIsLookedAtAgain(t *testing.T) {
	h := newHouse(t)
	h.allow.Store(true)
	r := h.begin("a", "demo:slow 100000")
	h.until(r.ID, "session", func(r Record) bool { return r.ProviderSession != "" })
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	const name = "process 1 (stubborn)"
	said, err := json.Marshal(wire.SessionEnded{Reason: "stop", Left: []string{name}, Processes: []wire.Process{wire.Process(id)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.s.do(within(t), r.ID, func(w *worker) error {
		w.ingest(wire.Entry{Seq: w.rec.Ingested + 1000, Kind: wire.KindSessionEnded, Data: said})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.signal(h.guardOf(r), syscall.SIGKILL)
	named := func(r Record) bool { return r.Phase == mission.Blocked && len(r.Left) == 1 && r.Left[0] == name }
	h.until(r.ID, "what is left", named)
	h.s.Close()
	h.reopen()
	h.until(r.ID, "what still is left", named)
	for range 2 {
		if got, err := h.s.Stop(within(t), r.ID); err != nil || !named(got) {
			t.Fatalf("%s, left %v, %v", got.Phase, got.Left, err)
		}
	}
	if h.owned(r.Folder()) != r.ID {
		t.Error("the checkout was given away")
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := id.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := h.s.Stop(within(t), r.ID); err != nil || !got.Phase.Terminal() {
		t.Fatalf("%s, left %v, %v", got.Phase, got.Left, err)
	}
}
