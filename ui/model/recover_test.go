package model

import (
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
)

// TestRecoverAction: a blocked mission offers what can be done, and nothing
// that would be refused.
func TestRecoverAction(t *testing.T) {
	for recovery, want := range map[mission.Recovery]Action{
		mission.ApprovalRequired:  Recover,
		mission.RecoveryExpired:   NoAction,
		mission.OwnerUncertain:    NoAction,
		mission.SupervisorPresent: Resume,
	} {
		row := MissionRow(wire.Mission{ID: "m-1", Phase: string(mission.Blocked), Recovery: string(recovery)}, nil, time.Unix(0, 0))
		if row.Action != want || row.Shape != ShapeNeeds {
			t.Errorf("%s: %q %s, want %q", recovery, row.Action, row.Shape, want)
		}
	}
}

// TestRecoverApproval: what is uncertain comes first, and the time is that of
// the original deadline.
func TestRecoverApproval(t *testing.T) {
	now, deadline := at(15, 6), at(15, 17)
	a := wire.Approval{ID: "q-1", Kind: string(approval.MissionRecover), Mission: "m-1", Title: "Port it", Provider: "claude", Attempt: "a-1", TurnNo: 4,
		CreatedAt: at(15, 5), ExpiresAt: &deadline, State: "pending"}
	sub := approval.Subject{Mission: &approval.MissionSubject{Provider: "claude", Folder: "/x", Scope: "Port it.", Minutes: 60,
		Notes: []string{"Turn 4 may have finished work.", "It is not known\u202e."}}}
	v := NewApproval(signed(t, a, sub), "", now)
	if p := v.Parts[0]; !p.Warns || !p.Required || p.Label != "Before you answer" || p.Shown.Plain() != "Turn 4 may have finished work.\nIt is not known‹RLO›." || v.HiddenCount() != 1 {
		t.Errorf("the first part: %+v", p)
	}
	if v.Title != "Recover this mission?" || v.Sentence.String() != "Claude Code would go on in /x" || !v.CanAllow() {
		t.Errorf("%q %q %q", v.Title, v.Sentence, v.Unverified)
	}
	if got := facts(v); !strings.Contains(got, "Time: until 15:17, as before; recovering does not extend it\n") || strings.Contains(got, "Note") {
		t.Errorf("facts:\n%s", got)
	}
	// Of a start, notes are facts.
	a.Kind, a.Attempt, a.TurnNo, a.ExpiresAt = string(approval.MissionStart), "", 0, nil
	v = NewApproval(signed(t, a, sub), "", now)
	if v.Parts[0].Warns || !strings.Contains(facts(v), "Note: Turn 4") || v.Title != "Start this mission?" {
		t.Errorf("a start: %+v", v.Parts[0])
	}
	a.State = "denied"
	if w := Wants(a).String(); w != "asks for something that can't be shown here" {
		t.Errorf("wants %q", w)
	}
	if w := Wants(signed(t, a, sub)).String(); w != "asked to start" {
		t.Errorf("wants %q", w)
	}
}

// tail builds the end of a transcript.
type tail struct {
	t    *testing.T
	tail Tail
	seq  uint64
	log  string
}

func (b *tail) add(hour, minute int, kind string, data any) *tail {
	b.seq++
	b.tail.Add(wire.Entry{Log: b.log, Seq: b.seq, At: at(hour, minute), Kind: kind, Data: raw(b.t, data)})
	return b
}

func newTail(t *testing.T) *tail {
	return (&tail{t: t, log: "a-1"}).add(13, 0, wire.KindTurnStarted, wire.TurnStarted{Turn: "t-1", Number: 1})
}

func started(call, kind, object string) wire.ToolStarted {
	s := wire.ToolStarted{Call: call, Tool: kind, Kind: kind}
	if kind == wire.ToolExecute {
		s.Command = object
	} else {
		s.Paths = []string{"/x/" + object}
	}
	return s
}

func lostMission() wire.Mission {
	start, end, lost := at(13, 0), at(15, 0), at(13, 30)
	return wire.Mission{ID: "m-1", Title: "Port it", Phase: "blocked", Recovery: "approval_required", Folder: "/x", Provider: "claude",
		StartedAt: &start, DeadlineAt: &end, LostAt: &lost, Minutes: 120, Turn: 1, BlockedBy: "Its guard is gone."}
}

func happened(r Recovery) string {
	var out []string
	for _, h := range r.Happened {
		line := string(h.Shape) + " " + h.Text
		for _, s := range []string{h.Code, h.Tail, h.Quote} {
			if s != "" {
				line += " | " + s
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// TestWhatWasHappening: the lines that tell of the last turn.
func TestWhatWasHappening(t *testing.T) {
	exit := 2
	for name, c := range map[string]struct {
		fill    func(*tail)
		service wire.Service
		want    string
		unsure  []string
	}{
		"nothing": {func(*tail) {}, wire.Service{}, "stopped The worker was lost", nil},
		"results": {func(b *tail) {
			b.add(13, 1, wire.KindToolStarted, started("a", wire.ToolRead, "a.go")).add(13, 1, wire.KindToolFinished, wire.ToolFinished{Call: "a", Status: "ok"})
			b.add(13, 2, wire.KindToolStarted, started("b", wire.ToolEdit, "a.go")).add(13, 2, wire.KindToolFinished, wire.ToolFinished{Call: "b", Status: "ok", Diff: "@@ -1 +1,2 @@\n-a\n+b\n+c\n"})
			b.add(13, 3, wire.KindToolStarted, started("c", wire.ToolExecute, "go\u200b vet")).add(13, 3, wire.KindToolFinished, wire.ToolFinished{Call: "c", Status: "failed", Exit: &exit})
			b.add(13, 4, wire.KindText, wire.Text{Text: "First part.\n\nNow the "}).add(13, 4, wire.KindText, wire.Text{Text: "lexer.\nWORK_NEXT: runnable"})
		}, wire.Service{}, "done Edited | a.go | +2 −1\nfailed Ran, exit 2 | go‹ZWSP› vet\nworking Said | Now the lexer.\nstopped The worker was lost", nil},
		"no result": {func(b *tail) {
			b.add(13, 5, wire.KindToolStarted, started("a", wire.ToolExecute, "make deploy"))
		}, wire.Service{}, "needs Started, no result known | make deploy\nstopped The worker was lost", []string{"make deploy"}},
		"a read has nothing to be uncertain about": {func(b *tail) {
			b.add(13, 5, wire.KindToolStarted, started("a", wire.ToolRead, "a.go"))
		}, wire.Service{}, "needs Started, no result known | a.go\nstopped The worker was lost", nil},
		"asked, so not begun": {func(b *tail) {
			b.add(13, 5, wire.KindToolStarted, started("a", wire.ToolExecute, "rm -r x"))
			b.add(13, 5, wire.KindPermissionAsked, wire.Permission{Call: "a", Request: "q-1", Kind: "tool_call"})
		}, wire.Service{}, "needs Asked, not answered | rm -r x\nstopped The worker was lost", nil},
		"allowed, so perhaps done": {func(b *tail) {
			b.add(13, 5, wire.KindToolStarted, started("a", wire.ToolExecute, "rm -r x"))
			b.add(13, 5, wire.KindPermissionAsked, wire.Permission{Call: "a", Request: "q-1", Kind: "tool_call"})
			b.add(13, 6, wire.KindPermissionResolved, wire.PermissionResolved{Request: "q-1", Outcome: "allowed"})
		}, wire.Service{}, "needs Started, no result known | rm -r x\nstopped The worker was lost", []string{"rm -r x"}},
		"denied, so not done": {func(b *tail) {
			b.add(13, 5, wire.KindToolStarted, started("a", wire.ToolExecute, "rm -r x"))
			b.add(13, 5, wire.KindPermissionAsked, wire.Permission{Call: "a", Request: "q-1", Kind: "tool_call"})
			b.add(13, 6, wire.KindPermissionResolved, wire.PermissionResolved{Request: "q-1", Outcome: "denied"})
		}, wire.Service{}, "stopped Not allowed | rm -r x\nstopped The worker was lost", nil},
		"only the last turn": {func(b *tail) {
			b.add(13, 5, wire.KindToolStarted, started("a", wire.ToolExecute, "make"))
			b.add(13, 6, wire.KindTurnStarted, wire.TurnStarted{Turn: "t-2", Number: 2}).add(13, 7, wire.KindTurnFinished, wire.TurnFinished{Turn: "t-2", Outcome: "succeeded"})
		}, wire.Service{}, "done The turn ended\nstopped The worker was lost", nil},
		"the service was away": {func(*tail) {}, wire.Service{Generation: 14, StartedAt: at(13, 20)},
			"working Reeve came back, as generation 14\nstopped The worker was found to be gone", nil},
		"the service came back later": {func(*tail) {}, wire.Service{Generation: 14, StartedAt: at(13, 40)},
			"stopped The worker was lost\nworking Reeve came back, as generation 14", nil},
		"the service was there": {func(*tail) {}, wire.Service{Generation: 14, StartedAt: at(12, 0)}, "stopped The worker was lost", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTail(t)
			c.fill(b)
			b.tail.End("/x")
			r := NewRecovery(lostMission(), &b.tail, c.service, at(14, 0))
			if got := happened(r); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			var unsure []string
			for _, u := range r.Unsure {
				unsure = append(unsure, u.Code)
			}
			if strings.Join(unsure, "|") != strings.Join(c.unsure, "|") {
				t.Errorf("uncertain: %q, want %q", unsure, c.unsure)
			}
		})
	}
}

// TestRecoveryStates: what can be done follows from the recovery, and from the
// clock where the service has not said so yet.
func TestRecoveryStates(t *testing.T) {
	for _, c := range []struct {
		recovery         mission.Recovery
		hour             int
		can, cancel, new bool
		title, button    string
	}{
		{mission.ApprovalRequired, 14, true, true, false, "Recover “Port it”?", "Recover for 1 h"},
		{mission.ApprovalRequired, 15, false, true, true, "“Port it” can't go on", ""},
		{mission.RecoveryExpired, 14, false, true, true, "“Port it” can't go on", ""},
		{mission.OwnerUncertain, 14, false, false, false, "“Port it” can't be recovered now", ""},
		{mission.SupervisorPresent, 14, false, false, false, "Recover “Port it”?", ""},
	} {
		m := lostMission()
		m.Recovery = string(c.recovery)
		r := NewRecovery(m, &newTail(t).tail, wire.Service{}, at(c.hour, 0))
		if r.Can != c.can || r.Cancel != c.cancel || r.New != c.new || r.Title != c.title || r.Button != c.button {
			t.Errorf("%s at %d: %+v", c.recovery, c.hour, r)
		}
	}
}

// TestWhatRecoveringGives: the same conversation where there is one, the next
// attempt, the time that is left.
func TestWhatRecoveringGives(t *testing.T) {
	m := lostMission()
	m.Budget.CostUSD = 5
	b := newTail(t)
	b.log = "a-2"
	b.add(13, 10, wire.KindSessionStarted, wire.SessionStarted{ProviderSession: "s"})
	gives := strings.Join(NewRecovery(m, &b.tail, wire.Service{}, at(14, 23)).Gives, "\n")
	for _, want := range []string{"continues the same conversation, as attempt 3", "the 37 min that are left, to 15:00", "the $5.00 budget"} {
		if !strings.Contains(gives, want) {
			t.Errorf("%q is not in\n%s", want, gives)
		}
	}
	if got := NewRecovery(m, &newTail(t).tail, wire.Service{}, at(14, 23)).Gives[0]; got != "begins a new conversation, as attempt 2" {
		t.Errorf("%q", got)
	}
	m.Worktree = &wire.Worktree{Path: "/x"}
	if got := NewRecovery(m, &b.tail, wire.Service{}, at(14, 23)).Cancels[0]; got != "ends the mission; branch and files stay" {
		t.Errorf("%q", got)
	}
	// Nothing else tells of a turn that was cut off, so that is said.
	m.Turns = []wire.TurnInfo{{Number: 3, Outcome: "interrupted"}}
	m.Steering = []wire.Steering{{Text: "Use\u202e bytes.", State: "unconfirmed"}, {Text: "Later.", State: "received"}}
	r := NewRecovery(m, &newTail(t).tail, wire.Service{}, at(14, 0))
	if len(r.Unsure) != 2 || !strings.Contains(r.Unsure[0].Text, "Turn 3 was cut off") || r.Unsure[1].Code != "Use‹U+202E› bytes." {
		t.Errorf("%+v", r.Unsure)
	}
}

// TestTailIsBounded: a turn of any length is kept only in part, its end.
func TestTailIsBounded(t *testing.T) {
	b := newTail(t)
	for range 2 * maxTail {
		b.add(13, 5, wire.KindText, wire.Text{Text: "x"})
	}
	b.add(13, 6, wire.KindToolStarted, started("a", wire.ToolExecute, "make"))
	if n := len(b.tail.entries); n > maxTail {
		t.Errorf("%d entries are kept", n)
	}
	b.tail.End("/x")
	if r := NewRecovery(lostMission(), &b.tail, wire.Service{}, at(14, 0)); len(r.Unsure) != 1 {
		t.Errorf("%+v", r.Unsure)
	}
}

// TestRecoverableIsTold: a mission that lost its worker asks to be recovered.
func TestRecoverableIsTold(t *testing.T) {
	n := noteOf(Change{Kind: Halted, Mission: lostMission()})
	if n.Do != DoRecover || n.Title != "Port it can be recovered" || n.ID != "m-1" {
		t.Errorf("%+v", n)
	}
	s := NewState(0)
	s.SetLink(Running, "")
	s.putMission(lostMission())
	var labels []string
	for _, it := range s.Tray(at(14, 0)).Menu {
		for _, sub := range it.Items {
			labels = append(labels, sub.Label)
		}
	}
	if got := strings.Join(labels, " "); !strings.Contains(got, "Recover…") || strings.Contains(got, "Resume") {
		t.Errorf("menu: %s", got)
	}
}
