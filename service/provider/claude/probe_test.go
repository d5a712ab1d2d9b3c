package claude

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func put(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProbe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs of this test are scripts for a POSIX shell")
	}
	script := "#!/bin/sh\necho '2.9.1 (Claude Code)'\n"
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	for _, c := range []struct {
		name           string
		make           func(root string) (path string) // the program to be found
		env            []string
		problem, fix   string
		signedIn       string
		endpoint, vers string
	}{
		{name: "not installed", make: func(string) string { return "" }, problem: "not installed", fix: "npm install"},
		{name: "key", make: func(r string) string { return put(t, r+"/bin/claude", script, 0o755) },
			env: []string{"ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL=http://other/"}, signedIn: "yes", endpoint: "http://other", vers: "2.9.1"},
		{name: "signed out", make: func(r string) string { return put(t, r+"/bin/claude", script, 0o755) }, signedIn: "no", problem: "not signed in", fix: "/login", vers: "2.9.1"},
		{name: "signed in", make: func(r string) string {
			put(t, r+"/home/.claude/.credentials.json", `{"claudeAiOauth":{"accessToken":"secret"}}`, 0o600)
			return put(t, r+"/bin/claude", script, 0o755)
		}, signedIn: "yes", vers: "2.9.1"},
		{name: "own configuration", make: func(r string) string {
			put(t, r+"/conf/.claude.json", `{"oauthAccount":{"x":1}}`, 0o600)
			return put(t, r+"/bin/claude", script, 0o755)
		}, env: []string{"CLAUDE_CONFIG_DIR=ROOT/conf"}, signedIn: "yes", vers: "2.9.1"},
		{name: "own endpoint", make: func(r string) string {
			put(t, r+"/home/.claude.json", `{"env":{"ANTHROPIC_BASE_URL":"https://proxy.example/"}}`, 0o600)
			return put(t, r+"/bin/claude", script, 0o755)
		}, env: []string{"ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL=https://other.example"}, signedIn: "yes", vers: "2.9.1", endpoint: "https://proxy.example"},
		{name: "launcher of npm", make: func(r string) string {
			scope := r + "/lib/node_modules/@anthropic-ai/"
			launcher := put(t, scope+"claude-code/bin/claude.exe", "run the install script\n", 0o755)
			if err := os.MkdirAll(r+"/bin", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(launcher, r+"/bin/claude"); err != nil {
				t.Fatal(err)
			}
			return put(t, scope+"claude-code-"+runtime.GOOS+"-"+arch+"/claude", script, 0o755)
		}, env: []string{"ANTHROPIC_API_KEY=k"}, signedIn: "yes", vers: "2.9.1"},
		{name: "launcher alone", make: func(r string) string { return put(t, r+"/bin/claude", "run the install script\n", 0o755) },
			problem: "only its launcher", fix: "npm install"},
		{name: "broken", make: func(r string) string { return put(t, r+"/bin/claude", "#!/bin/sh\nexit 1\n", 0o755) }, problem: "does not run", fix: "--version"},
		{name: "something else", make: func(r string) string { return put(t, r+"/bin/claude", "#!/bin/sh\necho hello\n", 0o755) }, problem: "not Claude Code", fix: "--version"},
		{name: "no program", make: func(r string) string { put(t, r+"/bin/claude", script, 0o644); return "" }, problem: "not installed", fix: "npm install"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			path := c.make(root)
			env := []string{"PATH=relative:" + root + "/bin", "HOME=" + root + "/home"}
			for _, kv := range c.env {
				env = append(env, strings.ReplaceAll(kv, "ROOT", root))
			}
			p := New().Probe(context.Background(), env)
			if p.Found != (path != "") || p.Path != path || p.Version != c.vers || p.Endpoint != c.endpoint ||
				!strings.Contains(p.Problem, c.problem) || !strings.Contains(p.Fix, c.fix) || (p.Problem == "") != (c.problem == "") {
				t.Errorf("%+v", p)
			}
			got := ""
			if p.SignedIn != nil {
				got = map[bool]string{true: "yes", false: "no"}[*p.SignedIn]
			}
			if got != c.signedIn {
				t.Errorf("signed in %q, want %q", got, c.signedIn)
			}
			if strings.Contains(p.Problem+p.Fix, "secret") {
				t.Error("a secret is in the answer")
			}
		})
	}
}

func TestProbeReal(t *testing.T) {
	path := realClaude(t)
	p := New().Probe(context.Background(), []string{"PATH=" + filepath.Dir(path), "HOME=" + t.TempDir(), "ANTHROPIC_API_KEY=k"})
	if !p.Found || p.Version == "" || p.Problem != "" {
		t.Errorf("%+v", p)
	}
}
