// Package proc knows processes by identity, not by number: who a process is,
// what it descends from, which processes belong to one worker, and how to end
// them all. Nothing here ever acts on a process name.
//
// A process is named by its pid together with its start time and the boot it
// lives in, because pids are used again. Signals go through a handle of the
// kernel (a pidfd on Linux) that is opened first and checked afterwards, so
// that a successor with the same pid is never hit.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// ErrGone says that the process with this identity no longer exists. Another
// one may have its pid.
var ErrGone = errors.New("the process is gone")

// ID is the identity of a process. Two IDs name the same process exactly when
// they are equal.
type ID struct {
	PID int `json:"pid"`
	// Start is when the process began, in the platform's own unit: clock ticks
	// since boot on Linux, microseconds since 1970 on macOS, 100 ns since 1601
	// on Windows. It is only ever compared for equality and order.
	Start uint64 `json:"start"`
	// BootID names the boot of the machine during which the process ran.
	BootID string `json:"boot_id"`
}

// String shows the pid and start time, for logs.
func (id ID) String() string { return fmt.Sprintf("pid %d (start %d)", id.PID, id.Start) }

// Liveness is what is known about a process.
type Liveness int

const (
	// Unknown: the system would not say. Never treat it as Gone.
	Unknown Liveness = 0
	// Alive: exactly this process runs.
	Alive Liveness = 1
	// Gone: it ended, is a zombie, or its pid belongs to another process.
	Gone Liveness = 2
)

// String is "unknown", "alive" or "gone".
func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// Self identifies the calling process.
func Self() (ID, error) { return Identify(os.Getpid()) }

// Identify identifies the process that has this pid now. It fails with ErrGone
// when there is none; a zombie still has an identity.
func Identify(pid int) (ID, error) {
	info, err := look(pid)
	if err != nil {
		return ID{}, err
	}
	return info.ID, nil
}

// State says whether exactly this process still runs.
func (id ID) State() Liveness {
	if id.PID <= 0 {
		return Gone
	}
	boot, err := bootID()
	if err != nil {
		return Unknown
	}
	if boot != id.BootID {
		return Gone
	}
	info, err := look(id.PID)
	switch {
	case errors.Is(err, ErrGone):
		return Gone
	case err != nil:
		return Unknown
	case info.ID != id || info.zombie:
		return Gone
	}
	return Alive
}

// Signal sends sig to exactly this process. It fails with ErrGone when the
// process ended, and with the system's error when it may not be signalled. On
// Windows only os.Kill and os.Interrupt (CTRL_BREAK to its group) exist.
func (id ID) Signal(sig os.Signal) error {
	if err := signalID(id, sig); err != nil {
		return fmt.Errorf("signal %v to %v: %w", sig, id, err)
	}
	return nil
}

// Wait returns nil when the process has ended (a zombie has), or the error of
// ctx. It sleeps in the kernel and does not poll. It does not reap.
func (id ID) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if id.State() == Gone {
		return nil
	}
	return waitID(ctx, id)
}

// BootTime is the time since the machine booted, sleep included, and the id of
// this boot. A deadline kept in boot time does not move when the wall clock is
// set, and a sleeping laptop cannot stretch it.
func BootTime() (time.Duration, string, error) {
	d, err := sinceBoot()
	if err != nil {
		return 0, "", fmt.Errorf("read the boot clock: %w", err)
	}
	id, err := bootID()
	if err != nil {
		return 0, "", fmt.Errorf("read the boot id: %w", err)
	}
	return d, id, nil
}

// Info describes a process at one moment. Fields that the platform does not
// have, or does not let this user read, are empty.
type Info struct {
	ID
	PPID, SID, PGID int
	// Exe is the path of the program, Comm its short name, TTY its terminal as
	// a path ("" without one). They are for people to read, never for decisions.
	Exe, Comm, TTY string
	// Cgroup is the path in the cgroup v2 tree as /proc shows it (Linux).
	Cgroup string
	// PidNS and MntNS name the namespaces of pids and of mounts (Linux); "" when
	// they may not be read.
	PidNS, MntNS string

	zombie  bool
	cpu     time.Duration // its own and that of children it waited for (Linux)
	attempt string        // value of AttemptVar in its environment
	guards  string        // value of GuardVar in its environment
	envRead bool          // its environment could be read
}

// AttemptVar is the environment variable with which every process below a
// guard is marked. It is one sign among several: a worker can remove it.
const AttemptVar = "REEVE_ATTEMPT"

// GuardVar is the environment variable by which keepers and guards are known to
// whoever has no record of them, such as the guard of another worker. Workers
// don't inherit it, and can't take it off those that have it.
const GuardVar = "REEVE_GUARD"

// Inspect describes the process that has this pid now, or fails with ErrGone.
func Inspect(pid int) (Info, error) {
	info, err := look(pid)
	if err != nil {
		return Info{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	detail(&info)
	again, err := look(pid)
	if err != nil || again.ID != info.ID {
		return Info{}, fmt.Errorf("look at process %d: %w", pid, ErrGone)
	}
	return info, nil
}

// errShifting says that parents kept changing while they were being read.
var errShifting = errors.New("its ancestors kept changing while they were read")

// Ancestors lists the process itself, its parent, and so on up to the root.
// When a process on the way ends meanwhile it starts again, a few times.
func Ancestors(pid int) ([]Info, error) {
	for range 5 {
		chain, err := climb(pid, Inspect)
		if err == nil {
			return chain, nil
		}
		if !errors.Is(err, errShifting) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("ancestors of process %d: %w", pid, errShifting)
}

// climb reads one chain and proves that it held for a moment: no parent is
// younger than its child, and no link changed until the top was reached.
func climb(pid int, inspect func(int) (Info, error)) ([]Info, error) {
	var chain []Info
	for next := pid; next > 0; {
		info, err := inspect(next)
		if err != nil {
			if len(chain) > 0 && errors.Is(err, ErrGone) {
				return nil, errShifting
			}
			return nil, err
		}
		if n := len(chain); n > 0 && info.Start > chain[n-1].Start {
			return nil, errShifting
		}
		chain = append(chain, info)
		if len(chain) > 4096 {
			return nil, errShifting
		}
		next = info.PPID
		if info.PPID == info.PID {
			break
		}
	}
	for _, info := range chain {
		again, err := inspect(info.PID)
		if err != nil || again.ID != info.ID || again.PPID != info.PPID {
			return nil, errShifting
		}
	}
	return chain, nil
}

// StopPlan says when each signal is sent, measured from the call of Stop.
// New members that appear later get the signal of the step that is current.
type StopPlan struct {
	Interrupt, Term, Kill time.Duration
}

// DefaultStop interrupts at once, terminates after 3 s and kills after 8 s.
var DefaultStop = StopPlan{Interrupt: 0, Term: 3 * time.Second, Kill: 8 * time.Second}

// Options change how a Tree works.
type Options struct {
	// Scope asks the systemd user manager for a scope of its own for this
	// process and all that it will start (Linux). Where there is no such
	// manager, or it refuses, the tree is held together another way: see
	// Tree.Method.
	Scope bool
	// NoCgroup keeps a Tree to the subreaper way even where a cgroup could be
	// made.
	NoCgroup bool

	// keeper: a guard that this process starts makes the tree's group.
	keeper bool
}

// NewTree prepares this process to own the processes that it will start and
// everything that comes from them. One process has at most one Tree, and from
// then on starts programs only with Tree.Start: what it did not start itself
// counts as adopted, and is reaped and stopped with the tree.
//
// name must be usable as a file name and have no dot; it appears in the
// cgroup's or job's name. A process that lives in the scope of that name puts
// what it starts there.
func NewTree(name string) (*Tree, error) { return NewTreeWith(name, Options{}) }

// start is shared by the platforms: one lock spans fork and registration, so
// that the reaper never takes an exit status that cmd.Wait should get.
func (t *Tree) start(cmd *exec.Cmd) (ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ID{}, errors.New("start a process in a closed tree: make a new tree first")
	}
	if err := cmd.Start(); err != nil {
		return ID{}, err
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		// A process whose identity cannot be recorded could not be stopped
		// safely later, so it does not live.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return ID{}, fmt.Errorf("record the identity of the new process %d: %w", cmd.Process.Pid, err)
	}
	t.started[id.PID] = id.Start
	return id, nil
}
