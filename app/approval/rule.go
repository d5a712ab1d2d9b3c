package approval

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Effect is what a rule does with the requests that it matches.
type Effect string

// The effects.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
)

// How far an answer reaches. An answer that reaches further than once makes a
// rule.
const (
	ForOnce    = "once"
	ForMission = "mission" // until the mission ends
	ForProject = "project" // until it is revoked, in every worktree of one repository
)

// MaxRuleText is how long what a rule is about may be, in bytes. Nobody would
// recognise a longer command in a list of rules.
const MaxRuleText = 4096

// Request is what rules see of a request of an agent. Places inside the
// mission's checkout are relative to its root, so that all worktrees of a
// repository are one project.
type Request struct {
	Kind    Kind     `json:"kind"`
	Class   string   `json:"class"` // of the tool: read, search, edit, execute, fetch, mcp or other
	Tool    string   `json:"tool,omitempty"`
	Server  string   `json:"server,omitempty"`
	Command string   `json:"command,omitempty"`
	Cwd     string   `json:"cwd,omitempty"`
	Files   []string `json:"files,omitempty"` // what is edited, if all of it may be edited by a rule
	// Exact is a digest of everything that would happen, and Frame of that
	// without what a pattern stands for. Both leave out what the agent says
	// about it. A request without Exact can't have an allow rule.
	Exact string `json:"exact,omitempty"`
	Frame string `json:"frame,omitempty"`
	Bare  bool   `json:"bare,omitempty"` // nothing but the command and the folder decides what a command does

	Mission string `json:"mission,omitempty"`
	Project string `json:"project,omitempty"` // physical path of the repository
}

// NewRequest takes what rules look at out of a subject. root is the physical
// root of the mission's checkout; class and paths are as in Call.
func NewRequest(kind Kind, s Subject, c Call, root string) Request {
	r := Request{Kind: kind, Class: c.Kind, Tool: s.Tool, Server: s.Server, Command: s.Command, Cwd: relative(root, s.Cwd)}
	if s.Tool == s.Title {
		r.Tool = "" // of an agent that names no tools, only single calls
	}
	if c.Kind == "edit" && s.Command == "" && allInside(root, c.Paths, guarded) {
		for _, p := range c.Paths {
			r.Files = append(r.Files, relative(root, p.Resolved))
		}
		slices.Sort(r.Files)
		r.Files = slices.Compact(r.Files)
	}
	unresolved := slices.ContainsFunc(c.Paths, func(p Path) bool { return p.Err != "" })
	blind := s.Command == "" && s.Diff == "" && len(s.Paths) == 0 && (len(s.Input) == 0 || string(s.Input) == "null" || string(s.Input) == "{}")
	if kind != ToolCall && kind != FileChange && kind != NetworkOrEndpoint || unresolved || blind {
		return r
	}
	exact := s
	exact.Reason, exact.Cwd, exact.Tool, exact.Paths = "", r.Cwd, r.Tool, nil
	for _, p := range c.Paths {
		exact.Paths = append(exact.Paths, relative(root, p.Resolved))
	}
	if s.Command != "" || r.Tool != "" && len(s.Paths) > 0 {
		exact.Title = "" // says the same in other words
	}
	exact.Input, r.Bare = factored(s)
	r.Bare = r.Bare && len(s.Env) == 0 && len(s.Paths) == 0
	frame := exact
	frame.Command = ""
	if s.Command == "" {
		frame.Title, frame.Diff, frame.Input, frame.Paths = "", "", nil, nil
	}
	if c.Kind == "edit" {
		frame.Cwd = "" // files are named from the root
	}
	r.Exact, r.Frame = r.digest(exact), r.digest(frame)
	if r.Exact == "" || r.Frame == "" {
		r.Exact, r.Frame = "", ""
	}
	return r
}

func (r Request) digest(s Subject) string {
	d, err := Digest(Envelope{ID: "rule", Kind: r.Kind, Attempt: r.Class, Subject: s})
	if err != nil {
		return ""
	}
	return d
}

// factored writes input with the arguments named apart that are the command,
// the folder or the agent's reason word for word: these stand in the subject,
// and count as they count there. bare says that there are no others.
func factored(s Subject) (input json.RawMessage, bare bool) {
	if len(s.Input) == 0 {
		return nil, true
	}
	var fields map[string]json.RawMessage
	if len(s.Input) > blobLimit || json.Unmarshal(s.Input, &fields) != nil || fields == nil {
		return s.Input, false
	}
	var out struct {
		Command, Cwd, Reason []string
		Rest                 map[string]json.RawMessage
	}
	out.Rest = map[string]json.RawMessage{}
	for name, raw := range fields {
		var text string
		isText := json.Unmarshal(raw, &text) == nil && text != ""
		switch {
		case isText && text == s.Command:
			out.Command = append(out.Command, name)
		case isText && text == s.Cwd:
			out.Cwd = append(out.Cwd, name)
		case isText && text == s.Reason && slices.Contains([]string{"description", "reason", "justification"}, name):
			out.Reason = append(out.Reason, name)
		default:
			out.Rest[name] = raw
		}
	}
	slices.Sort(out.Command)
	slices.Sort(out.Cwd)
	slices.Sort(out.Reason)
	raw, err := json.Marshal(out)
	if err != nil {
		return s.Input, false
	}
	return raw, len(out.Rest) == 0
}

// relative writes a place inside root from there, with slashes: "." is root
// itself. Any other place stays as it is.
func relative(root, path string) string {
	if path == "" || !inside(root, path, nil) {
		return path
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// Rule is a standing answer to requests that are not asked any more.
type Rule struct {
	ID      string `json:"id"`
	Effect  Effect `json:"effect"`
	Reach   string `json:"reach"` // mission or project
	Mission string `json:"mission,omitempty"`
	Project string `json:"project,omitempty"`

	Kind    Kind     `json:"kind"`
	Class   string   `json:"class"`
	Tool    string   `json:"tool,omitempty"`
	Server  string   `json:"server,omitempty"`
	Command string   `json:"command,omitempty"` // the exact one; empty if there is a pattern
	Cwd     string   `json:"cwd,omitempty"`
	Files   []string `json:"files,omitempty"`
	Exact   string   `json:"exact,omitempty"`
	Frame   string   `json:"frame,omitempty"`   // empty: made by hand, for any tool of the class
	Pattern string   `json:"pattern,omitempty"` // empty: exactly one request

	CreatedAt time.Time `json:"created_at"`
	By        string    `json:"by"`                 // who made it
	From      string    `json:"approval,omitempty"` // whose answer made it
	Uses      int       `json:"uses"`
	UsedAt    time.Time `json:"used_at,omitzero"`
}

// NewRule makes the rule of an answer to r that reaches as far as reach. The
// pattern must be one that Suggest gives for r, or empty for exactly r.
func NewRule(effect Effect, reach string, r Request, pattern string) (Rule, error) {
	switch {
	case reach != ForMission && reach != ForProject:
		return Rule{}, fmt.Errorf("a rule is for the mission or for the project, not for %q", reach)
	case !Standing(r):
		return Rule{}, fmt.Errorf("of this request not all is known beforehand, or it is too long to be recognised in a rule; it can only be answered once")
	case reach == ForProject && r.Project == "":
		return Rule{}, fmt.Errorf("it is not known of which project the request is, so the answer can be for the mission only")
	case pattern != "" && !slices.ContainsFunc(Suggest(r), func(p Pattern) bool { return p.Text == pattern }):
		return Rule{}, fmt.Errorf("the pattern %q was not offered for this request", pattern)
	}
	out := Rule{Effect: effect, Reach: reach, Mission: r.Mission, Project: r.Project, Kind: r.Kind, Class: r.Class, Tool: r.Tool, Server: r.Server,
		Command: r.Command, Cwd: r.Cwd, Files: r.Files, Exact: r.Exact, Pattern: pattern}
	if pattern != "" {
		out.Command, out.Files, out.Exact, out.Frame = "", nil, "", r.Frame
	}
	return out, nil
}

// HandRule makes a rule that no request stands behind. about is a command, exact
// or with a star ("npm test *"), or, for a change, a file or a folder with a
// slash at its end, relative to the checkout. A command may run in the
// checkout's root, with no other argument of its tool.
func HandRule(effect Effect, change bool, about string) (Rule, error) {
	r := Rule{Effect: effect, Kind: ToolCall, Class: "execute", Cwd: "."}
	switch {
	case effect != Allow && effect != Deny:
		return r, fmt.Errorf("a rule allows or denies; it can't %q", effect)
	case about == "" || len(about) > MaxRuleText || Visible(about).Plain() != about:
		return r, fmt.Errorf("a rule needs a text of at most %d bytes in which nothing hides", MaxRuleText)
	case change:
		if name := strings.TrimSuffix(about, "/"); !fs.ValidPath(name) || name == "." || effect == Allow && slices.ContainsFunc(strings.Split(name, "/"), isGuarded) {
			return r, fmt.Errorf("%q is no file or folder of a checkout that a rule can be about", about)
		}
		r.Kind, r.Class, r.Cwd, r.Pattern = FileChange, "edit", "", about
	case strings.HasSuffix(about, " *"):
		words, plain := plainWords(strings.TrimSuffix(about, " *"))
		if !plain {
			return r, fmt.Errorf("before the star there may only be plain words")
		}
		if effect == Allow && kept(words) == 0 {
			return r, fmt.Errorf("%q would allow more than anybody sees; allow exact commands instead", about)
		}
		r.Pattern = strings.Join(words, " ") + " *"
	default:
		r.Command = about
	}
	return r, nil
}

// MayAllow reports whether a rule that denies may allow instead.
func (r Rule) MayAllow() bool {
	_, err := HandRule(Allow, r.Class == "edit", r.Pattern)
	return r.Pattern == "" || r.Class == "mcp" || err == nil
}

// Narrower reports whether rule r may become one with the given pattern: it
// must stand for nothing that r does not.
func (r Rule) Narrower(pattern string) bool {
	switch {
	case r.Pattern == "" || pattern == "" || pattern == r.Pattern:
		return pattern == r.Pattern
	case r.Class == "execute":
		return strings.HasPrefix(pattern, strings.TrimSuffix(r.Pattern, "*")) && strings.HasSuffix(pattern, " *") &&
			(r.Effect == Deny || allowsCommand(r.Pattern, strings.TrimSuffix(pattern, " *")))
	case r.Class == "edit":
		return ofPattern(r.Pattern, strings.TrimSuffix(pattern, "/")) && fs.ValidPath(strings.TrimSuffix(pattern, "/"))
	}
	return false
}

// Standing reports whether a rule can be made from r.
func Standing(r Request) bool {
	n := len(r.Command)
	for _, f := range r.Files {
		n += len(f)
	}
	return r.Exact != "" && n <= MaxRuleText
}

// Sentence says what the rule is about.
func (r Rule) Sentence() string {
	if r.Pattern != "" {
		return sentence(r.Class, r.Server, r.Tool, r.Pattern)
	}
	switch {
	case r.Command != "":
		return "exactly this command"
	case len(r.Files) > 0:
		return "exactly this change"
	}
	return "exactly this request"
}

// About is what the rule is about as it was shown: the exact command, the
// pattern, the files or the tool.
func (r Rule) About() string {
	switch {
	case r.Pattern != "":
		return r.Pattern
	case r.Command != "":
		return r.Command
	case len(r.Files) > 0:
		return strings.Join(r.Files, " ")
	}
	return strings.TrimSpace(r.Server + " " + r.Tool)
}

// Judge finds the rule that decides on r. Deny beats allow; among those that
// say the same the narrowest one decides, and is the one to be recorded: exact
// before pattern, mission before project, more words before fewer, older before
// newer.
func Judge(rules []Rule, r Request) (Rule, bool) {
	var found *Rule
	for i := range rules {
		if c := &rules[i]; c.matches(r) && (found == nil || c.before(found)) {
			found = c
		}
	}
	if found == nil {
		return Rule{}, false
	}
	return *found, true
}

func (r *Rule) before(o *Rule) bool {
	switch {
	case r.Effect != o.Effect:
		return r.Effect == Deny
	case (r.Pattern == "") != (o.Pattern == ""):
		return r.Pattern == ""
	case r.Reach != o.Reach:
		return r.Reach == ForMission
	case len(r.Pattern) != len(o.Pattern):
		return len(r.Pattern) > len(o.Pattern)
	}
	return r.ID < o.ID
}

// matches reports whether the rule is about r.
func (r *Rule) matches(q Request) bool {
	switch {
	case q.Kind != ToolCall && q.Kind != FileChange && q.Kind != NetworkOrEndpoint:
		return false // the rest is a person's alone
	case r.Reach == ForMission && (r.Mission == "" || r.Mission != q.Mission):
		return false
	case r.Reach == ForProject && (r.Project == "" || r.Project != q.Project):
		return false
	case r.Reach != ForMission && r.Reach != ForProject:
		return false
	}
	if r.Effect == Deny {
		return r.denies(q)
	}
	return r.Effect == Allow && r.allows(q)
}

// allows is strict: what the person did not see is not matched.
func (r *Rule) allows(q Request) bool {
	switch {
	case q.Exact == "" || q.Frame == "":
		return false
	case r.Pattern == "" && r.Exact != "":
		return r.Exact == q.Exact
	case r.Kind != q.Kind || r.Class != q.Class || r.Class != "edit" && r.Cwd != q.Cwd || r.Server != q.Server:
		return false
	case r.Frame == "" && r.Class == "execute" && !q.Bare, r.Frame == "" && r.Class != "execute" && r.Class != "edit":
		return false // made by hand, so no other argument was seen
	case r.Frame != "" && r.Frame != q.Frame:
		return false
	case r.Class == "execute" && r.Pattern == "":
		return r.Command != "" && r.Command == q.Command
	case r.Class == "execute":
		return allowsCommand(r.Pattern, q.Command)
	case r.Class == "edit":
		return r.Pattern != "" && allowsFiles(r.Pattern, q.Files)
	}
	return r.Class == "mcp" && r.Pattern == toolPattern(q)
}

// denies is wide: it looks into everything that would run, wherever.
func (r *Rule) denies(q Request) bool {
	switch {
	case r.Pattern == "" && r.Exact != "" && r.Exact == q.Exact:
		return true
	case r.Pattern == "" && r.Command != "":
		return deniesExactly(r.Command, q.Command)
	case r.Pattern == "" || r.Class != q.Class && r.Class != "execute":
		return false
	case r.Class == "execute":
		return deniesCommand(r.Pattern, q.Command)
	case r.Class == "edit":
		return deniesFiles(r.Pattern, q.Files)
	}
	return r.Class == "mcp" && r.Server == q.Server && r.Pattern == toolPattern(q)
}
