//go:build unix

package cli

import (
	"os"
	"os/exec"
	"syscall"
)

// detach gives the program a session of its own, so that it outlives the
// terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// exited reports whether the child has ended, and with which code. It does not
// wait.
func exited(p *os.Process) (code int, ended bool) {
	var ws syscall.WaitStatus
	pid, err := syscall.Wait4(p.Pid, &ws, syscall.WNOHANG, nil)
	if err != nil || pid != p.Pid {
		return 0, false
	}
	return ws.ExitStatus(), true
}
