package model

import (
	"math"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// CPU writes an amount of processor time: "0.4 s", "12 s", "1 min 12 s",
// "2 h 6".
func CPU(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case math.IsNaN(seconds) || seconds < 0:
		return ""
	case seconds < 9.95:
		return say.T("%s s", decimal(seconds, 1))
	case d < time.Minute:
		return say.T("%s s", decimal(math.Floor(seconds), 0))
	case d < time.Hour:
		return say.T("%d min %d s", int(d/time.Minute), int(d/time.Second)%60)
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
		memory = say.T("at most %s", mission.Memory(r.PeakBytes))
	} else {
		out = append(out, say.N(r.Processes, "%d process", "%d processes"))
	}
	if m.Limits.MemoryMB > 0 {
		memory = say.T("%s of %s", memory, mission.Memory(m.Limits.MemoryMB<<20))
	}
	cpu := CPU(r.CPUSeconds)
	if m.Limits.CPUMinutes > 0 {
		cpu = say.T("%s of %s", cpu, Duration(time.Duration(m.Limits.CPUMinutes)*time.Minute))
	}
	return append(out, memory, say.T("%s CPU", cpu))
}

// LimitsNote says in words what the processes of a mission that is proposed
// with such limits may use.
func LimitsNote(l mission.Limits) string {
	memory, cpu := say.T("three quarters of this computer's memory"), say.T("any amount of processor time")
	if l.MemoryMB > 0 {
		memory = say.T("%s of memory", mission.Memory(l.MemoryMB<<20))
	}
	if l.CPUMinutes > 0 {
		cpu = say.T("%s of processor time", Duration(time.Duration(l.CPUMinutes)*time.Minute))
	}
	return memory + ", " + cpu
}
