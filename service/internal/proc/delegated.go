package proc

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Moment is a point in time of one boot, in the unit of [ID.Start]. The zero
// Moment is never.
type Moment struct {
	Start  uint64 `json:"start"`
	BootID string `json:"boot_id"`
}

// Now is this moment.
func Now() (Moment, error) {
	boot, err := bootID()
	if err != nil {
		return Moment{}, fmt.Errorf("read the boot id: %w", err)
	}
	start, err := now()
	if err != nil {
		return Moment{}, fmt.Errorf("read the boot clock: %w", err)
	}
	return Moment{start, boot}, nil
}

// Began is when a process began.
func (id ID) Began() Moment { return Moment{id.Start, id.BootID} }

// Earlier returns the earlier of m and o. Moments of different boots can't be
// compared: then it is m. The zero Moment, never, is later than every other.
func (m Moment) Earlier(o Moment) Moment {
	if m.BootID == "" || o.BootID == m.BootID && o.Start < m.Start {
		return o
	}
	return m
}

// Doubt says in a sentence why a process that isn't a worker may still act for
// one, or "" when nothing suggests that. A process in doubt must not decide
// anything for a person.
//
// Some programs start others for whoever asks: the service manager, the bus,
// cron, at, a terminal multiplexer, sshd. What they start descends from them and
// not from who asked. So whatever one of them started after since, when the
// first worker of this boot ran, may be that worker's doing, at once or by a
// timer. Two things speak for a person: a terminal, and being desktop, the path
// of Reeve's own desktop program, which asks a person. A determined worker can
// get hold of either, so both are shown beside each answer. Only Linux tells
// such processes apart so far.
func (v Verdict) Doubt(since Moment, desktop string) string {
	if v.Worker || since.BootID == "" || v.isProgram(desktop) {
		return ""
	}
	for _, run := range v.line {
		for i, p := range run {
			var parent Info // of a process from outside this pid namespace
			if i+1 < len(run) {
				parent = run[i+1]
			} else if p.PPID != 0 || p.PID == 1 {
				continue
			}
			by := startsForOthers(parent)
			if by == nobody || p.BootID != since.BootID || p.Start < since.Start {
				continue
			}
			who := fmt.Sprintf("%s (pid %d)", parent.Comm, parent.PID)
			if parent.PID == 0 {
				who = "a program outside its pid namespace"
			}
			switch {
			case v.Info.TTY == "":
				return fmt.Sprintf("it was started by %s after a worker ran and has no terminal, so a worker may have asked for it", who)
			case by == userManager && p.TTY != "":
				return fmt.Sprintf("it got its terminal from %s after a worker ran, so a worker may have asked for it", who)
			}
		}
	}
	return ""
}

// isProgram says whether the process runs the program at path. Inside another
// mount namespace anything can be mounted over that path.
func (v Verdict) isProgram(path string) bool {
	exe := strings.TrimSuffix(v.Info.Exe, " (deleted)") // an update replaced it
	return path != "" && exe == filepath.Clean(path) && v.mntNS != "" && v.Info.MntNS == v.mntNS
}

// asker is a kind of program that starts others for whoever asks.
type asker int

const (
	nobody asker = iota
	anybody
	// userManager is the user's systemd, which gives nobody a terminal but who
	// asks it to: terminals belong to emulators, logins and multiplexers.
	userManager
)
