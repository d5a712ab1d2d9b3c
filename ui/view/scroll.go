package view

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/theme"

	"github.com/reevehq/reeve/ui/view/kit"
)

// scroll is kit.Scroll without the shadows that Fyne puts at its edges.
func scroll(o fyne.CanvasObject) fyne.CanvasObject {
	return container.NewThemeOverride(kit.Scroll(o), flat{})
}

// flat is the program's theme without shadows.
type flat struct{}

func (flat) theme() fyne.Theme { return fyne.CurrentApp().Settings().Theme() }

func (f flat) Color(n fyne.ThemeColorName, v fyne.ThemeVariant) color.Color {
	if n == theme.ColorNameShadow {
		return color.Transparent
	}
	return f.theme().Color(n, v)
}
func (f flat) Font(s fyne.TextStyle) fyne.Resource     { return f.theme().Font(s) }
func (f flat) Icon(n fyne.ThemeIconName) fyne.Resource { return f.theme().Icon(n) }
func (f flat) Size(n fyne.ThemeSizeName) float32       { return f.theme().Size(n) }
