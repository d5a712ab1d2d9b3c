//go:build unix

package store

import (
	"errors"
	"os"
)

// syncDir makes a new name in dir survive power loss.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
