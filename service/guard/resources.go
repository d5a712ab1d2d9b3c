package guard

import (
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
)

// byGuard says, in Resources.LimitBy, that the memory limit is kept by the
// guard's own watch, because the system can't.
const byGuard = "guard"

// meter adds up what the worker used. Each provider has a tree of its own, so
// the figures of earlier trees are kept beside those of the current one.
// guard.mu covers all of it.
type meter struct {
	limits  mission.Limits
	before  float64       // seconds that earlier attempts used of the processor time
	cpu     time.Duration // of earlier trees
	peak    int64         // of all trees
	tree    proc.Usage    // of the current one, as last measured
	limitBy string        // who keeps the memory limit; "" without one
	told    time.Time     // when the owner was last told

	looking sync.Mutex // held over a look at the tree; comes before guard.mu
}

// watchUse measures the worker while it runs, and ends what is over a limit.
// Between turns, without a provider, it sleeps until a turn begins.
func (g *guard) watchUse() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-g.lookNow:
		case <-g.endAsked:
			return
		}
		timer.Stop()
		if next, more := g.look(); more {
			timer.Reset(next)
		}
	}
}

// look says when to look again, the sooner the nearer a limit is, and whether
// there was anything to look at.
func (g *guard) look() (next time.Duration, more bool) {
	g.mu.Lock()
	runs := g.turn != nil || g.talk != nil
	g.mu.Unlock()
	if !runs {
		return 0, false
	}
	g.measure()
	g.mu.Lock()
	t := g.turn
	hurry := g.keepLimitsLocked()
	g.mu.Unlock()
	if hurry {
		g.kill(t)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &g.meter
	if now := time.Now(); now.Sub(m.told) >= g.o.Look*3/4 {
		m.told = now
		g.tellUseLocked()
	}
	return m.limits.LookIn(g.o.Look, m.tree.Memory, m.seconds(), runtime.NumCPU(), m.limitBy == byGuard), true
}

// measure takes a look at the tree, which can take a few milliseconds. One
// look at a time, so that an older one never comes after a newer.
func (g *guard) measure() {
	g.meter.looking.Lock()
	defer g.meter.looking.Unlock()
	tree := g.currentTree()
	u, err := tree.Usage()
	if err != nil {
		g.logger.Warn("what the worker uses can't be measured", "error", err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if tree != g.tree {
		return // put away meanwhile; the end of its turn has counted it
	}
	g.meter.tree = u
	g.meter.peak = max(g.meter.peak, u.Peak)
}

// limitTreeLocked has the system keep the memory limit of the current tree,
// where it can.
func (g *guard) limitTreeLocked() {
	m := &g.meter
	m.limitBy = ""
	if m.limits.MemoryMB == 0 {
		return
	}
	by, err := g.tree.LimitMemory(m.limits.MemoryMB << 20)
	if err != nil {
		g.logger.Warn("the system does not keep the memory limit, so the guard watches it", "error", err)
	}
	if err != nil || by == "" {
		by = byGuard
	}
	m.limitBy = by
}

// closeTree counts the current tree among the earlier ones.
func (m *meter) closeTree() {
	m.cpu += m.tree.CPU
	m.tree = proc.Usage{}
}

// seconds is the processor time that the mission used.
func (m *meter) seconds() float64 { return m.before + (m.cpu + m.tree.CPU).Seconds() }

// over says which limit is passed, if one is.
func (m *meter) over() cause {
	switch {
	case m.tree.OOMKills > 0,
		m.limitBy == byGuard && m.tree.Memory > m.limits.MemoryMB<<20:
		return causeMemory
	case m.limits.CPUReached(m.seconds()):
		return causeCPU
	}
	return ""
}

// keepLimitsLocked ends the turn that is over a limit. Between turns only
// memory matters, which an idle provider may hold: the whole worker is ended.
// hurry says that a turn which is over, or is being ended for another reason,
// passed its memory limit: what ends it would give it time.
func (g *guard) keepLimitsLocked() (hurry bool) {
	c := g.meter.over()
	switch {
	case c == "":
	case g.turn != nil:
		if g.turn.cause == "" {
			g.turn.memory = g.meter.tree.Memory
		}
		g.haltLocked(c)
		return c == causeMemory && g.turn.cause != causeMemory
	case c == causeMemory:
		g.askToEndLocked(causeMemory, reasonMemory)
	}
	return false
}

// kill kills what runs now of a turn, once. Its end, which is under way, sees
// to the rest.
func (g *guard) kill(t *turn) {
	members, err := g.currentTree().Members()
	if err != nil {
		g.logger.Error("the process tree can't be read", "error", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn != t {
		return // they may be of the next one
	}
	for _, id := range members {
		_ = id.Signal(os.Kill) // a refusal shows as what is left
	}
}

// endedBySystem says that the system, which keeps the memory limit, ended the
// turn: it killed for it, or gave a job no more, of which such programs die.
func (m *meter) endedBySystem(failed bool) bool {
	return m.tree.OOMKills > 0 || failed && m.limitBy == "job" && m.tree.Peak >= m.limits.MemoryMB<<20/16*15
}

// useLocked is what the owner is told.
func (g *guard) useLocked() wire.Resources {
	m := &g.meter
	return wire.Resources{
		At: g.o.Now().Wall.Round(0).UTC(), MemoryBytes: m.tree.Memory, PeakBytes: m.peak,
		CPUSeconds: (m.cpu + m.tree.CPU).Seconds(), Processes: m.tree.Processes,
		Method: g.tree.Method(), LimitBy: m.limitBy,
	}
}

func (g *guard) tellUseLocked() {
	if g.owner != nil {
		g.owner.sendUse(g.useLocked())
	}
}
