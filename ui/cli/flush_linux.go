package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops what was typed on a terminal and not read yet. On anything else
// it does nothing.
func flush(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
