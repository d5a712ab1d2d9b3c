//go:build unix

package guard

import "syscall"

// detached puts the keeper in a session of its own, out of reach of the
// terminal and the signals of the service.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
