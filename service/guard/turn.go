package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/fault"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/provider"
)

// Times of a turn.
const (
	openFor = 2 * time.Minute // for a provider to open its conversation
	// politely is how long a provider may take to end by itself after its
	// turn, hastily the same when it did not even end its turn.
	politely = 3 * time.Second
	hastily  = 300 * time.Millisecond
	// pauseGrace and stopGrace are how long a provider may take to end its
	// turn when a person pauses it, and when it is to go altogether.
	pauseGrace = 3 * time.Second
	stopGrace  = time.Second
	answerFor  = 10 * time.Second // for a provider to take an answer
)

// turn is the turn in flight.
type turn struct {
	p      wire.TurnParams
	begun  mission.Instant
	halted chan struct{} // closed when cause is set
	over   chan struct{} // closed when final is set
	ended  chan struct{} // closed when turn.finished is in the log

	// Guarded by guard.mu.
	cause  cause
	final  *provider.TurnFinished
	usage  mission.Usage // as last reported
	refuse []*question   // what was settled by the halt and must be told
	memory int64         // bytes that were used when it was halted for them
	begins map[string]mission.Instant

	// Valid once ended is closed.
	endedProcesses int
}

// conversation is an open provider.
type conversation struct {
	conn   provider.Conn
	resume bool
	cancel context.CancelFunc
	base   map[proc.ID]bool // what the provider itself consists of, where it stays
	closed chan struct{}    // the provider has ended and all its events are logged
}

// haltLocked ends the turn in flight from outside; the first cause counts.
// What it asked is settled at once, so that nobody answers it any more. A turn
// whose provider has ended it keeps its outcome.
func (g *guard) haltLocked(c cause) {
	t := g.turn
	if t == nil || t.cause != "" || t.final != nil {
		return
	}
	t.cause = c
	g.settleAllLocked(c)
	close(t.halted)
}

// runTurn is one turn from the provider's opening to the end of what it left.
func (g *guard) runTurn(t *turn) {
	out := g.converse(t)

	g.mu.Lock()
	g.settleAllLocked(t.cause)
	g.flushTextLocked()
	c, final, talk := t.cause, t.final, g.talk
	for _, q := range t.refuse {
		g.refuse(q, "The turn has ended.")
	}
	t.refuse = nil
	g.mu.Unlock()

	keep := talk != nil && !talk.resume && final != nil && (c == "" || c == causeInterrupt)
	var ended int
	var left []string
	if keep {
		ended, left = g.endSince(talk.base)
	} else {
		// Over its memory limit it gets no time to say goodbye in.
		if talk != nil && c != causeMemory {
			grace := politely
			switch {
			case final == nil:
				grace = hastily
			case c != "" && c != causeInterrupt:
				grace = stopGrace
			}
			g.close(talk, grace)
		}
		how := c
		if c == causeInterrupt && final != nil {
			how = "" // it obeyed; what it left gets the usual time
		}
		ended, left, _ = g.endTree(how)
		if talk != nil {
			if c == causeMemory {
				g.close(talk, hastily)
			}
			g.awaitEvents(talk)
		}
	}

	g.measure()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !keep || isClosed(talk.closed) {
		g.talk = nil
	}
	if t.cause == "" && g.meter.endedBySystem(final == nil || final.Outcome.Outcome == mission.Failed) {
		t.cause = causeMemory
	}
	t.endedProcesses = ended
	out.Turn, out.Ended, out.Left = t.p.Turn, ended, left
	g.finishLocked(t, &out)
	g.tellUseLocked()
	_ = g.appendLocked(wire.KindTurnFinished, out)
	_ = g.syncLocked()
	fault.Point("guard.turn-end-logged")
	g.turn = nil
	close(t.ended)
	if g.orphaned {
		g.askToEndLocked(causeStop, reasonNoOwner)
	}
}

// converse has the turn's dialogue and returns its outcome.
func (g *guard) converse(t *turn) wire.TurnFinished {
	if !g.folderAnswers(t) {
		g.logger.Warn("the checkout does not answer")
		return ofOutcome(folderSilent())
	}
	g.mu.Lock()
	talk, late := g.talk, t.cause != ""
	g.mu.Unlock()
	if late {
		return wire.TurnFinished{}
	}
	if talk == nil {
		var err error
		if talk, err = g.open(t); err != nil {
			return g.failed(err)
		}
	}
	g.mu.Lock()
	late = g.expiredLocked() || t.cause != ""
	g.mu.Unlock()
	if late {
		return wire.TurnFinished{} // it was prompted nothing
	}
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	prompted := make(chan error, 1)
	g.wg.Go(func() { prompted <- talk.conn.Prompt(ctx, t.p.Prompt) })
	failure := errors.New("the provider ended inside the turn")
	var given <-chan time.Time
	for {
		select {
		case err := <-prompted:
			if err == nil {
				continue
			}
			// Perhaps it ended at once, and is just saying why: that counts
			// for more than a broken pipe.
			failure = fmt.Errorf("prompt the provider: %w", err)
			timer := time.NewTimer(politely)
			defer timer.Stop()
			given = timer.C
		case <-t.over:
			return wire.TurnFinished{}
		case <-talk.closed:
			if isClosed(t.over) {
				return wire.TurnFinished{}
			}
			return g.failed(failure)
		case <-given:
			return g.failed(failure)
		case <-t.halted:
			g.interrupt(t, talk)
			return wire.TurnFinished{}
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// interrupt asks the provider to end the turn and waits a little.
func (g *guard) interrupt(t *turn, talk *conversation) {
	g.mu.Lock()
	if t.cause == causeMemory {
		g.mu.Unlock()
		return // each moment counts
	}
	grace := stopGrace
	if t.cause == causeInterrupt {
		grace = pauseGrace
	}
	refuse := t.refuse
	t.refuse = nil
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(g.ctx, grace)
	defer cancel()
	interrupted := make(chan struct{})
	g.wg.Go(func() {
		defer close(interrupted)
		if err := talk.conn.Interrupt(ctx); err != nil {
			g.logger.Warn("the provider could not be interrupted", "error", g.clean(err))
		}
	})
	// The refusals come second, so that the agent does not go on with
	// something else first; but it is not left waiting for them.
	g.wg.Go(func() {
		select {
		case <-interrupted:
		case <-time.After(hastily):
		}
		for _, q := range refuse {
			g.refuse(q, "The turn was ended before anyone answered.")
		}
	})
	select {
	case <-t.over:
	case <-talk.closed:
	case <-ctx.Done():
	}
}

// failed is the outcome of a turn that could not be had.
func (g *guard) failed(err error) wire.TurnFinished {
	g.logger.Warn("the turn failed", "error", g.clean(err))
	code := mission.LocalExecutionFailure
	var open *provider.OpenError
	why := ""
	if errors.As(err, &open) && open.Code != "" {
		code, why = open.Code, open.Why
	}
	out := mission.FailedTurn(mission.StageExecution, code)
	out.Why = why
	return ofOutcome(out)
}

func ofOutcome(o mission.TurnOutcome) wire.TurnFinished {
	out := wire.TurnFinished{
		Outcome: string(o.Outcome), Stage: string(o.Stage), Code: string(o.Code),
		Retryable: o.Retryable, Usage: wire.Usage(o.Usage), Why: o.Why,
	}
	if !o.ResetAt.IsZero() {
		at := o.ResetAt.Round(0).UTC()
		out.ResetAt = &at
	}
	return out
}

// finishLocked decides how the turn ended. out holds a failure of the guard's
// side, or nothing.
func (g *guard) finishLocked(t *turn, out *wire.TurnFinished) {
	said, why := t.final, ""
	if said != nil {
		if o := said.Outcome; o.Outcome != "" {
			turn, ended, left := out.Turn, out.Ended, out.Left
			*out = ofOutcome(o)
			out.Turn, out.Ended, out.Left = turn, ended, left
		}
		var cutBytes int64
		out.Result, cutBytes = cut(said.Final, wire.BlobThreshold)
		if cutBytes > 0 {
			g.logger.Info("the turn's result was cut", "bytes", cutBytes)
		}
		if said.Message != "" {
			g.logger.Info("the provider ended the turn", "outcome", out.Outcome, "message", g.cleanText(said.Message))
		}
	}
	// What was ended from outside did not fail; a turn that succeeded before
	// it noticed has succeeded, unless its time was over.
	switch {
	case t.cause == causeDeadline:
		clearFailure(out, mission.TimedOut)
	case t.cause == causeFolder:
		setFailure(out, mission.FailedTurn(mission.StageOwnership, mission.Unknown))
	case t.cause == causeMemory:
		why = setFailure(out, g.meter.limits.OverMemory(t.memory))
		out.Limit = wire.LimitMemory
	case t.cause == causeCPU && out.Outcome != string(mission.Succeeded):
		why = setFailure(out, g.meter.limits.OverCPU())
		out.Limit = wire.LimitCPU
	case t.cause == causeLog:
		*out = wire.TurnFinished{Turn: out.Turn, Ended: out.Ended, Left: out.Left, Result: out.Result}
		setFailure(out, mission.FailedTurn(mission.StageExecution, mission.PrivateStateFailure))
	case t.cause != "" && out.Outcome != string(mission.Succeeded):
		clearFailure(out, mission.Interrupted)
	case t.cause == "" && out.Outcome == string(mission.Interrupted):
		// Nobody asked for it. An interrupted turn goes on at once, and this one
		// would do so again and again.
		setFailure(out, mission.FailedTurn(mission.StageExecution, mission.LocalExecutionFailure))
		out.Why = "The agent broke its turn off by itself; look at the transcript, then resume the mission."
	case out.Outcome == "":
		setFailure(out, mission.FailedTurn(mission.StageExecution, mission.Unknown))
	}
	if out.Outcome == string(mission.Failed) {
		if out.Stage == "" {
			out.Stage = string(mission.StageExecution)
		}
		out.Message = mission.TurnOutcome{Stage: mission.Stage(out.Stage), Code: mission.Code(out.Code), Why: cmp.Or(why, out.Why)}.Sentence()
	}
	if out.Outcome == string(mission.Succeeded) {
		out.Next = string(mission.ParseWorkNext(said.Final))
	}
	if out.Usage == (wire.Usage{}) {
		out.Usage = wire.Usage(t.usage)
	}
	if out.Usage.Provider == "" && g.launch != nil {
		out.Usage.Provider = g.launch.Provider
	}
	if g.protocol >= 2 {
		use := g.useLocked()
		out.Resources = &use
	}
	out.Seconds = seconds(t.begun, g.o.Now())
	if out.Usage.Seconds == 0 {
		out.Usage.Seconds = out.Seconds
	}
}

// setFailure makes a failure of the turn; it returns its own sentence.
func setFailure(out *wire.TurnFinished, o mission.TurnOutcome) (why string) {
	out.Outcome, out.Stage, out.Code, out.Retryable, out.ResetAt, out.Why = string(o.Outcome), string(o.Stage), string(o.Code), o.Retryable, nil, ""
	return o.Why
}

func clearFailure(out *wire.TurnFinished, o mission.Outcome) {
	out.Outcome, out.Stage, out.Code, out.Retryable, out.ResetAt, out.Why = string(o), "", "", false, nil, ""
}

// seconds is the time between two instants, sleep included, never negative.
func seconds(from, to mission.Instant) float64 {
	d := to.Wall.Round(0).Sub(from.Wall.Round(0))
	if from.BootID != "" && from.BootID == to.BootID {
		d = to.Boot - from.Boot
	}
	return max(d, 0).Round(time.Millisecond).Seconds()
}

// close ends a provider as its protocol has it, and no longer than grace.
func (g *guard) close(talk *conversation, grace time.Duration) {
	ctx, cancel := context.WithTimeout(g.ctx, grace)
	defer cancel()
	done := make(chan struct{})
	g.wg.Go(func() {
		defer close(done)
		if err := talk.conn.Close(ctx); err != nil {
			g.logger.Info("the provider did not end politely", "error", g.clean(err))
		}
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// awaitEvents waits until all that an ended provider said is in the log.
func (g *guard) awaitEvents(talk *conversation) {
	late := time.NewTimer(politely)
	defer late.Stop()
	select {
	case <-talk.closed:
	case <-late.C:
		g.logger.Error("the adapter's events did not end with the provider")
	}
	talk.cancel()
}

// endSince ends what a turn left behind while the provider stays.
func (g *guard) endSince(base map[proc.ID]bool) (ended int, left []string) {
	signalled := make(map[proc.ID]bool)
	begin := time.Now()
	for {
		members, err := g.currentTree().Members()
		if err != nil {
			g.logger.Error("the process tree can't be read", "error", err)
			return len(signalled), []string{unlisted}
		}
		var more []proc.ID
		for _, id := range members {
			if !base[id] {
				more = append(more, id)
			}
		}
		if len(more) == 0 {
			return len(signalled), nil
		}
		since := time.Since(begin)
		if since > proc.DefaultStop.Term+killFor {
			for _, id := range more {
				left = append(left, describe(id))
			}
			return max(len(signalled)-len(left), 0), left
		}
		for _, id := range more {
			if since >= proc.DefaultStop.Term {
				_ = id.Signal(os.Kill) // a refusal shows as what is left
			} else if !signalled[id] && id.Signal(syscall.SIGTERM) != nil {
				_ = id.Signal(os.Kill)
			}
			signalled[id] = true
		}
		ctx, cancel := context.WithTimeout(g.ctx, 50*time.Millisecond)
		_ = more[0].Wait(ctx)
		cancel()
	}
}
