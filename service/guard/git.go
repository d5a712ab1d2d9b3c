package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// GitRun is one git command on a checkout.
type GitRun struct {
	// Dir is where git runs, an absolute path.
	Dir string `json:"dir"`
	// Args begin with the subcommand; the options before it are not the
	// caller's to choose.
	Args []string `json:"args"`
	// Config are more settings, as key=value; those that keep the repository's
	// programs from running can't be changed by them.
	Config []string `json:"config,omitempty"`
	// Env adds to the clean environment that git gets.
	Env []string `json:"env,omitempty"`
	// Stdin is what git reads; without it there is nothing to read.
	Stdin []byte `json:"stdin,omitempty"`
	// Limit is how long git may take (60 s).
	Limit time.Duration `json:"limit"`
	// MaxOutput is how many bytes git may print (64 MiB). A command that goes
	// on after that is ended.
	MaxOutput int64 `json:"max_output"`
	// Whole: it would leave the checkout half changed, so that only its limit
	// ends it. Without a service it goes on in its guard, and a ctx that ends
	// makes Run let go of it, see GoesOn.
	Whole bool `json:"whole,omitempty"`
	// Undo are commands that take back what a Whole run left that failed. The
	// guard runs them, one after the other, when Run has not heard of it: nobody
	// else will then.
	Undo []GitUndo `json:"undo,omitempty"`
}

// GitUndo is a command with the settings and the limits of the one that it
// takes back. Whether it succeeds is nobody's to hear.
type GitUndo struct {
	Args  []string `json:"args"`
	Stdin []byte   `json:"stdin,omitempty"`
	// CutOff: not after exit codes 1 and 2, with which git gave up by itself.
	CutOff bool `json:"cut_off,omitempty"`
}

// GitError says that a git command failed, or was ended for its time or its
// output. The answer that came until then is returned beside it.
type GitError struct {
	Dir  string
	Args []string
	// Exit is git's exit code, -1 when a signal ended it.
	Exit int
	// Stderr is the end of what git complained about, 16 KiB at most.
	Stderr string
	// TimedOut: git took longer than Limit. TooMuch: it printed more than
	// MaxOutput.
	TimedOut, TooMuch bool
}

// Error names the subcommand and the folder, and quotes git's own first line.
// The other arguments may be anything, so they are not in it.
func (e *GitError) Error() string {
	what := fmt.Sprintf("git %s in %s ", e.Args[0], e.Dir)
	switch {
	case e.TimedOut:
		return what + "took too long and was ended; check that the disk can be reached and that no filter of the repository hangs"
	case e.TooMuch:
		return what + "printed more than is read and was ended"
	case e.Exit < 0:
		what += "was ended by a signal"
	default:
		what += fmt.Sprintf("failed with exit code %d", e.Exit)
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(e.Stderr), "\n"); line != "" {
		what += ": " + line
	}
	return what
}

// GoesOn says that the context of a Whole command has ended, and the command has
// not.
type GoesOn struct {
	// Ended is closed when its guard is gone, and all that came of it.
	Ended <-chan struct{}
	run   GitRun
	cause error
}

// Error names the subcommand and the folder.
func (e *GoesOn) Error() string {
	return fmt.Sprintf("git %s in %s goes on: %v", e.run.Args[0], e.run.Dir, e.cause)
}

// Unwrap is why nobody waits for it.
func (e *GoesOn) Unwrap() error { return e.cause }

// What service and guard tell each other: the guard is ready, the service
// sends each GitRun on the guard's standard input and leaves that open for as
// long as it wants anything to go on, and after a Whole one an empty GitRun, which
// says that its end was heard; the guard sends what git prints and then
// how it ended. Each is a line of JSON.
type (
	gitMessage struct {
		Ready *gitReady `json:"ready,omitempty"`
		Out   []byte    `json:"out,omitempty"`
		Done  *gitDone  `json:"done,omitempty"`
	}
	gitReady struct {
		Guard  proc.ID `json:"guard"`
		Cgroup string  `json:"cgroup,omitempty"` // or the job, on Windows
	}
	gitDone struct {
		Exit     int    `json:"exit"`
		Stderr   []byte `json:"stderr,omitempty"` // bytes: JSON would change what is no text
		TimedOut bool   `json:"timed_out,omitempty"`
		TooMuch  bool   `json:"too_much,omitempty"`
		Canceled bool   `json:"canceled,omitempty"`
		// Missing: git is not installed. Failed: why it could not be started.
		Missing bool     `json:"missing,omitempty"`
		Failed  string   `json:"failed,omitempty"`
		Left    []string `json:"left,omitempty"` // what the system would not end
	}
)

const (
	gitLimit     = time.Minute
	gitMaxOutput = 64 << 20
	gitMaxStderr = 16 << 10
	// gitSlack is what a guard may need beside git's own time. Once its lifeline
	// is cut it usually ends everything in gitEndsWithin; after twice that the
	// guard itself is ended.
	gitSlack      = 15 * time.Second
	gitEndsWithin = gitGrace + 4*time.Second
)

// Git is a guard that runs git commands on checkouts, one after the other. It
// lives for one look at a checkout.
type Git struct {
	cmd      *exec.Cmd
	keeper   proc.ID
	said     tail
	lifeline io.WriteCloser
	answer   io.ReadCloser
	ready    chan gitReady   // gets one
	answers  chan gitMessage // what the guard answers to the command that runs
	quit     chan struct{}   // closed by Close: nobody takes answers any more
	heard    chan struct{}   // closed at the end of the answer
	quits    sync.Once
	ends     sync.Once
	gone     bool    // valid after finish: all of it is proven to have ended
	inner    proc.ID // the guard below the keeper, once it is ready
	forget   func()
}

// OpenGit starts a guard for git commands (`exe guard --git`, with env as the
// guard's whole environment). Configuration of a repository can make git run
// anything, so whatever comes of a command is a worker's: known is told which
// processes to count as such before anything of git runs, and forget is called
// by Close when all of them are gone. ctx bounds the opening alone.
//
// If somebody kills the keeper of the guard nothing proves that all is gone,
// and what is known is not forgotten.
func OpenGit(ctx context.Context, exe string, env []string, known func(proc.Guarded) (forget func())) (*Git, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g := &Git{
		cmd: exec.Command(exe, "guard", "--git"), said: tail{max: gitMaxStderr}, ready: make(chan gitReady, 1),
		answers: make(chan gitMessage), quit: make(chan struct{}), heard: make(chan struct{}),
	}
	g.cmd.Env, g.cmd.SysProcAttr = append(slices.Clip(env), proc.GuardVar+"=git"), detached()
	g.cmd.Stderr, g.cmd.WaitDelay = &g.said, killFor
	var err error
	if g.lifeline, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if g.answer, err = g.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	if g.keeper, err = proc.Identify(g.cmd.Process.Pid); err != nil {
		_ = g.lifeline.Close()
		_ = g.cmd.Process.Kill() // ours, and not waited for: the pid still holds
		_ = g.cmd.Wait()
		return nil, fmt.Errorf("record the identity of its guard: %w", err)
	}
	// Guard and keeper both hold the answer open, and nothing else does: its
	// end is the end of the two.
	go g.hear()
	opening, cancel := context.WithTimeout(ctx, gitSlack)
	defer cancel()
	select {
	case ready := <-g.ready:
		tree := proc.Guarded{Root: g.keeper, Sessions: []int{ready.Guard.PID}}
		if ready.Cgroup != "" {
			tree.Cgroups = []string{ready.Cgroup}
		}
		g.inner = ready.Guard
		g.ready <- ready // for the end
		g.forget = known(tree)
		return g, nil
	case <-g.heard:
		g.Close()
		return nil, fmt.Errorf("its guard ended before it was ready (%v): %s", g.cmd.ProcessState, firstLine(g.said.b))
	case <-opening.Done():
		g.Close()
		return nil, fmt.Errorf("its guard was not ready in time: %w", opening.Err())
	}
}

// Run runs one command and returns what it printed, when everything that came
// of it is gone. One command runs at a time.
//
// A command that fails is a *GitError; one that ctx ended gives ctx's error and
// ends the guard with it, or lets go of it (*GoesOn), and a git that is not installed is exec.ErrNotFound.
func (g *Git) Run(ctx context.Context, run GitRun) ([]byte, error) {
	if len(run.Args) == 0 || strings.HasPrefix(run.Args[0], "-") || !filepath.IsAbs(run.Dir) {
		return nil, fmt.Errorf("run git %q in %q: a subcommand and an absolute folder are needed", run.Args, run.Dir)
	}
	if run.Limit <= 0 {
		run.Limit = gitLimit
	}
	if run.MaxOutput <= 0 {
		run.MaxOutput = gitMaxOutput
	}
	failed := func(err error) error { return fmt.Errorf("git %s in %s: %w", run.Args[0], run.Dir, err) }
	if err := ctx.Err(); err != nil {
		return nil, failed(err)
	}
	life, cancel := context.WithTimeout(ctx, run.Limit+gitSlack)
	defer cancel()
	sent := make(chan struct{})
	go func() { // a guard that doesn't read must not hold this up
		defer close(sent)
		_ = json.NewEncoder(g.lifeline).Encode(run) // a failure shows in the answer
	}()
	var out []byte
	tooMuch := false
	take := func(m gitMessage) *gitDone {
		if int64(len(out)+len(m.Out)) > run.MaxOutput {
			tooMuch = true
		} else {
			out = append(out, m.Out...)
		}
		return m.Done
	}
	var done *gitDone
	for over := false; done == nil && !over; {
		select {
		case m := <-g.answers:
			done = take(m)
		case <-g.heard:
			over = true
		case <-life.Done():
			if run.Whole && ctx.Err() != nil {
				g.letGo()
				return nil, &GoesOn{Ended: g.heard, run: run, cause: ctx.Err()}
			}
			// What the guard still says tells how it ended.
			go g.finish()
			for done == nil && !over {
				select {
				case m := <-g.answers:
					done = take(m)
				case <-g.heard:
					over = true
				}
			}
		}
	}
	if done != nil && run.Whole {
		<-sent
		_ = json.NewEncoder(g.lifeline).Encode(GitRun{})
	}
	if done == nil || done.Canceled || len(done.Left) > 0 {
		g.Close()
	}
	<-sent

	gitErr := &GitError{Dir: run.Dir, Args: run.Args, Exit: -1}
	switch {
	case done == nil && ctx.Err() != nil:
		return nil, failed(ctx.Err())
	case done == nil && life.Err() != nil:
		gitErr.TimedOut = true
		return nil, gitErr
	case done == nil:
		return nil, failed(fmt.Errorf("its guard ended without an answer (%v): %s", g.cmd.ProcessState, firstLine(g.said.b)))
	case len(done.Left) > 0 && !g.gone:
		return nil, failed(errors.Join(fmt.Errorf("the system would not end %s, which it left", strings.Join(done.Left, ", ")), ctx.Err()))
	case done.Canceled && ctx.Err() != nil:
		return nil, failed(ctx.Err())
	case done.Canceled && life.Err() == nil:
		return nil, failed(errors.New("its guard was ended by somebody else"))
	case done.Missing:
		return nil, failed(fmt.Errorf("git is not installed: %w", exec.ErrNotFound))
	case done.Failed != "":
		return nil, failed(errors.New(done.Failed))
	}
	gitErr.Exit, gitErr.Stderr = done.Exit, string(done.Stderr)
	gitErr.TimedOut, gitErr.TooMuch = done.TimedOut || done.Canceled, done.TooMuch || tooMuch
	if gitErr.Exit != 0 || gitErr.TimedOut || gitErr.TooMuch {
		return out, gitErr
	}
	return out, nil
}

// Close ends the guard and returns when it and everything that it ran is gone,
// or the system would not end it.
func (g *Git) Close() {
	g.quits.Do(func() { close(g.quit) })
	g.finish()
}

// letGo cuts the lifeline and leaves the guard alone until it ends by itself.
func (g *Git) letGo() {
	g.quits.Do(func() { close(g.quit) })
	g.ends.Do(func() {
		_ = g.lifeline.Close()
		go func() {
			<-g.heard
			g.ended()
		}()
	})
}

// finish cuts the lifeline and waits for the end of the guard.
func (g *Git) finish() {
	g.ends.Do(func() {
		_ = g.lifeline.Close()
		if !g.endSlow() {
			_ = g.answer.Close()
		}
		<-g.heard
		g.ended()
	})
}

// ended finds out whether all of a guard is gone whose answer has ended.
func (g *Git) ended() {
	_ = g.cmd.Wait() // the state says it
	// Without its keeper the guard is nobody's to wait for, and a process
	// lets go of its files a moment before it is gone.
	waitFor(context.Background(), g.inner, killFor)
	state := g.cmd.ProcessState
	g.gone = state.Exited() && state.ExitCode() != exitLeft
	if g.forget != nil && g.gone {
		g.forget()
	}
}

// hear reads the guard's answers to their end. Whoever runs under this user
// could write into them, so they are bounded, and nothing that counts for who
// may decide rests on them.
func (g *Git) hear() {
	defer close(g.heard)
	lines := wire.NewLineReader(g.answer)
	told := false
	for {
		line, err := lines.Next()
		var m gitMessage
		if err == nil {
			err = json.Unmarshal(line, &m)
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, g.answer)
			return
		}
		if m.Ready != nil {
			if !told {
				told = true
				g.ready <- *m.Ready
			}
			continue
		}
		select {
		case g.answers <- m:
		case <-g.quit:
		}
	}
}

// endSlow waits for a guard whose lifeline was cut, and ends it if it does not
// follow. What git runs belongs to the same user and can stop both of the
// guard's processes, so they are woken first. It says whether the answer has
// come to its end.
func (g *Git) endSlow() bool {
	var inner gitReady
	for range 2 {
		if g.isHeard(gitEndsWithin) {
			return true
		}
		select {
		case inner = <-g.ready:
		default:
		}
		proc.Wake(g.keeper)
		proc.Wake(inner.Guard)
	}
	ctx, cancel := context.WithTimeout(context.Background(), guardLinger+2*killFor)
	defer cancel()
	_ = endProcess(ctx, g.keeper, true)
	_ = endProcess(ctx, inner.Guard, false)
	_, _ = proc.EndGroup(ctx, inner.Cgroup)
	return g.isHeard(time.Second)
}

func (g *Git) isHeard(within time.Duration) bool {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-g.heard:
		return true
	case <-timeout.C:
		return false
	}
}

// tail keeps the last max bytes written to it.
type tail struct {
	max int
	b   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - t.max; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte{'\n'})
	return string(line)
}
