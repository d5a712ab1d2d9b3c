package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/theme"
	"fyne.io/fyne/v2/widget"
)

// colorOf gives a colour as the theme around w has it now.
func colorOf(w fyne.Widget, c Color) color.Color {
	if c == None {
		return color.Transparent
	}
	return theme.ColorForWidget(c, w)
}

// Fill is a rectangle in colours of the palette.
type Fill struct {
	widget.BaseWidget
	fill, stroke  Color
	radius, width float32
	rect          *canvas.Rectangle
}

// NewFill makes a plain rectangle.
func NewFill(c Color) *Fill { return newFill(c, None, 0) }

func newFill(fill, stroke Color, radius float32) *Fill {
	f := &Fill{fill: fill, stroke: stroke, radius: radius, width: 1}
	f.ExtendBaseWidget(f)
	return f
}

// SetColors replaces the fill and the border; None draws none.
func (f *Fill) SetColors(fill, stroke Color) {
	if f.fill != fill || f.stroke != stroke {
		f.fill, f.stroke = fill, stroke
		f.Refresh()
	}
}

// CreateRenderer is Fyne's.
func (f *Fill) CreateRenderer() fyne.WidgetRenderer {
	f.rect = canvas.NewRectangle(color.Transparent)
	r := &fillRenderer{f: f}
	r.style()
	return r
}

type fillRenderer struct{ f *Fill }

func (r *fillRenderer) Destroy()                     {}
func (r *fillRenderer) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{r.f.rect} }
func (r *fillRenderer) MinSize() fyne.Size           { return fyne.Size{} }
func (r *fillRenderer) Layout(size fyne.Size)        { r.f.rect.Resize(size) }

func (r *fillRenderer) style() {
	f := r.f
	f.rect.FillColor = colorOf(f, f.fill)
	f.rect.StrokeColor = colorOf(f, f.stroke)
	f.rect.CornerRadius = f.radius
	f.rect.StrokeWidth = 0
	if f.stroke != None {
		f.rect.StrokeWidth = f.width
	}
}

func (r *fillRenderer) Refresh() {
	r.style()
	r.f.rect.Refresh()
}

// Over lays o on a plain ground.
func Over(ground Color, o fyne.CanvasObject) *fyne.Container { return Sized(0, 0, NewFill(ground), o) }

// Box lays o on a rounded rectangle with a border; None leaves out either.
func Box(fill, stroke Color, radius float32, o fyne.CanvasObject) *fyne.Container {
	return Sized(0, 0, newFill(fill, stroke, radius), o)
}

// Card is the surface on which lists and sections lie.
func Card(o fyne.CanvasObject) *fyne.Container { return Box(Surface, Line, 8, o) }

// Rows is a Card with hairlines between its objects, which start inset from the
// left.
func Rows(inset float32, objects ...fyne.CanvasObject) *fyne.Container {
	return Card(separated(Line, inset, objects))
}

// TintedRows is Rows on a tint, such as WaitingTint with WaitingLine.
func TintedRows(tint, line Color, inset float32, objects ...fyne.CanvasObject) *fyne.Container {
	return Box(tint, line, 8, separated(line, inset, objects))
}

func separated(line Color, inset float32, objects []fyne.CanvasObject) *fyne.Container {
	var all []fyne.CanvasObject
	for i, o := range objects {
		if i > 0 {
			all = append(all, Pad(0, 1, 0, inset, Sized(0, 1, NewFill(line))))
		}
		all = append(all, o)
	}
	return Col(0, all...)
}

// HLine is a hairline across.
func HLine() fyne.CanvasObject { return Sized(0, 1, NewFill(Line)) }

// VLine is a hairline from top to bottom, for Columns.
func VLine() fyne.CanvasObject { return Sized(1, 0, NewFill(Line)) }
