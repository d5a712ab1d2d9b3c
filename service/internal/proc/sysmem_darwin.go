package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// PhysicalMemory is how much memory the machine has, in bytes, whoever uses it.
func PhysicalMemory() (int64, error) {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return int64(n), nil
}
