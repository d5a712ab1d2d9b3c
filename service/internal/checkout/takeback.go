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

// takeBack brings the files back to head that a merge may have touched before it
// was cut off (see touched), and no other: a person may work on those meanwhile.
// All of them were as in head before, or not there at all (see inTheWay).
func (a at) takeBack(ctx context.Context, head string, new, had []string) error {
	if err := removeFiles(a.dir, new); err != nil || len(had) == 0 {
		return err
	}
	_, err := a.call(ctx, nul(had), restore(head)...)
	return err
}

// restore is how git brings back the files that its input names.
func restore(source string) []string {
	return []string{"restore", "--source=" + source, "--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul"}
}

// touched lists what head tracks and a merge of tip may change: what tip changed
// since the two parted, also where head has moved that to. What git was told not
// to look at is not among it.
func (a at) touched(ctx context.Context, head, tip string) ([]string, error) {
	paths, err := a.list(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", head+"..."+tip)
	if err != nil {
		return nil, err
	}
	moved, err := a.list(ctx, "diff", "--name-status", "-z", "--find-renames", "-l7000", "--no-ext-diff", "--diff-filter=R", tip+"..."+head)
	if err != nil {
		return nil, err
	}
	tags, err := a.list(ctx, "ls-files", "-v", "-z")
	if err != nil {
		return nil, err
	}
	changed, seen := map[string]bool{}, map[string]bool{}
	for _, p := range paths {
		changed[p] = true
	}
	for m := range slices.Chunk(moved, 3) { // how alike they are, from, to
		if len(m) == 3 && changed[m[1]] {
			paths = append(paths, m[2])
		}
	}
	for _, t := range tags {
		if path, ok := strings.CutPrefix(t, "H "); ok {
			seen[path] = true
		}
	}
	return slices.DeleteFunc(paths, func(p string) bool { return !seen[p] }), nil
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
