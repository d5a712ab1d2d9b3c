package mission

import (
	"slices"
	"strings"
)

// variables are what every agent gets of the proposer's environment. The
// session bus, DISPLAY, WAYLAND_DISPLAY and XAUTHORITY are left out on purpose:
// with them a tool could ask other programs of the desktop to act.
var variables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR",
	"LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO",
	// Windows
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
}

// Variables lists the environment variables that a mission takes along beside
// those that its provider documents.
func Variables() []string { return slices.Clone(variables) }

// PassesVariable reports whether a provider gets name=value whatever it
// documents. Empty values and malformed names are never passed.
func PassesVariable(name, value string) bool {
	return slices.Contains(variables, name) && value != "" && !strings.ContainsRune(value, 0)
}
