package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// points finds every fault point in the source, so that none is forgotten.
func points(t *testing.T) []string {
	t.Helper()
	mark := regexp.MustCompile(`fault\.Point\("([a-z.-]+)"\)`)
	var found []string
	err := filepath.WalkDir("../../service", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.Contains(path, "internal/fault") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range mark.FindAllStringSubmatch(string(b), -1) {
			if slices.Contains(found, m[1]) {
				t.Errorf("the fault point %s stands in two places", m[1])
			}
			found = append(found, m[1])
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no fault points: %v", err)
	}
	slices.Sort(found)
	return found
}

// sample are the points that every test run tries; REEVE_TEST_CRASH=all tries
// them all.
var sample = []string{
	"service.start-journaled", "service.guard-spawned", "service.turn-journaled", "service.request-journaled",
	"service.answer-journaled", "service.turn-end-read", "service.tree-empty", "guard.fence-written", "guard.answer-logged",
}

// TestCrash kills the service or a guard at each fault point of a whole
// mission, goes on as a person would (restart, recover, answer what waits), and
// checks what must hold after every crash.
func TestCrash(t *testing.T) {
	all := points(t)
	for _, s := range sample {
		if !slices.Contains(all, s) {
			t.Errorf("the sample names %s, which is no fault point", s)
		}
	}
	tried := sample
	if os.Getenv("REEVE_TEST_CRASH") == "all" {
		tried = all
	}
	for _, point := range tried {
		t.Run(point, func(t *testing.T) { crash(t, point) })
	}
	t.Logf("%d of %d fault points tried", len(tried), len(all))
}

// journey drives one mission to its end through whatever happens to it.
type journey struct {
	*testing.T
	m      *machine
	v      *view
	folder string
	log    string // where a fault notes that it fired
	kill   func(j *journey, m wire.Mission) bool
	killed bool
	again  []string // environment of the next start
}

func crash(t *testing.T, point string) {
	m := newMachine(t)
	j := &journey{T: t, m: m, folder: filepath.Join(m.dir, "sample"), log: filepath.Join(m.dir, "fired")}
	fault := []string{"REEVE_TEST_FAULT=" + point, "REEVE_TEST_FAULT_LOG=" + j.log}
	first := fault
	switch {
	case strings.HasPrefix(point, "service.adopt-"):
		// Only a service that finds a live guard gets there.
		first = nil
		j.kill = func(j *journey, _ wire.Mission) bool {
			_ = j.m.cmd.Process.Kill()
			j.again = fault
			return true
		}
	case strings.HasPrefix(point, "service.recovery-"):
		j.kill = func(j *journey, m wire.Mission) bool {
			return syscall.Kill(j.m.guardOf(m.Attempt).PID, syscall.SIGKILL) == nil
		}
	}
	if !m.tryStart(first...) {
		t.Fatalf("the service did not come up:\n%s", m.logs.text())
	}
	sampleRepo(m, j.folder)
	select {
	case <-m.exited: // it struck already
		m.start()
	default:
	}
	j.v = m.watch()
	end := j.run()
	if b, err := os.ReadFile(j.log); err != nil {
		t.Fatalf("the fault point %s was never reached", point)
	} else {
		t.Logf("fired: %s", strings.TrimSpace(string(b)))
	}
	j.check(end)
}

// sampleRepo makes the demo's repository through the command line. A fault may
// strike here already; then the proposal stays, or was never made.
func sampleRepo(m *machine, dir string) {
	m.t.Helper()
	r := m.run("demo", "--folder", dir, "--propose", "--json")
	var p wire.MissionStartResult
	if r.code != 0 || json.Unmarshal([]byte(r.out), &p) != nil {
		m.t.Logf("demo: exit %d %s", r.code, r.err)
		return
	}
	if g := m.run("deny", p.Approval.ID, "--digest", p.Approval.Digest); g.code != 0 {
		m.t.Logf("deny: exit %d %s", g.code, g.err)
	}
}

const journeyScope = "Mend the conversion in convert.sh.\ndemo:two-turns"

// run acts on what the view shows until the mission has ended.
func (j *journey) run() wire.Mission {
	deadline := time.After(3 * time.Minute)
	for {
		select {
		case <-j.m.exited:
			env := j.again
			j.again = nil
			for !j.m.tryStart(env...) {
				env = nil // it died on its fault while starting
			}
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
		case <-deadline:
			j.Fatalf("the mission did not come to its end; %s\nservice log:\n%s", j.v.dump(), j.m.logs.text())
		}
	}
}

// act does what a person would do now.
func (j *journey) act() (wire.Mission, bool) {
	list, err := try[wire.MissionListResult](j.v, wire.MethodMissionList, nil)
	if err != nil {
		return wire.Mission{}, false
	}
	var m wire.Mission
	owners := 0
	for _, x := range list.Missions {
		if x.CheckoutOwned {
			owners++
		}
		// A guard that died before it could begin is a start that failed; the
		// person proposes the mission again.
		if x.Scope == journeyScope && x.Phase != "denied" && x.Phase != "startup_failed" && m.ID == "" {
			m = x
		}
	}
	if owners > 1 {
		j.Fatalf("%d missions own the checkout", owners)
	}
	if m.ID == "" {
		p := j.m.demoTerms(j.folder, journeyScope)
		_, _ = try[wire.MissionStartResult](j.v, wire.MethodMissionStart, p)
		return m, false
	}
	switch m.Phase {
	case "completed", "stopped":
		return m, true
	}
	waiting, err := try[wire.ApprovalListResult](j.v, wire.MethodApprovalList, wire.ApprovalListParams{Mission: m.ID})
	if err != nil {
		return m, false
	}
	for _, a := range waiting.Approvals {
		if a.Kind == "file_change" && !j.killed && j.kill != nil {
			j.killed = j.kill(j, m)
			return m, false
		}
		_, _ = try[wire.ApprovalResult](j.v, wire.MethodApprovalAnswer, wire.AnswerParams{ID: a.ID, Digest: a.Digest, Allow: true})
		return m, false
	}
	if m.Recovery == "approval_required" {
		_, _ = try[wire.MissionStartResult](j.v, wire.MethodMissionRecover, recovery(m))
	}
	return m, false
}

// check is what must hold after every crash: the work was done once, nothing
// runs, nothing is owned, nothing waits for a mission that has ended, every
// request has its approval, and the records are whole.
func (j *journey) check(m wire.Mission) {
	j.Helper()
	if m.Phase != "completed" || m.EndReason != "scope_done" {
		j.Errorf("the mission ended %s (%s): %+v", m.Phase, m.EndReason, m.Failure)
	}
	if out, err := exec.Command("git", "-C", j.folder, "diff", "--stat").CombinedOutput(); err != nil || !strings.Contains(string(out), "1 file changed, 1 insertion(+), 1 deletion(-)") {
		j.Errorf("what was done to the checkout: %s %v", out, err)
	}
	j.v.noProvider(m)
	var ids []string
	all := do[wire.ApprovalListResult](j.v, wire.MethodApprovalList, wire.ApprovalListParams{All: true, Mission: m.ID})
	for _, a := range all.Approvals {
		ids = append(ids, a.ID)
		if a.State == "pending" {
			j.Errorf("%s still waits: %s", a.Kind, a.ID)
		}
	}
	page := do[wire.MessagesResult](j.v, wire.MethodSessionMessages, wire.MessagesParams{Session: m.ID, Limit: 1000})
	last := map[string]uint64{}
	rules := 0
	for _, e := range page.Entries {
		if e.Seq != last[e.Log]+1 {
			j.Errorf("the log %s goes from %d to %d", e.Log, last[e.Log], e.Seq)
		}
		last[e.Log] = e.Seq
		var p wire.Permission
		if e.Kind == wire.KindPermissionAsked && json.Unmarshal(e.Data, &p) == nil && p.Class != wire.ToolRead && !slices.Contains(ids, p.Request) {
			j.Errorf("the request %s has no approval", p.Request)
		}
		if p.Class == wire.ToolRead {
			rules++
		}
	}
	if rules == 0 {
		j.Error("no read was logged")
	}
	for _, c := range do[wire.CheckResult](j.v, wire.MethodServiceCheck, nil).Checks {
		if !c.OK {
			j.Errorf("doctor: %s: %s", c.Name, c.Message)
		}
	}
	if a := do[wire.AuditVerifyResult](j.v, wire.MethodAuditVerify, nil); !a.OK {
		j.Errorf("audit: %+v", a)
	}
	if m.CheckoutOwned {
		j.Error("the checkout is still owned")
	}
}
