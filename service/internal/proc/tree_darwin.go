package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is everything that one process started. macOS hands orphans to launchd
// and has no other bracket around processes, so the tree remembers each member
// from every look at the process table: what was seen once stays a member, and
// its children too, even after its parent has ended. A process that loses its
// parent between two looks can slip out.
type Tree struct {
	mu      sync.Mutex // guards what follows
	started map[int]uint64
	known   map[ID]bool
	spent   map[ID]time.Duration // processor time of each member, as last seen
	peak    int64
	closed  bool
}

// NewTreeWith is NewTree with options.
func NewTreeWith(name string, _ Options) (*Tree, error) {
	if name == "" {
		return nil, fmt.Errorf("make a process tree: it needs a name")
	}
	return &Tree{started: make(map[int]uint64), known: make(map[ID]bool), spent: make(map[ID]time.Duration)}, nil
}

// Method says how members are held together: "walk" here.
func (t *Tree) Method() string { return "walk" }

// Cgroup is empty: macOS has no control groups.
func (t *Tree) Cgroup() string { return "" }

// Start starts cmd as a member, in a session of its own, and returns its
// identity. The caller waits for cmd, as after cmd.Start.
func (t *Tree) Start(cmd *exec.Cmd) (ID, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	id, err := t.start(cmd)
	if err == nil {
		t.mu.Lock()
		t.known[id] = true
		t.mu.Unlock()
	}
	return id, err
}

// Members lists the live members, sorted by pid; this process is none.
func (t *Tree) Members() ([]ID, error) {
	all, err := everyone()
	if err != nil {
		return nil, fmt.Errorf("list the members of the tree: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	live := make(map[ID]bool)
	roots := []int{os.Getpid()}
	for _, p := range all {
		if t.known[p.ID] {
			roots = append(roots, p.PID)
			if !p.zombie {
				live[p.ID] = true
			}
		}
	}
	for _, root := range roots {
		for _, p := range below(root, all) {
			live[p.ID] = true
		}
	}
	t.known = live
	ids := make([]ID, 0, len(live))
	for id := range live {
		ids = append(ids, id)
	}
	return sortIDs(ids), nil
}

// empty adds nothing to a look that found no members.
func (t *Tree) empty() bool { return true }

func (t *Tree) killAll() {}

func (t *Tree) killGroup() bool { return false }

func waitAny(ctx context.Context, ids []ID, d time.Duration) {
	limit := unix.NsecToTimespec(int64(d))
	_ = waitForExit(ctx, ids, &limit)
}

// Close ends the tree's own work. It does not stop members: stop them first.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return nil
}

// EndGroup does nothing here: there are no control groups. On Windows the
// kernel ends a job's members with its last handle.
func EndGroup(context.Context, string) ([]ID, error) { return nil, nil }
