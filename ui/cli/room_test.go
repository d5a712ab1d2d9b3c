package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
)

func (f *fake) RoomList(context.Context) (wire.RoomListResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return wire.RoomListResult{Rooms: slices.Clone(f.rooms)}, nil
}

// RoomMessages serves pages of two.
func (f *fake) RoomMessages(_ context.Context, p wire.RoomMessagesParams) (wire.RoomMessagesResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.rooms, func(r wire.Room) bool { return strings.HasSuffix(r.ID, p.Room) || strings.HasSuffix(r.Mission, p.Room) })
	if i < 0 {
		return wire.RoomMessagesResult{}, wire.Errorf(wire.CodeNotFound, "There is no room %s. Run reeve room.", p.Room)
	}
	list := slices.Clone(f.said)
	if p.After == "" {
		list = list[max(0, len(list)-2):]
	} else {
		at := slices.IndexFunc(list, func(m wire.RoomMessage) bool { return m.ID == p.After })
		list = list[at+1:]
	}
	more := len(list) > 2
	return wire.RoomMessagesResult{Room: f.rooms[i], Messages: list[:min(2, len(list))], More: more}, nil
}

func (f *fake) RoomSend(_ context.Context, _ server.Actor, p wire.RoomSendParams) (wire.RoomSendResult, error) {
	var refuse *wire.Error
	if f.with(func() { refuse = f.refuse }); refuse != nil {
		return wire.RoomSendResult{}, refuse
	}
	return wire.RoomSendResult{Message: f.say("person", "", p.Text)}, nil
}

// say adds a message and tells who watches.
func (f *fake) say(from, name, text string) wire.RoomMessage {
	m := wire.RoomMessage{Room: "r-01aaaaaa", Kind: wire.RoomText, From: from, Name: name, Text: text}
	f.with(func() {
		m.ID, m.At = fmt.Sprintf("msg_%d", len(f.said)+1), at(15, len(f.said))
		f.said = append(f.said, m)
	})
	f.roomTopic.Publish(wire.EvRoom, m)
	return m
}

func (f *fake) EffectList(_ context.Context, p wire.EffectListParams) (wire.EffectListResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(f.done), func(e wire.Effect) bool {
		return p.Mission != "" && !strings.HasSuffix(e.Mission, p.Mission) || !p.All && e.State != wire.EffectUncertain
	})
	return wire.EffectListResult{Effects: list}, nil
}

func (f *fake) EffectSettle(_ context.Context, _ server.Actor, p wire.EffectSettleParams) (wire.EffectResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled = append(f.settled, p)
	i := slices.IndexFunc(f.done, func(e wire.Effect) bool { return e.ID == p.ID })
	e := f.done[i]
	if e.Revision != p.Revision {
		return wire.EffectResult{}, wire.Errorf(wire.CodeConflict, "The effect changed; look at it again.")
	}
	e.State, e.Settled = wire.EffectSettled, p.Outcome
	return wire.EffectResult{Effect: e}, nil
}

func talking(t *testing.T) (*world, *fake) {
	f := populated()
	f.rooms = []wire.Room{{ID: "r-01aaaaaa", Title: "Port\x1b[2J parser", Mission: "m-01aaaaaa", Workers: []string{"m-01aaaaaa"}, Count: 3, LastAt: ptr(at(15, 2))},
		{ID: "r-01bbbbbb", Title: "Empty", Mission: "m-01bbbbbb"}}
	w := newWorld(t, f)
	f.say("person", "", "Does the lexer read bytes?")
	f.say("agent", "Codex", "It reads\u202e runes.\nI checked\x1b[2J.")
	f.say("reeve", "", "The worker was restarted.")
	f.with(func() { f.said[1].Answers, f.said[1].Kind = "msg_1", wire.RoomAnswer })
	return w, f
}

func TestRoom(t *testing.T) {
	w, _ := talking(t)
	out, _ := w.expect(ExitOK, "aaaaaa  Port‹U+001B›[2J parser  3 messages  15:02  1 worker\nbbbbbb  Empty", "", "room")
	if strings.ContainsRune(out, 0x1b) {
		t.Errorf("an escape reached the terminal: %q", out)
	}
	w.expect(ExitOK, "msg_2    15:01  Codex answers msg_1\n  It reads‹U+202E› runes.\n  I checked‹U+001B›[2J.\n\nmsg_3    15:02  Reeve\n  The worker was restarted.\n", "", "room", "aaaaaa")
	out, _ = w.expect(ExitOK, "msg_2", "", "room", "m-01aaaaaa", "--after", "msg_1", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var m wire.RoomMessage
	if err := json.Unmarshal([]byte(lines[0]), &m); err != nil || len(lines) != 2 || m.Text != "It reads\u202e runes.\nI checked\x1b[2J." {
		t.Errorf("%d lines, %v, %+v", len(lines), err, m)
	}
	w.expect(ExitOK, `"rooms":[{"id":"r-01aaaaaa"`, "", "room", "--json")
	w.expect(ExitRefused, "", "There is no room nosuch. Run reeve room.", "room", "nosuch")
	w.expect(ExitUsage, "", "one mission or room at most. To write into it, run `reeve room send", "room", "aaaaaa", "hello")
	w.expect(ExitUsage, "", `--after "msg_01" is no message.`, "room", "aaaaaa", "--after", "msg_01")
	w.expect(ExitUsage, "", "Say which room", "room", "--follow")
}

func TestRoomWithoutMessages(t *testing.T) {
	w := newWorld(t, populated())
	w.expect(ExitOK, "There are no rooms yet", "", "room")
	w.expect(ExitOK, `{"rooms":[]}`, "", "room", "--json")
	w.fake.with(func() { w.fake.rooms = []wire.Room{{ID: "r-01bbbbbb", Mission: "m-01bbbbbb"}} })
	w.expect(ExitOK, "Nothing was written here yet. Be the first: reeve room send bbbbbb TEXT", "", "room", "bbbbbb")
}

func TestRoomSend(t *testing.T) {
	w, f := talking(t)
	w.expect(ExitOK, "Written as msg_4.\n", "", "room", "send", "aaaaaa", "And", "now?")
	f.with(func() {
		if got := f.said[3].Text; got != "And now?" {
			t.Errorf("sent %q", got)
		}
	})
	w.expect(ExitOK, `{"message":{"id":"msg_5"`, "", "room", "send", "aaaaaa", "x", "--json")
	w.expect(ExitRefused, "", "The message is not valid UTF-8 at byte 1.", "room", "send", "aaaaaa", "a\xff")
	w.expect(ExitUsage, "", "takes a mission's or room's id and a text", "room", "send", "aaaaaa")
	f.with(func() { f.refuse = wire.Errorf(wire.CodeLimitExceeded, "The room is full.") })
	w.expect(ExitRefused, "", "The room is full.", "room", "send", "aaaaaa", "x")
}

// What is written while somebody follows comes once and in order, from before
// the following began on.
func TestRoomFollow(t *testing.T) {
	w, f := talking(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w.ctx = ctx
	said := map[string]string{"The worker was restarted.": "one", "  one\n": "two", "  two\n": ""}
	w.onOutput = func(text string) {
		next, ok := said[text]
		if !ok {
			next, ok = said[strings.TrimSpace(text)]
		}
		switch {
		case ok && next == "":
			cancel()
		case ok:
			f.say("agent", "Codex", next)
		}
	}
	code, out, errs := w.run("room", "aaaaaa", "-f")
	if code != ExitOK || errs != "" || strings.Count(out, "msg_") != 4+1 || !strings.HasSuffix(out, "msg_4    15:03  Codex\n  one\n\nmsg_5    15:04  Codex\n  two\n") {
		t.Errorf("exit %d, %q\n%s", code, errs, out)
	}
}

func unsure() []wire.Effect {
	e := wire.Effect{ID: "e-01eeeeee", Mission: "m-01aaaaaa", TurnNo: 3, Room: "r-01aaaaaa", Tool: "create\x1bissue", Input: json.RawMessage(`{"title":"a\u202eb"}`), Digest: "4f1c", Mutation: true,
		State: wire.EffectUncertain, CreatedAt: at(15, 1), Known: "Its worker was gone\nbefore it said so.", Revision: 7}
	done := e
	done.ID, done.State, done.Known, done.Mission = "e-01ffffff", wire.EffectCompleted, "It happened.", "m-01bbbbbb"
	return []wire.Effect{e, done}
}

func TestEffects(t *testing.T) {
	f := populated()
	w := newWorld(t, f)
	w.expect(ExitOK, "No effect is uncertain.", "", "effects")
	w.expect(ExitOK, `{"effects":[]}`, "", "effects", "--json")
	w.expect(ExitOK, "No worker did anything beyond its checkout yet.", "", "effects", "--all")
	f.with(func() { f.done = unsure() })
	w.expect(ExitOK, "eeeeee  ▲ uncertain  15:01  mission aaaaaa  create‹ESC›issue  Its worker was gone before it said so.\n\nSee one whole and say what became of it: reeve effects settle eeeeee\n", "", "effects")
	w.expect(ExitOK, "ffffff  ✓ happened   15:01  mission bbbbbb", "", "effects", "--all")
	if out, _ := w.expect(ExitOK, "ffffff", "", "effects", "--all", "--mission", "bbbbbb"); strings.Contains(out, "eeeeee") {
		t.Errorf("of another mission: %s", out)
	}
	w.expect(ExitOK, `"known":"Its worker was gone\nbefore it said so."`, "", "effects", "--json")
}

func TestSettle(t *testing.T) {
	f := populated()
	f.done = unsure()
	w := newWorld(t, f)
	w.vars["NO_COLOR"] = "1"
	for _, c := range []struct {
		terminal bool
		typed    string
		args     []string
		code     int
		outcome  string
		err      string
	}{
		{true, "h\n", nil, ExitOK, "happened", ""},
		{true, "did not\n", nil, ExitOK, "did_not", ""},
		{true, "L\n", nil, ExitOK, "left", ""},
		{true, "\n", nil, ExitDenied, "", "It stays uncertain; nothing was decided."},
		{true, "h", nil, ExitDenied, "", "It stays uncertain; nothing was decided."},
		{true, "", nil, ExitDenied, "", "It stays uncertain; nothing was decided."},
		{true, "y\n", nil, ExitUsage, "", "none of the answers"},
		{true, "y\n", []string{"--happened"}, ExitOK, "happened", ""},
		{true, "\n", []string{"--happened"}, ExitDenied, "", "nothing was decided"},
		{true, "h\n", []string{"--did-not"}, ExitUsage, "", "nothing was decided"},
		{false, "h\n", nil, ExitDenied, "", "there is no terminal to ask on. Run `reeve effects settle eeeeee` with --happened, --did-not or --leave."},
		{false, "", []string{"--did-not"}, ExitOK, "did_not", ""},
		{false, "", []string{"--leave"}, ExitOK, "left", ""},
		{false, "", []string{"--leave", "--happened"}, ExitUsage, "", "Give one of"},
	} {
		f.with(func() { f.settled = nil })
		w.terminal, w.stdin = c.terminal, c.typed
		code, out, errs := w.run(append([]string{"effects", "settle", "eeeeee"}, c.args...)...)
		var got []wire.EffectSettleParams
		f.with(func() { got = f.settled })
		name := fmt.Sprintf("%v %q %v", c.terminal, c.typed, c.args)
		if code != c.code || !strings.Contains(errs, c.err) || c.err == "" && errs != "" {
			t.Errorf("%s: exit %d, %q", name, code, errs)
		}
		if (c.outcome != "") != (len(got) == 1) || c.outcome != "" && (got[0].Outcome != c.outcome || got[0].Revision != 7 || got[0].ID != "e-01eeeeee" || got[0].RequestKey == "") {
			t.Errorf("%s: settled %+v", name, got)
		}
		if len(c.args) < 2 && (!strings.Contains(out, "▲ uncertain  create‹ESC›issue\nIts worker was gone before it said so.\n\n  {\n    \"title\": \"a\\u202eb\"\n  }\n") || strings.ContainsRune(out, 0x1b)) {
			t.Errorf("%s: shows %q", name, out)
		}
	}
	w.terminal, w.stdin = false, ""
	w.expect(ExitRefused, "", "It is not uncertain but happened: there is nothing to settle.", "effects", "settle", "ffffff", "--happened")
	w.expect(ExitRefused, "", "There is no effect nosuch. See `reeve effects --all`.", "effects", "settle", "nosuch")
	w.expect(ExitOK, `{"effect":{"id":"e-01eeeeee"`, "▲ uncertain", "effects", "settle", "eeeeee", "--happened", "--json")
	f.with(func() { f.done = append(f.done, f.done[0]); f.done[2].ID = "e-02eeeeee" })
	w.expect(ExitRefused, "", "The id eeeeee fits 2 effects.", "effects", "settle", "eeeeee", "--leave")
}

// Who watches is told of effects that nobody knows of, of their mission alone.
func TestWatchTellsOfDoubts(t *testing.T) {
	f := populated()
	f.done = unsure()
	w := newWorld(t, f)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"watch"}, "▲ it is not known what became of create‹ESC›issue  reeve effects settle eeeeee"},
		{[]string{"watch", "--json"}, `"event":"effect.changed","topic":"effects","data":{"id":"e-01ffffff"`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		w.ctx = ctx
		seen := ""
		w.onOutput = func(text string) {
			if seen += text; strings.Contains(seen, c.want) {
				cancel()
			}
		}
		if _, out, errs := w.run(c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: %q\n%s", c.args, errs, out)
		}
		cancel()
	}
}
