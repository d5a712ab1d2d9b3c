package e2e

import (
	"encoding/json"
	"image"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/demo"
)

// Where the tab of the room is in a mission's window, and its field for a
// message, from the left and the bottom.
var (
	roomTab   = image.Pt(218, 90)
	roomField = image.Pt(300, -60)
)

// surface is what lists and messages of others lie on, in the light palette.
const surface rgb = 0xFFFFFF

// TestDesktopRoom: a worker goes away in the middle of an effect, and a person
// says by a click what became of it; what they write into the room wakes the
// worker, and its answer appears there.
func TestDesktopRoom(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	s.env = append(s.env, "HOME="+s.dir) // so that the checkout is ~/code/parser
	folder := filepath.Join(s.dir, "code", "parser")
	if err := demo.Sample(folder); err != nil {
		t.Fatal(err)
	}
	r := v.worker(folder, "Port the parser to Go\n\n"+waitsForNews)
	id := r.mission.ID
	input := func(v map[string]any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	tool := func(name string, in map[string]any) {
		t.Helper()
		if got := r.do(order{Tool: name, Input: input(in)}); got.Error != "" {
			t.Fatalf("%s: %s", name, got.Error)
		}
	}
	tool(wire.MCPRecordIntent, map[string]any{"text": "Port lexer.ts first, then parser.ts; the command line stays as it is."})
	r.ok(wire.MethodPrepareEffect, params{"mcp_request_id": "i-1", "tool_name": "create_issue", "mutation": true,
		"input": params{"repository": "me/parser", "title": "eval in parser.ts", "body": "It is called at line 212, and left out of the port."}})
	tool(wire.MCPSendMessage, map[string]any{"text": "parser.ts calls eval in one place. I leave it out, and open an issue about it."})
	r.leave()
	v.turned(id, 1, "waiting")

	h := s.trayHost()
	s.reeve("-hidden")
	h.registered()
	h.says("Reeve: 1 effect is uncertain")
	h.choose("▲ Port")
	w := s.window("Reeve: " + r.mission.Title).raise()
	var card image.Rectangle
	s.until("what is uncertain", func() bool {
		found := fills(w.image(), waitingTint, image.Pt(600, 100))
		if len(found) == 1 {
			card = found[0]
		}
		return len(found) == 1
	})
	s.readme("effects", w)
	// The buttons count when they were in sight for a while.
	s.until("the effect settled", func() bool {
		w.click(card.Min.X+190, card.Max.Y-30) // it did not happen
		return v.effect(id, "create_issue").State == wire.EffectSettled
	})
	if e := v.effect(id, "create_issue"); e.Settled != wire.EffectDidNot || e.By == "" {
		t.Errorf("settled %q by %q", e.Settled, e.By)
	}
	s.until("nothing uncertain in the window", func() bool { return len(fills(w.image(), waitingTint, image.Pt(600, 100))) == 0 })

	w.click(roomTab.X, roomTab.Y)
	others := func() int { return len(fills(w.image(), surface, image.Pt(800, 40))) }
	s.until("the worker's message", func() bool { return others() == 1 })
	w.click(roomField.X, roomField.Y)
	s.xdo("type", "--delay", "20", "Do error positions stay byte offsets?")
	s.xdo("key", "Return")
	s.window("Allow this command?") // what was written wakes the worker
	r.join(v)
	tool(wire.MCPCompleteTurn, map[string]any{"text": "Yes. Position.Offset is the byte offset in the source, as in the TypeScript version."})
	r.leave()
	v.turned(id, 2, "waiting")
	s.window("Allow this command?").close() // it was answered elsewhere
	s.gone("Allow this command?")
	w.raise()
	s.until("the answer", func() bool { return others() == 2 })
	said := v.said(id)
	if n := len(said); n != 4 || said[2].From != "person" || said[3].Kind != wire.RoomAnswer || said[3].Answers != said[2].ID {
		t.Errorf("in the room: %+v", said)
	}
	s.readme("room", w)
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: id})
	v.phase(id, "stopped")
}
