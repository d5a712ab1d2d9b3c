// Package e2e tests the real binaries from outside: the command line, the
// service, its guards, the demo agent, the real Claude Code program against a
// stand-in for the model API, and the desktop on a real X server.
//
// On Linux the whole package runs in a network namespace that has nothing but
// a loopback device, so that a program that would phone home fails visibly.
package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/service/provider/conform"
)

// bin holds the binaries under test, built once.
var bin string

func TestMain(m *testing.M) {
	if bin = os.Getenv("REEVE_E2E_BIN"); bin != "" {
		os.Exit(conform.Isolated(m.Run))
	}
	var err error
	if bin, err = os.MkdirTemp("", "reeve-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = conform.Isolated(m.Run, "REEVE_E2E_BIN="+bin)
	}
	_ = os.RemoveAll(bin)
	os.Exit(code)
}

// build makes reeve with the race detector, a clock that tests can set, and
// places where it can be made to die. Hundreds of deaths go without the race
// detector: the sample of them that every run tries has it.
func build() error {
	args := []string{"-tags", "testhooks", "-o", filepath.Join(bin, "reeve"), "../reeve"}
	if os.Getenv("REEVE_TEST_CRASH") == "" {
		args = append([]string{"-race"}, args...)
	}
	return goBuild(args...)
}

// desktop builds the desktop program as it is shipped, once.
var desktop = sync.OnceValue(func() error {
	return goBuild("-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(bin, "reeve-desktop"), "../reeve-desktop")
})

func goBuild(args ...string) error {
	if out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// machine is one private instance: a state, a home, and a service.
type machine struct {
	t     *testing.T
	dir   string
	state string
	home  string
	env   []string
	clock string
	reeve string // the program that is run

	cmd    *exec.Cmd
	logs   *lines
	exited chan struct{}
}

// newMachine makes the folders, whose names are as bad as names get (case 32).
func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "reeve é \"q' 日本 🦊-")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: dir, state: filepath.Join(dir, "st ate"), home: filepath.Join(dir, "ho me"), clock: filepath.Join(dir, "clock"), reeve: filepath.Join(bin, "reeve")}
	for _, d := range []string{m.home, m.state} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + m.home, "LANG=C.UTF-8", "TERM=dumb", "TMPDIR=" + os.TempDir(),
		"REEVE_STATE=" + m.state, "REEVE_TEST_CLOCK=" + m.clock, "GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GOCACHE=" + goEnv("GOCACHE"), "GOFLAGS=-mod=mod", "GOPATH=" + goEnv("GOPATH"),
	}
	t.Cleanup(func() {
		m.stop()
		if t.Failed() {
			t.Logf("service log:\n%s", m.logs.text())
			for _, f := range m.glob("attempts/*/guard.log") {
				b, _ := os.ReadFile(f)
				t.Logf("%s:\n%s", f, b)
			}
		}
		if !t.Failed() { // what was told to end may be a moment from its end
			m.gone(func(string) bool { return false })
		} else if left := m.processes(); len(left) > 0 {
			t.Errorf("processes of this machine are left: %v", left)
		}
		_ = os.RemoveAll(dir)
	})
	return m
}

var goEnv = func() func(string) string {
	var mu sync.Mutex
	seen := map[string]string{}
	return func(name string) string {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := seen[name]; !ok {
			out, _ := exec.Command("go", "env", name).Output()
			seen[name] = strings.TrimSpace(string(out))
		}
		return seen[name]
	}
}()

func (m *machine) glob(pattern string) []string {
	out, _ := filepath.Glob(filepath.Join(strings.NewReplacer("[", "\\[", "*", "\\*", "?", "\\?").Replace(m.state), pattern))
	return out
}

// start runs the service and waits until it serves.
func (m *machine) start() *machine {
	m.t.Helper()
	if !m.tryStart() {
		m.t.Fatalf("the service did not come up:\n%s", m.logs.text())
	}
	return m
}

// tryStart is start with more environment; it says whether the service came to
// serve.
func (m *machine) tryStart(env ...string) bool {
	m.t.Helper()
	m.cmd = exec.Command(m.reeve, "service", "run")
	m.cmd.Env = append(append([]string{}, m.env...), env...)
	m.cmd.Dir = m.dir
	stderr, err := m.cmd.StderrPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.logs = read(stderr)
	m.exited = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}, l *lines) {
		defer close(done)
		<-l.eof
		_ = cmd.Wait()
	}(m.cmd, m.exited, m.logs)
	return m.logs.wait("serving", waitLimit)
}

// stop ends the service and its workers.
func (m *machine) stop() {
	if m.cmd == nil {
		return
	}
	select {
	case <-m.exited:
	default:
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, m.reeve, "service", "stop", "--workers")
		cmd.Env = m.env
		if out, err := cmd.CombinedOutput(); err != nil {
			m.t.Errorf("reeve service stop --workers: %v\n%s", err, out)
			_ = m.cmd.Process.Kill()
		}
		<-m.exited
	}
	m.cmd = nil
}

// signal sends sig to the service and waits for its end.
func (m *machine) signal(sig syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(sig); err != nil {
		m.t.Fatal(err)
	}
	select {
	case <-m.exited:
	case <-time.After(waitLimit):
		m.t.Fatalf("the service did not end on %v", sig)
	}
	m.cmd = nil
}

// install puts a program at a place, at once. It is another process that writes it:
// what this one writes may be open in a program that it is just starting, and a
// file that is open for writing can't be run.
func (m *machine) install(from, to string) {
	m.t.Helper()
	if out, err := exec.Command("cp", "--", from, to+".new").CombinedOutput(); err != nil {
		m.t.Fatalf("copy %s: %v\n%s", from, err, out)
	}
	if err := os.Rename(to+".new", to); err != nil {
		m.t.Fatal(err)
	}
}

// result is what a command printed and how it ended.
type result struct {
	out, err string
	code     int
}

func (m *machine) run(args ...string) result {
	m.t.Helper()
	return m.runIn(m.dir, nil, args...)
}

func (m *machine) runIn(dir string, env []string, args ...string) result {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.reeve, args...)
	cmd.Env = append(append([]string{}, m.env...), env...)
	cmd.Dir = dir
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatalf("reeve %v: %v", args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed, and decodes what it prints.
func must[T any](m *machine, args ...string) T {
	m.t.Helper()
	r := m.run(append(args, "--json")...)
	var v T
	if r.code != 0 {
		m.t.Fatalf("reeve %v: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		m.t.Fatalf("reeve %v printed no JSON: %v\n%s", args, err, r.out)
	}
	return v
}

// dial connects to the service as a program of the person would.
func (m *machine) dial() *client.Client {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	c, err := client.Dial(ctx, m.socket(), client.Options{Client: "e2e"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	return c
}

func (m *machine) socket() string {
	m.t.Helper()
	path, err := sock.Path(func(name string) string {
		for _, kv := range m.env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return path
}

// repo makes a checkout with one committed file.
func (m *machine) repo(name string) string {
	m.t.Helper()
	dir := filepath.Join(m.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("alpha\nbeta\n"), 0o644); err != nil {
		m.t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, m.env
		if out, err := cmd.CombinedOutput(); err != nil {
			m.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// setClock moves the clock of the service and its guards by d, as if that much
// time had passed.
func (m *machine) setClock(d time.Duration) { m.setClocks(d, d) }

// setClocks moves the wall clock, which a person can set, and the time since
// the machine was started, which nobody can.
func (m *machine) setClocks(wall, boot time.Duration) {
	m.t.Helper()
	tmp := m.clock + ".new"
	if err := os.WriteFile(tmp, []byte(wall.String()+" "+boot.String()), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(tmp, m.clock); err != nil {
		m.t.Fatal(err)
	}
}

// told waits for a line in a pipe with a name. Whoever should write it may have
// ended before: then the test fails, and does not wait for ever.
func (m *machine) told(pipe string) string {
	m.t.Helper()
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // for reading alone this would wait for a writer
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(waitLimit))
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		m.t.Fatalf("nobody wrote to %s: %v", filepath.Base(pipe), err)
	}
	return strings.TrimSuffix(line, "\n")
}

// processes lists what still runs with this machine's state in its
// environment or arguments, or in its folder.
func (m *machine) processes() []string {
	var out []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid := e.Name()
		if pid[0] < '0' || pid[0] > '9' || pid == fmt.Sprint(os.Getpid()) {
			continue
		}
		env, _ := os.ReadFile("/proc/" + pid + "/environ")
		args, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		cwd, _ := os.Readlink("/proc/" + pid + "/cwd")
		if len(args) > 0 && (strings.Contains(string(env), m.dir) || strings.Contains(string(args), m.dir) || strings.HasPrefix(cwd, m.dir)) {
			out = append(out, pid+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return out
}

// lines collects what a program prints.
type lines struct {
	mu   sync.Mutex
	all  []string
	more chan struct{}
	eof  chan struct{}
}

func read(r io.Reader) *lines {
	l := &lines{more: make(chan struct{}), eof: make(chan struct{})}
	go func() {
		defer close(l.eof)
		s := bufio.NewReader(r)
		for {
			line, err := s.ReadString('\n')
			if line != "" {
				l.mu.Lock()
				l.all = append(l.all, strings.TrimSuffix(line, "\n"))
				close(l.more)
				l.more = make(chan struct{})
				l.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *lines) text() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// wait returns true once a line contains what.
func (l *lines) wait(what string, limit time.Duration) bool {
	deadline := time.After(limit)
	from := 0
	for {
		l.mu.Lock()
		for ; from < len(l.all); from++ {
			if strings.Contains(l.all[from], what) {
				l.mu.Unlock()
				return true
			}
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-deadline:
			return false
		case <-l.eof:
			l.mu.Lock()
			done := from == len(l.all)
			l.mu.Unlock()
			if done {
				return false
			}
		}
	}
}
