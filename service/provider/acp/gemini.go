package acp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// geminiPolicy is of the administrator's tier, which beats every other. Settings
// of the same rank would have to belong to root, so what the repository's own
// could do is kept out by refusing it. The rule for commands matches all of them,
// but for their arguments: where a rule names none, the program runs commands
// unasked that it takes for harmless.
const geminiPolicy = `[[rule]]
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
	if err := errors.Join(removed(policy), os.WriteFile(policy, []byte(geminiPolicy), 0o600)); err != nil {
		return extras{}, &provider.OpenError{Code: mission.PrivateStateFailure, Err: fmt.Errorf("write the agent's policy: %w", err)}
	}
	return extras{args: []string{"--admin-policy", policy}}, nil
}
