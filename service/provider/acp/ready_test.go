package acp

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

// What agents of all kinds answer, as they do.
func TestClassify(t *testing.T) {
	for text, code := range map[string]mission.Code{
		`{"code":-32000,"message":"Authentication required"}`:                                                                    mission.AuthenticationRequired,
		`{"code":-32603,"message":"Internal error: Incorrect API key provided: k.","data":{"errorName":"APIError"}}`:             mission.AuthenticationRequired,
		`{"code":-32603,"message":"Internal error","data":{"message":"unexpected status 401 Unauthorized"}}`:                     mission.AuthenticationRequired,
		`{"code":-32603,"message":"Internal error: API Error: Request rejected (429)","data":{"errorKind":"rate_limit"}}`:        mission.RateLimited,
		`{"code":429,"message":"Rate limit exceeded. Try again later."}`:                                                         mission.RateLimited,
		`{"code":-32603,"message":"Internal error","data":{"errorKind":"billing_error","message":"your credit balance is low"}}`: mission.PermissionRequired,
		`{"code":-32603,"message":"Internal error","data":{"errorKind":"model_not_found"}}`:                                      mission.PermissionRequired,
		`{"code":403,"message":"Forbidden"}`:                                                                                     mission.PermissionRequired,
		`{"code":-32603,"message":"Internal error: read 40100 bytes, then the connection was reset"}`:                            mission.LocalExecutionFailure,
		`{"code":-32602,"message":"Invalid params"}`:                                                                             mission.LocalExecutionFailure,
	} {
		var r sdk.RequestError
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if got := classify(&r); got != code {
			t.Errorf("%s is %s, want %s", text, got, code)
		}
	}
	if got := classify(errors.New("429")); got != mission.LocalExecutionFailure {
		t.Errorf("the end of the agent is %s", got)
	}
}

func TestMissing(t *testing.T) {
	for text, want := range map[string]bool{
		`{"code":-32603,"message":"Internal error: OpenCode service failure","data":{"service":"session"}}`:            true,
		`{"code":-32603,"message":"Internal error","data":{"details":"Invalid session identifier \"x\"."}}`:            true,
		`{"code":-32603,"message":"Internal error","data":{"details":"No previous sessions found for this project."}}`: true,
		`{"code":-32602,"message":"Session not found: x"}`:                                                             true,
		`{"code":-32002,"message":"Resource not found"}`:                                                               true,
		`{"code":-32603,"message":"Internal error"}`:                                                                   false,
	} {
		var r sdk.RequestError
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if missing(&r) != want {
			t.Errorf("%s", text)
		}
	}
}

// A repository that an agent would obey is refused before anything runs.
func TestHostileRepositoryIsRefused(t *testing.T) {
	for name, file := range map[string]string{
		"gemini": ".gemini/settings.json", "opencode": ".opencode/plugin/x.js", "qwen": ".env", "claude-agent-acp": ".mcp.json", "codex-acp": ".codex/config.toml",
	} {
		w := newWorld(t)
		w.p = ready(t, name)
		if what, _ := w.p.Refusal(w.folder); what != "" {
			t.Errorf("%s refuses the sample: %s", name, what)
		}
		path := filepath.Join(w.folder, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("nowhere", path); err != nil { // a link counts, wherever it leads
			t.Fatal(err)
		}
		w.spec.Args = []string{"raw-agent"}
		_, err := conform.TryOpen(t, w.p, w.spec)
		var open *provider.OpenError
		if !errors.As(err, &open) || open.Code != mission.PermissionRequired || !strings.Contains(open.Why, strings.Split(file, "/")[0]) {
			t.Errorf("%s opened in a repository with %s: %v", name, file, err)
		}
	}
}

// Nobody's entry is without a sentence for a person who has not installed it,
// and without one that says what it does unasked.
func TestReadyEntriesTell(t *testing.T) {
	for _, a := range Ready() {
		found := New(a).Probe(t.Context(), []string{"PATH=/nonexistent"})
		if found.Found || !strings.HasPrefix(found.Fix, "Install it") || len(found.Notes) != 1 || len(a.hostile) > 0 && a.instead == "" {
			t.Errorf("%s: %+v", a.Name, found)
		}
		if mission.CheckProvider("acp:"+a.Name) != nil {
			t.Errorf("%s is no name", a.Name)
		}
	}
}

// What a repository could make an agent run is never just edited: the mission
// that writes it may be another agent's.
func TestHostileNamesAreGuarded(t *testing.T) {
	folder := t.TempDir()
	for _, a := range Ready() {
		for _, name := range a.hostile {
			call := approval.Call{Kind: "edit", Paths: []approval.Path{{Asked: name, Resolved: filepath.Join(folder, name)}}}
			if _, ok := approval.Unasked([]string{"edits"}, folder, call); ok {
				t.Errorf("%s: an edit of %s passes unasked", a.Name, name)
			}
		}
	}
}
