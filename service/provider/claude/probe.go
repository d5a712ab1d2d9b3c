package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
	"github.com/reevehq/reeve/service/provider/internal/claudevars"
)

const installFix = "Install Claude Code (`npm install -g @anthropic-ai/claude-code`), then try again."

func readVersion(out string) string { return versionText().FindString(strings.TrimSpace(out)) }

var versionText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d+\.\d+\.\d+\S*`) })

// Probe implements provider.Provider. It runs the program only for its version
// number, without a model and without the network.
func (*Claude) Probe(ctx context.Context, env []string) provider.Probe {
	get := provider.Getenv(env)
	p := provider.Probe{Endpoint: claudevars.Endpoint(get)}
	found := find(get("PATH"))
	if found == "" {
		p.Problem, p.Fix = "Claude Code is not installed: there is no claude in PATH.", installFix
		return p
	}
	p.Found = true
	native, err := resolve(found)
	if err != nil {
		p.Path, p.Problem, p.Fix = found, err.Error(), installFix
		return p
	}
	p.Path = native
	if p.Version, err = child.Version(ctx, "Claude Code", native, environment(provider.Spec{Env: env}), readVersion); err != nil {
		p.Problem, p.Fix = err.Error(), "Run `"+native+" --version` in a terminal to see why, or install Claude Code again."
		return p
	}
	p.SignedIn = signedIn(get)
	if p.SignedIn != nil && !*p.SignedIn {
		p.Problem, p.Fix = "Claude Code is not signed in.", "Run `claude`, type /login and sign in, or pass on "+keyVar+"."
	}
	return p
}

// find returns the first claude in path, which is a PATH, or "". Relative
// entries are passed over: they would mean something else in each folder.
func find(path string) string {
	names := []string{"claude"}
	if runtime.GOOS == "windows" {
		// npm's own entry is a script of the shell; the program lies beside it.
		names = []string{"claude.exe", filepath.Join("node_modules", "@anthropic-ai", "claude-code", "bin", "claude.exe")}
	}
	return child.Find(path, names...)
}

// resolve returns the program behind found. npm's package holds a launcher that
// its install script replaces by the native program; where scripts are off, the
// program is only in the package for the platform.
func resolve(found string) (string, error) {
	real, err := filepath.EvalSymlinks(found)
	if err != nil {
		return "", fmt.Errorf("Claude Code at %s can't be resolved: %w", found, err)
	}
	kind, err := child.Kind(real)
	if err != nil {
		return "", fmt.Errorf("Claude Code at %s can't be read: %w", real, err)
	}
	if kind == child.Native {
		return real, nil
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	system, exe := runtime.GOOS, "claude"
	if system == "windows" {
		system, exe = "win32", "claude.exe"
	}
	for dir := filepath.Dir(real); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		for _, scope := range []string{dir, filepath.Join(dir, "node_modules", "@anthropic-ai")} {
			for _, libc := range []string{"", "-musl"} {
				file := filepath.Join(scope, "claude-code-"+system+"-"+arch+libc, exe)
				if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
					return file, nil
				}
			}
		}
	}
	if kind == child.Script {
		return real, nil // an older release, or the person's own wrapper
	}
	return "", fmt.Errorf("Claude Code at %s is only its launcher; the program for this system is missing", real)
}

// signedIn looks for a key or for a saved sign-in. It reads no secret into the
// answer. On macOS the sign-in may be in the keychain, so that its absence from
// the files says nothing.
func signedIn(get func(string) string) *bool {
	yes, no := true, false
	for _, k := range []string{keyVar, "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} {
		if get(k) != "" {
			return &yes
		}
	}
	state, dir := claudevars.Config(get)
	if dir == "" {
		return nil
	}
	if has(filepath.Join(dir, ".credentials.json"), "claudeAiOauth") || has(state, "oauthAccount") {
		return &yes
	}
	if runtime.GOOS == "darwin" {
		return nil
	}
	return &no
}

// has reports whether the JSON object in file has a value for key.
func has(file, key string) bool {
	text, ok := readText(file)
	var fields map[string]json.RawMessage
	if !ok || json.Unmarshal([]byte(text), &fields) != nil {
		return false
	}
	v := fields[key]
	return len(v) > 0 && string(v) != "null"
}
