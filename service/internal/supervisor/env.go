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

// fix puts the variables that have one value whatever the proposer has into an
// environment.
func fix(env, fixed []string) []string {
	if len(fixed) == 0 {
		return env
	}
	env = slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(fixed, func(f string) bool { return strings.HasPrefix(f, name+"=") })
	})
	env = append(env, fixed...)
	slices.Sort(env)
	return env
}

// names lists for a person which variables a provider gets, and tells secret
// ones and where they come from.
func names(plain, secrets []string, stored []Stored) []string {
	var out []string
	for _, kv := range plain {
		name, _, _ := strings.Cut(kv, "=")
		out = append(out, name)
	}
	for _, name := range secrets {
		out = append(out, name+" (secret)")
	}
	for _, x := range stored {
		out = append(out, x.Name+" (secret, "+x.In.Words()+")")
	}
	slices.Sort(out)
	return out
}
