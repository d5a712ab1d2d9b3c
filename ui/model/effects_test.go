package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/ipc/wire"
)

func effect(id, state string, minute int) wire.Effect {
	return wire.Effect{ID: id, Mission: "m-1", Turn: "t-3", TurnNo: 3, Tool: "create_issue", Input: json.RawMessage(`{"title":"Bytes\u202e or runes","n":1}`),
		Mutation: true, State: state, CreatedAt: at(15, minute), Known: "Its worker was gone before it said how it ended.", Revision: 1}
}

func TestEffectRows(t *testing.T) {
	for _, c := range []struct {
		change func(*wire.Effect)
		want   string
	}{
		{func(e *wire.Effect) { e.State = wire.EffectExecuting }, "● under way | Its worker was gone before it said how it ended."},
		{func(e *wire.Effect) { e.State, e.Known = wire.EffectCompleted, "It happened." }, "✓ happened | "},
		{func(e *wire.Effect) {
			e.State, e.Known, e.Error = wire.EffectFailed, "It never ran.", "no\x1bnetwork"
		}, "✕ did not happen | It never ran. no‹U+001B›network"},
		{func(*wire.Effect) {}, "▲ uncertain | Its worker was gone before it said how it ended."},
		{func(e *wire.Effect) {
			e.State, e.Settled, e.By = wire.EffectSettled, wire.EffectHappened, "reeve (pid 7)"
		}, "✓ happened, you said | Its worker was gone before it said how it ended. Said by reeve (pid 7)."},
		{func(e *wire.Effect) {
			e.State, e.Settled, e.By, e.Known = wire.EffectSettled, wire.EffectHappened, "reeve (pid 7)", "It happened, as reeve (pid 7) said."
		}, "✓ happened, you said | It happened, as reeve (pid 7) said."},
		{func(e *wire.Effect) { e.State, e.Settled = wire.EffectSettled, wire.EffectDidNot }, "✕ did not, you said | Its worker was gone before it said how it ended."},
		{func(e *wire.Effect) { e.State, e.Settled, e.Known = wire.EffectSettled, wire.EffectLeft, "" }, "■ left open | "},
		{func(e *wire.Effect) { e.State, e.Known = "new\u202e", "" }, "◐ new‹U+202E› | "},
	} {
		e := effect("e-1", wire.EffectUncertain, 1)
		c.change(&e)
		r := EffectRowOf(e, at(15, 30))
		if got := fmt.Sprintf("%s %s | %s", r.Shape.Glyph(), r.Word, r.Known); got != c.want || r.Uncertain != (e.State == wire.EffectUncertain) {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if r.Turn != "turn 3" || r.When != "15:01" || !strings.Contains(r.Brief, `{ "title": "Bytes\u202e or runes", "n": 1 }`) || len(r.Input.Lines) != 4 {
			t.Errorf("%+v", r)
		}
	}
	e := effect("e-1", wire.EffectUncertain, 1)
	e.Input, e.Cut, e.Digest = json.RawMessage("{\"text\":\"a\u202eb"), true, "4f1c"
	if r := EffectRowOf(e, at(15, 30)); !strings.Contains(r.Input.Plain(), "a‹RLO›b\n… (the rest is not kept; its digest is 4f1c)") {
		t.Errorf("cut input %q", r.Input.Plain())
	}
}

func TestDoubtsNeedAPerson(t *testing.T) {
	now := at(15, 30)
	s := NewState(0)
	s.SetLink(Running, "")
	end := at(15, 10)
	topic(t, s, wire.TopicMissions, wire.Mission{ID: "m-1", Title: "Port\nparser", Phase: "completed", StartedAt: ptr(at(14, 0)), EndedAt: &end, Revision: 1},
		wire.Mission{ID: "m-2", Title: "B", Phase: "blocked", Revision: 1})
	if g := s.Missions(now, FilterAll, ""); g[len(g)-1].Name != GroupToday {
		t.Fatalf("groups %+v", g)
	}
	read := effect("e-read", wire.EffectCompleted, 2)
	read.Mutation = false
	blocked := effect("e-b", wire.EffectUncertain, 4)
	blocked.Mission = "m-2"
	changes := topic(t, s, wire.TopicEffects, effect("e-1", wire.EffectUncertain, 1), effect("e-3", wire.EffectCompleted, 3), effect("e-2", wire.EffectUncertain, 0), read, blocked)
	if len(changes) != 3 || changes[0].Kind != Doubted {
		t.Errorf("%d changes at first: %+v", len(changes), changes)
	}
	if again := topic(t, s, wire.TopicEffects, effect("e-1", wire.EffectUncertain, 1), effect("e-3", wire.EffectCompleted, 3), effect("e-2", wire.EffectUncertain, 0), read, blocked); len(again) > 0 {
		t.Errorf("told twice: %+v", again)
	}
	row, _ := s.Row("m-1", now)
	if row.Shape != ShapeNeeds || row.Word != "needs you" || row.Action != Settle || row.Doubts != 2 || row.Detail.String() != "it is not known what became of create_issue · 1 more" || row.Time != "done 15:10" {
		t.Errorf("row %+v", row)
	}
	if row, _ := s.Row("m-2", now); row.Word != "blocked" || row.Action != Resume || row.Doubts != 1 {
		t.Errorf("what blocks is more: %+v", row)
	}
	groups := s.Missions(now, FilterAll, "")
	if len(groups) != 1 || groups[0].Name != GroupWaits || s.Summary(now).Waiting != 2 {
		t.Errorf("groups %+v", groups)
	}
	tr := s.Tray(now)
	if tr.State != TrayNeedsYou || tr.Count != 3 || tr.Tooltip != "Reeve: 3 effects are uncertain" {
		t.Errorf("tray %v %d %q", tr.State, tr.Count, tr.Tooltip)
	}
	if it := tr.Menu[0]; it.Do != DoSettle || it.ID != "m-1" || it.Label != "▲ Port parser: it is not known what became of create_issue…" || tr.Menu[1].ID != "m-2" || !tr.Menu[2].Separator() {
		t.Errorf("menu %+v", tr.Menu[:3])
	}
	var ids []string
	for _, e := range s.Effects("m-1") {
		ids = append(ids, e.ID)
	}
	if got := strings.Join(ids, " "); got != "e-2 e-1 e-3" {
		t.Errorf("effects in the order %s", got)
	}
	if u := s.UnsureEffects("m-2"); len(u) != 1 || !strings.HasPrefix(u[0].Code, `create_issue { "title"`) || !strings.HasSuffix(u[0].Text, "under Effects.") {
		t.Errorf("%+v", u)
	}
	note := noteOf(changes[0])
	if note.Do != DoSettle || note.ID != "m-1" || note.Title != "It is not known what became of create_issue" || !note.Urgent {
		t.Errorf("%+v", note)
	}
	done := effect("e-1", wire.EffectSettled, 1)
	done.Revision = 2
	late := effect("e-1", wire.EffectUncertain, 1)
	for _, e := range []wire.Effect{done, late} {
		if c, err := s.Delta(delta(t, wire.EvEffect, e)); err != nil || len(c) > 0 {
			t.Errorf("%+v %v", c, err)
		}
	}
	if got, _ := s.Effect("e-1"); got.State != wire.EffectSettled || len(s.Doubts("m-1")) != 1 {
		t.Error("a late event took an answer back")
	}
}

// The count of uncertain effects is what a count of them gives, whatever came.
func TestDoubtsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewState(0)
		draw := func() wire.Effect {
			e := effect(fmt.Sprint("e-", rapid.IntRange(0, 5).Draw(t, "id")), rapid.SampledFrom([]string{"executing", "uncertain", "settled", "completed"}).Draw(t, "state"), 1)
			e.Mission = "m-" + e.ID[2:3]
			e.Revision = uint64(rapid.IntRange(1, 4).Draw(t, "revision"))
			e.CreatedAt = at(15, 0).Add(time.Duration(e.Revision))
			return e
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.IntRange(0, 6).Draw(t, "snapshot") == 0 {
				var list []wire.Effect
				for range rapid.IntRange(0, 4).Draw(t, "size") {
					list = append(list, draw())
				}
				topic(t, s, wire.TopicEffects, list...)
			} else if _, err := s.Delta(delta(t, wire.EvEffect, draw())); err != nil {
				t.Fatal(err)
			}
			total := 0
			for m, ids := range s.doubts {
				n := len(ids)
				total += n
				if n != len(s.Doubts(m)) || n <= 0 {
					t.Fatalf("%s: counted %d, there are %d", m, n, len(s.Doubts(m)))
				}
			}
			if total != len(s.Doubts("")) {
				t.Fatalf("counted %d, there are %d", total, len(s.Doubts("")))
			}
		}
	})
}

// TestClosedEffectsAreBounded: however long the program runs, what is known of
// effects that are over has an end; what is uncertain is all kept.
func TestClosedEffectsAreBounded(t *testing.T) {
	s := NewState(0)
	for i := range 5 * maxSettled {
		e := effect(fmt.Sprintf("e-%04d", i), wire.EffectCompleted, 0)
		e.CreatedAt = at(15, 0).Add(time.Duration(i))
		if i%100 == 0 {
			e.State = wire.EffectUncertain
		}
		if _, err := s.Delta(delta(t, wire.EvEffect, e)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.closed); n < maxSettled || n > 2*maxSettled || len(s.Doubts("m-1")) != 5*maxSettled/100 {
		t.Errorf("%d are kept, and %d in doubt", n, len(s.Doubts("m-1")))
	}
	if list := s.Effects("m-1"); list[len(s.Doubts("m-1"))].ID != "e-0999" {
		t.Errorf("the newest is %s", list[0].ID)
	}
	if _, ok := s.Effect("e-0000"); !ok {
		t.Error("one that is uncertain was forgotten")
	}
}
