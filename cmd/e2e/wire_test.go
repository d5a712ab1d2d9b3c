package e2e

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// raw is a connection without any client of ours.
type raw struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

func (m *machine) raw() *raw {
	m.t.Helper()
	nc, err := net.Dial("unix", m.socket())
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(waitLimit))
	return &raw{m.t, nc, bufio.NewReader(nc)}
}

// answer reads one response.
func (r *raw) answer() wire.Response {
	r.t.Helper()
	line, err := r.r.ReadBytes('\n')
	if err != nil {
		r.t.Fatalf("no answer: %v %q", err, line)
	}
	var resp wire.Response
	if err := json.Unmarshal(line, &resp); err != nil {
		r.t.Fatalf("an answer that is no JSON: %v %q", err, line)
	}
	return resp
}

func (r *raw) ask(line string) wire.Response {
	r.t.Helper()
	if _, err := io.WriteString(r.nc, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
	return r.answer()
}

// alive demands that the connection still answers what is right.
func (r *raw) alive() {
	r.t.Helper()
	if resp := r.ask(`{"version":2,"id":"alive","method":"service.status"}`); !resp.OK || resp.ID != "alive" {
		r.t.Errorf("the connection is dead: %+v", resp)
	}
}

// TestWireMalformed sends what no client of ours would. Each line gets an answer
// that names the field, and the connection lives on.
func TestWireMalformed(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	r := m.raw()
	long := strings.Repeat("i", wire.MaxID+1)
	for _, c := range []struct {
		name, line, id string
		code           wire.Code
		field          string
		says           string
	}{
		{"not JSON", `hello`, "", wire.CodeInvalidParams, "", "JSON"},
		{"half an object", `{"version":2,"id":"7","method":`, "7", wire.CodeInvalidParams, "", "JSON"},
		{"empty", ``, "", wire.CodeInvalidParams, "", ""},
		{"a list", `[1,2]`, "", wire.CodeInvalidParams, "", "object"},
		{"a string", `"service.status"`, "", wire.CodeInvalidParams, "", "object"},
		{"null", `null`, "", wire.CodeInvalidParams, "id", ""},
		{"two values", `{"version":2,"id":"a","method":"service.status"} {"version":2}`, "a", wire.CodeInvalidParams, "", "one request"},
		{"a NUL byte", "{\"version\":2,\"id\":\"nul\",\"method\":\"service.status\x00\"}", "nul", wire.CodeInvalidParams, "", "NUL"},
		{"invalid UTF-8", "{\"version\":2,\"id\":\"utf\",\"method\":\"mission.get\",\"params\":{\"id\":\"\xff\xfe\"}}", "utf", wire.CodeInvalidParams, "", "UTF-8"},
		{"version as text", `{"version":"2","id":"1","method":"service.status"}`, "1", wire.CodeInvalidParams, "version", "a number"},
		{"version with a fraction", `{"version":2.5,"id":"1","method":"service.status"}`, "1", wire.CodeInvalidParams, "version", "whole number"},
		{"id as a number", `{"version":2,"id":1,"method":"service.status"}`, "", wire.CodeInvalidParams, "id", "string"},
		{"id as an object", `{"version":2,"id":{},"method":"service.status"}`, "", wire.CodeInvalidParams, "id", "string"},
		{"method as a list", `{"version":2,"id":"1","method":["a"]}`, "1", wire.CodeInvalidParams, "method", "string"},
		{"no id", `{"version":2,"method":"service.status"}`, "", wire.CodeInvalidParams, "id", "missing"},
		{"empty id", `{"version":2,"id":"","method":"service.status"}`, "", wire.CodeInvalidParams, "id", "empty"},
		{"long id", `{"version":2,"id":"` + long + `","method":"service.status"}`, "", wire.CodeInvalidParams, "id", "128"},
		{"NUL in the id", `{"version":2,"id":"a\u0000b","method":"service.status"}`, "", wire.CodeInvalidParams, "id", "NUL"},
		{"no method", `{"version":2,"id":"1"}`, "1", wire.CodeInvalidParams, "method", "missing"},
		{"long method", `{"version":2,"id":"1","method":"` + long + `"}`, "1", wire.CodeInvalidParams, "method", "128"},
		{"NUL in the method", `{"version":2,"id":"1","method":"a\u0000"}`, "1", wire.CodeInvalidParams, "method", "NUL"},
		{"params as a list", `{"version":2,"id":"1","method":"mission.get","params":[]}`, "1", wire.CodeInvalidParams, "params", "object"},
		{"params as text", `{"version":2,"id":"1","method":"mission.get","params":"x"}`, "1", wire.CodeInvalidParams, "params", "object"},
		{"unknown method", `{"version":2,"id":"1","method":"mission.destroy"}`, "1", wire.CodeUnsupportedMethod, "", "Unsupported daemon method: mission.destroy"},
		{"unknown version", `{"version":3,"id":"1","method":"service.status"}`, "1", wire.CodeUnsupportedVersion, "", "1 and 2"},
		{"no version", `{"id":"1","method":"service.status"}`, "1", wire.CodeUnsupportedVersion, "", "1 and 2"},
		{"negative version", `{"version":-1,"id":"1","method":"service.status"}`, "1", wire.CodeUnsupportedVersion, "", "1 and 2"},
		{"missing params", `{"version":2,"id":"1","method":"mission.get"}`, "1", wire.CodeInvalidParams, "id", "missing"},
		{"missing params of an answer", `{"version":2,"id":"1","method":"approval.answer","params":{}}`, "1", wire.CodeInvalidParams, "", "missing"},
		{"mission id as a number", `{"version":2,"id":"1","method":"mission.get","params":{"id":3}}`, "1", wire.CodeInvalidParams, "id", "string"},
		{"minutes as text", `{"version":2,"id":"1","method":"mission.start","params":{"minutes":"60"}}`, "1", wire.CodeInvalidParams, "minutes", "number"},
		{"minutes out of range", `{"version":2,"id":"1","method":"mission.start","params":{"minutes":1e99}}`, "1", wire.CodeInvalidParams, "minutes", "number"},
		{"scope as an object", `{"version":2,"id":"1","method":"mission.start","params":{"scope":{}}}`, "1", wire.CodeInvalidParams, "scope", "string"},
		{"environment as a list", `{"version":2,"id":"1","method":"mission.start","params":{"env":["A=b"]}}`, "1", wire.CodeInvalidParams, "env", "object"},
		{"budget as a number", `{"version":2,"id":"1","method":"mission.start","params":{"budget":1}}`, "1", wire.CodeInvalidParams, "budget", "object"},
		{"allow as text", `{"version":2,"id":"1","method":"approval.answer","params":{"id":"x","allow":"yes"}}`, "1", wire.CodeInvalidParams, "allow", "true or false"},
		{"NUL in the scope", `{"version":2,"id":"1","method":"mission.start","params":{"scope":"a\u0000b"}}`, "1", wire.CodeInvalidParams, "scope", "NUL"},
		{"topics as text", `{"version":2,"id":"1","method":"watch","params":{"topics":"missions"}}`, "1", wire.CodeInvalidParams, "topics", "list"},
		{"unknown topic", `{"version":2,"id":"1","method":"watch","params":{"topics":["secrets"]}}`, "1", wire.CodeInvalidParams, "topics", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			resp := r.ask(c.line)
			if resp.OK || resp.Code != c.code || resp.ID != c.id {
				t.Errorf("answer: ok=%v id=%q code=%q error=%q", resp.OK, resp.ID, resp.Code, resp.Error)
			}
			if !strings.Contains(resp.Error, c.says) {
				t.Errorf("it says %q, which lacks %q", resp.Error, c.says)
			}
			if c.field != "" {
				var d struct{ Field string }
				if json.Unmarshal(resp.Details, &d); d.Field != c.field || !strings.Contains(resp.Error, c.field) {
					t.Errorf("it names %q in %q and %s, want %s", d.Field, resp.Error, resp.Details, c.field)
				}
			}
			r.alive()
		})
	}
	r.t = t
	var versions struct {
		Supported []int `json:"supported"`
	}
	resp := r.ask(`{"version":99,"id":"v","method":"mission.list"}`)
	if json.Unmarshal(resp.Details, &versions); fmt.Sprint(versions.Supported) != "[1 2]" {
		t.Errorf("the versions that are supported: %s", resp.Details)
	}
	// What is not known is ignored.
	if resp := r.ask(`{"version":2,"id":"u","method":"service.status","extra":[1],"params":{"more":{}}}`); !resp.OK {
		t.Errorf("unknown fields: %+v", resp)
	}
	m.nothingHappened()
}

// nothingHappened demands that the service serves the next client as before.
func (m *machine) nothingHappened() {
	m.t.Helper()
	if got := must[wire.MissionListResult](m, "ls"); len(got.Missions) != 0 {
		m.t.Errorf("missions: %+v", got.Missions)
	}
	if got := must[wire.ApprovalListResult](m, "approvals"); len(got.Approvals) != 0 {
		m.t.Errorf("approvals: %+v", got.Approvals)
	}
	select {
	case <-m.exited:
		m.t.Error("the service ended")
	default:
	}
	if log := m.logs.text(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
		m.t.Errorf("the service's log:\n%s", log)
	}
}

// TestWireTooLong ends the connection, after an answer that says why.
func TestWireTooLong(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	// A line of exactly the limit, its end not counted, is served.
	r := m.raw()
	head, tail := `{"version":2,"id":"fits","method":"service.status","x":"`, `"}`
	if resp := r.ask(head + strings.Repeat("x", wire.MaxLine-len(head)-len(tail)) + tail); !resp.OK || resp.ID != "fits" {
		t.Errorf("a line of 1 MiB: %+v", resp)
	}
	// One byte more is not, and whether its end ever comes makes no difference.
	for _, end := range []string{"x" + tail + "\n", strings.Repeat("y", 16<<10), strings.Repeat("y", 4<<20)} {
		r := m.raw()
		go io.WriteString(r.nc, strings.Replace(head, "fits", "long", 1)+strings.Repeat("x", wire.MaxLine-len(head)-len(tail))+end)
		resp := r.answer()
		if resp.OK || resp.Code != wire.CodeLimitExceeded || resp.ID != "long" || !strings.Contains(resp.Error, "1048576") {
			t.Errorf("a longer line: %+v", resp)
		}
		if rest, err := io.ReadAll(r.r); len(rest) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("the connection lived on: %q %v", rest, err)
		}
	}
	m.nothingHappened()
}

// TestWireGarbage throws bytes at the service and goes away.
func TestWireGarbage(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	for i := range 20 {
		r := m.raw()
		junk := make([]byte, 64<<10)
		rand.Read(junk)
		if i%2 == 0 {
			junk = bytes.ReplaceAll(junk, []byte{'\n'}, []byte{' '}) // a line without an end
		}
		_, _ = r.nc.Write(junk)
		if i%3 == 0 {
			_ = r.nc.(*net.UnixConn).CloseWrite()
			_, _ = io.Copy(io.Discard, r.r)
		}
		_ = r.nc.Close()
	}
	// Half a line, then nothing: the request never happened.
	r := m.raw()
	fmt.Fprintf(r.nc, `{"version":2,"id":"1","method":"service.stop","params":{"workers":true}}`)
	_ = r.nc.(*net.UnixConn).CloseWrite()
	if rest, err := io.ReadAll(r.r); err != nil || len(rest) > 0 {
		t.Errorf("half a line was answered: %q %v", rest, err)
	}
	// A client that asks much and never reads is nobody else's trouble.
	mute := m.raw()
	_ = mute.nc.SetWriteDeadline(time.Now().Add(time.Second))
	for range 5000 {
		if _, err := io.WriteString(mute.nc, `{"version":2,"id":"m","method":"provider.list"}`+"\n"); err != nil {
			break
		}
	}
	m.raw().alive()
	_ = mute.nc.Close()
	m.nothingHappened()
}

// TestWireOtherUser connects as nobody, after the modes that would have kept
// that out were loosened: the service itself refuses, and serves nothing.
func TestWireOtherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	m := newMachine(t).start()
	other := m.repo("repo")
	do[wire.MissionStartResult](m.watch(), wire.MethodMissionStart, m.demoTerms(other, "A secret scope."))
	socket := m.socket()
	for dir := filepath.Dir(socket); len(dir) >= len(m.dir); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"REEVE_E2E_SPEAK=" + socket}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	text := string(out)
	var resp wire.Response
	if bad := json.Unmarshal(out, &resp); err != nil || bad != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("the other user: %v, %v\n%s", err, bad, text)
	}
	if resp.OK || resp.Code != wire.CodeUnavailable || !strings.Contains(resp.Error, "another user") || resp.Result != nil || resp.ID != "" {
		t.Errorf("the other user got %q", text)
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "generation") {
		t.Errorf("the other user was served:\n%s", text)
	}
	if !m.logs.wait("another user refused", waitLimit) || !strings.Contains(m.logs.text(), "user=65534") {
		t.Errorf("the refusal is not in the log:\n%s", m.logs.text())
	}
	// Its client refuses just as well to be served by another user.
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	reeve := exec.Command(filepath.Join(bin, "reeve"), "ls")
	reeve.Env = append(append([]string{}, m.env...), "HOME=/")
	reeve.Dir = "/"
	reeve.SysProcAttr = cmd.SysProcAttr
	if out, err := reeve.CombinedOutput(); err == nil || strings.Contains(string(out), "secret") || !strings.Contains(string(out), "another user") {
		t.Errorf("reeve ls as another user: %v\n%s", err, out)
	}
	if got := must[wire.MissionListResult](m, "ls"); len(got.Missions) != 1 {
		t.Errorf("the owner sees %d missions", len(got.Missions))
	}
}

// init speaks as the other user: TestWireOtherUser runs this program as nobody,
// which may not do what TestMain does first.
func init() {
	path := os.Getenv("REEVE_E2E_SPEAK")
	if path == "" {
		return
	}
	nc, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = nc.SetDeadline(time.Now().Add(waitLimit))
	// The service may close before it has read this.
	_, _ = io.WriteString(nc, `{"version":1,"id":"1","method":"daemon.negotiate"}`+"\n"+`{"version":2,"id":"2","method":"mission.list"}`+"\n")
	_, _ = io.Copy(os.Stdout, nc)
	os.Exit(0)
}
