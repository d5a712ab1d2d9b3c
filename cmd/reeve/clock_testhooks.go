//go:build testhooks

package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service"
)

const clockVariable = "REEVE_TEST_CLOCK"

// now reads the machine's clocks, moved by the two durations in the file that
// the environment names, that of the wall clock first: a test can let time pass
// for the service and its guards, or set their wall clock.
func now() mission.Instant {
	i := service.Now()
	b, err := os.ReadFile(os.Getenv(clockVariable))
	if err != nil {
		return i
	}
	wall, boot, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	byWall, err := time.ParseDuration(wall)
	if err != nil {
		return i
	}
	byBoot, err := time.ParseDuration(boot)
	if err != nil {
		return i
	}
	i.Wall, i.Boot = i.Wall.Add(byWall), i.Boot+byBoot
	return i
}

// oldestGuard is the oldest guard protocol that this program's service speaks,
// unless a test makes it a program of a later Reeve.
func oldestGuard() int {
	if n, err := strconv.Atoi(os.Getenv("REEVE_TEST_OLDEST_GUARD")); err == nil {
		return n
	}
	return wire.OldestGuardProtocol
}

// passOn are variables of this program that its guards get as well: those of
// the clock and of the faults that a test wants, and what the race detector is
// told.
func passOn() []string {
	var out []string
	for _, name := range []string{clockVariable, "REEVE_TEST_FAULT", "GORACE"} {
		if v := os.Getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}
