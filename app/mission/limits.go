package mission

import (
	"fmt"
	"time"
)

// Limits bound what all processes of a mission may use together. Zero means no
// limit.
type Limits struct {
	MemoryMB   int64 `json:"memory_mb,omitempty"`   // at one moment, in MiB
	CPUMinutes int64 `json:"cpu_minutes,omitempty"` // processor time of the whole mission
}

// Bounds of the limits. The smallest memory is what an agent needs to begin.
const (
	MinMemoryMB   = 256
	MaxMemoryMB   = 1 << 20 // 1 TiB
	MaxCPUMinutes = 14_400  // 60 processors for the longest mission
)

// CheckLimits accepts no limit, or one within the bounds.
func CheckLimits(l Limits) *Problem {
	switch {
	case l.MemoryMB != 0 && (l.MemoryMB < MinMemoryMB || l.MemoryMB > MaxMemoryMB):
		return &Problem{"limits", fmt.Sprintf("A memory limit of %d MiB can't be kept.", l.MemoryMB),
			"Choose 256 MiB to 1 TiB, or leave it out for three quarters of the machine's memory."}
	case l.CPUMinutes < 0 || l.CPUMinutes > MaxCPUMinutes:
		return &Problem{"limits", fmt.Sprintf("%d minutes of processor time is no limit that can be kept.", l.CPUMinutes),
			"Choose 1 to 14,400 minutes, or leave it out for no limit."}
	}
	return nil
}

// DefaultMemoryMB is the memory limit of a mission that was proposed without
// one, on a machine with so many bytes of memory: three quarters of it, so that
// an agent that eats memory is ended before the machine suffers, and 1 GiB at
// least. Zero bytes, not known, give no limit.
func DefaultMemoryMB(physical int64) int64 {
	if physical <= 0 {
		return 0
	}
	return min(max(physical>>20/4*3, 1<<10), MaxMemoryMB)
}

// OverMemory is the outcome of a turn that was ended because its processes
// used so many bytes of memory, or as many as the limit allows, where the
// system keeps it. It is not tried again by itself: it would end the same way.
func (l Limits) OverMemory(used int64) TurnOutcome {
	what := fmt.Sprintf("reached the mission's memory limit of %s", Memory(l.MemoryMB<<20))
	if used > l.MemoryMB<<20 {
		what = fmt.Sprintf("used %s of memory, more than the mission's limit of %s", Memory(used), Memory(l.MemoryMB<<20))
	}
	return TurnOutcome{Outcome: Failed, Stage: StageExecution, Code: LocalExecutionFailure,
		Why: "The agent and what it started " + what + ", so they were ended. Look at what needed it, then resume the mission, or stop it and start one with a higher limit."}
}

// CPUReached says whether so many seconds of processor time use up the limit.
func (l Limits) CPUReached(seconds float64) bool {
	return l.CPUMinutes > 0 && seconds >= float64(l.CPUMinutes*60)
}

// OverCPU is the outcome of a turn that was ended because the mission's
// processor time was used up. It ends the mission as a budget does.
func (l Limits) OverCPU() TurnOutcome {
	return TurnOutcome{Outcome: Failed, Stage: StageExecution, Code: BudgetReached,
		Why: fmt.Sprintf("The mission has used its processor time of %d minutes; start a new mission with more if there is more to do.", l.CPUMinutes)}
}

// The speed, in bytes a second, at which a worker is assumed to fill memory, and
// the shortest time between two measurements.
const (
	fillRate = 2 << 30
	lookMin  = 250 * time.Millisecond
)

// LookIn returns how long to wait before a worker is measured again: usual while
// its limits are far off, and less the nearer one is, so that little is used
// beyond it. memory and seconds are what was measured now; cpus is how many
// processors the worker can keep busy at once. watched says that the system
// doesn't enforce the memory limit, so that only these measurements do.
func (l Limits) LookIn(usual time.Duration, memory int64, seconds float64, cpus int, watched bool) time.Duration {
	in := usual
	if watched && l.MemoryMB > 0 {
		in = min(in, time.Duration(float64(l.MemoryMB<<20-memory)/fillRate*float64(time.Second)))
	}
	if l.CPUMinutes > 0 {
		in = min(in, time.Duration((float64(l.CPUMinutes*60)-seconds)/float64(max(cpus, 1))*float64(time.Second)))
	}
	return max(in, min(lookMin, usual))
}

// Memory writes bytes as people do: 512 MiB, 1.5 GiB, 12 GiB.
func Memory(bytes int64) string {
	const gib = 1 << 30
	switch {
	case bytes >= 10*gib:
		return fmt.Sprintf("%.0f GiB", float64(bytes)/gib)
	case bytes >= gib && bytes%gib == 0:
		return fmt.Sprintf("%d GiB", bytes/gib)
	case bytes >= gib:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/gib)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
