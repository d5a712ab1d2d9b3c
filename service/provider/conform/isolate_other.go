//go:build !linux

package conform

import "os/exec"

// Isolated calls run. Only Linux can keep a test program from the network.
func Isolated(run func() int, more ...string) int { return run() }

func group(*exec.Cmd)    {}
func endGroup(*exec.Cmd) {}
