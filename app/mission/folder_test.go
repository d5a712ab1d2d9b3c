package mission_test

import (
	"os"
	"path/filepath"
)

// folder returns an absolute path on any platform; nothing needs to be there.
func folder(name string) string { return filepath.Join(os.TempDir(), name) }
