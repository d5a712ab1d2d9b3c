//go:build unix

package service

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/sock"
)

// What the service runs, such as an agent's program for its version, is chosen
// by who can write into a PATH. It speaks for nobody, and the service itself is
// no worker.
func TestWhatTheServiceRunsIsNoPerson(t *testing.T) {
	h := newHouse(t)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	if a := h.s.Actor(sock.Peer{PID: cmd.Process.Pid}); !a.Worker || !strings.Contains(a.Why, "the service") {
		t.Errorf("a program that it runs: %+v", a)
	}
	if a := h.s.Actor(sock.Peer{PID: os.Getpid()}); a.Worker {
		t.Errorf("the service itself: %+v", a)
	}
}
