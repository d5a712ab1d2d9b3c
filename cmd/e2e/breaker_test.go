package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// The test binary is also a worker's program: flood PATH.
func init() {
	if len(os.Args) == 3 && os.Args[1] == "flood" {
		flood(os.Args[2])
		os.Exit(0)
	}
}

// flood calls what a worker may not, over as many connections as it gets,
// until it is ended.
func flood(path string) {
	line := []byte(`{"version":2,"id":"1","method":"mission.list"}` + "\n")
	type place struct {
		net.Conn
		*bufio.Reader
	}
	var places []place
	for range 150 {
		c, err := net.Dial("unix", path)
		if err != nil {
			continue
		}
		p := place{c, bufio.NewReader(c)}
		_, _ = c.Write(line)
		if answer, err := p.ReadString('\n'); err == nil && strings.Contains(answer, "forbidden") {
			places = append(places, p)
		}
	}
	fmt.Println(len(places), "places")
	for len(places) > 0 {
		for _, p := range places {
			if _, err := p.Write(bytes.Repeat(line, 20)); err != nil {
				return
			}
			for range 20 {
				if _, err := p.ReadString('\n'); err != nil {
					return
				}
			}
		}
	}
}

// TestEndWhileStarting: a service that is told to end while missions start
// loses none of them: the next one finds each running, or started by nobody.
func TestEndWhileStarting(t *testing.T) {
	m := newMachine(t).start()
	v := m.watch()
	var all []wire.MissionStartResult
	for i := range 4 {
		all = append(all, do[wire.MissionStartResult](v, wire.MethodMissionStart, m.demoTerms(m.repo(fmt.Sprint("r", i)), "demo:slow 100000")))
	}
	var answers sync.WaitGroup
	for _, r := range all {
		answers.Go(func() {
			_, _ = try[wire.ApprovalResult](v, wire.MethodApprovalAnswer, wire.AnswerParams{ID: r.Approval.ID, Digest: r.Approval.Digest, Allow: true})
		})
	}
	v.phase(all[0].Mission.ID, "starting", "waiting", "working")
	m.signal(syscall.SIGTERM)
	answers.Wait()
	m.start()
	w := m.watch()
	for _, r := range all {
		mi := w.phase(r.Mission.ID, "proposed", "waiting", "working", "blocked")
		if mi.Phase == "blocked" && mi.Recovery != "approval_required" {
			t.Errorf("%s: %s %q", mi.ID, mi.Recovery, mi.BlockedBy)
		}
		if mi.Phase == "proposed" != (mi.Pending == 1) {
			t.Errorf("%s is %s with %d waiting", mi.ID, mi.Phase, mi.Pending)
		}
		stopped := do[wire.MissionResult](w, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID}).Mission
		if stopped.Phase != "stopped" {
			t.Errorf("%s ended as %s", mi.ID, stopped.Phase)
		}
	}
}

// TestRefusalFloodOfAWorker: a worker that opens all connections it can and
// calls what it may not, without a pause, keeps no person from stopping it; all
// it tried is counted, and little of it is journaled one by one.
func TestRefusalFloodOfAWorker(t *testing.T) {
	m := newMachine(t).start()
	v := m.watch()
	// The demo agent splits a command at spaces, and this machine has some.
	link := filepath.Join(os.TempDir(), fmt.Sprintf("reeve-flood-%d", os.Getpid()))
	if err := os.Mkdir(link, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(link) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(link, "flooder")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(m.socket(), filepath.Join(link, "sock")); err != nil {
		t.Fatal(err)
	}
	before := do[wire.AuditVerifyResult](v, wire.MethodAuditVerify, struct{}{}).Entries
	r := do[wire.MissionStartResult](v, wire.MethodMissionStart, m.demoTerms(m.repo("repo"), "demo:command "+link+"/flooder flood "+link+"/sock"))
	v.answer(r.Approval, wire.AnswerParams{Allow: true})
	began := time.Now()
	v.answer(v.pending(r.Mission.ID, "tool_call"), wire.AnswerParams{Allow: true})
	v.wait("a refusal", func() bool { return v.service.Refusals > 0 })
	var refusals int
	for refusals < 1000 {
		p := m.dial() // a person finds a place while all of a worker's are taken
		var s wire.Service
		if err := p.Call(t.Context(), wire.MethodServiceStatus, struct{}{}, &s); err != nil {
			t.Fatal(err)
		}
		p.Close()
		refusals = s.Refusals
	}
	if mi := do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: r.Mission.ID}).Mission; mi.Phase != "stopped" {
		t.Errorf("stopped to %s", mi.Phase)
	}
	// Of each ten seconds ten are journaled one by one, and the rest as one.
	most := 20 + 11*(2+uint64(time.Since(began)/(10*time.Second)))
	if rep := do[wire.AuditVerifyResult](v, wire.MethodAuditVerify, struct{}{}); !rep.OK || rep.Entries-before > most {
		t.Errorf("%d entries more in the audit, at most %d were to come: %+v", rep.Entries-before, most, rep)
	}
}
