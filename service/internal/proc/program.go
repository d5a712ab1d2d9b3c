package proc

import (
	"fmt"
	"os"
)

// Program finds the file that a process runs, by the kernel's word: not by a
// name that the process gives itself. On Linux it is found when it has no name
// any more, too, after an update.
func Program(pid int) (os.FileInfo, error) {
	info, err := programOf(pid)
	if err != nil {
		return nil, fmt.Errorf("find the program of process %d: %w", pid, err)
	}
	return info, nil
}
