package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/demo"
)

// The test program is also the agent, as reeve is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "demo-agent" {
		if err := demo.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "demo agent:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == conform.NotesArg {
		if err := conform.ServeNotes(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "MCP server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "raw-agent" {
		rawAgent()
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "canned-agent" {
		cannedAgent()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type world struct {
	folder string
	p      *Provider
	spec   provider.Spec
}

func newWorld(t *testing.T) *world {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	w := &world{folder: filepath.Join(root, "the sample ü"), p: Demo(exe)}
	if err := demo.Sample(w.folder); err != nil {
		t.Fatal(err)
	}
	probe := w.p.Probe(context.Background(), nil)
	if !probe.Found || probe.Problem != "" || probe.SignedIn == nil || !*probe.SignedIn {
		t.Fatalf("probe %+v", probe)
	}
	private := filepath.Join(root, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	w.spec = provider.Spec{Path: probe.Path, Args: probe.Args, Folder: w.folder, PrivateDir: private,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root}}
	return w
}

func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// prompt is a turn's prompt as the service writes it.
func prompt(scope string, steering ...string) string {
	return mission.TurnPrompt(mission.PromptInput{Scope: scope, EndsAt: time.Now().Add(time.Hour), Turn: 1, Steering: steering})
}

func want(t *testing.T, turn conform.Turn, o mission.Outcome, c mission.Code, next mission.WorkNext) {
	t.Helper()
	if f := turn.Finished.Outcome; f.Outcome != o || f.Code != c || f.Next != next {
		t.Fatalf("the turn ended %s %q %q (%s), want %s %q %q", f.Outcome, f.Code, f.Next, turn.Finished.Message, o, c, next)
	}
}

func TestDemoMendsTheSample(t *testing.T) {
	w := newWorld(t)
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do(prompt("Mend the thermometer."), s.Allow())
	want(t, turn, mission.Succeeded, "", mission.NextDone)
	var kinds []string
	for _, e := range conform.Of[provider.PermissionRequested](turn) {
		kinds = append(kinds, e.Tool.Kind)
	}
	if !slices.Equal(kinds, []string{"read", "read", "edit", "execute"}) {
		t.Errorf("asked for %v", kinds)
	}
	asked := conform.Of[provider.PermissionRequested](turn)
	path := filepath.Join(w.folder, "convert.sh")
	edit, command := asked[2].Tool, asked[3].Tool
	if !slices.Equal(edit.Paths, []string{path}) || edit.Reason == "" ||
		!strings.Contains(edit.Diff, "\n-echo $(( ($1 - 32) * 9 / 5 ))\n+echo $(( ($1 - 32) * 5 / 9 ))\n") {
		t.Errorf("edit %+v", edit)
	}
	if command.Command != "sh check.sh" || command.Cwd != w.folder || command.Reason == "" {
		t.Errorf("command %+v", command)
	}
	done := conform.Of[provider.ToolFinished](turn)
	if done[0].Output != w.read(t, "README.md") || done[2].Diff != edit.Diff || *done[3].Exit != 0 || !strings.Contains(done[3].Output, "ok    212 F is 100 C") {
		t.Errorf("finished %+v", done)
	}
	if !strings.Contains(w.read(t, "convert.sh"), "* 5 / 9") {
		t.Error("the file was not mended")
	}
	plans := conform.Of[provider.Plan](turn)
	if len(plans) < 3 || len(plans[0].Steps) != 4 || plans[0].Steps[0].Status != "in_progress" || plans[len(plans)-1].Steps[2].Status != "completed" {
		t.Errorf("plans %+v", plans)
	}
	if len(conform.Of[provider.Thought](turn)) == 0 || *turn.Finished.Outcome.Usage.ToolCalls != 4 || turn.Finished.Outcome.Usage.Input != nil {
		t.Errorf("usage %+v", turn.Finished.Outcome.Usage)
	}
}

func TestDenials(t *testing.T) {
	w := newWorld(t)
	before := w.read(t, "convert.sh")
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do(prompt("Mend the thermometer."), s.Decide(func(e provider.PermissionRequested) provider.Answer {
		return provider.Answer{Allow: e.Tool.Kind != "edit", Message: "leave it be"}
	}))
	want(t, turn, mission.Succeeded, "", mission.NextDone)
	var status []string
	for _, e := range conform.Of[provider.ToolFinished](turn) {
		status = append(status, e.Status)
	}
	if !slices.Equal(status, []string{"ok", "ok", "denied", "failed"}) {
		t.Errorf("calls ended %v", status)
	}
	if exit := conform.Of[provider.ToolFinished](turn)[3].Exit; exit == nil || *exit != 1 {
		t.Errorf("exit %v", exit)
	}
	if w.read(t, "convert.sh") != before || !strings.Contains(turn.Text(), "leave it be") {
		t.Errorf("the agent went on otherwise: %q", turn.Text())
	}
	if err := s.Conn.Answer(context.Background(), conform.Of[provider.PermissionRequested](turn)[2].Request, provider.Answer{Allow: true}); !errors.Is(err, provider.ErrNoRequest) {
		t.Errorf("a settled request was answered again: %v", err)
	}
}

func TestSteeringInThePrompt(t *testing.T) {
	w := newWorld(t)
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do(prompt("Mend it.", `Also add a line "- Checked." to NOTES.md`, "Be kind,\nplease", "add a line x to ../escape.txt"), s.Allow())
	want(t, turn, mission.Succeeded, "", mission.NextDone)
	if !strings.HasSuffix(w.read(t, "NOTES.md"), "\n- Checked.\n") {
		t.Errorf("notes %q", w.read(t, "NOTES.md"))
	}
	if !strings.Contains(turn.Text(), `Understood: "Be kind,\nplease".`) || !strings.Contains(turn.Text(), "outside the folder") {
		t.Errorf("text %q", turn.Text())
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(w.folder), "escape.txt")); err == nil {
		t.Error("it left the folder")
	}
}

func TestInterrupts(t *testing.T) {
	for _, c := range []struct{ name, scope string }{
		{"stream", "demo:slow 100000"}, {"permission", "Mend it."}, {"command", "demo:command tail -f /dev/null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			s := conform.Open(t, w.p, w.spec)
			once := false
			interrupt := func() {
				if !once {
					once = true
					if err := s.Conn.Interrupt(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
			turn := s.Do(prompt(c.scope), func(ev provider.Event) {
				switch e := ev.(type) {
				case provider.Text:
					if c.name == "stream" {
						interrupt()
					}
				case provider.PermissionRequested:
					if c.name == "command" {
						s.Answer(e, provider.Answer{Allow: true})
					}
					interrupt()
					if c.name == "permission" {
						if err := s.Conn.Answer(context.Background(), e.Request, provider.Answer{Allow: true}); !errors.Is(err, provider.ErrNoRequest) {
							t.Errorf("answer after the interrupt: %v", err)
						}
					}
				}
			})
			want(t, turn, mission.Interrupted, "", "")
			if n := len(conform.Of[provider.PermissionWithdrawn](turn)); c.name == "permission" && n != 1 {
				t.Errorf("%d requests were withdrawn", n)
			}
			want(t, s.Do(prompt("Mend it."), s.Allow()), mission.Succeeded, "", mission.NextDone)
		})
	}
}

func TestInterruptRightAfterThePrompt(t *testing.T) {
	w := newWorld(t)
	s := conform.Open(t, w.p, w.spec)
	for range 50 {
		if err := s.Conn.Prompt(context.Background(), prompt("demo:slow 100000")); err != nil {
			t.Fatal(err)
		}
		if err := s.Conn.Interrupt(context.Background()); err != nil {
			t.Fatal(err)
		}
		for ev := range s.Conn.Events() {
			if e, ok := ev.(provider.TurnFinished); ok {
				if e.Outcome.Outcome != mission.Interrupted {
					t.Fatalf("the turn ended %s", e.Outcome.Outcome)
				}
				break
			}
		}
	}
}

func TestResume(t *testing.T) {
	w := newWorld(t)
	scope := "Mend it.\ndemo:two-turns"
	s := conform.Open(t, w.p, w.spec)
	want(t, s.Do(prompt(scope), s.Allow()), mission.Succeeded, "", mission.NextRunnable)
	s.Close()
	w.spec.Resume = s.Started.Session
	s = conform.Open(t, w.p, w.spec)
	if !s.Started.Resumed || s.Started.Session != w.spec.Resume {
		t.Errorf("started %+v", s.Started)
	}
	turn := s.Do(prompt(scope), s.Allow())
	want(t, turn, mission.Succeeded, "", mission.NextDone)
	if asked := conform.Of[provider.PermissionRequested](turn); len(asked) != 1 || asked[0].Tool.Kind != "execute" {
		t.Errorf("asked %+v", asked)
	}
	if strings.Count(turn.Text(), "WORK_NEXT") != 1 {
		t.Errorf("the history was repeated: %q", turn.Text())
	}
}

func TestResumeMissing(t *testing.T) {
	for _, id := range []string{strings.Repeat("0", 32), "../../etc/passwd"} {
		w := newWorld(t)
		w.spec.Resume = id
		_, err := conform.TryOpen(t, w.p, w.spec)
		var open *provider.OpenError
		if !errors.As(err, &open) || open.Code != mission.MissingSession {
			t.Errorf("open %q: %v", id, err)
		}
	}
}

func TestFailures(t *testing.T) {
	for scope, code := range map[string]mission.Code{
		"demo:fail":     mission.LocalExecutionFailure,
		"demo:auth":     mission.AuthenticationRequired,
		"demo:crash":    mission.LocalExecutionFailure,
		"demo:fail 401": mission.AuthenticationRequired, "demo:fail 402": mission.PermissionRequired, "demo:fail 403": mission.PermissionRequired,
		"demo:fail 404": mission.PermissionRequired, "demo:fail 429": mission.RateLimited, "demo:fail 429 60": mission.RateLimited,
		"demo:fail 500": mission.LocalExecutionFailure, "demo:fail 529": mission.LocalExecutionFailure, "demo:fail 999": mission.LocalExecutionFailure,
		"demo:fail cut": mission.LocalExecutionFailure, "demo:fail refused": mission.LocalExecutionFailure,
	} {
		t.Run(scope, func(t *testing.T) {
			w := newWorld(t)
			turn := conform.Open(t, w.p, w.spec).Do(prompt(scope), nil)
			want(t, turn, mission.Failed, code, "")
			if turn.Finished.Outcome.Stage != mission.StageExecution || turn.Finished.Outcome.Retryable != code.Retryable() {
				t.Errorf("outcome %+v", turn.Finished.Outcome)
			}
			if scope == "demo:crash" && !strings.Contains(turn.Finished.Message, "demo agent: demo:crash") {
				t.Errorf("what it said on stderr is not in the message %q", turn.Finished.Message)
			}
		})
	}
}

func TestSteerInATurn(t *testing.T) {
	w := newWorld(t)
	s := conform.Open(t, w.p, w.spec)
	steered := false
	turn := s.Do(prompt("demo:command true"), s.Decide(func(provider.PermissionRequested) provider.Answer {
		if !steered {
			steered = true
			if err := s.Conn.Steer(t.Context(), "add a line now to in-turn.txt"); err != nil {
				t.Error(err)
			}
		}
		return provider.Answer{Allow: true}
	}))
	want(t, turn, mission.Succeeded, "", mission.NextDone)
	if b, _ := os.ReadFile(filepath.Join(w.folder, "in-turn.txt")); string(b) != "now\n" {
		t.Errorf("the file is %q", b)
	}
	if err := s.Conn.Steer(t.Context(), "too late"); err == nil {
		t.Error("an instruction was taken without a turn")
	}
	plain := conform.Open(t, New(Agent{Name: "plain", Title: "Plain"}), w.spec)
	if err := plain.Conn.Steer(t.Context(), "x"); !errors.Is(err, provider.ErrUnsupported) {
		t.Errorf("an agent of which nothing is known: %v", err)
	}
}

func TestEveryLineBeforeACrashArrives(t *testing.T) {
	w := newWorld(t)
	turn := conform.Open(t, w.p, w.spec).Do(prompt("demo:burst 20000\ndemo:crash"), nil)
	want(t, turn, mission.Failed, mission.LocalExecutionFailure, "")
	if n := strings.Count(turn.Text(), "\n"); n != 20000 || !strings.HasSuffix(turn.Text(), "line 20000\n") {
		t.Errorf("%d lines arrived", n)
	}
}

func TestWaitAndBig(t *testing.T) {
	w := newWorld(t)
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do(prompt("demo:big\ndemo:wait"), s.Allow())
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if in := conform.Of[provider.PermissionRequested](turn)[0].Tool.Input; len(in) < 40<<10 || !strings.HasSuffix(string(in), `Delete everything."}`) {
		t.Errorf("%d bytes of input", len(in))
	}
	want(t, s.Do(prompt("demo:wait\ndemo:slow 1", "go on"), s.Allow()), mission.Succeeded, "", mission.NextDone)
}

func TestAgentThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	p := Demo(filepath.Join(w.folder, "nothing"))
	if probe := p.Probe(context.Background(), nil); probe.Found || probe.Problem == "" || probe.Fix == "" {
		t.Errorf("probe %+v", probe)
	}
	w.spec.Path = filepath.Join(w.folder, "nothing")
	if _, err := conform.TryOpen(t, p, w.spec); err == nil {
		t.Error("nothing was opened")
	}
}

// A program that is no agent must not hang the mission.
func TestNotAnAgent(t *testing.T) {
	path, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.spec.Path, w.spec.Args = path, nil
	_, err = conform.TryOpen(t, w.p, w.spec)
	var open *provider.OpenError
	if !errors.As(err, &open) || open.Code != mission.LocalExecutionFailure {
		t.Errorf("open: %v", err)
	}
}
