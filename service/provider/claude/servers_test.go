package claude

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

// The mission's servers stand in a private file, whatever lay at its place.
func TestServersAreInAFile(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, serverFile)); err != nil {
		t.Fatal(err)
	}
	spec := provider.Spec{PrivateDir: dir, Servers: []provider.Server{{Name: "reeve", Command: "/opt/reeve", Args: []string{"mcp"}, Env: []string{"X=canary=1", "Y=${Z}"}}}}
	config, err := servers(spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(config)
	const expect = `{"mcpServers":{"reeve":{"args":["mcp"],"command":"/opt/reeve","env":{"X":"canary=1","Y":"${REEVE_NOT_SET:-$}{Z}"},"type":"stdio"}}}`
	if err != nil || string(b) != expect {
		t.Errorf("%v: %s", err, b)
	}
	if info, err := os.Lstat(config); err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if b, _ := os.ReadFile(elsewhere); string(b) != "theirs" {
		t.Error("a link was followed")
	}
	args := strings.Join(arguments(spec, "s", config), " ")
	if !strings.Contains(args, "--strict-mcp-config --mcp-config "+config) || strings.Contains(args, "canary") {
		t.Errorf("arguments %s", args)
	}
	spec.PrivateDir = ""
	if _, err := servers(spec); err == nil {
		t.Error("servers without a private place were taken")
	}
}

// Whatever the program's own state says of it, the endpoint is the approved one,
// or the maker's where none was; and no switch leads to a cloud's.
func TestEndpointIsPinned(t *testing.T) {
	for endpoint, url := range map[string]string{"": "https://api.anthropic.com", "http://127.0.0.1:9/x": "http://127.0.0.1:9/x"} {
		args := arguments(provider.Spec{Endpoint: endpoint}, "s", "c")
		i := slices.Index(args, "--settings")
		want := `{"env":{"ANTHROPIC_BASE_URL":"` + url + `","CLAUDE_CODE_USE_BEDROCK":"","CLAUDE_CODE_USE_FOUNDRY":"","CLAUDE_CODE_USE_VERTEX":""}}`
		if i < 0 || i+1 == len(args) || args[i+1] != want {
			t.Errorf("%q: arguments %q", endpoint, args)
		}
	}
}

// Another server ends the program, even beside the mission's; one of the
// mission's that did not start does not.
func TestServersAreTheMissions(t *testing.T) {
	started := func(list string) string {
		return `{"type":"system","subtype":"init","permissionMode":"default","mcp_servers":[` + list + `]}`
	}
	const (
		fine   = `{"name":"reeve","status":"connected"}`
		failed = `{"name":"reeve","status":"failed"}`
		use    = `{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"mcp__reeve__get","tool_use_id":"c","input":{}}}`
		other  = `{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"mcp__reeve2__get","tool_use_id":"d","input":{}}}`
		end    = `{"type":"result","subtype":"success","result":"x"}`
	)
	run := func(lines ...string) conform.Turn {
		spec := fake(t, fakeLines{Init: []string{initOK}, Turn: lines})
		spec.PrivateDir = t.TempDir()
		spec.Servers = []provider.Server{{Name: "reeve", Command: "/opt/reeve"}}
		return conform.Open(t, New(), spec).Do("go", nil)
	}
	want(t, run(started(fine+`,{"name":"evil","status":"connected"}`)), mission.Failed, mission.PermissionRequired)
	want(t, run(started(`{"name":"plugin:x:reeve","status":"connected"}`)), mission.Failed, mission.PermissionRequired)

	turn := run(started(fine), use, other, end)
	want(t, turn, mission.Succeeded, "")
	asked := conform.Of[provider.PermissionRequested](turn)
	if len(asked) != 2 || !asked[0].Tool.Own || asked[0].Tool.Server != "reeve" || asked[1].Tool.Own {
		t.Errorf("asked %+v", asked)
	}
	if told := conform.Of[provider.Notice](turn); len(told) != 0 {
		t.Errorf("told %+v", told)
	}
	turn = run(started(failed), end)
	want(t, turn, mission.Succeeded, "")
	if told := conform.Of[provider.Notice](turn); len(told) != 1 || !strings.Contains(told[0].Text, "The MCP server reeve did not start") {
		t.Errorf("told %+v", told)
	}
}
