package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// PartKind is how a part of an approval is drawn.
type PartKind string

// The kinds of parts.
const (
	PartCommand PartKind = "command"
	PartDiff    PartKind = "diff"
	PartText    PartKind = "text"
	PartJSON    PartKind = "json"
)

// maxLines is how many lines of a part are shown before it is opened, and
// maxWidth how many characters of one line count as one line on a screen.
const (
	maxLines = 24
	maxWidth = 400
)

// Part is a piece of what would happen, whole, with nothing hidden in it.
type Part struct {
	Kind  PartKind
	Label string // a key, for say.Word
	Shown approval.Shown
	Raw   string // the exact text
	Plus  int    // lines of a diff
	Minus int
	// Long parts start closed, with their first lines. A long part that is
	// Required must be opened before the approval can be allowed.
	Long     bool
	Required bool
	Open     bool
	Warns    bool // of what is uncertain: to be drawn so that it is seen first
}

// Preview is how many lines a closed part shows.
func (p Part) Preview() int {
	if p.Long && !p.Open {
		return min(8, len(p.Shown.Lines))
	}
	return len(p.Shown.Lines)
}

// Fact is a labelled line below what would happen.
type Fact struct {
	Label  string // a key, for say.Word
	Detail Detail
}

// Approval is what the dialog and the command line show of an approval.
type Approval struct {
	ID       string
	Mission  string
	State    string // pending or how it was settled
	Answered string // "allowed by reeve (pid 812, pts/3)", when it was settled
	Title    string // "Allow this command?"
	Sentence Detail // "Claude Code wants to run 3 lines in", "~/code/parser"
	About    string // "Mission “Port parser to Go”, turn 4"
	Parts    []Part
	Hidden   []approval.Hidden // of all parts together
	Facts    []Fact
	Runs     approval.Structure
	Question *approval.Question
	Offers   []Offer // rules that the answer may make; exactly the request first
	Start    bool    // a mission's start or recovery; the answer decides on all of it
	Digest   string
	// Unverified is set when the digest does not belong to what is shown;
	// then nothing can be allowed.
	Unverified string
}

// NewApproval prepares an approval for a person. home shortens paths. A subject
// that travelled as a blob must have been read into a.Subject before.
func NewApproval(a wire.Approval, home string, now time.Time) Approval {
	v := Approval{ID: a.ID, Mission: a.Mission, State: a.State, Digest: a.Digest, Answered: Settled(a, now), Offers: offered(a)}
	v.About = say.T("Mission “%s”", oneLine(a.Title))
	if a.TurnNo > 0 {
		v.About = say.T("Mission “%s”, turn %d", oneLine(a.Title), a.TurnNo)
	}
	var sub approval.Subject
	if err := json.Unmarshal(a.Subject, &sub); err != nil {
		v.Title, v.Unverified = say.T("Allow this?"), say.T("What it asks for could not be read, so it can only be denied.")
		return v
	}
	v.Unverified = verify(a, sub)
	who := ProviderTitle(a.Provider)
	kind := approval.Kind(a.Kind)
	v.Start = kind == approval.MissionStart || kind == approval.MissionRecover
	switch {
	case v.Start && sub.Mission != nil:
		v.start(*sub.Mission, kind, a.ExpiresAt, home, now)
	case kind == approval.QuestionAsked && sub.Question != nil:
		v.Title = say.T("%s asks", who)
		v.Sentence = Detail{Text: say.T("%s waits for your answer", who)}
		v.Question = sub.Question
		v.add(PartText, say.Key("Question"), sub.Question.Text, true)
	default:
		v.tool(who, kind, sub, a, home)
	}
	v.hidden()
	v.fact(say.Key("Asked"), Detail{Text: asked(a, now)})
	v.fact(say.Key("Digest"), Detail{Text: "sha256", Code: GroupDigest(a.Digest)})
	return v
}

// SubjectBlob returns where the subject of an approval is to be read when it was
// too large for its message.
func SubjectBlob(a wire.Approval) (wire.BlobRef, bool) {
	var ref wire.BlobRef
	err := json.Unmarshal(a.Subject, &ref)
	return ref, err == nil && ref.Blob != ""
}

// verify computes the digest again: nobody should allow what they were not
// shown, even if the service was fooled.
func verify(a wire.Approval, sub approval.Subject) string {
	d, err := approval.Digest(approval.Envelope{ID: a.ID, Kind: approval.Kind(a.Kind), Mission: a.Mission,
		Attempt: a.Attempt, Turn: a.TurnNo, Subject: sub})
	if err != nil || d != a.Digest {
		return say.T("The digest does not belong to what is shown here, so it can only be denied.")
	}
	return ""
}

func (v *Approval) tool(who string, kind approval.Kind, sub approval.Subject, a wire.Approval, home string) {
	where := sub.Cwd
	if where == "" {
		where = a.Folder
	}
	switch {
	case sub.Command != "":
		v.Title = say.T("Allow this command?")
		n := v.add(PartCommand, "", sub.Command, true)
		v.Sentence = Detail{Text: say.T("%s wants to run a command in", who), Code: Path(where, home)}
		if n > 1 {
			v.Sentence.Text = say.N(n, "%[2]s wants to run %[1]d line in", "%[2]s wants to run %[1]d lines in", who)
		}
		v.Runs = approval.Programs(sub.Command)
	case sub.Diff != "" || kind == approval.FileChange:
		v.Title = say.T("Allow this change?")
		v.Sentence = Detail{Text: say.T("%s wants to change a file in", who), Code: Path(commonDir(sub.Paths, where), home)}
		if n := len(sub.Paths); n > 1 {
			v.Sentence.Text = say.N(n, "%[2]s wants to change %[1]d file in", "%[2]s wants to change %[1]d files in", who)
		}
	case kind == approval.NetworkOrEndpoint:
		v.Title = say.T("Allow this connection?")
		v.Sentence = Detail{Text: say.T("%s wants to use the network with", who), Code: exact(sub.Tool)}
	default:
		v.Title = say.T("Allow this tool?")
		name := sub.Tool
		if sub.Server != "" {
			name = sub.Server + " " + sub.Tool
		}
		v.Sentence = Detail{Text: say.T("%s wants to use", who), Code: exact(name)}
	}
	if len(sub.Paths) > 0 {
		label := say.Key("Files")
		if len(sub.Paths) == 1 {
			label = say.Key("File")
		}
		v.add(PartText, label, strings.Join(sub.Paths, "\n"), true)
	}
	if sub.Diff != "" {
		v.add(PartDiff, say.Key("Change"), sub.Diff, true)
		p := &v.Parts[len(v.Parts)-1]
		p.Plus, p.Minus = diffCounts(sub.Diff)
	}
	// What is shown already need not be opened a second time; every other
	// argument must be.
	if rest, shown := arguments(sub); rest != "" {
		v.add(PartJSON, say.Key("Arguments"), rest, !shown)
	}
	if sub.Reason != "" {
		v.fact(say.Key("Why"), Detail{Text: say.T("“%s”", approval.Visible(sub.Reason).Plain())})
	}
	var runs []string
	for _, p := range v.Runs.Programs {
		if join := Join(p.Join); join != "" {
			runs = append(runs, join)
		}
		runs = append(runs, p.Program)
	}
	if len(runs) > 0 {
		v.fact(say.Key("Runs"), Detail{Code: approval.VisibleCommand(strings.Join(runs, " ")).Plain()})
	}
	if len(v.Runs.Redirects) > 0 {
		v.fact(say.Key("Redirects"), Detail{Code: approval.VisibleCommand(strings.Join(v.Runs.Redirects, "  ")).Plain()})
	}
	if v.Runs.Unclear != "" {
		v.fact(say.Key("Unclear"), Detail{Text: Told(oneLine(v.Runs.Unclear))})
	}
	v.fact(say.Key("Where"), Detail{Code: Path(where, home)})
	v.fact(say.Key("Environment"), Detail{Text: environment(sub.Env)})
}

// Join says in words how a program follows the one before it, "" of the first.
func Join(join string) string {
	switch join {
	case approval.JoinThen:
		return say.T("then")
	case approval.JoinInto:
		return say.T("into")
	case approval.JoinInside:
		return say.T("inside")
	case approval.JoinBackground:
		return say.T("in the background")
	}
	return join
}

// arguments writes the tool's exact arguments, indented, without those that are
// the command or the reason word for word. shown says that a diff shows the
// rest in a better form.
func arguments(sub approval.Subject) (text string, shown bool) {
	if len(sub.Input) == 0 || string(sub.Input) == "null" {
		return "", false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(sub.Input, &fields) == nil {
		for k, raw := range fields {
			var s string
			if json.Unmarshal(raw, &s) == nil && s != "" && (s == sub.Command || s == sub.Reason || s == sub.Cwd) {
				delete(fields, k)
			}
		}
		if len(fields) == 0 {
			return "", false
		}
		if sub.Command != "" {
			// Only the rest: the command stands above. Keys keep their
			// exact values.
			var b strings.Builder
			for _, k := range slices.Sorted(maps.Keys(fields)) {
				name, _ := json.Marshal(k)
				fmt.Fprintf(&b, "%s: %s\n", name, fields[k])
			}
			return strings.TrimSuffix(b.String(), "\n"), false
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, sub.Input, "", "  ") != nil {
		return string(sub.Input), false
	}
	return b.String(), sub.Diff != ""
}

func environment(env map[string]string) string {
	if len(env) == 0 {
		return say.T("unchanged")
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		parts = append(parts, approval.Visible(k+"="+env[k]).Plain())
	}
	return strings.Join(parts, " ")
}

func (v *Approval) start(m approval.MissionSubject, kind approval.Kind, deadline *time.Time, home string, now time.Time) {
	v.Title = say.T("Start this mission?")
	v.Sentence = Detail{Text: say.T("%s would work in", ProviderTitle(m.Provider)), Code: Path(m.Folder, home)}
	recovery := kind == approval.MissionRecover
	if recovery {
		v.Title, v.Sentence.Text = say.T("Recover this mission?"), say.T("%s would go on in", ProviderTitle(m.Provider))
		if len(m.Notes) > 0 {
			v.add(PartText, say.Key("Before you answer"), strings.Join(m.Notes, "\n"), true)
			v.Parts[0].Warns = true
		}
	}
	v.add(PartText, say.Key("Scope"), m.Scope, true)
	agent := Detail{Text: ProviderTitle(m.Provider) + " " + oneLine(m.ProviderVersion), Code: Path(m.ProviderPath, home)}
	agent.Text = strings.TrimSpace(agent.Text)
	v.fact(say.Key("Agent"), agent)
	model := say.T("the agent's own default")
	if m.Model != "" {
		model = oneLine(m.Model)
	}
	v.fact(say.Key("Model"), Detail{Text: model})
	if m.Endpoint != "" {
		v.fact(say.Key("Endpoint"), Detail{Code: exact(m.Endpoint), Tail: say.T("not the agent's own default")})
	}
	v.fact(say.Key("Folder"), Detail{Code: Path(m.Folder, home)})
	if m.WorktreePath != "" {
		v.Sentence.Code = Path(m.WorktreePath, home)
		v.fact(say.Key("Worktree"), Detail{Text: say.T("made beside it:"), Code: Path(m.WorktreePath, home)})
		v.fact(say.Key("Branch"), Detail{Code: exact(m.WorktreeBranch), Tail: say.T("from %s", exact(m.WorktreeBase[:min(7, len(m.WorktreeBase))]))})
	}
	if recovery && deadline != nil {
		v.fact(say.Key("Time"), Detail{Text: say.T("until %s, as before; recovering does not extend it", Clock(*deadline, now))})
	} else {
		v.fact(say.Key("Time"), Detail{Text: say.T("%s from your answer; pausing does not extend it", Duration(time.Duration(m.Minutes)*time.Minute))})
	}
	v.fact(say.Key("Budget"), Detail{Text: budget(m.Budget)})
	v.fact(say.Key("Limits"), Detail{Text: Limits(wire.Limits(m.Limits))})
	if m.WaitForReset {
		v.fact(say.Key("Rate limits"), Detail{Text: say.T("it waits by itself until one is lifted; its time runs on")})
	}
	v.fact(say.Key("Unasked"), Detail{Text: Unasked(m.Unasked)})
	if len(m.EnvNames) > 0 {
		v.fact(say.Key("Variables"), Detail{Code: oneLine(strings.Join(m.EnvNames, " "))})
	}
	for _, line := range m.GitExecutableConfig {
		v.fact(say.Key("Git runs"), Detail{Code: approval.Visible(line).Plain()})
	}
	for _, note := range m.Notes {
		if !recovery {
			v.fact(say.Key("Note"), Detail{Text: oneLine(note)})
		}
	}
	if m.Instructions != "" {
		v.add(PartText, say.Key("Instructions for the agent"), m.Instructions, false)
	}
	if m.Prompt != "" {
		v.add(PartText, say.Key("First prompt"), m.Prompt, false)
	}
}

// unaskedWords are the rules in words.
var unaskedWords = map[string]string{
	string(mission.UnaskedReads): say.Key("reading and searching inside the folder"),
	string(mission.UnaskedEdits): say.Key("editing files inside the folder"),
	string(mission.UnaskedPlan):  say.Key("keeping its own task list"),
	string(mission.UnaskedRoom):  say.Key("using the mission's room"),
}

// Unasked says in words what a mission may do without asking.
func Unasked(rules []string) string {
	if len(rules) == 0 {
		return say.T("nothing; it asks for everything")
	}
	var words []string
	for _, r := range rules {
		if w, ok := unaskedWords[r]; ok {
			words = append(words, say.Word(w))
		} else {
			words = append(words, oneLine(r))
		}
	}
	return strings.Join(words, "; ")
}

func budget(b approval.Budget) string {
	if note := BudgetNote(mission.Budget(b)); note != "" {
		return say.T("at most %s", note)
	}
	return say.T("no limit but the time")
}

// BudgetNote says in few words what a budget limits; "" when it limits nothing.
func BudgetNote(b mission.Budget) string {
	var parts []string
	if b.Turns > 0 {
		parts = append(parts, say.N(b.Turns, "%d turn", "%d turns"))
	}
	if b.Tokens > 0 {
		parts = append(parts, say.T("%s tokens", amount(b.Tokens)))
	}
	if b.CostUSD > 0 {
		parts = append(parts, Cost(&b.CostUSD))
	}
	return strings.Join(parts, ", ")
}

// Limits says in words what a mission's processes may use of the machine.
func Limits(l wire.Limits) string {
	memory, cpu := say.T("any amount of memory"), say.T("any amount of processor time")
	if l.MemoryMB > 0 {
		memory = say.T("at most %s of memory", mission.Memory(l.MemoryMB<<20))
	}
	if l.CPUMinutes > 0 {
		cpu = say.T("%s of processor time", Duration(time.Duration(l.CPUMinutes)*time.Minute))
	}
	return memory + ", " + cpu
}

// add appends a part and returns how many lines it has.
func (v *Approval) add(kind PartKind, label, text string, required bool) int {
	p := Part{Kind: kind, Label: label, Raw: text, Shown: approval.Visible(text), Required: required}
	if kind == PartCommand {
		p.Shown = approval.VisibleCommand(text)
	}
	lines := 0
	for _, line := range p.Shown.Lines {
		width := 0
		for _, span := range line {
			width += len([]rune(span.Text))
		}
		lines += 1 + width/maxWidth
	}
	p.Long = lines > maxLines || !required
	p.Open = !p.Long
	v.Parts = append(v.Parts, p)
	return len(p.Shown.Lines)
}

// hidden adds up what would be invisible in all parts.
func (v *Approval) hidden() {
	at := map[string]int{}
	for _, p := range v.Parts {
		for _, h := range p.Shown.Hidden {
			key := h.Token + h.Codepoint
			if i, ok := at[key]; ok {
				v.Hidden[i].Count += h.Count
				continue
			}
			at[key] = len(v.Hidden)
			v.Hidden = append(v.Hidden, h)
		}
	}
}

// HiddenCount is how many characters would be invisible.
func (v Approval) HiddenCount() int {
	n := 0
	for _, h := range v.Hidden {
		n += h.Count
	}
	return n
}

func (v *Approval) fact(label string, d Detail) {
	v.Facts = append(v.Facts, Fact{Label: label, Detail: d})
}

// MustOpen lists the parts that have to be opened before allowing.
func (v Approval) MustOpen() []int {
	var out []int
	for i, p := range v.Parts {
		if p.Required && p.Long && !p.Open {
			out = append(out, i)
		}
	}
	return out
}

// OpenPart shows a part whole.
func (v *Approval) OpenPart(i int) { v.Parts[i].Open = true }

// CanAllow reports whether the person was shown everything that the answer
// would allow. Denying is always possible.
func (v Approval) CanAllow() bool {
	return v.State == string(approval.Pending) && v.Unverified == "" && len(v.MustOpen()) == 0
}

func asked(a wire.Approval, now time.Time) string {
	text := a.CreatedAt.In(now.Location()).Format("15:04:05")
	if !sameDay(a.CreatedAt, now) {
		text = Clock(a.CreatedAt, now)
	}
	if a.ExpiresAt == nil {
		return text
	}
	what := say.T("expires with the mission at %s", Clock(*a.ExpiresAt, now))
	if a.Attempt == "" {
		what = say.T("expires at %s", Clock(*a.ExpiresAt, now))
	}
	return text + " · " + what
}

// Settled says how an approval was settled and by whom, "" while it waits.
func Settled(a wire.Approval, now time.Time) string {
	if a.State == string(approval.Pending) {
		return ""
	}
	text := stateWord(a.State)
	if a.Answer == nil {
		return text
	}
	at := Clock(a.Answer.At, now)
	switch a.Answer.Via {
	case "program":
		by := oneLine(a.Answer.Program)
		if by == "" {
			by = say.T("a program")
		}
		process := fmt.Sprintf("pid %d", a.Answer.PID)
		if a.Answer.TTY != "" {
			process += ", " + oneLine(a.Answer.TTY)
		}
		text = say.T("%s by %s (%s) at %s", text, by, process, at)
	case "rule":
		text = say.T("%s by the rule %s at %s", text, oneLine(a.Answer.Rule), at)
	case "deadline":
		text = say.T("%s because its time passed at %s", text, at)
	case "stop":
		text = say.T("%s because the mission was stopped at %s", text, at)
	case "turn":
		text = say.T("%s because its turn ended at %s", text, at)
	default:
		text = say.T("%s at %s", text, at)
	}
	if a.Answer.Reason != "" {
		text = say.T("%s: “%s”", text, oneLine(a.Answer.Reason))
	}
	return text
}

// stateWord is the state of an approval in a word.
func stateWord(state string) string {
	switch approval.State(state) {
	case approval.Pending:
		return say.T("pending")
	case approval.Allowed:
		return say.T("allowed")
	case approval.Denied:
		return say.As("an approval", "denied")
	case approval.Expired:
		return say.As("an approval", "expired")
	case approval.Withdrawn:
		return say.T("withdrawn")
	case approval.Stale:
		return say.T("stale")
	}
	return Clean(state)
}

// GroupDigest writes a digest in groups of eight, so that two can be compared
// by eye.
func GroupDigest(d string) string {
	d = Clean(d)
	var groups []string
	for len(d) > 8 {
		groups, d = append(groups, d[:8]), d[8:]
	}
	return strings.Join(append(groups, d), " ")
}

func commonDir(paths []string, otherwise string) string {
	if len(paths) == 0 {
		return otherwise
	}
	dir := filepath.Dir(paths[0])
	for _, p := range paths[1:] {
		for dir != filepath.Dir(dir) && !strings.HasPrefix(p, dir+string(filepath.Separator)) {
			dir = filepath.Dir(dir)
		}
	}
	if dir == "." {
		return otherwise
	}
	return dir
}
