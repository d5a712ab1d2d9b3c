package model

import (
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

func TestMend(t *testing.T) {
	for _, row := range []struct{ problem, fix, said, command string }{
		{"Codex is not signed in.", "Run `codex login` in a terminal, or pass on `OPENAI_API_KEY`.", "Codex is not signed in. Run codex login in a terminal, or pass on OPENAI_API_KEY.", "codex login"},
		{"It is not installed.", "Install it.", "It is not installed. Install it.", ""},
		{"", "", "", ""},
		{"Odd.", "Run `x", "Odd. Run x", ""},
		{"Odd.", "Run `rm\u202e -rf`.", "Odd. Run rm‹U+202E› -rf.", ""}, // nobody should copy what they can't see
		{"Odd.", "Run `a\nb`.", "Odd. Run a b.", ""},
	} {
		if said, command := Mend(wire.Provider{Problem: row.problem, Fix: row.fix}); said != row.said || command != row.command {
			t.Errorf("%q: %q, %q", row.fix, said, command)
		}
	}
}
