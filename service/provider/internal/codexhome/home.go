// Package codexhome makes the private home in which Codex works, by itself or
// behind an adapter.
package codexhome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/reevehq/reeve/service/provider"
)

const (
	// URLVar names another endpoint.
	URLVar  = "OPENAI_BASE_URL"
	homeVar = "CODEX_HOME"
	// DefaultEndpoint is used where nothing else is named.
	DefaultEndpoint = "https://api.openai.com/v1"
	// ours is the name of the model provider in the private home.
	ours = "reeve"
)

// keyVars may hold an API key; the first that is set counts.
var keyVars = []string{"OPENAI_API_KEY", "CODEX_API_KEY"}

// More is what one of the programs is told beside that.
type More struct {
	Settings []string // lines before the first table
	Features []string // lines of that table
	Tables   []string // lines of tables of their own
	// Undecided leaves open whether the folder is trusted. The configuration of
	// such a folder counts as little as that of one which is not.
	Undecided bool
	Rules     string // about commands, "" for none
	// Questions has the tools by which servers ask the person run unasked.
	Questions bool
}

// Home is the program's home for the life of its guard. It holds our
// configuration and two links into the person's own:
//
//   - auth.json, and only where no key was passed on and the default endpoint is
//     used. It is a link and not a copy because a sign-in renews itself: with a
//     copy the first renewal would sign the person out of their own Codex, as
//     each renewal makes the earlier one void. The program writes the file in
//     place. A key that was passed on stays in the environment, never on disk.
//   - sessions, where conversations are kept, so that the next guard finds them.
//
// The person's config.toml, rules, hooks, plugins and MCP servers are not there;
// the mission's servers are.
type Home struct{ Dir, temp string }

// Make makes the home, or renews it for another program of the same guard.
func Make(spec provider.Spec, more More) (Home, error) {
	if spec.PrivateDir == "" {
		return Home{}, errors.New("Codex needs a private directory")
	}
	// Commands in the sandbox may write to the temporary directory, so that is
	// not the home and not above it.
	h := Home{Dir: filepath.Join(spec.PrivateDir, "codex"), temp: filepath.Join(spec.PrivateDir, "tmp")}
	for _, dir := range []string{h.Dir, h.temp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return h, fmt.Errorf("make Codex's private home: %w", err)
		}
	}
	get := provider.Getenv(spec.Env)
	if err := os.WriteFile(filepath.Join(h.Dir, "config.toml"), config(spec, KeyVar(get), more), 0o600); err != nil {
		return h, fmt.Errorf("write Codex's private configuration: %w", err)
	}
	if more.Rules != "" {
		dir := filepath.Join(h.Dir, "rules")
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "default.rules"), []byte(more.Rules), 0o600)); err != nil {
			return h, fmt.Errorf("write Codex's rules: %w", err)
		}
	}
	theirs := PersonHome(get)
	auth := filepath.Join(h.Dir, "auth.json")
	if err := os.Remove(auth); err != nil && !errors.Is(err, os.ErrNotExist) {
		return h, fmt.Errorf("renew Codex's private home: %w", err)
	}
	if theirs == "" {
		return h, nil
	}
	if file := filepath.Join(theirs, "auth.json"); KeyVar(get) == "" && spec.Endpoint == "" && Exists(file) {
		if err := link(file, auth); err != nil {
			return h, fmt.Errorf("let Codex use the sign-in in %s: %w", file, err)
		}
	}
	// Without the link a conversation lasts as long as the guard; then the next
	// one begins a fresh session, and says so.
	sessions := filepath.Join(theirs, "sessions")
	if _, err := os.Lstat(filepath.Join(h.Dir, "sessions")); errors.Is(err, os.ErrNotExist) && os.MkdirAll(sessions, 0o700) == nil {
		_ = os.Symlink(sessions, filepath.Join(h.Dir, "sessions"))
	}
	return h, nil
}

// link makes target known as path. Windows lets only some users make symbolic
// links; a second name for the file serves as well, as it is written in place.
func link(target, path string) error {
	if runtime.GOOS == "windows" {
		return os.Link(target, path)
	}
	return os.Symlink(target, path)
}

// Environment is what the mission approved, with the private home.
func (h Home) Environment(approved []string) []string {
	own := map[string]string{homeVar: h.Dir, "TMPDIR": h.temp}
	var env []string
	for _, kv := range approved {
		key, _, _ := strings.Cut(kv, "=")
		if _, taken := own[key]; !taken && key != URLVar { // the endpoint is fixed in the configuration
			env = append(env, kv)
		}
	}
	return append(env, homeVar+"="+h.Dir, "TMPDIR="+h.temp)
}

// config is the private config.toml. Features are switched off that act on their
// own, reach for other programs, or bring tools in which nobody approved.
func config(spec provider.Spec, key string, more More) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if key != "" || spec.Endpoint != "" {
		line("model_provider = %s", TOML(ours))
	}
	for _, l := range more.Settings {
		line("%s", l)
	}
	line(`cli_auth_credentials_store = "file"`)
	line("check_for_update_on_startup = false")
	line("suppress_unstable_features_warning = true")
	line(`web_search = "disabled"`)
	line("allow_login_shell = false")
	line("[analytics]\nenabled = false")
	for _, l := range more.Tables {
		line("%s", l)
	}
	line("[features]")
	for _, f := range []string{"plugins", "remote_plugin", "apps", "hooks", "goals", "view_image", "image_generation", "browser_use", "computer_use",
		"shell_snapshot", "skill_mcp_dependency_install", "tool_suggest", "guardian_approval", "unbounded_connection_retries", "daemon_auto_start"} {
		line("%s = false", f)
	}
	// Without a terminal a command's input is closed: what would be typed into a
	// running shell is not asked for while it is in the sandbox.
	line("unified_exec_tty = false")
	line("write_stdin_approval = true")
	for _, l := range more.Features {
		line("%s", l)
	}
	// Tools never need the key.
	line("[shell_environment_policy]\nexclude = [%s, %s]", TOML(keyVars[0]), TOML(keyVars[1]))
	// Said, not left open: an unknown folder would become a trusted one when a
	// thread may write there, and its .codex/config.toml would count.
	if !more.Undecided {
		line("[projects.%s]\ntrust_level = \"untrusted\"", TOML(spec.Folder))
	}
	if key != "" || spec.Endpoint != "" {
		base := spec.Endpoint
		if base == "" {
			base = DefaultEndpoint
		}
		line("[model_providers.%s]\nname = \"OpenAI\"\nbase_url = %s\nwire_api = \"responses\"\nsupports_websockets = false", ours, TOML(base))
		line("request_max_retries = 1\nstream_max_retries = 1") // Reeve waits and tries again itself
		if key != "" {
			line("env_key = %s", TOML(key))
		}
	}
	for _, s := range spec.Servers {
		for _, l := range Configured(s).lines(s.Name) {
			line("%s", l)
		}
		if more.Questions && s.Question != "" {
			line("[mcp_servers.%s.tools.%s]\napproval_mode = \"approve\"", TOML(s.Name), TOML(s.Question))
		}
	}
	return b.Bytes()
}

// TOML is s as a basic string; those of JSON are the same but for one character.
func TOML(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // not possible for a string
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
}

// KeyVar is the variable that holds an API key, or "".
func KeyVar(get func(string) string) string {
	for _, v := range keyVars {
		if get(v) != "" {
			return v
		}
	}
	return ""
}

// PersonHome is where the person's own Codex keeps its files, or "".
func PersonHome(get func(string) string) string {
	if d := get(homeVar); filepath.IsAbs(d) {
		return d
	}
	home := provider.Home(get)
	if !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".codex")
}

// Exists says whether there is such a file.
func Exists(file string) bool {
	st, err := os.Stat(file)
	return err == nil && st.Mode().IsRegular()
}
