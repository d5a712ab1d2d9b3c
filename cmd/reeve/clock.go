//go:build !testhooks

package main

import (
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service"
)

// now reads the machine's clocks.
func now() mission.Instant { return service.Now() }

// oldestGuard is the oldest guard protocol that this program's service speaks.
func oldestGuard() int { return wire.OldestGuardProtocol }

// passOn are variables of this program that its guards get as well.
func passOn() []string { return nil }
