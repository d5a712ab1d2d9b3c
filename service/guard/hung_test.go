//go:build linux

package guard_test

import (
	"encoding/binary"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// hang mounts over folder what answers to nothing, as a network mount does whose
// server is gone. asked waits for somebody who waits for an answer there, and
// undo takes the mount away.
func hang(t *testing.T, folder string) (asked, undo func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no mount that hangs can be made here: open /dev/fuse: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, unix.Getuid(), unix.Getgid())
	if err := unix.Mount("hung", folder, "fuse", 0, options); err != nil {
		_ = unix.Close(fd)
		t.Skipf("no mount that hangs can be made here: %v", err)
	}
	// A shell takes the mount away, so that it never stays behind a test that
	// runs out of time.
	away := exec.Command("sh", "-c", `read x; exec umount -l "$0"`, folder)
	word, err := away.StdinPipe()
	if err == nil {
		err = away.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	undo = sync.OnceFunc(func() {
		_ = unix.Close(fd) // what hangs there gets an error now
		_ = word.Close()
		if err := away.Wait(); err != nil {
			t.Errorf("take the mount away: %v", err)
		}
	})
	t.Cleanup(undo)
	// The kernel's greeting is answered and nothing after it, which stays
	// unread: who waits for what was read can't even be killed.
	asked = func() {
		t.Helper()
		for begin := time.Now(); ; {
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(p, 1000); n == 1 {
				return
			} else if err != nil && err != unix.EINTR {
				t.Fatal(err)
			}
			if time.Since(begin) > patience {
				t.Fatal("nobody looks at the folder")
			}
		}
	}
	asked()
	greeting := make([]byte, 64<<10)
	if _, err := unix.Read(fd, greeting); err != nil {
		t.Fatal(err)
	}
	order := binary.NativeEndian
	answer := make([]byte, 80)
	order.PutUint32(answer[0:], uint32(len(answer)))
	copy(answer[8:16], greeting[8:16]) // of this request
	order.PutUint32(answer[16:], 7)    // the protocol,
	order.PutUint32(answer[20:], 31)   // its minor version,
	order.PutUint32(answer[36:], 4096) // the longest write,
	order.PutUint32(answer[40:], 1)    // and the grain of times
	if _, err := unix.Write(fd, answer); err != nil {
		t.Fatal(err)
	}
	return asked, undo
}

// A checkout that hangs holds up neither the deadline nor what the service asks.
func TestHungCheckout(t *testing.T) {
	t.Parallel()
	w := spawn(t)
	w.launch.Bridge = &wire.Bridge{Provider: "codex", Execution: "x-1"} // has files to take away at the end
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	w.turn(c, `echo $$ >child; echo begun; while true; do sleep 1; done`)
	next(t, c, wire.KindText)
	child := w.pidIn("child")
	asked, _ := hang(t, w.folder)
	asked()
	c, res := w.claim(2)
	if res.Phase != "turn" {
		t.Fatalf("%+v", res)
	}
	w.shift(time.Hour, time.Hour)
	if fin := finished(t, c); fin.Outcome != "timed_out" {
		t.Fatalf("%+v", fin)
	}
	if child.State() == proc.Alive {
		t.Errorf("%v of the turn runs on after its end", child)
	}
	if end := data[wire.SessionEnded](t, next(t, c, wire.KindSessionEnded)); end.Reason != "deadline" || len(end.Left) > 0 {
		t.Fatalf("%+v", end)
	}
	_ = c.Close()
	<-w.proc.Done()
	if w.proc.Exit() != 0 {
		t.Fatalf("exit %d", w.proc.Exit())
	}
}

// Nothing is started in a checkout that hangs, and later it can be.
func TestNoTurnInAHungCheckout(t *testing.T) {
	t.Parallel()
	w := spawn(t)
	c, _ := w.claim(1)
	_, undo := hang(t, w.folder)
	code(t, c.Start(within(t), wire.StartParams{Launch: w.launch}), wire.CodeInvalidParams)
	undo()
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	_, undo = hang(t, w.folder)
	w.turn(c, "true")
	if fin := finished(t, c); fin.Outcome != "failed" || fin.Code != "local_execution_failure" || !fin.Retryable {
		t.Fatalf("%+v", fin)
	}
	undo()
	w.turn(c, "true")
	if fin := finished(t, c); fin.Outcome != "succeeded" {
		t.Fatalf("%+v", fin)
	}
}
