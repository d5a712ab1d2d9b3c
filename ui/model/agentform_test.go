package model

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/ipc/wire"
)

func TestAgentEntry(t *testing.T) {
	for _, c := range []struct {
		name  string
		text  map[string]string
		want  wire.ProviderEntry
		wrong map[string]string // part of what is said
	}{
		{"nothing", nil, wire.ProviderEntry{}, map[string]string{"name": "Give it a name", "command": "name of a program"}},
		{"the least", map[string]string{"name": " acp:mine ", "command": " my-agent\n"}, wire.ProviderEntry{Name: "mine", Command: "my-agent"}, nil},
		{"all of it", map[string]string{"name": "mine", "title": "Mine", "command": "/opt/a b/agent", "mode": "ask", "args": "--acp\n\n--dir=a b\r\n\"in quotes\"", "env": "A=1\nB=x=y\nC=", "pass": "OPENAI_API_KEY, CODEX_HOME"},
			wire.ProviderEntry{Name: "mine", Title: "Mine", Command: "/opt/a b/agent", Mode: "ask", Args: []string{"--acp", "--dir=a b", "in quotes"},
				Fixed: map[string]string{"A": "1", "B": "x=y", "C": ""}, Pass: []string{"OPENAI_API_KEY", "CODEX_HOME"}}, nil},
		{"a name with a space", map[string]string{"name": "my agent", "command": "x"}, wire.ProviderEntry{Name: "my agent", Command: "x"}, map[string]string{"name": "not a valid name"}},
		{"no variable", map[string]string{"name": "a", "command": "x", "env": "A=1\nnonsense"},
			wire.ProviderEntry{Name: "a", Command: "x", Fixed: map[string]string{"A": "1", "nonsense": ""}}, map[string]string{"env": "“nonsense” is no NAME=VALUE"}},
		{"a variable without a name", map[string]string{"name": "a", "command": "x", "env": "=1"},
			wire.ProviderEntry{Name: "a", Command: "x", Fixed: map[string]string{"": "1"}}, map[string]string{"env": "no NAME=VALUE"}},
		{"a variable twice", map[string]string{"name": "a", "command": "x", "env": "A=1\nA=2"},
			wire.ProviderEntry{Name: "a", Command: "x", Fixed: map[string]string{"A": "2"}}, map[string]string{"env": "A stands there twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := AgentEntry(c.text)
			if len(got.Args) == 0 {
				got.Args = nil
			}
			if len(got.Pass) == 0 {
				got.Pass = nil
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if len(wrong) != len(c.wrong) {
				t.Errorf("wrong: %v", wrong)
			}
			for field, says := range c.wrong {
				if !strings.Contains(wrong[field], says) {
					t.Errorf("%s: %q, want %q", field, wrong[field], says)
				}
			}
		})
	}
}

// What was written down comes back from the fields as it was.
func TestAgentText(t *testing.T) {
	word := rapid.StringMatching(`[a-zA-Z0-9 /=._-]*[a-z]`)
	rapid.Check(t, func(t *rapid.T) {
		e := wire.ProviderEntry{
			Name: rapid.StringMatching(`[a-z][a-z0-9._-]{0,9}`).Draw(t, "name"), Title: strings.TrimSpace(word.Draw(t, "title")), Command: strings.TrimSpace(word.Draw(t, "command")),
			Args: rapid.SliceOfN(rapid.OneOf(word, rapid.SampledFrom([]string{"", " ", `""`, `"x`, `a"b`, `"\\`})), 1, 5).Draw(t, "args"), Pass: rapid.SliceOfN(rapid.StringMatching(`[A-Z_]{1,9}`), 1, 3).Draw(t, "pass"), Mode: "ask",
			Fixed: rapid.MapOfN(rapid.StringMatching(`[A-Z][A-Z0-9_]{0,9}`), word, 1, 4).Draw(t, "fixed"),
		}
		got, wrong := AgentEntry(AgentText(e))
		if len(wrong) > 0 || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v %v, want %+v", got, wrong, e)
		}
	})
	if got := slices.Sorted(maps.Keys(AgentText(wire.ProviderEntry{}))); !slices.Equal(got, slices.Sorted(slices.Values(AgentFields()))) {
		t.Errorf("fields: %v", got)
	}
}
