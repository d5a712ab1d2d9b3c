package kit

import (
	"strings"
	"unicode"
)

// keywords of the usual languages together: a diff seldom says which it is in.
var keywords = func() map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(`
		abstract as async await break case catch chan class const continue def default defer del do elif else
		enum except export extends extern false final finally fn for foreach from func function go goto if impl
		implements import in inline instanceof interface internal is lambda let loop match mod move mut namespace
		new nil None not null operator or override package pass private protected pub public raise range readonly
		return select self static struct super switch template this throw throws trait True False true try type
		typedef typeof undefined union unless unsafe until use using var virtual void volatile where while with
		yield`) {
		m[w] = true
	}
	return m
}()

// hidden stands for a token while a line is coloured, so that a string or
// comment goes on across it. It is a private-use character; one in the text
// itself would have become a token before.
const hidden = '\uE000'

// longLine is the length from which lines stay in one colour: they are data
// rather than code, and looking for the ends of their strings could take long.
const longLine = 2000

// highlight colours a line of code: keywords, strings, numbers and comments, as
// far as one line tells. Tokens become chips.
func highlight(spans []Span) []run {
	var text []rune
	var tokens []string
	for _, s := range spans {
		if s.Token != "" {
			text = append(text, hidden)
			tokens = append(tokens, s.Token)
		} else {
			text = append(text, []rune(strings.ReplaceAll(strings.ReplaceAll(s.Text, string(hidden), "\uFFFD"), "\t", "    "))...)
		}
	}
	var out []run
	add := func(rs []rune, c Color) {
		for len(rs) > 0 {
			if rs[0] == hidden {
				out = append(out, run{text: tokens[0], color: Waiting, chip: true})
				tokens, rs = tokens[1:], rs[1:]
				continue
			}
			n := 0
			for n < len(rs) && rs[n] != hidden {
				n++
			}
			if last := len(out) - 1; last >= 0 && !out[last].chip && out[last].color == c {
				out[last].text += string(rs[:n]) // lines are short here: see longLine
			} else {
				out = append(out, run{text: string(rs[:n]), color: c})
			}
			rs = rs[n:]
		}
	}
	if len(text) > longLine {
		add(text, Ink)
		return out
	}
	for i := 0; i < len(text); {
		n, c := lexeme(text, i)
		add(text[i:i+n], c)
		i += n
	}
	return out
}

// lexeme is the length and colour of what stands at text[i:].
func lexeme(text []rune, i int) (int, Color) {
	rest := text[i:]
	switch r := rest[0]; {
	case r == '/' && len(rest) > 1 && rest[1] == '/' && (i == 0 || text[i-1] != ':'),
		r == '/' && len(rest) > 1 && rest[1] == '*',
		r == '#' && (i == 0 || text[i-1] == ' ') && (len(rest) < 2 || rest[1] == ' ' || rest[1] == '!'):
		return len(rest), Comment
	case r == '"' || r == '`' || r == '\'':
		for n := 1; n < len(rest); n++ {
			switch rest[n] {
			case '\\':
				n++
			case r:
				return n + 1, Literal
			}
		}
		if r == '\'' || r == '`' { // an apostrophe, or a string of several lines
			return 1, Ink
		}
		return len(rest), Literal
	case unicode.IsDigit(r):
		n := 1
		for n < len(rest) && (word(rest[n]) || rest[n] == '.') {
			n++
		}
		return n, Number
	case word(r):
		n := 1
		for n < len(rest) && word(rest[n]) {
			n++
		}
		if keywords[string(rest[:n])] {
			return n, Keyword
		}
		return n, Ink
	}
	return 1, Ink
}

func word(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
