package supervisor

import (
	"slices"
	"strings"

	"github.com/reevehq/reeve/app/mission"
)

// environment splits the proposer's variables into what the provider gets and
// may be journaled, and the provider's secrets, which may not. Everything that
// neither the rules nor the provider name is dropped.
func environment(from map[string]string, vars []mission.Variable) (plain []string, secrets map[string]string) {
	for name, value := range from {
		if value == "" || strings.ContainsRune(value, 0) {
			continue
		}
		i := slices.IndexFunc(vars, func(v mission.Variable) bool { return v.Name == name })
		switch {
		case i >= 0 && vars[i].Secret:
			if secrets == nil {
				secrets = map[string]string{}
			}
			secrets[name] = value
		case i >= 0, mission.PassesVariable(name, value):
			plain = append(plain, name+"="+value)
		}
	}
	slices.Sort(plain)
	return plain, secrets
}

func names(plain, secrets []string) []string {
	var out []string
	for _, kv := range plain {
		name, _, _ := strings.Cut(kv, "=")
		out = append(out, name)
	}
	for _, name := range secrets {
		out = append(out, name+" (secret)")
	}
	slices.Sort(out)
	return out
}
