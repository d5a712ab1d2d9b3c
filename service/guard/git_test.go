//go:build unix

package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
)

// gits is a repository, and what the service knows while git runs in it.
type gits struct {
	t         *testing.T
	dir       string
	env       []string
	trees     atomic.Pointer[[]proc.Guarded]
	forgotten atomic.Int32
	before    func() // called by known; may be nil
}

func repository(t *testing.T) *gits {
	t.Helper()
	home := t.TempDir()
	identity := "[user]\n\tname = A\n\temail = a@example.org\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(identity), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gits{t: t, dir: t.TempDir(), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GORACE=atexit_sleep_ms=0", "SECRET=of the service",
	}}
	g.git("init", "-q")
	return g
}

func (g *gits) known(tree proc.Guarded) func() {
	g.trees.Store(&[]proc.Guarded{tree})
	if g.before != nil {
		g.before()
	}
	return func() { g.forgotten.Add(1) }
}

func (g *gits) run(ctx context.Context, run guard.GitRun) ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		g.t.Fatal(err)
	}
	run.Dir = g.dir
	return runGit(ctx, exe, g.env, run, g.known)
}

// runGit runs one command in a guard of its own.
func runGit(ctx context.Context, exe string, env []string, run guard.GitRun, known func(proc.Guarded) func()) ([]byte, error) {
	g, err := guard.OpenGit(ctx, exe, env, known)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return g.Run(ctx, run)
}

// git runs what must succeed.
func (g *gits) git(args ...string) []byte {
	g.t.Helper()
	out, err := g.run(within(g.t), guard.GitRun{Args: args})
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

// sh makes `git sh` run a script, as an alias of the repository's.
func (g *gits) sh(script string) {
	g.t.Helper()
	g.git("config", "alias.sh", "!sh '"+g.write("script", script)+"'")
}

// filter makes every look at a file of the repository run a script.
func (g *gits) filter(script string) {
	g.t.Helper()
	g.git("config", "filter.x.clean", "sh '"+g.write("script", script)+"'")
	g.write(".gitattributes", "file filter=x\n")
	g.write("file", "something\n")
}

func (g *gits) write(name, text string) (path string) {
	g.t.Helper()
	path = filepath.Join(g.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// said reads what a script writes to the pipe of this name, one line.
func (g *gits) said(name string) string {
	g.t.Helper()
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_RDWR, 0) // both ends: no writer is waited for
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	if err := f.SetReadDeadline(time.Now().Add(patience)); err != nil {
		g.t.Fatal(err)
	}
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := f.Read(b); err != nil {
			g.t.Fatalf("nothing came through %s: %v", name, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
	}
}

func (g *gits) pid(name string) proc.ID {
	g.t.Helper()
	var pid int
	if _, err := fmt.Sscan(g.said(name), &pid); err != nil {
		g.t.Fatal(err)
	}
	id, err := proc.Identify(pid)
	if err != nil {
		g.t.Fatal(err)
	}
	return id
}

// processes are the two processes of the command that runs.
func (g *gits) processes() (keeper, inner proc.ID) {
	g.t.Helper()
	tree := (*g.trees.Load())[0]
	inner, err := proc.Identify(tree.Sessions[0])
	if err != nil {
		g.t.Fatal(err)
	}
	return tree.Root, inner
}

func TestGitAnswers(t *testing.T) {
	t.Parallel()
	g := repository(t)
	blob := make([]byte, 3<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range blob {
		blob[i] = byte(rng.Uint32())
	}
	id, err := g.run(within(t), guard.GitRun{Args: []string{"hash-object", "-w", "--stdin"}, Stdin: blob})
	if err != nil {
		t.Fatal(err)
	}
	if out := g.git("cat-file", "blob", strings.TrimSpace(string(id))); !bytes.Equal(out, blob) {
		t.Errorf("%d bytes came back of %d, or others", len(out), len(blob))
	}
	if out := g.git("hash-object", "--stdin"); string(out) != "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n" {
		t.Errorf("without an input: %q", out)
	}
	// What isn't read of the input is no failure.
	if out, err := g.run(within(t), guard.GitRun{Args: []string{"version"}, Stdin: blob}); err != nil || len(out) == 0 {
		t.Errorf("%q %v", out, err)
	}
	if n := g.forgotten.Load(); n != 5 {
		t.Errorf("%d trees were forgotten of 5", n)
	}
}

// A guard runs one command after the other, also after one that failed, took
// too long or printed too much, and each leaves nothing.
func TestGitCommandsInOneGuard(t *testing.T) {
	t.Parallel()
	g := repository(t)
	mkfifo(t, filepath.Join(g.dir, "left"))
	mkfifo(t, filepath.Join(g.dir, "never"))
	g.sh(`case "$1" in
slow) sleep 300 ;;
much) yes ;;
leave) (setsid sh -c 'echo $$ >left; read x <never' &) ; exit 3 ;;
*) echo "$1" ;;
esac`)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	was := g.forgotten.Load()
	one, err := guard.OpenGit(within(t), exe, g.env, g.known)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	run := func(what string) (string, error) {
		out, err := one.Run(within(t), guard.GitRun{Dir: g.dir, Args: []string{"sh", what}, Limit: 10 * time.Second, MaxOutput: 1000})
		return string(out), err
	}
	tree := (*g.trees.Load())[0]
	var failed *guard.GitError
	for _, what := range []string{"a", "leave", "b", "much", "c", "d"} {
		out, err := run(what)
		switch what {
		case "leave":
			if !errors.As(err, &failed) || failed.Exit != 3 {
				t.Errorf("leave: %q %v", out, err)
			}
		case "much":
			if !errors.As(err, &failed) || !failed.TooMuch || len(out) != 1000 {
				t.Errorf("much: %d bytes, %v", len(out), err)
			}
		default:
			if err != nil || out != what+"\n" {
				t.Errorf("%s: %q %v", what, out, err)
			}
		}
		if g.forgotten.Load() != was {
			t.Error("forgotten while the guard lives")
		}
	}
	if out, err := one.Run(within(t), guard.GitRun{Dir: g.dir, Args: []string{"sh", "slow"}, Limit: time.Second}); !errors.As(err, &failed) || !failed.TimedOut {
		t.Errorf("slow: %q %v", out, err)
	}
	if out, err := run("e"); err != nil || out != "e\n" {
		t.Errorf("after a slow one: %q %v", out, err)
	}
	one.Close()
	if g.forgotten.Load() != was+1 {
		t.Error("not forgotten")
	}
	if tree.Root.State() != proc.Gone {
		t.Error("the keeper is left")
	}
	if _, err := run("f"); err == nil {
		t.Error("a closed guard ran a command")
	}
}

func TestGitFailures(t *testing.T) {
	t.Parallel()
	g := repository(t)
	var failed *guard.GitError
	out, err := g.run(within(t), guard.GitRun{Args: []string{"log"}})
	if !errors.As(err, &failed) || failed.Exit != 128 || failed.TimedOut || failed.TooMuch || len(out) > 0 ||
		!strings.HasPrefix(failed.Stderr, "fatal: your current branch") || !strings.Contains(err.Error(), g.dir) {
		t.Errorf("%q %v", out, err)
	}
	g.sh("echo half; head -c 20000 /dev/zero | tr '\\0' e >&2; printf '\\377\\n' >&2; exit 7")
	out, err = g.run(within(t), guard.GitRun{Args: []string{"sh"}})
	if !errors.As(err, &failed) || failed.Exit != 7 || string(out) != "half\n" ||
		len(failed.Stderr) != 16<<10 || !strings.HasSuffix(failed.Stderr, "e\xff\n") {
		t.Errorf("%q %v", out, err)
	}
	for _, args := range [][]string{nil, {"-c", "core.fsmonitor=true", "status"}} {
		if _, err := g.run(within(t), guard.GitRun{Args: args}); err == nil || errors.As(err, &failed) {
			t.Errorf("%q: %v", args, err)
		}
	}
	elsewhere := gits{t: t, dir: filepath.Join(g.dir, "nowhere"), env: g.env}
	if _, err := elsewhere.run(within(t), guard.GitRun{Args: []string{"status"}}); err == nil || errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("in no folder: %v", err)
	}
	bare := gits{t: t, dir: g.dir, env: []string{"PATH=" + t.TempDir()}}
	if _, err := bare.run(within(t), guard.GitRun{Args: []string{"status"}}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("without git: %v", err)
	}
}

func TestGitEnvironmentIsClean(t *testing.T) {
	t.Parallel()
	g := repository(t)
	g.sh("env -0")
	out, err := g.run(within(t), guard.GitRun{Args: []string{"sh"}, Env: []string{"MORE=a b", proc.AttemptVar + "=forged"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for kv := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		k, v, _ := strings.Cut(kv, "=")
		got[k] = v
	}
	if mark := got[proc.AttemptVar]; !strings.HasPrefix(mark, "git-") {
		t.Errorf("the mark is %q", mark)
	}
	for _, kv := range []string{"HOME=" + g.env[1][len("HOME="):], "MORE=a b", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_CONFIG_NOSYSTEM=1", "GIT_LITERAL_PATHSPECS=1"} {
		if k, v, _ := strings.Cut(kv, "="); got[k] != v {
			t.Errorf("%s is %q", kv, got[k])
		}
		delete(got, kv[:strings.IndexByte(kv, '=')])
	}
	// Git and the shell add these themselves; GORACE is not passed on.
	for _, k := range []string{proc.AttemptVar, "PATH", "GIT_CONFIG_PARAMETERS", "GIT_PREFIX", "GIT_DIR", "GIT_EXEC_PATH", "PWD", "OLDPWD", "SHLVL", "_"} {
		delete(got, k)
	}
	if len(got) > 0 {
		t.Errorf("more than it should have: %v", got)
	}
}

// Nothing that the guard holds may reach what git runs: with the other end of
// the lifeline a filter could keep the guard alive.
func TestGitInheritsNothing(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("needs /proc")
	}
	t.Parallel()
	g := repository(t)
	g.sh("exec readlink /proc/$$/fd/0 /proc/$$/fd/3 /proc/$$/fd/4 /proc/$$/fd/5 /proc/$$/fd/6 /proc/$$/fd/7 /proc/$$/fd/8 /proc/$$/fd/9")
	out, err := g.run(within(t), guard.GitRun{Args: []string{"sh"}})
	var failed *guard.GitError
	if !errors.As(err, &failed) || bytes.Count(out, []byte("\n")) != 1 {
		t.Errorf("%q %v", out, err)
	}
}

func TestGitIsKnownFirst(t *testing.T) {
	t.Parallel()
	g := repository(t)
	opened, looked := make(chan struct{}), make(chan struct{})
	g.before = func() {
		defer close(looked)
		select { // time for the fault to show, not for what is right
		case <-opened:
			t.Error("git could run before its tree was known")
		case <-time.After(time.Second):
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	was := g.forgotten.Load()
	one, err := guard.OpenGit(within(t), exe, g.env, g.known)
	close(opened)
	if err != nil {
		t.Fatal(err)
	}
	<-looked
	one.Close()
	// What known returned ends it, so known had returned.
	if n := g.forgotten.Load() - was; n != 1 {
		t.Errorf("forgotten %d times", n)
	}
}

// attackers are what a clean filter may start, each of which tells its pid and
// waits, holding git's standard error open: by itself, in a session of its own, and after a double fork, with the
// mark taken off.
const attackers = `
ask='echo $$ >>"$0"; read x <never'
env -i sh -c "$ask" "$PWD/plain" >&2 &
env -i setsid sh -c "$ask" "$PWD/session" >&2 &
(env -i setsid sh -c "(sh -c '$ask' '$PWD/double' &)" >&2 &)
trap '' TERM INT
read x <go
cat
`

func TestWhatGitRunsIsAWorkerAndEnds(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	t.Parallel()
	for name, how := range map[string]struct {
		end func(g *gits, cancel func())
		// kept: the keeper was killed, so nothing proves that all is gone.
		ok, kept bool
	}{
		"the filter ends": {end: func(g *gits, _ func()) { g.write("go", "\n") }, ok: true},
		"canceled":        {end: func(_ *gits, cancel func()) { cancel() }},
		"guard killed":    {end: func(g *gits, _ func()) { _, inner := g.processes(); g.signal(inner, syscall.SIGKILL) }},
		"guard asked":     {end: func(g *gits, _ func()) { _, inner := g.processes(); g.signal(inner, syscall.SIGTERM) }},
		"keeper asked":    {end: func(g *gits, _ func()) { keeper, _ := g.processes(); g.signal(keeper, syscall.SIGTERM) }},
		"keeper killed":   {end: func(g *gits, _ func()) { keeper, _ := g.processes(); g.signal(keeper, syscall.SIGKILL) }, kept: true},
		"both stopped": {end: func(g *gits, cancel func()) {
			keeper, inner := g.processes()
			g.signal(keeper, syscall.SIGSTOP)
			g.signal(inner, syscall.SIGSTOP)
			cancel()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := repository(t)
			pipes := []string{"plain", "session", "double"}
			for _, p := range append(pipes, "go", "never") {
				mkfifo(t, filepath.Join(g.dir, p))
			}
			g.filter(attackers)
			already := g.forgotten.Load()
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := g.run(ctx, guard.GitRun{Args: []string{"add", "file", ".gitattributes"}})
				done <- err
			}()
			var ids []proc.ID
			for _, p := range pipes {
				id := g.pid(p)
				if v := proc.DescendsFromGuard(id.PID, nil, *g.trees.Load()); !v.Worker {
					t.Errorf("%s: %+v", p, v)
				} else if p == "double" && !strings.Contains(v.Why, "guard") && !strings.Contains(v.Why, "group") && !strings.Contains(v.Why, "session of") {
					t.Errorf("it is told by chance: %s", v.Why)
				}
				ids = append(ids, id)
			}
			keeper, inner := g.processes()
			how.end(g, cancel)
			err := <-done
			for i, id := range append(ids, keeper, inner) {
				if id.State() != proc.Gone {
					t.Errorf("process %d is there: %v", i, id)
				}
			}
			if (err == nil) != how.ok || errors.Is(err, context.Canceled) != (ctx.Err() != nil) {
				t.Errorf("it ended with %v", err)
			}
			if forgot := g.forgotten.Load() - already; (forgot == 0) != how.kept || forgot > 1 {
				t.Errorf("forgotten %d times", forgot)
			}
		})
	}
}

func (g *gits) signal(id proc.ID, sig os.Signal) {
	g.t.Helper()
	if err := id.Signal(sig); err != nil {
		g.t.Error(err)
	}
}

// An ended git puts its lock files away.
func TestEndedGitLeavesNoLock(t *testing.T) {
	t.Parallel()
	g := repository(t)
	mkfifo(t, filepath.Join(g.dir, "begun"))
	g.filter("echo $$ >begun; sleep 300")
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		_, err := g.run(ctx, guard.GitRun{Args: []string{"add", "file"}})
		done <- err
	}()
	g.said("begun")
	lock := filepath.Join(g.dir, ".git", "index.lock")
	if _, err := os.Stat(lock); err != nil {
		t.Error("nothing to test:", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock: %v", err)
	}
}

// A command that must not be cut off goes on when nobody waits for it any more.
func TestWholeGitGoesOn(t *testing.T) {
	t.Parallel()
	g := repository(t)
	mkfifo(t, filepath.Join(g.dir, "begun"))
	mkfifo(t, filepath.Join(g.dir, "go"))
	g.filter("echo $$ >begun; read x <go; cat")
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		_, err := g.run(ctx, guard.GitRun{Args: []string{"add", "file"}, Whole: true})
		done <- err
	}()
	filter := g.pid("begun")
	before := g.forgotten.Load()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	keeper, inner := g.processes()
	// Nothing tells that the guard has seen the end of the service. One that takes
	// git along does so at once: this is time for the fault to show.
	soon, stop := context.WithTimeout(within(t), 5*time.Second)
	defer stop()
	if filter.Wait(soon) == nil {
		t.Fatal("git was cut off")
	}
	if g.forgotten.Load() != before {
		t.Error("what goes on was forgotten")
	}
	pipe, err := os.OpenFile(filepath.Join(g.dir, "go"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := pipe.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	ends(t, "keeper", keeper)
	ends(t, "guard", inner)
	if got := string(g.git("ls-files")); got != "file\n" {
		t.Errorf("the index has %q", got)
	}
}
