package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"
)

// Backdrop lies under an open menu, over everything else: a click that misses
// the menu goes to it and nowhere else. It draws nothing.
type Backdrop struct {
	widget.BaseWidget
	onTapped func()
}

// NewBackdrop makes one.
func NewBackdrop(tapped func()) *Backdrop {
	b := &Backdrop{onTapped: tapped}
	b.ExtendBaseWidget(b)
	return b
}

var _ desktop.Hoverable = (*Backdrop)(nil)

// Tapped is Fyne's.
func (b *Backdrop) Tapped(*fyne.PointEvent) { b.onTapped() }

// MouseIn is Fyne's.
func (b *Backdrop) MouseIn(*desktop.MouseEvent) {}

// MouseMoved is Fyne's.
func (b *Backdrop) MouseMoved(*desktop.MouseEvent) {}

// MouseOut is Fyne's.
func (b *Backdrop) MouseOut() {}

// CreateRenderer is Fyne's.
func (b *Backdrop) CreateRenderer() fyne.WidgetRenderer {
	return widget.NewSimpleRenderer(canvas.NewRectangle(color.Transparent))
}

// Menu is a panel that lies over others.
func Menu(o fyne.CanvasObject) *fyne.Container {
	return Sized(0, 0, NewBackdrop(func() {}), newFill(Raised, Edge, 8), o)
}
