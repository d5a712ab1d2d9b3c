package e2e

import (
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/demo"
)

// TestDesktopRecover: the guard of a mission is killed while a command runs;
// the window tells of that, of what changed, and by whom; a click asks for the
// recovery and another allows it, and the mission goes on.
func TestDesktopRecover(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	s.env = append(s.env, "HOME="+s.dir) // so that the checkout is ~/code/parser
	folder := filepath.Join(s.dir, "code", "parser")
	if err := demo.Sample(folder); err != nil {
		t.Fatal(err)
	}
	terms := m.demoTerms(folder, "Port the parser to Go\n\ndemo:command sh check.sh\ndemo:command touch tokens.go\ndemo:command sleep 600")
	terms.Minutes = 60
	mi := v.begin(terms)
	for _, command := range []string{"check.sh", "tokens.go", "sleep 600"} {
		ask, _ := v.asked(mi.ID, command)
		v.answer(ask, wire.AnswerParams{Allow: true})
		entry(v, mi, wire.KindPermissionResolved, func(r wire.PermissionResolved) bool { return r.Request == ask.ID })
	}
	if err := syscall.Kill(m.guardOf(mi.Attempt).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost := v.lost(mi.ID)
	// What is changed from now on is not the agent's. How the worker left the
	// checkout is recorded a moment later, so it is changed until that counts.
	n := 0
	s.until("a change that is not the agent's", func() bool {
		n++
		if err := os.WriteFile(filepath.Join(folder, "README.md"), fmt.Appendf(nil, "# Thermometer\n\nRead by a person, %d times.\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
		r := do[wire.ChangesResult](v, wire.MethodMissionChanges, wire.ChangesParams{ID: mi.ID})
		return slices.ContainsFunc(r.Files, func(f wire.ChangedFile) bool { return f.Path == "README.md" && f.SinceLost })
	})

	h := s.trayHost()
	p := s.reeve("-hidden")
	h.registered()
	h.says("Reeve: 1 mission is blocked and needs you")
	h.choose("▲ "+mi.Title, "Recover…")
	w := s.window("Recover: " + mi.Title).raise()
	var button []image.Rectangle
	s.until("a recovery that can be asked for", func() bool {
		button = fills(w.image(), accent, image.Pt(60, 20))
		return len(button) == 1
	})
	s.until("what is uncertain", func() bool { return len(fills(w.image(), waitingTint, image.Pt(400, 40))) > 0 })
	s.until("the changes", func() bool { return len(fills(w.image(), 0xEAF4EC, image.Pt(400, 16))) > 0 }) // an added line
	s.readme("recover", w)
	w.press(0)
	ask := v.pending(mi.ID, "mission_recover")
	dialog := s.window("Recover this mission?")
	s.armed(dialog)
	dialog.shot("approval")
	s.allowed(v, "Recover this mission?", ask.ID)
	s.answered(v, ask.ID, p)
	s.gone("Recover: " + mi.Title)
	s.window("Reeve: " + mi.Title)
	now := v.phase(mi.ID, "working", "waiting")
	if !now.Recovered || now.Attempt == mi.Attempt || !now.DeadlineAt.Equal(*lost.DeadlineAt) {
		t.Errorf("recovered %v, attempt %s, deadline %v was %v", now.Recovered, now.Attempt, now.DeadlineAt, lost.DeadlineAt)
	}
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: mi.ID})
	if end := v.phase(mi.ID, "stopped"); end.CheckoutOwned || len(end.Left) > 0 {
		t.Errorf("after the end: owned %v, left %v", end.CheckoutOwned, end.Left)
	}
}
