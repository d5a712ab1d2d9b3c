package checkout

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGitThatRunsAFilterIsRefused: git status, diff and add run programs that
// the repository configures, so they never run directly.
func TestGitThatRunsAFilterIsRefused(t *testing.T) {
	dir := t.TempDir()
	trap := filepath.Join(dir, "ran")
	for _, args := range [][]string{{"init", "-q"}, {"config", "core.fsmonitor", "touch " + trap}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1") // not as this machine is set up
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	for _, name := range []string{"status", "diff", "add", "checkout", "fetch", "-c", ""} {
		if out, err := git(t.Context(), dir, name); err == nil {
			t.Errorf("git %s ran: %q", name, out)
		}
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("a program of the repository ran")
	}
}
