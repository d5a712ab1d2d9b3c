package view

import (
	"fmt"
	"testing"

	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/view/kit"
)

// manyEntries is a long session: rows of every usual kind.
func manyEntries(t testing.TB, n int) []wire.Entry {
	out := make([]wire.Entry, 0, n)
	add := func(kind string, data any) {
		out = append(out, wire.Entry{Log: "l-1", Seq: uint64(len(out) + 1), At: clock(14, 1), Kind: kind, Data: rawOf(t, data)})
	}
	add(wire.KindTurnStarted, wire.TurnStarted{Turn: "1", Number: 1})
	for i := 0; len(out) < n; i++ {
		call := fmt.Sprint(i)
		add(wire.KindToolStarted, wire.ToolStarted{Turn: "1", Call: call, Tool: "Read", Kind: wire.ToolRead, Paths: []string{"a.go"}})
		add(wire.KindToolFinished, wire.ToolFinished{Turn: "1", Call: call, Status: "ok", Seconds: 0.1})
		add(wire.KindText, wire.Text{Turn: "1", Text: "A line about what was read, long enough to wrap once in a narrow window and to need measuring."})
	}
	return out
}

// A long transcript builds only the rows in sight.
func TestLongTranscript(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	w := newMissionWindow(r.desk, "m-parser")
	win := test.NewTempWindow(t, w.root)
	win.Resize(mainSize)
	w.load(manyEntries(t, 30_000))
	w.add(wire.Entry{Log: "l-1", Seq: 1 << 40, At: day, Kind: wire.KindNotice, Data: raw(t, wire.Notice{Level: "info", Text: "came meanwhile"})})
	r.until("the transcript", func() bool { return w.log.loaded })
	w.refresh()
	if last := w.log.log.Row(w.log.log.Len() - 1); last.Text != "came meanwhile" {
		t.Errorf("the last row is %q", last.Text)
	}
	if n := w.log.list.Len(); n < 20_000 {
		t.Fatalf("%d rows", n)
	}
	first, end := w.log.list.InView()
	if end != w.log.list.Len() || end-first > 60 {
		t.Errorf("rows %d to %d are in sight", first, end)
	}
	if n := len(w.log.unsettled); n > 2 {
		t.Errorf("%d rows are watched for changes", n)
	}
}

func BenchmarkLoadTranscript(b *testing.B) {
	entries := manyEntries(b, 100_000)
	for b.Loop() {
		test.NewTempApp(b)
		d := newDesk(test.NewApp(), Options{})
		v := newTranscriptView(d, "/x")
		v.log.Load(entries)
		v.take(v.log)
		v.flush(wire.Mission{}, nil, day)
	}
}
