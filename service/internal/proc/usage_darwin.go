package proc

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rusageInfo is rusage_info_v0 of sys/resource.h.
type rusageInfo struct {
	UUID                                    [16]byte
	User, System                            uint64 // in ticks of the processor's clock
	IdleWakeups, InterruptWakeups, PageIns  uint64
	Wired, Resident, Footprint, Start, Exit uint64
}

func rusageOf(pid int) (rusageInfo, error) {
	const pidRusage, infoV0 = 9, 0 // PROC_INFO_CALL_PIDRUSAGE, RUSAGE_INFO_V0
	var r rusageInfo
	if _, _, errno := unix.Syscall6(unix.SYS_PROC_INFO, pidRusage, uintptr(pid), infoV0, 0, uintptr(unsafe.Pointer(&r)), 0); errno != 0 {
		if errno == unix.ESRCH {
			return r, ErrGone
		}
		return r, errno
	}
	return r, nil
}

var clockFrequency = sync.OnceValues(func() (uint64, error) { return unix.SysctlUint64("hw.tbfrequency") })

// Usage measures the members. Memory is what Activity Monitor shows as such.
func (t *Tree) Usage() (Usage, error) {
	members, err := t.Members()
	if err != nil {
		return Usage{}, fmt.Errorf("measure the tree: %w", err)
	}
	frequency, err := clockFrequency()
	if err != nil || frequency == 0 {
		return Usage{}, fmt.Errorf("measure the tree: read the frequency of the clock: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := Usage{Processes: len(members)}
	for _, id := range members {
		r, err := rusageOf(id.PID)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return Usage{}, fmt.Errorf("measure %v: %w", id, err)
		}
		u.Memory += int64(r.Footprint)
		t.spent[id] = time.Duration(float64(r.User+r.System) / float64(frequency) * float64(time.Second))
	}
	for _, d := range t.spent { // those that have ended as they were last seen
		u.CPU += d
	}
	u.Peak = max(u.Memory, t.peak)
	t.peak = u.Peak
	return u, nil
}

// LimitMemory limits the memory of all members together, and says what
// enforces it: "cgroup", "job", or "" when nothing does and only a watch on
// Usage can, as always on macOS.
func (t *Tree) LimitMemory(bytes int64) (by string, err error) {
	if bytes <= 0 {
		return "", fmt.Errorf("limit the memory of the tree to %d bytes: it must be more", bytes)
	}
	return "", nil
}
