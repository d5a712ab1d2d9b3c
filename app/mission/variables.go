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

// Variable is an environment variable that a provider documents. A secret one
// stays in memory and is named, never shown, in the approval.
type Variable struct {
	Name   string
	Secret bool
}

// documented are the variables of each provider. The base URL is not among
// them: it is the mission's endpoint.
var documented = map[string][]Variable{
	"claude": {
		{Name: "ANTHROPIC_API_KEY", Secret: true},
		{Name: "ANTHROPIC_AUTH_TOKEN", Secret: true},
		{Name: "CLAUDE_CODE_OAUTH_TOKEN", Secret: true},
		{Name: "CLAUDE_CONFIG_DIR"},
		{Name: "CLAUDE_CODE_MAX_RETRIES"},
		{Name: "API_TIMEOUT_MS"},
	},
	"codex": {
		{Name: "OPENAI_API_KEY", Secret: true},
		{Name: "CODEX_API_KEY", Secret: true},
		{Name: "CODEX_HOME"},
	},
	// An ACP agent gets those of them that its entry names.
	"acp": {
		{Name: "ANTHROPIC_API_KEY", Secret: true},
		{Name: "OPENAI_API_KEY", Secret: true},
		{Name: "CODEX_API_KEY", Secret: true},
		{Name: "GEMINI_API_KEY", Secret: true},
		{Name: "GOOGLE_API_KEY", Secret: true},
		{Name: "OPENROUTER_API_KEY", Secret: true},
		{Name: "MISTRAL_API_KEY", Secret: true},
		{Name: "GROQ_API_KEY", Secret: true},
		{Name: "DEEPSEEK_API_KEY", Secret: true},
		{Name: "XAI_API_KEY", Secret: true},
		{Name: "DASHSCOPE_API_KEY", Secret: true},
		{Name: "GOOGLE_CLOUD_PROJECT"},
		{Name: "GOOGLE_CLOUD_LOCATION"},
		{Name: "GOOGLE_GENAI_USE_VERTEXAI"},
		{Name: "CLAUDE_CONFIG_DIR"},
		{Name: "CODEX_HOME"},
	},
}

// ProviderVariables lists what a provider gets beside the usual variables.
func ProviderVariables(provider string) []Variable { return slices.Clone(documented[provider]) }

// Variables lists what a client sends of its environment with a proposal, for
// any provider. The service filters again by PassesVariable and by the
// provider's own; of a base URL it makes the mission's endpoint.
func Variables() []string {
	names := append(slices.Clone(variables), "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
	for _, list := range documented {
		for _, v := range list {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// PassesVariable reports whether a provider gets name=value whatever it
// documents. Empty values and malformed names are never passed.
func PassesVariable(name, value string) bool {
	return slices.Contains(variables, name) && value != "" && !strings.ContainsRune(value, 0)
}
