package mission

import "time"

// Instant is now on the two clocks that a deadline needs. The wall clock runs
// on while the machine sleeps but can be set; the boot clock counts sleep, too,
// and cannot be set, but starts anew with each boot.
type Instant struct {
	Wall   time.Time
	Boot   time.Duration // since boot, sleep included
	BootID string        // empty: no boot clock is known
}

// Deadline is a fixed end on both clocks.
type Deadline struct {
	At     time.Time     `json:"at"`
	Boot   time.Duration `json:"boot_ns"`
	BootID string        `json:"boot_id"`
}

// NewDeadline returns the end of a mission that starts at start.
func NewDeadline(start Instant, minutes int) Deadline {
	d := time.Duration(minutes) * time.Minute
	return Deadline{At: wall(start.Wall).Add(d).UTC(), Boot: start.Boot + d, BootID: start.BootID}
}

// Passed reports whether either clock says that the time is over. The earlier
// one counts, so that setting the wall clock back gains nothing. The zero
// deadline has passed.
func (d Deadline) Passed(now Instant) bool { return d.Remaining(now) == 0 }

// Remaining returns the time until the earlier of both ends, never negative.
func (d Deadline) Remaining(now Instant) time.Duration {
	left := d.At.Sub(wall(now.Wall))
	if d.BootID != "" && d.BootID == now.BootID {
		left = min(left, d.Boot-now.Boot)
	}
	return max(left, 0)
}

// wall drops Go's monotonic reading, which stops while a machine sleeps.
func wall(t time.Time) time.Time { return t.Round(0) }
