package codex

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/internal/codexhome"
)

var handed = []provider.Server{{Name: "reeve", Command: "/opt/reeve", Args: []string{"mcp"}, Env: []string{"REEVE_X=1=2"}}}

const handedRead = `"reeve":{"command":"/opt/reeve","args":["mcp"],"env":{"REEVE_X":"1=2"},"default_tools_approval_mode":"prompt","required":false,"tools":{}}`

// Only the mission's servers may start, exactly as they were handed over, and
// every call of theirs is asked for.
func TestServersAreTheMissions(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(handedRead, old, new, 1) }
	for name, c := range map[string]struct{ servers, layers string }{
		"none":                   {"", ""},
		"handed over":            {handedRead, `{"name":{"type":"user"},"config":{"mcp_servers":{"reeve":{}}}}`},
		"! another besides":      {handedRead + `,"evil":{"command":"/bin/evil"}`, ""},
		"! another in its place": {swap("/opt/reeve", "/bin/evil"), ""},
		"! other arguments":      {swap(`["mcp"]`, `["mcp","x"]`), ""},
		"! other environment":    {swap("1=2", "3"), ""},
		"! further environment":  {swap(`"1=2"`, `"1=2","LD_PRELOAD":"/tmp/x"`), ""},
		"! not asked":            {swap("prompt", "approve"), ""},
		"! asked as it likes":    {swap(`"default_tools_approval_mode":"prompt",`, ""), ""},
		"! one tool not asked":   {swap(`"tools":{}`, `"tools":{"x":{"approval_mode":"approve"}}`), ""},
		"! over the network":     {swap(`"required"`, `"url":"http://127.0.0.1:1","required"`), ""},
		"! elsewhere":            {swap(`"required"`, `"cwd":"/tmp","required"`), ""},
		"! of the machine":       {handedRead, `{"name":{"type":"system"},"config":{"mcp_servers":{"reeve":{"required":true}}}}`},
		"! no object":            {`"reeve":7`, ""},
	} {
		t.Run(strings.TrimPrefix(name, "! "), func(t *testing.T) {
			spec := fake(t, fakeLines{"config/read": {`{"id":ID,"result":{"config":{"mcp_servers":{` + c.servers + `}},"layers":[` + c.layers + `]}}`}})
			spec.Servers = handed
			_, err := conform.TryOpen(t, New(), spec)
			open := (*provider.OpenError)(nil)
			if refused := errors.As(err, &open) && open.Code == mission.PermissionRequired; refused != strings.HasPrefix(name, "!") || err != nil && !refused {
				t.Errorf("open: %v", err)
			}
		})
	}
}

// Tools of the mission's servers are told apart from all others, and a server
// that did not start is told of once.
func TestWhoseTool(t *testing.T) {
	ask := func(id, server string) []string {
		return []string{
			note("item/started", `"item":{"type":"mcpToolCall","id":"`+id+`","server":"`+server+`","tool":"get","status":"inProgress","arguments":{"a":1}}`),
			`{"id":"` + id + `",` + note(askServer, `"serverName":"`+server+`","message":"?","_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"get"}`)[1:],
		}
	}
	broken := `{"method":"mcpServer/startupStatus/updated","params":{"threadId":"T1","name":"reeve","status":"failed","error":"x"}}`
	spec := fake(t, fakeLines{
		"thread/start": {broken, threadOK, broken},
		"turn/start":   append(append([]string{turnOK}, ask("a", "reeve")...), ask("b", "other")...),
		"answer":       {note("item/completed", `"item":{"type":"mcpToolCall","id":ID,"server":"reeve","tool":"get","status":"failed","error":{"message":"user rejected MCP tool call"}}`), turnEnd},
	})
	spec.Servers = handed
	s := conform.Open(t, New(), spec)
	var asked []provider.PermissionRequested
	turn := s.Do("go", func(ev provider.Event) {
		if e, ok := ev.(provider.PermissionRequested); ok {
			if asked = append(asked, e); len(asked) == 2 {
				s.Answer(asked[0], provider.Answer{})
			}
		}
	})
	want(t, turn, mission.Succeeded, "")
	if len(asked) != 2 || !asked[0].Tool.Own || asked[1].Tool.Own || asked[1].Tool.Server != "other" {
		t.Errorf("asked %+v", asked)
	}
	if done := conform.Of[provider.ToolFinished](turn); len(done) == 0 || done[0].Call != "a" || done[0].Status != "denied" {
		t.Errorf("finished %+v", done)
	}
	if told := conform.Of[provider.Notice](turn); len(told) != 1 || !strings.Contains(told[0].Text, "The MCP server reeve did not start") {
		t.Errorf("told %+v", told)
	}
}

// A request for a tool does not name its call. What a person sees is what their
// answer is about, whatever order two calls of a tool are asked for in.
func TestRequestsOfOneTool(t *testing.T) {
	start := func(id, args string) string {
		return note("item/started", `"item":{"type":"mcpToolCall","id":"`+id+`","server":"reeve","tool":"get","status":"inProgress","arguments":`+args+`}`)
	}
	ask := func(id, args string) string {
		return `{"id":"` + id + `",` + note(askServer, `"serverName":"reeve","message":"?","_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"get","tool_params":`+args+`}`)[1:]
	}
	spec := fake(t, fakeLines{"turn/start": {turnOK,
		start("a", `{"n":1,"m":2}`), start("b", `{"n":2}`), start("c", `{"n":2}`),
		ask("lost", `{"n":3}`), ask("1", `{"n":2}`), ask("2", `{"n":2}`), ask("3", `{"m":2, "n":1}`), turnEnd,
	}})
	s := conform.Open(t, New(), spec)
	turn := s.Do("go", nil)
	want(t, turn, mission.Succeeded, "")
	var asked []string
	for _, e := range conform.Of[provider.PermissionRequested](turn) {
		asked = append(asked, e.Request+" "+e.Tool.Call+" "+string(e.Tool.Input))
	}
	if got := strings.Join(asked, "; "); got != `"1" b {"n":2}; "2" c {"n":2}; "3" a {"n":1,"m":2}` {
		t.Errorf("asked %s", got)
	}
	s.Close()
	if all := heard(t, spec); !strings.Contains(all, `"message":"Reeve can't tell which call this is about"},"id":"lost"`) {
		t.Errorf("it heard %s", all)
	}
}

// What a server gets may hold any character.
func TestServersInTheHome(t *testing.T) {
	server := provider.Server{Name: `a "b".c`, Command: `C:\x\"reeve".exe`, Args: []string{"ü\n", ""}, Env: []string{"A B=\x7f'\"", "C="}}
	h, err := codexhome.Make(provider.Spec{Folder: "/w", PrivateDir: t.TempDir(), Servers: []provider.Server{server}}, homeSettings)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.Dir, "config.toml")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`[mcp_servers."a \"b\".c"]`, `command = "C:\\x\\\"reeve\".exe"`, `args = ["ü\n", ""]`, `default_tools_approval_mode = "prompt"`,
		`[mcp_servers."a \"b\".c".env]`, `"A B" = "\u007f'\""`, `"C" = ""`,
	} {
		if !strings.Contains(string(b), line+"\n") {
			t.Errorf("there is no %s in\n%s", line, b)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	raw, err := json.Marshal(codexhome.Configured(server))
	if err != nil {
		t.Fatal(err)
	}
	if bad := otherServers(map[string]json.RawMessage{server.Name: raw}, []provider.Server{server}); bad != "" {
		t.Errorf("%q is not known again", bad)
	}
}
