package view

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
)

// The login shell's profile counts, what it prints does not, and only listed
// names go along.
func TestLoginShell(t *testing.T) {
	dir := t.TempDir()
	shell := filepath.Join(dir, "shell")
	if err := os.WriteFile(shell, []byte("#!/bin/sh\necho 'Welcome = home'\nexport PATH=\"$PATH:/from/profile\" SECRET=x 'LANG=C\nD=1'\nexec /bin/sh -c \"$2\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHELL", shell)
	env := pick(loginEnv(context.Background()), mission.Variables())
	if !strings.HasSuffix(env["PATH"], ":/from/profile") || env["LANG"] != "C\nD=1" || env["SECRET"] != "" {
		t.Errorf("%q", env)
	}
	t.Setenv("SHELL", filepath.Join(dir, "none"))
	if env := pick(loginEnv(context.Background()), []string{"PATH"}); env["PATH"] != os.Getenv("PATH") {
		t.Errorf("no fallback: %q", env)
	}
}
