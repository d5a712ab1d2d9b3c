package model

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// minID is the shortest id that is shown: six characters of a ULID are unique
// among a person's own missions for years.
const minID = 6

// ShortID returns the shortest suffix of id, of at least six characters, that
// no other of ids ends with.
func ShortID(id string, ids []string) string {
	for n := minID; n < len(id); n++ {
		suffix := id[len(id)-n:]
		unique := true
		for _, other := range ids {
			if other != id && strings.HasSuffix(other, suffix) {
				unique = false
				break
			}
		}
		if unique {
			return suffix
		}
	}
	return id
}

// Duration writes a length of time for a person: "40 s", "12 min", "1 h 6",
// "2 h". It rounds down, so that what is left is never overstated.
func Duration(d time.Duration) string {
	d = max(d, 0)
	switch h, m := int(d/time.Hour), int(d/time.Minute)%60; {
	case d < time.Minute:
		return say.T("%d s", int(d/time.Second))
	case h == 0:
		return say.T("%d min", m)
	case m == 0:
		return say.T("%d h", h)
	default:
		return say.T("%d h %d", h, m)
	}
}

// Seconds writes how long a tool ran: "<0.1 s", "1.8 s", "14 s", "2 min".
func Seconds(s float64) string {
	switch {
	case math.IsNaN(s) || s < 0:
		return ""
	case s < 0.05:
		return "<" + say.T("%s s", decimal(0.1, 1))
	case s < 9.95:
		return say.T("%s s", decimal(s, 1))
	case s < 59.5:
		return say.T("%s s", decimal(s, 0))
	}
	return Duration(time.Duration(s * float64(time.Second)))
}

// Clock writes the time of day in now's zone, with the date when it is another
// day's.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case sameDay(t, now):
		return t.Format("15:04")
	case t.Year() == now.Year():
		return say.T("%[1]d %[2]s %[3]s", t.Day(), month(t), t.Format("15:04"))
	}
	return say.T("%[1]d %[2]s %[3]d", t.Day(), month(t), t.Year())
}

var months = [...]string{say.Key("Jan"), say.Key("Feb"), say.Key("Mar"), say.Key("Apr"), say.Key("May"), say.Key("Jun"),
	say.Key("Jul"), say.Key("Aug"), say.Key("Sep"), say.Key("Oct"), say.Key("Nov"), say.Key("Dec")}

func month(t time.Time) string { return say.Word(months[t.Month()-1]) }

// decimal writes a number with so many digits behind its point.
func decimal(f float64, digits int) string {
	return strings.Replace(strconv.FormatFloat(f, 'f', digits, 64), ".", say.As("decimal", "."), 1)
}

func sameDay(t, now time.Time) bool {
	y, m, d := t.In(now.Location()).Date()
	ny, nm, nd := now.Date()
	return y == ny && m == nm && d == nd
}

// Count writes a number of things in English: "1 tool", "18 tools".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Tokens writes all tokens of u, or "" when none are known.
func Tokens(u wire.Usage) string {
	if u.Input == nil && u.Output == nil && u.CacheRead == nil && u.CacheWrite == nil {
		return ""
	}
	return say.T("%s tokens", amount(total(u)))
}

func total(u wire.Usage) int64 {
	return mission.Usage{Semantics: u.Semantics, Input: u.Input, Output: u.Output,
		CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}.Tokens()
}

// amount writes a large number in three digits: 812, 9.4k, 212k, 1.2M.
func amount(n int64) string {
	switch f := float64(n); {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 9950:
		return say.T("%sk", decimal(f/1e3, 1))
	case n < 999_500:
		return say.T("%sk", decimal(f/1e3, 0))
	case n < 9_950_000:
		return say.T("%sM", decimal(f/1e6, 1))
	}
	return say.T("%sM", decimal(float64(n)/1e6, 0))
}

// Cost writes an amount of US dollars, or "" when it is unknown.
func Cost(usd *float64) string {
	if usd == nil {
		return ""
	}
	return say.T("$%s", decimal(*usd, 2))
}

// Path writes a path with the home directory as ~, and with all that would hide
// in it visible.
func Path(path, home string) string {
	separator := string(filepath.Separator)
	home = strings.TrimSuffix(home, separator)
	if home != "" {
		if path == home {
			return "~"
		}
		if rest, ok := strings.CutPrefix(path, home+separator); ok {
			path = "~" + separator + rest
		}
	}
	return approval.Visible(path).Plain()
}

// Folder writes the last part of a path, which is what people call a checkout.
func Folder(path string) string {
	if path == "" {
		return ""
	}
	return Clean(filepath.Base(path))
}

// Clean makes text of an agent safe to draw beside text of ours: control,
// direction, zero-width and line-separator characters and those that are drawn
// as nothing become visible; newline, tab and what joins letters and emoji stay.
func Clean(s string) string {
	if !strings.ContainsFunc(s, unsafe) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	var last rune
	for _, r := range s {
		if unsafe(r) && !emojiStyle(last, r) {
			fmt.Fprintf(&b, "‹U+%04X›", r)
		} else {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

func unsafe(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	const zwnj, zwj, blank = 0x200C, 0x200D, 0x2800
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || r == blank || r > 0x7f && r != zwnj && r != zwj &&
		unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// emojiStyle reports whether r only says how the sign before it is drawn.
func emojiStyle(before, r rune) bool {
	return (r == 0xFE0E || r == 0xFE0F) && (unicode.Is(unicode.S, before) || before == 'ℹ')
}

// exact writes a path or name on one line as it will count: all that
// would hide or mislead is visible, as in its approval.
func exact(s string) string {
	return approval.Visible(strings.Join(strings.Fields(s), " ")).Plain()
}

// exactCommand is exact for a command or a part of one.
func exactCommand(s string) string {
	return approval.VisibleCommand(strings.Join(strings.Fields(s), " ")).Plain()
}

// oneLine is Clean for a place that has one line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(Clean(s)), " ")
}

// ProviderTitle is what people call a provider: claude is Claude Code, acp:demo
// the demo agent, and every other ACP agent goes by its own name.
func ProviderTitle(provider string) string {
	switch provider {
	case "claude":
		return "Claude Code"
	case "codex":
		return "Codex"
	case "acp:demo":
		return say.T("Demo agent")
	}
	return Clean(strings.TrimPrefix(provider, "acp:"))
}

var toolNames = map[string]string{
	wire.ToolRead: say.Key("Read"), wire.ToolSearch: say.Key("Search"), wire.ToolEdit: say.Key("Edit"), wire.ToolExecute: say.Key("Run"),
	wire.ToolFetch: say.Key("Fetch"), wire.ToolPlan: say.Key("Plan"), wire.ToolMCP: say.Key("Tool"), wire.ToolOther: say.Key("Tool"),
}

// ToolName returns the name of a tool in one word. Some agents give a whole
// title instead of a name; then the kind of the tool names it.
func ToolName(tool, kind string) string {
	tool = oneLine(tool)
	if name := toolNames[kind]; name != "" && (tool == "" || strings.Contains(tool, " ")) {
		return say.Word(name)
	}
	return tool
}

// ToolObject says in one line what a tool call works on: its command, its
// files as they lie in folder, or its title.
func ToolObject(d wire.ToolStarted, folder string) string {
	switch {
	case d.Command != "":
		return exact(d.Command)
	case len(d.Paths) > 0:
		return files(d.Paths, folder)
	case d.Title != "":
		return oneLine(d.Title)
	}
	if tool := oneLine(d.Tool); tool != ToolName(d.Tool, d.Kind) {
		return tool
	}
	return ""
}

// Detail is one line in up to three pieces, so that a window can set what the
// agent names in mono and keep it apart from our own words.
type Detail struct {
	Text string // our words
	Code string // a command, path or name, cleaned, to be set in mono
	Tail string // what follows: "18 tools", "+61 −3"
}

// String joins the pieces as a terminal shows them.
func (d Detail) String() string {
	s := d.Text
	if d.Code != "" {
		if s != "" {
			s += " "
		}
		s += d.Code
	}
	if d.Tail != "" {
		if s != "" {
			s += " · "
		}
		s += d.Tail
	}
	return s
}
