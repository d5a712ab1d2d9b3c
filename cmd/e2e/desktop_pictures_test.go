package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/demo"
)

// TestDesktopPictures shows missions in every phase in the windows, and keeps
// the README's pictures in $REEVE_E2E_IMAGES when that is set.
func TestDesktopPictures(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	s.env = append(s.env, "HOME="+s.dir) // so that checkouts are ~/code/...
	code := filepath.Join(s.dir, "code")
	terms := func(name, scope string, minutes int) wire.MissionStartParams {
		dir := filepath.Join(code, name)
		if err := demo.Sample(dir); err != nil {
			t.Fatal(err)
		}
		p := m.demoTerms(dir, scope)
		p.Minutes, p.Unasked = minutes, []string{"reads"}
		return p
	}
	done := v.begin(terms("calendar", "Fix the flaky date test\n\ndemo:command sh check.sh", 30))
	ask, _ := v.asked(done.ID, "check.sh")
	v.answer(ask, wire.AnswerParams{Allow: true})
	v.phase(done.ID, "completed")
	stopped := v.begin(terms("search", "Try another index for the search\n\ndemo:slow 100000", 30))
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: stopped.ID})
	v.phase(stopped.ID, "stopped")
	waiting := v.begin(terms("infra", "Nightly sweep of the dependencies\n\ndemo:wait\ndemo:command sh check.sh", 240))
	ask, _ = v.asked(waiting.ID, "check.sh")
	v.answer(ask, wire.AnswerParams{Allow: true})
	v.turned(waiting.ID, 1, "waiting")
	paused := v.begin(terms("mails", "Rewrite the onboarding mails\n\ndemo:slow 100000", 120))
	v.phase(paused.ID, "working")
	do[wire.MissionResult](v, wire.MethodMissionPause, wire.MissionParams{ID: paused.ID})
	v.phase(paused.ID, "paused")
	working := v.begin(terms("parser", "Port the parser to Go\n\ndemo:command sh check.sh\ndemo:slow 100000", 60))
	ask, _ = v.asked(working.ID, "check.sh")
	v.answer(ask, wire.AnswerParams{Allow: true})
	entry(v, working, wire.KindToolFinished, func(wire.ToolFinished) bool { return true })
	hidden := v.begin(terms("shop-api", "Add a retry to the uploader\n\ndemo:command go test ./upload\u200b && rm -rf bui\u202eld # tidy up", 60))
	v.asked(hidden.ID, "go test")

	// From here on the desktop runs, and answers.
	h := s.trayHost()
	p := s.reeve()
	h.registered()
	main := s.window("Reeve")
	h.says("Reeve: 1 approval waits for you")
	r := do[wire.MissionStartResult](v, wire.MethodMissionStart, terms("thermometer", "Mend the conversion in convert.sh", 60))
	s.allowed(v, "Start this mission?", r.Approval.ID)
	mend := v.phase(r.Mission.ID, "starting", "working")
	s.window("Allow this command?").close() // the one that waits already
	change := v.pending(mend.ID, "file_change")
	h.choose("▲ Mend")
	s.allowed(v, "Allow this change?", change.ID)
	v.pending(mend.ID, "tool_call")
	h.says("Reeve: 2 approvals wait for you")
	s.window("Allow this command?").close()
	s.gone("Allow this command?")

	main.raise()
	s.until("both buttons", func() bool { return len(fills(main.image(), accent, image.Pt(60, 20))) == 2 })
	s.readme("missions", main)

	h.choose("▲ Mend", "Open")
	w := s.window("Reeve: " + mend.Title).raise()
	s.until("its button", func() bool { return len(fills(w.image(), accent, image.Pt(60, 20))) > 0 })
	s.readme("mission", w)
	w.close()

	h.choose("▲ Add a retry")
	w = s.window("Allow this command?")
	s.armed(w)
	s.until("the warning of hidden characters", func() bool { return len(fills(w.image(), waitingTint, image.Pt(400, 30))) > 0 })
	s.readme("approval", w)
	w.close()

	main.raise()
	s.xdo("key", "ctrl+n")
	form := s.window("New mission")
	s.until("the form in front", form.active)
	s.xdo("type", "--delay", "20", "~/code/search")
	form.click(scopeField.X, scopeField.Y)
	s.xdo("type", "--delay", "20", "Answer a query of two words in the order of relevance. Leave the index format alone.")
	s.until("a form that can be sent", func() bool { return s.canContinue(form) })
	s.readme("new-mission", form)
	p.end()
	_ = h.conn.Close()

	// The tray of a real panel, with its menu.
	s.panel()
	before := s.still("before")
	s.reeve("-hidden")
	strip := image.Rect(0, 770, 1280, 800)
	var icon image.Rectangle
	s.until("an icon in the panel", func() bool {
		icon = changed(before, s.screenImage(), strip)
		return icon.Dx() >= 8 && icon.Dy() >= 12
	})
	mid := icon.Min.Add(icon.Size().Div(2))
	s.xdo("mousemove", fmt.Sprint(mid.X), fmt.Sprint(mid.Y), "click", "1")
	var menu image.Rectangle
	s.until("the menu", func() bool {
		menu = changed(before, s.screenImage(), image.Rect(0, 200, 1280, 768))
		return menu.Dx() > 150 && menu.Dy() > 150
	})
	img := s.shot("tray")
	left := min(menu.Min.X, icon.Min.X-6)
	crop := image.NewRGBA(image.Rect(0, 0, menu.Max.X-left, strip.Max.Y-menu.Min.Y))
	draw.Draw(crop, crop.Bounds(), img, image.Pt(left, menu.Min.Y), draw.Src)
	var out bytes.Buffer
	if err := png.Encode(&out, crop); err != nil {
		t.Fatal(err)
	}
	s.image("tray", out.Bytes())
}

// readme keeps a picture of a window in front.
func (s *screen) readme(name string, w window) {
	s.t.Helper()
	s.park()
	w.shot(name)
	data, err := s.grab(w.id)
	if err != nil {
		s.t.Fatal(err)
	}
	s.image(name, data)
}

func (s *screen) image(name string, data []byte) {
	s.t.Helper()
	dir := os.Getenv("REEVE_E2E_IMAGES")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644); err != nil {
		s.t.Fatal(err)
	}
}
