package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// ErrLeft says that processes of the tree could not be ended.
var ErrLeft = errors.New("processes are left that could not be ended")

// rescan is how long Stop waits at most, after members that it knows of were
// signalled, before it looks for members that came since. Usually the end of
// one of them wakes it earlier.
const rescan = 50 * time.Millisecond

// Stop ends every member: an interrupt, a termination and a kill, at the times
// of plan after this call, to every member found, again and again until the
// tree is proven to be empty, which it may be early.
//
// left names the members that still ran when ctx ended or when the system
// refused to kill all that were left; the error then is ErrLeft and says why. It
// names none where they could not be listed, which keeps nobody from being killed.
// Give ctx a deadline: a process stuck in the kernel can outlive any signal.
func (t *Tree) Stop(ctx context.Context, plan StopPlan) (left []ID, err error) {
	return t.end(ctx, []step{
		{plan.Interrupt, sigInterrupt},
		{plan.Term, sigTerm},
		{plan.Kill, os.Kill},
	})
}

// Kill ends every member at once. It returns as Stop does.
func (t *Tree) Kill(ctx context.Context) (left []ID, err error) {
	return t.end(ctx, []step{{0, os.Kill}})
}

type step struct {
	after time.Duration // since the first
	sig   os.Signal
}

func (t *Tree) end(ctx context.Context, steps []step) ([]ID, error) {
	begin := time.Now()
	at := -1 // the step that is current
	sent := make(map[ID]int)
	var refused error
	for {
		for at+1 < len(steps) && time.Since(begin) >= steps[at+1].after {
			at++
		}
		members, unlisted := t.Members()
		if unlisted == nil && len(members) == 0 && t.empty() {
			return nil, nil
		}
		if err := ctx.Err(); err != nil {
			return members, fmt.Errorf("%w: %v: %w", ErrLeft, members, errors.Join(err, refused, unlisted))
		}

		killing := at >= 0 && steps[at].sig == os.Kill
		if killing {
			t.killAll()
		}
		refusals := 0
		for _, id := range members {
			if at < 0 || !killing && sent[id] > at {
				continue
			}
			sent[id] = at + 1
			if err := id.Signal(steps[at].sig); err != nil && !errors.Is(err, ErrGone) {
				refusals++
				refused = err
			}
		}
		if killing && refusals > 0 && refusals == len(members) {
			return members, fmt.Errorf("%w: %v: %w", ErrLeft, members, refused)
		}

		wait := rescan
		if at+1 < len(steps) {
			wait = min(wait, max(0, steps[at+1].after-time.Since(begin)))
		}
		if len(members) > 0 || unlisted != nil { // else someone slipped through the look: look again
			waitAny(ctx, members, wait)
		}
	}
}

// below picks the live processes that descend from root out of a look at the
// whole system. Zombies are passed through: their children still count.
func below(root int, all []Info) []Info {
	children := make(map[int][]Info)
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
	}
	var found []Info
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			if seen[p.PID] {
				continue
			}
			seen[p.PID] = true
			queue = append(queue, p.PID)
			if !p.zombie {
				found = append(found, p)
			}
		}
	}
	return found
}

func sortIDs(ids []ID) []ID {
	slices.SortFunc(ids, func(a, b ID) int { return cmp.Compare(a.PID, b.PID) })
	return slices.Compact(ids)
}
