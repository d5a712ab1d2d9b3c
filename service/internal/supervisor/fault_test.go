//go:build linux || darwin

package supervisor

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/runlog"
	"github.com/reevehq/reeve/service/internal/session"
)

// fullDisk lets every write of this process to a file fail, and returns what
// makes room again. Guards that run already are not affected.
//
// The limit holds for the whole process, the log of the go command's test cache
// included, so a test with a full disk runs in a process of its own.
func fullDisk(t *testing.T) (room func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := limit
	full.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	room = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(room)
	return room
}

// What a guard says while the disk is full is made up for: the request is
// asked, the turn ends, and meanwhile the person sees what is wrong.
func TestFullDiskLosesNoEntry(t *testing.T) {
	if inChild(t) {
		return
	}
	h := newHouse(t)
	r := h.begin("a", "demo:slow 120\ndemo:command true")
	room := fullDisk(t)
	shown := h.until(r.ID, "fault", func(r Record) bool { return r.Fault != "" })
	if !strings.Contains(shown.Fault, "disk") || len(h.s.Faults()) != 1 {
		t.Errorf("shown: %q, %q", shown.Fault, h.s.Faults())
	}
	room()
	ask := h.waits(r.ID)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		t.Fatal(err)
	}
	r = h.phase(r.ID, mission.Completed)
	if r.Fault != "" || len(h.s.Faults()) != 0 || r.ToolCalls != 1 || len(r.Turns) != 1 {
		t.Errorf("fault %q, %q, %d tools, %d turns", r.Fault, h.s.Faults(), r.ToolCalls, len(r.Turns))
	}
}

// With a full disk nothing is announced as done; a stop ends the worker all the
// same, and is journaled later.
func TestStopWithAFullDisk(t *testing.T) {
	if inChild(t) {
		return
	}
	h := newHouse(t)
	r := h.begin("a", "demo:command true\ndemo:slow 100000")
	ask := h.waits(r.ID)
	g := h.guardOf(r)
	room := fullDisk(t)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err == nil {
		t.Error("an answer that could not be journaled counts")
	}
	if _, err := h.s.Steer(within(t), r.ID, "More."); err == nil {
		t.Error("steering that could not be journaled counts")
	}
	_, err := h.s.Stop(within(t), r.ID)
	if wire.CodeOf(err) != wire.CodeUnavailable || !strings.Contains(err.Error(), "told to end") {
		t.Errorf("stop: %v", err)
	}
	if err := proc.ID(g.Process).Wait(within(t)); err != nil {
		t.Fatalf("the worker was not ended: %v", err)
	}
	now, _ := h.s.Get(r.ID)
	if now.Phase.Terminal() || now.Fault == "" || len(now.Steering) != 0 {
		t.Errorf("%s, fault %q, %d steering", now.Phase, now.Fault, len(now.Steering))
	}
	h.mu.Lock()
	state := h.asks[ask.ID].State
	h.mu.Unlock()
	if state != approval.Pending {
		t.Errorf("the approval is announced as %s", state)
	}
	room()
	r = h.phase(r.ID, mission.Stopped)
	if r.EndReason != mission.EndPerson || h.owned(r.Terms.Folder) != "" {
		t.Errorf("ended by %s; the checkout belongs to %q", r.EndReason, h.owned(r.Terms.Folder))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.asks[ask.ID]; a.State != approval.Withdrawn {
		t.Errorf("the approval is %s", a.State)
	}
}

// behindGate begins a mission whose agent runs a command that waits for open,
// and then asks for another.
func (h *house) behindGate(name string) (r Record, open func()) {
	h.t.Helper()
	script := "touch ../begun\nwhile ! [ -e ../open ]; do sleep 0.05; done\n"
	if err := os.WriteFile(filepath.Join(h.dir, "gate.sh"), []byte(script), 0o600); err != nil {
		h.t.Fatal(err)
	}
	r = h.begin(name, "demo:command sh ../gate.sh\ndemo:command true")
	ask := h.waits(r.ID)
	if _, err := h.answer(ask, approval.Answer{Allow: true}); err != nil {
		h.t.Fatal(err)
	}
	h.update(func() { delete(h.asks, ask.ID) })
	eventually(h.t, "the command", func() bool { _, err := os.Stat(filepath.Join(h.dir, "begun")); return err == nil })
	return r, func() {
		h.t.Helper()
		if err := os.Mkdir(filepath.Join(h.dir, "open"), 0o700); err != nil {
			h.t.Fatal(err)
		}
	}
}

// logged waits until the log of the mission's guard has n entries of a kind.
func (h *house) logged(r Record, kind string, n int) {
	h.t.Helper()
	eventually(h.t, kind, func() bool {
		found := 0
		_, err := session.History(within(h.t), h.s.LogPath(r.Attempt), 0, func(e runlog.Record) bool {
			if e.Kind == kind {
				found++
			}
			return true
		})
		return err == nil && found >= n
	})
}

// eventually waits for something that nobody announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no %s", what)
		}
	}
}

// A guard that was claimed while the disk is full is kept: the fault is shown,
// and once there is room the mission goes on with what its agent asked before
// the claim.
func TestAdoptWithAFullDisk(t *testing.T) {
	if inChild(t) {
		return
	}
	h := newHouse(t)
	r, open := h.behindGate("a")
	h.s.Close()
	open()
	h.logged(r, wire.KindPermissionAsked, 2)
	h.renew()
	room := fullDisk(t)
	h.claimedWithFault(r)
	room()
	h.goesOn(r)
}

// What the agent asks after such a claim is not taken for something that the
// guard had forgotten when it was claimed.
func TestAskedAfterAnAdoptionWithAFullDisk(t *testing.T) {
	if inChild(t) {
		return
	}
	h := newHouse(t)
	r, open := h.behindGate("a")
	h.s.Close()
	h.renew()
	room := fullDisk(t)
	h.claimedWithFault(r)
	open()
	h.logged(r, wire.KindPermissionAsked, 2)
	room()
	h.goesOn(r)
}

// claimedWithFault adopts a mission whose journal can't be written.
func (h *house) claimedWithFault(r Record) {
	h.t.Helper()
	notes, err := h.s.Adopt(within(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	now, err := h.s.Get(r.ID)
	if err != nil || now.Fault == "" || now.Phase != mission.Working || len(h.s.Faults()) != 1 {
		h.t.Fatalf("adopted as %s, fault %q, %v, %v", now.Phase, now.Fault, notes, err)
	}
}

// goesOn answers what the agent asks, and waits for the end of the mission.
func (h *house) goesOn(r Record) {
	h.t.Helper()
	if _, err := h.answer(h.waits(r.ID), approval.Answer{Allow: true}); err != nil {
		h.t.Fatal(err)
	}
	r = h.phase(r.ID, mission.Completed)
	if r.Fault != "" || len(r.Turns) != 1 || r.ToolCalls != 2 || r.Guard == mission.GuardUncertain {
		h.t.Errorf("fault %q, %d turns, %d tools, guard %s", r.Fault, len(r.Turns), r.ToolCalls, r.Guard)
	}
}

// inChild runs the calling test again in a process of its own, and says whether
// that was done.
func inChild(t *testing.T) bool {
	t.Helper()
	const mark = "REEVE_TEST_IN_CHILD"
	if os.Getenv(mark) != "" {
		return false
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), mark+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}
