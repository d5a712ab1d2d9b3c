package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The sample's program, and the bug that the demo mends.
const (
	program = "convert.sh"
	bug     = "* 9 / 5"
	fixed   = "* 5 / 9"
)

var sample = map[string]string{
	"README.md": `# Thermometer

` + "`sh convert.sh 212`" + ` prints the temperature in degrees Celsius for one in degrees Fahrenheit, in whole degrees.

` + "`sh check.sh`" + ` checks it. It fails at present: see NOTES.md.
`,
	program: `# Prints $1, in degrees Fahrenheit, in degrees Celsius.
set -eu
echo $(( ($1 - 32) ` + bug + ` ))
`,
	"check.sh": `# Checks convert.sh. Exits 1 if anything is wrong.
set -u
cd "$(dirname "$0")" || exit 1
failed=0
expect() {
	got=$(sh ./convert.sh "$1")
	if [ "$got" = "$2" ]; then
		echo "ok    $1 F is $2 C"
	else
		echo "FAIL  $1 F should be $2 C, got $got"
		failed=1
	fi
}
expect 32 0
expect 212 100
expect -40 -40
exit $failed
`,
	"NOTES.md": `# Notes

- 212 F comes out as 324 C. It should be 100.
`,
}

// Sample makes a small git repository at dir, which must be empty or not exist:
// a program with a bug, a check that shows it, a README and notes.
func Sample(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the sample repository: %w", err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("make the sample repository: %w", err)
	}
	if len(list) > 0 {
		return fmt.Errorf("make the sample repository: %s is not empty; choose another folder", dir)
	}
	for name, text := range sample {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("make the sample repository: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"init", "-q", "--template=", "--initial-branch=main"},
		{"add", "--", "README.md", program, "check.sh", "NOTES.md"},
		{"commit", "-q", "--no-verify", "--no-gpg-sign", "-m", "A thermometer with a bug"},
	} {
		if err := git(ctx, dir, args...); err != nil {
			return fmt.Errorf("make the sample repository: %w", err)
		}
	}
	return nil
}

// git runs the installed git without the person's settings, hooks and prompts,
// so that the sample is the same everywhere.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.hooksPath=" + os.DevNull, "-c", "core.autocrlf=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "SystemRoot=" + os.Getenv("SystemRoot"), "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Reeve", "GIT_AUTHOR_EMAIL=demo@reeve.invalid", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=Reeve", "GIT_COMMITTER_EMAIL=demo@reeve.invalid", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
