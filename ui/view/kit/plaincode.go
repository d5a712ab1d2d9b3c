package kit

import "fyne.io/fyne/v2"

// PlainCode is lines of code with neither numbers nor ground.
func PlainCode(lines [][]Span, size, lead float32) *fyne.Container {
	rows := make([]fyne.CanvasObject, len(lines))
	for i, l := range lines {
		rows[i] = newCodeLine(plainRuns(l, Ink), size, lead)
	}
	return Col(0, rows...)
}
