package approval

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of white space that is shown as it is.
const (
	longRun     = 8  // spaces inside a line
	tabWidth    = 8  // columns that a tab counts for
	wideTabs    = 24 // columns of a run with tabs inside a line
	indentation = 40 // spaces before the first character of a line
	wideIndent  = 80 // columns before it, if there are tabs
	emptyLines  = 3  // that are one token in a command; two part the functions of a program
)

// Span is a piece of one line.
type Span struct {
	Text  string // the exact original
	Token string // if not empty, draw this and never Text
}

// Hidden counts one kind of character that would not have been seen.
type Hidden struct {
	Token     string
	Codepoint string // U+202E, or the byte as 0xFF
	Name      string
	Count     int
}

// Shown is a text with nothing hidden in it.
type Shown struct {
	Lines  [][]Span // split at newlines; always at least one
	Hidden []Hidden // in the order of first appearance
}

// Visible prepares s, which may come from an agent, for the eyes of a person
// who decides on it. Control, direction and zero-width characters, tag
// characters, variation selectors, look-alike spaces and letters, long and
// trailing white space and bytes that are not UTF-8 become tokens. A single tab
// stays a tab. Nothing is lost: Rejoin returns s.
func Visible(s string) Shown {
	v := &shower{index: map[string]int{}}
	for line := range strings.SplitSeq(s, "\n") {
		v.line(line)
	}
	return v.out
}

// VisibleCommand is Visible for what a machine reads. There a dash or a quote as
// people print them is something else than the one on the keyboard, and many
// empty lines, which would put the end of a command out of sight, are one token.
func VisibleCommand(s string) Shown {
	v := &shower{index: map[string]int{}, command: true}
	lines := strings.Split(s, "\n")
	for i := 0; i < len(lines); i++ {
		n := 0
		for i+n < len(lines) && lines[i+n] == "" {
			n++
		}
		if n < emptyLines {
			v.line(lines[i])
			continue
		}
		h := Hidden{"LF", "U+000A", "run of empty lines", n}
		v.out.Lines = append(v.out.Lines, []Span{{Text: strings.Repeat("\n", n-1), Token: fmt.Sprintf("%s×%d", h.Token, n)}})
		v.count(h, n)
		i += n - 1
	}
	return v.out
}

// Plain renders the text for a terminal, tokens as ‹RLO›. It contains no
// control, direction or zero-width character except newlines and tabs, and no
// ‹ that is not ours.
func (s Shown) Plain() string {
	var b strings.Builder
	for i, line := range s.Lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, span := range line {
			if span.Token != "" {
				b.WriteString("‹" + span.Token + "›")
			} else {
				b.WriteString(span.Text)
			}
		}
	}
	return b.String()
}

// Rejoin returns the exact original.
func (s Shown) Rejoin() string {
	var b strings.Builder
	for i, line := range s.Lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, span := range line {
			b.WriteString(span.Text)
		}
	}
	return b.String()
}

// shower collects what Visible returns.
type shower struct {
	out     Shown
	index   map[string]int // of Hidden by token
	command bool
	spans   []Span
	plain   int  // bytes of the current line that are waiting to become a plain span
	prose   bool // the current line is plainly written in another script than Latin
}

func (v *shower) line(s string) {
	v.spans, v.plain, v.prose = nil, 0, foreignProse(s)
	for at := 0; at < len(s); {
		n, h := v.next(s, at)
		if h.Token == "" {
			v.plain += n
			at += n
			continue
		}
		v.flush(s, at)
		end, count := at+n, h.Count
		for h.Count == 1 && end < len(s) { // the same thing again and again is one token
			m, again := v.next(s, end)
			if again != h {
				break
			}
			end += m
			count++
		}
		token := h.Token
		if count > 1 {
			token = fmt.Sprintf("%s×%d", token, count)
		}
		v.spans = append(v.spans, Span{Text: s[at:end], Token: token})
		v.count(h, count)
		at = end
	}
	v.flush(s, len(s))
	v.out.Lines = append(v.out.Lines, v.spans)
}

// flush turns the plain bytes before at into a span.
func (v *shower) flush(s string, at int) {
	if v.plain > 0 {
		v.spans = append(v.spans, Span{Text: s[at-v.plain : at]})
		v.plain = 0
	}
}

func (v *shower) count(h Hidden, n int) {
	i, known := v.index[h.Token]
	if !known {
		i = len(v.out.Hidden)
		v.index[h.Token] = i
		h.Count = 0
		v.out.Hidden = append(v.out.Hidden, h)
	}
	v.out.Hidden[i].Count += n
}

// next looks at what stands at s[at:]: how many bytes it has, and the token that
// it needs, if any. A run of spaces and tabs is taken whole.
func (v *shower) next(s string, at int) (int, Hidden) {
	r, size := utf8.DecodeRuneInString(s[at:])
	switch {
	case r == utf8.RuneError && size == 1:
		return 1, Hidden{fmt.Sprintf(`\x%02X`, s[at]), fmt.Sprintf("0x%02X", s[at]), "byte that is not UTF-8", 1}
	case r == ' ' || r == '\t':
		return blanks(s, at)
	case r > ' ' && r < 0x7f:
		return size, Hidden{}
	}
	if h, hidden := describe(r); hidden {
		return size, h
	}
	if v.command && strings.ContainsRune(commandTwins, r) {
		return size, asASCII(r)
	}
	if nearLatin(r) && deceptive(s, at, v.prose) {
		return size, Hidden{fmt.Sprintf("%c=U+%04X", r, r), codepoint(r), "letter of another script among or like Latin ones", 1}
	}
	return size, Hidden{}
}

// blanks judges a run of spaces and tabs by its place in the line.
func blanks(s string, at int) (int, Hidden) {
	rest := s[at:]
	n := len(rest) - len(strings.TrimLeft(rest, " \t"))
	tabs := strings.Count(rest[:n], "\t")
	spaces := n - tabs
	width := spaces + tabs*tabWidth
	var plain bool
	switch {
	case n == len(rest): // trailing
	case at == 0:
		plain = spaces <= indentation && width <= wideIndent
	case tabs == 0:
		plain = spaces < longRun
	default:
		plain = spaces < longRun && width < wideTabs
	}
	if plain {
		return n, Hidden{}
	}
	h := Hidden{"SP", "U+0020", "long or trailing run of spaces", n}
	switch {
	case spaces == 0:
		h = Hidden{"TAB", "U+0009", "long or trailing run of tabs", n}
	case tabs > 0:
		h = Hidden{"BLANK", "U+0020 U+0009", "long or trailing run of spaces and tabs", n}
	}
	return n, h
}
