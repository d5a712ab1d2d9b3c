package guard

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/reevehq/reeve/app/mission"
)

// folderFor is how long a look at the checkout may take where something waits
// for it.
const folderFor = 5 * time.Second

// On a network mount whose server is gone a look at a folder, and whatever else
// is done there, hangs for ever. So nothing of that is done under the lock, nor
// where the deadline waits for it, and no answer never means that the folder is
// gone.

var errFolderSilent = errors.New("the folder does not answer")

// folderSilent is the outcome of a turn that was not begun because nothing can
// be started in a checkout that does not answer.
func folderSilent() mission.TurnOutcome {
	out := mission.FailedTurn(mission.StageExecution, mission.LocalExecutionFailure)
	out.Why = "The folder of this mission does not answer. Check the disk or the network mount that it is on, then resume the mission."
	return out
}

// beside runs f in a goroutine of its own and returns what it said, or false
// after limit. What hangs stays behind there.
func beside[T any](limit time.Duration, f func() T) (said T, ok bool) {
	answer := make(chan T, 1)
	go func() { answer <- f() }()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case said = <-answer:
		return said, true
	case <-late.C:
		return said, false
	}
}

// watchFolder looks at the checkout of the turn in flight whenever it is asked
// to, one look at a time, and ends the turn if the folder was removed, or if its
// name leads to another one than when the mission was started. Who asks may give
// a channel, which is closed after a look that began since.
func (g *guard) watchFolder() {
	for {
		var done chan<- struct{}
		select {
		case done = <-g.looks:
		case <-g.endAsked:
			return
		}
		g.mu.Lock()
		t, l, was := g.turn, g.launch, g.folder
		g.mu.Unlock()
		if t != nil {
			now, err := os.Stat(l.Folder)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, was) {
				g.mu.Lock()
				if g.turn == t {
					g.haltLocked(causeFolder)
				}
				g.mu.Unlock()
			}
		}
		if done != nil {
			close(done)
		}
	}
}

// folderAnswers has the checkout looked at before a turn and says whether there
// was an answer in time. A turn that is ended meanwhile needs none.
func (g *guard) folderAnswers(t *turn) bool {
	late := time.NewTimer(folderFor)
	defer late.Stop()
	done := make(chan struct{})
	select {
	case g.looks <- done:
	case <-t.halted:
		return true
	case <-late.C:
		return false
	}
	select {
	case <-done:
	case <-t.halted:
	case <-late.C:
		return false
	}
	return true
}
