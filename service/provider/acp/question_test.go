package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

func lab(w *world) provider.Server {
	return provider.Server{Name: "lab", Command: w.spec.Path, Env: []string{"A=1"}, Question: "ask"}
}

// A server offers its question where the agent has none of its own, and is told
// how long a call may take.
func TestQuestionIsServed(t *testing.T) {
	for name, seconds := range map[string]string{"claude-agent-acp": "", "codex-acp": "82800", "gemini": "540", "x": "50"} {
		t.Run(name, func(t *testing.T) {
			w, heard := cannedWorld(t, "", canned{"session/new": {opens(noModes)}})
			w.p = New(Agent{Name: "x", Title: "X"})
			for _, a := range Ready() {
				if a.Name == name {
					a.Mode = ""
					w.p = New(a)
				}
			}
			w.spec.Servers = []provider.Server{lab(w), {Name: "other", Command: w.spec.Path, Env: []string{"B=2"}}}
			conform.Open(t, w.p, w.spec)
			got := heard()
			if name == "codex-acp" {
				b, err := os.ReadFile(filepath.Join(w.spec.PrivateDir, "codex", "config.toml"))
				if err != nil {
					t.Fatal(err)
				}
				got = strings.ReplaceAll(string(b), `" = "`, `","value":"`)
			}
			if strings.Count(got, provider.QuestionsVar) != strings.Count(got, provider.QuestionsVar+`","value":"`+seconds+`"`) || strings.Contains(got, provider.QuestionsVar) != (seconds != "") {
				t.Errorf("it got %s, want %q", got, seconds)
			}
			if strings.Count(got, `"approve"`) != strings.Count(got, "[mcp_servers.\"lab\".tools.\"ask\"]\napproval_mode = \"approve\"\n") {
				t.Errorf("more runs unasked: %s", got)
			}
		})
	}
}

// Nothing but the question of a server of the mission runs unasked.
func TestQuestionRunsUnasked(t *testing.T) {
	call := func(title, kind, input string) []string {
		return []string{
			update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"` + title + `","kind":"` + kind + `","status":"in_progress","rawInput":` + input + `}`),
			update(`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","title":"` + title + `"}`), done,
		}
	}
	for name, c := range map[string]struct {
		agent, title, kind, input string
		may                       bool
	}{
		"codex":                  {"codex-acp", "x", "other", `{"server":"lab","tool":"ask","arguments":{}}`, true},
		"codex, another tool":    {"codex-acp", "lab/ask", "other", `{"server":"lab","tool":"note","arguments":{}}`, false},
		"codex, another server":  {"codex-acp", "lab/ask", "other", `{"server":"evil","tool":"ask","arguments":{}}`, false},
		"codex, a command":       {"codex-acp", "lab/ask", "execute", `{"command":"lab/ask"}`, false},
		"codex, some command":    {"codex-acp", "lab/ask", "other", `{"command":"lab/ask"}`, false},
		"gemini":                 {"gemini", "ask (lab MCP Server)", "other", `{}`, true},
		"gemini, another server": {"gemini", "ask (evil MCP Server)", "other", `{}`, false},
		"gemini, a command":      {"gemini", "ask (lab MCP Server)", "execute", `{}`, false},
		"another agent":          {"goose", "lab/ask", "other", `{"server":"lab","tool":"ask","arguments":{}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			with := noModes
			if c.agent == "gemini" {
				with = modes("default")
			}
			w, _ := adapter(t, c.agent, canned{"session/new": {opens(with)}, "session/prompt": call(c.title, c.kind, c.input)})
			w.spec.Servers = []provider.Server{lab(w)}
			turn := conform.Open(t, w.p, w.spec).Do("go", nil)
			if c.may {
				want(t, turn, mission.Succeeded, "", mission.NextWaiting)
			} else {
				want(t, turn, mission.Failed, mission.PermissionRequired, "")
			}
		})
	}
}
