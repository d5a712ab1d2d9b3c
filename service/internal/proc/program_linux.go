package proc

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

func programOf(pid int) (os.FileInfo, error) {
	info, err := os.Stat(procPath(pid, "exe"))
	return info, goneOr(err)
}

// locksShown says whether this kernel shows who has locked a file: some that
// only look like Linux do not.
var locksShown = sync.OnceValue(func() bool {
	fd, err := unix.MemfdCreate("reeve", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "reeve")
	defer f.Close()
	return unix.Flock(fd, unix.LOCK_EX) == nil && locksBy(os.Getpid(), strconv.Itoa(fd))
})

// HasLocked says whether the process itself took the exclusive flock on the open
// file f; one that merely inherited a locked descriptor did not. known is false
// where the system can't tell.
func HasLocked(pid int, f *os.File) (has, known bool, err error) {
	if !locksShown() {
		return false, false, nil
	}
	want, err := f.Stat()
	if err != nil {
		return false, true, err
	}
	dir := procPath(pid, "fd")
	open, err := os.ReadDir(dir)
	if err != nil {
		return false, true, goneOr(err)
	}
	for _, e := range open {
		got, err := os.Stat(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EACCES) {
			continue // closed meanwhile, or no file
		}
		if err == nil && os.SameFile(got, want) && locksBy(pid, e.Name()) {
			return true, true, nil
		}
	}
	// A file system in user space that keeps the locks itself leaves none here.
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &on); err != nil {
		return false, true, err
	}
	return false, int64(on.Type) != unix.FUSE_SUPER_MAGIC, nil
}

// locksBy says whether a descriptor of the process has a lock on it that shuts
// everybody else out, and that this process took.
func locksBy(pid int, fd string) bool {
	b, err := os.ReadFile(procPath(pid, filepath.Join("fdinfo", fd)))
	if err != nil {
		return false
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		f := strings.Fields(s.Text()) // lock: 1: FLOCK ADVISORY WRITE <pid> <file> 0 EOF
		if len(f) > 5 && f[0] == "lock:" && f[2] == "FLOCK" && f[4] == "WRITE" && f[5] == strconv.Itoa(pid) {
			return true
		}
	}
	return false
}
