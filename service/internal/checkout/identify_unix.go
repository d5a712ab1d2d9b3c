//go:build unix

package checkout

import (
	"os"
	"syscall"
)

// identify follows links: a path is what it leads to.
func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	sys := info.Sys().(*syscall.Stat_t)
	return fileID{Dev: uint64(sys.Dev), Ino: uint64(sys.Ino)}, nil
}
