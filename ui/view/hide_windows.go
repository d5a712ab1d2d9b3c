package view

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// hide keeps a program of the command line from opening a window, which it does
// when a program without a console starts it.
func hide(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
}
