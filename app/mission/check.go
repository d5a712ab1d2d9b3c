package mission

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Problem says what is wrong with one field and how to mend it. The Check
// functions return *Problem, nil when the field is fine; test that pointer
// before storing it in an error, because a nil *Problem in an error is not nil.
type Problem struct {
	Field   string `json:"field"`   // the JSON name of the field
	Message string `json:"message"` // one plain sentence that says what is wrong
	Fix     string `json:"fix"`     // what to do
}

// Error returns the message and the mend.
func (p Problem) Error() string { return p.Message + " " + p.Fix }

// isName says whether s is a letter or digit, followed by letters, digits and
// bytes of others, most bytes in all. It is no regular expression, because
// compiling those would cost every start of the program.
func isName(s string, most int, others string) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z':
		case i == 0 || strings.IndexByte(others, c) < 0:
			return false
		}
	}
	return true
}

// CheckProvider accepts claude, codex and acp:<configured name>.
func CheckProvider(s string) *Problem {
	const fix = "Use claude, codex, or acp: followed by the name of an agent in the settings, for example acp:demo."
	switch {
	case s == "":
		return &Problem{"provider", "No provider was chosen.", fix}
	case s == "claude" || s == "codex":
		return nil
	}
	name, acp := strings.CutPrefix(s, "acp:")
	if !acp {
		return &Problem{"provider", fmt.Sprintf("There is no provider %s.", quoted(s)), fix}
	}
	if !isName(name, 64, "._-") {
		return &Problem{"provider", fmt.Sprintf("%s is not a valid name for an ACP agent.", quoted(name)),
			"A name has 1 to 64 letters, digits, dots, hyphens or underscores and starts with a letter or digit."}
	}
	return nil
}

// CheckModel accepts nothing (the provider's default) or a model id.
func CheckModel(s string) *Problem {
	if s == "" || isName(s, 150, "._:/-") {
		return nil
	}
	return &Problem{"model", fmt.Sprintf("%s is not a valid model id.", quoted(s)),
		"A model id has 1 to 150 letters, digits or . _ : / - and starts with a letter or digit; leave it empty for the provider's default."}
}

// CheckEndpoint accepts nothing (the provider's default), an https URL, or an
// http URL to exactly localhost, 127.0.0.1 or ::1. User info, query and
// fragment are refused: they could carry a secret or hide the real host.
func CheckEndpoint(s string) *Problem {
	if s == "" {
		return nil
	}
	bad := func(message, fix string) *Problem { return &Problem{"endpoint", message, fix} }
	const example = "Write it like https://api.example.com or http://127.0.0.1:8080."
	if len(s) > 2048 {
		return bad("The endpoint is longer than 2,048 characters.", example)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '\\' {
			return bad("The endpoint contains a space, a backslash, or a character outside plain ASCII.", example)
		}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return bad("The endpoint is not a URL with a host.", example)
	case u.User != nil:
		return bad("The endpoint contains a user name or password.", "Remove everything up to the @; credentials belong in the provider's own settings.")
	case strings.ContainsAny(s, "?#"):
		return bad("The endpoint contains a query or a fragment.", "Remove everything from the ? or #.")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return bad(fmt.Sprintf("%s is not a valid port.", quoted(port)), "Use a port from 1 to 65535.")
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return bad("The endpoint has a colon but no port.", example)
	}
	switch u.Scheme {
	case "https":
		return nil
	case "http":
		switch u.Hostname() {
		case "localhost", "127.0.0.1", "::1":
			return nil
		}
		return bad("Plain http is allowed only to this machine.", "Use https, or a host that is exactly localhost, 127.0.0.1 or [::1].")
	}
	return bad(fmt.Sprintf("The endpoint's scheme %s is not allowed.", quoted(u.Scheme)), example)
}

// CheckFolderSyntax accepts an absolute path that can be stored and shown. What
// is there is the service's question.
func CheckFolderSyntax(s string) *Problem {
	bad := func(message, fix string) *Problem { return &Problem{"folder", message, fix} }
	switch {
	case s == "":
		return bad("No folder was chosen.", "Choose the root of a git repository or worktree.")
	case !utf8.ValidString(s):
		return bad("The folder's path is not valid UTF-8.", "Rename the folder, or choose another one.")
	case strings.ContainsFunc(s, unicode.IsControl):
		return bad("The folder's path contains a control character.", "Rename the folder, or choose another one.")
	case len(s) > 4096:
		return bad("The folder's path is longer than 4,096 bytes.", "Choose a folder with a shorter path.")
	case s == "~" || strings.HasPrefix(s, "~/") || strings.HasPrefix(s, `~\`):
		return bad("The folder's path begins with ~, which only a shell expands.", "Write the whole path.")
	case !filepath.IsAbs(s):
		return bad(fmt.Sprintf("The folder %s is not an absolute path.", quoted(s)), "Write the whole path, from the root of the file system.")
	}
	return nil
}

// CheckScope accepts 1 to 4,000 characters after trimming, with no control
// characters other than newline and tab. It trims as Normalize does.
func CheckScope(s string) *Problem {
	return checkText("scope", "scope", s, MaxScope, "Say in a sentence or two what the agent may work on.")
}

// CheckSteering accepts 1 to 2,000 characters after trimming, with no control
// characters other than newline and tab.
func CheckSteering(s string) *Problem {
	return checkText("steering", "instruction", s, MaxSteering, "Write what the agent should do differently.")
}

// CheckMinutes accepts 15 to 240 in steps of 15.
func CheckMinutes(n int) *Problem {
	switch {
	case n < MinMinutes:
		return &Problem{"minutes", fmt.Sprintf("A mission of %d minutes is too short.", n), "Choose 15 to 240 minutes, in steps of 15."}
	case n > MaxMinutes:
		return &Problem{"minutes", fmt.Sprintf("A mission of %d minutes is too long.", n), "Choose 15 to 240 minutes, in steps of 15."}
	case n%StepMinutes != 0:
		low := n - n%StepMinutes
		return &Problem{"minutes", fmt.Sprintf("%d minutes is not a multiple of 15.", n), fmt.Sprintf("Choose %d or %d minutes.", low, low+StepMinutes)}
	}
	return nil
}

// CheckBudget refuses negative numbers and costs that are not numbers.
func CheckBudget(b Budget) *Problem {
	const fix = "Use a number above zero, or leave it empty for no limit."
	switch {
	case b.Turns < 0:
		return &Problem{"budget", "The turn limit is negative.", fix}
	case b.Tokens < 0:
		return &Problem{"budget", "The token limit is negative.", fix}
	case b.CostUSD < 0 || math.IsNaN(b.CostUSD) || math.IsInf(b.CostUSD, 0):
		return &Problem{"budget", "The cost limit is not an amount of money.", fix}
	}
	return nil
}

// CheckUnasked accepts the known rules, each at most once.
func CheckUnasked(list []Unasked) *Problem {
	seen := map[Unasked]bool{}
	for _, u := range list {
		switch u {
		case UnaskedReads, UnaskedEdits, UnaskedPlan, UnaskedRoom:
		default:
			return &Problem{"unasked", fmt.Sprintf("There is no rule %s for what runs unasked.", quoted(string(u))), "Use reads, edits, plan or room."}
		}
		if seen[u] {
			return &Problem{"unasked", fmt.Sprintf("The rule %s is listed twice.", u), "List each rule once."}
		}
		seen[u] = true
	}
	return nil
}

func checkText(field, noun, s string, limit int, empty string) *Problem {
	if !utf8.ValidString(s) {
		return &Problem{field, fmt.Sprintf("The %s is not valid UTF-8 text.", noun), "Write it again instead of pasting it."}
	}
	s = trim(s)
	if !strings.ContainsFunc(s, inked) {
		return &Problem{field, fmt.Sprintf("The %s is empty.", noun), empty}
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		at := utf8.RuneCountInString(s[:i]) + 1
		return &Problem{field, fmt.Sprintf("The %s contains the control character U+%04X at character %d.", noun, r, at),
			"Remove it; only newlines and tabs are allowed."}
	}
	if n := utf8.RuneCountInString(s); n > limit {
		return &Problem{field, fmt.Sprintf("The %s has %d characters; at most %d are allowed.", noun, n, limit),
			fmt.Sprintf("Shorten it by %d.", n-limit)}
	}
	return nil
}

// inked reports whether a person sees something where r stands.
func inked(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// trim removes white space around s and turns Windows line ends into newlines,
// which a paste brings along and nobody can see.
func trim(s string) string {
	return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
}

// quoted shows s in a sentence: escaped, and cut to what a person needs to
// recognise it.
func quoted(s string) string {
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return strconv.QuoteToGraphic(s)
}
