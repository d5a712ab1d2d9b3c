//go:build unix

package supervisor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/keychain"
)

// chest is a keychain with one secret, which can be locked. The real ones have
// tests of their own.
type chest struct{ locked atomic.Bool }

const secret = "hidden-value"

func (c *chest) State(context.Context) error {
	if c.locked.Load() {
		return &keychain.Error{State: keychain.Locked, Message: "The keychain is locked.", Fix: "Unlock it."}
	}
	return nil
}
func (c *chest) Get(ctx context.Context, _ string) (string, error) { return secret, c.State(ctx) }
func (c *chest) Set(ctx context.Context, _, _ string) error        { return c.State(ctx) }
func (c *chest) Remove(ctx context.Context, _ string) error        { return c.State(ctx) }

// withChest is a house whose agent documents one secret, which is kept.
func withChest(t *testing.T) (*house, *chest) {
	t.Helper()
	h, c := newHouse(t), &chest{}
	h.keychain, h.vars = c, []mission.Variable{{Name: "VAULT_KEY", Secret: true}, {Name: "OTHER_KEY", Secret: true}}
	h.s.Close()
	h.reopen()
	if err := h.s.Credentials.Set(context.Background(), "VAULT_KEY", secret, "keychain", "", func(*store.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return h, c
}

// given says whether the agent has the secret.
func (h *house) given() bool {
	h.t.Helper()
	return bytes.Contains(h.environ(), []byte("VAULT_KEY="+secret))
}

// environ is the environment of the agent; nil: none runs.
func (h *house) environ() []byte {
	h.t.Helper()
	agents, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(agents) == 0 {
		h.t.Skip("no environment of another process can be read here")
	}
	for _, path := range agents {
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		env, _ := os.ReadFile(path)
		if bytes.Contains(args, []byte("demo-agent")) && bytes.Contains(env, []byte("HOME="+h.dir)) {
			return env
		}
	}
	return nil
}

// A mission whose secret can't be had is blocked, has started nothing, and goes
// on by itself, also in the next service.
func TestAMissionWaitsForItsSecret(t *testing.T) {
	h, c := withChest(t)
	h.allow.Store(true)
	r, ask := h.propose("a", "demo:slow 100000")
	if text := string(ask.Subject); !strings.Contains(text, "VAULT_KEY (secret, from the keychain)") || strings.Contains(text, "OTHER_KEY") {
		t.Errorf("the approval shows %s", text)
	}
	c.locked.Store(true)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	waits := h.phase(r.ID, mission.Blocked)
	if !waits.Awaits || !strings.Contains(waits.BlockedBy, "The keychain is locked. Unlock it.") {
		t.Errorf("blocked by %q", waits.BlockedBy)
	}
	h.s.Close()
	h.reopen()
	if now := h.phase(r.ID, mission.Blocked); !now.Awaits || len(h.guards()) > 0 {
		t.Errorf("in the next service: %+v, guards %v", now.BlockedBy, h.guards())
	}
	if err := h.s.Credentials.HandOver(map[string]string{"VAULT_KEY": secret}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	r = h.until(r.ID, "turn", func(r Record) bool { return len(r.Turns) > 0 && r.Turns[0].Heard })
	if r.Awaits || r.BlockedBy != "" || !h.given() {
		t.Errorf("it goes on as %+v", r)
	}
}

// A mission that waits ends when a person stops it; nothing of it ever ran.
func TestStopWhileItWaits(t *testing.T) {
	h, c := withChest(t)
	r, ask := h.propose("a", "demo:slow 100000")
	c.locked.Store(true)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	h.phase(r.ID, mission.Blocked)
	r, err := h.s.Stop(within(t), r.ID)
	if err != nil || r.Phase != mission.Stopped || h.owned(r.Terms.Folder) != "" || len(h.guards()) > 0 {
		t.Errorf("%s %v, guards %v", r.Phase, err, h.guards())
	}
	if len(h.s.Credentials.Wanted()) != 0 {
		t.Error("it still waits")
	}
}

// brought is a mission whose secret came with its proposal, and which lost its
// guard.
func brought(t *testing.T) (*house, Record) {
	t.Helper()
	h := newHouse(t)
	h.vars = []mission.Variable{{Name: "VAULT_KEY", Secret: true}, {Name: "OTHER_KEY", Secret: true}}
	h.own = map[string]string{"VAULT_KEY": secret}
	r, ask := h.propose("a", "demo:slow 100000")
	r = h.heard(ask, r)
	h.signal(h.guardOf(r), syscall.SIGKILL)
	return h, h.lost(r.ID)
}

// heard allows a start or a recovery, and waits until the agent works. It has
// the secret that the mission was allowed, and no other.
func (h *house) heard(ask approvals.Record, before Record) Record {
	h.t.Helper()
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		h.t.Fatal(err)
	}
	// After a recovery the demo agent's session is lost, so a turn can't open it.
	r := h.until(before.ID, "turn", func(r Record) bool {
		t := r.turn()
		return r.Attempt != before.Attempt && t != nil && t.Outcome == nil && t.Heard
	})
	if !h.given() || bytes.Contains(h.environ(), []byte("OTHER_KEY")) {
		h.t.Errorf("the agent of attempt %d has not the secret that was allowed, or another", len(r.Earlier)+1)
	}
	return r
}

// recover asks for the recovery of the mission as it is now.
func (h *house) recover(id string, env map[string]string) (approvals.Record, error) {
	h.t.Helper()
	r, err := h.s.Get(id)
	if err != nil {
		h.t.Fatal(err)
	}
	_, ask, err := h.s.Recover(within(h.t), id, r.Ref(), r.Terms, env)
	return ask, err
}

// A mission whose secret came with its proposal is recovered after a restart of
// the service with the secret handed over again: that one and no other, and
// only by the recovery that a person allowed.
func TestRecoveryBringsTheSecretAgain(t *testing.T) {
	h, r := brought(t)
	next := func() {
		t.Helper()
		h.s.Close()
		h.reopen()
		h.lost(r.ID)
	}
	asked := func(env map[string]string) approvals.Record {
		t.Helper()
		ask, err := h.recover(r.ID, env)
		if err != nil {
			t.Fatal(err)
		}
		return ask
	}
	refused := func(what string, env map[string]string) {
		t.Helper()
		if _, err := h.recover(r.ID, env); wire.CodeOf(err) != wire.CodeConflict || !strings.Contains(err.Error(), "Run `reeve recover "+r.ID+"` in a terminal with VAULT_KEY in its environment.") {
			t.Errorf("%s: %v", what, err)
		}
	}
	next()
	// Nor does it go on without one after an update, whatever the manifest says.
	now, err := h.s.Get(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	e := entryOf(now)
	e.Resume = true
	if notes := h.s.GoOn(within(t), []mission.UpdateEntry{e}); len(notes) != 1 || !strings.Contains(notes[0], "no longer has VAULT_KEY") {
		t.Errorf("after an update: %q", notes)
	}
	refused("without it", nil)
	refused("with an empty one", map[string]string{"VAULT_KEY": ""})
	refused("with a broken one", map[string]string{"VAULT_KEY": "a\x00b"})
	refused("with another kind", map[string]string{"OTHER_KEY": secret})

	wrong := asked(map[string]string{"VAULT_KEY": "wrong", "OTHER_KEY": "x"})
	if text := string(wrong.Subject); !strings.Contains(text, `"VAULT_KEY (secret)"`) || !strings.Contains(text, "could read its secrets: VAULT_KEY.") || strings.Contains(text, "OTHER_KEY") {
		t.Errorf("the approval shows %s", text)
	}
	if again := asked(nil); again.ID != wrong.ID {
		t.Error("asked again without the secret, it is another question")
	}
	right := asked(map[string]string{"VAULT_KEY": secret})
	if right.ID == wrong.ID {
		t.Error("with another secret it is the same question")
	}
	if _, err := h.answer(wrong, approval.Answer{Allow: true}); wire.CodeOf(err) != wire.CodeApprovalStale {
		t.Errorf("the question about the first secret: %v", err)
	}
	if _, err := h.answer(right, approval.Answer{}); err != nil {
		t.Fatal(err)
	}
	refused("after a denial", nil)
	asked(map[string]string{"VAULT_KEY": secret})
	next()
	refused("in the next service", nil)
	h.heard(asked(map[string]string{"VAULT_KEY": secret, "OTHER_KEY": "x"}), r)
}

// Where the service still has a secret, the one that was allowed stays.
func TestRecoveryKeepsTheSecret(t *testing.T) {
	h, r := brought(t)
	ask, err := h.recover(r.ID, map[string]string{"VAULT_KEY": "another", "OTHER_KEY": "x"})
	if err != nil {
		t.Fatal(err)
	}
	h.heard(ask, r)
}
