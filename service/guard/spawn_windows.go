package guard

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached puts the keeper in a group of its own, out of reach of the signals of
// the service, and gives it a console without a window. The guard and what it
// starts share that, or each would open a window and none could be interrupted.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
}
