package proc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var bootID = sync.OnceValues(func() (string, error) {
	return unix.Sysctl("kern.bootsessionuuid")
})

// sinceBoot counts from the boot time that the kernel keeps, which it moves
// along when the wall clock is set; so the difference includes sleep and does
// not jump with the clock.
func sinceBoot() (time.Duration, error) {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return 0, err
	}
	return time.Since(time.Unix(boot.Unix())), nil
}

// now is this moment in the unit of start times.
func now() (uint64, error) { return uint64(time.Now().UnixMicro()), nil }

// zombieState is SZOMB of sys/proc.h.
const zombieState = 5

func look(pid int) (Info, error) {
	if pid <= 0 {
		return Info{}, ErrGone
	}
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		// An empty answer, as for a pid that nobody has, is reported as EIO.
		if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) {
			return Info{}, ErrGone
		}
		return Info{}, err
	}
	return fromKinfo(k)
}

func fromKinfo(k *unix.KinfoProc) (Info, error) {
	boot, err := bootID()
	if err != nil {
		return Info{}, fmt.Errorf("read the boot id: %w", err)
	}
	start := k.Proc.P_starttime
	info := Info{
		ID:     ID{PID: int(k.Proc.P_pid), Start: uint64(start.Sec)*1e6 + uint64(start.Usec), BootID: boot},
		PPID:   int(k.Eproc.Ppid),
		PGID:   int(k.Eproc.Pgid),
		Comm:   unix.ByteSliceToString(k.Proc.P_comm[:]),
		zombie: k.Proc.P_stat == zombieState,
	}
	if info.PID == 0 {
		return Info{}, ErrGone
	}
	info.SID, _ = unix.Getsid(info.PID)
	if k.Eproc.Tdev != -1 {
		info.TTY = "terminal " + strconv.Itoa(int(k.Eproc.Tdev))
	}
	return info, nil
}

// detail reads program and environment from the argument area of the process:
// a count, the program, padding, the arguments, the environment.
func detail(info *Info) {
	b, err := unix.SysctlRaw("kern.procargs2", info.PID)
	if err != nil || len(b) < 4 {
		return
	}
	argc := int(binary.NativeEndian.Uint32(b))
	exe, rest, ok := bytes.Cut(b[4:], []byte{0})
	if !ok {
		return
	}
	info.Exe = string(exe)
	rest = bytes.TrimLeft(rest, "\x00")
	for range argc {
		if _, rest, ok = bytes.Cut(rest, []byte{0}); !ok {
			return
		}
	}
	info.envRead = true
	marksIn(rest, info)
}

// signalID checks as late as it can. macOS has no handle on a process that
// could be signalled, so a pid that is used again within microseconds is a
// limit here.
func signalID(id ID, sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("%v is no signal of this system", sig)
	}
	info, err := look(id.PID)
	if err != nil {
		return err
	}
	if info.ID != id {
		return ErrGone
	}
	if err := unix.Kill(id.PID, s); err != nil {
		if err == unix.ESRCH {
			return ErrGone
		}
		return err
	}
	return nil
}

func waitID(ctx context.Context, id ID) error {
	return waitForExit(ctx, []ID{id}, nil)
}

// wakeIdent names the user event that ends a wait.
const wakeIdent = 1

// waitForExit waits in kqueue until one of ids has ended, ctx ends, or limit
// has passed (nil: no limit).
func waitForExit(ctx context.Context, ids []ID, limit *unix.Timespec) error {
	kq, err := unix.Kqueue()
	if err != nil {
		return err
	}
	defer unix.Close(kq)
	unix.CloseOnExec(kq)
	changes := []unix.Kevent_t{{Ident: wakeIdent, Filter: unix.EVFILT_USER, Flags: unix.EV_ADD | unix.EV_CLEAR}}
	if _, err := unix.Kevent(kq, changes, nil, nil); err != nil {
		return err
	}
	for _, id := range ids {
		ev := unix.Kevent_t{Ident: uint64(id.PID), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}
		_, err := unix.Kevent(kq, []unix.Kevent_t{ev}, nil, nil)
		// Registered first and checked afterwards, so that no end is missed.
		if err == unix.ESRCH || id.State() == Gone {
			return nil
		}
		if err != nil {
			return err
		}
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		wake := unix.Kevent_t{Ident: wakeIdent, Filter: unix.EVFILT_USER, Fflags: unix.NOTE_TRIGGER}
		_, _ = unix.Kevent(kq, []unix.Kevent_t{wake}, nil, nil)
	})
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	events := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(kq, nil, events, limit)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 1 && events[0].Filter == unix.EVFILT_PROC:
			return nil
		}
		return ctx.Err()
	}
}

func handleAlive(*os.File, int) bool { return true }

func inJob(int, []Guarded) (bool, error) { return false, nil }

func everyone() ([]Info, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]Info, 0, len(list))
	for i := range list {
		if info, err := fromKinfo(&list[i]); err == nil {
			all = append(all, info)
		}
	}
	return all, nil
}
