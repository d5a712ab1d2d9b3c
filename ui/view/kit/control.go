package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"
)

// control is what all widgets share that take the mouse and the keyboard.
//
// Space and a tap activate; Enter does too where enter is set. One press
// activates once, and only when the key went down while the widget had the
// focus: a key held from before, or repeating, does nothing. (The desktop driver
// calls KeyDown and TypedKey for a press, TypedKey alone for a repeat; tests
// press keys the same way.) Keys a widget does not use go on to its window,
// which Fyne asks only when nothing has the focus.
type control struct {
	widget.DisableableWidget
	self           fyne.Widget
	enter          bool
	act            func()
	move           func(fyne.KeyName) bool // other keys; false: not used
	focused, hover bool
	pressed        fyne.KeyName
}

var (
	_ fyne.Focusable    = (*control)(nil)
	_ fyne.Tappable     = (*control)(nil)
	_ desktop.Hoverable = (*control)(nil)
	_ desktop.Keyable   = (*control)(nil)
)

func (c *control) extend(w fyne.Widget) {
	c.self = w
	c.ExtendBaseWidget(w)
}

func (c *control) activate() {
	if !c.Disabled() && c.act != nil {
		c.act()
	}
}

// Tapped activates the widget.
func (c *control) Tapped(*fyne.PointEvent) { c.activate() }

// MouseIn is Fyne's.
func (c *control) MouseIn(*desktop.MouseEvent) { c.hover = true; c.Refresh() }

// MouseMoved is Fyne's.
func (c *control) MouseMoved(*desktop.MouseEvent) {}

// MouseOut is Fyne's.
func (c *control) MouseOut() { c.hover = false; c.Refresh() }

// FocusGained is Fyne's.
func (c *control) FocusGained() { c.focused = true; c.Refresh() }

// FocusLost is Fyne's.
func (c *control) FocusLost() { c.focused, c.pressed = false, ""; c.Refresh() }

// TypedRune is Fyne's.
func (c *control) TypedRune(rune) {}

// KeyDown is Fyne's.
func (c *control) KeyDown(e *fyne.KeyEvent) { c.pressed = e.Name }

// KeyUp is Fyne's.
func (c *control) KeyUp(*fyne.KeyEvent) { c.pressed = "" }

// TypedKey is Fyne's.
func (c *control) TypedKey(e *fyne.KeyEvent) {
	isEnter := e.Name == fyne.KeyReturn || e.Name == fyne.KeyEnter
	if e.Name == fyne.KeySpace || c.enter && isEnter {
		fresh := c.pressed == e.Name
		c.pressed = ""
		if fresh {
			c.activate()
		}
		return
	}
	if c.move != nil && !c.Disabled() && c.move(e.Name) {
		return
	}
	passOn(c.self, e)
}

// passOn gives a key that o does not use to o's window.
func passOn(o fyne.CanvasObject, e *fyne.KeyEvent) {
	if c := fyne.CurrentApp().Driver().CanvasForObject(o); c != nil {
		if typed := c.OnTypedKey(); typed != nil {
			typed(e)
		}
	}
}

// focus moves the keyboard to w, if it is in a window.
func focus(w interface {
	fyne.CanvasObject
	fyne.Focusable
}) {
	if c := fyne.CurrentApp().Driver().CanvasForObject(w); c != nil {
		c.Focus(w)
	}
}

// newRing makes a focus ring, hidden at first.
func newRing(radius float32) *Fill {
	f := newFill(None, Accent, radius)
	f.width = 2
	f.Hidden = true
	return f
}

// placeRing lays the ring around a widget of the given size.
func placeRing(f *Fill, size fyne.Size) {
	f.Move(fyne.NewPos(-3, -3))
	f.Resize(size.AddWidthHeight(6, 6))
}

// view is the renderer of widgets that are one object with a layout, refreshed
// by a function.
type view struct {
	o     fyne.CanvasObject
	style func()
	ring  *Fill // may be nil
}

func (v *view) Destroy() {}
func (v *view) Objects() []fyne.CanvasObject {
	if v.ring != nil {
		return []fyne.CanvasObject{v.ring, v.o}
	}
	return []fyne.CanvasObject{v.o}
}
func (v *view) MinSize() fyne.Size { return v.o.MinSize() }
func (v *view) Layout(size fyne.Size) {
	if v.ring != nil {
		placeRing(v.ring, size)
	}
	v.o.Resize(size)
}
func (v *view) Refresh() {
	v.style()
	v.o.Refresh()
	if v.ring != nil {
		v.ring.Refresh()
	}
}
