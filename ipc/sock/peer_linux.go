package sock

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// soPeerPidfd is SO_PEERPIDFD of Linux 6.5, which x/sys does not name.
const soPeerPidfd = 77

func peerOfFD(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	p := Peer{UID: strconv.FormatUint(uint64(cred.Uid), 10), PID: int(cred.Pid)}
	// Older kernels do not have it, and for a dead peer there may be none.
	if h, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, soPeerPidfd); err == nil && h >= 0 {
		unix.CloseOnExec(h)
		p.Pidfd = os.NewFile(uintptr(h), "peer")
	}
	return p, nil
}
