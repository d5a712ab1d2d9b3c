package kit

import "fyne.io/fyne/v2"

// Press is any content as one thing to press, such as a row that opens
// something. A click, Space or Enter presses it; buttons inside stay buttons.
type Press struct {
	control
	OnTapped func()

	content *fyne.Container
	radius  float32
}

// NewPress makes one; radius rounds the ground that shows under the pointer.
func NewPress(content fyne.CanvasObject, radius float32, tapped func()) *Press {
	p := &Press{OnTapped: tapped, content: Sized(0, 0, content), radius: radius}
	p.enter = true
	p.act = func() {
		if p.OnTapped != nil {
			p.OnTapped()
		}
	}
	p.extend(p)
	return p
}

// SetContent replaces what is shown.
func (p *Press) SetContent(o fyne.CanvasObject) {
	p.content.Objects = []fyne.CanvasObject{o}
	p.content.Refresh()
}

func (p *Press) heightFor(width float32) float32 { return HeightFor(p.content, width) }

// CreateRenderer is Fyne's.
func (p *Press) CreateRenderer() fyne.WidgetRenderer {
	ground := newFill(None, None, p.radius)
	inner := newFill(None, None, p.radius)
	inner.width = 2
	v := &view{o: Sized(0, 0, ground, inner, p.content)}
	v.style = func() {
		ground.SetColors(None, None)
		inner.SetColors(None, None)
		if p.hover && !p.Disabled() {
			ground.SetColors(Hover, None)
		}
		if p.focused {
			inner.SetColors(None, Accent)
		}
	}
	v.style()
	return v
}
