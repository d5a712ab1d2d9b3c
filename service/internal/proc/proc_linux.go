package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
})

func sinceBoot() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// look reads /proc/<pid>/stat: identity, parents and state, without the rest.
func look(pid int) (Info, error) {
	if pid <= 0 {
		return Info{}, ErrGone
	}
	boot, err := bootID()
	if err != nil {
		return Info{}, fmt.Errorf("read the boot id: %w", err)
	}
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return Info{}, goneOr(err)
	}
	info, err := parseStat(b)
	if err != nil {
		return Info{}, fmt.Errorf("parse %s: %w", procPath(pid, "stat"), err)
	}
	info.BootID = boot
	return info, nil
}

// clockTick is the unit of times in /proc on every architecture that Go knows.
const clockTick = time.Second / 100

// now is this moment in the unit of start times.
func now() (uint64, error) {
	d, err := sinceBoot()
	return uint64(d / clockTick), err
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// goneOr turns the two ways in which /proc says "no such process" into ErrGone.
func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return ErrGone
	}
	return err
}

// parseStat reads a line of /proc/<pid>/stat. The name may hold anything, even
// spaces and brackets, so the fields are counted from the last bracket.
func parseStat(b []byte) (Info, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return Info{}, errors.New("no process name in brackets")
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return Info{}, errors.New("too few fields")
	}
	var bad error
	num := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			bad = err
		}
		return n
	}
	info := Info{Comm: string(b[open+1 : end])}
	info.PID = num(strings.TrimSpace(string(b[:open])))
	info.PPID, info.PGID, info.SID = num(f[1]), num(f[2]), num(f[3])
	info.TTY = ttyName(num(f[4]))
	// A leader that ended while its other threads run is a zombie in name only.
	info.zombie = (f[0] == "Z" || f[0] == "X") && num(f[17]) <= 1
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		bad = err
	}
	info.Start = start
	info.cpu = time.Duration(num(f[11])+num(f[12])+num(f[13])+num(f[14])) * clockTick
	return info, bad
}

// ttyName names the usual terminals from their device number.
func ttyName(dev int) string {
	major, minor := unix.Major(uint64(uint32(dev))), unix.Minor(uint64(uint32(dev)))
	switch {
	case dev == 0:
		return ""
	case major >= 136 && major <= 143:
		return fmt.Sprintf("/dev/pts/%d", (major-136)*256+minor)
	case major == 4 && minor < 64:
		return fmt.Sprintf("/dev/tty%d", minor)
	case major == 4:
		return fmt.Sprintf("/dev/ttyS%d", minor-64)
	}
	return fmt.Sprintf("terminal %d:%d", major, minor)
}

// detail fills in what look left out. What may not be read stays empty.
func detail(info *Info) {
	info.Exe, _ = os.Readlink(procPath(info.PID, "exe"))
	info.PidNS, _ = os.Readlink(procPath(info.PID, "ns/pid"))
	info.MntNS, _ = os.Readlink(procPath(info.PID, "ns/mnt"))
	if b, err := os.ReadFile(procPath(info.PID, "cgroup")); err == nil {
		info.Cgroup = unifiedPath(string(b))
	}
	env, err := os.ReadFile(procPath(info.PID, "environ"))
	if err != nil {
		return
	}
	info.envRead = true
	marksIn(env, info)
}

// unifiedPath picks the cgroup v2 path out of /proc/<pid>/cgroup.
func unifiedPath(file string) string {
	for line := range strings.Lines(file) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(strings.TrimSuffix(p, "\n"), " (deleted)")
		}
	}
	return ""
}

// handle opens a pidfd and proves that it stands for id. The check comes after
// the opening: once open, the handle never passes to another process.
func handle(id ID) (int, error) {
	fd, err := unix.PidfdOpen(id.PID, unix.O_NONBLOCK)
	if err != nil {
		if err == unix.EINVAL { // the pid is a thread's by now, not a process's
			err = unix.ESRCH
		}
		return -1, goneOr(err)
	}
	info, err := look(id.PID)
	if err == nil && info.ID != id {
		err = ErrGone
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func signalID(id ID, sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("%v is no signal of this system", sig)
	}
	fd, err := handle(id)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return goneOr(unix.PidfdSendSignal(fd, s, nil, 0))
}

// waitID parks the goroutine in the runtime's poller until the pidfd becomes
// readable, which it does when the process ends.
func waitID(ctx context.Context, id ID) error {
	fd, err := handle(id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for %v: %w", id, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for %v: %w", id, err)
	}
	err = raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
	if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("wait for %v: %w", id, err)
	}
	return nil
}

// ended says whether the process behind a pidfd has ended.
func ended(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1
}

// handleAlive says whether the process behind pidfd runs and has this pid. No
// handle says nothing against it.
func handleAlive(pidfd *os.File, pid int) bool {
	if pidfd == nil {
		return true
	}
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Control(func(fd uintptr) {
		if ended(int(fd)) {
			return
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		alive = err == nil && bytes.Contains(b, fmt.Appendf(nil, "\nPid:\t%d\n", pid))
	})
	return err == nil && alive
}

func inJob(int, []Guarded) (bool, error) { return false, nil }

// everyone reads the identity, parent and state of all processes.
func everyone() ([]Info, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, err
	}
	all := make([]Info, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if info, err := look(pid); err == nil {
			all = append(all, info)
		}
	}
	return all, nil
}
