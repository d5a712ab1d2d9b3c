package checkout

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// takeBack brings the files back to head that a merge of tip may have touched
// before it was cut off, and no other: a person may work on those meanwhile. All
// of them were as in head before, or not there at all (see inTheWay), but for
// those that git was told not to look at, which stay.
func (a at) takeBack(ctx context.Context, head, tip string) error {
	added, err := a.added(ctx, tip, head)
	if err != nil {
		return err
	}
	had, err := a.touched(ctx, head, tip)
	if err != nil {
		return err
	}
	tags, err := a.list(ctx, "ls-files", "-v", "-z")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, t := range tags {
		if path, ok := strings.CutPrefix(t, "H "); ok {
			seen[path] = true
		}
	}
	had = slices.DeleteFunc(had, func(p string) bool { return !seen[p] })
	if err := removeFiles(a.dir, added); err != nil {
		return err
	}
	if len(had) > 0 {
		_, err = a.call(ctx, nul(had), "restore", "--source="+head, "--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul")
	}
	return err
}

// touched lists what a merge of tip into head may change: what tip changed since
// the two parted, also where head has moved that to.
func (a at) touched(ctx context.Context, head, tip string) ([]string, error) {
	paths, err := a.list(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", head+"..."+tip)
	if err != nil {
		return nil, err
	}
	moved, err := a.list(ctx, "diff", "--name-status", "-z", "--find-renames", "-l7000", "--no-ext-diff", "--diff-filter=R", tip+"..."+head)
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for _, p := range paths {
		changed[p] = true
	}
	for m := range slices.Chunk(moved, 3) { // how alike they are, from, to
		if len(m) == 3 && changed[m[1]] {
			paths = append(paths, m[2])
		}
	}
	return paths, nil
}

// removeFiles removes files and links below dir, and the folders that are empty
// then. What is a folder by now stays.
func removeFiles(dir string, paths []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, p := range paths {
		info, err := entry(dir, p)
		if err != nil || info.IsDir() {
			continue
		}
		if err := root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for up := path.Dir(p); up != "." && root.Remove(up) == nil; {
			up = path.Dir(up)
		}
	}
	return nil
}
