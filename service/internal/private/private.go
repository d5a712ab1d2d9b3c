// Package private keeps files that belong to one user alone: directories 0700,
// files 0600, regular, with one link, never reached through a link, replaced
// whole. What was opened is checked, not the name it was opened by.
//
// On Windows a protected access list for the user alone takes the place of the
// mode, and links are reparse points.
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Violation says that a path is not private, and how to mend it. Nothing is
// mended silently: a wrong mode may be an attack or a slip, which only the
// person can tell.
type Violation struct {
	Path string
	What string // what is wrong, such as "can be read by others (mode 0644)"
	Mend string // what to do, usually a command
}

// Error is one sentence with the mend.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s %s; %s", v.Path, v.What, v.Mend)
}

// errReplaced says that a file was replaced between opening and checking it.
var errReplaced = errors.New("replaced while it was opened")

// tries is how often a file that is being replaced is opened by name.
const tries = 3

// EnsureDir makes the directory path for the user alone, whatever the umask,
// with missing parents, all durably, or proves that the one that exists is
// private. It fails with a *Violation when it is not.
func EnsureDir(path string) error {
	if err := makeDir(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the private directory %s: %w", path, err)
	}
	return CheckDir(path)
}

// makeDir makes a directory that survives a loss of power, and with it all that
// is made durable in it later.
func makeDir(path string) error {
	err := mkdir(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		err = mkdir(path)
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// CheckDir returns nil if path is a private directory, a *Violation if it is
// not, and another error if that could not be told.
func CheckDir(path string) error { return checkDir(path) }

// Check returns nil if path is a private file, a *Violation if it is not, and
// another error (such as fs.ErrNotExist) if that could not be told.
func Check(path string) error {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	return f.Close()
}

// ReadFile reads a private file of at most max bytes, opened as by Open.
func ReadFile(path string, max int64) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("read %s: it has more than the %d bytes that are allowed", path, max)
	}
	return b, nil
}

// Create makes a new private file for reading and writing. It fails with
// fs.ErrExist when there is one.
func Create(path string) (*os.File, error) {
	f, err := open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("create the private file %s: %w", path, err)
	}
	if err := settle(f); err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, fmt.Errorf("create the private file %s: %w", path, err)
	}
	return f, nil
}

// OpenAppend opens a private file for appending and reading, and makes it if
// it is missing.
func OpenAppend(path string) (*os.File, error) {
	for range tries {
		f, err := Open(path, os.O_RDWR|os.O_APPEND)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		f, err = open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrExist) {
			continue // another one made it first
		}
		if err != nil {
			return nil, fmt.Errorf("create the private file %s: %w", path, err)
		}
		if err := settle(f); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("create the private file %s: %w", path, err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("open %s: %w", path, errReplaced)
}

// WriteFile replaces the private file path by one with this content, durably:
// after a loss of power there is the old file or the new one, whole. The
// directory must exist.
func WriteFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the private file %s: %w", path, err)
		}
	}()
	f, err := os.CreateTemp(dir, "."+shorten(filepath.Base(path))+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := settle(f); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// shorten leaves room in a long name for the rest of a temporary one.
func shorten(base string) string {
	const most = 100
	if len(base) > most {
		return base[:most]
	}
	return base
}

// Open opens a private file that is there, with a flag of os.OpenFile. A file
// that someone replaces meanwhile is opened again by name, three times at most.
// It fails with a *Violation when what was opened is not private.
func Open(path string, flag int) (*os.File, error) {
	for range tries {
		f, err := open(path, flag)
		if err != nil {
			return nil, violationOr(path, err)
		}
		err = checkFile(path, f)
		if err == nil {
			return f, nil
		}
		_ = f.Close()
		if !errors.Is(err, errReplaced) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("open %s: %w, %d times", path, errReplaced, tries)
}
