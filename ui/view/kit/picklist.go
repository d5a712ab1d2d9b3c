package kit

import (
	"fyne.io/fyne/v2"
)

// PickList is a List of which one row is chosen, by a click or the arrow keys.
// It is one stop of the keyboard, however many rows it has.
type PickList struct {
	List
	OnChosen func(i int)

	chosen  int
	focused bool
}

// NewPickList makes an empty list; nothing is chosen. build makes row i without
// its ground; rows are not to take clicks themselves.
func NewPickList(estimate float32, build func(i int) fyne.CanvasObject, chosen func(i int)) *PickList {
	p := &PickList{OnChosen: chosen, chosen: -1}
	p.init(p, estimate, func(i int) fyne.CanvasObject { return p.row(i, build(i)) })
	return p
}

func (p *PickList) row(i int, o fyne.CanvasObject) fyne.CanvasObject {
	ground := newFill(None, None, 6)
	ground.width = 2
	if i == p.chosen {
		ground.SetColors(Selected, None)
		if p.focused {
			ground.SetColors(Selected, Accent)
		}
	}
	return Sized(0, 0, ground, o)
}

// Chosen is the chosen row, or -1.
func (p *PickList) Chosen() int { return p.chosen }

// Set chooses row i, or none with -1, without calling OnChosen.
func (p *PickList) Set(i int) {
	if i == p.chosen {
		return
	}
	was := p.chosen
	p.chosen = i
	p.redraw(was)
	p.redraw(i)
	p.reveal(i)
}

func (p *PickList) redraw(i int) {
	if i >= 0 && i < p.Len() {
		p.Changed(i)
	}
}

func (p *PickList) choose(i int) {
	if i < 0 || i >= p.Len() || i == p.chosen {
		return
	}
	p.Set(i)
	if p.OnChosen != nil {
		p.OnChosen(i)
	}
}

// Tapped chooses the row under the pointer.
func (p *PickList) Tapped(e *fyne.PointEvent) {
	at := p.offset + float64(e.Position.Y)
	if p.Len() > 0 && at < p.heights.total() {
		i, _ := p.heights.find(at)
		p.choose(i)
	}
	focus(p) // which chooses the first row if none is chosen yet
}

// FocusGained is Fyne's.
func (p *PickList) FocusGained() {
	p.focused = true
	if p.chosen < 0 {
		p.choose(0)
	}
	p.redraw(p.chosen)
	p.List.FocusGained()
}

// FocusLost is Fyne's.
func (p *PickList) FocusLost() {
	p.focused = false
	p.redraw(p.chosen)
	p.List.FocusLost()
}

// TypedKey moves the choice.
func (p *PickList) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeyUp:
		p.choose(p.chosen - 1)
	case fyne.KeyDown:
		p.choose(p.chosen + 1)
	case fyne.KeyHome:
		p.choose(0)
	case fyne.KeyEnd:
		p.choose(p.Len() - 1)
	default:
		p.List.TypedKey(e)
	}
}
