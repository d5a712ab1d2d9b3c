package proc

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// programOf asks for the path of the file that is mapped: what the arguments of
// the process say, it can change.
func programOf(pid int) (os.FileInfo, error) {
	const pidInfo, pathInfo = 2, 11 // PROC_INFO_CALL_PIDINFO, PROC_PIDPATHINFO
	var path [4096]byte             // PROC_PIDPATHINFO_MAXSIZE
	if _, _, errno := unix.Syscall6(unix.SYS_PROC_INFO, pidInfo, uintptr(pid), pathInfo, 0, uintptr(unsafe.Pointer(&path[0])), uintptr(len(path))); errno != 0 {
		if errno == unix.ESRCH {
			return nil, ErrGone
		}
		return nil, errno
	}
	return os.Stat(unix.ByteSliceToString(path[:]))
}
