package view

import (
	"strings"
	"testing"

	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/view/kit"
)

// TestToolThatWaitsIsNotRunning: a tool that a person has to allow first is shown
// as one that waits, and as running once it was allowed.
func TestToolThatWaitsIsNotRunning(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	w := newMissionWindow(r.desk, "m-parser")
	w.load([]wire.Entry{
		{Log: "l-1", Seq: 1, At: clock(15, 5), Kind: wire.KindTurnStarted, Data: raw(t, wire.TurnStarted{Turn: "1", Number: 1})},
		{Log: "l-1", Seq: 2, At: clock(15, 5), Kind: wire.KindToolStarted, Data: raw(t, wire.ToolStarted{Turn: "1", Call: "c-1", Tool: "Bash", Kind: "execute", Command: "make"})},
		{Log: "l-1", Seq: 3, At: clock(15, 5), Kind: wire.KindPermissionAsked, Data: raw(t, wire.Permission{Turn: "1", Request: "q-x", Call: "c-1", Kind: "tool_call", Subject: raw(t, approval.Subject{Command: "make"})})},
	})
	w.refresh()
	v := w.log
	row := func() string {
		for i := range v.log.Len() {
			if it := v.log.Row(i); it.Tool != nil {
				o := v.tool(i, it)
				test.NewTempWindow(t, o).Resize(mainSize)
				return texts(o)
			}
		}
		return ""
	}
	if got := row(); !strings.Contains(got, "waits for you") || strings.Contains(got, "running") {
		t.Errorf("it waits: %q", got)
	}
	w.add(wire.Entry{Log: "l-1", Seq: 4, At: clock(15, 6), Kind: wire.KindPermissionResolved, Data: raw(t, wire.PermissionResolved{Turn: "1", Request: "q-x", Outcome: "allowed"})})
	if got := row(); !strings.Contains(got, "running") || strings.Contains(got, "waits") {
		t.Errorf("it runs: %q", got)
	}
}
