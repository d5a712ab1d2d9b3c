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

func passOn() []string { return []string{clockVariable + "=" + os.Getenv(clockVariable)} }
