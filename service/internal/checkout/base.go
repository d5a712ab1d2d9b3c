package checkout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
)

// Base is what a mission's changes are counted from.
type Base struct {
	Commit string    `json:"commit,omitempty"` // HEAD when it was taken, "" when there was no commit yet
	Tree   string    `json:"tree"`             // all files of the work tree then, untracked ones included, ignored ones not
	At     time.Time `json:"at"`
	// Unread is what git could not read, in its own words, or "". Such a file
	// keeps the content that the index has, or is left out.
	Unread string `json:"unread,omitempty"`
}

// TakeBase records the work tree at path as the base of mission and keeps it
// under refs/reeve/<mission>/base. The person's index, HEAD, stash,
// configuration and files stay as they are; only objects and that reference
// are added. A base that was there already is replaced.
func TakeBase(ctx context.Context, run Git, path, mission string) (Base, error) {
	return record(ctx, run, path, mission, "base")
}

// Snapshot records the work tree at path as TakeBase does, under
// refs/reeve/<mission>/<name>, and returns its tree. The name is lower-case
// letters, such as "lost".
func Snapshot(ctx context.Context, run Git, path, mission, name string) (tree string, err error) {
	b, err := record(ctx, run, path, mission, name)
	return b.Tree, err
}

const letters = "abcdefghijklmnopqrstuvwxyz"

// isMission keeps what is no mission's id out of references and file names.
func isMission(id string) bool {
	rest, ok := strings.CutPrefix(id, "m-")
	return ok && rest != "" && len(rest) <= 40 && strings.Trim(rest, letters+"0123456789") == ""
}

func record(ctx context.Context, run Git, path, mission, name string) (Base, error) {
	if !isMission(mission) || name == "" || strings.Trim(name, letters) != "" {
		return Base{}, fmt.Errorf("record the files of %s: %q and %q name no reference", path, mission, name)
	}
	b := Base{At: time.Now().UTC().Truncate(time.Second)}
	var err error
	if b.Commit, err = commit(ctx, path, "HEAD"); err != nil {
		return Base{}, err
	}
	x, err := stage(ctx, run, path)
	if err != nil {
		return Base{}, err
	}
	defer x.close()
	if name != "base" {
		base, err := commit(ctx, path, "refs/reeve/"+mission+"/base")
		if err != nil {
			return Base{}, err
		}
		if base != "" {
			gone, err := x.list(ctx, "diff-index", "--cached", "-z", "--name-only", "--no-renames", "--diff-filter=D", "--ignore-submodules=none", base)
			if err != nil {
				return Base{}, err
			}
			if _, err := x.keep(ctx, gone); err != nil {
				return Base{}, err
			}
		}
	}
	if b.Tree, err = x.line(ctx, "write-tree"); err != nil {
		return Base{}, err
	}
	b.Unread = x.unread

	who := x.at
	date := fmt.Sprintf("%d +0000", b.At.Unix())
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		who.env = append(who.env[:len(who.env):len(who.env)], "GIT_"+role+"_NAME=Reeve", "GIT_"+role+"_EMAIL=reeve@localhost", "GIT_"+role+"_DATE="+date)
	}
	args := []string{"commit-tree", "--no-gpg-sign", b.Tree}
	if b.Commit != "" {
		args = append(args, "-p", b.Commit)
	}
	out, err := who.call(ctx, []byte("The files of mission "+mission+" ("+name+")\n"), args...)
	if err != nil {
		return Base{}, err
	}
	_, err = who.call(ctx, nil, "update-ref", "--no-deref", "refs/reeve/"+mission+"/"+name, strings.TrimSpace(string(out)))
	return b, err
}

// DropRefs removes all references of mission. The objects go with git's own
// collection. It is no error when there are none.
func DropRefs(ctx context.Context, run Git, path, mission string) error {
	if !isMission(mission) {
		return fmt.Errorf("drop the references of %q in %s: no mission", mission, path)
	}
	a := at{run: run, dir: path, config: offline}
	out, err := a.line(ctx, "for-each-ref", "--format=delete %(refname)", "refs/reeve/"+mission+"/")
	if err != nil || out == "" {
		return err
	}
	_, err = a.call(ctx, []byte(out+"\n"), "update-ref", "--no-deref", "--stdin")
	return err
}

// DropOldRefs removes from the repository at path the references of every
// mission that recorded nothing there since the given time, unless keep says
// that they are needed.
func DropOldRefs(ctx context.Context, run Git, path string, since time.Time, keep func(mission string) bool) error {
	a := at{run: run, dir: path, config: offline}
	out, err := a.line(ctx, "for-each-ref", "--format=%(refname:lstrip=2) %(committerdate:unix)", "refs/reeve/")
	if err != nil || out == "" {
		return err
	}
	newest := map[string]int64{}
	for line := range strings.SplitSeq(out, "\n") {
		name, date, _ := strings.Cut(line, " ")
		mission, _, _ := strings.Cut(name, "/")
		// What has no date is nothing that was recorded here.
		if n, err := strconv.ParseInt(date, 10, 64); err != nil {
			newest[mission] = math.MaxInt64
		} else {
			newest[mission] = max(newest[mission], n)
		}
	}
	for _, mission := range slices.Sorted(maps.Keys(newest)) {
		if !isMission(mission) || newest[mission] >= since.Unix() || keep(mission) {
			continue
		}
		if err := DropRefs(ctx, run, path, mission); err != nil {
			return err
		}
	}
	return nil
}

// index is a copy of a checkout's index that was brought to what the work tree
// has: calls of git through it never touch the person's own.
type index struct {
	at
	temp    string
	tracked []tracked // what the person's index has
	unread  string
}

// tracked is one entry of the person's index.
type tracked struct{ mode, path string }

// stage copies the index of the checkout at path and adds all files to it.
//
// The copy starts with the person's index, so that git reads only files that
// changed. It lies in the git directory: never in the work tree, and on a file
// system with the same clock.
func stage(ctx context.Context, run Git, path string) (_ *index, err error) {
	gitDir, err := ownDir(ctx, path)
	if err != nil {
		return nil, err
	}
	sweep(gitDir)
	temp, err := os.MkdirTemp(gitDir, tempPrefix)
	if errors.Is(err, fs.ErrPermission) {
		return nil, refuse("git", fmt.Sprintf("Git's folder %s may not be written.", gitDir), "Choose a checkout that belongs to you.")
	} else if err != nil {
		return nil, fmt.Errorf("make a folder for the index: %w", err)
	}
	x := &index{temp: temp}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	file := filepath.Join(temp, "index")
	if err := copyIndex(filepath.Join(gitDir, "index"), file); err != nil {
		return nil, err
	}
	x.at = at{run: run, dir: path, within: slowLimit,
		// The work tree is this folder, whatever core.worktree says by now,
		// and objects are what their names say.
		env: []string{"GIT_INDEX_FILE=" + file, "GIT_DIR=" + gitDir, "GIT_WORK_TREE=" + path, "GIT_NO_REPLACE_OBJECTS=1"},
		config: append([]string{"core.splitIndex=false", "core.untrackedCache=false", "core.sparseCheckout=false", "index.sparse=false",
			"core.trustctime=true", "core.checkStat=default", "core.safecrlf=false", "core.logAllRefUpdates=false", "advice.addEmbeddedRepo=false"}, offline...),
	}
	if err := x.unhide(ctx); err != nil {
		return nil, err
	}
	_, err = x.call(ctx, nil, "add", "-A", "--ignore-errors")
	if exit(err) == 1 {
		x.unread, err = said(err), nil
	}
	if err == nil {
		err = x.leaveOut(ctx, func(path string) bool {
			return slices.ContainsFunc(x.tracked, func(t tracked) bool { return t.path == path })
		})
	}
	return x, err
}

// leaveOut takes Reeve's own files for bridges out of an index to which all files
// were added: a .gitignore of the repository may bring back what info/exclude
// leaves out. What was tracked before stays.
func (a at) leaveOut(ctx context.Context, before func(path string) bool) error {
	var ours []string
	for _, name := range contextfile.Names() {
		if _, err := os.Lstat(filepath.Join(a.dir, name)); err == nil && !before(name) {
			ours = append(ours, name)
		}
	}
	if len(ours) == 0 {
		return nil
	}
	_, err := a.call(ctx, nul(ours), "update-index", "--force-remove", "-z", "--stdin")
	return err
}

const tempPrefix = "reeve-index-"

// sweep removes what a service that was killed left in gitDir a day ago.
func sweep(gitDir string) {
	old, _ := filepath.Glob(filepath.Join(escape.Replace(gitDir), tempPrefix+"*"))
	for _, dir := range old {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

var escape = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]")

func (x *index) close() { _ = os.RemoveAll(x.temp) }

// copyIndex copies an index with its time: git reads files again that are not
// older than the index which vouches for them. A missing one is an empty one.
func copyIndex(from, to string) error {
	src, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read git's index: %w", err)
	}
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		return fmt.Errorf("read git's index: %w", err)
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy git's index: %w", err)
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("copy git's index: %w", err)
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// unhide reads the entries and takes the marks off that tell git not to look
// at a file: assume-unchanged, and skip-worktree where the file is there.
func (x *index) unhide(ctx context.Context) error {
	entries, err := x.list(ctx, "ls-files", "-v", "-s", "-z")
	if err != nil {
		return err
	}
	var assumed, skipped []string
	for _, e := range entries {
		head, path, ok := strings.Cut(e, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) < 2 {
			return fmt.Errorf("git ls-files in %s: unexpected entry %q", x.dir, e)
		}
		tag := fields[0]
		x.tracked = append(x.tracked, tracked{fields[1], path})
		if tag != strings.ToUpper(tag) {
			assumed = append(assumed, path)
		}
		if strings.EqualFold(tag, "S") {
			if _, err := entry(x.dir, path); err == nil {
				skipped = append(skipped, path)
			}
		}
	}
	for option, paths := range map[string][]string{"--no-assume-unchanged": assumed, "--no-skip-worktree": skipped} {
		if len(paths) == 0 {
			continue
		}
		if _, err := x.call(ctx, nul(paths), "update-index", option, "-z", "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// keep adds those paths that the work tree still has, though git ignores them
// by now or was told to forget them, and says whether there were any.
func (x *index) keep(ctx context.Context, paths []string) (bool, error) {
	var there []string
	for _, p := range paths {
		info, err := entry(x.dir, p)
		if err != nil {
			continue
		}
		if info.IsDir() {
			_, err = entry(x.dir, p+"/.git") // a repository inside is one entry
		}
		if err == nil && (info.IsDir() || info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0) {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return false, nil
	}
	_, err := x.call(ctx, nul(there), "update-index", "--add", "--remove", "-z", "--stdin")
	return err == nil, err
}
