package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is everything that one process started, however far it went: children
// in sessions of their own and orphans included. On Linux the process becomes
// the reaper of its descendants, and where a cgroup can be made the programs
// are born into it, so that one write ends them all.
type Tree struct {
	method string
	group  string        // directory of the cgroup that members live in; "" without one
	path   string        // the cgroup to know the tree by, as /proc shows it
	births *os.File      // the group, if programs are born into it
	before time.Duration // processor time of children that ended before the tree was made

	mu      sync.Mutex // guards what follows, and spans fork and registration
	started map[int]uint64
	closed  bool
	most    Usage // what must not go back

	quit chan struct{}
	done chan struct{}
}

// NewTreeWith is NewTree with options.
func NewTreeWith(name string, opt Options) (*Tree, error) {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, ".\x00\n") {
		return nil, fmt.Errorf("make a process tree: %q cannot be a file name", name)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("make a process tree: become the reaper of descendants: %w", err)
	}
	t := &Tree{
		method: "subreaper", before: endedChildren(),
		started: make(map[int]uint64), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if opt.Scope {
		_ = enterScope(name) // else the next best way
	}
	switch {
	case opt.keeper:
		// The guard makes the group. Should it be killed, its keeper knows
		// where what it started lives.
		t.group, t.path, _, _ = place(name)
	case !opt.NoCgroup:
		t.makeGroup(name)
	}
	go t.reapUntilClosed()
	return t, nil
}

// Method says how members are held together: "scope" (a control group in a
// systemd scope of its own), "cgroup" (one made by hand) or "subreaper" here,
// "job" on Windows, "walk" on macOS.
func (t *Tree) Method() string { return t.method }

// Cgroup is the control group that the members live in or below, as /proc
// shows it, or on Windows the name of their job; "" without one. By the scope
// way this process and its keeper are in it as well. It fits Guarded.Cgroups
// and EndGroup.
func (t *Tree) Cgroup() string { return t.path }

// Start starts cmd as a member, in a session of its own, and returns its
// identity. The caller waits for cmd, as after cmd.Start.
func (t *Tree) Start(cmd *exec.Cmd) (ID, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if t.births != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(t.births.Fd())
	}
	return t.start(cmd)
}

// Members lists the live members, sorted by pid: what is in the cgroup, and
// what descends from this process even if it left the cgroup. Zombies do not
// count; this process neither.
func (t *Tree) Members() ([]ID, error) {
	if t.empty() {
		return nil, nil // and no look at all of /proc, which takes a while
	}
	all, err := everyone()
	if err != nil {
		return nil, fmt.Errorf("list the members of the tree: %w", err)
	}
	var ids []ID
	for _, p := range below(os.Getpid(), all) {
		ids = append(ids, p.ID)
	}
	if t.group != "" {
		pids, err := groupPIDs(t.group)
		if err != nil {
			return nil, fmt.Errorf("list the members of the tree: %w", err)
		}
		for _, pid := range pids {
			if info, err := look(pid); err == nil && !info.zombie && pid != os.Getpid() {
				ids = append(ids, info.ID)
			}
		}
	}
	return sortIDs(ids), nil
}

// empty proves that no member is left. Everything that lives below a reaper
// has a living ancestor among the reaper's own children, since orphans are
// handed over in the same step in which their parent ends. And a wait that
// asks only for stopped children fails with ECHILD exactly when none lives.
func (t *Tree) empty() bool {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != unix.ECHILD {
			return false
		}
		break
	}
	if t.group == "" {
		return true
	}
	b, err := os.ReadFile(filepath.Join(t.group, "cgroup.events"))
	// A group that is gone was empty; one that can't be read proves nothing.
	return errors.Is(err, fs.ErrNotExist) || err == nil && !strings.Contains(string(b), "populated 1")
}

// killAll ends the cgroup in one step, forks under way included. Kernels
// before 5.14 do not have the file. Otherwise it goes for the own children
// many times: a look at all of /proc is too slow for processes that only start
// a successor and end.
func (t *Tree) killAll() {
	if t.killGroup() {
		return
	}
	for range 100 {
		if t.empty() {
			return
		}
		for _, pid := range ownChildren() {
			if info, err := look(pid); err == nil && info.PPID == os.Getpid() && !info.zombie {
				_ = info.ID.Signal(os.Kill)
			}
		}
	}
}

// killGroup ends what is in the cgroup, if there is one that can.
func (t *Tree) killGroup() bool {
	return t.group != "" && control(t.group, "cgroup.kill", "1") == nil
}

// ownChildren lists the children of this process, zombies included. A child
// can be missing when another one ends meanwhile.
func ownChildren() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range files {
		b, _ := os.ReadFile(name)
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if len(files) > 0 {
		return pids
	}
	all, _ := everyone() // a kernel built without these files
	for _, p := range all {
		if p.PPID == os.Getpid() {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// waitAny returns when one of ids ends, when d has passed, or with ctx.
func waitAny(ctx context.Context, ids []ID, d time.Duration) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(pipe[1], []byte{0})
	})
	fds := []unix.PollFd{{Fd: int32(pipe[0]), Events: unix.POLLIN}}
	for _, id := range ids[:min(len(ids), 256)] {
		if fd, err := handle(id); err == nil {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		} else if errors.Is(err, ErrGone) {
			d = 0
		}
	}
	_, _ = unix.Poll(fds, int(d/time.Millisecond))
	if !stop() {
		<-woken
	}
	_ = unix.Close(pipe[1])
	for _, f := range fds {
		_ = unix.Close(int(f.Fd))
	}
}

// reapUntilClosed collects the exit statuses of orphans as they end. It never
// takes one of a program that Start started: that belongs to cmd.Wait.
func (t *Tree) reapUntilClosed() {
	defer close(t.done)
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGCHLD)
	defer signal.Stop(sig)
	for {
		t.reap()
		select {
		case <-sig:
		case <-t.quit:
			t.reap()
			return
		}
	}
}

func (t *Tree) reap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, start := range t.started {
		info, err := look(pid)
		if errors.Is(err, ErrGone) || err == nil && info.Start != start {
			delete(t.started, pid) // waited for; its pid may come back as an orphan's
		}
	}
	for _, pid := range ownChildren() {
		info, err := look(pid)
		if err != nil || !info.zombie || info.PPID != os.Getpid() {
			continue
		}
		if _, ours := t.started[pid]; !ours {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// Close ends the tree's own work and removes its cgroup. It does not stop
// members: stop them first. An error says that the cgroup still has some.
func (t *Tree) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.mu.Unlock()
	close(t.quit)
	<-t.done
	if t.group == "" {
		return nil
	}
	if t.births != nil {
		_ = t.births.Close()
	}
	if err := removeGroup(t.group); err != nil {
		return fmt.Errorf("remove the control group %s (stop its members first): %w", t.group, err)
	}
	return nil
}
