package kit

import (
	"fmt"
	"strconv"
	"strings"

	"fyne.io/fyne/v2"
)

// DiffKind is what a line of a diff is.
type DiffKind int

// The kinds.
const (
	DiffContext DiffKind = iota
	DiffAdded
	DiffRemoved
	DiffHunk // what follows @@
	DiffFile // a file's headers
)

// DiffLine is a line of a unified diff.
type DiffLine struct {
	Kind     DiffKind
	Old, New int // line numbers, 0 where the side has none
	Spans    []Span
}

// ParseDiff reads the lines of a unified diff, of one file or more. Lines it
// does not know are kept as headers: nothing is left out. Use Lines, or spans in
// which what cannot be seen is a token.
func ParseDiff(lines [][]Span) []DiffLine {
	var out []DiffLine
	var oldLeft, newLeft, oldAt, newAt int // of the hunk
	for i, spans := range lines {
		mark := firstByte(spans)
		inHunk := oldLeft > 0 || newLeft > 0
		switch {
		case inHunk && mark == '+':
			out = append(out, DiffLine{Kind: DiffAdded, New: newAt, Spans: cutFirst(spans)})
			newAt, newLeft = newAt+1, newLeft-1
		case inHunk && mark == '-':
			out = append(out, DiffLine{Kind: DiffRemoved, Old: oldAt, Spans: cutFirst(spans)})
			oldAt, oldLeft = oldAt+1, oldLeft-1
		case inHunk && mark == ' ', inHunk && mark == 0 && len(joined(spans)) == 0:
			out = append(out, DiffLine{Old: oldAt, New: newAt, Spans: cutFirst(spans)})
			oldAt, oldLeft = oldAt+1, oldLeft-1
			newAt, newLeft = newAt+1, newLeft-1
		case mark == '@' && parseHunk(joined(spans), &oldAt, &oldLeft, &newAt, &newLeft):
			out = append(out, DiffLine{Kind: DiffHunk, Spans: afterHunk(spans)})
		case i == len(lines)-1 && joined(spans) == "" && len(spans) <= 1 && mark == 0: // the end of the last line
		default:
			out = append(out, DiffLine{Kind: DiffFile, Spans: spans})
		}
	}
	return out
}

// firstByte is the mark of a line; 0 when it is empty or starts with a token.
func firstByte(spans []Span) byte {
	if len(spans) == 0 || spans[0].Token != "" || spans[0].Text == "" {
		return 0
	}
	return spans[0].Text[0]
}

func cutFirst(spans []Span) []Span {
	if firstByte(spans) == 0 {
		return spans
	}
	return append([]Span{{Text: spans[0].Text[1:]}}, spans[1:]...)
}

func joined(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// parseHunk reads "@@ -oldAt,oldLeft +newAt,newLeft @@"; a count left out is 1.
func parseHunk(s string, oldAt, oldLeft, newAt, newLeft *int) bool {
	f := strings.Fields(s)
	if len(f) < 4 || f[0] != "@@" || f[3] != "@@" {
		return false
	}
	side := func(s, sign string, at, left *int) bool {
		s, ok := strings.CutPrefix(s, sign)
		if !ok {
			return false
		}
		first, count, counted := strings.Cut(s, ",")
		a, err := strconv.Atoi(first)
		n := 1
		if err == nil && counted {
			n, err = strconv.Atoi(count)
		}
		*at, *left = a, n
		return err == nil && a >= 0 && n >= 0
	}
	return side(f[1], "-", oldAt, oldLeft) && side(f[2], "+", newAt, newLeft)
}

// afterHunk drops the numbers, which the gutter shows, and keeps what follows.
func afterHunk(spans []Span) []Span {
	text := spans[0].Text
	if i := strings.LastIndex(text, "@@"); i > 0 {
		text = strings.TrimPrefix(text[i+2:], " ")
	}
	return append([]Span{{Text: text}}, spans[1:]...)
}

// DiffRow draws one line of a diff: two gutters with the numbers, the sign, and
// the line, which wraps. lead is its height, 18 or 20.
func DiffRow(d DiffLine, lead float32) fyne.CanvasObject {
	number := func(n int, w float32) fyne.CanvasObject {
		s := ""
		if n > 0 {
			s = fmt.Sprint(n)
		}
		return Fix(w, Note(s, Mono).Right())
	}
	ground, gutter, sign, signColor := None, None, "", Quiet
	runs := highlight(d.Spans)
	switch d.Kind {
	case DiffAdded:
		ground, gutter, sign, signColor = Added, AddedGutter, "+", Done
	case DiffRemoved:
		ground, gutter, sign, signColor = Removed, RemovedGutter, "−", Wrong
	case DiffHunk, DiffFile:
		ground, gutter = Sunken, Sunken
		color := Quiet
		if d.Kind == DiffFile {
			color = Ink
		}
		runs = plainRuns(d.Spans, color)
	}
	numbers := Sized(gutterWidth, lead, Row(2, number(d.Old, 36), number(d.New, 36)))
	signCell := Sized(20, lead, Row(0, Grow(NewText(sign, SizeSmall, signColor, Mono, Bold).Middle())))
	return Sized(0, 0, NewFill(ground), Columns(0,
		Fix(gutterWidth, Sized(0, 0, NewFill(gutter), Col(0, numbers))),
		Fix(20, Col(0, signCell)),
		Grow(newCodeLine(runs, SizeSmall, lead)),
		Gap(8)))
}

// gutterWidth holds two numbers of five digits.
const gutterWidth float32 = 84

// Diff draws all lines at once, for diffs of up to a few hundred lines; longer
// ones go into DiffList.
func Diff(lines []DiffLine, lead float32) *fyne.Container {
	rows := make([]fyne.CanvasObject, len(lines))
	for i, d := range lines {
		rows[i] = DiffRow(d, lead)
	}
	return Col(0, rows...)
}

// DiffList is a diff of any length that scrolls by itself.
func DiffList(lines []DiffLine, lead float32) *List {
	l := NewList(lead, func(i int) fyne.CanvasObject { return DiffRow(lines[i], lead) })
	l.Reset(len(lines))
	return l
}
