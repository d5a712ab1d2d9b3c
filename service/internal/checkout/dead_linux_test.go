package checkout_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// hang mounts a disk at dir that never answers, as a network mount whose server
// is gone, until the returned function makes it fail instead.
func hang(t *testing.T, dir string) (answer func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("there is no FUSE here to stand in for a dead disk: %v", err)
	}
	if err := unix.Mount("dead", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		_ = unix.Close(fd)
		t.Skipf("nothing can be mounted here: %v", err)
	}
	over := false
	answer = func() {
		if over {
			return
		}
		over = true
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(answer)
	return answer
}

// TestClaimOnADeadDisk: what is claimed on a disk that does not answer keeps
// its identity, and keeps nobody from the journal.
func TestClaimOnADeadDisk(t *testing.T) {
	db, dir := open(t), t.TempDir()
	for _, name := range []string{"dead", "alias", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dead, alias := filepath.Join(dir, "dead"), filepath.Join(dir, "alias")
	if err := unix.Mount(dead, alias, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(alias, unix.MNT_DETACH) })
	if err := take(db, dead, "m-1"); err != nil {
		t.Fatal(err)
	}
	hang(t, dead)
	if err := take(db, filepath.Join(dir, "other"), "m-2"); err != nil {
		t.Errorf("another checkout: %v", err)
	}
	refused(t, take(db, alias, "m-3"), "already works in")
	refused(t, take(db, dead, "m-3"), "no answer")
	refused(t, take(db, dir, "m-3"), "inside")
}
