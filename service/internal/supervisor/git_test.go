//go:build unix

package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/checkout"
)

// TestChangeOfACheckoutIsWaitedFor: nobody else gets a checkout while files in
// it are still being changed, and what must be whole runs to its end.
func TestChangeOfACheckoutIsWaitedFor(t *testing.T) {
	h := newHouse(t)
	dir := h.checkout("a")
	ctx, cancel := context.WithCancel(within(t))
	returned := make(chan struct{})
	looked := make(chan error, 1)
	var whole error
	go func() {
		defer close(returned)
		out, err := changeWithGit(ctx, h.s, "m-1", func(git checkout.Git) (string, error) {
			if _, err := git(ctx, checkout.GitCommand{Dir: dir, Args: []string{"status"}, Limit: 100}); err != nil {
				t.Error(err)
			}
			cancel()
			select { // time for the fault to show, not for what is right
			case <-returned:
			case <-time.After(3 * followLimit):
			}
			_, cut := git(context.WithoutCancel(ctx), checkout.GitCommand{Dir: dir, Args: []string{"status"}, Limit: 100})
			looked <- cut
			_, whole = git(context.WithoutCancel(ctx), checkout.GitCommand{Dir: dir, Args: []string{"status"}, Limit: 100, Whole: true})
			return "changed", nil
		})
		if out != "changed" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
	}()
	<-returned
	if cut := <-looked; !errors.Is(cut, context.Canceled) {
		t.Errorf("a look after the end: %v", cut)
	}
	if whole != nil {
		t.Errorf("what must be whole: %v", whole)
	}
}

// TestMergeLeftAlone: a merge for which nobody waits any more keeps the checkout
// from everybody until git has ended, and its conflict is undone by then.
func TestMergeLeftAlone(t *testing.T) {
	h := newHouse(t)
	begun, goOn := h.pipe("begun"), h.pipe("go")
	r := h.startInWorktree("a", func(dir string) {
		h.inGit(dir, "update-ref", "refs/reeve", "HEAD") // the start fails after the worktree was made
	})
	r = h.phase(r.ID, mission.StartupFailed)
	repository := r.Worktree.Repository
	for dir, text := range map[string]string{r.Worktree.Path: "the agent's\n", repository: "the person's\n"} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.inGit(dir, "commit", "-q", "-a", "-m", "work")
	}
	h.inGit(repository, "config", "user.name", "Person")
	h.inGit(repository, "config", "user.email", "person@example.org")
	once := filepath.Join(h.dir, "once")
	h.inGit(repository, "config", "filter.x.smudge", "if [ ! -e '"+once+"' ]; then : >'"+once+"'; echo x >'"+begun.Name()+"'; read x <'"+goOn.Name()+"'; fi; cat")
	if err := os.WriteFile(filepath.Join(repository, ".git", "info", "attributes"), []byte("file filter=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	merged := make(chan error, 1)
	go func() {
		_, _, _, err := h.s.Worktree(ctx, r.ID, wire.WorktreeParams{Action: wire.WorktreeMerge}, "test")
		merged <- err
	}()
	if _, err := begun.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-merged; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if release, err := h.s.hold(within(t), r.ID, repository); err == nil {
		release()
		t.Error("the checkout is free while git merges")
	}
	if _, err := goOn.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the checkout is free", func() bool {
		release, err := h.s.hold(within(t), r.ID, repository)
		if err == nil {
			release()
		}
		return err == nil
	})
	if got, err := os.ReadFile(filepath.Join(repository, "file")); string(got) != "the person's\n" || err != nil {
		t.Errorf("not undone: %q, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(repository, ".git", "MERGE_HEAD")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the merge is still under way: %v", err)
	}
}

// pipe makes a pipe with a name that the test holds open at both ends.
func (h *house) pipe(name string) *os.File {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		h.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = f.Close() })
	if err := f.SetDeadline(time.Now().Add(patience)); err != nil {
		h.t.Fatal(err)
	}
	return f
}
