package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/reevehq/reeve/service/internal/proc"
)

// gitOptions stand before every subcommand. They take away what can be taken
// away of the programs that a repository's configuration starts; filters and
// drivers stay, which is why git runs in a guard.
var gitOptions = []string{
	"-c", "core.hooksPath=" + os.DevNull,
	"-c", "core.fsmonitor=false",
	"-c", "core.untrackedCache=false",
	"-c", "protocol.ext.allow=never",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "commit.gpgSign=false",
}

// gitEnv is git's whole environment: no prompts, no pager, no optional locks
// that would disturb the person's own git, paths that mean what they say, and
// the mark of a worker, last, so that nothing before it can take it off.
func gitEnv(more []string, mark string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "USERPROFILE", "SYSTEMROOT"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_LITERAL_PATHSPECS=1")
	return append(append(env, more...), proc.AttemptVar+"="+mark)
}

// Why a command is ended before git has ended.
var (
	errGitLifeline = errors.New("the service has let go")
	errGitKeeper   = errors.New("the keeper is gone")
	errGitTime     = errors.New("its time is over")
	errGitOutput   = errors.New("it printed too much")
)

const (
	// gitGrace is how long git may take to put its lock files away when it is
	// ended, and gitKillFor how long the kernel has to take what was killed.
	gitGrace   = 2 * time.Second
	gitKillFor = 8 * time.Second
)

// GitMain runs the guard of git commands and returns the exit code of the
// process. It takes them from its standard input, one after the other, and
// answers on its standard output, see OpenGit. Without o.Inner it is the keeper, which starts
// `<Exe> guard --git --inner`.
func GitMain(ctx context.Context, o Options) int {
	o = o.withDefaults()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A service that is gone must not end this process before the tree: with a
	// channel a broken pipe is only an error of the write.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	code, err := exitFailed, error(nil)
	if o.Inner {
		code, err = guardGit(ctx)
	} else {
		code, err = keepGit(ctx, o)
	}
	if err != nil {
		o.Logger.Error("the guard of a git command failed", "keeper", !o.Inner, "error", err)
		code = max(code, exitFailed)
	}
	return code
}

// keepGit is the keeper. Its exit code is exitLeft unless all is proven to be
// gone.
func keepGit(ctx context.Context, o Options) (int, error) {
	self, err := proc.Self()
	if err != nil {
		return exitFailed, err
	}
	code, err := keepGuard(ctx, o.Exe, self, proc.Keeper{Name: gitTree(self)}, "--git", "--inner")
	switch {
	case err != nil:
		code = exitLeft
	case code == exitLeft:
		code = exitFailed // the keeper ended what its guard could not
	}
	return code, err
}

// gitTree names the tree of the command whose guard has this keeper.
func gitTree(keeper proc.ID) string { return fmt.Sprintf("git-%d-%d", keeper.PID, keeper.Start) }

// guardGit is the guard itself.
func guardGit(ctx context.Context) (code int, err error) {
	keeper, err := keeperID()
	if err != nil {
		return exitFailed, err
	}
	self, err := proc.Self()
	if err != nil {
		return exitFailed, err
	}
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		if keeper.Wait(life) == nil {
			end(errGitKeeper)
		}
	}()
	ctx, cancel := context.WithCancelCause(life) // ends with the lifeline, too
	defer cancel(nil)
	runs := make(chan GitRun)
	go func() {
		// The end of the process ends this: nothing can wake a read of the
		// standard input.
		defer cancel(errGitLifeline)
		for in := json.NewDecoder(os.Stdin); ; {
			var run GitRun
			if in.Decode(&run) != nil {
				return
			}
			select {
			case runs <- run:
			case <-ctx.Done():
			}
		}
	}()
	mark := gitTree(keeper)
	answer := json.NewEncoder(os.Stdout)
	var undo []GitRun // of the last run, until its end was heard
	for ready := false; ; {
		// A cgroup that was killed once can't be used again, so each command
		// has a tree of its own, of the same name.
		tree, err := proc.NewTree(mark)
		if err != nil {
			return exitFailed, err
		}
		if !ready {
			ready = true
			if err := answer.Encode(gitMessage{Ready: &gitReady{Guard: self, Cgroup: tree.Cgroup()}}); err != nil {
				return exitFailed, errors.Join(err, tree.Close())
			}
		}
		select {
		case run := <-runs:
			if len(run.Args) == 0 { // it was heard
				undo = nil
				if err := tree.Close(); err != nil {
					return exitFailed, err
				}
				continue
			}
			g := gitGuard{run: run, tree: tree, answer: answer}
			until := ctx
			if run.Whole {
				until = life
			}
			done := g.git(until, mark)
			undo = run.undo(done)
			if err := tree.Close(); err != nil && len(done.Left) == 0 {
				return exitFailed, err
			}
			_ = answer.Encode(gitMessage{Done: done}) // who isn't there needs no answer
			if len(done.Left) > 0 {
				return exitLeft, nil
			}
		case <-ctx.Done():
			if len(undo) == 0 || life.Err() != nil {
				return exitOK, tree.Close()
			}
			g := gitGuard{run: undo[0], tree: tree, answer: answer}
			undo = undo[1:]
			done := g.git(life, mark)
			if err := tree.Close(); err != nil || len(done.Left) > 0 {
				return exitLeft, err
			}
		}
	}
}

// undo lists what takes a run back that has ended like this.
func (r GitRun) undo(done *gitDone) (undo []GitRun) {
	if !r.Whole || done.Missing || done.Failed != "" || done.Exit == 0 {
		return nil
	}
	for _, u := range r.Undo {
		if u.CutOff && (done.Exit == 1 || done.Exit == 2) {
			continue
		}
		next := r
		next.Args, next.Stdin, next.Undo = u.Args, u.Stdin, nil
		undo = append(undo, next)
	}
	return undo
}

// gitGuard runs one command.
type gitGuard struct {
	run    GitRun
	tree   *proc.Tree
	answer *json.Encoder
}

// git runs the command and ends everything that came of it. Only then does it
// return.
func (g *gitGuard) git(ctx context.Context, mark string) *gitDone {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var args []string
	for _, setting := range g.run.Config {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command("git", slices.Concat(args, gitOptions, g.run.Args)...) // the last of two settings counts
	cmd.Dir, cmd.Env = g.run.Dir, gitEnv(g.run.Env, mark)
	// Pipes of our own: what git leaves behind holds them open, and must not
	// keep us from seeing that git has ended.
	var ours, theirs []*os.File
	defer func() { closeAll(ours); closeAll(theirs) }()
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return &gitDone{Failed: err.Error()}
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if _, err := g.tree.Start(cmd); err != nil {
		return &gitDone{Missing: errors.Is(err, exec.ErrNotFound), Failed: err.Error()}
	}
	closeAll(theirs)
	theirs = nil

	limit := time.AfterFunc(g.run.Limit, func() { cancel(errGitTime) })
	defer limit.Stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = ours[0].Write(g.run.Stdin) // git need not read all of it
		_ = ours[0].Close()
	})
	tooMuch := false
	wg.Go(func() {
		if tooMuch = g.forward(ours[1]); tooMuch {
			cancel(errGitOutput)
			_, _ = io.Copy(io.Discard, ours[1])
		}
	})
	said := tail{max: gitMaxStderr}
	wg.Go(func() { _, _ = io.Copy(&said, ours[2]) })
	exited := make(chan struct{})
	wg.Go(func() {
		defer close(exited)
		_ = cmd.Wait() // the state says it
	})
	var cause error
	select {
	case <-exited:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	left := g.end(cause)
	if len(left) > 0 {
		closeAll(ours) // what is left may hold the other ends
	} else {
		wg.Wait()
	}
	done := &gitDone{Exit: -1, Left: left, TimedOut: errors.Is(cause, errGitTime), TooMuch: errors.Is(cause, errGitOutput)}
	done.Canceled = cause != nil && !done.TimedOut && !done.TooMuch
	if len(left) == 0 { // else all of this is still under way
		done.Exit, done.Stderr, done.TooMuch = cmd.ProcessState.ExitCode(), said.b, tooMuch
	}
	return done
}

// forward sends on what git prints, and says whether that is more than it may.
func (g *gitGuard) forward(out io.Reader) (tooMuch bool) {
	buf := make([]byte, 64<<10)
	for sent := int64(0); ; {
		n, err := out.Read(buf)
		if keep := min(int64(n), g.run.MaxOutput-sent); keep > 0 {
			sent += keep
			_ = g.answer.Encode(gitMessage{Out: buf[:keep]}) // the lifeline tells that nobody listens
			if keep < int64(n) {
				return true
			}
		} else if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// end ends what is there. Git may put its lock files away first, unless it has
// ended by itself or there is no time.
func (g *gitGuard) end(cause error) (left []string) {
	ctx, cancel := context.WithTimeout(context.Background(), gitGrace+gitKillFor)
	defer cancel()
	stop := g.tree.Kill
	if cause != nil && !errors.Is(cause, errGitKeeper) {
		stop = func(ctx context.Context) ([]proc.ID, error) {
			return g.tree.Stop(ctx, proc.StopPlan{Kill: gitGrace})
		}
	}
	ids, err := stop(ctx)
	for _, id := range ids {
		left = append(left, describe(id))
	}
	if err != nil && len(left) == 0 {
		left = []string{err.Error()}
	}
	return left
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
