package demo

import (
	"os/exec"
	"syscall"
)

// spawn leaves a process in a group of its own, as a careless tool would.
func spawn() (int, error) {
	cmd := exec.Command("ping", "-n", "600", "127.0.0.1")
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release()
}
