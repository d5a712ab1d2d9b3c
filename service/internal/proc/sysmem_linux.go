package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// PhysicalMemory is how much memory the machine has, in bytes, whoever uses it.
func PhysicalMemory() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit)), nil
}
