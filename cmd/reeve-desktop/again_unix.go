//go:build !windows

package main

import (
	"fmt"
	"os"
	"syscall"
)

// again becomes the program that command names, with this one's process.
func again(command []string) error {
	if err := syscall.Exec(command[0], command, os.Environ()); err != nil {
		return fmt.Errorf("start the upgraded program %s: %w", command[0], err)
	}
	return nil
}
