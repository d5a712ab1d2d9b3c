//go:build unix

package demo

import (
	"os/exec"
	"syscall"
)

// spawn leaves a process in a session of its own, as a careless tool would.
func spawn() (int, error) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// shell is the program that runs shell scripts.
func shell() string { return "sh" }
