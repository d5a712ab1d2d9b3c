package checkout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// DiffTrees compares two recorded trees, as Diff compares one with the work
// tree: what a mission did to a checkout that it gave back since. path is any
// checkout of the repository that has both.
func DiffTrees(ctx context.Context, run Git, path, base, end, only string) (Changes, error) {
	if !isHex(base) || !isHex(end) {
		return Changes{}, fmt.Errorf("compare in %s: %q and %q are no trees", path, base, end)
	}
	gitDir, err := ownDir(ctx, path)
	if err != nil {
		return Changes{}, err
	}
	temp, err := os.MkdirTemp(gitDir, tempPrefix)
	if err != nil {
		return Changes{}, fmt.Errorf("make a folder for the index: %w", err)
	}
	x := &index{temp: temp, at: at{run: run, dir: path, config: offline,
		env: []string{"GIT_INDEX_FILE=" + filepath.Join(temp, "index"), "GIT_DIR=" + gitDir, "GIT_WORK_TREE=" + path, "GIT_NO_REPLACE_OBJECTS=1"}}}
	defer x.close()
	if _, err := x.call(ctx, nil, "read-tree", end); err != nil {
		return Changes{}, err
	}
	files, err := x.files(ctx, base)
	if err != nil {
		return Changes{}, err
	}
	c := Changes{Files: files, Count: len(files)}
	if c.Patch, c.CutPatch, err = x.patch(ctx, base, files, only); err != nil {
		return Changes{}, err
	}
	if len(files) > MaxFiles {
		c.Files, c.More = slices.Clone(files[:MaxFiles]), true
	}
	return c, nil
}
