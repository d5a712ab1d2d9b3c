package acp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

// Gemini CLI puts its own environment, keys and all, into what it gives a server;
// no value that Reeve hands over may ask for that.
func TestGeminiServersAreLiteral(t *testing.T) {
	w, heard := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}})
	w.p = New(Agent{Name: "x", Title: "X", hardening: hardening{literalEnv: geminiLiteral}})
	w.spec.Servers = []provider.Server{{Name: "lab", Command: os.Args[0], Env: []string{`TITLE=${GEMINI_API_KEY} $HOME \$1`}}}
	conform.Open(t, w.p, w.spec)
	if said := heard(); !strings.Contains(said, `"value":"\\${GEMINI_API_KEY} \\$HOME \\\\$1"`) {
		t.Errorf("it heard %s", said)
	}
}

// What Gemini CLI is made to ask for is every tool, and every command whatever it
// takes for harmless: TestProviders sees that it does. Only what asks the person
// by itself is let through, by the exact names of the server and its tool.
func TestGeminiPolicy(t *testing.T) {
	dir := t.TempDir()
	x, err := prepareGemini(provider.Spec{PrivateDir: dir, Servers: []provider.Server{{Name: "lab", Question: "ask"}, {Name: "other"}}})
	if err != nil {
		if exists(geminiPolicies()) {
			t.Skip("this machine has policies of its own for Gemini CLI")
		}
		t.Fatal(err)
	}
	policy := filepath.Join(dir, "gemini-policy.toml")
	b, err := os.ReadFile(policy)
	if err != nil || len(x.args) != 2 || x.args[1] != policy || strings.Count(string(b), "\"ask_user\"") != 2 ||
		!strings.HasPrefix(string(b), "[[rule]]\ntoolName = \"run_shell_command\"\nargsPattern = \".\"\n") || !strings.Contains(string(b), "toolName = \"*\"") ||
		strings.Count(string(b), "\"allow\"") != 1 || !strings.HasSuffix(string(b), "\n[[rule]]\nmcpName = \"lab\"\ntoolName = \"ask\"\ndecision = \"allow\"\npriority = 999\n") {
		t.Errorf("%v, %q, %v", x.args, b, err)
	}
}

// The person's own file of variables counts where the environment is silent: it is
// read for the approval, and then the program is kept from reading it.
func TestGeminiEndpoint(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "# mine\nGEMINI_API_KEY=canary\nexport GOOGLE_GEMINI_BASE_URL = \"https://proxy.example/\"\n"
	if err := os.WriteFile(filepath.Join(home, ".gemini", ".env"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := ready(t, "gemini")
	own := []string{"HOME=" + home, "USERPROFILE=" + home}
	for want, env := range map[string][]string{
		"https://proxy.example": own,
		"https://other.example": append(own, "GOOGLE_GEMINI_BASE_URL=https://other.example"),
		"":                      nil,
	} {
		if got := p.Probe(t.Context(), env).Endpoint; got != want {
			t.Errorf("%q gives %q, want %q", env, got, want)
		}
	}
	for _, endpoint := range []string{"", "https://approved.example"} {
		x, err := prepareGemini(provider.Spec{PrivateDir: t.TempDir(), Endpoint: endpoint})
		if err != nil {
			if exists(geminiPolicies()) {
				t.Skip("this machine has policies of its own for Gemini CLI")
			}
			t.Fatal(err)
		}
		env := x.environ([]string{"A=b", "GOOGLE_VERTEX_BASE_URL=https://third.example"})
		if want := []string{"A=b", "GOOGLE_GEMINI_BASE_URL=" + endpoint, "GOOGLE_VERTEX_BASE_URL=" + endpoint}; !slices.Equal(env, want) {
			t.Errorf("environment %q, want %q", env, want)
		}
	}
}

// A server whose program is not there is told of, as no agent does.
func TestMissingServer(t *testing.T) {
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(`"models":null`)}, "session/prompt": {done}})
	w.spec.Servers = []provider.Server{{Name: "here", Command: os.Args[0]}, {Name: "lab", Command: filepath.Join(w.folder, "nothing")}}
	turn := conform.Open(t, w.p, w.spec).Do("go", nil)
	if told := conform.Of[provider.Notice](turn); len(told) != 1 || !strings.Contains(told[0].Text, "The MCP server lab did not start") {
		t.Errorf("told %+v", told)
	}
}
