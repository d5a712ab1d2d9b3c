package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// witness remembers everything that a client is shown of missions and approvals,
// over restarts of the service, and objects to what may never be shown.
type witness struct {
	f *client.Follower

	mu        sync.Mutex
	phases    map[string]map[uint64]string // mission → revision → phase
	newest    map[string]wire.Mission
	approvals map[string]wire.Approval
	wrong     []string
}

func (m *machine) witness() *witness {
	m.t.Helper()
	w := &witness{phases: map[string]map[uint64]string{}, newest: map[string]wire.Mission{}, approvals: map[string]wire.Approval{}}
	path := m.socket()
	w.f = client.Follow(context.Background(), func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, path, client.Options{Client: "e2e"})
	}, []string{wire.TopicMissions, wire.TopicApprovals}, w)
	m.t.Cleanup(w.f.Close)
	return w
}

// State implements client.Handler.
func (w *witness) State(client.State) {}

// Snapshot implements client.Handler. It never shows an older record than was
// shown before, by this service or by an earlier one.
func (w *witness) Snapshot(topic string, items []json.RawMessage, _ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range items {
		var m wire.Mission
		if topic == wire.TopicMissions && json.Unmarshal(it, &m) == nil && m.Revision < w.newest[m.ID].Revision {
			w.object("mission %s is shown at revision %d after %d", m.ID, m.Revision, w.newest[m.ID].Revision)
		}
		w.take(topic, it)
	}
}

// Delta implements client.Handler.
func (w *witness) Delta(topic string, e wire.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.take(topic, e.Data)
}

func (w *witness) object(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *witness) take(topic string, data json.RawMessage) {
	switch topic {
	case wire.TopicMissions:
		var m wire.Mission
		if json.Unmarshal(data, &m) == nil && m.ID != "" {
			w.mission(m)
		}
	case wire.TopicApprovals:
		var a wire.Approval
		if json.Unmarshal(data, &a) == nil && a.ID != "" {
			w.approval(a)
		}
	}
}

// mission: one revision is one phase, and a checkout has one owner.
func (w *witness) mission(m wire.Mission) {
	if w.phases[m.ID] == nil {
		w.phases[m.ID] = map[uint64]string{}
	}
	if was, ok := w.phases[m.ID][m.Revision]; ok && was != m.Phase {
		w.object("mission %s is %s and %s at revision %d", m.ID, was, m.Phase, m.Revision)
	}
	w.phases[m.ID][m.Revision] = m.Phase
	if m.Revision < w.newest[m.ID].Revision {
		return // an old state again, as may follow a snapshot
	}
	w.newest[m.ID] = m
	for id, x := range w.newest {
		if m.CheckoutOwned && id != m.ID && x.CheckoutOwned && x.Folder == m.Folder {
			w.object("%s and %s both own %s", m.ID, id, m.Folder)
		}
	}
}

// approval: what is settled stays so; only an answer that came too late may
// turn stale.
func (w *witness) approval(a wire.Approval) {
	was, known := w.approvals[a.ID]
	if known && was.State != a.State && was.State != "pending" && a.State != "pending" && a.State != "stale" {
		w.object("approval %s was %s and is %s", a.ID, was.State, a.State)
	}
	if known && was.Digest != a.Digest {
		w.object("approval %s has another digest than before", a.ID)
	}
	w.approvals[a.ID] = a
}

// stories are the phases of each mission, in order: each step is one of the
// machine's, and where revisions were missed, several.
func (w *witness) stories(t *testing.T) {
	t.Helper()
	for id, by := range w.phases {
		revisions := slices.Sorted(maps.Keys(by))
		for i, r := range revisions[1:] {
			from, to := by[revisions[i]], by[r]
			if from == to {
				continue
			}
			after := steps(map[mission.Phase]bool{mission.Phase(from): true})
			for missed := r - revisions[i] - 1; missed > 0; missed-- {
				more := steps(after)
				maps.Copy(more, after)
				if len(more) == len(after) {
					break
				}
				after = more
			}
			if !after[mission.Phase(to)] {
				t.Errorf("mission %s went from %s (revision %d) to %s (%d), which no event does", id, from, revisions[i], to, r)
			}
		}
	}
}

// steps are the phases that one event leads to.
func steps(from map[mission.Phase]bool) map[mission.Phase]bool {
	out := map[mission.Phase]bool{}
	for p := range from {
		for _, e := range []mission.Event{
			mission.EvAllowed, mission.EvDenied, mission.EvExpired, mission.EvStarted, mission.EvStartFailed, mission.EvTurnStarted,
			mission.EvTurnEnded, mission.EvPause, mission.EvResume, mission.EvBlock, mission.EvRecover, mission.EvStop, mission.EvDone,
			mission.EvSettled, mission.EvSettledDone, mission.EvClaimStuck,
		} {
			if next, err := p.On(e); err == nil {
				out[next] = true
			}
		}
	}
	return out
}

// invariants checks what holds after any missions, whatever happened to them:
// first as a client sees it, then, when service and workers were stopped, in the
// state directory and among the processes.
func (m *machine) invariants(v *view, w *witness) {
	t := m.t
	t.Helper()
	if w != nil {
		w.f.Close()
		for _, s := range w.wrong {
			t.Error(s)
		}
		w.stories(t)
	}
	approvals := map[string]wire.Approval{}
	for _, a := range do[wire.ApprovalListResult](v, wire.MethodApprovalList, wire.ApprovalListParams{All: true}).Approvals {
		approvals[a.ID] = a
	}
	owners := map[string]string{}
	var attempts []string
	for _, x := range do[wire.MissionListResult](v, wire.MethodMissionList, nil).Missions {
		if other := owners[x.Folder]; x.CheckoutOwned && other != "" {
			t.Errorf("%s and %s both own %s", x.ID, other, x.Folder)
		} else if x.CheckoutOwned {
			owners[x.Folder] = x.ID
		}
		over := slices.Contains([]string{"completed", "stopped", "denied", "startup_failed"}, x.Phase)
		if over && (x.CheckoutOwned || len(x.Left) > 0 || x.Pending > 0) {
			t.Errorf("mission %s has ended: owned %v, left %v, %d wait", x.ID, x.CheckoutOwned, x.Left, x.Pending)
		}
		for _, a := range approvals {
			if a.Mission == x.ID && a.State == "pending" && over {
				t.Errorf("%s still waits, though its mission has ended: %s", a.Kind, a.ID)
			}
		}
		if x.Session != "" {
			attempts = append(attempts, transcript(v, x, approvals)...)
		}
	}
	for _, c := range do[wire.CheckResult](v, wire.MethodServiceCheck, nil).Checks {
		if !c.OK {
			t.Errorf("doctor: %s: %s", c.Name, c.Message)
		}
	}
	if a := do[wire.AuditVerifyResult](v, wire.MethodAuditVerify, nil); !a.OK || a.Entries == 0 {
		t.Errorf("audit: %+v", a)
	}

	m.stop()
	m.gone(func(string) bool { return false })
	noWorkers(t, attempts)
	for _, name := range []string{"guard.json", "provider.json"} {
		for _, file := range m.glob(filepath.Join("attempts", "*", name)) {
			var r wire.GuardRecord
			if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, &r) != nil {
				t.Errorf("the record %s can't be read: %v", file, err)
			}
		}
	}
	if r := m.run("doctor"); strings.Count(r.out, "✕") != 1 || !strings.Contains(r.out, "✕ service") {
		t.Errorf("doctor, without a service: exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// transcript checks a mission's whole log against its approvals, and returns the
// attempts that it names.
func transcript(v *view, x wire.Mission, approvals map[string]wire.Approval) (attempts []string) {
	t := v.m.t
	t.Helper()
	var entries []wire.Entry
	for cursor := (*wire.Cursor)(nil); ; {
		page := do[wire.MessagesResult](v, wire.MethodSessionMessages, wire.MessagesParams{Session: x.ID, After: cursor, Limit: 1000})
		entries = append(entries, page.Entries...)
		if cursor = page.Next; cursor == nil || !page.More {
			break
		}
	}
	last := map[string]uint64{}
	asked := map[string]wire.Permission{}
	resolved := map[string]wire.PermissionResolved{}
	turn, tooLate := "", 0
	begun := map[string]bool{}
	for _, e := range entries {
		if e.Seq != last[e.Log]+1 {
			t.Errorf("the log %s goes from %d to %d", e.Log, last[e.Log], e.Seq)
		}
		if last[e.Log] == 0 {
			attempts, turn = append(attempts, e.Log), ""
		}
		last[e.Log] = e.Seq
		late := x.DeadlineAt != nil && e.At.After(*x.DeadlineAt)
		err := errors.Join(
			of(e, wire.KindTurnStarted, func(s wire.TurnStarted) {
				if turn != "" || begun[s.Turn] || late {
					t.Errorf("turn %s began inside turn %q, begun before %v, after the deadline %v", s.Turn, turn, begun[s.Turn], late)
				}
				turn, begun[s.Turn] = s.Turn, true
			}),
			of(e, wire.KindTurnFinished, func(f wire.TurnFinished) {
				if turn != f.Turn {
					t.Errorf("turn %s ended inside %q", f.Turn, turn)
				}
				turn = ""
			}),
			of(e, wire.KindToolStarted, func(s wire.ToolStarted) {
				if turn == "" || late {
					t.Errorf("the tool %s started in turn %q, after the deadline %v", s.Tool, turn, late)
				}
			}),
			of(e, wire.KindPermissionAsked, func(p wire.Permission) {
				if _, twice := asked[p.Request]; twice || turn == "" || late {
					t.Errorf("%s was asked twice %v, in turn %q, after the deadline %v", p.Request, twice, turn, late)
				}
				asked[p.Request] = p
			}),
			of(e, wire.KindNotice, func(n wire.Notice) {
				if strings.HasPrefix(n.Text, "The answer came too late") {
					tooLate++
				}
			}),
			of(e, wire.KindPermissionResolved, func(p wire.PermissionResolved) {
				if _, twice := resolved[p.Request]; twice || asked[p.Request].Request == "" {
					t.Errorf("%s was answered twice %v, asked %v", p.Request, twice, asked[p.Request].Request != "")
				}
				resolved[p.Request] = p
			}),
		)
		if err != nil {
			t.Errorf("entry %d of %s: %v", e.Seq, e.Log, err)
		}
	}
	// No approval is lost: every request of the log is one, unless a rule of the
	// terms settled it, and both tell of the same answer.
	for id, p := range asked {
		a, known := approvals[id]
		r, answered := resolved[id]
		switch {
		case !known && (p.Class != wire.ToolRead || answered && r.Outcome == "denied"):
			t.Errorf("the request %s has no approval", id)
		case known && a.Digest != p.Digest:
			t.Errorf("%s was asked as %s and shown as %s", id, p.Digest, a.Digest)
		case known && answered && a.State == "stale" && tooLate > 0:
			tooLate-- // the answer was on record, and the agent was gone by then
		case known && answered && (r.Outcome == "allowed" || r.Outcome == "denied") && a.State != r.Outcome:
			t.Errorf("the agent was told that %s is %s; the approval is %s", id, r.Outcome, a.State)
		case known && answered && (r.Outcome == "withdrawn" || r.Outcome == "expired") && (a.State == "allowed" || a.State == "denied"):
			t.Errorf("%s was %s, and its approval is still called %s", id, r.Outcome, a.State)
		}
	}
	return attempts
}

func of[T any](e wire.Entry, kind string, fn func(T)) error {
	if e.Kind != kind {
		return nil
	}
	var x T
	err := json.Unmarshal(e.Data, &x)
	if err == nil {
		fn(x)
	}
	return err
}

// noWorkers: no process carries the mark of one of the attempts.
func noWorkers(t *testing.T, attempts []string) {
	t.Helper()
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range envs {
		env, _ := os.ReadFile(file)
		for _, a := range attempts {
			if strings.Contains(string(env), "REEVE_ATTEMPT="+a) {
				t.Errorf("%s carries the mark of %s", filepath.Dir(file), a)
			}
		}
	}
}
