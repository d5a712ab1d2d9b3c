package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// shell finds sh, which Git for Windows brings along without naming it in PATH.
func shell() string {
	if _, err := exec.LookPath("sh"); err == nil {
		return "sh"
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return "sh"
	}
	// git is in cmd or in mingw64\bin.
	for dir := filepath.Dir(git); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		sh := filepath.Join(dir, "bin", "sh.exe")
		if _, err := os.Stat(sh); err == nil {
			return sh
		}
	}
	return "sh"
}

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
