package demo

import (
	"os"
	"path/filepath"
	"testing"
)

// The folders are those of Git for Windows.
func TestShellOfGit(t *testing.T) {
	for _, in := range []string{"cmd", `mingw64\bin`} {
		dir := t.TempDir()
		sh := filepath.Join(dir, "bin", "sh.exe")
		for _, path := range []string{filepath.Join(dir, in, "git.exe"), sh} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", filepath.Join(dir, in))
		if got := shell(); got != sh {
			t.Errorf("with git in %s the shell is %s", in, got)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if got := shell(); got != "sh" {
		t.Errorf("without git the shell is %s", got)
	}
}
