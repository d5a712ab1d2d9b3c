package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/runlog"
)

// cause is why a turn or the guard is ended from outside.
type cause string

const (
	causeInterrupt cause = "interrupt" // the turn alone
	causeStop      cause = "stop"      // by the service, or for want of one
	causeSignal    cause = "signal"    // the keeper waits 10 s, so there is less time
	causeDeadline  cause = "deadline"
	causeKeeper    cause = "keeper" // the keeper is gone: nothing may be left to chance
	causeLog       cause = "log"    // what happens can't be recorded any more
	causeFull      cause = "full"   // the log is as long as a log may be
	causeFolder    cause = "folder" // the checkout is gone, or is another one
	causeMemory    cause = "memory" // the mission's memory limit was reached
	causeCPU       cause = "cpu"    // the mission's processor time is used up
)

// Reasons of a session's end that the guard gives by itself.
const (
	reasonDeadline   = string(mission.EndDeadline)
	reasonTerminated = "terminated"            // by a signal
	reasonKeeper     = "keeper_lost"           // the keeper was killed
	reasonNoStart    = "no_start"              // no guard.start came in time
	reasonNoOwner    = "no_owner"              // no service came in time
	reasonLog        = "private_state_failure" // the log can't be written
	reasonFull       = ReasonFull
	reasonMemory     = ReasonMemory
)

// ReasonFull is the reason of a session's end when its log has grown to its
// limit: whatever prints that much fills the disk.
const ReasonFull = "limit_exceeded"

// ReasonMemory is the reason of a session's end when a provider that had no
// turn passed the mission's memory limit.
const ReasonMemory = "memory_limit"

// Phases of a guard, for ClaimResult.
const (
	phaseNew      = "new"
	phaseIdle     = "idle"
	phaseTurn     = "turn"
	phaseStopping = "stopping"
)

// maxEntry is the most bytes of data of one entry: with its envelope it must
// fit a line.
const maxEntry = wire.MaxLine - 8<<10

type guard struct {
	o        Options
	dir      string
	boot     wire.Bootstrap
	deadline mission.Deadline
	protocol int // the highest that guard and service speak
	keeper   proc.ID
	claimers claimers
	logID    string
	logger   *slog.Logger
	ctx      context.Context // ends when the guard has ended
	wg       sync.WaitGroup

	endAsked chan struct{}        // closed by askToEnd
	lookNow  chan struct{}        // asks watchUse to look; capacity 1
	looks    chan chan<- struct{} // asks watchFolder to look; see there
	ended    chan struct{}        // closed when the tree is gone and that is logged
	noted    chan struct{}        // closed when a stop was answered after that
	notedOne sync.Once
	redact   atomic.Pointer[strings.Replacer]

	mu          sync.Mutex // guards what follows; see the package comment
	log         *runlog.Writer
	logErr      error // the first failure to write the log
	logged      int64 // bytes of data in it
	seq         uint64
	text        text
	fence       wire.Fence
	told        int // refused claims
	owner       *peer
	peers       map[*peer]bool
	orphan      *time.Timer // runs while there is no owner
	orphaned    bool        // it ran out; the guard ends after the turn
	commands    map[string]*command
	order       []string // ids of commands, oldest first
	launch      *wire.Launch
	contextTold bool        // that a bridge's files can't be written
	folder      os.FileInfo // of the checkout when the guard was started
	tree        *proc.Tree  // replaced by renewTree
	meter       meter
	turn        *turn
	talk        *conversation
	providerPID int // of the last provider that was launched
	asked       map[string]*question
	settled     map[string]settlement
	settleds    []string // ids of settled, oldest first
	ending      cause
	reason      string
	result      wire.GuardStopResult // valid once ended is closed
}

// checkBootstrap says what is missing in a bootstrap record.
func checkBootstrap(b wire.Bootstrap) error {
	for name, value := range map[string]string{
		"attempt": b.Attempt, "mission": b.Mission, "token": b.Token, "socket": b.Socket,
	} {
		if value == "" {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if b.DeadlineAt.IsZero() {
		return errors.New("deadline_at is missing")
	}
	if !filepath.IsAbs(b.Socket) {
		return errors.New("socket must be an absolute path")
	}
	return nil
}

// commonProtocol is the highest that both sides speak.
func commonProtocol(guard, service []int) (int, error) {
	best := 0
	for _, p := range guard {
		if slices.Contains(service, p) {
			best = max(best, p)
		}
	}
	if best == 0 {
		return 0, fmt.Errorf("the service speaks the guard protocols %v, this guard speaks %v", service, guard)
	}
	return best, nil
}

// appendLocked writes an entry to the log and then tells the owner. A log that
// cannot be written ends the guard: nothing may happen unrecorded.
func (g *guard) appendLocked(kind string, v any) error {
	g.flushTextLocked()
	return g.writeLocked(kind, v)
}

func (g *guard) writeLocked(kind string, v any) error {
	if g.logErr != nil {
		return g.logErr
	}
	data, err := encode(v)
	if err != nil {
		return err
	}
	if len(data) > maxEntry {
		return wire.Errorf(wire.CodeLimitExceeded, "the entry %s has %d bytes; at most %d are allowed", kind, len(data), maxEntry)
	}
	at := g.o.Now().Wall
	seq, err := g.log.Append(at, kind, data)
	if err == nil {
		err = g.log.Flush()
	}
	if err != nil {
		g.logFailedLocked(err)
		return err
	}
	g.seq = seq
	if g.logged += int64(len(data)); g.logged > g.o.MaxLog && g.ending == "" {
		defer func() {
			g.askToEndLocked(causeFull, reasonFull)
			g.noticeLocked("error", "The transcript has reached its limit, so the worker is ended.")
		}()
	}
	if g.owner != nil {
		g.owner.sendEvent(wire.Entry{Log: g.logID, Seq: seq, At: at.Round(0).UTC(), Kind: kind, Data: data})
	}
	return nil
}

// syncLocked makes the log durable.
func (g *guard) syncLocked() error {
	if g.logErr != nil {
		return g.logErr
	}
	if err := g.log.Sync(); err != nil {
		g.logFailedLocked(err)
		return err
	}
	return nil
}

func (g *guard) logFailedLocked(err error) {
	g.logErr = err
	g.logger.Error("the session log can't be written; everything is ended", "error", err)
	g.askToEndLocked(causeLog, reasonLog)
}

func (g *guard) noticeLocked(level, text string) {
	_ = g.appendLocked(wire.KindNotice, wire.Notice{Turn: g.turnIDLocked(), Level: level, Text: text})
}

func (g *guard) turnIDLocked() string {
	if g.turn == nil {
		return ""
	}
	return g.turn.p.Turn
}

func (g *guard) phaseLocked() string {
	switch {
	case g.ending != "":
		return phaseStopping
	case g.turn != nil:
		return phaseTurn
	case g.launch != nil:
		return phaseIdle
	}
	return phaseNew
}

// expiredLocked says whether the deadline has passed, and ends the guard if
// so. It is asked before every action.
func (g *guard) expiredLocked() bool {
	if !g.deadline.Passed(g.o.Now()) {
		return false
	}
	g.askToEndLocked(causeDeadline, reasonDeadline)
	return true
}

// watchClock ends the guard at the deadline and has the checkout looked at as
// often as the clocks.
func (g *guard) watchClock() {
	over := g.o.awaitDeadline(g.deadline, g.endAsked, func() {
		g.mu.Lock()
		runs := g.turn != nil
		g.mu.Unlock()
		if runs {
			select {
			case g.looks <- nil:
			default: // a look is under way
			}
		}
	})
	if over {
		g.askToEnd(causeDeadline, reasonDeadline)
	}
}

func (g *guard) askToEnd(c cause, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.askToEndLocked(c, reason)
}

// askToEndLocked begins the end of the guard; the first cause counts.
func (g *guard) askToEndLocked(c cause, reason string) {
	if g.ending != "" {
		return
	}
	g.ending, g.reason = c, reason
	g.haltLocked(c)
	close(g.endAsked)
}

// end waits until the guard is asked to end, lets the turn settle, ends the
// tree and says so.
func (g *guard) end() {
	<-g.endAsked
	g.mu.Lock()
	c, reason, t := g.ending, g.reason, g.turn
	g.mu.Unlock()
	if c == causeKeeper {
		g.endTree(c)
	}
	if t != nil {
		<-t.ended
	}
	g.mu.Lock()
	talk := g.talk
	g.talk = nil
	g.mu.Unlock()
	if talk != nil {
		g.close(talk, stopGrace)
	}
	ended, left, who := g.endTree(c)
	if talk != nil {
		g.awaitEvents(talk)
	}
	g.dropContext()
	if t != nil {
		ended += t.endedProcesses
	}
	g.mu.Lock()
	g.result = wire.GuardStopResult{Ended: ended, Left: left}
	_ = g.appendLocked(wire.KindSessionEnded, wire.SessionEnded{Reason: reason, Ended: ended, Left: left, Processes: who})
	_ = g.syncLocked()
	fault.Point("guard.end-logged")
	g.mu.Unlock()
	close(g.ended)
}

// linger gives the owner time to take note of the end: until it has its
// answer to a stop, or hangs up.
func (g *guard) linger() {
	g.mu.Lock()
	owner, reason := g.owner, g.reason
	g.mu.Unlock()
	if owner == nil || reason == reasonTerminated || reason == reasonKeeper {
		return
	}
	timeout := time.NewTimer(lingerFor)
	defer timeout.Stop()
	select {
	case <-owner.gone:
	case <-g.noted:
	case <-timeout.C:
	}
}

// lingerFor is how long a guard that has ended by itself still answers, and
// adapterFor how long it waits for an adapter that does not return.
const (
	lingerFor  = 2 * time.Second
	adapterFor = 10 * time.Second
)

// stopPlans say how long a tree has. Nothing may be left 8 s after a deadline,
// of which the provider had the first second.
func stopPlan(c cause) proc.StopPlan {
	switch c {
	case causeDeadline, causeSignal:
		return proc.StopPlan{Term: 2 * time.Second, Kill: 5 * time.Second}
	case causeKeeper, causeLog, causeFull, causeInterrupt, causeMemory:
		return proc.StopPlan{}
	}
	return proc.DefaultStop
}

// killFor is how long the kernel has to take a killed process away.
const killFor = 3 * time.Second

// endTree ends everything that the guard started. It counts what was there
// beside the provider's own process, and names what the system would not end.
func (g *guard) endTree(c cause) (ended int, left []string, who []wire.Process) {
	plan := stopPlan(c)
	within := plan.Kill + killFor
	if c != causeDeadline {
		// A deadline that passes meanwhile allows less.
		within = min(within, g.deadline.Remaining(g.o.Now())+5*time.Second)
	}
	g.mu.Lock()
	own, tree := g.providerPID, g.tree
	g.mu.Unlock()
	members, err := tree.Members()
	if err != nil {
		g.logger.Error("the process tree can't be read", "error", err)
	}
	for _, id := range members {
		if id.PID != own {
			ended++
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	stop := tree.Kill
	if plan != (proc.StopPlan{}) {
		stop = func(ctx context.Context) ([]proc.ID, error) { return tree.Stop(ctx, plan) }
	}
	ids, err := stop(ctx)
	cancel()
	if err != nil && len(ids) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), killFor)
		ids, err = tree.Kill(ctx)
		cancel()
	}
	if err != nil {
		g.logger.Error("the process tree could not be ended", "error", err)
	}
	for _, id := range ids {
		left, who = append(left, describe(id)), append(who, wire.Process(id))
	}
	if err != nil && len(left) == 0 {
		left = []string{unlisted}
	}
	return max(ended-len(left), 0), left, who
}

// unlisted stands for what may be left where nobody can tell.
const unlisted = "processes that could not be listed"

func (g *guard) currentTree() *proc.Tree {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tree
}

func describe(id proc.ID) string {
	if info, err := proc.Inspect(id.PID); err == nil && info.ID == id && info.Comm != "" {
		return fmt.Sprintf("process %d (%s)", id.PID, info.Comm)
	}
	return fmt.Sprintf("process %d", id.PID)
}

func rawJSON(v any) json.RawMessage {
	b, err := encode(v)
	if err != nil {
		return nil
	}
	return b
}
