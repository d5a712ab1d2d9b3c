//go:build unix

package guard

import (
	"syscall"

	"github.com/reevehq/reeve/service/internal/proc"
)

// wake lets a stopped process go on.
func wake(id proc.ID) { _ = id.Signal(syscall.SIGCONT) }
