package powerloss

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const taskVar = "POWERLOSS_TEST_TASK"

func TestMain(m *testing.M) {
	if task := os.Getenv(taskVar); task != "" {
		if err := replaceFile(task, os.Getenv(taskVar+"_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// replaceFile replaces a file three times, as it should be done but for the
// steps that task leaves out.
func replaceFile(task, dir string) error {
	for i := range 3 {
		f, err := os.CreateTemp(dir, "new-")
		if err != nil {
			return err
		}
		text := strings.Repeat(fmt.Sprintf("%d\n", i+1), 1000)
		if _, err := f.WriteString(text); err != nil {
			return err
		}
		if !strings.Contains(task, "no file sync") {
			err = f.Sync()
		}
		if err := errors.Join(err, f.Close(), os.Rename(f.Name(), filepath.Join(dir, "file"))); err != nil {
			return err
		}
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		if !strings.Contains(task, "no directory sync") {
			err = d.Sync()
		}
		if err := errors.Join(err, d.Close()); err != nil {
			return err
		}
		fmt.Println(i + 1)
	}
	return nil
}

// A program that leaves out a sync must be found out, and one that does not
// must pass.
func TestFindsWhatIsNotSynced(t *testing.T) {
	for task, want := range map[string]string{
		"whole": "", "no file sync": "lost or torn", "no directory sync": "lost or torn",
	} {
		t.Run(task, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte("old\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), taskVar+"="+task, taskVar+"_DIR="+dir)
			trace, err := Record(cmd, dir)
			if errors.Is(err, ErrUnavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			versions := map[string]bool{}
			tried, _, err := trace.Try(0, func(dir string, acked []string) error {
				b, err := os.ReadFile(filepath.Join(dir, "file"))
				if err != nil {
					return err
				}
				first, _, _ := strings.Cut(string(b), "\n")
				versions[first] = true
				if n := len(acked); string(b) != strings.Repeat(first+"\n", 1000) && first != "old" ||
					n > 0 && first != fmt.Sprint(n) && first != fmt.Sprint(n+1) {
					return fmt.Errorf("lost or torn: %q of %d bytes", first, len(b))
				}
				return nil
			})
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("want %q, got %v", want, err)
			}
			if want == "" && (len(versions) != 4 || tried < 20 || trace.Syncs() != 6) {
				t.Errorf("saw the versions %v in %d states around %d syncs", versions, tried, trace.Syncs())
			}
			t.Logf("%d states, %v", tried, err)
		})
	}
}

func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	hexed := func(s string) string { return fmt.Sprintf(`"%s"`, fmt.Sprintf("%x", s)) }
	open := `1 openat(AT_FDCWD, ` + hexed("/d/f") + `, O_RDWR|O_CREAT, 0600) = 3`
	for _, line := range []string{
		`1 writev(3, [{iov_base="78", iov_len=1}], 1) = 1`,
		`1 pwrite64(3, "78"..., 2, 0) = 2`,
		`1 fallocate(3, 0, 0, 100) = 0`,
		`1 dup(3) = 4`,
		`1 renameat(AT_FDCWD, ` + hexed("/d/f") + `, AT_FDCWD, ` + hexed("/elsewhere") + `) = 0`,
		`1 symlinkat(` + hexed("/x") + `, AT_FDCWD, ` + hexed("/d/l") + `) = 0`,
	} {
		base := disk{0: {names: map[string]int{}}}
		if _, err := parse(strings.NewReader(open+"\n"+line+"\n"), "/d", base); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}
