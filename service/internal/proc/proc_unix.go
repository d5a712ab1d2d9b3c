//go:build unix

package proc

import (
	"bytes"
	"os"
	"syscall"
)

const (
	sigInterrupt = syscall.SIGINT
	sigTerm      = syscall.SIGTERM
)

// attemptIn finds the worker's mark in a NUL-separated environment.
func attemptIn(env []byte) string {
	for _, kv := range bytes.Split(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(AttemptVar+"=")); ok && len(v) > 0 {
			return string(v)
		}
	}
	return ""
}

func askToEnd(id ID) error { return id.Signal(syscall.SIGTERM) }

func exitCode(st *os.ProcessState) int {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return st.ExitCode()
}
