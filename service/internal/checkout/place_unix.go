//go:build unix

package checkout

import "golang.org/x/sys/unix"

// writable says whether this user may make files in dir.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
