package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
)

// FieldFor is Field for widgets that extend Fyne's entry.
func FieldFor(o fyne.CanvasObject, multiLine bool, height float32) *fyne.Container {
	if height == 0 {
		height = fieldHeight
	}
	pad := fieldPadding
	if !multiLine {
		pad += min((height-fieldHeight)/2, 0)
	}
	return Sized(0, height, Pad(-1, 0, 0, -1, container.NewThemeOverride(o, fieldTheme{padding: pad})))
}
