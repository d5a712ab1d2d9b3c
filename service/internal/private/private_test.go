//go:build unix

package private

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// umaskVar makes the test binary make private files under that umask.
const umaskVar = "PRIVATE_TEST_UMASK"

func TestMain(m *testing.M) {
	if mask := os.Getenv(umaskVar); mask != "" {
		old := 0
		if mask == "077" {
			old = 0o077
		}
		if mask == "777" {
			old = 0o777
		}
		syscall.Umask(old)
		if err := makeSome(os.Args[1]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(replaceVar); dir != "" {
		if err := replaceSome(dir); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func makeSome(dir string) error {
	if err := EnsureDir(dir); err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(dir, "written"), []byte("x")); err != nil {
		return err
	}
	a, err := Create(filepath.Join(dir, "created"))
	if err != nil {
		return err
	}
	b, err := OpenAppend(filepath.Join(dir, "appended"))
	return errors.Join(err, a.Close(), b.Close())
}

func TestAnyUmask(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mask := range []string{"000", "077", "777"} {
		t.Run(mask, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "-p \"q\" 'r' 漢字 🦉 "+strings.Repeat("y", 180))
			cmd := exec.Command(exe, dir)
			cmd.Env = append(os.Environ(), umaskVar+"="+mask)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if st, _ := os.Stat(dir); st.Mode().Perm() != 0o700 {
				t.Errorf("directory %v", st.Mode())
			}
			for _, name := range []string{"written", "created", "appended"} {
				st, err := os.Stat(filepath.Join(dir, name))
				if err != nil || st.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, st, err)
				}
				if err := Check(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func violates(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	var v *Violation
	if !errors.As(err, &v) {
		t.Errorf("%s: %v, want a violation", what, err)
		return
	}
	if v.Path == "" || v.What == "" || v.Mend == "" {
		t.Errorf("%s: %+v is incomplete", what, v)
	}
	for _, w := range words {
		if !strings.Contains(v.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, v.Error(), w)
		}
	}
}

func TestViolations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := EnsureDir(dir); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := WriteFile(at("good"), []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("good"), at("link")); err != nil {
		t.Fatal(err)
	}
	_, err := ReadFile(at("link"), 100)
	violates(t, "a symbolic link", err, "symbolic link")
	_, err = OpenAppend(at("link"))
	violates(t, "a symbolic link to append to", err)
	if _, err := Create(at("link")); !errors.Is(err, fs.ErrExist) {
		t.Error("a link was written through:", err)
	}

	if err := WriteFile(at("two"), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(at("two"), at("second")); err != nil {
		t.Fatal(err)
	}
	violates(t, "a hard link", Check(at("two")), "hard links")

	if err := WriteFile(at("open'd"), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at("open'd"), 0o640); err != nil {
		t.Fatal(err)
	}
	violates(t, "a mode", Check(at("open'd")), "0640", "chmod 600", `'\''`)

	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	violates(t, "a pipe", Check(at("pipe")), "regular") // and does not hang
	violates(t, "a directory", Check(dir), "regular")

	if _, err := ReadFile(at("missing"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := ReadFile(at("good"), 5); err == nil {
		t.Error("more than the limit was read")
	}
	if b, err := ReadFile(at("good"), 6); err != nil || string(b) != "secret" {
		t.Error(string(b), err)
	}

	violates(t, "a file as a directory", EnsureDir(at("good")), "not a directory")
	if err := os.Symlink(dir, at("dirlink")); err != nil {
		t.Fatal(err)
	}
	violates(t, "a link as a directory", EnsureDir(at("dirlink")), "symbolic link")
	for _, mode := range []os.FileMode{0o750, 0o707, 0o500} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		violates(t, "a directory's mode", EnsureDir(dir), "chmod 700")
	}
	_ = os.Chmod(dir, 0o700)
	if os.Geteuid() != 0 {
		t.Log("not root: files of another owner are not tried")
		return
	}
	_ = os.Chown(at("good"), 65534, -1)
	violates(t, "an owner", Check(at("good")), "belongs to user 65534")
	_ = os.Chown(dir, 65534, -1)
	violates(t, "a directory's owner", CheckDir(dir), "belongs to user 65534")
}

func TestWriteReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, strings.Repeat("n", 200))
	old := bytes.Repeat([]byte("o"), 1<<16)
	fresh := bytes.Repeat([]byte("n"), 1<<16)
	if err := WriteFile(path, old); err != nil {
		t.Fatal(err)
	}
	// Readers see the one or the other, while it is replaced all the time.
	done := make(chan error, 1)
	go func() {
		for i := range 100 {
			b := old
			if i%2 == 0 {
				b = fresh
			}
			if err := WriteFile(path, b); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
		b, err := ReadFile(path, 1<<20)
		if errors.Is(err, errReplaced) {
			continue // three times in a row
		}
		if err != nil || !bytes.Equal(b, old) && !bytes.Equal(b, fresh) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("temporary files are left: %v", names)
	}
	if err := WriteFile(filepath.Join(dir, "none", "x"), nil); err == nil {
		t.Error("a missing directory was made")
	}
}

// A file without a name is opened again by name, three times.
func TestLinkCountZero(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := checkFile(path, f); !errors.Is(err, errReplaced) {
		t.Error(err)
	}
}

func TestOpenAppendAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for range 3 {
		f, err := OpenAppend(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := ReadFile(path, 10); err != nil || string(b) != "xxx" {
		t.Error(string(b), err)
	}
}
