//go:build linux || darwin

package store_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/service/internal/store"
)

func init() { children["full"] = writeToFullDisk }

// writeToFullDisk lets a write fail for want of room, and goes on once there is
// room again.
func writeToFullDisk(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	db, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	if err := db.Update(ctx, put("before", "1")); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	full := limit
	full.Cur = uint64(info.Size())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	big := func(tx *store.Tx) error { return tx.Put("b", []byte("big"), make([]byte, 1<<20)) }
	if err := db.Update(ctx, big); err == nil || errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("a write without room gave %v", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return errors.Join(db.Check(), db.Update(ctx, big), db.Update(ctx, put("after", "1")), db.Close())
}

func TestFullDiskFailsTheWriteOnly(t *testing.T) {
	path := newPath(t)
	must(t, runChild(t, "full:"+path).Run())
	db := open(t, path, store.Options{})
	if get(t, db, "before") != "1" || get(t, db, "after") != "1" {
		t.Error("writes around the failure were lost")
	}
}
