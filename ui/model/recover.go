package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// Tail keeps of a transcript, read from its start, what a recovery is about:
// the last turn, and how often a worker was started.
type Tail struct {
	entries []wire.Entry
	logs    []string
	session wire.SessionStarted
	turn    happenings
}

// maxTail is how many entries of one turn are kept, so that a turn of any
// length can be shown; the oldest give way.
const maxTail = 20_000

// Add takes the next entry.
func (t *Tail) Add(e wire.Entry) {
	if e.Log != "" && !slices.Contains(t.logs, e.Log) {
		t.logs = append(t.logs, e.Log)
	}
	switch e.Kind {
	case wire.KindSessionStarted:
		_ = json.Unmarshal(e.Data, &t.session)
	case wire.KindTurnStarted:
		t.entries = nil
	}
	if len(t.entries) >= maxTail {
		t.entries = slices.Clone(t.entries[maxTail/2:])
	}
	t.entries = append(t.entries, e)
}

// End is called after the last Add: it reads what was kept, of a worker that
// worked in folder, so that nothing has to be read while it is shown.
func (t *Tail) End(folder string) {
	t.turn = happenings{folder: folder, calls: map[string]int{}, asks: map[string]int{}}
	for _, e := range t.entries {
		t.turn.add(e)
	}
	t.entries = nil
}

// Recovery is what the window shows that asks whether a mission whose worker
// is gone may go on. Texts are cleaned.
type Recovery struct {
	Can    bool   // it can be recovered
	Cancel bool   // it can be cancelled
	New    bool   // all that is left is a new mission
	Title  string // "Recover “Port parser to Go”?"
	Reason string // why it came to this, or why nothing can be done
	Lost   string // "lost at 13:12"; "" when it is not known
	Button string // "Recover for 37 min"

	Unsure   []Unsure
	Turn     string // "turn 5 of this mission"
	Happened []Happened
	Earlier  int // how many more there were before those
	Gives    []string
	Cancels  []string
}

// Unsure is one thing of which nobody knows whether it happened.
type Unsure struct {
	Code string // a command, path or instruction; cleaned
	Mono bool   // whether Code is something to be read letter by letter
	Text string
}

// Happened is one line of what was going on before the worker was lost.
type Happened struct {
	At    time.Time
	Shape Shape
	Text  string // "Edited", "Ran, exit 0", "Said"
	Code  string // what was edited or run
	Tail  string // "+84 −1"
	Quote string // what was said, on lines of its own
}

// maxHappened is how many lines the timeline has, and maxQuote how many
// characters of what the agent said.
const (
	maxHappened = 9
	maxQuote    = 400
)

// NewRecovery puts together what is known of a mission that lost its worker.
func NewRecovery(m wire.Mission, t *Tail, s wire.Service, now time.Time) Recovery {
	title := say.T("“%s”", cmp.Or(oneLine(m.Title), mission.Title(m.Scope)))
	r := Recovery{Title: say.T("Recover %s?", title), Reason: oneLine(m.BlockedBy)}
	if m.LostAt != nil {
		r.Lost = say.T("lost at %s", Clock(*m.LostAt, now))
	}
	expired := m.DeadlineAt != nil && !now.Before(*m.DeadlineAt)
	switch recovery := mission.Recovery(m.Recovery); {
	case recovery == mission.OwnerUncertain:
		r.Title = say.T("%s can't be recovered now", title)
	case recovery == mission.RecoveryExpired, recovery == mission.ApprovalRequired && expired:
		r.Title, r.New, r.Cancel = say.T("%s can't go on", title), true, true
		r.Cancels = cancels(m)
	case recovery == mission.ApprovalRequired:
		r.Can, r.Cancel = true, true
		r.Button = say.T("Recover")
		if m.DeadlineAt != nil {
			r.Button = say.T("Recover for %s", Duration(m.DeadlineAt.Sub(now)))
		}
		r.Gives, r.Cancels = gives(m, t, now), cancels(m)
	}
	if m.Turn > 0 {
		r.Turn = say.T("turn %d of this mission", m.Turn)
	}
	r.Unsure = unsure(m, t.turn.started(), now)
	r.Happened = t.turn.lines(m, s)
	if n := len(r.Happened) - maxHappened; n > 0 {
		r.Happened, r.Earlier = r.Happened[n:], n
	}
	return r
}

func gives(m wire.Mission, t *Tail, now time.Time) []string {
	attempt := say.T("as a further attempt")
	if n := len(t.logs); n > 0 {
		attempt = say.T("as attempt %d", n+1)
	}
	first := say.T("begins a new conversation, %s", attempt)
	if t.session.ProviderSession != "" {
		first = say.T("continues the same conversation, %s; a new one if the agent no longer has it", attempt)
	}
	out := []string{first}
	if m.DeadlineAt != nil {
		out = append(out, say.T("runs for the %s that are left, to %s", Duration(m.DeadlineAt.Sub(now)), Clock(*m.DeadlineAt, now)))
	}
	keeps := say.T("keeps what you allowed")
	if m.Budget.CostUSD > 0 {
		keeps = say.T("keeps what you allowed and the %s budget", Cost(&m.Budget.CostUSD))
	} else if m.Budget != (wire.Budget{}) {
		keeps = say.T("keeps what you allowed and the budget")
	}
	return append(out, keeps, say.T("asks again for whatever was waiting"), say.T("tells the agent to look at the checkout before it does anything again"))
}

func cancels(m wire.Mission) []string {
	stay := say.T("ends the mission; the files stay as they are")
	if m.Worktree != nil {
		stay = say.T("ends the mission; branch and files stay")
	}
	return []string{stay, say.T("kills nothing: its worker is gone")}
}

// unsure lists what may have happened: what was started and has no result, and
// instructions that may not have been seen. Of a turn that left no such trace
// it says at least that it was cut off.
func unsure(m wire.Mission, started []Happened, now time.Time) []Unsure {
	var out []Unsure
	if m.Recovery == string(mission.OwnerUncertain) {
		return nil
	}
	for _, c := range started {
		out = append(out, Unsure{Code: c.Code, Mono: true,
			Text: say.T("It was started at %s and has no known result. Reeve will not do it again by itself.", c.At.In(now.Location()).Format("15:04:05"))})
	}
	if n := len(m.Turns); len(out) == 0 && n > 0 && m.Turns[n-1].Outcome == string(mission.Interrupted) {
		out = append(out, Unsure{Text: say.T("Turn %d was cut off. It may have done work that was not recorded.", m.Turns[n-1].Number)})
	}
	for _, s := range m.Steering {
		if s.State == "unconfirmed" {
			out = append(out, Unsure{Code: oneLine(s.Text), Text: say.T("Your instruction was sent, and nothing says that the agent saw it. It is offered again.")})
		}
	}
	return out
}

// happenings turns the entries of a turn into lines.
type happenings struct {
	folder string
	list   []*event
	calls  map[string]int // tool call → its event
	asks   map[string]int // approval → its event
	last   time.Time
}

// event is a line before it is known whether it is worth one.
type event struct {
	Happened
	tool    *wire.ToolStarted
	open    bool // started, without a result
	asked   bool // a question about it has no answer
	refused bool
	said    bool // words of the agent
	words   strings.Builder
}

func (h *happenings) add(e wire.Entry) {
	h.last = e.At
	switch e.Kind {
	case wire.KindText:
		var d wire.Text
		if json.Unmarshal(e.Data, &d) != nil || d.Text == "" {
			return
		}
		n := len(h.list)
		if n == 0 || !h.list[n-1].said {
			h.push(Happened{At: e.At, Shape: ShapeWorking, Text: say.T("Said")}).said = true
			n++
		}
		h.list[n-1].words.WriteString(d.Text)
	case wire.KindToolStarted:
		var d wire.ToolStarted
		if json.Unmarshal(e.Data, &d) != nil {
			return
		}
		if i, ok := h.calls[d.Call]; ok && d.Call != "" && h.list[i].open {
			h.list[i].tool = &d // announced in several steps
			return
		}
		h.calls[d.Call] = len(h.list)
		ev := h.push(Happened{At: e.At})
		ev.tool, ev.open = &d, true
	case wire.KindToolFinished:
		var d wire.ToolFinished
		if json.Unmarshal(e.Data, &d) != nil {
			return
		}
		if i, ok := h.calls[d.Call]; ok {
			h.finish(h.list[i], d)
		}
	case wire.KindPermissionAsked:
		var d wire.Permission
		if json.Unmarshal(e.Data, &d) != nil {
			return
		}
		if i, ok := h.calls[d.Call]; ok && d.Call != "" && h.list[i].open {
			h.asks[d.Request], h.list[i].asked = i, true
			return
		}
		h.asks[d.Request] = len(h.list)
		wants := Wants(wire.Approval{Kind: d.Kind, Subject: d.Subject, Folder: h.folder})
		h.push(Happened{At: e.At, Code: wants.Code}).asked = true
	case wire.KindPermissionResolved:
		var d wire.PermissionResolved
		if json.Unmarshal(e.Data, &d) != nil {
			return
		}
		if i, ok := h.asks[d.Request]; ok {
			h.list[i].asked, h.list[i].refused = false, d.Outcome != "allowed"
		}
	case wire.KindNotice:
		var d wire.Notice
		if json.Unmarshal(e.Data, &d) != nil || d.Level == "info" {
			return
		}
		h.push(Happened{At: e.At, Shape: ShapeNeeds, Text: oneLine(d.Text)})
	case wire.KindTurnFinished:
		var d wire.TurnFinished
		if json.Unmarshal(e.Data, &d) != nil {
			return
		}
		ev := Happened{At: e.At, Shape: ShapeDone, Text: say.T("The turn ended")}
		if d.Outcome != string(mission.Succeeded) {
			ev.Shape, ev.Text = ShapeFailed, say.T("The turn ended: %s", outcomeWord(d.Outcome))
		}
		h.push(ev)
	}
}

func (h *happenings) push(x Happened) *event {
	ev := &event{Happened: x}
	h.list = append(h.list, ev)
	return ev
}

// done is the verb of a tool that has a result.
func done(kind string) string {
	switch kind {
	case wire.ToolEdit:
		return say.T("Edited")
	case wire.ToolExecute:
		return say.T("Ran")
	case wire.ToolFetch:
		return say.T("Fetched")
	case wire.ToolRead:
		return say.As("it was", "Read")
	case wire.ToolSearch:
		return say.T("Searched")
	case wire.ToolPlan:
		return say.T("Planned")
	}
	return say.T("Used")
}

// outcomeWord is how a turn ended, in a word or two.
func outcomeWord(outcome string) string {
	switch mission.Outcome(outcome) {
	case mission.Failed:
		return say.T("failed")
	case mission.Interrupted:
		return say.T("interrupted")
	case mission.TimedOut:
		return say.T("timed out")
	}
	return strings.ReplaceAll(oneLine(outcome), "_", " ")
}

func (h *happenings) finish(ev *event, d wire.ToolFinished) {
	ev.open, ev.asked = false, false
	ev.Code = ToolObject(*ev.tool, h.folder)
	ev.Shape, ev.Text = ShapeDone, done(ev.tool.Kind)
	switch {
	case d.Status == "denied" || d.Status == "cancelled":
		ev.Shape, ev.Text, ev.refused = ShapeStopped, say.T("Cancelled"), true
		if d.Status == "denied" {
			ev.Text = say.T("Denied")
		}
	case d.Exit != nil:
		ev.Text = say.T("%s, exit %d", ev.Text, *d.Exit)
	case d.Status == "failed":
		ev.Text = say.T("%s, failed", ev.Text)
	}
	if d.Status == "failed" {
		ev.Shape = ShapeFailed
	}
	if plus, minus := diffCounts(d.Diff); plus+minus > 0 {
		ev.Tail = fmt.Sprintf("+%d −%d", plus, minus)
	}
}

// harmless tells of tools that change nothing.
func harmless(kind string) bool {
	return kind == wire.ToolRead || kind == wire.ToolSearch || kind == wire.ToolPlan
}

// started are the calls that may have done something: those that only wait for
// an answer have not begun.
func (h *happenings) started() []Happened {
	var out []Happened
	for _, ev := range h.list {
		if ev.tool != nil && ev.open && !ev.asked && !ev.refused && !harmless(ev.tool.Kind) {
			out = append(out, Happened{At: ev.At, Code: cmp.Or(ToolObject(*ev.tool, h.folder), ToolName(ev.tool.Tool, ev.tool.Kind))})
		}
	}
	return out
}

// lines are the events that are worth one, and what became of worker and
// service, in the order of time.
func (h *happenings) lines(m wire.Mission, s wire.Service) []Happened {
	var out []Happened
	for _, ev := range h.list {
		switch {
		case ev.said:
			if ev.Quote = quote(ev.words.String()); ev.Quote == "" {
				continue
			}
		case ev.asked:
			ev.Shape, ev.Text = ShapeNeeds, say.T("Asked, not answered")
			if ev.tool != nil {
				ev.Code = ToolObject(*ev.tool, h.folder)
			}
		case ev.tool != nil && ev.open:
			ev.Shape, ev.Text, ev.Code = ShapeNeeds, say.T("Started, no result known"), ToolObject(*ev.tool, h.folder)
			if ev.refused {
				ev.Shape, ev.Text = ShapeStopped, say.T("Not allowed")
			}
		case ev.tool != nil && harmless(ev.tool.Kind) && ev.Shape == ShapeDone:
			continue // it says little of what was going on
		case ev.tool == nil && ev.Text == "":
			continue // a question that was answered
		}
		out = append(out, ev.Happened)
	}
	after := !s.StartedAt.IsZero() && !h.last.IsZero() && s.StartedAt.After(h.last)
	if m.LostAt != nil {
		text := say.T("The worker was lost")
		if after && !m.LostAt.Before(s.StartedAt) {
			text = say.T("The worker was found to be gone")
		}
		out = append(out, Happened{At: *m.LostAt, Shape: ShapeStopped, Text: text})
	}
	if after {
		out = append(out, Happened{At: s.StartedAt, Shape: ShapeWorking, Text: say.T("Reeve came back, as generation %d", s.Generation)})
	}
	slices.SortStableFunc(out, func(a, b Happened) int { return a.At.Compare(b.At) })
	return out
}

// quote is the end of what the agent said: its last words say most about what
// it was about to do.
func quote(text string) string {
	text = Result(text)
	if i := strings.LastIndex(text, "\n\n"); i >= 0 {
		text = text[i+2:]
	}
	text = strings.Join(strings.Fields(text), " ")
	return cut(text, maxQuote)
}

func capitalWord(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
