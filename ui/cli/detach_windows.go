package cli

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// detach lets the program live without this console. It gets one without a
// window, which is its children's as well: without any, each of them, such as
// every git, would open a window of its own.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
}

// exited reports whether the child has ended, and with which code. It does not
// wait.
func exited(p *os.Process) (code int, ended bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(p.Pid))
	if err != nil {
		return 0, false
	}
	defer func() { _ = windows.CloseHandle(h) }()
	if e, err := windows.WaitForSingleObject(h, 0); err != nil || e != windows.WAIT_OBJECT_0 {
		return 0, false
	}
	var status uint32
	if windows.GetExitCodeProcess(h, &status) != nil {
		return 0, true
	}
	return int(status), true
}
