package claudevars

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/reevehq/reeve/service/provider"
)

const (
	// URL is the variable with the base URL of the API.
	URL = "ANTHROPIC_BASE_URL"
	// Maker is where the program goes without one.
	Maker = "https://api.anthropic.com"

	maxConfig = 16 << 20
)

// clouds are the switches with which the program leaves its endpoint for that of
// a cloud.
var clouds = []string{"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"}

// Config returns where the program keeps what it knows about its person: the
// file with its state, and the directory beside it. Both are "" when the
// environment that get reads doesn't say.
func Config(get func(string) string) (state, dir string) {
	if d := get("CLAUDE_CONFIG_DIR"); d != "" {
		return filepath.Join(d, ".claude.json"), d
	}
	home := provider.Home(get)
	if home == "" {
		return "", ""
	}
	return filepath.Join(home, ".claude.json"), filepath.Join(home, ".claude")
}

// Endpoint returns the base URL that the program would use by itself, "" for its
// maker's. The variables in its state count more than those that it is given.
func Endpoint(get func(string) string) string {
	url := get(URL)
	var own struct {
		Env map[string]any `json:"env"`
	}
	if state, _ := Config(get); state != "" && json.Unmarshal(read(state), &own) == nil {
		if s, ok := own.Env[URL].(string); ok && s != "" {
			url = s
		}
	}
	url = strings.TrimSuffix(url, "/")
	if url == Maker {
		return ""
	}
	return url
}

// read returns what a regular file begins with. Without one it is empty.
func read(file string) []byte {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	b, _ := io.ReadAll(io.LimitReader(f, maxConfig)) // half of it is no JSON
	return b
}

// Pinned are the variables that hold the program to endpoint ("": its maker's)
// when they stand in the settings of its start: those count more than the ones in
// its state, which would count more than its environment.
func Pinned(endpoint string) map[string]string {
	if endpoint == "" {
		endpoint = Maker
	}
	env := map[string]string{URL: endpoint}
	for _, name := range clouds {
		env[name] = ""
	}
	return env
}
