package service

import (
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/proc"
)

// Now reads the wall clock and the clock that counts since boot, sleep
// included. Where the latter can't be read only the wall clock counts.
func Now() mission.Instant {
	i := mission.Instant{Wall: time.Now()}
	if boot, id, err := proc.BootTime(); err == nil {
		i.Boot, i.BootID = boot, id
	}
	return i
}
