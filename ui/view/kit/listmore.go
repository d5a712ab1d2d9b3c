package kit

import (
	"slices"
	"strconv"

	"fyne.io/fyne/v2"
)

// Remove takes n rows away from row at on. What is in sight above them stays
// where it is.
func (l *List) Remove(at, n int) {
	n = min(n, l.Len()-at)
	if n <= 0 {
		return
	}
	l.heights.heights = slices.Delete(l.heights.heights, at, at+n)
	l.heights.rebuild()
	l.measured = slices.Delete(l.measured, at, at+n)
	moved := make(map[int]fyne.CanvasObject, len(l.rows))
	for i, o := range l.rows {
		switch {
		case i < at:
			moved[i] = o
		case i >= at+n:
			moved[i-n] = o
		}
	}
	l.rows = moved
	l.Refresh()
}

// CodeList is Code of any length that scrolls by itself.
func CodeList(lines [][]Span, size, lead float32) *List {
	digits := max(2, len(number(len(lines))))
	l := NewList(lead, func(i int) fyne.CanvasObject { return codeRow(lines[i], i+1, digits, size, lead) })
	l.Reset(len(lines))
	return l
}

func number(n int) string { return strconv.Itoa(n) }

func codeRow(line []Span, n, digits int, size, lead float32) fyne.CanvasObject {
	gutter := 12 + ceil(float32(digits)*fyne.MeasureText("0", SizeSmall, Mono.fyne()).Width)
	cell := Sized(gutter, lead, Row(0, Grow(Note(number(n), Mono).Right())))
	return Columns(14, Fix(gutter, Col(0, cell)), Grow(newCodeLine(plainRuns(line, Ink), size, lead)))
}

// Rebuild has the rows from one on built anew; their heights are kept.
func (l *List) Rebuild(from int) {
	for i := range l.rows {
		if i >= from {
			delete(l.rows, i)
		}
	}
	l.Refresh()
}
