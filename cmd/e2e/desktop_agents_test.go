package e2e

import (
	"image"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
)

// settingsEntry is the page of settings in the side bar.
var settingsEntry = image.Pt(100, -57)

// wrongInk is what says that something is wrong.
const wrongInk rgb = 0xA4262C

// TestDesktopAgents: an agent of one's own is added with keys alone once its form
// is open; a name that the service refuses is put right in its field, and
// nothing else has to be typed again.
func TestDesktopAgents(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	h := s.trayHost()
	s.reeve()
	h.registered()
	main := s.window("Reeve").raise()
	agent := func(name string) *wire.ProviderEntry {
		for _, p := range do[wire.ProviderListResult](v, wire.MethodProviderList, wire.ProviderListParams{}).Providers {
			if p.Name == name {
				return p.Entry
			}
		}
		return nil
	}
	s.until("the settings, with the demo agent found", func() bool {
		main.click(settingsEntry.X, settingsEntry.Y)
		return main.has(doneInk, image.Rect(240, 395, 260, 700))
	})
	// Above the agents there is a line more or less, depending on how the
	// service was started.
	form := image.Rect(232, 395, 700, 560)
	y := 340
	s.until("the form, with the focus in its first field", func() bool {
		if y += 14; y > 440 {
			y = 340
		}
		main.click(-160, y)
		open := false
		for range 20 { // a click beside it takes the focus away
			if open = main.has(accent, form); open {
				break
			}
			time.Sleep(tick)
		}
		return open
	})
	typed := func(text string) { s.xdo("type", "--delay", "20", text) }
	typed("gemini") // which Reeve has itself
	s.xdo("key", "Tab")
	typed("My agent")
	s.xdo("key", "Tab")
	typed("my-agent")
	s.xdo("key", "Return")
	s.until("the refusal at the name", func() bool { return main.has(wrongInk, form) })
	main.shot("refused")
	s.xdo("key", "ctrl+a")
	typed("mine")
	s.until("what was wrong to be taken back", func() bool { return !main.has(wrongInk, form) })
	s.xdo("key", "Return")
	s.until("the agent", func() bool { return agent("acp:mine") != nil })
	if got, want := *agent("acp:mine"), (wire.ProviderEntry{Name: "mine", Title: "My agent", Command: "my-agent"}); !reflect.DeepEqual(got, want) {
		t.Errorf("the agent is %+v", got)
	}
	s.until("the form to close", func() bool { return !main.has(accent, form) })
	main.shot("added")
	if r := m.run("providers"); !strings.Contains(r.out, "acp:mine") {
		t.Errorf("reeve providers: %s", r.out)
	}
}
