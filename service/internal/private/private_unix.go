//go:build unix

package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Chmod(path, 0o700) // a umask may have taken bits away
}

// open never follows a link, and does not hang on a pipe.
func open(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
}

// settle gives a file that was just made its mode, whatever the umask.
func settle(f *os.File) error { return f.Chmod(0o600) }

func checkDir(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "check the private directory", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return &Violation{path, "is a symbolic link, not a directory", "move it away"}
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &Violation{path, "is not a directory", "move it away"}
	case int(st.Uid) != os.Geteuid():
		return owned(path, st.Uid)
	case st.Mode&0o7777 != 0o700:
		return mode(path, uint32(st.Mode), 0o700)
	}
	return nil
}

func checkFile(path string, f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "check the private file", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return &Violation{path, "is not a regular file", "move it away"}
	case st.Nlink == 0:
		return errReplaced
	case st.Nlink > 1:
		return &Violation{path, fmt.Sprintf("has %d hard links, so that another name leads to it", st.Nlink),
			"find them with: find / -xdev -samefile " + quote(path)}
	case int(st.Uid) != os.Geteuid():
		return owned(path, st.Uid)
	case st.Mode&0o7777 != 0o600:
		return mode(path, uint32(st.Mode), 0o600)
	}
	return nil
}

func owned(path string, uid uint32) error {
	return &Violation{path, fmt.Sprintf("belongs to user %d, not to you (%d)", uid, os.Geteuid()),
		fmt.Sprintf("run as its owner, or: chown %d -- %s", os.Geteuid(), quote(path))}
}

func mode(path string, is, want uint32) error {
	return &Violation{path, fmt.Sprintf("has the mode %#o instead of %#o", is&0o7777, want),
		fmt.Sprintf("run: chmod %o -- %s", want, quote(path))}
}

// quote makes a path one word of a shell, for a person to paste.
func quote(path string) string {
	q := []byte{'\''}
	for i := range len(path) {
		if path[i] == '\'' {
			q = append(q, `'\''`...)
			continue
		}
		q = append(q, path[i])
	}
	return string(append(q, '\''))
}

// violationOr says what a failed open means when the last part is a link.
func violationOr(path string, err error) error {
	if errors.Is(err, unix.ELOOP) {
		return &Violation{path, "is a symbolic link", "replace it by the file it leads to"}
	}
	return err
}

// SyncDir makes what happened to the names in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("make the directory %s durable: %w", dir, err)
	}
	return nil
}
