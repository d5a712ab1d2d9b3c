package proc

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// jobAccounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION of winnt.h. Times
// are in 100 ns.
type jobAccounting struct {
	TotalUserTime, TotalKernelTime, ThisPeriodUserTime, ThisPeriodKernelTime   int64
	TotalPageFaults, TotalProcesses, ActiveProcesses, TotalTerminatedProcesses uint32
}

// memoryCounters is PROCESS_MEMORY_COUNTERS_EX of psapi.h.
type memoryCounters struct {
	Size, PageFaults                          uint32
	PeakWorkingSet, WorkingSet                uintptr
	PeakPagedPool, PagedPool                  uintptr
	PeakNonPagedPool, NonPagedPool            uintptr
	PagefileUsage, PeakPagefileUsage, Private uintptr
}

var procGetProcessMemoryInfo = windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")

// Usage measures the members. Memory is what they have committed, which is
// what LimitMemory limits.
func (t *Tree) Usage() (Usage, error) {
	var a jobAccounting
	var l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	for _, q := range []struct {
		class int32
		into  unsafe.Pointer
		size  uintptr
	}{
		{windows.JobObjectBasicAccountingInformation, unsafe.Pointer(&a), unsafe.Sizeof(a)},
		{windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&l), unsafe.Sizeof(l)},
	} {
		if err := windows.QueryInformationJobObject(t.job, q.class, uintptr(q.into), uint32(q.size), nil); err != nil {
			return Usage{}, fmt.Errorf("measure the job %s: %w", t.name, err)
		}
	}
	u := Usage{
		CPU:       time.Duration(a.TotalUserTime+a.TotalKernelTime) * 100,
		Peak:      int64(l.PeakJobMemoryUsed),
		Processes: int(a.ActiveProcesses),
	}
	members, err := t.Members()
	if err != nil {
		return Usage{}, err
	}
	for _, id := range members {
		h, err := handleOf(id, windows.PROCESS_QUERY_INFORMATION)
		if err != nil {
			continue // it has ended
		}
		m := memoryCounters{Size: uint32(unsafe.Sizeof(memoryCounters{}))}
		if ok, _, _ := procGetProcessMemoryInfo.Call(uintptr(h), uintptr(unsafe.Pointer(&m)), uintptr(m.Size)); ok != 0 {
			u.Memory += int64(m.Private)
		}
		_ = windows.CloseHandle(h)
	}
	u.Peak = max(u.Peak, u.Memory)
	return u, nil
}

// LimitMemory limits the memory of all members together, and says what
// enforces it: "cgroup", "job", or "" when nothing does and only a watch on
// Usage can. A job's members are refused memory beyond it.
func (t *Tree) LimitMemory(bytes int64) (by string, err error) {
	if bytes <= 0 {
		return "", fmt.Errorf("limit the memory of the job %s to %d bytes: it must be more", t.name, bytes)
	}
	if err := limitJob(t.job, uintptr(bytes)); err != nil {
		return "", fmt.Errorf("limit the memory of the job %s: %w", t.name, err)
	}
	return "job", nil
}

// limitJob has the members of a job end with it, and limits their memory
// unless memory is 0. Each call replaces what the last one set.
func limitJob(job windows.Handle, memory uintptr) error {
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{JobMemoryLimit: memory}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if memory > 0 {
		limits.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_JOB_MEMORY
	}
	_, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	return err
}
