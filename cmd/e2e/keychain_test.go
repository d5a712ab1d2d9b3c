//go:build linux

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/keychain/keyring"
)

// TestOneStateOneKeychain: however REEVE_STATE is spelled, a state has the same
// secrets. What a keychain had nothing of is not said to be removed from it.
func TestOneStateOneKeychain(t *testing.T) {
	t.Parallel()
	bus, other := keyring.Start(t, ""), keyring.Start(t, "")
	bus.Unlocked()
	other.Unlocked()
	m := newMachine(t)
	on := func(address, state string) {
		t.Helper()
		if m.cmd != nil {
			m.signal(syscall.SIGTERM)
		}
		if !m.tryStart("DBUS_SESSION_BUS_ADDRESS="+address, "REEVE_STATE="+state) {
			t.Fatalf("the service did not come up:\n%s", m.logs.text())
		}
	}
	set := func() {
		t.Helper()
		if r := m.typed(marked()+"\n", "credentials", "set", "OPENAI_API_KEY"); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	on(bus.Address, m.state+"/")
	set()
	on(bus.Address, m.state+"/../"+m.state[strings.LastIndex(m.state, "/")+1:])
	if r := must[wire.CredentialListResult](m, "credentials"); len(r.Credentials) != 1 || !r.Credentials[0].Ready {
		t.Errorf("with another spelling: %+v", r)
	}
	if r := m.run("credentials", "remove", "OPENAI_API_KEY"); r.code != 0 || r.out != "Removed OPENAI_API_KEY.\n" {
		t.Errorf("%d %s%s", r.code, r.out, r.err)
	}
	set()
	on(other.Address, m.state)
	if r := m.run("credentials", "remove", "OPENAI_API_KEY"); r.code != 0 || !strings.HasPrefix(r.out, "Removed OPENAI_API_KEY.\nThe keychain had no OPENAI_API_KEY of this Reeve") {
		t.Errorf("%d %s%s", r.code, r.out, r.err)
	}
}
