//go:build unix

package guard_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

// What doesn't descend from any guard may still do a worker's bidding. It has
// the token, and claims nothing as long as it is not the service.
func TestOnlyTheServiceClaims(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not show who holds a lock")
	}
	w, c := started(t, "fake")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	journal := w.state.Name()
	claim := func(program string, given []*os.File, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(within(t), program, append([]string{"claim", w.dir}, args...)...)
		cmd.Env, cmd.ExtraFiles = []string{"GORACE=atexit_sleep_ms=0"}, given
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	refused := func(t *testing.T, got, why string) {
		t.Helper()
		if !strings.HasPrefix(got, "claim: forbidden_for_workers") || !strings.Contains(got, why) {
			t.Errorf("want %q, got %s", why, got)
		}
		if said := data[wire.Notice](t, next(t, c, wire.KindNotice)); said.Level != "warning" || !strings.Contains(said.Text, "tried to take this worker over") {
			t.Errorf("a person is told %+v", said)
		}
	}
	const noLock = "does not hold the lock"
	t.Run("the same program", func(t *testing.T) { refused(t, claim(exe, nil), noLock) })
	t.Run("a descriptor that has the lock", func(t *testing.T) { refused(t, claim(exe, []*os.File{w.state}), noLock) })
	t.Run("a journal of its own in that place", func(t *testing.T) {
		if err := os.Rename(journal, journal+".away"); err != nil {
			t.Fatal(err)
		}
		refused(t, claim(exe, nil, "locked"), noLock)
		if err := os.Rename(journal+".away", journal); err != nil {
			t.Fatal(err)
		}
	})
	w.lock(syscall.LOCK_UN) // the service has ended
	t.Run("another program, with the lock", func(t *testing.T) {
		refused(t, claim(copyOf(t, exe), nil, "locked"), "runs another program")
	})
	t.Run("the next service", func(t *testing.T) {
		if got := claim(exe, nil, "locked"); got != "claim:  <nil>\n" {
			t.Error(got)
		}
	})
}

// A service whose program was replaced while it ran starts guards of the new
// one. They obey it, and nobody else of the program of before.
func TestAServiceFromBeforeAnUpdateClaims(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := spawnOf(t, copyOf(t, exe))
	w.claim(1)
	w.lock(syscall.LOCK_UN)
	cmd := exec.CommandContext(within(t), exe, "claim", w.dir, "locked")
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "claim: forbidden_for_workers") || !strings.Contains(string(out), "runs another program") {
		t.Errorf("%v: %s", err, out)
	}
}

// A service hands secrets to the guard that it started, and to nobody who only
// says so.
func TestOnlyItsOwnGuardIsStarted(t *testing.T) {
	w, other := spawn(t), spawn(t)
	c, err := w.proc.Connect(within(t), w.dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	other.connect() // so that it has one
	record, err := os.ReadFile(filepath.Join(other.dir, "guard.json"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.dir, "guard.json")
	was, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, record, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c, err := w.proc.Connect(within(t), w.dir); err == nil || !strings.Contains(err.Error(), "not below the keeper") {
		if c != nil {
			_ = c.Close()
		}
		t.Errorf("connected to the guard of another: %v", err)
	}
	if err := os.WriteFile(path, was, 0o600); err != nil { // so that the test can end it
		t.Fatal(err)
	}
}

// copyOf is the same program in another file.
func copyOf(t *testing.T, exe string) string {
	t.Helper()
	in, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(t.TempDir(), filepath.Base(exe))
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ways are how a worker runs a program, for its guard not to know it.
var ways = map[string]string{
	"shell":       "%s",
	"setsid":      "setsid -w %s",
	"clean":       "env -i GORACE=atexit_sleep_ms=0 setsid -w %s",
	"double fork": "(setsid %s >out 2>&1 &) ; while [ ! -s out ]; do sleep 0.05; done; cat out",
	"clean fork":  "(env -i GORACE=atexit_sleep_ms=0 setsid %s >out 2>&1 &) ; while [ ! -s out ]; do sleep 0.05; done; cat out",
}

// A worker has the token within reach, and is refused all the same: even if it
// ended the service and took its lock.
func TestAWorkerCannotClaim(t *testing.T) {
	for name, how := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, "fake")
			w.lock(syscall.LOCK_UN)
			w.claimsAs(c, how, w)
		})
	}
}

// A guard knows the workers of other guards, of which it has no record.
func TestAnotherWorkerCannotClaim(t *testing.T) {
	for name, how := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, "fake")
			other, _ := started(t, "fake")
			other.lock(syscall.LOCK_UN)
			w.claimsAs(c, how, other)
		})
	}
}

// claimsAs has the worker claim a guard in one of the ways.
func (w *worker) claimsAs(c *guard.Client, how string, of *worker) {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.turn(c, fmt.Sprintf(how, fmt.Sprintf("'%s' claim '%s' locked", exe, of.dir)))
	text := data[wire.Text](w.t, next(w.t, c, wire.KindText))
	if !strings.Contains(text.Text, "claim: forbidden_for_workers") {
		w.t.Fatalf("%s", text.Text)
	}
}
