package runlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/powerloss"
)

// appendVar makes the test binary write a log at that path.
const appendVar = "RUNLOG_TEST_APPEND"

// powerRecord is the n-th record that writeSynced appends. Some are larger than
// the writer's buffer and reach the file in parts.
func powerRecord(n uint64) Record {
	size := int(n * 37 % 700)
	if n%17 == 0 {
		size = 70_000
	}
	return Record{n, time.Unix(int64(n), 0), "text", fmt.Appendf(nil, `"%d %s"`, n, strings.Repeat("x", size))}
}

// writeSynced writes batches of records, with some flushes on the way, and says
// up to where they are durable.
func writeSynced(path string) error {
	w, err := Create(path, "a-1")
	if err != nil {
		return err
	}
	fmt.Println(0)
	n := uint64(0)
	for batch := range 30 {
		for i := range batch%7 + 1 {
			n++
			r := powerRecord(n)
			if _, err := w.Append(r.Time, r.Kind, r.Data); err != nil {
				return err
			}
			if i%2 == 1 {
				if err := w.Flush(); err != nil {
					return err
				}
			}
		}
		if err := w.Sync(); err != nil {
			return err
		}
		fmt.Println(n)
	}
	return w.Close()
}

// After a loss of power a log has every record that was synced, and whatever
// else it has is what was written; a tail that is torn is reported.
func TestPowerLoss(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), appendVar+"="+filepath.Join(dir, "log"))
	torn, inside := 0, 0
	powerloss.Test(t, cmd, dir, func(dir string, acked []string) error {
		created, sure := len(acked) > 0, uint64(0)
		if created {
			if _, err := fmt.Sscan(acked[len(acked)-1], &sure); err != nil {
				return err
			}
		}
		r, err := Open(filepath.Join(dir, "log"))
		if !created && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTorn)) {
			return nil // nobody was told of it
		}
		if err != nil {
			return err
		}
		defer r.Close()
		last := uint64(0)
		for {
			rec, end, err := r.next()
			var bad *CorruptError
			var tail *TornError
			switch {
			case err == nil:
				if !same(rec, powerRecord(rec.Seq)) {
					return fmt.Errorf("record %d is not what was written", rec.Seq)
				}
				last, r.off = rec.Seq, end
				continue
			case errors.As(err, &bad): // of what was not synced the middle may be lost
				inside++
				if bad.First <= sure {
					return fmt.Errorf("synced up to %d: %w", sure, err)
				}
				continue
			case errors.As(err, &tail):
				torn++
			}
			if last < sure {
				return fmt.Errorf("%d records of %d that were synced, then: %w", last, sure, err)
			}
			return nil
		}
	})
	if torn == 0 || inside == 0 {
		t.Errorf("%d torn tails and %d damages inside: too tame a disk", torn, inside)
	}
}
