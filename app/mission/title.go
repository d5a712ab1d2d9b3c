package mission

import (
	"strings"
	"unicode"
)

const titleLength = 60

// Title returns a name for lists: the first line or sentence of the scope, cut
// at a word to about 60 characters. It contains no control or direction
// characters, because it is drawn beside other text.
func Title(scope string) string {
	line, _, _ := strings.Cut(trim(scope), "\n")
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(line, "\uFFFD"))
	line = strings.Join(strings.Fields(line), " ")
	for i, r := range line {
		if (r == '.' || r == '!' || r == '?') && strings.HasPrefix(line[i+1:], " ") && i > 0 {
			line = line[:i]
			break
		}
	}
	line = strings.TrimSuffix(line, ".")
	r := []rune(line)
	if len(r) <= titleLength {
		return line
	}
	cut := string(r[:titleLength-1])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}
