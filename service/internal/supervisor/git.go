package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/proc"
)

// gitAtOnce is how many guards run git commands at once for all missions. A
// start after a crash may have many checkouts to look at.
const gitAtOnce = 4

// withGit hands fn a git that runs in a short-lived guard: what a repository
// makes git run is judged like what the mission's agent runs. The guard comes up
// while fn does what needs none; it and everything that came of it are gone when
// withGit returns.
func (s *Supervisor) withGit(ctx context.Context, mission string, fn func(checkout.Git) error) error {
	select {
	case s.gits <- struct{}{}:
		defer func() { <-s.gits }()
	case <-ctx.Done():
		return ctx.Err()
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
	go func() { up <- open(ctx) }()
	defer func() {
		if last := <-up; last.g != nil {
			last.g.Close()
		}
	}()
	return fn(func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		now := <-up
		defer func() { up <- now }()
		if now.g == nil && now.err == nil { // the last command ended it
			now = open(ctx)
		}
		if now.err != nil {
			return nil, now.err
		}
		run := guard.GitRun{Dir: c.Dir, Config: c.Config, Args: c.Args, Env: c.Env, Stdin: c.Stdin, MaxOutput: int64(c.Limit), Limit: c.Within, Whole: c.Whole}
		out, err := now.g.Run(ctx, run)
		var failed *guard.GitError
		switch {
		case err == nil:
			return out, nil
		case !errors.As(err, &failed) || failed.TimedOut:
			now.g.Close()
			now.g = nil
			return out, err
		case failed.TooMuch && c.Limit > 0:
			return out, nil // no more was wanted
		}
		return out, gitFailure{failed}
	})
}

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
