package guard

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached puts the keeper in a group of its own and without a console, out of
// reach of the signals of the service.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}
