//go:build testhooks

// Package fault kills its process at a named place; see the other file.
package fault

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

var (
	mu   sync.Mutex
	hits = map[string]int{}
)

// Point kills this process when the environment's REEVE_TEST_FAULT is
// "name" (the first time) or "name#N" (the N-th time), after it noted that in
// the file REEVE_TEST_FAULT_LOG.
func Point(name string) {
	wanted := os.Getenv("REEVE_TEST_FAULT")
	if wanted == "" {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	hits[name]++
	if wanted != fmt.Sprintf("%s#%d", name, hits[name]) && !(wanted == name && hits[name] == 1) {
		return
	}
	// The same fault must not fire again in the next process.
	f, err := os.OpenFile(os.Getenv("REEVE_TEST_FAULT_LOG"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	fmt.Fprintf(f, "%s %d\n", name, os.Getpid())
	_ = f.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
