package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops what was typed on a terminal and not read yet. On anything else
// it does nothing. 1 is FREAD: the input's queue alone.
func flush(f *os.File) { _ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, 1) }
