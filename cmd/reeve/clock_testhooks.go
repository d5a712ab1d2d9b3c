//go:build testhooks

package main

import (
	"os"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service"
)

const clockVariable = "REEVE_TEST_CLOCK"

// now reads the machine's clocks, moved by the duration in the file that the
// environment names: a test can let time pass for the service and its guards.
func now() mission.Instant {
	i := service.Now()
	b, err := os.ReadFile(os.Getenv(clockVariable))
	if err != nil {
		return i
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(b)))
	if err != nil {
		return i
	}
	i.Wall, i.Boot = i.Wall.Add(d), i.Boot+d
	return i
}

// passOn are variables of this program that its guards get as well: those of
// the clock and of the faults that a test wants.
func passOn() []string {
	var out []string
	for _, name := range []string{clockVariable, "REEVE_TEST_FAULT", "REEVE_TEST_FAULT_LOG"} {
		if v := os.Getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}
