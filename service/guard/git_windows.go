package guard

import "github.com/reevehq/reeve/service/internal/proc"

// wake does nothing: there is no signal that stops a process here.
func wake(proc.ID) {}
