//go:build unix

package supervisor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
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
	agents, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(agents) == 0 {
		h.t.Skip("no environment of another process can be read here")
	}
	for _, path := range agents {
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		env, _ := os.ReadFile(path)
		if bytes.Contains(args, []byte("demo-agent")) && bytes.Contains(env, []byte("HOME="+h.dir)) {
			return bytes.Contains(env, []byte("VAULT_KEY="+secret))
		}
	}
	return false
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
