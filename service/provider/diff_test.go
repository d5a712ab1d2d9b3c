package provider

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

func TestUnifiedDiff(t *testing.T) {
	for _, c := range []struct {
		name             string
		exists           bool
		old, new, expect string
	}{
		{"same", true, "a\n", "a\n", ""},
		{"new", false, "", "a\n", "--- /dev/null\n+++ b/x\n@@ -0,0 +1,1 @@\n+a\n"},
		{"no end of line", true, "a", "a\n", "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"},
	} {
		if got := UnifiedDiff("/x", c.exists, c.old, c.new); got != c.expect {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.expect)
		}
	}
}

// git must be able to apply what a person approved, and get the same file.
func TestUnifiedDiffApplies(t *testing.T) {
	dir := t.TempDir()
	text := rapid.Custom(func(t *rapid.T) string {
		s := ""
		for _, line := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "c c", "-", "+", "@@ -1 +1 @@", "\\"}), 0, 30).Draw(t, "lines") {
			s += line + "\n"
		}
		return s + rapid.SampledFrom([]string{"", "end"}).Draw(t, "rest")
	})
	rapid.Check(t, func(t *rapid.T) {
		old, new := text.Draw(t, "old"), text.Draw(t, "new")
		file, patch := filepath.Join(dir, "x"), filepath.Join(dir, "p")
		d := UnifiedDiff("x", true, old, new)
		if old == new {
			if d != "" {
				t.Fatalf("a diff of nothing: %s", d)
			}
			return
		}
		for name, s := range map[string]string{file: old, patch: d} {
			if err := os.WriteFile(name, []byte(s), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("git", "apply", "--unidiff-zero", "-p1", "p")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1") // not as this machine is set up
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git apply: %v: %s\n%s", err, out, d)
		}
		if got, _ := os.ReadFile(file); string(got) != new {
			t.Fatalf("applied: %q, want %q", got, new)
		}
	})
}
