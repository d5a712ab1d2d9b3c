package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// bootKey lives in the user's part of the registry, and in memory only.
const bootKey = `Software\ReeveBoot`

var procRegCreateKey = windows.NewLazySystemDLL("advapi32.dll").NewProc("RegCreateKeyExW")

// bootID tells boots apart, which start times need not: they are absolute here.
// Windows counts its boots only where it prefetches. So it is when a key was
// made that whoever asks first makes and that does not outlive the boot, nor
// the user's last session, with which all processes of the user end.
var bootID = sync.OnceValues(func() (string, error) {
	name, err := windows.UTF16PtrFromString(bootKey)
	if err != nil {
		return "", err
	}
	const volatile = 1 // REG_OPTION_VOLATILE
	var k registry.Key
	code, _, _ := procRegCreateKey.Call(uintptr(registry.CURRENT_USER), uintptr(unsafe.Pointer(name)), 0, 0, volatile, registry.QUERY_VALUE, 0, uintptr(unsafe.Pointer(&k)), 0)
	if code != 0 {
		return "", fmt.Errorf("make the registry key %s: %w", bootKey, windows.Errno(code))
	}
	defer k.Close()
	info, err := k.Stat()
	if err != nil {
		return "", fmt.Errorf("read the registry key %s: %w", bootKey, err)
	}
	return strconv.FormatInt(info.ModTime().UnixNano(), 10), nil
})

// sinceBoot is GetTickCount64, which counts sleep.
func sinceBoot() (time.Duration, error) { return windows.DurationSinceBoot(), nil }

// now is this moment in the unit of start times.
func now() (uint64, error) {
	t := windows.NsecToFiletime(time.Now().UnixNano())
	return uint64(t.HighDateTime)<<32 | uint64(t.LowDateTime), nil
}

const (
	lookAccess = windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.SYNCHRONIZE
)

func openProcess(pid int, access uint32) (windows.Handle, error) {
	h, err := windows.OpenProcess(access, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return 0, ErrGone
	}
	return h, err
}

func look(pid int) (Info, error) {
	if pid <= 0 {
		return Info{}, ErrGone
	}
	h, err := openProcess(pid, lookAccess)
	if err != nil {
		return Info{}, err
	}
	defer windows.CloseHandle(h)
	return lookHandle(h, pid)
}

// basicInfo is PROCESS_BASIC_INFORMATION.
type basicInfo struct {
	ExitStatus      uintptr
	PebBaseAddress  uintptr
	AffinityMask    uintptr
	BasePriority    uintptr
	UniqueProcessID uintptr
	ParentID        uintptr
}

func lookHandle(h windows.Handle, pid int) (Info, error) {
	boot, err := bootID()
	if err != nil {
		return Info{}, fmt.Errorf("read the boot id: %w", err)
	}
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return Info{}, err
	}
	info := Info{ID: ID{PID: pid, Start: uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime), BootID: boot}}
	ev, err := windows.WaitForSingleObject(h, 0)
	info.zombie = err == nil && ev == windows.WAIT_OBJECT_0
	var basic basicInfo
	if err := windows.NtQueryInformationProcess(h, windows.ProcessBasicInformation, unsafe.Pointer(&basic), uint32(unsafe.Sizeof(basic)), nil); err == nil {
		info.PPID = int(basic.ParentID)
	}
	// Windows keeps the parent's pid after the parent has ended. A "parent"
	// that is younger than its child is another process with that pid.
	if p, err := openProcess(info.PPID, lookAccess); err == nil {
		if windows.GetProcessTimes(p, &created, &exited, &kernel, &user) != nil ||
			uint64(created.HighDateTime)<<32|uint64(created.LowDateTime) > info.Start {
			info.PPID = 0
		}
		_ = windows.CloseHandle(p)
	} else {
		info.PPID = 0
	}
	return info, nil
}

// detail reads the program. Membership in a worker is told by its job, which
// cannot be left, so neither session nor environment is needed.
func detail(info *Info) {
	info.envRead = true
	h, err := openProcess(info.PID, lookAccess)
	if err != nil {
		return
	}
	defer windows.CloseHandle(h)
	buf := make([]uint16, windows.MAX_LONG_PATH)
	n := uint32(len(buf))
	if windows.QueryFullProcessImageName(h, 0, &buf[0], &n) == nil {
		info.Exe = windows.UTF16ToString(buf[:n])
	}
}

// handleOf opens the process and proves that it is id.
func handleOf(id ID, access uint32) (windows.Handle, error) {
	h, err := openProcess(id.PID, access|lookAccess)
	if err != nil {
		return 0, err
	}
	info, err := lookHandle(h, id.PID)
	if err == nil && (info.ID != id || info.zombie) {
		err = ErrGone
	}
	if err != nil {
		_ = windows.CloseHandle(h)
		return 0, err
	}
	return h, nil
}

func signalID(id ID, sig os.Signal) error {
	switch sig {
	case os.Kill:
		h, err := handleOf(id, windows.PROCESS_TERMINATE)
		if err != nil {
			return err
		}
		defer windows.CloseHandle(h)
		return windows.TerminateProcess(h, 1)
	case os.Interrupt:
		h, err := handleOf(id, 0)
		if err != nil {
			return err
		}
		defer windows.CloseHandle(h)
		return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(id.PID))
	}
	return fmt.Errorf("%v is no signal of this system", sig)
}

func waitID(ctx context.Context, id ID) error { return waitHandles(ctx, []ID{id}, windows.INFINITE) }

// waitHandles waits until one of ids has ended, ctx ends, or ms milliseconds
// have passed.
func waitHandles(ctx context.Context, ids []ID, ms uint32) error {
	wake, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return err
	}
	handles := []windows.Handle{wake}
	defer func() {
		for _, h := range handles {
			_ = windows.CloseHandle(h)
		}
	}()
	for _, id := range ids[:min(len(ids), 63)] { // the system waits for 64 at most
		h, err := handleOf(id, 0)
		if errors.Is(err, ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		handles = append(handles, h)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = windows.SetEvent(wake)
	})
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	ev, err := windows.WaitForMultipleObjects(handles, false, ms)
	if err != nil {
		return err
	}
	if ev == windows.WAIT_OBJECT_0 {
		return ctx.Err()
	}
	return nil
}

func handleAlive(*os.File, int) bool { return true }

var procIsProcessInJob = windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob")
var procOpenJobObject = windows.NewLazySystemDLL("kernel32.dll").NewProc("OpenJobObjectW")

const jobQuery = 0x0004 // JOB_OBJECT_QUERY

// inJob says whether pid belongs to the job of one of the guards. A job that no
// longer exists has no members.
func inJob(pid int, guards []Guarded) (bool, error) {
	h, err := openProcess(pid, windows.PROCESS_QUERY_INFORMATION)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		h, err = openProcess(pid, lookAccess) // enough, but for Wine
	}
	if err != nil {
		return false, err
	}
	defer windows.CloseHandle(h)
	for _, g := range guards {
		for _, name := range g.Cgroups {
			n, err := windows.UTF16PtrFromString(name)
			if err != nil {
				return false, err
			}
			job, _, err := procOpenJobObject.Call(jobQuery, 0, uintptr(unsafe.Pointer(n)))
			if job == 0 {
				if errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
					continue
				}
				return false, err
			}
			var in int32
			ok, _, err := procIsProcessInJob.Call(uintptr(h), job, uintptr(unsafe.Pointer(&in)))
			_ = windows.CloseHandle(windows.Handle(job))
			if ok == 0 {
				return false, err
			}
			if in != 0 {
				return true, nil
			}
		}
	}
	return false, nil
}
