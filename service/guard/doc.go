// Package guard looks after one worker: it holds the deadline clock, the
// session log, the permissions that wait, and the whole process tree of one
// provider, and it outlives the service.
//
// Main is the program `reeve guard <attempt directory>`. Two processes run it:
// the keeper, which stands above everything and kills what is left when the
// guard ends in whatever way, and the guard itself, which the keeper starts.
// Spawn, Connect and Client are the service's side of it.
//
// What happens is written to the log first and told to the service afterwards.
// The one lock of a guard, guard.mu, covers all of its state and its log; no
// call to a provider and no wait is made while it is held. The lock of a
// connection, peer.mu, comes after it.
package guard

import "time"

// Files of an attempt's directory.
const (
	bootstrapFile = "bootstrap.json"
	recordFile    = "guard.json"
	fenceFile     = "fence.json"
	providerFile  = "provider.json"
	logFile       = "log"
	outputFile    = "guard.log"
	privateDir    = "provider"

	// maxRecord bounds what is read of any of the small files, in bytes.
	maxRecord = 1 << 20
)

// claimWithin is how long a connection may take to claim, and connectWithin
// how long Connect waits for a guard that was just spawned.
const (
	claimWithin   = 10 * time.Second
	connectWithin = 10 * time.Second
)
