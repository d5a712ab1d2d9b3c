package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/service/internal/checkout"
)

// failed is a git that answered with an exit code.
type failed struct {
	*exec.ExitError
	stderr string
}

func (f failed) Error() string  { return f.ExitError.Error() + ": " + f.stderr }
func (f failed) Stderr() string { return f.stderr }

// directExec runs git directly, which only tests do: the service runs it in a
// guard. The home directory has a name and an address, and nothing else.
func directExec(t *testing.T) checkout.Git {
	home := t.TempDir()
	write(t, filepath.Join(home, ".gitconfig"), "[user]\n\tname = Person\n\temail = person@example.org\n")
	return execWith(home)
}

func execWith(home string) checkout.Git {
	return func(ctx context.Context, c checkout.GitCommand) ([]byte, error) {
		var args []string
		for _, kv := range c.Config {
			args = append(args, "-c", kv)
		}
		cmd := exec.CommandContext(ctx, "git", append(args, c.Args...)...)
		cmd.Dir = c.Dir
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}, c.Env...)
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), &out, &errs
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, failed{exit, errs.String()}
		}
		return out.Bytes()[:min(out.Len(), c.Limit)], err
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gitOut is what git says in dir, without the last newline.
func gitOut(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func commitAll(t *testing.T, dir, message string) {
	t.Helper()
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", message)
}

// refused fails the test unless err is a refusal that says all of want.
func refused(t *testing.T, err error, want ...string) {
	t.Helper()
	var r *checkout.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if r.Name == "" || r.Fix == "" {
		t.Errorf("%+v: a name or a way on is missing", r)
	}
	for _, w := range want {
		if !strings.Contains(r.What+" "+r.Fix, w) {
			t.Errorf("refusal %q %q: want %q", r.What, r.Fix, w)
		}
	}
}
