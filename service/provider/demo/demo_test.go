package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func gitOutput(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1") // not as this machine is set up
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestSample(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "a b"), filepath.Join(t.TempDir(), "-dash 漢字")
	for _, dir := range []string{one, two} {
		if err := Sample(dir); err != nil {
			t.Fatal(err)
		}
		if s := gitOutput(t, dir, "status", "--porcelain"); s != "" {
			t.Errorf("not clean: %s", s)
		}
	}
	if a, b := gitOutput(t, one, "rev-parse", "HEAD"), gitOutput(t, two, "rev-parse", "HEAD"); a != b {
		t.Errorf("two samples differ: %s and %s", a, b)
	}
	cmd := exec.Command("sh", "check.sh")
	cmd.Dir = one
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "FAIL  212 F should be 100 C, got 324") {
		t.Errorf("the check does not show the bug: %v: %s", err, out)
	}
	if list, _ := os.ReadDir(filepath.Join(one, ".git", "hooks")); len(list) > 0 {
		t.Error("the sample has hooks")
	}
	if err := Sample(one); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder in use was taken: %v", err)
	}
}

func TestParse(t *testing.T) {
	w := parse("Turn 1.\n\n## Scope\nDo it. demo:slow 3\ndemo:wait\n\n## New instructions from the person\n1. add a line x to y\n2. two\n   lines\n\n## Last\ndemo:fail\n")
	if w.scope != "Do it. demo:slow 3\ndemo:wait" || !slices.Equal(w.steering, []string{"add a line x to y", "two\nlines"}) {
		t.Errorf("%+v", w)
	}
	if !slices.Equal(w.directives, []directive{{"slow", "3"}, {"wait", ""}}) {
		t.Errorf("directives %+v", w.directives)
	}
	if w := parse("only demo:burst 7"); w.scope != "only demo:burst 7" || !slices.Equal(w.directives, []directive{{"burst", "7"}}) {
		t.Errorf("%+v", w)
	}
}
