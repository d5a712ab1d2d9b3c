package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

const (
	installFix = "Install Codex (`npm install -g @openai/codex`), then try again."
	signInFix  = "Run `codex login` in a terminal, or pass on OPENAI_API_KEY."
	// maxConfig limits what is read of the person's own files.
	maxConfig = 1 << 20
)

func readVersion(out string) string {
	if !strings.HasPrefix(out, "codex") {
		return ""
	}
	return versionText().FindString(out)
}

var versionText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+\.\d+\.\d+\S*`) })

// Probe implements provider.Provider. It runs the program only for its version
// number, without a model and without the network.
func (*Codex) Probe(ctx context.Context, env []string) provider.Probe {
	get := provider.Getenv(env)
	p := provider.Probe{Endpoint: strings.TrimSuffix(get(codexhome.URLVar), "/")}
	if p.Endpoint == codexhome.DefaultEndpoint {
		p.Endpoint = ""
	}
	found := find(get("PATH"))
	if found == "" {
		p.Problem, p.Fix = "Codex is not installed: there is no codex in PATH.", installFix
		return p
	}
	p.Found = true
	var err error
	if p.Path, err = resolve(found); err != nil {
		p.Path, p.Problem, p.Fix = found, err.Error(), installFix
		return p
	}
	if p.Version, err = child.Version(ctx, "Codex", p.Path, env, readVersion); err != nil {
		p.Problem, p.Fix = err.Error(), "Run `"+p.Path+" --version` in a terminal to see why, or install Codex again."
		return p
	}
	p.SignedIn, p.Fix = signedIn(get, p.Endpoint)
	if p.SignedIn != nil && !*p.SignedIn {
		p.Problem = "Codex is not signed in."
	}
	return p
}

// find returns the first codex in path, which is a PATH, or "". Relative entries
// are passed over: they would mean something else in each folder.
func find(path string) string {
	names := []string{"codex"}
	if runtime.GOOS == "windows" {
		// npm's own entry is a script of the shell; its package lies beside it.
		names = []string{"codex.exe", filepath.Join("node_modules", "@openai", "codex", "bin", "codex.js")}
	}
	return child.Find(path, names...)
}

// resolve returns the program behind found. npm's package holds a launcher in
// JavaScript; the program is in a package for the platform beside it.
func resolve(found string) (string, error) {
	real, err := filepath.EvalSymlinks(found)
	if err != nil {
		return "", fmt.Errorf("Codex at %s can't be resolved: %w", found, err)
	}
	kind, err := child.Kind(real)
	if err != nil {
		return "", fmt.Errorf("Codex at %s can't be read: %w", real, err)
	}
	if kind == child.Native {
		return real, nil
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	system, exe := runtime.GOOS, "codex"
	if system == "windows" {
		system, exe = "win32", "codex.exe"
	}
	for dir := filepath.Dir(real); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		for _, scope := range []string{dir, filepath.Join(dir, "node_modules", "@openai")} {
			files, _ := filepath.Glob(filepath.Join(scope, "codex-"+system+"-"+arch, "vendor", "*", "bin", exe))
			if len(files) == 1 && codexhome.Exists(files[0]) {
				return files[0], nil
			}
		}
	}
	if kind == child.Script && filepath.Ext(real) != ".js" {
		return real, nil // the person's own wrapper
	}
	return "", fmt.Errorf("Codex at %s is only its launcher; the program for this system is missing", real)
}

// signedIn looks for a key or a saved sign-in and says what to do without one.
// It reads no secret into the answer. With another endpoint a key may not be
// needed, and a saved sign-in is never sent there, so nothing can be said.
func signedIn(get func(string) string, endpoint string) (*bool, string) {
	yes, no := true, false
	switch theirs := codexhome.PersonHome(get); {
	case codexhome.KeyVar(get) != "":
		return &yes, ""
	case endpoint != "":
		return nil, ""
	case theirs == "":
		return nil, ""
	case hasSignIn(filepath.Join(theirs, "auth.json")):
		return &yes, ""
	case inKeychain(filepath.Join(theirs, "config.toml")):
		return &no, `Your Codex keeps its sign-in in the keychain, where a mission can't use it: set cli_auth_credentials_store = "file" in ` +
			filepath.Join(theirs, "config.toml") + " and run `codex login` again, or pass on OPENAI_API_KEY."
	}
	return &no, signInFix
}

func hasSignIn(file string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(head(file), &fields) != nil {
		return false
	}
	for _, k := range []string{"OPENAI_API_KEY", "tokens"} {
		if v := string(fields[k]); v != "" && v != "null" && v != `""` {
			return true
		}
	}
	return false
}

var keychainLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*cli_auth_credentials_store\s*=\s*["'](keyring|auto)["']`)
})

func inKeychain(file string) bool { return keychainLine().Match(head(file)) }

// head reads a regular file of moderate size, or nothing.
func head(path string) []byte {
	if !codexhome.Exists(path) {
		return nil // a pipe would block for ever
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return nil
	}
	return b
}
