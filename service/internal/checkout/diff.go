package checkout

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of what Diff returns.
const (
	MaxFiles = 2000    // files
	MaxPatch = 8 << 20 // bytes of patch
)

// Changes are what differs between a base and the work tree now.
type Changes struct {
	Files    []File // at most MaxFiles, by path
	Count    int    // of all files, those beyond the limit too
	More     bool   // there are files beyond the limit
	Patch    []byte // unified, at most MaxPatch, whole lines
	CutPatch bool   // the patch is longer
	Unread   string // what git could not read, in its own words, or ""
}

// File is one changed file. Paths are slash-separated and relative to the
// checkout, byte for byte as git knows them.
type File struct {
	Path string
	From string // the earlier path of a renamed file
	// Status is added, modified, deleted, renamed or typechange, or restored:
	// the same as the base again, but different in the lost snapshot.
	Status         string
	Added, Removed int // lines; 0 for a binary file
	Binary         bool
	Mode           string // as "100644 100755" where both are there and differ
	SinceLost      bool   // it differs between the lost snapshot and now
}

// Diff compares the work tree at path, untracked files included, with base, a
// tree or commit. lost is the tree of the snapshot that was taken when contact
// was lost, or "". With only, the patch is of that one path, and Files still
// are all.
//
// An index that the agent marked with assume-unchanged or skip-worktree hides
// nothing, and neither does a file that is ignored now but was not in the base.
// A file that was ignored when the base was taken and is not now shows as added.
// What changed inside a submodule shows only as its new commit.
func Diff(ctx context.Context, run Git, path, base, lost, only string) (Changes, error) {
	if !isHex(base) || lost != "" && !isHex(lost) {
		return Changes{}, fmt.Errorf("compare %s: %q and %q are no trees", path, base, lost)
	}
	x, err := stage(ctx, run, path)
	if err != nil {
		return Changes{}, err
	}
	defer x.close()
	files, err := x.files(ctx, base)
	if err != nil {
		return Changes{}, err
	}
	var gone []string
	for _, f := range files {
		switch f.Status {
		case "deleted":
			gone = append(gone, f.Path)
		case "renamed":
			gone = append(gone, f.From)
		}
	}
	if again, err := x.keep(ctx, gone); err != nil {
		return Changes{}, err
	} else if again {
		if files, err = x.files(ctx, base); err != nil {
			return Changes{}, err
		}
	}
	if lost != "" {
		if files, err = x.sinceLost(ctx, files, lost); err != nil {
			return Changes{}, err
		}
	}
	c := Changes{Files: files, Count: len(files), Unread: x.unread}
	if c.Patch, c.CutPatch, err = x.patch(ctx, base, files, only); err != nil {
		return Changes{}, err
	}
	if len(files) > MaxFiles {
		c.Files, c.More = slices.Clone(files[:MaxFiles]), true
	}
	return c, nil
}

// diffIndex compares base with the index. Renames beyond a thousand candidates
// are not looked for, which would take quadratic time.
func diffIndex(base string, more ...string) []string {
	return append([]string{"diff-index", "--cached", "-M", "-l1000", "--ignore-submodules=none", "--submodule=short",
		"--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", base}, more...)
}

// files lists what differs from base, by path.
func (x *index) files(ctx context.Context, base string) ([]File, error) {
	out, err := x.list(ctx, diffIndex(base, "--raw", "--numstat", "-z")...)
	if exit(err) == 128 && strings.Contains(said(err), "bad object") {
		return nil, refuse("diff base", fmt.Sprintf("What the files in %s were compared with is no longer in its repository.", x.dir), "Compare with a commit by hand: git diff HEAD.")
	} else if err != nil {
		return nil, err
	}
	files, err := parse(out)
	if err != nil {
		return nil, fmt.Errorf("git diff-index in %s: %w", x.dir, err)
	}
	return files, nil
}

var statuses = map[byte]string{'A': "added", 'M': "modified", 'D': "deleted", 'R': "renamed", 'T': "typechange"}

// parse reads the fields of diff-index --raw --numstat -z: first all of the one
// kind, then all of the other.
func parse(fields []string) ([]File, error) {
	var files []File
	place := map[string]int{}
	next := func() (s string, ok bool) {
		if len(fields) == 0 {
			return "", false
		}
		s, fields = fields[0], fields[1:]
		return s, true
	}
	for {
		head, ok := next()
		if !ok {
			return files, nil
		}
		if raw, is := strings.CutPrefix(head, ":"); is {
			part := strings.Fields(raw)
			if len(part) != 5 || statuses[part[4][0]] == "" {
				return nil, fmt.Errorf("unexpected entry %q", head)
			}
			f := File{Status: statuses[part[4][0]]}
			if f.Status != "added" && f.Status != "deleted" && part[0] != part[1] {
				f.Mode = part[0] + " " + part[1]
			}
			if f.Status == "renamed" {
				f.From, _ = next()
			}
			if f.Path, ok = next(); !ok {
				return nil, fmt.Errorf("entry %q without a path", head)
			}
			place[f.Path] = len(files)
			files = append(files, f)
			continue
		}
		part := strings.SplitN(head, "\t", 3)
		if len(part) != 3 {
			return nil, fmt.Errorf("unexpected count %q", head)
		}
		path := part[2]
		if path == "" { // a rename: from, then to
			if _, ok = next(); ok {
				path, ok = next()
			}
			if !ok {
				return nil, fmt.Errorf("count %q without a path", head)
			}
		}
		i, ok := place[path]
		if !ok {
			return nil, fmt.Errorf("counted lines of %q, which did not change", path)
		}
		if part[0] == "-" {
			files[i].Binary = true
			continue
		}
		added, err1 := strconv.Atoi(part[0])
		removed, err2 := strconv.Atoi(part[1])
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("unexpected count %q", head)
		}
		// A typechange is counted twice, as one file that went and one that came.
		files[i].Added += added
		files[i].Removed += removed
	}
}

// sinceLost marks the files that differ from the tree lost, and adds those that
// are as in the base again.
func (x *index) sinceLost(ctx context.Context, files []File, lost string) ([]File, error) {
	names, err := x.list(ctx, "diff-index", "--cached", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", lost)
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for _, n := range names {
		changed[n] = true
	}
	for i, f := range files {
		files[i].SinceLost = changed[f.Path] || f.From != "" && changed[f.From]
		delete(changed, f.Path)
		delete(changed, f.From)
	}
	for n := range changed {
		files = append(files, File{Path: n, Status: "restored", SinceLost: true})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// patch returns the patch of all files, or of the one whose path is only.
func (x *index) patch(ctx context.Context, base string, files []File, only string) (patch []byte, cut bool, err error) {
	args := diffIndex(base, "-p", "-U3")
	if only != "" {
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == only })
		if i < 0 {
			return nil, false, nil
		}
		args = append(args, "--", only)
		if files[i].From != "" {
			args = append(args, files[i].From)
		}
	}
	out, err := x.some(ctx, MaxPatch+1, nil, args...)
	if err != nil || len(out) <= MaxPatch {
		return out, false, err
	}
	return out[:bytes.LastIndexByte(out[:MaxPatch], '\n')+1], true, nil
}
