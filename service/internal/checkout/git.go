package checkout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// gitLimit bounds every git command; a repository on a dead network mount must
// not hold up the service.
const gitLimit = 5 * time.Second

// git runs one of the two commands that never execute what a repository
// configures: rev-parse and config. Everything else on a checkout belongs into
// a guard. There is no shell, no prompt, no pager and nothing of the service's
// environment but the search path and the home directory.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	switch args[0] {
	case "rev-parse", "config":
	default:
		return "", fmt.Errorf("git %s may not run directly on a checkout", args[0])
	}
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	// Git goes there itself: a start in a folder whose disk does not answer
	// could not be cut off.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Dir, cmd.WaitDelay = string(filepath.Separator), time.Second
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_CONFIG_NOSYSTEM=1",
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", &Refusal{Name: "git", What: "Git is not installed.", Fix: "Install git and try again."}
		}
		if ctx.Err() != nil {
			return "", &Refusal{Name: "git", What: "Git gave no answer within 5 seconds in " + dir + ".", Fix: "Check that the disk it lies on can be reached."}
		}
		return "", fmt.Errorf("git %s in %s: %w: %s", args[0], dir, err, firstLine(errs.String()))
	}
	return out.String(), nil
}

// inTime runs fn, which touches the disk of path itself. When ctx ends or the
// disk gives no answer within diskLimit, fn is left to itself, and what it finds
// is nobody's.
func inTime[T any](ctx context.Context, path string, fn func() (T, error)) (T, error) {
	type result struct {
		out T
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := fn()
		done <- result{out, err}
	}()
	limit := time.NewTimer(diskLimit)
	defer limit.Stop()
	var none T
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-limit.C:
		return none, refuse("folder", fmt.Sprintf("The disk gave no answer within %d seconds about %s.", int(diskLimit.Seconds()), path), "Check that the disk it lies on can be reached.")
	}
}

// diskLimit is for some looks at a folder, and some calls of git.
const diskLimit = 20 * time.Second

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// executableKeys are the configuration keys that can make git run a program.
func executable(key string) bool {
	switch key {
	case "core.fsmonitor", "core.hookspath", "core.sshcommand", "core.pager", "core.editor", "core.gitproxy", "core.askpass",
		"core.alternaterefscommand", "sequence.editor", "interactive.difffilter", "uploadpack.packobjectshook", "include.path":
		return true
	}
	section, rest, _ := strings.Cut(key, ".")
	_, name, found := cutLast(rest, ".")
	switch section {
	case "filter":
		return found && (name == "clean" || name == "smudge" || name == "process")
	case "diff":
		return (found && (name == "command" || name == "textconv")) || rest == "external"
	case "merge":
		return found && name == "driver"
	case "includeif":
		return found && name == "path"
	case "credential":
		return name == "helper"
	case "gpg":
		return name == "program" || name == "defaultkeycommand"
	case "remote":
		return found && (name == "uploadpack" || name == "receivepack" || name == "vcs")
	case "difftool", "mergetool", "browser", "man":
		return found && (name == "cmd" || name == "path")
	case "trailer":
		return found && (name == "cmd" || name == "command")
	case "submodule":
		return found && name == "update" // may be a command
	case "sendemail":
		return strings.HasSuffix(name, "cmd") || strings.HasSuffix(name, "command")
	case "alias", "pager":
		return true
	}
	return false
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// Executables lists, as "key = value" and "hook name" lines, what the
// repository itself (not the person's own configuration) could make git
// execute. The start approval shows it.
func Executables(ctx context.Context, folder string) ([]string, error) {
	return inTime(ctx, folder, func() ([]string, error) { return executables(ctx, folder) })
}

func executables(ctx context.Context, folder string) ([]string, error) {
	out, err := git(ctx, folder, "config", "--local", "--null", "--list")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, kv := range strings.Split(out, "\x00") {
		key, value, _ := strings.Cut(kv, "\n")
		if executable(strings.ToLower(key)) && !(key == "core.fsmonitor" && value == "false") {
			found = append(found, key+" = "+value)
		}
	}
	hooks, err := git(ctx, folder, "rev-parse", "--git-path", "hooks")
	if err != nil {
		return nil, err
	}
	dir := strings.TrimSuffix(hooks, "\n")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(folder, dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the hooks of %s: %w", folder, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !strings.HasSuffix(e.Name(), ".sample") && info.Mode().Perm()&0o111 != 0 {
			found = append(found, "hook "+e.Name())
		}
	}
	sort.Strings(found)
	return found, nil
}
