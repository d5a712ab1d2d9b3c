package model

import (
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

func TestCredentialRows(t *testing.T) {
	rows := CredentialRows(wire.CredentialListResult{Wanted: []string{"B"}, Credentials: []wire.Credential{
		{Name: "A\u202e", Providers: []string{"claude", "acp:demo"}, In: wire.InKeychain, UpdatedAt: at(14, 2), Ready: true, Problem: "old"},
		{Name: "B", In: wire.InFile, UpdatedAt: at(14, 2), Problem: "It is\nlocked.", Fix: "Open it."},
		{Name: "C", In: wire.InMemory, UpdatedAt: at(14, 2), Ready: true},
	}}, at(15, 0))
	want := []CredentialRow{
		{Name: "A‹RLO›", Ready: true, About: "in the keychain, for Claude Code, Demo agent, since 14:02"},
		{Name: "B", About: "in the encrypted file, since 14:02", Problem: "It is locked. Open it.", File: true, Wanted: true},
		{Name: "C", Ready: true, About: "in memory, until the service ends, since 14:02"},
	}
	for i, r := range rows {
		if r != want[i] {
			t.Errorf("got %+v\nwant %+v", r, want[i])
		}
	}
	for state, text := range map[string]string{"": "", "ready": "", "locked": "It is locked. Open it."} {
		if got := KeychainTrouble(wire.Keychain{State: state, Message: "It is locked.", Fix: "Open it."}); got != text {
			t.Errorf("%s: %q", state, got)
		}
	}
}
