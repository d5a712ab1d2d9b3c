package cli

import (
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

func TestPreparedText(t *testing.T) {
	for _, c := range []struct {
		p    wire.PrepareUpdateResult
		want string
	}{
		{wire.PrepareUpdateResult{}, "no worker runs"},
		{wire.PrepareUpdateResult{GoOn: 1}, "1 worker goes on"},
		{wire.PrepareUpdateResult{GoOn: 2, Finished: 1}, "2 workers go on, 1 finished its turn first"},
		{wire.PrepareUpdateResult{Interrupted: 1, Idle: 3}, "1 was interrupted and will go on by itself, 3 idle workers were ended"},
	} {
		if got := preparedText(c.p); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
