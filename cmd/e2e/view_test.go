package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// view follows a service as a window would, and lets a test wait for what it
// shows.
type view struct {
	m *machine
	f *client.Follower

	mu          sync.Mutex
	changed     chan struct{}
	missions    map[string]wire.Mission
	approvals   map[string]wire.Approval
	service     wire.Service
	refusals    []wire.Refusal
	credentials wire.CredentialListResult
	entries     map[string][]wire.Entry // by session
	states      []client.Phase
}

func (m *machine) watch() *view {
	m.t.Helper()
	v := &view{m: m, changed: make(chan struct{}), missions: map[string]wire.Mission{}, approvals: map[string]wire.Approval{}, entries: map[string][]wire.Entry{}}
	path := m.socket()
	dial := func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, path, client.Options{Client: "e2e"})
	}
	v.f = client.Follow(context.Background(), dial, []string{wire.TopicService, wire.TopicMissions, wire.TopicApprovals}, v)
	m.t.Cleanup(v.f.Close)
	v.wait("a connection", func() bool { return v.f.Client() != nil })
	return v
}

func (v *view) update(fn func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fn()
	close(v.changed)
	v.changed = make(chan struct{})
}

// Snapshot implements client.Handler.
func (v *view) Snapshot(topic string, items []json.RawMessage, _ string) {
	v.update(func() {
		if strings.HasPrefix(topic, wire.TopicSession) {
			v.entries[topic] = nil // a snapshot is all there is
		}
		for _, it := range items {
			v.take(topic, "", it)
		}
	})
}

// Delta implements client.Handler.
func (v *view) Delta(topic string, e wire.Event) {
	v.update(func() { v.take(topic, e.Event, e.Data) })
}

// State implements client.Handler.
func (v *view) State(s client.State) {
	v.update(func() { v.states = append(v.states, s.Phase) })
}

func (v *view) take(topic, event string, data json.RawMessage) {
	switch {
	case event == wire.EvRefusal:
		var r wire.Refusal
		if json.Unmarshal(data, &r) == nil {
			v.refusals = append(v.refusals, r)
		}
	case event == wire.EvCredentials:
		_ = json.Unmarshal(data, &v.credentials)
	case topic == wire.TopicMissions:
		var x wire.Mission
		if json.Unmarshal(data, &x) == nil {
			v.missions[x.ID] = x
		}
	case topic == wire.TopicApprovals:
		var x wire.Approval
		if json.Unmarshal(data, &x) == nil {
			v.approvals[x.ID] = x
		}
	case topic == wire.TopicService:
		_ = json.Unmarshal(data, &v.service)
	default:
		var x wire.Entry
		if json.Unmarshal(data, &x) == nil {
			v.entries[topic] = append(v.entries[topic], x)
		}
	}
}

// waitLimit is a safety net, not a measure: everything here is event-driven. A
// machine that is busy with other things may stand still for a long time.
const waitLimit = 4 * time.Minute

// wait returns when cond holds; cond runs with the view locked.
func (v *view) wait(what string, cond func() bool) {
	v.m.t.Helper()
	deadline := time.After(waitLimit)
	again := time.NewTicker(time.Second) // some wait for a file, of which nothing tells
	defer again.Stop()
	for {
		v.mu.Lock()
		ok, changed := cond(), v.changed
		v.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-again.C:
		case <-deadline:
			v.m.t.Fatalf("waited for %s; missions: %s", what, v.dump())
		}
	}
}

func (v *view) dump() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := ""
	for _, m := range v.missions {
		s += fmt.Sprintf("\n%s %s end=%q blocked=%q failure=%+v turn=%d", m.ID, m.Phase, m.EndReason, m.BlockedBy, m.Failure, m.Turn)
	}
	for _, a := range v.approvals {
		s += fmt.Sprintf("\n%s %s %s", a.ID, a.Kind, a.State)
	}
	for topic, es := range v.entries {
		s += "\n" + topic
		for _, e := range es {
			s += fmt.Sprintf("\n  %d %s %.300s", e.Seq, e.Kind, e.Data)
		}
	}
	return s
}

func do[R any](v *view, method string, params any) R {
	v.m.t.Helper()
	r, err := try[R](v, method, params)
	if err != nil {
		v.m.t.Fatalf("%s: %v", method, err)
	}
	return r
}

func try[R any](v *view, method string, params any) (R, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	c := v.f.Client()
	if c == nil {
		var r R
		return r, fmt.Errorf("not connected")
	}
	return client.Do[R](ctx, c, method, params)
}

// begin proposes a mission and allows its start.
func (v *view) begin(p wire.MissionStartParams) wire.Mission {
	v.m.t.Helper()
	r := do[wire.MissionStartResult](v, wire.MethodMissionStart, p)
	if r.Mission.Phase != "proposed" || r.Approval.Kind != string(approval.MissionStart) {
		v.m.t.Fatalf("proposed: %+v", r)
	}
	v.answer(r.Approval, wire.AnswerParams{Allow: true})
	m := do[wire.MissionResult](v, wire.MethodMissionGet, wire.IDParams{ID: r.Mission.ID}).Mission
	v.f.Watch(wire.TopicSession + m.Session)
	return m
}

func (v *view) answer(a wire.Approval, p wire.AnswerParams) wire.Approval {
	v.m.t.Helper()
	p.ID, p.Digest = a.ID, a.Digest
	out := do[wire.ApprovalResult](v, wire.MethodApprovalAnswer, p).Approval
	// Or the next look for what waits would find it again.
	v.wait("the answer", func() bool { return v.approvals[a.ID].State != "pending" })
	return out
}

// reached says that the mission is shown as it was when a was asked, or later.
// Topics come each at its own pace: without this a test that goes on to wait for
// a phase could find the one from before the turn.
func (v *view) reached(a wire.Approval) bool { return v.missions[a.Mission].Turn >= a.TurnNo }

// asked waits for the next pending approval of a mission, whose command, path
// or tool contains want.
func (v *view) asked(mission, want string) (wire.Approval, approval.Subject) {
	v.m.t.Helper()
	var found wire.Approval
	var subject approval.Subject
	v.wait("a request about "+want, func() bool {
		for _, a := range v.approvals {
			if a.Mission != mission || a.State != "pending" {
				continue
			}
			var s approval.Subject
			if json.Unmarshal(a.Subject, &s) != nil {
				continue
			}
			if contains(s, want) && v.reached(a) {
				found, subject = a, s
				return true
			}
		}
		return false
	})
	return found, subject
}

func contains(s approval.Subject, want string) bool {
	b, _ := json.Marshal(s)
	w, _ := json.Marshal(want)
	return len(w) > 2 && strings.Contains(string(b), string(w[1:len(w)-1]))
}

func (v *view) phase(id string, phases ...string) wire.Mission {
	v.m.t.Helper()
	var m wire.Mission
	v.wait(fmt.Sprintf("phase %v", phases), func() bool {
		m = v.missions[id]
		return slices.Contains(phases, m.Phase)
	})
	return m
}

// turned waits until the nth turn has ended and the mission is in one of the
// phases: a phase alone may be the one from before the turn.
func (v *view) turned(id string, n int, phases ...string) wire.Mission {
	v.m.t.Helper()
	var m wire.Mission
	v.wait(fmt.Sprintf("phase %v after turn %d", phases, n), func() bool {
		m = v.missions[id]
		return len(m.Turns) >= n && m.Turns[n-1].Outcome != "" && slices.Contains(phases, m.Phase)
	})
	return m
}

// refused are the refusals that were shown.
func (v *view) refused() []wire.Refusal {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.refusals)
}

// log returns the session's entries so far.
func (v *view) log(m wire.Mission) []wire.Entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]wire.Entry{}, v.entries[wire.TopicSession+m.Session]...)
}

// entry waits for an entry of a kind that ok accepts.
func entry[T any](v *view, m wire.Mission, kind string, ok func(T) bool) T {
	v.m.t.Helper()
	var got T
	v.wait("an entry "+kind, func() bool {
		for _, e := range v.entries[wire.TopicSession+m.Session] {
			if e.Kind != kind {
				continue
			}
			var x T
			if json.Unmarshal(e.Data, &x) == nil && ok(x) {
				got = x
				return true
			}
		}
		return false
	})
	return got
}

// gapless fails unless the log's sequences count from 1 without gaps.
func gapless(t *testing.T, entries []wire.Entry) {
	t.Helper()
	for i, e := range entries {
		if e.Seq != uint64(i+1) {
			t.Fatalf("entry %d has sequence %d", i+1, e.Seq)
		}
	}
}

// settled checks what must hold after every mission: nothing of its tree runs,
// the checkout is free, and doctor finds nothing wrong.
func (v *view) settled(m wire.Mission) {
	v.m.t.Helper()
	if m.CheckoutOwned || len(m.Left) > 0 {
		v.m.t.Errorf("after the end: owned=%v left=%v", m.CheckoutOwned, m.Left)
	}
	gapless(v.m.t, v.log(m))
	if guards := v.m.glob(filepath.Join("attempts", m.Attempt, "guard.json")); len(guards) != 1 {
		v.m.t.Errorf("guard records: %v", guards)
	}
	checks := do[wire.CheckResult](v, wire.MethodServiceCheck, nil)
	for _, c := range checks.Checks {
		if !c.OK {
			v.m.t.Errorf("doctor: %s: %s", c.Name, c.Message)
		}
	}
	audit := do[wire.AuditVerifyResult](v, wire.MethodAuditVerify, nil)
	if !audit.OK || audit.Entries == 0 {
		v.m.t.Errorf("audit: %+v", audit)
	}
}
