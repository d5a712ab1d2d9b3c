//go:build unix

package guard_test

import (
	"fmt"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// An agent that reports 50,000 things in a burst and exits at once: all of them
// are in the log and reach the owner, in order, and the turn ends as the exit
// said, not for the pipe that closed first.
func TestBurstThenExit(t *testing.T) {
	const calls = 25_000
	w, c := started(t, "fake")
	w.turn(c, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "@tool $i execute"; echo "@done $i 0"; i=$((i+1)); done; exit 3`, calls))
	var seq uint64
	events := 0
	for e := range c.Entries() {
		if e.Seq != seq+1 {
			t.Fatalf("entry %d follows %d", e.Seq, seq)
		}
		seq = e.Seq
		switch e.Kind {
		case wire.KindToolStarted, wire.KindToolFinished:
			events++
			continue
		case wire.KindTurnFinished:
		default:
			continue
		}
		if fin := data[wire.TurnFinished](t, e); fin.Outcome != "failed" || fin.Code != "local_execution_failure" || !fin.Retryable {
			t.Errorf("%+v", fin)
		}
		break
	}
	stored := 0
	for _, e := range w.log() {
		if e.Kind == wire.KindToolStarted || e.Kind == wire.KindToolFinished {
			call := ""
			if e.Kind == wire.KindToolStarted {
				call = data[wire.ToolStarted](t, e).Call
			} else {
				call = data[wire.ToolFinished](t, e).Call
			}
			if want := fmt.Sprint(stored / 2); call != want {
				t.Fatalf("event %d is of call %s, want %s", stored, call, want)
			}
			stored++
		}
	}
	if events != 2*calls || stored != 2*calls {
		t.Errorf("%d events came and %d are stored, of %d", events, stored, 2*calls)
	}
}
