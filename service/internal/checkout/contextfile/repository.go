package contextfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// repository is where git keeps what belongs to a checkout.
type repository struct {
	own    string // the checkout's git directory
	common string // what it shares with the repository's other worktrees
}

// find finds the git directories of the checkout at folder as git does.
func find(folder string) (repository, error) {
	own := filepath.Join(folder, ".git")
	info, err := os.Stat(own)
	if err != nil {
		return repository{}, fmt.Errorf("%s is no git checkout: %w", folder, err)
	}
	if !info.IsDir() {
		to, ok, err := pointer(own, "gitdir: ")
		if err != nil || !ok {
			return repository{}, errors.Join(err, fmt.Errorf("%s is no file of git", own))
		}
		own = to
	}
	common, ok, err := pointer(filepath.Join(own, "commondir"), "")
	if err != nil {
		return repository{}, err
	}
	if !ok {
		common = own
	}
	return repository{own: own, common: common}, nil
}

// pointer reads a file whose only line leads to a directory, and says whether it
// is there. A relative one starts at the file's own directory.
func pointer(file, prefix string) (dir string, ok bool, err error) {
	raw, err := read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	dir, ok = strings.CutPrefix(strings.TrimRight(string(raw), "\r\n"), prefix)
	if !ok || dir == "" {
		return "", false, nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(file), dir)
	}
	return dir, true, nil
}

// read reads a small regular file without following a link.
func read(path string) ([]byte, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() || named.Size() > maxSize {
		return nil, fmt.Errorf("%s is no small file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !os.SameFile(info, named) {
		return nil, errors.Join(err, fmt.Errorf("%s was replaced just now", path))
	}
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

const (
	maxExclude = 1 << 20 // bytes of an info/exclude
	lockFor    = 2 * time.Second
)

// exclude adds the names to info/exclude that are not there, at the root of each
// worktree. Nothing that stands there is changed.
func (g repository) exclude(names []string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("add the files of a bridge to info/exclude: %w", err)
		}
	}()
	root, err := os.OpenRoot(g.common)
	if err != nil {
		return err
	}
	defer root.Close()
	switch info, err := root.Lstat("info"); {
	case errors.Is(err, fs.ErrNotExist):
		if err := root.Mkdir("info", 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("git's info is no directory; make it one")
	}
	const file = "info/exclude"
	if info, err := root.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return errors.New("info/exclude is no regular file; replace it by one")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// It was no link when it was looked at; it is not to be one now.
	if named, err := root.Lstat(file); err != nil {
		return err
	} else if info, err := f.Stat(); err != nil || !os.SameFile(named, info) {
		return errors.Join(err, errors.New("info/exclude was replaced just now"))
	}
	if err := lock(f); err != nil {
		return err
	}
	defer unlock(f)
	old, err := io.ReadAll(io.LimitReader(f, maxExclude+1))
	if err != nil {
		return err
	}
	if len(old) > maxExclude {
		return fmt.Errorf("info/exclude has more than %d bytes; shorten it", maxExclude)
	}
	there := map[string]bool{}
	for line := range bytes.Lines(old) {
		there[strings.TrimRight(string(line), "\r\n")] = true
	}
	var more bytes.Buffer
	if len(old) > 0 && old[len(old)-1] != '\n' {
		more.WriteByte('\n')
	}
	before := more.Len()
	for _, name := range names {
		if line := "/" + name; !there[line] {
			more.WriteString(line + "\n")
		}
	}
	if more.Len() == before {
		return nil
	}
	_, err = f.Write(more.Bytes()) // at once, at the end: whoever reads sees whole lines
	return err
}

// lock waits a moment for another writer of the same file.
func lock(f *os.File) error {
	for end := time.Now().Add(lockFor); ; time.Sleep(10 * time.Millisecond) {
		locked, err := tryLock(f)
		switch {
		case err != nil:
			return fmt.Errorf("lock it: %w", err)
		case locked:
			return nil
		case time.Now().After(end):
			return errors.New("another program keeps it locked; try again later")
		}
	}
}
