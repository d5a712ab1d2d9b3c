package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
)

// Kind is how a button looks.
type Kind int

// The kinds.
const (
	Plain       Kind = iota
	Primary          // filled; at most one in a window
	QuietButton      // no border
	Danger           // red on a plain button
	QuietDanger      // red, no border
	Tint             // tinted, never filled
)

// Button is a push button, 32 high. Space and Enter activate it: see NoEnter. A
// key that was held down before the button got the focus does nothing.
type Button struct {
	control
	OnTapped func()

	kind          Kind
	label         string
	before, after Shape
	height, least float32
}

// NewButton makes a button.
func NewButton(kind Kind, label string, tapped func()) *Button {
	b := &Button{OnTapped: tapped, kind: kind, label: label, height: 32}
	b.enter = true
	b.act = func() {
		if b.OnTapped != nil {
			b.OnTapped()
		}
	}
	b.extend(b)
	return b
}

// Icon puts a shape before the label and returns b.
func (b *Button) Icon(s Shape) *Button { b.before = s; return b }

// After puts a shape behind the label and returns b.
func (b *Button) After(s Shape) *Button { b.after = s; return b }

// Small makes the button 28 high and returns b.
func (b *Button) Small() *Button { b.height = 28; return b }

// Tall makes the button as high as a field, 38, and returns b.
func (b *Button) Tall() *Button { b.height = fieldHeight; return b }

// Least sets the smallest width and returns b.
func (b *Button) Least(width float32) *Button { b.least = width; return b }

// NoEnter keeps Enter from activating the button and returns b; Enter then goes
// on to the window.
func (b *Button) NoEnter() *Button { b.enter = false; return b }

// Label returns the label.
func (b *Button) Label() string { return b.label }

// SetLabel replaces the label.
func (b *Button) SetLabel(label string) { b.label = label; b.Refresh() }

// SetKind replaces the kind.
func (b *Button) SetKind(k Kind) { b.kind = k; b.Refresh() }

func (b *Button) colors() (fill, edge, text Color) {
	switch b.kind {
	case Primary:
		fill, edge, text = Accent, Accent, OnAccent
	case QuietButton:
		fill, edge, text = None, None, Ink
	case QuietDanger:
		fill, edge, text = None, None, Wrong
	case Danger:
		fill, edge, text = Raised, Edge, Wrong
	case Tint:
		fill, edge, text = AccentTint, AccentLine, Accent
	default:
		fill, edge, text = Raised, Edge, Ink
	}
	if b.hover && b.kind != Primary && b.kind != Tint {
		fill = Hover
	}
	if b.hover && b.kind == Tint {
		edge = Accent
	}
	if b.Disabled() {
		text = Quiet
		if b.kind != QuietButton && b.kind != QuietDanger {
			fill, edge = Sunken, Line
		}
	}
	return fill, edge, text
}

// CreateRenderer is Fyne's.
func (b *Button) CreateRenderer() fyne.WidgetRenderer {
	r := &buttonRenderer{
		b:      b,
		ring:   newRing(9),
		ground: newFill(None, None, 6),
		before: NewIcon(ShapeCheck, 14, Ink),
		label:  Body(""),
		after:  NewIcon(ShapeCheck, 12, Ink),
	}
	r.row = Row(6, r.before, r.label, r.after)
	r.style()
	return r
}

type buttonRenderer struct {
	b             *Button
	ring, ground  *Fill
	before, after *Icon
	label         *Text
	row           *fyne.Container
}

func (r *buttonRenderer) Destroy() {}
func (r *buttonRenderer) Objects() []fyne.CanvasObject {
	return []fyne.CanvasObject{r.ring, r.ground, r.row}
}

func (r *buttonRenderer) style() {
	fill, edge, text := r.b.colors()
	r.ground.SetColors(fill, edge)
	r.ring.Hidden = !r.b.focused
	setIcon(r.before, r.b.before, text)
	setIcon(r.after, r.b.after, text)
	r.label.SetText(r.b.label)
	r.label.SetColor(text)
	if r.b.kind == Primary || r.b.kind == Tint {
		r.label.SetStyle(Bold)
	} else {
		r.label.SetStyle()
	}
}

func setIcon(i *Icon, s Shape, c Color) {
	i.Hidden = s == ""
	if s != "" {
		i.Set(s, c)
	}
}

func (r *buttonRenderer) MinSize() fyne.Size {
	side := float32(14)
	if r.b.height < 32 {
		side = 10
	}
	return fyne.NewSize(max(r.b.least, r.row.MinSize().Width+2*side), r.b.height)
}

func (r *buttonRenderer) Layout(size fyne.Size) {
	placeRing(r.ring, size)
	r.ground.Resize(size)
	w := min(r.row.MinSize().Width, size.Width)
	r.row.Move(fyne.NewPos(round((size.Width-w)/2), 0))
	r.row.Resize(fyne.NewSize(w, size.Height))
}

func (r *buttonRenderer) Refresh() {
	r.style()
	r.Layout(r.b.Size())
	canvas.Refresh(r.b)
}
