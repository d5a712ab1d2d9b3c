package acp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

// geminiCalls is less than the ten minutes after which Gemini CLI gives up a call
// of an MCP server's tool. For the servers of a client nobody can change that.
const geminiCalls = 9 * time.Minute

// geminiURL is the variable with the base URL of the API.
const geminiURL = "GOOGLE_GEMINI_BASE_URL"

// geminiQuestion is how it shows the tool by which a server asks the person.
func geminiQuestion(s provider.Server) string { return s.Question + " (" + s.Name + " MCP Server)" }

// geminiPolicy is of the administrator's tier, which beats every other. Settings
// of the same rank would have to belong to root, so what the repository's own
// could do is kept out by refusing it. The rule for commands matches all of them,
// but for their arguments: where a rule names none, the program runs commands
// unasked that it takes for harmless.
//
// What it asks the person through a tool of Reeve's own server is a question by
// itself, so that tool needs no other; the name of the server is the mission's,
// in whose place the program starts no other.
func geminiPolicy(servers []provider.Server) string {
	policy := geminiAsks
	for _, s := range servers {
		if s.Question != "" {
			policy += fmt.Sprintf("\n[[rule]]\nmcpName = %s\ntoolName = %s\ndecision = \"allow\"\npriority = 999\n", codexhome.TOML(s.Name), codexhome.TOML(s.Question))
		}
	}
	return policy
}

const geminiAsks = `[[rule]]
toolName = "run_shell_command"
argsPattern = "."
decision = "ask_user"
priority = 999

[[rule]]
toolName = "*"
decision = "ask_user"
priority = 998
`

// geminiLiteral writes a value so that it comes out as it is: the program expands
// variables in it, on Windows first those between percent signs.
func geminiLiteral(value string) string {
	value = strings.ReplaceAll(value, "$", `\$`)
	if runtime.GOOS == "windows" {
		value = strings.ReplaceAll(value, "%", "${REEVE_NOT_SET:-%}")
	}
	return value
}

// geminiExplains reads the text beside a command: "[in DIR] (REASON)", where DIR may
// also be the current one. What more brackets than these two could mean is not
// guessed.
func geminiExplains(text string) (dir, reason string, ok bool) {
	for _, begin := range []string{"[in ", "[current working directory "} {
		rest, is := strings.CutPrefix(text, begin)
		if dir, after, closed := strings.Cut(rest, "]"); is && closed && dir != "" && !strings.ContainsAny(dir+after, "[]") {
			reason = strings.TrimSuffix(strings.TrimPrefix(after, " ("), ")")
			return dir, reason, after == "" || after == " ("+reason+")"
		}
	}
	return "", "", false
}

// geminiPolicies is where the administrator of the machine keeps policies, in
// whose presence the program ignores others of that tier.
func geminiPolicies() string {
	switch runtime.GOOS {
	case "darwin":
		return "/Library/Application Support/GeminiCli/policies"
	case "windows":
		return `C:\ProgramData\gemini-cli\policies`
	}
	return "/etc/gemini-cli/policies"
}

func prepareGemini(spec provider.Spec) (extras, error) {
	if system := geminiPolicies(); exists(system) {
		return extras{}, &provider.OpenError{Code: mission.PermissionRequired, Err: errors.New("the machine has policies for Gemini CLI in " + system),
			Why: "The administrator of this machine has policies for Gemini CLI in " + system + ", beside which Reeve's own, by which it asks for everything, would not count, so nothing was run. Use another agent."}
	}
	if spec.PrivateDir == "" {
		return extras{}, &provider.OpenError{Code: mission.PrivateStateFailure, Err: errors.New("there is no private directory")}
	}
	policy := filepath.Join(spec.PrivateDir, "gemini-policy.toml")
	// Written anew each time, as the agent may write here.
	if err := errors.Join(removed(policy), os.WriteFile(policy, []byte(geminiPolicy(spec.Servers)), 0o600)); err != nil {
		return extras{}, &provider.OpenError{Code: mission.PrivateStateFailure, Err: fmt.Errorf("write the agent's policy: %w", err)}
	}
	// What its own files say of the endpoint counts where the variable is absent.
	pinned := func(env []string) []string {
		for _, name := range []string{geminiURL, "GOOGLE_VERTEX_BASE_URL"} {
			env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
			env = append(env, name+"="+spec.Endpoint)
		}
		return env
	}
	return extras{args: []string{"--admin-policy", policy}, environ: pinned}, nil
}

// geminiEndpoint is the URL that the environment names, or the program's own file
// of variables. Whatever that file may say in another way, the mission is held to
// what is read here.
func geminiEndpoint(get func(string) string) string {
	url := get(geminiURL)
	home := provider.Home(get)
	if url == "" && home != "" {
		text, _ := os.ReadFile(filepath.Join(home, ".gemini", ".env")) // there need not be one
		for line := range strings.Lines(string(text)) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
			if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == geminiURL {
				url = strings.Trim(strings.TrimSpace(value), "\"'`")
			}
		}
	}
	return strings.TrimSuffix(url, "/")
}
