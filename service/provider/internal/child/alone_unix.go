//go:build unix

package child

import "syscall"

// alone starts a program in a session of its own, without a terminal.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
