package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

// What every provider must do is tested in conform; here is what only this one
// does.

func real(t *testing.T) (provider.Spec, *modelstub.Server) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the real Codex is not run")
	}
	path := os.Getenv("REEVE_TEST_CODEX")
	if path == "" {
		t.Fatal("set REEVE_TEST_CODEX to the native program of Codex (make test does), or pass -short to leave these tests out")
	}
	stub, err := modelstub.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stub.Close)
	root, err := os.MkdirTemp("", "codex-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) }) // it writes to its home until it has ended
	spec := provider.Spec{Path: path, Folder: filepath.Join(root, "work"), PrivateDir: filepath.Join(root, "private"), Endpoint: stub.URL() + "/v1", Model: "gpt-5.5",
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(root, "home"), "OPENAI_API_KEY=test-key"}}
	for _, d := range []string{spec.Folder, spec.PrivateDir, filepath.Join(root, "home")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return spec, stub
}

// Nothing can be typed into a command that runs: the program would not ask.
func TestNothingIsTyped(t *testing.T) {
	spec, stub := real(t)
	session := regexp.MustCompile(`session ID (\d+)`)
	stub.Script = func(r modelstub.Request) string {
		switch len(r.Results) {
		case 0:
			return `<<tool:exec_command {"cmd":"sh","tty":true,"yield_time_ms":300}>>`
		case 1:
			return `<<tool:exec_command {}>><<tool:exec_command {"cmd":"sleep 20; sh","yield_time_ms":300}>>`
		case 2:
			if m := session.FindStringSubmatch(r.Results[1]); m != nil {
				return fmt.Sprintf(`<<tool:a {}>><<tool:a {}>><<tool:write_stdin {"session_id":%s,"chars":"touch typed.txt\n","yield_time_ms":500}>>`, m[1])
			}
		}
		return "<<say:end>>"
	}
	s := conform.Open(t, New(), spec)
	turn := s.Do("go", s.Allow())
	want(t, turn, mission.Succeeded, "")
	all := stub.Requests()
	results := all[len(all)-1].Results
	if len(results) != 3 || !strings.Contains(results[0], "disabled") || !strings.Contains(results[2], "write_stdin failed") {
		t.Errorf("results %q", results)
	}
	if _, err := os.Stat(filepath.Join(spec.Folder, "typed.txt")); err == nil {
		t.Error("what was typed ran unseen")
	}
}

// Newer models call their tools from a script; each call is asked for.
func TestScriptedCallsAreAsked(t *testing.T) {
	spec, stub := real(t)
	spec.Model = ""
	s := conform.Open(t, New(), spec)
	turn := s.Do(`<<tool:exec "const r = await tools.exec_command({cmd:'touch one.txt'}); text(r.output); text(await tools.apply_patch('*** Begin Patch\\n*** Add File: two.txt\\n+new\\n*** End Patch'));">> <<say:end>>`,
		s.Decide(func(e provider.PermissionRequested) provider.Answer {
			return provider.Answer{Allow: e.Tool.Kind == "edit"}
		}))
	want(t, turn, mission.Succeeded, "")
	var kinds []string
	for _, e := range conform.Of[provider.PermissionRequested](turn) {
		kinds = append(kinds, e.Tool.Kind)
	}
	last := stub.Requests()[len(stub.Requests())-1]
	if len(kinds) == 0 || kinds[0] != "execute" {
		t.Errorf("asked %q, model %s, results %q", kinds, last.Model, last.Results)
	}
	if _, err := os.Stat(filepath.Join(spec.Folder, "one.txt")); err == nil {
		t.Error("what was denied ran")
	}
}

// The key of the mission reaches neither the tools nor a file.
func TestKeyIsKeptFromTools(t *testing.T) {
	spec, stub := real(t)
	s := conform.Open(t, New(), spec)
	turn := s.Do(`<<tool:exec_command {"cmd":"env; cat /proc/self/environ"}>> <<say:end>>`, s.Allow())
	want(t, turn, mission.Succeeded, "")
	if got := strings.Join(stub.Requests()[1].Results, ""); strings.Contains(got, "test-key") || !strings.Contains(got, "HOME=") {
		t.Errorf("the command saw %q", got)
	}
	s.Close()
	err := filepath.WalkDir(filepath.Dir(spec.PrivateDir), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), "test-key") {
			t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A saved sign-in is used where it lies.
func TestSignInIsLinked(t *testing.T) {
	spec, _ := real(t)
	spec.Endpoint = ""
	home := spec.Env[1][len("HOME="):]
	spec.Env = spec.Env[:2]
	if err := os.Mkdir(filepath.Join(home, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".codex", "auth.json"), []byte(`{"auth_mode":"apikey","OPENAI_API_KEY":"sk-saved"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := conform.Open(t, New(), spec); s.Started.Session == "" {
		t.Error("no session")
	}
}
