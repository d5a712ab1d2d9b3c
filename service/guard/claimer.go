package guard

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/reevehq/reeve/service/internal/proc"
)

// journalFile is the service's database, in the state directory that the
// attempt's directory lies in. A service has it locked for its whole life.
const journalFile = "../../reeve.db"

// maxTold is how many refused claims a guard tells of in its log.
const maxTold = 10

// claimers knows a service when it sees one. The token alone does not prove
// much: whatever runs as the same user can read it, and what a worker had
// another program start does not descend from a guard.
type claimers struct {
	program os.FileInfo // that this guard runs; nil where it can't be told
	path    string      // where that was when the guard began
	starter proc.ID     // of the keeper: a service whose program was replaced starts guards of the new one
	journal *os.File    // open, so that no other file can take its number
}

// newClaimers is called before anything of a worker runs.
func newClaimers(dir string, keeper proc.ID, log *slog.Logger) (c claimers, err error) {
	if c.path, err = os.Executable(); err != nil {
		return c, err
	}
	c.path = strings.TrimSuffix(c.path, " (deleted)")
	if c.program, err = proc.Program(os.Getpid()); err != nil {
		log.Warn("programs can't be told apart here, so claims are not compared with this one", "error", err)
	}
	if k, err := proc.Inspect(keeper.PID); err == nil && k.ID == keeper {
		// Where parents are only remembered, another may have the number by now.
		if id, err := proc.Identify(k.PPID); err == nil && id.Start <= keeper.Start {
			c.starter = id
		}
	}
	if c.journal, err = os.Open(filepath.Join(dir, journalFile)); err != nil {
		return c, fmt.Errorf("find the journal of the service: %w", err)
	}
	return c, nil
}

func (c *claimers) Close() error { return c.journal.Close() }

// check says why the process is not the service of this guard's state: it did
// not start the guard and runs another program than that or what an update put
// in its place, or it is not the one that has the journal locked. That journal
// is the one the guard began with: another one in its place would be whose it
// likes.
func (c *claimers) check(pid int) error {
	if c.program != nil && !c.startedBy(pid) {
		got, err := proc.Program(pid)
		if err != nil {
			return err
		}
		installed, err := os.Stat(c.path)
		if !os.SameFile(got, c.program) && (err != nil || !os.SameFile(got, installed)) {
			return fmt.Errorf("process %d runs another program than the guard, which is of %s", pid, c.path)
		}
	}
	has, known, err := proc.HasLocked(pid, c.journal)
	if err == nil && known && !has {
		return fmt.Errorf("process %d is not the service of this state: it does not hold the lock on its journal", pid)
	}
	return err
}

// startedBy says whether the process is the one that started this guard.
func (c *claimers) startedBy(pid int) bool {
	id, err := proc.Identify(pid)
	return err == nil && id == c.starter
}

// refusedLocked tells of a claim by somebody who may be a worker, so that a
// person sees it: who tries that has the token.
func (g *guard) refusedLocked(p *peer, why string) {
	if g.told++; g.told > maxTold || g.ending != "" {
		return
	}
	name := "unknown program"
	if info, err := proc.Inspect(p.who.PID); err == nil {
		name = info.Comm
	}
	g.noticeLocked("warning", fmt.Sprintf("Process %d (%s) tried to take this worker over, and was refused: %s.", p.who.PID, name, why))
}
