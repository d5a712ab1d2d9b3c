//go:build testhooks

// Package fault stops its process at an armed place; see the other file.
package fault

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Directory is the variable that names the directory in which tests arm points.
const Directory = "REEVE_TEST_FAULT"

// Point does nothing unless a test made a named pipe of that name in the
// directory. The first process that comes here then notes that beside it, opens
// the pipe and goes on only when its other end was opened and closed again: so
// the test learns that the place was reached, and decides who lives.
func Point(name string) {
	dir := os.Getenv(Directory)
	if dir == "" {
		return
	}
	pipe := filepath.Join(dir, name)
	if _, err := os.Lstat(pipe); err != nil {
		return
	}
	// The same fault must not strike again in the next process.
	f, err := os.OpenFile(pipe+".fired", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	fmt.Fprintf(f, "%d\n", os.Getpid())
	_ = f.Close()
	if f, err = os.Open(pipe); err == nil {
		_, _ = io.Copy(io.Discard, f)
		_ = f.Close()
	}
}
