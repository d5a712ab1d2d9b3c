package supervisor

import (
	"slices"
	"strings"

	"github.com/reevehq/reeve/service/provider"
)

// allowed are the variables that every provider gets when the proposer has
// them. The session bus, DISPLAY, WAYLAND_DISPLAY and XAUTHORITY are left out
// on purpose: with them a tool could ask other programs of the desktop to act.
var allowed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO",
	// Windows
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
}

// environment splits the proposer's variables into what the provider gets and
// may be journaled, and the provider's secrets, which may not. Everything that
// is on neither list is dropped.
func environment(from map[string]string, vars []provider.Variable) (plain []string, secrets map[string]string) {
	for name, value := range from {
		if strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) || value == "" {
			continue
		}
		i := slices.IndexFunc(vars, func(v provider.Variable) bool { return v.Name == name })
		switch {
		case i >= 0 && vars[i].Secret:
			if secrets == nil {
				secrets = map[string]string{}
			}
			secrets[name] = value
		case i >= 0, slices.Contains(allowed, name), strings.HasPrefix(name, "LC_"):
			plain = append(plain, name+"="+value)
		}
	}
	slices.Sort(plain)
	return plain, secrets
}

func names(plain []string, secrets map[string]string) []string {
	var out []string
	for _, kv := range plain {
		name, _, _ := strings.Cut(kv, "=")
		out = append(out, name)
	}
	for name := range secrets {
		out = append(out, name+" (secret)")
	}
	slices.Sort(out)
	return out
}
