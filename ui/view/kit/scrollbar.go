package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"
)

// scrollBar is a List's: it shows where the view is and can be dragged.
type scrollBar struct {
	widget.BaseWidget
	list *List
	lit  bool
	grip *Fill
}

func newScrollBar(l *List) *scrollBar {
	b := &scrollBar{list: l, grip: newFill(Edge, None, 3)}
	b.ExtendBaseWidget(b)
	return b
}

// grip gives the height of the handle and the length it can travel.
func (b *scrollBar) measure() (handle, travel float32) {
	h := b.Size().Height
	total := b.list.heights.total()
	if total <= 0 {
		return h, 0
	}
	handle = min(max(24, h*float32(float64(h)/total)), h)
	return handle, h - handle
}

// Dragged scrolls in proportion.
func (b *scrollBar) Dragged(e *fyne.DragEvent) {
	if _, travel := b.measure(); travel > 0 {
		b.list.scrollBy(float64(e.Dragged.DY) / float64(travel) * b.list.end())
	}
}

// DragEnd is Fyne's.
func (b *scrollBar) DragEnd() {}

// Tapped goes a page towards the pointer.
func (b *scrollBar) Tapped(e *fyne.PointEvent) {
	page := float64(b.list.Size().Height) - 40
	if e.Position.Y < b.grip.Position().Y {
		b.list.scrollBy(-page)
	} else if e.Position.Y > b.grip.Position().Y+b.grip.Size().Height {
		b.list.scrollBy(page)
	}
}

// MouseIn is Fyne's.
func (b *scrollBar) MouseIn(*desktop.MouseEvent) { b.lit = true; b.Refresh() }

// MouseMoved is Fyne's.
func (b *scrollBar) MouseMoved(*desktop.MouseEvent) {}

// MouseOut is Fyne's.
func (b *scrollBar) MouseOut() { b.lit = false; b.Refresh() }

// CreateRenderer is Fyne's.
func (b *scrollBar) CreateRenderer() fyne.WidgetRenderer { return &scrollBarRenderer{b} }

type scrollBarRenderer struct{ b *scrollBar }

func (r *scrollBarRenderer) Destroy()                     {}
func (r *scrollBarRenderer) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{r.b.grip} }
func (r *scrollBarRenderer) MinSize() fyne.Size           { return fyne.NewSize(barWidth, 24) }

func (r *scrollBarRenderer) Layout(fyne.Size) {
	handle, travel := r.b.measure()
	var y float32
	if end := r.b.list.end(); end > 0 {
		y = travel * float32(r.b.list.offset/end)
	}
	r.b.grip.Hidden = travel <= 0
	r.b.grip.Move(fyne.NewPos(2, round(y)))
	r.b.grip.Resize(fyne.NewSize(6, round(handle)))
}

func (r *scrollBarRenderer) Refresh() {
	if r.b.lit {
		r.b.grip.SetColors(InputEdge, None)
	} else {
		r.b.grip.SetColors(Edge, None)
	}
	r.Layout(r.b.Size())
}
