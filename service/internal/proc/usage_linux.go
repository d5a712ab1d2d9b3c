package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage measures the members. With a control group it looks only at that;
// otherwise it reads all of /proc, so don't call it often.
func (t *Tree) Usage() (Usage, error) {
	measure := t.ownUsage
	if t.group != "" {
		measure = t.groupUsage
	}
	u, err := measure()
	if err != nil {
		return Usage{}, fmt.Errorf("measure the tree: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u.CPU, u.Peak = max(u.CPU, t.most.CPU), max(u.Memory, t.most.Peak)
	t.most = u
	return u, nil
}

func (t *Tree) groupUsage() (Usage, error) {
	pids, err := groupPIDs(t.group)
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	var sum int64
	for _, pid := range pids {
		if info, err := look(pid); err == nil && !info.zombie {
			u.Processes++
			sum += memoryOf(pid)
		}
	}
	cpu, err := keyed(filepath.Join(t.group, "cpu.stat")) // there without the cpu controller, too
	if err != nil {
		return Usage{}, err
	}
	u.CPU = time.Duration(cpu["usage_usec"]) * time.Microsecond
	raw, err := os.ReadFile(filepath.Join(t.group, "memory.current"))
	if errors.Is(err, fs.ErrNotExist) {
		u.Memory = sum
		return u, nil
	}
	if err != nil {
		return Usage{}, err
	}
	all, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return Usage{}, err
	}
	stat, err := keyed(filepath.Join(t.group, "memory.stat"))
	if err != nil {
		return Usage{}, err
	}
	events, err := keyed(filepath.Join(t.group, "memory.events"))
	if err != nil {
		return Usage{}, err
	}
	// shmem is part of file, but can't be dropped.
	u.Memory = max(0, all-stat["file"]+stat["shmem"]-stat["slab_reclaimable"])
	u.OOMKills = int(events["oom_kill"])
	return u, nil
}

// ownUsage reads the dead first: a member that ends meanwhile is missing for
// this once, instead of counted twice.
func (t *Tree) ownUsage() (Usage, error) {
	u := Usage{CPU: endedChildren() - t.before}
	all, err := everyone()
	if err != nil {
		return Usage{}, err
	}
	for _, p := range below(os.Getpid(), all) {
		u.Processes++
		u.CPU += p.cpu
		u.Memory += memoryOf(p.PID)
	}
	return u, nil
}

// endedChildren is the processor time of all children that this process has
// waited for, and of those that they had.
func endedChildren() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// memoryOf is the memory of a process that no file backs; 0 when it has ended.
func memoryOf(pid int) (bytes int64) {
	status, _ := os.ReadFile(procPath(pid, "status"))
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		bytes += kb << 10
	}
	return bytes
}

// keyed reads a file of lines that each hold a name and a number.
func keyed(file string) (map[string]int64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := make(map[string]int64)
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			values[name] = n
		}
	}
	return values, nil
}

// LimitMemory limits the memory of all members together, and says what
// enforces it: "cgroup", "job", or "" when nothing does and only a watch on
// Usage can. It holds for this tree: limit the next one again.
//
// A control group gets no swap, so that the limit ends what outgrows it
// instead of slowing the machine down; the kernel drops pages of files first,
// and then ends all members at once, which Usage.OOMKills shows. A job's
// members are refused memory instead.
func (t *Tree) LimitMemory(bytes int64) (by string, err error) {
	if bytes <= 0 {
		return "", fmt.Errorf("limit the memory of the tree to %d bytes: it must be more", bytes)
	}
	if t.group == "" {
		return "", nil
	}
	for _, w := range []struct{ file, value string }{
		{"memory.oom.group", "1"},
		{"memory.swap.max", "0"}, // not there when the kernel doesn't count swap
		{"memory.max", strconv.FormatInt(bytes, 10)},
	} {
		err := control(t.group, w.file, w.value)
		switch {
		case errors.Is(err, fs.ErrNotExist) && w.file != "memory.max":
		case errors.Is(err, fs.ErrNotExist):
			return "", nil // the controller wasn't handed down
		case err != nil:
			return "", fmt.Errorf("limit the memory of the tree: %w", err)
		}
	}
	return "cgroup", nil
}
