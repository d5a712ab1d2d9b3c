package proc

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// PhysicalMemory is how much memory the machine has, in bytes, whoever uses it.
func PhysicalMemory() (int64, error) {
	// MEMORYSTATUSEX
	var status struct {
		length, load             uint32
		physical, freePhysical   uint64
		pageFile, freePageFile   uint64
		virtual, freeVirtual     uint64
		freeExtendedVirtualBytes uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return int64(status.physical), nil
}
