package proc

import (
	"fmt"
	"os"
)

// Program returns the file that a process runs, as the kernel reports it, not as
// the process calls itself. On Linux that works even after an update has removed
// the file or put another in its place.
func Program(pid int) (os.FileInfo, error) {
	info, err := programOf(pid)
	if err != nil {
		return nil, fmt.Errorf("find the program of process %d: %w", pid, err)
	}
	return info, nil
}
