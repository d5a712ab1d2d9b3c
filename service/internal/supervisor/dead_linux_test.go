package supervisor

import (
	"fmt"
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

// TestClaimOnADeadDisk: a mission whose disk does not answer keeps no other one
// from starting.
func TestClaimOnADeadDisk(t *testing.T) {
	h := newHouse(t)
	a := h.begin("a", "demo:slow 60000")
	answer := hang(t, a.Terms.Folder)
	h.begin("b", "demo:command true")
	if release, err := h.s.hold(within(t), "m-x", filepath.Join(h.dir, "c")); err != nil {
		t.Error(err)
	} else {
		release()
	}
	answer()
}
