package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// Shape is the sign of a state, so that none depends on colour.
type Shape string

// The shapes.
const (
	ShapeWorking Shape = "working"
	ShapeWaiting Shape = "waiting"
	ShapeNeeds   Shape = "needs"
	ShapeStopped Shape = "stopped"
	ShapeDone    Shape = "done"
	ShapeFailed  Shape = "failed"
	ShapePaused  Shape = "paused"
)

// Glyph is the shape as a terminal draws it.
func (s Shape) Glyph() string {
	switch s {
	case ShapeWorking:
		return "●"
	case ShapeWaiting:
		return "◐"
	case ShapeNeeds:
		return "▲"
	case ShapeStopped:
		return "■"
	case ShapeDone:
		return "✓"
	case ShapeFailed:
		return "✕"
	case ShapePaused:
		return "⏸"
	}
	return " "
}

// Action is what the one button of a row does.
type Action string

// The actions.
const (
	NoAction Action = ""
	Review   Action = "review" // open the approval that waits
	Resume   Action = "resume"
	Recover  Action = "recover" // ask to continue what lost its worker
	Settle   Action = "settle"  // say what became of an uncertain effect
)

// Names of the groups, in their order: keys, for say.Word.
var (
	GroupWaits   = say.Key("Waits for you")
	GroupUnder   = say.Key("Under way")
	GroupToday   = say.Key("Finished today")
	GroupEarlier = say.Key("Earlier")
)

// Filter chooses which missions a list shows.
type Filter string

// The filters.
const (
	FilterAll      Filter = "all"
	FilterLive     Filter = "live" // everything that has not ended
	FilterFinished Filter = "finished"
)

// Group is a part of the list under its own heading.
type Group struct {
	Name string
	Rows []Row
}

// Row is one mission in a list.
type Row struct {
	ID       string
	Title    string
	Shape    Shape
	Word     string // the state in a word: "working", "needs you"
	Detail   Detail // what it does or wants
	Provider string // "Claude Code · opus"
	Folder   string
	Time     string  // "12 min left", "done 14:21", "1 h once allowed"
	End      string  // "15:17", or "took 38 min" when it has ended
	Bar      bool    // whether there is time to draw
	Fraction float64 // of the time, how much is left: 1 to 0
	Urgent   bool    // the last quarter: draw Time bold
	Tokens   string
	Cost     string
	Pending  int // approvals that wait
	Action   Action
	Approval string // what Review opens
	Unread   bool   // changed since a person looked
	Messages int    // in its room, that no person saw
	Doubts   int    // effects of which nobody knows whether they happened
}

// Summary is the line above the list.
type Summary struct {
	Waiting int    // missions that wait for a person
	Working int    // missions with a turn in flight
	Cost    string // what today's missions cost together, "" when nothing is known
}

// Missions returns the groups of the list that are not empty. query is matched
// with title, scope, folder, provider and model, whatever the case.
func (s *State) Missions(now time.Time, filter Filter, query string) []Group {
	groups := []Group{{Name: GroupWaits}, {Name: GroupUnder}, {Name: GroupToday}, {Name: GroupEarlier}}
	pending := s.pendingByMission()
	for _, m := range s.sorted() {
		ended := mission.Phase(m.Phase).Terminal()
		if filter == FilterLive && ended || filter == FilterFinished && !ended || !matches(m, query) {
			continue
		}
		row := s.row(m, pending[m.ID], now)
		i := 1
		switch {
		case row.Shape == ShapeNeeds:
			i = 0
		case ended && m.EndedAt != nil && sameDay(*m.EndedAt, now):
			i = 2
		case ended:
			i = 3
		}
		groups[i].Rows = append(groups[i].Rows, row)
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Rows) == 0 })
}

// Row returns the row of one mission.
func (s *State) Row(id string, now time.Time) (Row, bool) {
	m, ok := s.missions[id]
	if !ok {
		return Row{}, false
	}
	return s.row(m, s.Pending(id), now), true
}

// Summary counts what the heading says.
func (s *State) Summary(now time.Time) Summary {
	var sum Summary
	var cost float64
	known := false
	pending := s.pendingByMission()
	for id, m := range s.missions {
		switch s.row(m, pending[id], now).Shape {
		case ShapeNeeds:
			sum.Waiting++
		case ShapeWorking:
			sum.Working++
		}
		today := m.EndedAt == nil || sameDay(*m.EndedAt, now)
		if today && m.Usage.CostUSD != nil {
			cost += *m.Usage.CostUSD
			known = true
		}
	}
	if known {
		sum.Cost = say.T("%s today", Cost(&cost))
	}
	return sum
}

func (s *State) pendingByMission() map[string][]wire.Approval {
	out := map[string][]wire.Approval{}
	for _, a := range s.Pending("") {
		out[a.Mission] = append(out[a.Mission], a)
	}
	return out
}

// sorted returns missions newest first: ended ones by their end, all others by
// when they were proposed, so that a row moves only when its mission ends.
func (s *State) sorted() []wire.Mission {
	out := make([]wire.Mission, 0, len(s.missions))
	for _, m := range s.missions {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b wire.Mission) int {
		return cmp.Or(sortTime(b).Compare(sortTime(a)), strings.Compare(b.ID, a.ID))
	})
	return out
}

func sortTime(m wire.Mission) time.Time {
	if m.EndedAt != nil {
		return *m.EndedAt
	}
	return m.CreatedAt
}

func matches(m wire.Mission, query string) bool {
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return true
	}
	for _, text := range []string{m.Title, m.Scope, m.Folder, m.Provider, ProviderTitle(m.Provider), modelOf(m), m.ID} {
		if strings.Contains(strings.ToLower(text), query) {
			return true
		}
	}
	return false
}

// MissionRow is the row of a mission that is known by itself, with the
// approvals that wait for it.
func MissionRow(m wire.Mission, pending []wire.Approval, now time.Time) Row {
	return NewState(0).row(m, pending, now)
}

func (s *State) row(m wire.Mission, pending []wire.Approval, now time.Time) Row {
	r := Row{ID: m.ID, Title: oneLine(m.Title), Folder: Folder(m.Folder), Pending: max(len(pending), m.Pending),
		Tokens: Tokens(m.Usage), Cost: Cost(m.Usage.CostUSD), Provider: provider(m)}
	if seen, ok := s.seen[m.ID]; !ok || seen < m.Revision {
		r.Unread = true
	}
	if r.Title == "" {
		r.Title = mission.Title(m.Scope)
	}
	r.Shape, r.Word = standing(m, r.Pending)
	r.Detail = detail(m, pending, now)
	r.Time, r.End, r.Bar, r.Fraction, r.Urgent = timing(m, now)
	switch {
	case len(pending) > 0 && !mission.Phase(m.Phase).Terminal():
		r.Action, r.Approval = Review, pending[0].ID
	case recoverable(m):
		r.Action = Recover
	case m.Recovery == string(mission.RecoveryExpired) || m.Recovery == string(mission.OwnerUncertain):
	case m.Phase == string(mission.Paused) || m.Phase == string(mission.Blocked):
		r.Action = Resume
	}
	r.Messages, r.Doubts = s.Unread(m.ID), len(s.doubts[m.ID])
	if r.Doubts > 0 && r.Shape != ShapeNeeds {
		r.Shape, r.Word, r.Action, r.Detail = ShapeNeeds, say.T("needs you"), Settle, doubt(s.Doubts(m.ID))
	}
	return r
}

// recoverable says that the worker is gone and a person may let the mission go
// on.
func recoverable(m wire.Mission) bool { return m.Recovery == string(mission.ApprovalRequired) }

func provider(m wire.Mission) string {
	if name := modelOf(m); name != "" {
		return ProviderTitle(m.Provider) + " · " + oneLine(name)
	}
	return ProviderTitle(m.Provider)
}

func modelOf(m wire.Mission) string {
	return cmp.Or(m.ActualModel, m.Model, m.RequestedModel)
}

// standing says how a mission stands, as shape and word. Whatever waits for a
// person comes first.
func standing(m wire.Mission, pending int) (Shape, string) {
	p := mission.Phase(m.Phase)
	if m.Failure != nil && m.Failure.Code == string(mission.PrivateStateFailure) && !p.Terminal() {
		return ShapeNeeds, say.T("can't be recorded")
	}
	if !p.Terminal() && (pending > 0 || p == mission.Proposed) {
		return ShapeNeeds, say.T("needs you")
	}
	switch p {
	case mission.Starting:
		return ShapeWaiting, say.T("starting")
	case mission.Working:
		return ShapeWorking, say.T("working")
	case mission.Waiting:
		return ShapeWaiting, say.T("waiting")
	case mission.Paused:
		return ShapePaused, say.T("paused")
	case mission.Blocked:
		if recoverable(m) {
			return ShapeNeeds, say.T("can be recovered")
		}
		if m.Recovery == string(mission.RecoveryExpired) {
			return ShapeNeeds, say.T("expired")
		}
		return ShapeNeeds, say.T("blocked")
	case mission.Stopping:
		return ShapeStopped, say.T("stopping")
	case mission.Completed:
		return ShapeDone, say.T("done")
	case mission.Stopped:
		return ShapeStopped, say.T("stopped")
	case mission.Denied:
		return ShapeStopped, say.T("denied")
	case mission.StartupFailed:
		return ShapeFailed, say.T("failed")
	}
	return ShapeWaiting, Clean(m.Phase)
}

func timing(m wire.Mission, now time.Time) (text, end string, bar bool, fraction float64, urgent bool) {
	p := mission.Phase(m.Phase)
	switch {
	case p.Terminal():
		_, word := standing(m, 0)
		text = word
		if m.EndedAt != nil {
			text += " " + Clock(*m.EndedAt, now)
			if m.StartedAt != nil {
				end = say.T("took %s", Duration(m.EndedAt.Sub(*m.StartedAt)))
			}
		}
		return text, end, false, 0, false
	case m.DeadlineAt == nil:
		return say.T("%s once allowed", Duration(time.Duration(m.Minutes)*time.Minute)), "", false, 1, false
	}
	left := m.DeadlineAt.Sub(now)
	end = Clock(*m.DeadlineAt, now)
	if left <= 0 {
		return say.T("expired"), end, true, 0, true
	}
	whole := time.Duration(m.Minutes) * time.Minute
	if m.StartedAt != nil {
		whole = m.DeadlineAt.Sub(*m.StartedAt)
	}
	fraction = 1
	if whole > 0 {
		fraction = min(1, float64(left)/float64(whole))
	}
	return say.T("%s left", Duration(left)), end, true, fraction, fraction <= 0.25
}

// detail says in one line what the mission does, wants or came to.
func detail(m wire.Mission, pending []wire.Approval, now time.Time) Detail {
	p := mission.Phase(m.Phase)
	if f := m.Failure; f != nil && f.Code == string(mission.PrivateStateFailure) && !p.Terminal() {
		return Detail{Text: oneLine(f.Message)} // nothing else is true until that is mended
	}
	if len(pending) > 0 && !p.Terminal() {
		d := wantsIn(m, pending[0])
		if len(pending) > 1 {
			d.Tail = say.N(len(pending)-1, "%d more", "%d more")
		}
		return d
	}
	switch p {
	case mission.Proposed:
		return Detail{Text: say.T("waits for your approval to start")}
	case mission.Starting:
		return Detail{Text: say.T("starting %s", ProviderTitle(m.Provider))}
	case mission.Working:
		d := doing(m)
		if m.ToolCalls > 0 {
			d.Tail = say.N(m.ToolCalls, "%d tool", "%d tools")
		}
		return d
	case mission.Waiting:
		if m.LimitedUntil != nil && m.LimitedUntil.After(now) {
			return Detail{Text: say.T("the provider limits requests, tries again at %s", Clock(*m.LimitedUntil, now))}
		}
		if m.NextTurnAt != nil && m.NextTurnAt.After(now) {
			return Detail{Text: say.T("for news, looks again at %s", Clock(*m.NextTurnAt, now))}
		}
		return Detail{Text: say.T("the next turn is about to start")}
	case mission.Paused:
		if m.Turn > 0 {
			return Detail{Text: say.T("paused in turn %d; its time runs on", m.Turn)}
		}
		return Detail{Text: say.T("paused; its time runs on")}
	case mission.Blocked, mission.StartupFailed:
		if m.Failure != nil && m.Failure.Message != "" {
			return Detail{Text: Told(oneLine(m.Failure.Message))}
		}
		if m.BlockedBy != "" {
			return Detail{Text: oneLine(m.BlockedBy)}
		}
		return Detail{Text: mission.Unknown.Sentence()}
	case mission.Stopping:
		return Detail{Text: say.T("ending its processes")}
	case mission.Completed:
		if line := firstLine(m.LastResult); line != "" {
			return Detail{Text: line}
		}
		return Detail{Text: say.T("the whole scope is done")}
	case mission.Denied:
		return Detail{Text: say.T("the start was denied; nothing ran")}
	case mission.Stopped:
		return Detail{Text: stopped(m)}
	}
	return Detail{}
}

func stopped(m wire.Mission) string {
	if m.StartedAt == nil {
		if m.EndReason == string(mission.EndDeadline) {
			return say.T("nobody answered in time; nothing ran")
		}
		return say.T("stopped before it started; nothing ran")
	}
	text := say.T("stopped")
	if m.EndReason != "" {
		text = endWords(mission.EndReason(m.EndReason))
	}
	if n := len(m.Left); n > 0 {
		return say.N(n, "%[2]s; %[1]d process could not be ended", "%[2]s; %[1]d processes could not be ended", text)
	}
	return say.T("%s; the checkout is kept", text)
}

// endWords says why a mission ended. Other reasons are codes of failures.
func endWords(r mission.EndReason) string {
	switch r {
	case mission.EndScopeDone:
		return say.T("the whole scope is done")
	case mission.EndPerson:
		return say.T("stopped by you")
	case mission.EndDeadline:
		return say.T("stopped at its deadline")
	case mission.EndBudget:
		return say.T("stopped when its budget was used")
	case mission.EndAuthority:
		return say.T("stopped because it lost its authority")
	case "keeper_lost", "terminated": // the guard's own words
		return say.T("its guard was ended from outside")
	case "no_owner":
		return say.T("no service came for it in time")
	case "no_start":
		return say.T("it was not started in time")
	}
	return strings.ReplaceAll(oneLine(string(r)), "_", " ")
}

// Uncertain says in sentences what is not known of a mission whose worker is
// gone: what it did without recording it.
func Uncertain(m wire.Mission) []string {
	if !recoverable(m) && m.Recovery != string(mission.RecoveryExpired) {
		return nil
	}
	var out []string
	if n := len(m.Turns); n > 0 && m.Turns[n-1].Outcome == string(mission.Interrupted) {
		out = append(out, say.T("Turn %d may have done work that was not recorded.", m.Turns[n-1].Number))
	}
	for _, s := range m.Steering {
		if s.State == "unconfirmed" {
			out = append(out, say.T("It is not known whether the agent saw “%s”.", oneLine(s.Text)))
		}
	}
	return out
}

var verbs = map[string]string{
	wire.ToolRead: say.Key("reading"), wire.ToolSearch: say.Key("searching"), wire.ToolEdit: say.Key("editing"), wire.ToolExecute: say.Key("running"),
	wire.ToolFetch: say.Key("fetching"), wire.ToolPlan: say.Key("planning"), wire.ToolMCP: say.Key("calling"),
	"bash": say.Key("running"), "write": say.Key("writing"), "multiedit": say.Key("editing"), "grep": say.Key("searching"), "glob": say.Key("searching"),
	"ls": say.Key("listing"), "webfetch": say.Key("fetching"), "websearch": say.Key("searching the web for"), "todowrite": say.Key("planning"),
}

func doing(m wire.Mission) Detail {
	a := m.Activity
	if a == nil || a.Tool == "" && a.Detail == "" {
		return Detail{Text: say.T("in turn %d", max(m.Turn, 1))}
	}
	if a.Tool == "" {
		return Detail{Text: firstLine(a.Detail)}
	}
	object := inFolder(a.Detail, Workplace(m))
	// Some agents give a whole title, such as "Edit lexer.go", for a name.
	first, _, titled := strings.Cut(strings.ToLower(oneLine(a.Tool)), " ")
	if verb, ok := verbs[first]; ok && (!titled || object != "") {
		text := say.Word(verb)
		if verb == "running" {
			text = say.As("a command", "running")
		}
		return Detail{Text: text, Code: object}
	}
	if a.Tool == a.Detail || titled && object == "" {
		return Detail{Text: say.T("using"), Code: exact(a.Tool)}
	}
	return Detail{Text: say.T("using %s", exact(a.Tool)), Code: object}
}

// Wants says in one line what an approval asks for, with its paths as they lie
// where the mission works.
func (s *State) Wants(a wire.Approval) Detail { return wantsIn(s.missions[a.Mission], a) }

// wantsIn is Wants for an approval of the mission m. Where that isn't known, m is
// empty, and the folder that the approval names has to do.
func wantsIn(m wire.Mission, a wire.Approval) Detail {
	if m.ID != "" {
		a.Folder = Workplace(m)
	}
	return Wants(a)
}

// Wants says in one line what an approval asks for: "wants to run" with the
// command, "wants to change" with the file and its counts.
func Wants(a wire.Approval) Detail {
	var sub approval.Subject
	if err := json.Unmarshal(a.Subject, &sub); err != nil {
		return Detail{Text: say.T("asks for something that can't be shown here")}
	}
	settled := a.State != "" && a.State != string(approval.Pending)
	switch k := approval.Kind(a.Kind); {
	case settled && k == approval.MissionStart:
		return Detail{Text: say.T("asked to start")}
	case settled && k == approval.MissionRecover:
		return Detail{Text: say.T("asked to go on")}
	case k == approval.MissionStart:
		return Detail{Text: say.T("waits for your approval to start")}
	case k == approval.MissionRecover:
		return Detail{Text: say.T("waits for your approval to go on")}
	case k == approval.QuestionAsked && sub.Question != nil:
		return Detail{Text: say.T("asks"), Code: firstLine(sub.Question.Text)}
	case sub.Command != "":
		return Detail{Text: say.T("wants to run"), Code: exactCommand(sub.Command)}
	case k == approval.FileChange || sub.Diff != "":
		d := Detail{Text: say.T("wants to change"), Code: files(sub.Paths, a.Folder)}
		if plus, minus := diffCounts(sub.Diff); plus+minus > 0 {
			d.Tail = fmt.Sprintf("+%d −%d", plus, minus)
		}
		return d
	case sub.Server != "":
		return Detail{Text: say.T("wants to use"), Code: exact(sub.Server + " " + sub.Tool)}
	case len(sub.Paths) > 0:
		return Detail{Text: say.T("wants to use %s on", exact(sub.Tool)), Code: files(sub.Paths, a.Folder)}
	case sub.Tool != "":
		return Detail{Text: say.T("wants to use"), Code: exact(sub.Tool)}
	}
	return Detail{Text: say.T("asks for something"), Code: exact(sub.Title)}
}

func files(paths []string, folder string) string {
	if len(paths) == 0 {
		return say.T("a file")
	}
	first := inFolder(paths[0], folder)
	if len(paths) > 1 {
		return say.N(len(paths)-1, "%[2]s and %[1]d more", "%[2]s and %[1]d more", first)
	}
	return first
}

// inFolder writes a path relative to the checkout when it lies in it.
func inFolder(path, folder string) string {
	rest, ok := strings.CutPrefix(path, strings.TrimRight(folder, `/\`))
	if ok && folder != "" && len(rest) > 1 && (rest[0] == '/' || rest[0] == '\\' && strings.Contains(folder, `:\`)) {
		path = rest[1:]
	}
	return exact(path)
}

// diffCounts counts added and removed lines of a unified diff.
func diffCounts(diff string) (plus, minus int) {
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+"):
			plus++
		case strings.HasPrefix(line, "-"):
			minus++
		}
	}
	return plus, minus
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = oneLine(line); line != "" {
			return line
		}
	}
	return ""
}
