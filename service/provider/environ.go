package provider

import (
	"runtime"
	"strings"
)

// Getenv reads variables of env, which is not the environment of this process
// but that of a person or of an agent. The last value of a name counts, and one
// that is not there is "".
func Getenv(env []string) func(name string) string {
	values := map[string]string{}
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			values[k] = v
		}
	}
	return func(name string) string { return values[name] }
}

// Home is the home directory in the environment that get reads, where the agents
// look for it, or "".
func Home(get func(name string) string) string {
	if runtime.GOOS == "windows" {
		return get("USERPROFILE")
	}
	return get("HOME")
}
