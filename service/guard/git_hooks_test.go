//go:build unix

package guard_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestHooksDoNotRun(t *testing.T) {
	t.Parallel()
	g := repository(t)
	ran := filepath.Join(g.dir, "ran")
	program := g.write("program", "#!/bin/sh\necho $0 >>'"+ran+"'\n")
	hooks := filepath.Join(g.dir, ".git", "hooks")
	if err := os.MkdirAll(hooks, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"pre-commit", "commit-msg", "post-commit", "post-index-change", "reference-transaction"} {
		if err := os.Symlink(program, filepath.Join(hooks, hook)); err != nil {
			t.Fatal(err)
		}
	}
	g.git("config", "core.fsmonitor", program)
	g.git("config", "core.hooksPath", hooks)
	g.git("config", "commit.gpgSign", "true")
	g.git("config", "gpg.program", program)
	g.git("add", "program")
	g.git("status")
	g.git("commit", "-m", "a")
	if out, err := os.ReadFile(ran); err == nil {
		t.Errorf("ran: %s", out)
	}
	// They would have run.
	cmd := exec.Command("git", "add", "-A")
	cmd.Dir, cmd.Env = g.dir, g.env
	_ = cmd.Run()
	if out, _ := os.ReadFile(ran); !bytes.Contains(out, []byte("post-index-change")) {
		t.Errorf("the hooks are none: %s", out)
	}
}
