package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// flush drops what was typed on a console and not read yet. On anything else it
// does nothing.
func flush(f *os.File) { _ = windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())) }
