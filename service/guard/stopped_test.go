//go:build unix

package guard_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
)

// Who stops the guard gains no time: its keeper wakes it, and ends what it
// started where that is of no use.
func TestStoppedGuard(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]string{"once": "sleep 1", "over and over": "kill -STOP %[1]d"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, "fake")
			// Nobody is left stopped by a test that runs out of time.
			script := "echo $$ >child; kill -STOP %[1]d; while kill -0 %[2]d; do " + again + "; done; kill -CONT %[1]d"
			w.turn(c, fmt.Sprintf(script, c.Record.Process.PID, os.Getpid()))
			w.stopped(proc.ID(c.Record.Process))
			child := w.pidIn("child")
			w.shift(time.Hour, time.Hour)
			ends(t, "what the turn started", child)
			<-w.proc.Done()
			if w.proc.Exit() != 0 {
				t.Errorf("exit %d", w.proc.Exit())
			}
			log := w.log()
			if end := log[len(log)-1]; end.Kind != wire.KindSessionEnded || data[wire.SessionEnded](t, end).Reason != "deadline" {
				t.Errorf("%+v", end)
			}
		})
	}
}

// stopped waits until a process stands still.
func (w *worker) stopped(id proc.ID) {
	w.t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		stat, err := exec.Command("ps", "-o", "stat=", "-p", fmt.Sprint(id.PID)).Output()
		if err != nil {
			w.t.Fatalf("look at %v: %v", id, err)
		}
		if strings.HasPrefix(string(stat), "T") {
			return
		}
		if time.Since(begin) > patience {
			w.t.Fatalf("%v was not stopped", id)
		}
	}
}

// A start that is still looking around when another generation claims the guard
// starts nothing.
func TestOvertakenStart(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "late")
	mkfifo(t, pipe)
	w := spawn(t, "TEST_LATE="+pipe)
	old, _ := w.claim(1)
	late, id := w.launch, wire.Command{CommandID: "old"}
	late.Provider = "fake-late"
	done := make(chan struct{})
	go func() { defer close(done); _ = old.Start(within(t), wire.StartParams{Command: id, Launch: late}) }()
	var f *os.File
	for begin := time.Now(); f == nil; time.Sleep(10 * time.Millisecond) {
		var err error
		if f, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err != nil && !errors.Is(err, syscall.ENXIO) {
			t.Fatal(err)
		}
		if time.Since(begin) > patience {
			t.Fatal("the start does not begin")
		}
	}
	c, _ := w.claim(2)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	// A repeat returns what became of it.
	code(t, c.Start(within(t), wire.StartParams{Command: id, Launch: late}), wire.CodeStaleGeneration)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A guard whose socket file is gone can't be talked to, but it has not ended:
// only its process proves that.
func TestAGuardWithoutItsSocketHasNotEnded(t *testing.T) {
	w, _ := started(t, "fake")
	c := w.connect()
	if err := os.Remove(c.Record.Socket); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Connect(within(t), w.dir); err == nil || errors.Is(err, guard.ErrGone) || !strings.Contains(err.Error(), c.Record.Socket) {
		t.Errorf("a guard that runs: %v", err)
	}
	if s := proc.ID(c.Record.Process).State(); s != proc.Alive {
		t.Fatalf("the guard is %v", s)
	}
	if err := proc.ID(c.Record.Process).Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := proc.ID(c.Record.Process).Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Connect(within(t), w.dir); !errors.Is(err, guard.ErrGone) {
		t.Errorf("a guard that was killed: %v", err)
	}
}
