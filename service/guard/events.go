package guard

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider"
)

// Limits of what is kept of one event, in bytes.
const (
	textSoon  = 4 << 10  // text that is written at once
	textMost  = 32 << 10 // text in one entry
	maxNotice = 4 << 10
	maxTitle  = 4 << 10
)

// textEvery is how long text waits for more of it.
const textEvery = 100 * time.Millisecond

// text gathers the small pieces in which providers deliver their answers.
type text struct {
	kind  string
	b     []byte
	timer *time.Timer
}

// pump writes everything that a provider says to the log.
func (g *guard) pump(talk *conversation) {
	defer close(talk.closed)
	for ev := range talk.conn.Events() {
		if ask, ok := ev.(provider.PermissionRequested); ok {
			g.ask(talk, ask)
			continue
		}
		g.mu.Lock()
		g.takeLocked(talk, ev)
		g.mu.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flushTextLocked()
	if g.turn == nil && g.talk == talk {
		g.talk = nil // it ended between turns; the next one opens it again
	}
}

func (g *guard) takeLocked(talk *conversation, ev provider.Event) {
	id := g.turnIDLocked()
	switch ev := ev.(type) {
	case provider.SessionStarted:
		_ = g.appendLocked(wire.KindSessionStarted, wire.SessionStarted{
			Provider: g.launch.Provider, ProviderSession: ev.Session, Resumed: ev.Resumed,
			Model: ev.Model, Version: ev.Version, PID: g.providerPID,
		})
	case provider.Text:
		g.textLocked(wire.KindText, ev.Text)
	case provider.Thought:
		g.textLocked(wire.KindThought, ev.Text)
	case provider.Plan:
		steps := make([]wire.PlanStep, 0, len(ev.Steps))
		room := wire.BlobThreshold
		for _, s := range ev.Steps {
			step := wire.PlanStep{Text: short(s.Text, maxTitle), Status: s.Status}
			if room -= len(step.Text); room < 0 {
				break
			}
			steps = append(steps, step)
		}
		_ = g.appendLocked(wire.KindPlan, wire.Plan{Turn: id, Steps: steps})
	case provider.ToolStarted:
		g.toolStartedLocked(id, ev.Tool)
	case provider.ToolFinished:
		g.toolFinishedLocked(id, ev)
	case provider.PermissionWithdrawn:
		if q := g.askedByLocked(ev.Request); q != nil {
			g.settleLocked(q, settlement{outcome: outcomeWithdrawn, by: "provider"})
		}
	case provider.UsageReported:
		if g.turn != nil {
			g.turn.usage = ev.Usage
		}
		_ = g.appendLocked(wire.KindUsage, wire.UsageEntry{Turn: id, Usage: wire.Usage(ev.Usage)})
	case provider.TurnFinished:
		if t := g.turn; t != nil && t.final == nil {
			t.final = &ev
			close(t.over)
		}
	case provider.Notice:
		g.noticeLocked(ev.Level, short(ev.Text, maxNotice))
	}
}

func (g *guard) toolStartedLocked(turn string, tool provider.Tool) {
	if g.turn != nil {
		g.turn.begins[tool.Call] = g.o.Now()
	}
	e := wire.ToolStarted{
		Turn: turn, Call: tool.Call, Tool: short(tool.Name, maxTitle), Kind: tool.Kind,
		Title: short(tool.Title, maxTitle), Paths: tool.Paths, Input: bytes.ToValidUTF8(tool.Input, []byte("\ufffd")),
	}
	e.Command, _ = cut(tool.Command, wire.BlobThreshold)
	// The whole of it is in the permission, if there was one.
	if len(e.Input) > wire.BlobThreshold {
		e.Input = rawJSON(map[string]int{"cut_bytes": len(e.Input)})
	}
	for i, room := 0, textMost; i < len(e.Paths); i++ {
		if room -= len(e.Paths[i]); room < 0 {
			e.Paths = e.Paths[:i]
		}
	}
	_ = g.appendLocked(wire.KindToolStarted, e)
}

func (g *guard) toolFinishedLocked(turn string, ev provider.ToolFinished) {
	e := wire.ToolFinished{Turn: turn, Call: ev.Call, Status: ev.Status, Exit: ev.Exit}
	var more int64
	e.Output, e.Cut = cut(ev.Output, wire.BlobThreshold)
	e.Diff, more = cut(ev.Diff, wire.BlobThreshold)
	e.Cut += more
	if g.turn != nil {
		if at, ok := g.turn.begins[ev.Call]; ok {
			e.Seconds = seconds(at, g.o.Now())
			delete(g.turn.begins, ev.Call)
		}
	}
	_ = g.appendLocked(wire.KindToolFinished, e)
}

// textLocked adds a piece of text. It is written when there are 4 KiB, after
// 100 ms, or before anything else is.
func (g *guard) textLocked(kind, s string) {
	if g.text.kind != kind {
		g.flushTextLocked()
	}
	if g.ending == causeFull {
		return
	}
	g.text.kind = kind
	g.text.b = append(g.text.b, s...)
	if len(g.text.b) >= textSoon {
		g.flushTextLocked()
	} else if g.text.timer == nil && len(g.text.b) > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(textEvery, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.text.timer == timer { // else it was flushed meanwhile
				g.flushTextLocked()
			}
		})
		g.text.timer = timer
	}
}

func (g *guard) flushTextLocked() {
	if g.text.timer != nil {
		g.text.timer.Stop()
		g.text.timer = nil
	}
	b := g.text.b
	g.text.b = g.text.b[:0]
	if cap(b) > textMost {
		g.text.b = nil
	}
	for len(b) > 0 {
		n := min(len(b), textMost)
		for n < len(b) && n > 1 && !utf8.RuneStart(b[n]) {
			n--
		}
		if g.writeLocked(g.text.kind, wire.Text{Turn: g.turnIDLocked(), Text: string(b[:n])}) != nil {
			return
		}
		b = b[n:]
	}
}

// cutMark stands where the middle of a long value was left out.
const cutMark = "\n⋯\n"

// cut keeps the head and the tail of a value over limit bytes, and says how
// many bytes between them are gone.
func cut(s string, limit int) (string, int64) {
	if len(s) <= limit {
		return s, 0
	}
	half := limit / 2
	head, tail := half, len(s)-half
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + cutMark + s[tail:], int64(tail - head)
}

// short is cut for a line that nobody needs whole.
func short(s string, limit int) string {
	s, _ = cut(s, limit)
	return s
}

// clean makes an error of a provider fit for the guard's own log.
func (g *guard) clean(err error) string { return g.cleanText(err.Error()) }

// cleanText quotes raw provider output, cuts it, and takes out the values of
// the provider's environment, any of which may be secret.
func (g *guard) cleanText(s string) string {
	if r := g.redact.Load(); r != nil {
		s = r.Replace(s)
	}
	return strconv.QuoteToGraphic(short(s, 2<<10))
}

// redactor replaces the values of all variables but the common ones.
func redactor(env []string) *strings.Replacer {
	var pairs []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR":
			continue
		}
		if len(value) >= 6 && !strings.HasPrefix(name, "LC_") && !strings.HasPrefix(name, "XDG_") {
			pairs = append(pairs, value, "["+name+"]")
		}
	}
	return strings.NewReplacer(pairs...)
}
