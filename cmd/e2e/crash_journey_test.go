package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/demo"
)

// scene is a mission that comes to the moment of a cell. Without at the fault
// is armed from the begin; else begin is called once at holds, and has to arm it.
type scene struct {
	scope string
	at    func(m wire.Mission) bool
	begin func(j *journey, m wire.Mission)
	ends  string // the reason of its end
}

const mend = "Mend the conversion in convert.sh.\n"

func asks(m wire.Mission) bool  { return m.Phase == "working" && m.Pending > 0 }
func waits(m wire.Mission) bool { return m.Phase == "waiting" && lastTurn(m).Next == "waiting" }
func talks(m wire.Mission) bool {
	return m.Phase == "working" && m.Activity != nil && m.Activity.Detail == ""
}
func blocked(m wire.Mission) bool { return m.Phase == "blocked" }

func lastTurn(m wire.Mission) wire.TurnInfo {
	if len(m.Turns) == 0 {
		return wire.TurnInfo{}
	}
	return m.Turns[len(m.Turns)-1]
}

var (
	whole = scene{scope: mend + "demo:two-turns", ends: "scope_done"}

	// The worker is lost while it asks, and the mission recovered.
	recovering = scene{scope: mend, at: asks, ends: "scope_done", begin: func(j *journey, m wire.Mission) {
		j.arm(j.last())
		j.lose(m)
	}}

	// The service dies before the checkout of a new mission is prepared.
	unprepared = scene{scope: mend, at: first, ends: "scope_done", begin: func(j *journey, _ wire.Mission) {
		j.arm(strike{"service.start-journaled", "starting", "service"}, j.last())
	}}

	// A person pauses or stops while the agent asks.
	pausing = scene{scope: mend, at: asks, ends: "scope_done", begin: func(j *journey, m wire.Mission) {
		j.arm(j.last())
		_, _ = try[wire.MissionResult](j.v, wire.MethodMissionPause, wire.MissionParams{ID: m.ID})
	}}
	stopping = scene{scope: mend, at: asks, ends: "person", begin: func(j *journey, m wire.Mission) {
		j.arm(j.last())
		_, _ = try[wire.MissionResult](j.v, wire.MethodMissionStop, wire.MissionParams{ID: m.ID})
	}}

	// The service dies in a phase, and the next one adopts. Where a phase lasts
	// for a moment, a first fault holds it.
	restartWaiting    = scene{scope: mend + "demo:wait", at: waits, begin: restart, ends: "scope_done"}
	restartAsking     = scene{scope: mend, at: asks, begin: restart, ends: "scope_done"}
	restartPaused     = scene{scope: mend, at: asks, begin: func(j *journey, m wire.Mission) { j.pause(m); restart(j, m) }, ends: "scope_done"}
	restartBlocked    = scene{scope: "demo:auth", at: blocked, begin: restart, ends: "person"}
	restartStarting   = scene{scope: mend, at: first, begin: after("service.guard-claimed"), ends: "scope_done"}
	restartWorking    = scene{scope: mend, at: first, begin: after("service.answer-delivered"), ends: "scope_done"}
	restartStopping   = scene{scope: mend, at: first, begin: after("service.end-journaled"), ends: "scope_done"}
	restartRecovering = scene{scope: mend, at: asks, ends: "scope_done", begin: func(j *journey, m wire.Mission) {
		after("service.guard-claimed")(j, m)
		j.lose(m)
	}}

	// Nothing is under way, and the victim dies.
	quietProposed   = scene{scope: mend, at: func(m wire.Mission) bool { return m.Phase == "proposed" }, begin: kill, ends: "scope_done"}
	quietWaiting    = scene{scope: mend + "demo:wait", at: waits, begin: kill, ends: "scope_done"}
	quietWorking    = scene{scope: "demo:slow 300", at: talks, begin: kill, ends: "scope_done"}
	quietAsking     = scene{scope: mend, at: asks, begin: kill, ends: "scope_done"}
	quietPaused     = scene{scope: mend, at: asks, begin: func(j *journey, m wire.Mission) { j.pause(m); kill(j, j.again(m)) }, ends: "scope_done"}
	quietBlocked    = scene{scope: "demo:auth", at: blocked, begin: kill, ends: "person"}
	quietRecovering = scene{scope: mend, at: asks, ends: "scope_done", begin: func(j *journey, m wire.Mission) {
		j.lose(m)
		m = j.v.lost(m.ID)
		do[wire.MissionStartResult](j.v, wire.MethodMissionRecover, recovery(m))
		kill(j, j.again(m))
	}}
)

func first(wire.Mission) bool { return true }

func restart(j *journey, _ wire.Mission) {
	j.arm(j.last())
	j.end("service", wire.Mission{})
}

func after(point string) func(*journey, wire.Mission) {
	return func(j *journey, _ wire.Mission) { j.arm(strike{point, j.c.phase, "service"}, j.last()) }
}

func kill(j *journey, m wire.Mission) {
	if got := phaseOf(m); got != j.c.phase {
		j.Fatalf("the mission is %s, not %s", got, j.c.phase)
	}
	j.end(j.c.victim, m)
	j.struck.Add(1)
}

func phaseOf(m wire.Mission) string {
	switch {
	case m.Phase == "starting" && m.Recovered, m.Phase == "blocked" && m.Pending > 0:
		return "recovering"
	case asks(m):
		return "asking"
	}
	return m.Phase
}

// strike is one death that is armed: the process that comes to the point stands
// still until the victim is gone.
type strike struct{ point, phase, victim string }

// journey drives one mission to its end through whatever happens to it.
type journey struct {
	*testing.T
	m      *machine
	v      *view
	w      *witness
	c      cell
	folder string
	pipes  string // where faults are armed
	shift  time.Duration

	arrived bool
	armed   atomic.Int32 // deaths that are to be
	struck  atomic.Int32 // deaths that were
	held    atomic.Bool  // a process stands at its point, so the person does nothing
	strikes sync.WaitGroup

	mu      sync.Mutex
	desk    *exec.Cmd // the person's window
	hand    *exec.Cmd // the person's command under way
	seen    wire.Mission
	serving bool
}

func die(t *testing.T, c cell) {
	m := newMachine(t)
	m.env = append(m.env, "GORACE=atexit_sleep_ms=0")
	j := &journey{T: t, m: m, c: c, folder: filepath.Join(m.dir, "sample"), pipes: filepath.Join(m.dir, "faults")}
	m.env = append(m.env, "REEVE_TEST_FAULT="+j.pipes)
	if err := os.Mkdir(j.pipes, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := demo.Sample(j.folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.release)
	j.start()
	j.v, j.w = m.watch(), m.witness()
	if c.victim == "desktop" {
		j.open()
	}
	if c.scene.at == nil {
		j.arm(j.last())
	}
	end := j.run()
	j.release()
	if j.struck.Load() != max(1, j.armed.Load()) {
		t.Fatalf("the mission ended, and %d of %d deaths happened", j.struck.Load(), max(1, j.armed.Load()))
	}
	j.check(end)
}

// last is the death of the cell.
func (j *journey) last() strike { return strike{j.c.point, j.c.phase, j.c.victim} }

// arm makes the first of the strikes possible, and each next one when the one
// before struck.
func (j *journey) arm(s ...strike) {
	j.armed.Add(1)
	pipe := filepath.Join(j.pipes, s[0].point)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		j.Error(err)
		return
	}
	j.strikes.Go(func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when a process stands there
		if err != nil {
			j.Error(err)
			return
		}
		defer f.Close() // it goes on, if it lives
		if _, err := os.Stat(pipe + ".fired"); err != nil {
			return // the test is over
		}
		j.held.Store(true)
		defer j.held.Store(false)
		m := j.look()
		// What a guard has logged its service may have read already.
		read := s[0].point == "guard.turn-end-logged" && m.Phase == "waiting"
		if got := phaseOf(m); got != s[0].phase && !read {
			j.Errorf("%s was reached while %s, not %s", s[0].point, got, s[0].phase)
		}
		if len(s) > 1 {
			j.arm(s[1:]...)
		}
		j.end(s[0].victim, m)
		j.struck.Add(1)
	})
}

// release lets everything go on that stands at a point, and waits for the strikes.
func (j *journey) release() {
	pipes, _ := os.ReadDir(j.pipes)
	var open []*os.File
	for _, p := range pipes {
		if p.Type() == os.ModeNamedPipe {
			if f, err := os.OpenFile(filepath.Join(j.pipes, p.Name()), os.O_RDWR, 0); err == nil {
				open = append(open, f)
			}
		}
	}
	j.strikes.Wait()
	for _, f := range open {
		_ = os.Remove(f.Name())
		_ = f.Close()
	}
	if j.desk != nil {
		_ = j.desk.Process.Kill()
		_ = j.desk.Wait()
		j.desk = nil
	}
}

// look asks the service for the mission. One that is just starting serves
// nobody; then the mission is what it was.
func (j *journey) look() wire.Mission {
	j.mu.Lock()
	seen, serving := j.seen, j.serving
	j.mu.Unlock()
	if !serving {
		return seen
	}
	c, err := client.Dial(j.Context(), j.m.socket(), client.Options{Client: "e2e"})
	if err != nil {
		j.Errorf("the service does not answer: %v", err)
		return seen
	}
	defer c.Close()
	list, err := client.Do[wire.MissionListResult](j.Context(), c, wire.MethodMissionList, nil)
	if err != nil {
		j.Errorf("the service does not answer: %v", err)
	}
	m := j.mine(list.Missions)
	j.see(m)
	return m
}

func (j *journey) see(m wire.Mission) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = m
}

// mine is the mission of this journey. A guard that died before it could begin
// is a start that failed; the person proposes the mission again.
func (j *journey) mine(list []wire.Mission) wire.Mission {
	for _, m := range list {
		if m.Phase != "startup_failed" {
			return m
		}
	}
	return wire.Mission{}
}

func (j *journey) again(m wire.Mission) wire.Mission {
	return do[wire.MissionResult](j.v, wire.MethodMissionGet, wire.IDParams{ID: m.ID}).Mission
}

// end kills a process for good and returns when it is gone.
func (j *journey) end(victim string, m wire.Mission) {
	var pids []int
	record := func(name string) {
		var r wire.Process
		b, err := os.ReadFile(filepath.Join(j.m.state, "attempts", m.Attempt, name))
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			j.Errorf("the record of the %s: %v", victim, err)
			return
		}
		pids = append(pids, r.PID)
	}
	switch victim {
	case "service":
		j.mu.Lock()
		j.serving = false
		j.mu.Unlock()
		for _, p := range j.m.processes() {
			if pid, args, _ := strings.Cut(p, " "); strings.Contains(args, "reeve service run") {
				n, _ := strconv.Atoi(pid)
				pids = append(pids, n)
			}
		}
	case "guard":
		record("guard.json")
	case "provider":
		record("provider.json")
	case "desktop":
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, cmd := range []*exec.Cmd{j.desk, j.hand} {
			if cmd != nil {
				pids = append(pids, cmd.Process.Pid)
			}
		}
	}
	if len(pids) == 0 {
		j.Errorf("there is no %s to kill", victim)
	}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH && victim == "desktop" {
			continue // the person's command had just ended
		}
		if err == nil {
			err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		if err != nil {
			j.Errorf("kill the %s, process %d: %v", victim, pid, err)
			continue
		}
		for gone := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}; ; {
			n, err := unix.Poll(gone, int(waitLimit.Milliseconds()))
			if err == unix.EINTR {
				continue
			}
			if n != 1 {
				j.Errorf("the %s, process %d, does not die: %v", victim, pid, err)
			}
			break
		}
		_ = unix.Close(fd)
	}
}

// lose kills the guard.
func (j *journey) lose(m wire.Mission) { j.end("guard", m) }

func (j *journey) pause(m wire.Mission) {
	j.see(do[wire.MissionResult](j.v, wire.MethodMissionPause, wire.MissionParams{ID: m.ID}).Mission)
}

// open opens what a person looks at: reeve watch, which follows as the desktop
// does. That it is killed must change nothing. (TestDesktopRecovers kills the
// real desktop.)
func (j *journey) open() {
	j.desk = exec.Command(filepath.Join(bin, "reeve"), "watch", "--json")
	j.desk.Env, j.desk.Dir = j.m.env, j.m.dir
	if err := j.desk.Start(); err != nil {
		j.Fatal(err)
	}
}

func (j *journey) start() {
	for tries := 0; !j.m.tryStart(); tries++ { // it may die while it starts
		if tries == 3 {
			j.Fatalf("the service did not come up:\n%s", j.m.logs.text())
		}
	}
	j.mu.Lock()
	j.serving = true
	j.mu.Unlock()
}

// run acts on what the view shows until the mission has ended.
func (j *journey) run() wire.Mission {
	deadline := time.After(2 * waitLimit)
	for {
		select {
		case <-j.m.exited:
			j.mu.Lock()
			j.serving = false
			j.mu.Unlock()
			j.start()
		default:
		}
		j.v.mu.Lock()
		changed := j.v.changed
		j.v.mu.Unlock()
		if m, done := j.act(); done {
			return m
		}
		select {
		case <-changed:
		case <-j.m.exited:
		case <-time.After(tick): // a strike that is over, and clocks, tell nobody
		case <-deadline:
			j.Fatalf("the mission did not come to its end; %s\nservice log:\n%s", j.v.dump(), j.m.logs.text())
		}
	}
}

// act does what a person would do now.
func (j *journey) act() (wire.Mission, bool) {
	if j.held.Load() {
		return wire.Mission{}, false
	}
	list, err := try[wire.MissionListResult](j.v, wire.MethodMissionList, nil)
	if err != nil {
		return wire.Mission{}, false
	}
	m := j.mine(list.Missions)
	if m.ID == "" {
		p := j.m.demoTerms(j.folder, j.c.scene.scope)
		if j.c.victim == "provider" && j.c.scene == &whole {
			p.Scope = mend // the next turn has to do it all
		}
		_, _ = try[wire.MissionStartResult](j.v, wire.MethodMissionStart, p)
		return m, false
	}
	j.see(m)
	if at := j.c.scene.at; !j.arrived && at != nil && at(m) {
		j.arrived = true
		j.c.scene.begin(j, m)
		return m, false
	}
	last := lastTurn(m)
	params := wire.MissionParams{ID: m.ID}
	switch {
	case m.Phase == "completed" || m.Phase == "stopped":
		return m, true
	case m.Recovery == "approval_required" && m.Pending == 0:
		_, _ = try[wire.MissionStartResult](j.v, wire.MethodMissionRecover, recovery(m))
	case m.Pending > 0 || m.Phase == "proposed":
		j.answer(m)
	case m.Phase == "paused":
		_, _ = try[wire.MissionResult](j.v, wire.MethodMissionResume, params)
	case m.Phase == "blocked" && last.Code == "authentication_required":
		_, _ = try[wire.MissionResult](j.v, wire.MethodMissionStop, params)
	case m.Phase == "waiting" && last.Next == "waiting" && len(m.Steering) < 3:
		_, _ = try[wire.MissionResult](j.v, wire.MethodMissionSteer, wire.SteerParams{ID: m.ID, Text: "Go on."})
	case m.Phase == "waiting" && last.Outcome == "failed" && m.NextTurnAt != nil && time.Until(*m.NextTurnAt) > j.shift:
		j.shift = time.Until(*m.NextTurnAt) + time.Second
		j.m.setClock(j.shift) // a failed turn is tried again, but not at once
	}
	return m, false
}

// answer allows what waits.
func (j *journey) answer(m wire.Mission) {
	waiting, err := try[wire.ApprovalListResult](j.v, wire.MethodApprovalList, wire.ApprovalListParams{Mission: m.ID})
	if err != nil || len(waiting.Approvals) == 0 {
		return
	}
	a := waiting.Approvals[0]
	if j.c.victim != "desktop" {
		_, _ = try[wire.ApprovalResult](j.v, wire.MethodApprovalAnswer, wire.AnswerParams{ID: a.ID, Digest: a.Digest, Allow: true})
		return
	}
	// With a program that can be killed in the middle of it.
	cmd := exec.Command(filepath.Join(bin, "reeve"), "allow", a.ID, "--digest", a.Digest)
	cmd.Env, cmd.Dir = j.m.env, j.m.dir
	j.mu.Lock()
	err = cmd.Start()
	if err == nil {
		j.hand = cmd
	}
	j.mu.Unlock()
	if err != nil {
		j.Error(err)
		return
	}
	_, _ = cmd.Process.Wait()
	j.mu.Lock()
	j.hand = nil
	j.mu.Unlock()
}

// check is what must hold after every crash: the work was done once, and all
// that holds after any mission.
func (j *journey) check(m wire.Mission) {
	j.Helper()
	if m.EndReason != j.c.scene.ends {
		j.Errorf("the mission ended %s (%s): %+v", m.Phase, m.EndReason, m.Failure)
	}
	out, err := exec.Command("git", "-C", j.folder, "diff", "--stat").CombinedOutput()
	if done := bytes.Contains(out, []byte("1 file changed, 1 insertion(+), 1 deletion(-)")); err != nil ||
		done != (m.EndReason == "scope_done" && strings.HasPrefix(j.c.scene.scope, mend)) || !done && len(out) > 0 {
		j.Errorf("what was done to the checkout: %s %v", out, err)
	}
	j.m.invariants(j.v, j.w)
	if !slices.ContainsFunc(moments, func(x moment) bool { return x == j.c.moment }) {
		j.Error("the cell is not in the table")
	}
}
