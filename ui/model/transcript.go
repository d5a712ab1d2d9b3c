package model

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

type turn struct {
	item  int // index of its heading
	end   int // index after its last item; that of the last turn is open
	id    string
	title Heading
}

// Transcript turns a session's entries into rows, one entry at a time. Adding
// an entry costs the same however long the transcript is.
type Transcript struct {
	first   string            // the log of the first attempt
	log     string            // that of the last one
	seqs    map[string]uint64 // the newest entry of each log
	at      time.Time         // of the newest entry
	items   []Item
	turns   []turn
	calls   map[string]int // tool call → its item
	asks    map[string]int // approval → its item
	waits   map[string]int // tool call → how many questions about it wait
	folder  string
	folded  int // turns before this index stand behind one row
	opened  bool
	visible []int // what Row shows; -1 is the row of earlier turns
	stale   bool
}

// maxParagraph is where a growing text starts a new row at its next line end,
// in bytes, or at twice as many at the next word: one row must stay cheap to lay
// out.
const maxParagraph = 8 << 10

// Workplace is where the agent of a mission works, which its paths are shown
// from: the worktree that was made for it, or the folder.
func Workplace(m wire.Mission) string {
	if m.Worktree != nil {
		return m.Worktree.Path
	}
	return m.Folder
}

// NewTranscript returns the empty transcript of a mission that works in folder.
func NewTranscript(folder string) *Transcript {
	return &Transcript{folder: folder, seqs: map[string]uint64{}, calls: map[string]int{}, asks: map[string]int{}, waits: map[string]int{}}
}

// Load replaces everything by entries, as a snapshot brings them, and folds the
// turns before the last into one row. Turns and tools that a person opened
// close again only if the session is another one.
func (t *Transcript) Load(entries []wire.Entry) {
	was := *t
	*t = *NewTranscript(t.folder)
	for _, e := range entries {
		t.Add(e)
	}
	if was.first == t.first && len(was.items) > 0 {
		t.folded, t.opened = min(was.folded, max(len(t.turns)-1, 0)), was.opened
		for i := range min(len(was.items), len(t.items)) {
			if was.items[i].Kind == t.items[i].Kind {
				t.items[i].Open = was.items[i].Open
			}
		}
	} else {
		t.fold()
	}
	t.stale = true
}

// fold puts the turns before the last behind one row.
func (t *Transcript) fold() {
	t.folded, t.opened = max(len(t.turns)-1, 0), false
	for i := range t.folded {
		t.items[t.turns[i].item].Open = false
	}
}

// Add takes the next entry. Entries that it has already are ignored. Each
// attempt of a mission has a log of its own, which goes on below the one before.
// It returns false when nothing changed.
func (t *Transcript) Add(e wire.Entry) bool {
	if e.Log != "" && e.Log != t.log {
		if _, earlier := t.seqs[e.Log]; earlier {
			return false
		}
		if t.log == "" {
			t.first = e.Log
		} else {
			t.cutOff()
		}
		t.log = e.Log
	}
	if e.Seq != 0 && e.Seq <= t.seqs[t.log] {
		return false
	}
	t.seqs[t.log], t.at = max(t.seqs[t.log], e.Seq), e.At
	return t.add(e)
}

// cutOff closes what an attempt left open: nobody will tell any more how it
// came out.
func (t *Transcript) cutOff() {
	for i, it := range t.items {
		switch {
		case it.Tool != nil && it.Tool.Status == "running":
			row := *it.Tool
			row.Status = "unknown"
			t.items[i].Tool = &row
		case it.Permission != nil && it.Permission.State == "pending":
			p := *it.Permission
			p.State = "withdrawn"
			t.items[i].Permission = &p
		}
		t.items[i].words = nil
	}
	if n := len(t.turns); n > 0 && t.turns[n-1].title.To == nil {
		at := t.at
		t.turns[n-1].title.To, t.turns[n-1].title.Outcome = &at, say.T("interrupted")
	}
	clear(t.calls)
	clear(t.asks)
	clear(t.waits)
}

func (t *Transcript) add(e wire.Entry) bool {
	switch e.Kind {
	case wire.KindTurnStarted:
		var d wire.TurnStarted
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		t.startTurn(e.At, d)
	case wire.KindTurnFinished:
		var d wire.TurnFinished
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		t.endTurn(e.At, d)
	case wire.KindText, wire.KindThought:
		var d wire.Text
		if json.Unmarshal(e.Data, &d) != nil || d.Text == "" {
			return false
		}
		kind := ItemText
		if e.Kind == wire.KindThought {
			kind = ItemThought
		}
		t.words(kind, e.At, d.Text)
	case wire.KindPlan:
		var d wire.Plan
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		for i := range d.Steps {
			d.Steps[i].Text = oneLine(d.Steps[i].Text)
		}
		// A plan that follows a plan is its newer state.
		if n := len(t.items); n > 0 && t.items[n-1].Kind == ItemPlan {
			t.items[n-1].Plan = d.Steps
			return true
		}
		t.push(Item{Kind: ItemPlan, At: e.At, Plan: d.Steps})
	case wire.KindToolStarted:
		var d wire.ToolStarted
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		t.startTool(e.At, d)
	case wire.KindToolFinished:
		var d wire.ToolFinished
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		t.endTool(e.At, d)
	case wire.KindPermissionAsked:
		var d wire.Permission
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		if _, again := t.asks[d.Request]; !again {
			t.wait(d.Call, 1)
		}
		t.asks[d.Request] = len(t.items)
		t.push(Item{Kind: ItemPermission, At: e.At, Permission: &PermissionRow{Approval: d.Request, State: "pending", call: d.Call,
			Asks: Wants(wire.Approval{Kind: d.Kind, Subject: d.Subject, Folder: t.folder})}})
	case wire.KindPermissionResolved:
		var d wire.PermissionResolved
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		i, ok := t.asks[d.Request]
		if !ok {
			return false
		}
		p := *t.items[i].Permission
		if p.State == "pending" {
			t.wait(p.call, -1)
		}
		p.State, p.By, p.Reason = oneLine(d.Outcome), oneLine(d.By), oneLine(d.Reason)
		t.items[i].Permission = &p
	case wire.KindNotice:
		var d wire.Notice
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		t.push(Item{Kind: ItemNotice, At: e.At, Text: Clean(d.Text), Note: oneLine(d.Level)})
	case wire.KindSessionStarted:
		var d wire.SessionStarted
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		t.push(Item{Kind: ItemNotice, At: e.At, Text: sessionStarted(d), Note: "info"})
	case wire.KindSessionEnded:
		var d wire.SessionEnded
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		level := "info"
		if len(d.Left) > 0 {
			level = "error"
		}
		t.push(Item{Kind: ItemNotice, At: e.At, Text: WorkerEnded(d), Note: level})
	case wire.KindUsage:
		var d wire.UsageEntry
		if json.Unmarshal(e.Data, &d) != nil || len(t.turns) == 0 {
			return false
		}
		t.turns[len(t.turns)-1].title.Tokens = Tokens(d.Usage)
	default:
		return false
	}
	return true
}

// WorkerEnded says in a line why a worker ended, and what of it is left.
func WorkerEnded(d wire.SessionEnded) string {
	text := say.T("The worker ended")
	if d.Reason != "" {
		text = say.T("The worker ended: %s", endWords(mission.EndReason(d.Reason)))
	}
	if len(d.Left) > 0 {
		text = say.T("%s; could not be ended: %s", text, oneLine(strings.Join(d.Left, ", ")))
	}
	return text
}

func sessionStarted(d wire.SessionStarted) string {
	text := ProviderTitle(d.Provider)
	if d.Version != "" {
		text += " " + oneLine(d.Version)
	}
	model := oneLine(d.Model)
	switch {
	case d.Resumed && model != "":
		return say.T("%s went on with its session with %s", text, model)
	case d.Resumed:
		return say.T("%s went on with its session", text)
	case model != "":
		return say.T("%s opened a session with %s", text, model)
	}
	return say.T("%s opened a session", text)
}

// push appends an item to the last turn.
func (t *Transcript) push(it Item) {
	it.Turn = len(t.turns) - 1
	t.items = append(t.items, it)
	if it.Turn >= 0 {
		t.turns[it.Turn].end = len(t.items)
	}
	if !t.stale && t.shows(it) {
		t.visible = append(t.visible, len(t.items)-1)
	}
}

func (t *Transcript) startTurn(at time.Time, d wire.TurnStarted) {
	t.turns = append(t.turns, turn{item: len(t.items), id: d.Turn,
		title: Heading{Text: say.T("Turn %d", d.Number), From: at, Number: d.Number}})
	t.push(Item{Kind: ItemTurn, At: at, Open: true})
	for _, s := range d.Steering {
		t.push(Item{Kind: ItemSteering, At: at, Text: Clean(s), Note: say.T("reached the agent at turn %d", d.Number)})
	}
}

func (t *Transcript) endTurn(at time.Time, d wire.TurnFinished) {
	for i := range t.turns {
		// The last turn is nearly always the one.
		tr := &t.turns[len(t.turns)-1-i]
		if tr.id != d.Turn {
			continue
		}
		tr.title.To = &at
		if text := Tokens(d.Usage); text != "" {
			tr.title.Tokens = text
		}
		if d.Outcome != "succeeded" {
			tr.title.Outcome = outcomeWord(d.Outcome)
		}
		break
	}
	if d.Message != "" && d.Outcome == "failed" {
		t.push(Item{Kind: ItemNotice, At: at, Text: Clean(d.Message), Note: "error"})
	}
	if n := len(d.Left); n > 0 {
		t.push(Item{Kind: ItemNotice, At: at, Note: "error",
			Text: say.T("Processes that could not be ended: %s", oneLine(strings.Join(d.Left, ", ")))})
	} else if d.Ended > 0 {
		t.push(Item{Kind: ItemNotice, At: at, Note: "info",
			Text: say.N(d.Ended, "%d process that the turn left behind was ended", "%d processes that the turn left behind were ended")})
	}
}

// words appends to the last row when it is of the same kind, so that a stream of
// pieces becomes paragraphs, and begins another one when that is full.
func (t *Transcript) words(kind ItemKind, at time.Time, text string) {
	text = Clean(text)
	for {
		n := len(t.items)
		if n == 0 || t.items[n-1].Kind != kind || t.items[n-1].words == nil {
			if text = strings.TrimLeft(text, "\n"); text == "" {
				return
			}
			t.push(Item{Kind: kind, At: at, words: &strings.Builder{}})
			n++
		}
		it := &t.items[n-1]
		head, rest, full := paragraph(it.words.Len(), text)
		it.grow(head)
		if !full {
			return
		}
		it.words, text = nil, rest
	}
}

// paragraph divides text where the row that it goes on, which has so many bytes
// already, is full: at a line's end, or between words where none comes.
func paragraph(has int, text string) (head, rest string, full bool) {
	from := min(max(maxParagraph-has, 0), len(text))
	room := max(2*maxParagraph-has, utf8.UTFMax) // a row gets at least one character
	if i := strings.IndexByte(text[from:], '\n'); i >= 0 && from+i <= room {
		return text[:from+i], text[from+i+1:], true
	}
	if len(text) <= room {
		return text, "", false
	}
	if i := strings.LastIndexByte(text[:room], ' '); i > 0 {
		return text[:i], text[i+1:], true
	}
	end := room
	for end > room-utf8.UTFMax+1 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], text[end:], true
}

func (it *Item) grow(text string) {
	it.words.WriteString(text)
	it.Text = it.words.String()
}

func (t *Transcript) startTool(at time.Time, d wire.ToolStarted) {
	row := &ToolRow{Name: ToolName(d.Tool, d.Kind), Object: ToolObject(d, t.folder), Kind: d.Kind, Status: "running", Waits: t.waits[d.Call] > 0,
		Command: d.Command, Paths: d.Paths, Input: d.Input}
	// Some agents announce a call in several steps.
	if i, ok := t.calls[d.Call]; ok && d.Call != "" && t.items[i].Tool.Status == "running" {
		was := t.items[i].Tool
		if row.Object == "" {
			row.Object = was.Object
		}
		t.items[i].Tool = row
		return
	}
	t.calls[d.Call] = len(t.items)
	t.push(Item{Kind: ItemTool, At: at, Tool: row})
	if n := len(t.turns); n > 0 {
		t.turns[n-1].title.Tools++
	}
}

// wait counts the questions that a tool call waits for.
func (t *Transcript) wait(call string, more int) {
	if call == "" {
		return
	}
	t.waits[call] += more
	if i, ok := t.calls[call]; ok {
		row := *t.items[i].Tool
		row.Waits = t.waits[call] > 0
		t.items[i].Tool = &row
	}
}

func (t *Transcript) endTool(at time.Time, d wire.ToolFinished) {
	i, ok := t.calls[d.Call]
	if !ok {
		t.startTool(at, wire.ToolStarted{Turn: d.Turn, Call: d.Call, Tool: "tool"})
		i = t.calls[d.Call]
	}
	row := *t.items[i].Tool
	row.Status, row.Output, row.Cut, row.Diff, row.Seconds = oneLine(d.Status), d.Output, d.Cut, d.Diff, d.Seconds
	row.Plus, row.Minus = diffCounts(d.Diff)
	if d.Status == "failed" {
		row.Problem = firstLine(d.Output)
		if d.Exit != nil {
			row.Problem = strings.TrimSuffix(say.T("exit %d: %s", *d.Exit, row.Problem), ": ")
		}
	}
	t.items[i].Tool = &row
}

// Result is an answer of the agent, cleaned, without the line that tells Reeve
// how to go on.
func Result(text string) string {
	var b strings.Builder
	for line := range strings.Lines(Clean(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "WORK_NEXT:") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

// Entries is how many items there are, folded ones included.
func (t *Transcript) Entries() int { return len(t.items) }

// Turns is how many turns there are.
func (t *Transcript) Turns() int { return len(t.turns) }

// Len is how many rows are shown.
func (t *Transcript) Len() int {
	t.refresh()
	return len(t.visible)
}

// Row returns the n-th row that is shown.
func (t *Transcript) Row(n int) Item {
	t.refresh()
	i := t.visible[n]
	if i < 0 {
		return t.earlier()
	}
	it := t.items[i]
	if it.Kind == ItemTurn {
		title := t.turns[it.Turn].title
		it.Heading = &title
	}
	return it
}

// Toggle opens or closes the n-th row that is shown.
func (t *Transcript) Toggle(n int) {
	t.refresh()
	i := t.visible[n]
	switch {
	case i < 0:
		t.opened = !t.opened
	case t.items[i].Kind == ItemTurn:
		t.items[i].Open = !t.items[i].Open
	case t.items[i].Kind == ItemTool, t.items[i].Kind == ItemThought:
		t.items[i].Open = !t.items[i].Open
		return
	}
	t.stale = true
}

func (t *Transcript) earlier() Item {
	first, last := t.turns[0].title, t.turns[t.folded-1].title
	h := Heading{Text: say.T("Turns %d to %d", first.Number, last.Number), From: first.From, To: last.To}
	if t.folded == 1 {
		h.Text = first.Text
		h.Tokens = first.Tokens
	}
	for _, tr := range t.turns[:t.folded] {
		h.Tools += tr.title.Tools
	}
	return Item{Kind: ItemEarlier, At: h.From, Turn: -1, Heading: &h, Open: t.opened}
}

// shows reports whether the row is shown as things are folded now.
func (t *Transcript) shows(it Item) bool {
	if it.Turn < 0 {
		return true
	}
	if it.Turn < t.folded && !t.opened {
		return false
	}
	return it.Kind == ItemTurn || t.items[t.turns[it.Turn].item].Open
}

// refresh lists the rows that are shown after something was folded or opened.
func (t *Transcript) refresh() {
	if !t.stale {
		return
	}
	t.stale = false
	t.visible = t.visible[:0]
	start := len(t.items)
	if len(t.turns) > 0 {
		start = t.turns[0].item
	}
	for i := range start {
		t.visible = append(t.visible, i)
	}
	if t.folded > 0 {
		t.visible = append(t.visible, -1)
	}
	for n, tr := range t.turns {
		if n < t.folded && !t.opened {
			continue
		}
		t.visible = append(t.visible, tr.item)
		if !t.items[tr.item].Open {
			continue
		}
		for i := tr.item + 1; i < tr.end; i++ {
			t.visible = append(t.visible, i)
		}
	}
}
