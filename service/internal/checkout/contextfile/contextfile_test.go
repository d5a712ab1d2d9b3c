//go:build unix

package contextfile_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/service/internal/checkout/contextfile"
)

var mine = contextfile.Context{Entry: "m-01", Room: "r-01", Attempt: "a-01", Execution: "x-01", Session: "s-01", Name: "Ada"}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func repo(t *testing.T, more ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a répo")
	git(t, ".", append(append([]string{"init", "-q"}, more...), dir)...)
	file(t, filepath.Join(dir, "a"), "1\n")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "one")
	return dir
}

func file(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, dir string, c contextfile.Context) {
	t.Helper()
	if err := contextfile.Write(dir, c); err != nil {
		t.Fatal(err)
	}
}

func none(t *testing.T, dir string) {
	t.Helper()
	for _, name := range contextfile.Names() {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := repo(t)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	put(t, dir, mine)
	for name, want := range map[string]string{
		".reeve-supervisor-context.json":     `{"version":1,"provider":"codex","entry_id":"m-01","room_id":"r-01","work_attempt_id":"a-01","execution_generation_id":"x-01","agent_session_id":"s-01","agent_display_name":"Ada"}`,
		".reeve-work-attempt.json":           `{"version":1,"work_attempt_id":"a-01"}`,
		".letagents-supervisor-context.json": `{"version":1,"provider":"codex","entry_id":"m-01","room_id":"r-01","work_attempt_id":"a-01","execution_generation_id":"x-01","agent_session_id":"s-01","agent_display_name":"Ada"}`,
		".letagents-work-attempt.json":       `{"version":1,"work_attempt_id":"a-01"}`,
	} {
		path := filepath.Join(dir, name)
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s: %v: %s", name, err, b)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
		}
	}
	if s := git(t, dir, "status", "--porcelain"); s != "" {
		t.Errorf("git sees %s", s)
	}
	// The next attempt replaces them; only its own end takes them away.
	next := mine
	next.Attempt = "a-02"
	put(t, dir, next)
	if err := contextfile.Remove(dir, "a-01"); err != nil {
		t.Fatal(err)
	}
	var got contextfile.Context
	b, err := os.ReadFile(filepath.Join(dir, ".reeve-supervisor-context.json"))
	if err != nil || json.Unmarshal(b, &got) != nil || got.Attempt != "a-02" {
		t.Errorf("after the end of another attempt: %v: %s", err, b)
	}
	if err := contextfile.Remove(dir, "a-02"); err != nil {
		t.Fatal(err)
	}
	none(t, dir)
	if list, _ := filepath.Glob(filepath.Join(dir, ".git", "*.new")); len(list) > 0 {
		t.Errorf("left %v", list)
	}
}

// The lines are added once, at the end of what a person wrote, and stay.
func TestExclude(t *testing.T) {
	dir := repo(t)
	exclude := filepath.Join(dir, ".git", "info", "exclude")
	file(t, exclude, "# mine\n*.o\r\nlast")
	// Two worktrees of the repository share it.
	other := filepath.Join(filepath.Dir(dir), "other")
	git(t, dir, "worktree", "add", "-q", "--detach", other)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			c := mine
			c.Attempt += string(rune('a' + i))
			at := dir
			if i%2 == 1 {
				at = other
			}
			// Two in one checkout are against the claims, so either may win there.
			_ = contextfile.Write(at, c)
		})
	}
	writers.Wait()
	put(t, dir, mine)
	put(t, other, mine)
	want := "# mine\n*.o\r\nlast\n/.letagents-supervisor-context.json\n/.letagents-work-attempt.json\n/.reeve-supervisor-context.json\n/.reeve-work-attempt.json\n"
	if b, _ := os.ReadFile(exclude); string(b) != want {
		t.Errorf("info/exclude is\n%s", b)
	}
	for _, d := range []string{dir, other} {
		if s := git(t, d, "status", "--porcelain"); s != "" {
			t.Errorf("git sees %s", s)
		}
		if err := contextfile.Remove(d, mine.Attempt); err != nil {
			t.Error(err)
		}
	}
	if b, _ := os.ReadFile(exclude); string(b) != want {
		t.Errorf("after the end info/exclude is\n%s", b)
	}

	if err := os.RemoveAll(filepath.Dir(exclude)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, mine)
	if s := git(t, dir, "status", "--porcelain"); s != "" {
		t.Errorf("without an info/exclude git sees %s", s)
	}
}

// What is not ours stays as it is, and then nothing of ours is there.
func TestNotOurs(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	file(t, elsewhere, "theirs")
	tracked := func(t *testing.T, dir string) {
		file(t, filepath.Join(dir, ".reeve-work-attempt.json"), "theirs")
		file(t, filepath.Join(dir, ".r"), "1")
		file(t, filepath.Join(dir, ".reeve-v"), "1")
		git(t, dir, "add", "-f", "-A")
		git(t, dir, "commit", "-q", "-m", "two")
		if err := os.Remove(filepath.Join(dir, ".reeve-work-attempt.json")); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		repo  []string
		spoil func(t *testing.T, dir string)
		why   string
	}{
		"tracked":                  {spoil: tracked, why: "git rm"},
		"tracked, another version": {spoil: func(t *testing.T, dir string) { tracked(t, dir); git(t, dir, "update-index", "--index-version", "4") }, why: "git rm"},
		"tracked, with longer flags": {spoil: func(t *testing.T, dir string) {
			tracked(t, dir)
			git(t, dir, "update-index", "--skip-worktree", "a", ".r")
		}, why: "git rm"},
		"tracked, in a split index": {spoil: func(t *testing.T, dir string) { tracked(t, dir); git(t, dir, "update-index", "--split-index") }, why: "git rm"},
		"tracked, SHA-256":          {repo: []string{"--object-format=sha256"}, spoil: tracked, why: "git rm"},
		"only staged": {spoil: func(t *testing.T, dir string) {
			file(t, filepath.Join(dir, ".letagents-work-attempt.json"), "x")
			git(t, dir, "add", "-A")
		}, why: "git rm"},
		"a link": {spoil: func(t *testing.T, dir string) {
			if err := os.Symlink(elsewhere, filepath.Join(dir, ".reeve-supervisor-context.json")); err != nil {
				t.Fatal(err)
			}
		}, why: "no regular file"},
		"a folder": {spoil: func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, ".letagents-supervisor-context.json"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, why: "no regular file"},
		"exclude is a link": {spoil: func(t *testing.T, dir string) {
			exclude := filepath.Join(dir, ".git", "info", "exclude")
			_ = os.Remove(exclude)
			if err := os.Symlink(elsewhere, exclude); err != nil {
				t.Fatal(err)
			}
		}, why: "info/exclude"},
		"info is a link": {spoil: func(t *testing.T, dir string) {
			info := filepath.Join(dir, ".git", "info")
			if err := os.Rename(info, info+"-2"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("info-2", info); err != nil {
				t.Fatal(err)
			}
		}, why: "info"},
		"a damaged index": {spoil: func(t *testing.T, dir string) { file(t, filepath.Join(dir, ".git", "index"), "DIRC\x00\x00\x00\x09") }, why: "index"},
		"no checkout":     {spoil: func(t *testing.T, dir string) { _ = os.RemoveAll(filepath.Join(dir, ".git")) }, why: "no git checkout"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repo(t, c.repo...)
			c.spoil(t, dir)
			before := tree(t, dir)
			err := contextfile.Write(dir, mine)
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("write: %v", err)
			}
			if err := contextfile.Remove(dir, mine.Attempt); err != nil {
				t.Error(err)
			}
			if now := tree(t, dir); now != before {
				t.Errorf("there was %s\nnow is %s", before, now)
			}
			if b, _ := os.ReadFile(elsewhere); string(b) != "theirs" {
				t.Errorf("a link was followed: %q", b)
			}
		})
	}
	for name, more := range map[string][]string{"fine": nil, "fine, SHA-256": {"--object-format=sha256"}} {
		t.Run(name, func(t *testing.T) {
			dir := repo(t, more...)
			put(t, dir, mine)
			// And where git has no index yet.
			empty := filepath.Join(t.TempDir(), "empty")
			git(t, ".", append(append([]string{"init", "-q"}, more...), empty)...)
			put(t, empty, mine)
		})
	}
}

// tree lists the names at the root of a checkout.
func tree(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
