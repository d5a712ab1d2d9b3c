//go:build unix

package guard_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
	"github.com/reevehq/reeve/service/provider"
)

// supervised is a started guard whose worker has a bridge.
func supervised(t *testing.T, name, bridge string) (*worker, *guard.Client) {
	t.Helper()
	w := spawn(t)
	w.launch.Provider = name
	w.launch.Bridge = &wire.Bridge{
		Socket: "/run/user/1/a socket", Execution: "x-1", Room: "r-1", Session: "s-1",
		Name: "Ada ü", APIURL: "http://127.0.0.1:1", Provider: bridge,
	}
	cmd := exec.Command("git", "init", "-q", w.folder)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1") // not as this machine is set up
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	return w, c
}

// said runs a script in a turn and returns what it printed.
func (w *worker) said(c *guard.Client, p wire.TurnParams) string {
	w.t.Helper()
	w.turns++
	p.Number = w.turns
	if err := c.Turn(within(w.t), p); err != nil {
		w.t.Fatal(err)
	}
	var text strings.Builder
	for {
		e := next(w.t, c, wire.KindText, wire.KindTurnFinished)
		if e.Kind == wire.KindTurnFinished {
			if fin := data[wire.TurnFinished](w.t, e); fin.Outcome != "succeeded" {
				w.t.Errorf("the turn ended %+v", fin)
			}
			return text.String()
		}
		text.WriteString(data[wire.Text](w.t, e).Text)
	}
}

const showBridge = `env | grep -E '^(REEVE|LETAGENTS)_' | LC_ALL=C sort; echo "$SERVERS"`

// The provider and its MCP server learn for whom they speak, each turn anew
// where the provider has a process for each.
func TestBridge(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, perTurn := range map[string]bool{"fake": true, "fake-keep": false} {
		w, c := supervised(t, name, "claude-code")
		attempt := filepath.Base(w.dir)
		for _, turn := range []wire.TurnParams{{Turn: "t-1"}, {Turn: "t-2", Room: "r-2"}} {
			turn.Prompt = showBridge
			lines := strings.Split(strings.TrimSpace(w.said(c, turn)), "\n")
			var servers []provider.Server
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &servers); err != nil {
				t.Fatalf("%v: %q", err, lines)
			}
			room := turn.Room
			if !perTurn || room == "" {
				room = "r-1" // a process that stays keeps what it was told
			}
			both := []string{
				"SUPERVISOR_ENTRY_ID=m-1", "SUPERVISOR_DAEMON_SOCKET=/run/user/1/a socket", "SUPERVISOR_WORK_ATTEMPT_ID=" + attempt,
				"SUPERVISOR_EXECUTION_GENERATION_ID=x-1", "SUPERVISOR_AGENT_SESSION_ID=s-1", "SUPERVISOR_ROOM_ID=" + room,
				"SUPERVISOR_AGENT_DISPLAY_NAME=Ada ü", "SUPERVISOR_PROVIDER=claude-code", "EXECUTION_PROFILE=supervised_room_turn",
				"SUPERVISED_BOUNDED_TURNS=1", "API_URL=http://127.0.0.1:1",
			}
			if perTurn {
				both = append(both, "SUPERVISOR_PROVIDER_TURN_ID="+turn.Turn)
			}
			want := []string{"REEVE_ATTEMPT=" + attempt, "REEVE_MISSION=m-1"}
			for _, v := range both {
				want = append(want, "REEVE_"+v)
			}
			slices.Sort(want)
			got := servers[0].Env
			slices.Sort(got)
			if len(servers) != 1 || servers[0].Name != "reeve" || servers[0].Command != exe || !slices.Equal(servers[0].Args, []string{"mcp"}) || !slices.Equal(got, want) {
				t.Errorf("%s: servers\n%+v\nwant\n%q", name, servers, want)
			}
			for _, v := range both {
				want = append(want, "LETAGENTS_"+v)
			}
			slices.Sort(want)
			if got := lines[:len(lines)-1]; !slices.Equal(got, want) {
				t.Errorf("%s: environment\n%q\nwant\n%q", name, got, want)
			}
		}
		for _, file := range contextfile.Names() {
			if _, err := os.Lstat(filepath.Join(w.folder, file)); err == nil {
				t.Errorf("%s: %s is there, for which only Codex has a use", name, file)
			}
		}
	}
}

func TestNoBridge(t *testing.T) {
	t.Parallel()
	w, c := started(t, "fake")
	got := w.said(c, wire.TurnParams{Turn: "t-1", Prompt: showBridge})
	if want := "REEVE_ATTEMPT=" + filepath.Base(w.dir) + "\nREEVE_MISSION=m-1\nnull\n"; got != want {
		t.Errorf("a worker without a bridge got %q", got)
	}
}

// A bridge of Codex finds its files in the checkout, in each turn, and nothing is
// left of them.
func TestBridgeContext(t *testing.T) {
	t.Parallel()
	w, c := supervised(t, "fake", "codex")
	for range 2 {
		got := w.said(c, wire.TurnParams{Turn: "t-1", Prompt: "cat .letagents-supervisor-context.json .reeve-work-attempt.json; echo; rm .[lr]e*.json; git status --porcelain"})
		attempt := filepath.Base(w.dir)
		want := `{"version":1,"provider":"codex","entry_id":"m-1","room_id":"r-1","work_attempt_id":"` + attempt +
			`","execution_generation_id":"x-1","agent_session_id":"s-1","agent_display_name":"Ada ü"}{"version":1,"work_attempt_id":"` + attempt + `"}` + "\n"
		if got != want {
			t.Errorf("the agent saw %s\nwant %s", got, want)
		}
	}
	if got := w.said(c, wire.TurnParams{Turn: "t-3", Prompt: "ls -A; git status --porcelain"}); !strings.Contains(got, ".reeve-supervisor-context.json") || strings.Contains(got, "??") {
		t.Errorf("the agent saw %s", got)
	}
	if _, err := c.Stop(within(t), wire.GuardStopParams{Reason: "person"}); err != nil {
		t.Fatal(err)
	}
	for _, file := range contextfile.Names() {
		if _, err := os.Lstat(filepath.Join(w.folder, file)); err == nil {
			t.Errorf("%s is left", file)
		}
	}
}

// Where the files can't be written, the mission goes on and says so once.
func TestBridgeContextInTheWay(t *testing.T) {
	t.Parallel()
	w, c := supervised(t, "fake", "codex")
	link := filepath.Join(w.folder, ".reeve-work-attempt.json")
	if err := os.Symlink("elsewhere", link); err != nil {
		t.Fatal(err)
	}
	for _, turn := range []string{"t-1", "t-2"} {
		if got := w.said(c, wire.TurnParams{Turn: turn, Prompt: "ls -A"}); got != ".git\n.reeve-work-attempt.json\n" {
			t.Errorf("the agent saw %q", got)
		}
	}
	told := 0
	for _, e := range w.log() {
		if e.Kind == wire.KindNotice && strings.Contains(data[wire.Notice](t, e).Text, "could not be written: .reeve-work-attempt.json in the checkout is no regular file; move it away.") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("it was said %d times", told)
	}
}

// Only the server that the guard itself handed over is Reeve's own.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	w, c := started(t, "fake")
	w.turn(c, `for x in "1 reeve own" "2 reeve -" "3 other own"; do echo "@mcp $x"; read a; done`)
	for _, own := range []bool{true, false, false} {
		p := asked(t, c)
		if p.Own != own || p.Class != wire.ToolMCP {
			t.Errorf("asked %+v", p)
		}
		resolve(t, c, wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "program"})
	}
	finished(t, c)
}
