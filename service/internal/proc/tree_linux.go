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
	group string   // directory of the cgroup made for the tree; "" without one
	path  string   // the same as /proc shows it
	work  *os.File // the cgroup that programs are born into

	mu      sync.Mutex // guards what follows, and spans fork and registration
	started map[int]uint64
	closed  bool

	quit chan struct{}
	done chan struct{}
}

// NewTreeWith is NewTree with options.
func NewTreeWith(name string, opt Options) (*Tree, error) {
	if name == "" || name == "." || name == ".." || name != filepath.Base(name) || strings.ContainsAny(name, "\x00\n") {
		return nil, fmt.Errorf("make a process tree: %q cannot be a file name", name)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("make a process tree: become the reaper of descendants: %w", err)
	}
	t := &Tree{started: make(map[int]uint64), quit: make(chan struct{}), done: make(chan struct{})}
	if !opt.NoCgroup {
		t.makeGroup(name)
	}
	go t.reapUntilClosed()
	return t, nil
}

// groupPrefix begins the name of every control group that is made here.
const groupPrefix = "reeve-"

// makeGroup makes the cgroup if it can, and proves that a program can be born
// into it. Without one the tree still works, so failing is no error.
func (t *Tree) makeGroup(name string) {
	dir, path, err := ownGroup()
	if err != nil {
		return
	}
	group := filepath.Join(dir, groupPrefix+name)
	err = os.Mkdir(group, 0o755)
	if errors.Is(err, fs.ErrExist) && removeGroup(group) == nil { // an empty one of a dead predecessor
		err = os.Mkdir(group, 0o755)
	}
	if err != nil {
		return
	}
	work := filepath.Join(group, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		_ = os.Remove(group)
		return
	}
	f, err := os.OpenFile(work, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		// The clone succeeds and the exec finds no file; anything else says
		// that births into the cgroup are refused here.
		attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}}
		_, err = os.StartProcess(filepath.Join(work, "no-such-program"), []string{""}, attr)
		if errors.Is(err, fs.ErrNotExist) {
			t.group, t.work, t.path = group, f, filepath.Join(path, groupPrefix+name)
			return
		}
		_ = f.Close()
	}
	_ = removeGroup(group)
}

// ownGroup finds this process's cgroup v2: its directory and its path as /proc
// shows it.
func ownGroup() (dir, path string, err error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	path = unifiedPath(string(b))
	if path == "" || strings.HasPrefix(path, "/..") {
		return "", "", errors.New("not in a cgroup v2 that is visible here")
	}
	dir, err = groupDir(path)
	return dir, path, err
}

// groupDir finds the directory of a cgroup v2 by its path as /proc shows it.
// The v2 tree may be mounted alone or beside v1 trees.
func groupDir(path string) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		left, right, ok := strings.Cut(line, " - ")
		f := strings.Fields(left)
		if !ok || !strings.HasPrefix(right, "cgroup2 ") || len(f) < 5 {
			continue
		}
		root, at := f[3], f[4]
		if root == "/" {
			root = ""
		}
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(at, rest), nil
		}
	}
	return "", errors.New("no cgroup v2 is mounted")
}

// EndGroup ends every process of a control group that a tree was made with,
// after guard and keeper are gone, and removes the group. group is what
// Tree.Cgroup said; anything else is refused, so that no other group is ever
// touched. It returns who is left when ctx is done first. An empty or missing
// group is no error.
func EndGroup(ctx context.Context, group string) (left []ID, err error) {
	if group == "" {
		return nil, nil
	}
	if !strings.HasPrefix(filepath.Base(group), groupPrefix) || filepath.Clean(group) != group {
		return nil, fmt.Errorf("end the control group %s: it was not made for a tree", group)
	}
	dir, err := groupDir(group)
	if err != nil {
		return nil, nil // nothing can live in a group that is not there
	}
	for {
		pids, err := groupPIDs(dir)
		if err != nil {
			return nil, fmt.Errorf("end the control group %s: %w", group, err)
		}
		left = nil
		for _, pid := range pids {
			if info, err := look(pid); err == nil && !info.zombie {
				left = append(left, info.ID)
			}
		}
		if len(left) == 0 {
			if err := removeGroup(dir); err == nil {
				return nil, nil
			}
		} else if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) != nil {
			for _, id := range left {
				_ = id.Signal(os.Kill)
			}
		}
		if ctx.Err() != nil {
			return left, nil
		}
		waitAny(ctx, left, 50*time.Millisecond)
	}
}

// removeGroup removes a cgroup and the empty ones inside it. Cgroup
// directories hold files that cannot be removed and need not be.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(dir)
}

// Method says how members are held together: "cgroup" or "subreaper" here,
// "job" on Windows, "walk" on macOS.
func (t *Tree) Method() string {
	if t.group != "" {
		return "cgroup"
	}
	return "subreaper"
}

// Cgroup is the control group of the members as /proc shows it, or on Windows
// the name of their job; "" without one. It fits Guarded.Cgroups.
func (t *Tree) Cgroup() string { return t.path }

// Start starts cmd as a member, in a session of its own, and returns its
// identity. The caller waits for cmd, as after cmd.Start.
func (t *Tree) Start(cmd *exec.Cmd) (ID, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if t.work != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(t.work.Fd())
	}
	return t.start(cmd)
}

// Members lists the live members, sorted by pid: what is in the cgroup, and
// what descends from this process even if it left the cgroup. Zombies do not
// count; this process neither.
func (t *Tree) Members() ([]ID, error) {
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

// groupPIDs lists the processes of a cgroup and of those that were made in it.
func groupPIDs(dir string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(filepath.Join(p, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil // removed meanwhile, or a group of threads
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return err
	})
	return pids, err
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
	return err != nil || !strings.Contains(string(b), "populated 1")
}

// killAll ends the cgroup in one step, forks under way included. Kernels
// before 5.14 do not have the file. Otherwise it goes for the own children
// many times: a look at all of /proc is too slow for processes that only start
// a successor and end.
func (t *Tree) killAll() {
	if t.group != "" && os.WriteFile(filepath.Join(t.group, "cgroup.kill"), []byte("1"), 0) == nil {
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
	_ = t.work.Close()
	if err := removeGroup(t.group); err != nil {
		return fmt.Errorf("remove the control group %s (stop its members first): %w", t.group, err)
	}
	return nil
}
