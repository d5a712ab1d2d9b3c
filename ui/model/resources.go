package model

import (
	"fmt"
	"math"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// CPU writes an amount of processor time: "0.4 s", "12 s", "1 min 12 s",
// "2 h 6".
func CPU(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case math.IsNaN(seconds) || seconds < 0:
		return ""
	case seconds < 9.95:
		return fmt.Sprintf("%.1f s", seconds)
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", math.Floor(seconds))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d/time.Minute), int(d/time.Second)%60)
	default:
		return Duration(d)
	}
}

// Resources says in pieces what a mission's processes use, with the limits that
// it has; of one whose processes are gone what they used. Nil when nothing was
// measured.
func Resources(m wire.Mission) []string {
	r := m.Resources
	if r == nil {
		return nil
	}
	memory := mission.Memory(r.MemoryBytes)
	var out []string
	if r.Processes == 0 || mission.Phase(m.Phase).Terminal() {
		memory = "at most " + mission.Memory(r.PeakBytes)
	} else {
		out = append(out, Count(r.Processes, "process", "processes"))
	}
	if m.Limits.MemoryMB > 0 {
		memory += " of " + mission.Memory(m.Limits.MemoryMB<<20)
	}
	cpu := CPU(r.CPUSeconds)
	if m.Limits.CPUMinutes > 0 {
		cpu += " of " + Duration(time.Duration(m.Limits.CPUMinutes)*time.Minute)
	}
	return append(out, memory, cpu+" CPU")
}

// LimitsNote says in words what the processes of a mission that is proposed
// with such limits may use.
func LimitsNote(l mission.Limits) string {
	memory, cpu := "three quarters of this computer's memory", "any amount of processor time"
	if l.MemoryMB > 0 {
		memory = mission.Memory(l.MemoryMB<<20) + " of memory"
	}
	if l.CPUMinutes > 0 {
		cpu = Duration(time.Duration(l.CPUMinutes)*time.Minute) + " of processor time"
	}
	return memory + ", " + cpu
}
