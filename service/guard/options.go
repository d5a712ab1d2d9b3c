package guard

import (
	"log/slog"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

// Options are what a guard needs beside its attempt directory. Zero durations
// take the usual value.
type Options struct {
	// Inner says that this process is the guard itself, which the keeper
	// started as `<Exe> guard --inner <dir>`.
	Inner bool
	// Exe is the program that the keeper starts, and that is the worker's MCP
	// server as `<Exe> mcp`; empty: this one.
	Exe string
	// Providers finds a provider by the name in the launch.
	Providers func(name string) (provider.Provider, error)
	// Now reads both clocks; nil: the machine's.
	Now func() mission.Instant
	// Logger is the guard's own log, for developers; nil: standard error.
	Logger *slog.Logger
	// StartWithin is how long a guard waits for its start (30 s).
	StartWithin time.Duration
	// Adopt is how long a guard lives without an owner (5 min), unless a turn
	// is in flight.
	Adopt time.Duration
	// MaxLog is how many bytes of entries a session log takes before the
	// worker is ended (1 GiB).
	MaxLog int64
	// Check is how often the deadline is compared with the clocks (5 s).
	Check time.Duration
	// Look is how often what the worker uses is measured while no limit is
	// near (5 s).
	Look time.Duration
	// NoCgroup leaves the worker without a control group even where one could
	// be made.
	NoCgroup bool
	// Protocols are the guard protocols that it speaks; nil: the newest and
	// the one before. Tests make a guard of an earlier Reeve with it.
	Protocols []int
}
