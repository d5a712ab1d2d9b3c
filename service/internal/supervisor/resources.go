package supervisor

import (
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// Use is what a mission's processes used. The attempt's own figures come from
// its guard; they are journaled with the end of each turn, and what came since
// is shown without that, for the guard tells the whole again.
type Use struct {
	Now *wire.Resources `json:"now,omitempty"` // of this attempt; nil: not measured
	// CPU, in seconds, and Peak, in bytes, are of the attempts before it.
	CPU  float64 `json:"earlier_cpu_seconds,omitempty"`
	Peak int64   `json:"earlier_peak_bytes,omitempty"`
}

// nextAttempt keeps what the attempts so far used.
func (u *Use) nextAttempt() {
	if u.Now != nil {
		u.CPU += u.Now.CPUSeconds
		u.Peak = max(u.Peak, u.Now.PeakBytes)
	}
	u.Now = nil
}

// take notes a newer figure of the same attempt. Events and entries of a guard
// come by different ways, so an older one can be late; processor time tells.
func (u *Use) take(r wire.Resources) bool {
	if u.Now != nil && r.CPUSeconds < u.Now.CPUSeconds {
		return false
	}
	u.Now = &r
	return true
}

// cpu is the processor time of all attempts, in seconds.
func (u Use) cpu() float64 {
	if u.Now == nil {
		return u.CPU
	}
	return u.CPU + u.Now.CPUSeconds
}

// Resources is what the mission's processes use, and used in all attempts; nil
// when no guard has measured it.
func (r Record) Resources() *wire.Resources {
	if r.Use.Now == nil && r.Use.CPU == 0 {
		return nil
	}
	out := wire.Resources{}
	if r.Use.Now != nil {
		out = *r.Use.Now
	}
	out.CPUSeconds = r.Use.cpu()
	out.PeakBytes = max(out.PeakBytes, r.Use.Peak)
	if r.Phase.Terminal() || r.Guard == mission.GuardGone {
		out.MemoryBytes, out.Processes = 0, 0
	}
	return &out
}

// measured takes a figure of the guard. It is no change of the mission.
func (w *worker) measured(r wire.Resources) {
	if w.rec.Use.take(r) {
		w.touch()
	}
}

// why is the sentence of a turn that a limit of the mission ended.
func why(l mission.Limits, t wire.TurnFinished) string {
	switch t.Limit {
	case wire.LimitMemory:
		var used int64
		if t.Resources != nil {
			used = t.Resources.PeakBytes
		}
		return l.OverMemory(used).Why
	case wire.LimitCPU:
		return l.OverCPU().Why
	}
	return ""
}
