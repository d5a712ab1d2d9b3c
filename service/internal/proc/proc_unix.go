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

// marksIn finds the marks of workers and of guards in a NUL-separated
// environment.
func marksIn(env []byte, info *Info) {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(AttemptVar+"=")); ok && info.attempt == "" {
			info.attempt = string(v)
		}
		if v, ok := bytes.CutPrefix(kv, []byte(GuardVar+"=")); ok && info.guards == "" {
			info.guards = string(v)
		}
	}
}

func askToEnd(id ID) error { return id.Signal(syscall.SIGTERM) }

// Wake lets a stopped process go on.
func Wake(id ID) { _ = id.Signal(syscall.SIGCONT) }

func exitCode(st *os.ProcessState) int {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return st.ExitCode()
}
