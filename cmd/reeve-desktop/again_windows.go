package main

import (
	"fmt"
	"os/exec"
)

// again starts the program that command names, which goes on when this one ends.
func again(command []string) error {
	if err := exec.Command(command[0], command[1:]...).Start(); err != nil {
		return fmt.Errorf("start the upgraded program %s: %w", command[0], err)
	}
	return nil
}
