package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	sigInterrupt = syscall.SIGINT
	sigTerm      = syscall.SIGTERM
)

// Tree is everything that one process started. On Windows a job object holds
// it: members cannot leave, and the system ends them when the last handle on
// the job closes, which happens when this process dies.
type Tree struct {
	job  windows.Handle
	name string

	mu      sync.Mutex // guards what follows
	started map[int]uint64
	closed  bool
}

// NewTreeWith is NewTree with options.
func NewTreeWith(name string, opt Options) (*Tree, error) {
	if name == "" || name != filepath.Base(name) {
		return nil, fmt.Errorf("make a process tree: %q cannot be a file name", name)
	}
	full := `Local\reeve-` + name
	if opt.keeper {
		full += "-keeper" // the guard makes the other one, inside this one
	}
	n, err := windows.UTF16PtrFromString(full)
	if err != nil {
		return nil, fmt.Errorf("make a process tree: %w", err)
	}
	job, err := windows.CreateJobObject(nil, n)
	if err != nil {
		return nil, fmt.Errorf("make the job %s: %w", full, err)
	}
	if err := limitJob(job, 0); err != nil {
		_ = windows.CloseHandle(job)
		return nil, fmt.Errorf("limit the job %s: %w", full, err)
	}
	return &Tree{job: job, name: full, started: make(map[int]uint64)}, nil
}

// Method says how members are held together: "job" here.
func (t *Tree) Method() string { return "job" }

// Cgroup is the name of the job. It fits Guarded.Cgroups.
func (t *Tree) Cgroup() string { return t.name }

// Start starts cmd as a member, in a process group of its own, and returns its
// identity. It is born suspended and goes on once it is in the job. The caller
// waits for cmd, as after cmd.Start.
func (t *Tree) Start(cmd *exec.Cmd) (ID, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_SUSPENDED
	id, err := t.start(cmd)
	if err != nil {
		return ID{}, err
	}
	if err := t.enter(id); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return ID{}, fmt.Errorf("put %v into the job: %w", id, err)
	}
	return id, nil
}

func (t *Tree) enter(id ID) error {
	h, err := handleOf(id, windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	if err := windows.AssignProcessToJobObject(t.job, h); err != nil {
		return err
	}
	return resume(uint32(id.PID))
}

// resume lets the one thread of a suspended process run.
func resume(pid uint32) error {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(snap)
	e := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snap, &e); err == nil; err = windows.Thread32Next(snap, &e) {
		if e.OwnerProcessID != pid {
			continue
		}
		th, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, e.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(th)
		_ = windows.CloseHandle(th)
		return err
	}
	return fmt.Errorf("find its first thread: %w", err)
}

// maxMembers is how many members one question to the job can list.
const maxMembers = 4096

// Members lists the live members, sorted by pid; this process is none.
func (t *Tree) Members() ([]ID, error) {
	var list struct {
		Assigned, Listed uint32
		PIDs             [maxMembers]uintptr
	}
	const basicProcessIDList = 3 // JobObjectBasicProcessIdList
	if err := windows.QueryInformationJobObject(t.job, basicProcessIDList,
		uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil); err != nil {
		return nil, fmt.Errorf("list the members of the job %s: %w", t.name, err)
	}
	var ids []ID
	for _, pid := range list.PIDs[:min(list.Listed, maxMembers)] {
		if info, err := look(int(pid)); err == nil && !info.zombie {
			ids = append(ids, info.ID)
		}
	}
	return sortIDs(ids), nil
}

// empty adds nothing to a look that found no members.
func (t *Tree) empty() bool { return true }

func (t *Tree) killAll() { _ = windows.TerminateJobObject(t.job, 1) }

func (t *Tree) killGroup() bool { return false }

func waitAny(ctx context.Context, ids []ID, d time.Duration) {
	_ = waitHandles(ctx, ids, uint32(d/time.Millisecond))
}

// Close gives the job up, which ends what is left in it.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	if err := windows.CloseHandle(t.job); err != nil {
		return fmt.Errorf("close the job %s: %w", t.name, err)
	}
	return nil
}

func askToEnd(id ID) error { return id.Signal(os.Interrupt) }

// Wake does nothing: there is no signal that stops a process here.
func Wake(ID) {}

func exitCode(st *os.ProcessState) int { return st.ExitCode() }

// EndGroup does nothing here: there are no control groups. On Windows the
// kernel ends a job's members with its last handle.
func EndGroup(context.Context, string) ([]ID, error) { return nil, nil }
