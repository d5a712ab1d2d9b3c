package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/proc"
)

// gitAtOnce is how many guards run git commands at once for all missions. A
// start after a crash may have many checkouts to look at.
const gitAtOnce = 4

// gitLimit is how long a look at a checkout, or a change of it, may take in all.
const gitLimit = 20 * time.Minute

// errLeft is what git answers to those for whom nobody waits any more.
var errLeft = errors.New("nobody waits for it any more")

// withGit hands fn, which only looks, a git as changeWithGit does.
//
// When ctx ends and fn does not follow, since it waits for a disk that doesn't
// answer, it is left to itself: fn must have no effect but through git and what
// it returns.
func withGit[T any](ctx context.Context, s *Supervisor, mission string, fn func(checkout.Git) (T, error)) (T, error) {
	return gitFor(ctx, s, mission, true, fn)
}

// changeWithGit hands fn a git that runs in a short-lived guard: what a repository
// makes git run is judged like what the mission's agent runs. The guard comes up
// while fn does what needs none; it and everything that came of it are gone when
// changeWithGit returns, which waits for fn however long it takes. When ctx ends
// its commands end, but for those that must be whole, see checkout.GitCommand.
func changeWithGit[T any](ctx context.Context, s *Supervisor, mission string, fn func(checkout.Git) (T, error)) (T, error) {
	return gitFor(ctx, s, mission, false, fn)
}

func gitFor[T any](ctx context.Context, s *Supervisor, mission string, leave bool, fn func(checkout.Git) (T, error)) (out T, err error) {
	life, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	select {
	case s.gits <- struct{}{}:
		defer func() { <-s.gits }()
	case <-life.Done():
		return out, life.Err()
	}
	type opened struct {
		g   *guard.Git
		err error
	}
	open := func(ctx context.Context) opened {
		g, err := guard.OpenGit(ctx, s.Exe, s.GuardEnv, func(tree proc.Guarded) func() { return s.know(mission, tree) })
		if err != nil {
			return opened{nil, fmt.Errorf("start a guard for git: %w", err)}
		}
		return opened{g, nil}
	}
	up := make(chan opened, 1) // has the guard that the next command gets
	go func() { up <- open(life) }()
	git := func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		now := <-up
		defer func() { up <- now }()
		if err := life.Err(); err != nil && !c.Whole {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !c.Whole {
			defer context.AfterFunc(life, cancel)()
		}
		if now.g == nil && now.err == nil { // the last command ended it
			now = open(ctx)
		}
		if now.err != nil {
			return nil, now.err
		}
		run := guard.GitRun{Dir: c.Dir, Config: c.Config, Args: c.Args, Env: c.Env, Stdin: c.Stdin, MaxOutput: int64(c.Limit), Limit: c.Within, Whole: c.Whole}
		for _, u := range c.Undo {
			run.Undo = append(run.Undo, guard.GitUndo(u))
		}
		out, err := now.g.Run(ctx, run)
		var failed *guard.GitError
		var on *guard.GoesOn
		if errors.As(err, &on) {
			err = fmt.Errorf("%w: %w", checkout.ErrGoesOn, err)
		}
		switch {
		case err == nil:
			if ctx.Err() != nil { // the end came with the answer, and may end its guard yet
				now.g.Close()
				now.g = nil
			}
			return out, nil
		case !errors.As(err, &failed) || failed.TimedOut:
			now.g.Close()
			now.g = nil
			return out, err
		case failed.TooMuch && c.Limit > 0:
			return out, nil // no more was wanted
		}
		return out, gitFailure{failed}
	}
	type result struct {
		out T
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := fn(git)
		done <- result{out, err}
	}()
	close := func(last opened) {
		if last.g != nil {
			last.g.Close()
		}
		up <- opened{nil, errLeft}
	}
	var r result
	ends := life.Done()
	if !leave {
		ends = nil
	}
	select {
	case r = <-done:
		close(<-up)
		return r.out, r.err
	case <-ends:
	}
	// A git that runs ends with ctx, and fn with it.
	follow := time.NewTimer(followLimit)
	defer follow.Stop()
	select {
	case r = <-done:
		close(<-up)
		return r.out, r.err
	case <-follow.C:
	}
	select {
	case r = <-done:
		close(<-up)
		return r.out, r.err
	case last := <-up: // no git runs
		close(last)
		return out, life.Err()
	}
}

// followLimit is how long fn may take to see that ctx has ended.
const followLimit = time.Second

// gitFailure is a git that answered with an error.
type gitFailure struct{ *guard.GitError }

func (f gitFailure) ExitCode() int  { return f.Exit }
func (f gitFailure) Stderr() string { return f.GitError.Stderr }

// know counts the processes of a tree as the mission's worker until they are
// forgotten.
func (s *Supervisor) know(mission string, tree proc.Guarded) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[&tree] = mission
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.known, &tree)
	}
}

// Guards tells which process trees belong to workers, for judging who may
// decide, by mission: its guard's, and those of git commands that look at its
// checkout.
func (s *Supervisor) Guards() map[string][]proc.Guarded {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]proc.Guarded{}
	for id, w := range s.workers {
		if g, ok := w.guarded(); ok {
			out[id] = append(out[id], g)
		}
	}
	for g, id := range s.known {
		out[id] = append(out[id], *g)
	}
	return out
}
