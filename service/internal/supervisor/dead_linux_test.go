package supervisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
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

// TestAdoptOnADeadDisk: a lost mission whose disk does not answer keeps the
// service neither from serving nor from ending, and can be stopped.
func TestAdoptOnADeadDisk(t *testing.T) {
	h := newHouse(t)
	r := h.begin("a", "demo:slow 60000")
	h.until(r.ID, "heard", func(r Record) bool { return r.Turns[0].Heard })
	g := h.guardOf(r)
	h.close()
	for _, id := range []proc.ID{proc.ID(g.Process), proc.ID(g.Keeper)} {
		if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, proc.ErrGone) {
			t.Fatal(err)
		}
		if err := id.Wait(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	// A mission of Codex has files in its checkout.
	h.open()
	h.s.Socket = filepath.Join(h.dir, "s")
	if err := h.db.Update(within(t), func(tx *store.Tx) error {
		now, _, err := Load(tx, r.ID)
		now.Terms.Provider = "codex"
		return errors.Join(err, save(tx, now))
	}); err != nil {
		t.Fatal(err)
	}
	answer := hang(t, r.Terms.Folder)
	if notes, err := h.s.Adopt(within(t)); err != nil || len(notes) != 1 {
		t.Fatalf("%q, %v", notes, err)
	}
	h.lost(r.ID)
	h.close()
	answer()
	h.open()
}

// TestChangesOnADeadDisk: looks at a checkout whose disk does not answer end
// with those who asked, and leave git to other missions.
func TestChangesOnADeadDisk(t *testing.T) {
	h := newHouse(t)
	a := h.begin("a", "demo:slow 60000")
	b := h.begin("b", "demo:slow 60000")
	answer := hang(t, a.Terms.Folder)
	ctx, cancel := context.WithCancel(within(t))
	looks := make(chan error)
	for range gitAtOnce {
		go func() { _, err := h.s.Changes(ctx, a.ID, ""); looks <- err }()
	}
	for len(h.s.gits) < gitAtOnce {
		runtime.Gosched()
	}
	cancel()
	for range gitAtOnce {
		if err := <-looks; err == nil {
			t.Error("a dead disk answered")
		}
	}
	if _, err := h.s.Changes(within(t), b.ID, ""); err != nil {
		t.Errorf("another mission: %v", err)
	}
	answer()
}

// TestStopOnADeadDisk: a mission whose disk does not answer ends when a person
// says so.
func TestStopOnADeadDisk(t *testing.T) {
	h := newHouse(t)
	r := h.begin("a", "demo:slow 60000")
	answer := hang(t, r.Terms.Folder)
	if _, err := h.s.Stop(within(t), r.ID); err != nil {
		t.Log(err) // it may take longer than a stop is waited for
	}
	h.phase(r.ID, mission.Stopped)
	answer()
}
