package claude

import (
	"os"
	"testing"
	"time"
)

// waitFor returns when a tool has made the file at path.
func waitFor(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	t.Fatalf("%s was never made", path)
}
