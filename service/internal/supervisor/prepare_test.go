//go:build unix

package supervisor

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/checkout"
)

// inGit runs git in a checkout of the house.
func (h *house) inGit(dir string, args ...string) {
	h.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// startInWorktree starts a mission in a worktree of its own, made from a
// repository that make has changed.
func (h *house) startInWorktree(name string, make func(dir string)) Record {
	h.t.Helper()
	dir := h.checkout(name)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("1\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.inGit(dir, "add", "-A")
	h.inGit(dir, "commit", "-q", "-m", "first")
	make(dir)
	tree, err := checkout.Inspect(within(h.t), dir, h.state())
	if err != nil {
		h.t.Fatal(err)
	}
	agent, err := demoProvider()
	if err != nil {
		h.t.Fatal(err)
	}
	found := agent.Probe(context.Background(), nil)
	r, ask, err := h.s.Propose(within(h.t), Proposal{
		Terms: mission.Terms{Provider: agent.Name(), Folder: tree.Path, Scope: "demo:command true", Minutes: 15, Worktree: true}.Normalize(),
		Tree:  tree, Program: Program{Path: found.Path, Args: found.Args, Version: found.Version},
		Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": h.dir},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// toldBy waits for a line from a pipe.
func (h *house) toldBy(pipe string) {
	h.t.Helper()
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // for reading alone this would wait for a writer
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(patience))
	if _, err := bufio.NewReader(f).ReadString('\n'); err != nil {
		h.t.Fatalf("nobody wrote to %s: %v", filepath.Base(pipe), err)
	}
}

// TestFailedStartKeepsItsWorktree: a start that fails after its worktree was
// made leaves it to the mission, where it can be removed.
func TestFailedStartKeepsItsWorktree(t *testing.T) {
	h := newHouse(t)
	r := h.startInWorktree("a", func(dir string) {
		h.inGit(dir, "update-ref", "refs/reeve", "HEAD") // no reference of a base has room below it
	})
	r = h.phase(r.ID, mission.StartupFailed)
	if r.Worktree == nil || !r.Worktree.Made || !strings.Contains(r.Failure.Message, "could not be recorded") {
		t.Fatalf("%+v, failure %+v", r.Worktree, r.Failure)
	}
	if _, _, _, err := h.s.Worktree(within(t), r.ID, wire.WorktreeParams{Action: wire.WorktreeRemove}, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(r.Worktree.Path); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestStopWhileTheCheckoutIsPrepared: however long git takes for it, a stop
// ends it.
func TestStopWhileTheCheckoutIsPrepared(t *testing.T) {
	h := newHouse(t)
	begun, never := filepath.Join(h.dir, "begun"), filepath.Join(h.dir, "never")
	for _, p := range []string{begun, never} {
		if err := syscall.Mkfifo(p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := h.startInWorktree("a", func(dir string) {
		h.inGit(dir, "config", "filter.x.smudge", "echo x >'"+begun+"'; read x <'"+never+"'; cat")
		if err := os.WriteFile(filepath.Join(dir, ".git", "info", "attributes"), []byte("file filter=x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	h.toldBy(begun)
	r, err := h.s.Stop(within(t), r.ID)
	if err != nil || r.Phase != mission.Stopped {
		t.Errorf("%s, %v", r.Phase, err)
	}
	if owner := h.owned(r.Folder()); owner != "" {
		t.Errorf("the worktree belongs to %s", owner)
	}
}
