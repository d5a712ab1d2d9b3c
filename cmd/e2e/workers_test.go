package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestWorkerCannotDecide is the first part of case 23: a real agent tries to
// allow another mission's start from a shell, in a session of its own, after a
// double fork, with a clean environment, from a process it left running, from an
// MCP server it started, and by hand on the socket. Each is refused, recorded and shown, and the agent
// may still read its own mission.
func TestWorkerCannotDecide(t *testing.T) {
	t.Parallel()
	m, _, v, terms := claudeMachine(t)
	repo, other := m.repo("repo"), m.repo("other")
	victim := do[wire.MissionStartResult](v, wire.MethodMissionStart, terms(other, "Wait for a person."))

	fifo := filepath.Join(repo, "pipe")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reeve := filepath.Join(bin, "reeve")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	allow := fmt.Sprintf("'%s' allow %s --digest %s", reeve, victim.Approval.ID, victim.Approval.Digest)
	byHand := fmt.Sprintf(`{"version":2,"id":"1","method":"approval.answer","params":{"id":"%s","digest":"%s","allow":true}}`, victim.Approval.ID, victim.Approval.Digest)
	script := strings.Join([]string{
		"export REEVE_STATE=" + shellQuote(m.state),
		// A server of the Model Context Protocol on pipes, as agents start them.
		"mkfifo in out; (setsid sh mcp.sh <in >out &)",
		"exec 3>in 4<out",
		`echo '{"jsonrpc":"2.0","id":1,"method":"initialize"}' >&3; read x <&4`,
		`echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"allow"}}' >&3; read x <&4`,
		"exec 3>&- 4<&-",
		allow + " >1 2>&1; echo exit=$? >>1",
		"setsid sh -c \"" + strings.ReplaceAll(allow, `"`, `\"`) + " >2 2>&1; echo exit=\\$? >>2\"",
		"(setsid sh -c '(sh -c \"" + strings.ReplaceAll(allow, "'", "") + " >3 2>&1; echo exit=\\$? >>3; echo three >pipe\") &' &)",
		"read x <pipe",
		"env -i REEVE_STATE=\"$REEVE_STATE\" " + allow + " >4 2>&1; echo exit=$? >>4",
		"(nohup sh -c 'read go <pipe; " + strings.ReplaceAll(allow, "'", "") + " >5 2>&1; echo exit=$? >>5; echo five >pipe' >/dev/null 2>&1 &)",
		"echo go >pipe; read x <pipe",
		shellQuote(self) + " -test.run TestSocketByHand >6 2>&1",
		fmt.Sprintf("'%s' show %%s --json >7 2>&1; echo exit=$? >>7", reeve),
		fmt.Sprintf("'%s' ls >8 2>&1; echo exit=$? >>8", reeve),
		fmt.Sprintf("'%s' stop %%s >9 2>&1; echo exit=$? >>9", reeve),
	}, "\n")
	p := terms(repo, `Try. <<tool:Bash {"command":"sh attack.sh","timeout":600000}>><<say:Refused.
WORK_NEXT: done>>`)
	mi := v.begin(p)
	script = fmt.Sprintf(script, mi.ID, mi.ID)
	script = "export REEVE_E2E_BY_HAND=" + shellQuote(byHand) + " REEVE_E2E_BIN=x REEVE_E2E_SOCKET=" + shellQuote(m.socket()) + "\n" + script
	if err := os.WriteFile(filepath.Join(repo, "attack.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	mcp := strings.Join([]string{
		"while read -r line; do case $line in",
		"*tools/call*) " + strings.ReplaceAll(allow, "'", "") + " >10 2>&1; echo exit=$? >>10; echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}' ;;",
		"*) echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}' ;;",
		"esac; done",
	}, "\n")
	if err := os.WriteFile(filepath.Join(repo, "mcp.sh"), []byte(mcp), 0o644); err != nil {
		t.Fatal(err)
	}
	ask, _ := v.asked(mi.ID, "attack.sh")
	v.answer(ask, wire.AnswerParams{Allow: true})
	end := v.phase(mi.ID, "completed")

	result := func(n int) string {
		b, err := os.ReadFile(filepath.Join(repo, fmt.Sprint(n)))
		if err != nil {
			t.Errorf("attempt %d left no result: %v", n, err)
		}
		return string(b)
	}
	for n, how := range []string{"from a shell", "in its own session", "after a double fork", "with a clean environment", "from a process left behind"} {
		if r := result(n + 1); !strings.Contains(r, "exit=4") || !strings.Contains(r, "person") {
			t.Errorf("%s: %s", how, r)
		}
	}
	if r := result(10); !strings.Contains(r, "exit=4") || !strings.Contains(r, "person") {
		t.Errorf("from an MCP server: %s", r)
	}
	if r := result(6); !strings.Contains(r, string(wire.CodeForbiddenForWorkers)) {
		t.Errorf("by hand: %s", r)
	}
	if r := result(7); !strings.Contains(r, "exit=0") || !strings.Contains(r, mi.ID) {
		t.Errorf("a worker may read its own mission: %s", r)
	}
	for _, n := range []int{8, 9} {
		if r := result(n); !strings.Contains(r, "exit=4") {
			t.Errorf("attempt %d: %s", n, r)
		}
	}
	if got := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: victim.Mission.ID}).Mission; got.Phase != "proposed" {
		t.Errorf("the other mission is %s", got.Phase)
	}
	const attempts = 9
	v.wait("every refusal to be shown", func() bool { return len(v.refusals) >= attempts && v.service.Refusals >= attempts })
	for _, r := range v.refused() {
		if r.Mission != mi.ID {
			t.Errorf("a refusal without its mission: %+v", r)
		}
	}
	if end := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: mi.ID}).Mission; end.Refusals < attempts {
		t.Errorf("the mission counts %d refusals", end.Refusals)
	}
	// The person, from outside, can still decide.
	if r := m.run("deny", victim.Approval.ID, "--digest", victim.Approval.Digest); r.code != 0 {
		t.Errorf("the person: exit %d %s", r.code, r.err)
	}
	v.settled(end)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// TestSocketByHand is no test: the worker above runs it to talk to the socket
// without any client of ours.
func TestSocketByHand(t *testing.T) {
	t.Parallel()
	line := os.Getenv("REEVE_E2E_BY_HAND")
	if line == "" {
		return // only the worker of TestWorkerCannotDecide has something to say
	}
	c, err := sock.Dial(t.Context(), os.Getenv("REEVE_E2E_SOCKET"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c.(net.Conn), line); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	fmt.Println(string(b[:n]), err)
}
