package kit

import (
	"strconv"

	"fyne.io/fyne/v2"
)

// picker is what Segments and Tabs share: one focus stop, a chosen item that
// the arrow keys move and a click sets.
type picker struct {
	control
	OnChanged func(i int)
	chosen    int
	cells     []fyne.CanvasObject // where the items lie, for clicks
	n         int
}

func (p *picker) init(w fyne.Widget, n, chosen int, changed func(int)) {
	p.n, p.chosen, p.OnChanged = n, chosen, changed
	p.move = func(k fyne.KeyName) bool {
		step := arrowStep(k)
		switch {
		case k == fyne.KeyHome:
			p.choose(0)
		case k == fyne.KeyEnd:
			p.choose(p.n - 1)
		case step != 0 && p.chosen+step >= 0 && p.chosen+step < p.n:
			p.choose(p.chosen + step)
		case step == 0:
			return false
		}
		return true
	}
	p.extend(w)
}

// Chosen is the index of the chosen item.
func (p *picker) Chosen() int { return p.chosen }

// Set chooses without calling OnChanged.
func (p *picker) Set(i int) {
	if p.chosen != i {
		p.chosen = i
		p.Refresh()
	}
}

func (p *picker) choose(i int) {
	if p.chosen == i || p.Disabled() {
		return
	}
	p.Set(i)
	if p.OnChanged != nil {
		p.OnChanged(i)
	}
}

// Tapped chooses the item under the pointer.
func (p *picker) Tapped(e *fyne.PointEvent) {
	for i, o := range p.cells {
		x := o.Position().X
		if e.Position.X >= x && e.Position.X < x+o.Size().Width {
			p.choose(i)
			return
		}
	}
}

// Segments is a row of joined choices, as for filters.
type Segments struct {
	picker
	labels []string
}

// NewSegments makes a segmented control.
func NewSegments(chosen int, changed func(i int), labels ...string) *Segments {
	s := &Segments{labels: labels}
	s.init(s, len(labels), chosen, changed)
	return s
}

// CreateRenderer is Fyne's.
func (s *Segments) CreateRenderer() fyne.WidgetRenderer {
	texts := make([]*Text, len(s.labels))
	grounds := make([]*Fill, len(s.labels))
	s.cells = make([]fyne.CanvasObject, len(s.labels))
	for i, l := range s.labels {
		texts[i] = Note(l, Bold).Middle() // measured bold, so that choosing moves nothing
		grounds[i] = newFill(None, None, 5)
		w := texts[i].naturalWidth() + 20
		s.cells[i] = Sized(w, 24, grounds[i], Pad(0, 0, 0, 0, Row(0, Grow(texts[i]))))
	}
	row := Row(2, s.cells...)
	v := &view{o: Sized(0, 28, newFill(Selected, None, 7), Pad(2, 2, 2, 2, row)), ring: newRing(9)}
	v.style = func() {
		v.ring.Hidden = !s.focused
		for i := range texts {
			if i == s.chosen {
				texts[i].SetStyle(Bold)
				texts[i].SetColor(Ink)
				grounds[i].SetColors(Raised, Edge)
			} else {
				texts[i].SetStyle()
				texts[i].SetColor(Quiet)
				grounds[i].SetColors(None, None)
			}
		}
	}
	v.style()
	return v
}

// Tabs is a row of underlined titles, 40 high, some with counts.
type Tabs struct {
	picker
	titles []string
	counts []int
}

// NewTabs makes tabs without counts.
func NewTabs(chosen int, changed func(i int), titles ...string) *Tabs {
	t := &Tabs{titles: titles, counts: make([]int, len(titles))}
	t.init(t, len(titles), chosen, changed)
	return t
}

// SetCount shows n behind title i; 0 shows none.
func (t *Tabs) SetCount(i, n int) {
	if t.counts[i] != n {
		t.counts[i] = n
		t.Refresh()
	}
}

// CreateRenderer is Fyne's.
func (t *Tabs) CreateRenderer() fyne.WidgetRenderer {
	n := len(t.titles)
	texts, counts := make([]*Text, n), make([]*Text, n)
	pills := make([]*fyne.Container, n)
	lines := make([]*Fill, n)
	t.cells = make([]fyne.CanvasObject, n)
	for i, title := range t.titles {
		texts[i] = Body(title, Bold)
		counts[i] = Note("")
		pills[i] = Pill(counts[i], Selected)
		lines[i] = NewFill(None)
		place := Fix(texts[i].naturalWidth(), texts[i]) // measured bold, so that choosing moves nothing
		t.cells[i] = Sized(0, 40, Col(0, Grow(Pad(0, 2, 0, 2, Row(6, place, pills[i]))), Fix(2, lines[i])))
	}
	row := Row(20, t.cells...)
	v := &view{o: row, ring: newRing(6)}
	v.style = func() {
		v.ring.Hidden = !t.focused
		for i := range texts {
			color, under := Quiet, None
			texts[i].SetStyle()
			if i == t.chosen {
				color, under = Ink, Accent
				texts[i].SetStyle(Bold)
			}
			texts[i].SetColor(color)
			lines[i].SetColors(under, None)
			counts[i].SetColor(color)
			counts[i].SetText(strconv.Itoa(t.counts[i]))
			pills[i].Hidden = t.counts[i] == 0
		}
	}
	v.style()
	return v
}

// NavItem is an entry of the side bar, 32 high.
type NavItem struct {
	control
	OnTapped func()
	shape    Shape
	label    string
	count    int
	waiting  bool
	selected bool
}

// NewNavItem makes an entry.
func NewNavItem(s Shape, label string, tapped func()) *NavItem {
	n := &NavItem{OnTapped: tapped, shape: s, label: label}
	n.enter = true
	n.act = func() {
		if n.OnTapped != nil {
			n.OnTapped()
		}
	}
	n.extend(n)
	return n
}

// SetCount shows a count at the right, 0 none; waiting marks it as something
// that needs the user.
func (n *NavItem) SetCount(count int, waiting bool) {
	n.count, n.waiting = count, waiting
	n.Refresh()
}

// SetSelected marks the entry whose page is shown.
func (n *NavItem) SetSelected(on bool) { n.selected = on; n.Refresh() }

// CreateRenderer is Fyne's.
func (n *NavItem) CreateRenderer() fyne.WidgetRenderer {
	ground := newFill(None, None, 6)
	icon := NewIcon(n.shape, 16, Quiet)
	label := Body(n.label).CutEnd()
	mark := NewIcon(ShapeNeeds, 11, Waiting)
	count := Note("")
	v := &view{
		o:    Sized(0, 32, ground, Pad(0, 10, 0, 10, Row(10, icon, Grow(label), Row(4, mark, count)))),
		ring: newRing(8),
	}
	v.style = func() {
		v.ring.Hidden = !n.focused
		ground.SetColors(None, None)
		label.SetStyle()
		icon.Set(n.shape, Quiet)
		if n.hover {
			ground.SetColors(Hover, None)
		}
		if n.selected {
			ground.SetColors(Selected, None)
			label.SetStyle(Bold)
			icon.Set(n.shape, Ink)
		}
		count.Hidden = n.count == 0
		mark.Hidden = n.count == 0 || !n.waiting
		count.SetText(strconv.Itoa(n.count))
		count.SetColor(Quiet)
		count.SetStyle()
		if n.waiting {
			count.SetColor(Waiting)
			count.SetStyle(Bold)
		}
	}
	v.style()
	return v
}
