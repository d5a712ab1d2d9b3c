package child

import "syscall"

func alone() *syscall.SysProcAttr { return nil }
