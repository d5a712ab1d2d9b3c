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
	var g *guard.Git
	var unopened error
	up := make(chan struct{})
	go func() {
		defer close(up)
		g, unopened = guard.OpenGit(ctx, s.Exe, s.GuardEnv, func(tree proc.Guarded) func() { return s.know(mission, tree) })
	}()
	defer func() {
		if <-up; unopened == nil {
			g.Close()
		}
	}()
	return fn(func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		if <-up; unopened != nil {
			return nil, fmt.Errorf("start a guard for git: %w", unopened)
		}
		run := guard.GitRun{Dir: c.Dir, Config: c.Config, Args: c.Args, Env: c.Env, Stdin: c.Stdin, MaxOutput: int64(c.Limit)}
		out, err := g.Run(ctx, run)
		var failed *guard.GitError
		switch {
		case !errors.As(err, &failed) || failed.TimedOut:
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
