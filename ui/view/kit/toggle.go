package kit

import (
	"fyne.io/fyne/v2"
)

// CheckBox is a box with a label; Space or a click turns it.
type CheckBox struct {
	control
	OnChanged func(on bool)
	on        bool
	swtch     bool
	label     fyne.CanvasObject
}

// NewCheckBox makes a check box. The label is any object, often Body(…); a
// Paragraph wraps beside the box.
func NewCheckBox(label fyne.CanvasObject, on bool, changed func(bool)) *CheckBox {
	c := &CheckBox{OnChanged: changed, on: on, label: label}
	c.act = func() {
		c.Set(!c.on)
		if c.OnChanged != nil {
			c.OnChanged(c.on)
		}
	}
	c.extend(c)
	return c
}

// NewSwitch is a check box drawn as a switch, for what takes effect at once.
func NewSwitch(label fyne.CanvasObject, on bool, changed func(bool)) *CheckBox {
	c := NewCheckBox(label, on, changed)
	c.swtch = true
	return c
}

// On tells whether it is ticked.
func (c *CheckBox) On() bool { return c.on }

// Set ticks or clears it without calling OnChanged.
func (c *CheckBox) Set(on bool) {
	if c.on != on {
		c.on = on
		c.Refresh()
	}
}

// markSide is the side of the box or circle before a label, and markGap what is
// between the two.
const (
	markSide = 16
	markGap  = 8
)

// marked puts a box or circle before its label, beside the first line of one
// that wraps.
func marked(mark, label fyne.CanvasObject) fyne.CanvasObject {
	if p, wraps := label.(*Paragraph); wraps {
		return Columns(markGap, Fix(markSide, Col(0, Gap((p.lead-markSide)/2), Fix(markSide, mark))), Grow(Col(0, label)))
	}
	return Row(markGap, mark, label)
}

// markedHeight is the height of what marked makes.
func markedHeight(label fyne.CanvasObject, width float32) float32 {
	return max(markSide, HeightFor(label, width-markSide-markGap))
}

// heightFor is exact for labels that wrap.
func (c *CheckBox) heightFor(width float32) float32 {
	if c.swtch {
		return c.MinSize().Height
	}
	return markedHeight(c.label, width)
}

// CreateRenderer is Fyne's.
func (c *CheckBox) CreateRenderer() fyne.WidgetRenderer {
	if c.swtch {
		return c.switchRenderer()
	}
	box := newFill(Surface, InputEdge, 4)
	tick := NewIcon(ShapeCheck, 12, OnAccent)
	v := &view{
		o:    marked(Sized(markSide, markSide, box, Pad(2, 2, 2, 2, tick)), c.label),
		ring: newRing(6),
	}
	v.style = func() {
		v.ring.Hidden = !c.focused
		tick.Hidden = !c.on
		fill, edge, mark := Surface, InputEdge, OnAccent
		switch {
		case c.Disabled():
			fill, edge, mark = Sunken, Edge, Quiet
		case c.on:
			fill, edge = Accent, Accent
		case c.hover:
			fill = Hover
		}
		box.SetColors(fill, edge)
		tick.Set(ShapeCheck, mark)
	}
	v.style()
	return v
}

func (c *CheckBox) switchRenderer() fyne.WidgetRenderer {
	track := newFill(Track, InputEdge, 9)
	knob := newFill(InputEdge, None, 6)
	on, off := &space{}, &space{} // push the knob to its side
	v := &view{
		o:    Row(8, Sized(32, 18, track, Pad(3, 3, 3, 3, Row(0, on, Fix(12, Sized(12, 12, knob)), off))), c.label),
		ring: newRing(9),
	}
	v.style = func() {
		v.ring.Hidden = !c.focused
		on.length, off.length = 0, 14
		if c.on {
			on.length, off.length = 14, 0
		}
		fill, edge, mark := Track, InputEdge, InputEdge
		switch {
		case c.Disabled():
			fill, edge, mark = Sunken, Edge, Edge
		case c.on:
			fill, edge, mark = Accent, Accent, OnAccent
		}
		track.SetColors(fill, edge)
		knob.SetColors(mark, None)
	}
	v.style()
	return v
}

// Radio is one of several choices: see Radios.
type Radio struct {
	control
	chosen bool
	card   bool
	label  fyne.CanvasObject
}

// NewRadio makes a choice with any object as its label; a Paragraph wraps
// beside the circle.
func NewRadio(label fyne.CanvasObject) *Radio {
	r := &Radio{label: label}
	r.extend(r)
	return r
}

// NewRadioCard makes a choice drawn as a card, its circle beside the first line
// of the content.
func NewRadioCard(content fyne.CanvasObject) *Radio {
	r := NewRadio(content)
	r.card = true
	return r
}

// Chosen tells whether this is the choice.
func (r *Radio) Chosen() bool { return r.chosen }

// heightFor is exact for labels that wrap.
func (r *Radio) heightFor(width float32) float32 {
	if !r.card {
		return markedHeight(r.label, width)
	}
	return HeightFor(r.label, width-24-markSide-markGap) + 24
}

// CreateRenderer is Fyne's.
func (r *Radio) CreateRenderer() fyne.WidgetRenderer {
	circle := newFill(Surface, InputEdge, 8)
	dot := newFill(OnAccent, None, 3)
	mark := Sized(markSide, markSide, circle, Pad(5, 5, 5, 5, dot))
	ground := newFill(Surface, Edge, 8)
	v := &view{ring: newRing(10)}
	if r.card {
		v.o = Sized(0, 0, ground, Pad(12, 12, 12, 12, Columns(markGap, Fix(markSide, Col(0, Gap(1), mark)), Grow(Col(0, r.label)))))
	} else {
		v.o = marked(mark, r.label)
	}
	v.style = func() {
		v.ring.Hidden = !r.focused
		dot.Hidden = !r.chosen
		fill, edge := Surface, InputEdge
		if r.chosen {
			fill, edge = Accent, Accent
		}
		if r.Disabled() {
			fill, edge = Sunken, Edge
		}
		circle.SetColors(fill, edge)
		ground.width = 1
		switch {
		case r.chosen:
			ground.width = 2
			ground.SetColors(AccentTint, Accent)
		case r.hover && !r.Disabled():
			ground.SetColors(Hover, Edge)
		default:
			ground.SetColors(Surface, Edge)
		}
	}
	v.style()
	return v
}

// Radios keeps one of its radios chosen. The arrow keys move the choice.
type Radios struct {
	OnChanged func(i int)
	radios    []*Radio
	chosen    int
}

// NewRadios ties radios together; chosen may be -1 for none yet.
func NewRadios(chosen int, changed func(i int), radios ...*Radio) *Radios {
	g := &Radios{OnChanged: changed, radios: radios, chosen: -1}
	for i, r := range radios {
		r.act = func() { g.choose(i) }
		r.move = func(k fyne.KeyName) bool { return g.key(i, k) }
	}
	g.Set(chosen)
	return g
}

// Chosen is the index of the choice, or -1.
func (g *Radios) Chosen() int { return g.chosen }

// Set chooses without calling OnChanged.
func (g *Radios) Set(i int) {
	g.chosen = i
	for j, r := range g.radios {
		if r.chosen != (i == j) {
			r.chosen = i == j
			r.Refresh()
		}
	}
}

func (g *Radios) choose(i int) {
	if g.chosen == i {
		return
	}
	g.Set(i)
	if g.OnChanged != nil {
		g.OnChanged(i)
	}
}

func (g *Radios) key(i int, k fyne.KeyName) bool {
	step := arrowStep(k)
	if step == 0 {
		return false
	}
	for n := i + step; n >= 0 && n < len(g.radios); n += step {
		if !g.radios[n].Disabled() {
			g.choose(n)
			focus(g.radios[n])
			break
		}
	}
	return true
}

// arrowStep is -1 for left and up, 1 for right and down, 0 for other keys.
func arrowStep(k fyne.KeyName) int {
	switch k {
	case fyne.KeyLeft, fyne.KeyUp:
		return -1
	case fyne.KeyRight, fyne.KeyDown:
		return 1
	}
	return 0
}
