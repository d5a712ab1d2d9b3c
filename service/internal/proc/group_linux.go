package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupPrefix begins the name of every control group that is made here.
const groupPrefix = "reeve-"

// place finds where the control group of the tree called name belongs: inside
// the scope of that name, if this process lives there, else below its own
// group. path, as /proc shows it, is what stays for the whole life of a guard.
func place(name string) (group, path, method string, err error) {
	dir, own, err := ownGroup()
	if err != nil {
		return "", "", "", err
	}
	if scope := filepath.Dir(own); filepath.Base(own) == ctlGroup && filepath.Base(scope) == groupPrefix+name+scopeSuffix {
		return filepath.Join(filepath.Dir(dir), workGroup), scope, "scope", nil
	}
	return filepath.Join(dir, groupPrefix+name), filepath.Join(own, groupPrefix+name), "cgroup", nil
}

// makeGroup makes the cgroup if it can, and proves that a program can be born
// into it. Without one the tree still works, so failing is no error.
func (t *Tree) makeGroup(name string) {
	group, path, method, err := place(name)
	if err != nil {
		return
	}
	err = os.Mkdir(group, 0o755)
	if errors.Is(err, fs.ErrExist) && removeGroup(group) == nil { // an empty one of a dead predecessor
		err = os.Mkdir(group, 0o755)
	}
	if err != nil {
		return
	}
	f, err := os.OpenFile(group, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		// The clone succeeds and the exec finds no file; anything else says
		// that births into the cgroup are refused here.
		attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}}
		_, err = os.StartProcess(filepath.Join(group, "no-such-program"), []string{""}, attr)
		if errors.Is(err, fs.ErrNotExist) {
			t.group, t.path, t.method, t.births = group, path, method, f
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

// mountInfo is changed by tests.
var mountInfo = "/proc/self/mountinfo"

var errNoGroups = errors.New("no cgroup v2 is mounted")

// groupDir finds the directory of a cgroup v2 by its path as /proc shows it.
// The v2 tree may be mounted alone or beside v1 trees.
func groupDir(path string) (string, error) {
	mounts, err := os.ReadFile(mountInfo)
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
	return "", errNoGroups
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
	if !madeHere(group) {
		return nil, fmt.Errorf("end the control group %s: it was not made for a tree", group)
	}
	if _, own, err := ownGroup(); err == nil && within(own, group) {
		return nil, fmt.Errorf("end the control group %s: this process lives in it", group)
	}
	dir, err := groupDir(group)
	if errors.Is(err, errNoGroups) {
		return nil, nil // nothing can live in a group that is not there
	}
	if err != nil {
		return nil, fmt.Errorf("end the control group %s: %w", group, err)
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
		} else if control(dir, "cgroup.kill", "1") != nil {
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

// madeHere says whether a control group has a name that only trees give, or
// that of a scope.
func madeHere(group string) bool {
	name, ok := strings.CutPrefix(filepath.Base(group), groupPrefix)
	name = strings.TrimSuffix(name, scopeSuffix)
	return ok && name != "" && !strings.Contains(name, ".") && filepath.IsAbs(group) && filepath.Clean(group) == group
}

// control writes to a file of a control group. It is fs.ErrNotExist when this
// group, or this kernel, has none of that name.
func control(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
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
