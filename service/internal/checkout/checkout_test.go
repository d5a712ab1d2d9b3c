package checkout_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
)

// repo makes a real repository with one commit.
func repo(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "init", "-q", "-b", "main")
	gitIn(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "first")
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestInspectRefusals(t *testing.T) {
	base := t.TempDir()
	state := filepath.Join(base, "state")
	good := repo(t, filepath.Join(base, "good"))
	outer := repo(t, filepath.Join(base, "outer"))
	insideState := repo(t, filepath.Join(state, "repo"))
	innerState := filepath.Join(outer, "deep", "state")
	bare := filepath.Join(base, "bare.git")
	for _, d := range []string{state, innerState, filepath.Join(base, "plain"), filepath.Join(good, "sub")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, base, "init", "-q", "--bare", bare)
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ folder, state, want string }{
		"relative":        {"good", state, "absolute"},
		"missing":         {filepath.Join(base, "nowhere"), state, "does not exist"},
		"file":            {file, state, "is a file"},
		"not a checkout":  {filepath.Join(base, "plain"), state, "not a git checkout"},
		"inside":          {filepath.Join(good, "sub"), state, "not its root"},
		"bare":            {bare, state, "bare"},
		"git dir":         {filepath.Join(good, ".git"), state, ".git"},
		"inside state":    {insideState, state, "inside Reeve's private state"},
		"state inside it": {outer, innerState, "lies inside"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := checkout.Inspect(context.Background(), c.folder, c.state)
			var r *checkout.Refusal
			if !errors.As(err, &r) {
				t.Fatalf("got %v, want a refusal", err)
			}
			if !strings.Contains(r.What, c.want) || r.Fix == "" {
				t.Fatalf("refusal %q, fix %q: want %q and a fix", r.What, r.Fix, c.want)
			}
		})
	}
}

// TestInspectNames is case 32: nothing in a name may matter.
func TestInspectNames(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"with space", `quo"te's`, "日本語", "🦊 fox", "-dash", "$(touch x)`y`", strings.Repeat("long", 50)} {
		dir := repo(t, filepath.Join(base, name))
		link := filepath.Join(base, "link-"+name[:1])
		_ = os.Remove(link)
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		for _, spelled := range []string{dir, link, dir + "/", dir + "/../" + filepath.Base(dir)} {
			tree, err := checkout.Inspect(context.Background(), spelled, base+"/../")
			var r *checkout.Refusal
			if errors.As(err, &r) && r.Name == "private state" {
				state := t.TempDir()
				tree, err = checkout.Inspect(context.Background(), spelled, state)
			}
			if err != nil {
				t.Fatalf("%q: %v", spelled, err)
			}
			if tree.Path != dir || tree.Branch != "main" || len(tree.Head) != 40 {
				t.Fatalf("%q: %+v", spelled, tree)
			}
		}
	}
}

func TestMergeUnderWayIsNoted(t *testing.T) {
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	if err := os.WriteFile(filepath.Join(dir, ".git", "MERGE_HEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := checkout.Inspect(context.Background(), dir, t.TempDir())
	if err != nil || len(tree.Notes) != 1 || !strings.Contains(tree.Notes[0], "merge") {
		t.Fatalf("%+v, %v", tree, err)
	}
}

// TestExecutables: what a repository could make git run is listed, and looking
// runs none of it (a part of case 37).
func TestExecutables(t *testing.T) {
	dir := repo(t, filepath.Join(t.TempDir(), "r"))
	trap := filepath.Join(t.TempDir(), "ran")
	for _, kv := range [][2]string{
		{"filter.x.clean", "touch " + trap}, {"core.fsmonitor", "touch " + trap}, {"core.sshCommand", "touch " + trap},
		{"diff.x.textconv", "touch " + trap}, {"diff.external", "touch " + trap}, {"include.path", "other"}, {"user.name", "harmless"},
		{"credential.helper", "!touch " + trap}, {"credential.https://x.example.helper", "!touch " + trap}, {"gpg.program", trap}, {"gpg.ssh.program", trap},
		{"pager.log", "touch " + trap}, {"sequence.editor", trap}, {"remote.o.uploadpack", trap}, {"mergetool.m.cmd", trap}, {"submodule.s.update", "!touch " + trap},
	} {
		gitIn(t, dir, "config", kv[0], kv[1])
	}
	for name, body := range map[string]string{".git/hooks/post-checkout": "#!/bin/sh\ntouch " + trap, ".gitattributes": "* filter=x diff=x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := checkout.Inspect(context.Background(), dir, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	found, err := checkout.Executables(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(found, "\n")
	for _, want := range []string{"filter.x.clean", "core.fsmonitor", "core.sshcommand", "diff.x.textconv", "diff.external", "include.path", "hook post-checkout",
		"credential.helper", "credential.https://x.example.helper", "gpg.program", "gpg.ssh.program", "pager.log", "sequence.editor", "remote.o.uploadpack", "mergetool.m.cmd", "submodule.s.update"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in\n%s", want, all)
		}
	}
	if strings.Contains(all, "harmless") {
		t.Errorf("user.name executes nothing:\n%s", all)
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("looking at the repository ran something of it")
	}
}

func open(t *testing.T) *store.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reeve.db")
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := store.CheckFile(path, store.Options{}); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestClaims: at most one mission owns a path, its parents and its children,
// whatever is taken and released in which order.
func TestClaims(t *testing.T) {
	db := open(t)
	base := t.TempDir()
	paths := []string{base, base + "/a", base + "/a/b", base + "/ab", base + "/c"}
	for _, p := range paths {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	overlap := func(a, b string) bool {
		return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
	}
	rapid.Check(t, func(t *rapid.T) {
		owned := map[string]string{} // mission → path
		for _, m := range []string{"m-1", "m-2", "m-3"} {
			if err := db.Update(context.Background(), func(tx *store.Tx) error {
				for _, p := range paths {
					if err := checkout.Release(tx, p, m); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			m := rapid.SampledFrom([]string{"m-1", "m-2", "m-3"}).Draw(t, "mission")
			p := rapid.SampledFrom(paths).Draw(t, "path")
			if held, ok := owned[m]; ok {
				if err := db.Update(context.Background(), func(tx *store.Tx) error { return checkout.Release(tx, held, m) }); err != nil {
					t.Fatal(err)
				}
				delete(owned, m)
				continue
			}
			want := true
			for _, held := range owned {
				want = want && !overlap(held, p)
			}
			err := take(db, p, m)
			if (err == nil) != want {
				t.Fatalf("%s takes %s while %v is owned: %v", m, p, owned, err)
			}
			if err == nil {
				owned[m] = p
			}
		}
	})
}

// TestMarkNeedsTheClaim: a turn is never marked on a checkout that is not owned.
func TestMarkNeedsTheClaim(t *testing.T) {
	db := open(t)
	dir := t.TempDir()
	err := db.Update(context.Background(), func(tx *store.Tx) error { return checkout.Mark(tx, dir, "m-1", proc.ID{}, "t-1") })
	var r *checkout.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if err := take(db, dir, "m-1"); err != nil {
		t.Fatal(err)
	}
	err = db.Update(context.Background(), func(tx *store.Tx) error {
		return checkout.Mark(tx, dir, "m-1", proc.ID{PID: 7}, "t-1")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		c, ok, err := checkout.Owned(tx, "m-1")
		if !ok || c.Turn != "t-1" || c.Owner.PID != 7 {
			t.Errorf("%+v, %v", c, ok)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
