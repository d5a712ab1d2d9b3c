package acp

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

// real is a real agent program with a model API on loopback, and with a person's
// settings that want everything to run unasked.
type real struct {
	p      *Provider
	stub   *modelstub.Server
	home   string
	folder string
	spec   provider.Spec
}

func ready(t *testing.T, name string) *Provider {
	t.Helper()
	for _, a := range Ready() {
		if a.Name == name {
			return New(a)
		}
	}
	t.Fatalf("no ready agent %s", name)
	return nil
}

func newReal(t *testing.T, name, variable string) *real {
	t.Helper()
	path := os.Getenv(variable)
	if os.Getenv("REEVE_TEST_SCENARIOS") != "all" {
		t.Skip("REEVE_TEST_SCENARIOS is not all (make test-providers sets it): the real programs are slow")
	}
	if path == "" {
		t.Skipf("%s does not name a real %s", variable, name)
	}
	stub, err := modelstub.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stub.Close)
	root := t.TempDir()
	r := &real{p: ready(t, name), stub: stub, home: filepath.Join(root, "home"), folder: filepath.Join(root, "the repository")}
	for _, d := range []string{r.home, r.folder, filepath.Join(root, "private")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.file(t, r.folder, ".git/HEAD", "ref: refs/heads/main\n")
	r.file(t, r.folder, "notes.txt", "one\n")
	env := []string{"PATH=" + filepath.Dir(path) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + r.home}
	found := r.p.Probe(context.Background(), env)
	if !found.Found || found.Problem != "" {
		t.Fatalf("probe %+v", found)
	}
	r.spec = provider.Spec{Path: found.Path, Args: found.Args, Folder: r.folder, PrivateDir: filepath.Join(root, "private"), Env: append(env, found.Fixed...)}
	return r
}

func (r *real) file(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kill ends an agent as a guard does: some go on after the end of their input.
func kill(t *testing.T, s *conform.Session) {
	t.Helper()
	if err := s.Process.Process.Kill(); err != nil {
		t.Error(err)
	}
	s.Close()
}

// conversation is what every real agent has to go through.
func (r *real) conversation(t *testing.T, read, run, write, note func(arg string) string) {
	t.Helper()
	notes := filepath.Join(r.home, "notes")
	server, err := conform.Notes("lab", notes, "noted: ")
	if err != nil {
		t.Fatal(err)
	}
	r.spec.Servers = []provider.Server{server, {Name: "broken", Command: "/nonexistent/server"}}
	s, err := conform.TryOpen(t, r.p, r.spec)
	if err != nil {
		t.Fatal(err)
	}
	asked := func(turn conform.Turn) []provider.PermissionRequested {
		return conform.Of[provider.PermissionRequested](turn)
	}
	turn := s.Do("<<say:Hello.\n\nWORK_NEXT: runnable>>", s.Allow())
	want(t, turn, mission.Succeeded, "", mission.NextRunnable)
	t.Logf("usage %+v", turn.Finished.Outcome.Usage)

	turn = s.Do(read("notes.txt")+run("touch ran.txt")+"<<say:end>>", s.Allow())
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if a := asked(turn); len(a) != 2 || a[1].Tool.Command != "touch ran.txt" || a[1].Tool.Kind != "execute" {
		t.Errorf("reading and running asked for %+v", a)
	}
	if _, err := os.Stat(filepath.Join(r.folder, "ran.txt")); err != nil {
		t.Error("what was allowed did not run")
	}

	turn = s.Do(write("new.txt")+run("touch denied.txt")+"<<say:end>>", s.Decide(func(e provider.PermissionRequested) provider.Answer {
		return provider.Answer{Allow: e.Tool.Kind == "edit", Message: "not that"}
	}))
	if a := asked(turn); len(a) != 2 || !strings.Contains(a[0].Tool.Diff, "+written") || len(a[0].Tool.Paths) != 1 {
		t.Errorf("writing asked for %+v", a)
	}
	if b, err := os.ReadFile(filepath.Join(r.folder, "new.txt")); err != nil || !strings.HasPrefix(string(b), "written") {
		t.Errorf("written %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(r.folder, "denied.txt")); err == nil {
		t.Error("what was denied ran")
	}

	// A tool of an MCP server is asked for like any other, and is nobody's own.
	turn = s.Do(note("canary-note")+"<<say:end>>", s.Decide(func(e provider.PermissionRequested) provider.Answer {
		if _, err := os.Stat(notes); err == nil || e.Tool.Own {
			t.Errorf("before it was allowed there is a note: %v; asked for %+v", err == nil, e.Tool)
		}
		return provider.Answer{Allow: true}
	}))
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if b, err := os.ReadFile(notes); err != nil || string(b) != "noted: canary-note" || len(asked(turn)) != 1 {
		all := r.stub.Requests()
		t.Errorf("noted %q, %v; asked for %+v; the model was offered %q", b, err, asked(turn), all[len(all)-1].Tools)
	}

	once := false
	turn = s.Do("<<slow:200:50>>", func(e provider.Event) {
		if _, ok := e.(provider.Text); ok && !once {
			once = true
			if err := s.Conn.Interrupt(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	want(t, turn, mission.Interrupted, "", "")
	kill(t, s)

	again := r.spec
	if r.p.Capabilities().Resume {
		// A turn is a process of its own, so a session is loaded again and again.
		for _, name := range []string{"touch resumed.txt", "touch again.txt"} {
			again.Resume = s.Started.Session
			if s, err = conform.TryOpen(t, r.p, again); err != nil {
				t.Fatalf("resume: %v", err)
			}
			turn = s.Do(run(name)+"<<say:end>>", s.Decide(func(provider.PermissionRequested) provider.Answer { return provider.Answer{} }))
			if a := asked(turn); len(a) != 1 {
				t.Errorf("after resuming it asked for %+v", a)
			}
			kill(t, s)
		}
		again.Resume = ""
	}
	s = conform.Open(t, r.p, again)
	turn = s.Do("<<error:401>>", nil)
	want(t, turn, mission.Failed, mission.AuthenticationRequired, "")
	kill(t, s)

	again.Resume = "ses_00000000-0000-4000-8000-000000000000"
	_, err = conform.TryOpen(t, r.p, again)
	var open *provider.OpenError
	if !errors.As(err, &open) || open.Code != mission.MissingSession {
		t.Errorf("a missing session: %v", err)
	}
}

func newOpenCode(t *testing.T) *real {
	t.Helper()
	r := newReal(t, "opencode", "REEVE_TEST_OPENCODE")
	r.file(t, r.home, ".config/opencode/opencode.json", `{"model":"stub/stub-model","small_model":"stub/stub-model",
		"permission":{"*":"allow","bash":{"touch *":"allow"}},"default_agent":"wild","agent":{"build":{"permission":{"*":"allow","bash":"allow"}},"wild":{"mode":"primary","permission":{"*":"allow"}}},
		"provider":{"stub":{"npm":"@ai-sdk/anthropic","name":"Stub","options":{"baseURL":"`+r.stub.URL()+`/v1","apiKey":"test-key"},
		"models":{"stub-model":{"name":"Stub","tool_call":true,"limit":{"context":100000,"output":8000}}}}}}`)
	r.spec.Env = append(r.spec.Env, "OPENCODE_DISABLE_MODELS_FETCH=1")
	return r
}

func TestOpenCode(t *testing.T) {
	r := newOpenCode(t)
	r.conversation(t,
		func(name string) string { return `<<tool:read {"filePath":"` + filepath.Join(r.folder, name) + `"}>>` },
		func(line string) string { return `<<tool:bash {"command":"` + line + `","description":"d"}>>` },
		func(name string) string {
			return `<<tool:write {"filePath":"` + filepath.Join(r.folder, name) + `","content":"written\n"}>>`
		},
		func(text string) string { return `<<tool:lab_note {"text":"` + text + `"}>>` })
}

func TestGemini(t *testing.T) {
	r := newReal(t, "gemini", "REEVE_TEST_GEMINI")
	r.file(t, r.home, ".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}},"model":{"name":"gemini-2.5-pro"},"general":{"defaultApprovalMode":"auto_edit"},
		"tools":{"allowed":["run_shell_command","write_file","read_file"]}}`)
	r.file(t, r.home, ".gemini/policies/all.toml", "[[rule]]\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 999\n")
	r.spec.Env, r.spec.Endpoint = append(r.spec.Env, "GEMINI_API_KEY=test-key"), r.stub.URL()
	r.conversation(t,
		func(name string) string {
			return `<<tool:read_file {"file_path":"` + filepath.Join(r.folder, name) + `"}>>`
		},
		func(line string) string {
			return `<<tool:run_shell_command {"command":"` + line + `","description":"d"}>>`
		},
		func(name string) string {
			return `<<tool:write_file {"file_path":"` + filepath.Join(r.folder, name) + `","content":"written\n"}>>`
		},
		func(text string) string { return `<<tool:mcp_lab_note {"text":"` + text + `"}>>` })
}

// A tool that there is not, which a model may well call, is no tool that ran
// unasked.
func TestOpenCodeUnknownTool(t *testing.T) {
	r := newOpenCode(t)
	s := conform.Open(t, r.p, r.spec)
	want(t, s.Do(`<<tool:no_such_tool {"a":1}>><<say:end>>`, nil), mission.Succeeded, "", mission.NextWaiting)
	kill(t, s)
}

// Nobody but Reeve gets at the server that opencode opens.
func TestOpenCodeServerIsClosed(t *testing.T) {
	r := newOpenCode(t)
	s := conform.Open(t, r.p, r.spec)
	i := slices.Index(s.Process.Args, "--port")
	if i < 0 {
		t.Fatalf("arguments %q", s.Process.Args)
	}
	url := "http://127.0.0.1:" + s.Process.Args[i+1]
	for _, path := range []string{"/session", "/permission", "/event", "/config"} {
		reply, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, reply.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	kill(t, s)
}
