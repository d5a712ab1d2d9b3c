package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

type recorder struct {
	t       interface{ Fatal(...any) }
	entries []wire.Entry
}

func (r *recorder) add(kind string, data any) {
	seq := uint64(len(r.entries) + 1)
	r.entries = append(r.entries, wire.Entry{Log: "a-1", Seq: seq, At: at(14, 0), Kind: kind, Data: raw(r.t, data)})
}

func dump(tr *Transcript) string {
	var b strings.Builder
	for i := range tr.Len() {
		it := tr.Row(i)
		switch it.Kind {
		case ItemEarlier, ItemTurn:
			fmt.Fprintf(&b, "== %s, %d tools %s %s\n", it.Heading.Text, it.Heading.Tools, it.Heading.Tokens, it.Heading.Outcome)
		case ItemTool:
			status := it.Tool.Status
			if it.Tool.Waits {
				status += ", waits"
			}
			fmt.Fprintf(&b, "%s %s [%s] %s +%d -%d\n", it.Tool.Name, it.Tool.Object, status, it.Tool.Problem, it.Tool.Plus, it.Tool.Minus)
		case ItemPermission:
			fmt.Fprintf(&b, "? %s [%s] %s\n", it.Permission.Asks, it.Permission.State, it.Permission.By)
		case ItemPlan:
			fmt.Fprintf(&b, "plan %d\n", len(it.Plan))
		default:
			fmt.Fprintf(&b, "%d %q %s\n", it.Kind, it.Text, it.Note)
		}
	}
	return b.String()
}

func sample(t interface{ Fatal(...any) }) []wire.Entry {
	r := &recorder{t: t}
	r.add(wire.KindSessionStarted, wire.SessionStarted{Provider: "claude", Model: "opus"})
	for n := 1; n <= 3; n++ {
		id := fmt.Sprintf("t-%d", n)
		st := wire.TurnStarted{Turn: id, Number: n}
		if n == 3 {
			st.Steering = []string{"Keep offsets."}
		}
		r.add(wire.KindTurnStarted, st)
		r.add(wire.KindText, wire.Text{Turn: id, Text: "I'll start "})
		r.add(wire.KindText, wire.Text{Turn: id, Text: "with\x1b the lexer."})
		r.add(wire.KindPlan, wire.Plan{Turn: id, Steps: []wire.PlanStep{{Text: "a"}}})
		r.add(wire.KindPlan, wire.Plan{Turn: id, Steps: []wire.PlanStep{{Text: "a"}, {Text: "b"}}})
		r.add(wire.KindToolStarted, wire.ToolStarted{Turn: id, Call: id + "1", Tool: "Edit", Kind: "edit", Paths: []string{"/home/me/code/parser/lexer.go"}})
		r.add(wire.KindToolFinished, wire.ToolFinished{Turn: id, Call: id + "1", Status: "ok", Diff: "--- a\n+++ b\n@@ -1 +1,2 @@\n-x\n+y\n+z\n"})
		r.add(wire.KindToolStarted, wire.ToolStarted{Turn: id, Call: id + "2", Tool: "Bash", Kind: "execute", Command: "go vet ./..."})
		r.add(wire.KindPermissionAsked, wire.Permission{Turn: id, Request: "q-" + id, Call: id + "2", Kind: "tool_call",
			Subject: raw(t, approval.Subject{Command: "go vet ./..."})})
		if n < 3 {
			r.add(wire.KindPermissionResolved, wire.PermissionResolved{Turn: id, Request: "q-" + id, Outcome: "allowed", By: "you"})
			r.add(wire.KindToolFinished, wire.ToolFinished{Turn: id, Call: id + "2", Status: "failed", Exit: ptr(1), Output: "\nlexer.go:44: undefined\n"})
			r.add(wire.KindTurnFinished, wire.TurnFinished{Turn: id, Outcome: map[int]string{1: "succeeded", 2: "timed_out"}[n], Usage: wire.Usage{Input: ptr(int64(41_000))}})
		}
	}
	return r.entries
}

const lastTurn = `== Turn 3, 2 tools  
3 "Keep offsets." reached the agent at turn 3
4 "I'll start with‹U+001B› the lexer." 
plan 2
Edit lexer.go [ok]  +2 -1
Bash go vet ./... [running, waits]  +0 -0
? wants to run go vet ./... [pending] 
`

// TestToolsThatWaitForAPerson: a call waits from its question to the answer,
// whichever of call and question is told first.
func TestToolsThatWaitForAPerson(t *testing.T) {
	call := wire.ToolStarted{Turn: "t-1", Call: "c-1", Tool: "Bash", Kind: "execute", Command: "make"}
	ask := wire.Permission{Turn: "t-1", Request: "q-1", Call: "c-1", Kind: "tool_call", Subject: raw(t, approval.Subject{Command: "make"})}
	other := wire.Permission{Turn: "t-1", Request: "q-2", Kind: "tool_call", Subject: ask.Subject}
	answer := wire.PermissionResolved{Turn: "t-1", Request: "q-1", Outcome: "allowed"}
	for name, c := range map[string]struct {
		waits   bool
		entries []any
	}{
		"asked after":     {true, []any{call, ask}},
		"asked before":    {true, []any{ask, call}},
		"told again":      {true, []any{call, ask, ask, call}},
		"answered":        {false, []any{call, ask, answer}},
		"answered twice":  {false, []any{call, ask, answer, answer}},
		"answered before": {false, []any{ask, answer, call}},
		"another's":       {false, []any{call, other}},
	} {
		r := &recorder{t: t}
		for _, d := range c.entries {
			switch d.(type) {
			case wire.ToolStarted:
				r.add(wire.KindToolStarted, d)
			case wire.Permission:
				r.add(wire.KindPermissionAsked, d)
			default:
				r.add(wire.KindPermissionResolved, d)
			}
		}
		tr := NewTranscript("/x")
		tr.Load(r.entries)
		for i := range tr.Len() {
			if row := tr.Row(i).Tool; row != nil && (row.Status != "running" || row.Waits != c.waits) {
				t.Errorf("%s: %s, waits %v", name, row.Status, row.Waits)
			}
		}
	}
}

func TestTranscript(t *testing.T) {
	tr := NewTranscript("/home/me/code/parser")
	tr.Load(sample(t))
	head := "9 \"Claude Code opened a session with opus\" info\n"
	want := head + "== Turns 1 to 2, 4 tools  \n" + lastTurn
	if got := dump(tr); got != want {
		t.Fatalf("got\n%swant\n%s", got, want)
	}
	tr.Toggle(1)
	want = head + "== Turns 1 to 2, 4 tools  \n== Turn 1, 2 tools 41k tokens \n== Turn 2, 2 tools 41k tokens timed out\n" + lastTurn
	if got := dump(tr); got != want {
		t.Fatalf("opened: got\n%swant\n%s", got, want)
	}
	tr.Toggle(2)
	if got := dump(tr); !strings.Contains(got, "Bash go vet ./... [failed] exit 1: lexer.go:44: undefined") || !strings.Contains(got, "[allowed] you") {
		t.Fatalf("turn 1: %s", got)
	}
	// A live turn does not fold what the person reads.
	before := tr.Len()
	tr.Add(wire.Entry{Log: "a-1", Seq: 1000, Kind: wire.KindTurnStarted, Data: raw(t, wire.TurnStarted{Turn: "t-4", Number: 4})})
	if tr.Len() != before+1 {
		t.Errorf("a new turn moved %d rows", tr.Len()-before-1)
	}
	if tr.Add(wire.Entry{Log: "a-1", Seq: 999, Kind: wire.KindNotice, Data: raw(t, wire.Notice{Text: "late"})}) {
		t.Error("an entry was taken twice")
	}
	// Another snapshot of the same log keeps what was opened.
	tr.Load(sample(t))
	if got := dump(tr); !strings.Contains(got, "== Turn 1, ") {
		t.Errorf("reload closed what was open:\n%s", got)
	}
	// What comes of another attempt goes on below, and nothing is taken twice.
	tr.Add(wire.Entry{Log: "a-1", Seq: 2000, Kind: wire.KindToolStarted, Data: raw(t, wire.ToolStarted{Turn: "t-9", Call: "c-9", Tool: "Bash", Command: "sleep 9"})})
	was := tr.Len()
	tr.Add(wire.Entry{Log: "a-2", Seq: 1, Kind: wire.KindNotice, Data: raw(t, wire.Notice{Text: "new", Level: "info"})})
	if tr.Len() != was+1 || tr.Row(was).Text != "new" || tr.Row(was-1).Tool.Status != "unknown" {
		t.Errorf("another attempt: %s", dump(tr))
	}
	if tr.Add(wire.Entry{Log: "a-1", Seq: 3000, Kind: wire.KindNotice, Data: raw(t, wire.Notice{Text: "late", Level: "info"})}) {
		t.Error("an attempt that is over goes on")
	}
	for _, kind := range []string{wire.KindTurnStarted, wire.KindText, wire.KindToolFinished, wire.KindPermissionAsked, wire.KindUsage, "unheard.of"} {
		if tr.Add(wire.Entry{Log: "a-2", Seq: 50, Kind: kind, Data: []byte(`[1]`)}) {
			t.Errorf("%s: malformed data changed something", kind)
		}
	}
}

// However a transcript arrives, entry by entry, repeated or as a snapshot and
// the rest, it shows the same.
// Why a worker ended is never told in a guard's codes.
func TestWorkerEnded(t *testing.T) {
	for reason, want := range map[string]string{
		"":            "The worker ended",
		"deadline":    "The worker ended: stopped at its deadline",
		"keeper_lost": "The worker ended: its guard was ended from outside",
		"terminated":  "The worker ended: its guard was ended from outside",
		"no_owner":    "The worker ended: no service came for it in time",
		"no_start":    "The worker ended: it was not started in time",
	} {
		if got := WorkerEnded(wire.SessionEnded{Reason: reason}); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}

func TestTranscriptConverges(t *testing.T) {
	entries := sample(t)
	whole := NewTranscript("/home/me/code/parser")
	for _, e := range entries {
		whole.Add(e)
	}
	want := dump(whole)
	rapid.Check(t, func(t *rapid.T) {
		cutAt := rapid.IntRange(0, len(entries)).Draw(t, "snapshot")
		back := rapid.IntRange(0, cutAt).Draw(t, "repeat from")
		tr := NewTranscript("/home/me/code/parser")
		tr.Load(entries[:cutAt])
		for _, e := range entries[back:] {
			tr.Len() // what is shown is kept up to date, not only at the end
			tr.Add(e)
		}
		if tr.folded > 0 {
			tr.folded, tr.stale = 0, true
			for i := range tr.turns {
				tr.items[tr.turns[i].item].Open = true
			}
		}
		if got := dump(tr); got != want {
			t.Fatalf("got\n%swant\n%s", got, want)
		}
	})
}

func TestLongText(t *testing.T) {
	tr := NewTranscript("")
	var want strings.Builder
	for i := range 5000 {
		piece := fmt.Sprintf("line %d\n", i)
		want.WriteString(piece)
		tr.Add(wire.Entry{Seq: uint64(i + 1), Kind: wire.KindText, Data: raw(t, wire.Text{Text: piece})})
	}
	var got strings.Builder
	for i := range tr.Len() {
		it := tr.Row(i)
		if len(it.Text) > maxParagraph+100 {
			t.Fatalf("row %d has %d bytes", i, len(it.Text))
		}
		got.WriteString(it.Text)
		if !strings.HasSuffix(it.Text, "\n") {
			got.WriteString("\n")
		}
	}
	if got.String() != want.String() {
		t.Error("text was lost between rows")
	}
}

// TestRowsAreBounded: no row grows for ever, however the words come, and none
// is lost between rows.
func TestRowsAreBounded(t *testing.T) {
	for name, pieces := range map[string][]string{
		"words, no line":  slices.Repeat([]string{"some words "}, 10_000),
		"no words either": slices.Repeat([]string{"通貨通貨通貨通貨"}, 10_000),
		"in one piece":    {strings.Repeat("a line\n", 10_000)},
		"one endless":     {"first\n", strings.Repeat("x", 100_000), "\nlast"},
	} {
		tr := NewTranscript("")
		for i, p := range pieces {
			tr.Add(wire.Entry{Seq: uint64(i + 1), Kind: wire.KindText, Data: raw(t, wire.Text{Text: p})})
		}
		var got strings.Builder
		for i := range tr.Len() {
			it := tr.Row(i)
			if len(it.Text) > 2*maxParagraph+utf8.UTFMax || !utf8.ValidString(it.Text) {
				t.Fatalf("%s: row %d has %d bytes", name, i, len(it.Text))
			}
			got.WriteString(it.Text)
		}
		flat := strings.NewReplacer(" ", "", "\n", "")
		if flat.Replace(got.String()) != flat.Replace(strings.Join(pieces, "")) {
			t.Errorf("%s: text was lost between rows", name)
		}
	}
}

func BenchmarkTranscript(b *testing.B) {
	for b.Loop() {
		tr := NewTranscript("/x")
		for i := range 100_000 {
			e := wire.Entry{Log: "a", Seq: uint64(i + 1), Kind: wire.KindText, Data: []byte(`{"turn":"t","text":"some words "}`)}
			if i%1000 == 0 {
				e.Kind, e.Data = wire.KindTurnStarted, fmt.Appendf(nil, `{"turn":"t%d","number":%d}`, i, i/1000+1)
			}
			tr.Add(e)
			tr.Len()
		}
	}
}
