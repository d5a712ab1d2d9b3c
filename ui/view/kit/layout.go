package kit

import (
	"math"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/layout"
)

// align places an object across a row or column.
type align int

const (
	alignDefault align = iota
	alignStart
	alignCenter
	alignStretch
)

// cell wraps an object with how a Row or Col treats it. It is only ever an
// argument of Row, Col and Set, which unwrap it.
type cell struct {
	fyne.CanvasObject
	how how
}

type how struct {
	grow   float32 // share of the free space
	fixed  float32 // length along the row or column, when > 0
	shrink bool    // natural width, but gives way
	align  align
}

// space is an empty stretch between objects. Fyne's painters ignore it.
type space struct {
	layout.Spacer
	length float32
	grow   float32
}

func (s *space) MinSize() fyne.Size { return fyne.Size{} }

// Gap is an empty length between two objects, besides the row's own gap.
func Gap(length float32) fyne.CanvasObject { return &space{length: length} }

// Spring takes the free space of its row or column.
func Spring() fyne.CanvasObject { return &space{grow: 1} }

func with(o fyne.CanvasObject, change func(*how)) fyne.CanvasObject {
	c, ok := o.(*cell)
	if !ok {
		c = &cell{CanvasObject: o}
	}
	change(&c.how)
	return c
}

// Grow lets o take the free space of its row or column.
func Grow(o fyne.CanvasObject) fyne.CanvasObject { return with(o, func(h *how) { h.grow = 1 }) }

// Fix gives o a set length along its row or column.
func Fix(length float32, o fyne.CanvasObject) fyne.CanvasObject {
	return with(o, func(h *how) { h.fixed = length })
}

// Shrink gives a cut Text its natural width in a row, and less where the row is
// too narrow.
func Shrink(o fyne.CanvasObject) fyne.CanvasObject { return with(o, func(h *how) { h.shrink = true }) }

// Start and Stretch place o across its row or column, in place of
// the default: centred in rows, stretched in columns.
func Start(o fyne.CanvasObject) fyne.CanvasObject {
	return with(o, func(h *how) { h.align = alignStart })
}

// Stretch: see Start.
func Stretch(o fyne.CanvasObject) fyne.CanvasObject {
	return with(o, func(h *how) { h.align = alignStretch })
}

// Row places objects side by side, gap apart, centred across; texts share a
// baseline. Nil objects are left out.
func Row(gap float32, objects ...fyne.CanvasObject) *fyne.Container {
	return newFlex(&flex{gap: gap, align: alignCenter}, objects)
}

// Columns is a Row whose objects all take its full height.
func Columns(gap float32, objects ...fyne.CanvasObject) *fyne.Container {
	return newFlex(&flex{gap: gap, align: alignStretch}, objects)
}

// Col stacks objects, gap apart, each as wide as the column. Objects whose
// height depends on their width, such as Paragraph, get the height they need.
func Col(gap float32, objects ...fyne.CanvasObject) *fyne.Container {
	return newFlex(&flex{vertical: true, gap: gap, align: alignStretch}, objects)
}

func newFlex(f *flex, objects []fyne.CanvasObject) *fyne.Container {
	c := container.New(f)
	f.set(c, objects)
	return c
}

// Set replaces what a Row, Columns or Col holds and lays it out.
func Set(c *fyne.Container, objects ...fyne.CanvasObject) {
	c.Layout.(*flex).set(c, objects)
	c.Refresh()
}

// LayOut places again what a Row, Columns or Col holds, because something in it
// has another size now. Fyne looks for such changes, too, but when two happen
// before the same frame it can miss the outer one, and what is shown overlaps.
func LayOut(c *fyne.Container) {
	if c != nil && !c.Size().IsZero() {
		c.Layout.Layout(c.Objects, c.Size())
	}
}

type flex struct {
	vertical bool
	gap      float32
	align    align
	how      map[fyne.CanvasObject]how
}

func (f *flex) set(c *fyne.Container, objects []fyne.CanvasObject) {
	f.how = make(map[fyne.CanvasObject]how)
	c.Objects = make([]fyne.CanvasObject, 0, len(objects))
	for _, o := range objects {
		if o == nil {
			continue
		}
		if wrapped, ok := o.(*cell); ok {
			o = wrapped.CanvasObject
			f.how[o] = wrapped.how
		}
		c.Objects = append(c.Objects, o)
	}
}

func (f *flex) axes(s fyne.Size) (along, across float32) {
	if f.vertical {
		return s.Height, s.Width
	}
	return s.Width, s.Height
}

// MinSize is the sum of the objects along the axis and the largest across.
func (f *flex) MinSize(objects []fyne.CanvasObject) fyne.Size {
	var along, across float32
	n := 0
	for _, o := range objects {
		if s, ok := o.(*space); ok {
			along += s.length
			continue
		}
		if !o.Visible() {
			continue
		}
		a, c := f.axes(o.MinSize())
		if h := f.how[o]; h.fixed > 0 {
			a = h.fixed
		}
		if n > 0 {
			along += f.gap
		}
		n++
		along += a
		across = max(across, c)
	}
	if f.vertical {
		return fyne.NewSize(across, along)
	}
	return fyne.NewSize(along, across)
}

// lengths shares total out along the axis; across is the other measure. A space
// has its length here, a hidden object 0.
func (f *flex) lengths(objects []fyne.CanvasObject, total, across float32) []float32 {
	out := make([]float32, len(objects))
	var used, shares float32
	n := 0
	for i, o := range objects {
		if s, ok := o.(*space); ok {
			out[i] = s.length
			shares += s.grow
			used += s.length
			continue
		}
		if !o.Visible() {
			continue
		}
		h := f.how[o]
		switch {
		case h.fixed > 0:
			out[i] = h.fixed
		case f.vertical:
			out[i] = HeightFor(o, across)
		default:
			out[i] = o.MinSize().Width
		}
		used += out[i]
		if n > 0 {
			used += f.gap
		}
		n++
		shares += h.grow
	}
	free := max(total-used, 0)
	for i, o := range objects {
		t, ok := o.(*Text)
		if ok && f.how[o].shrink && o.Visible() && !f.vertical {
			d := min(max(t.naturalWidth()-out[i], 0), free)
			out[i] += d
			free -= d
		}
	}
	if shares > 0 {
		for i, o := range objects {
			if s, ok := o.(*space); ok {
				out[i] += free * s.grow / shares
			} else if o.Visible() {
				out[i] += free * f.how[o].grow / shares
			}
		}
	}
	return out
}

// Layout places the objects on whole units: text at a fraction of a pixel is
// resampled and looks soft.
func (f *flex) Layout(objects []fyne.CanvasObject, size fyne.Size) {
	total, across := f.axes(size)
	lengths := f.lengths(objects, total, across)
	base := rowBaseline(objects, across)
	var pos float32
	first := true
	for i, o := range objects {
		if _, ok := o.(*space); ok {
			pos += lengths[i]
			continue
		}
		if !o.Visible() {
			continue
		}
		if !first {
			pos += f.gap
		}
		first = false
		_, c := f.axes(o.MinSize())
		if !f.vertical {
			c = min(HeightFor(o, lengths[i]), max(across, c))
		} else {
			c = min(c, across)
		}
		var off float32
		al := f.align
		if a := f.how[o].align; a != alignDefault {
			al = a
		}
		switch al {
		case alignCenter:
			off = (across - c) / 2
			if b, ok := baselineOf(o); ok && !f.vertical {
				off = base - b
			}
		case alignStretch:
			c = across
		}
		start, end := round(pos), round(pos+lengths[i])
		if f.vertical {
			o.Move(fyne.NewPos(round(off), start))
			o.Resize(fyne.NewSize(c, end-start))
		} else {
			o.Move(fyne.NewPos(start, round(off)))
			o.Resize(fyne.NewSize(end-start, c))
		}
		pos += lengths[i]
	}
}

func (f *flex) heightFor(objects []fyne.CanvasObject, width float32) float32 {
	if !f.vertical {
		var h float32
		for i, l := range f.lengths(objects, width, 0) {
			if _, ok := objects[i].(*space); !ok && objects[i].Visible() {
				h = max(h, HeightFor(objects[i], l))
			}
		}
		return h
	}
	var h float32
	n := 0
	for i, o := range objects {
		if s, ok := o.(*space); ok {
			h += s.length
			continue
		}
		if !o.Visible() {
			continue
		}
		if n > 0 {
			h += f.gap
		}
		n++
		if fixed := f.how[objects[i]].fixed; fixed > 0 {
			h += fixed
		} else {
			h += HeightFor(o, width)
		}
	}
	return h
}

// capHeight is Inter's height of capitals, as a share of the type size.
const capHeight = 0.727

// rowBaseline is where texts in a row of the given height stand: the capitals
// of the largest are centred.
func rowBaseline(objects []fyne.CanvasObject, height float32) float32 {
	return round((height + capHeight*largestText(objects)) / 2)
}

func largestText(objects []fyne.CanvasObject) float32 {
	var size float32
	for _, o := range objects {
		switch v := o.(type) {
		case *Text:
			size = max(size, v.size)
		case *fyne.Container:
			if f, ok := v.Layout.(*flex); ok && !f.vertical && f.align == alignCenter {
				size = max(size, largestText(v.Objects))
			}
		}
	}
	return size
}

// baselineOf is the distance from an object's top to its text's baseline, for
// texts and rows that hold some.
func baselineOf(o fyne.CanvasObject) (float32, bool) {
	switch v := o.(type) {
	case *Text:
		return v.ascent(), true
	case *fyne.Container:
		f, ok := v.Layout.(*flex)
		if ok && !f.vertical && f.align == alignCenter && largestText(v.Objects) > 0 {
			return rowBaseline(v.Objects, f.MinSize(v.Objects).Height), true
		}
	}
	return 0, false
}

func round(f float32) float32 { return float32(math.Round(float64(f))) }
func ceil(f float32) float32  { return float32(math.Ceil(float64(f))) }

// HeightFor is the height o needs when it is width wide. Paragraphs and the
// containers of this package answer exactly; anything else its minimum height.
func HeightFor(o fyne.CanvasObject, width float32) float32 {
	switch v := o.(type) {
	case interface{ heightFor(width float32) float32 }:
		return v.heightFor(width)
	case *fyne.Container:
		if l, ok := v.Layout.(interface {
			heightFor(objects []fyne.CanvasObject, width float32) float32
		}); ok {
			return l.heightFor(v.Objects, width)
		}
	}
	return o.MinSize().Height
}

// Pad puts empty space around o.
func Pad(top, right, bottom, left float32, o fyne.CanvasObject) *fyne.Container {
	return container.New(pad{top: top, right: right, bottom: bottom, left: left}, o)
}

// Sized lays objects over each other at a set minimum size; 0 leaves a measure
// to the objects.
func Sized(width, height float32, objects ...fyne.CanvasObject) *fyne.Container {
	return container.New(pad{width: width, height: height}, objects...)
}

// AtMost keeps o no wider than width, at the left of what it gets.
func AtMost(width float32, o fyne.CanvasObject) *fyne.Container {
	return container.New(pad{most: width}, o)
}

// pad lays objects over each other inside a margin.
type pad struct {
	top, right, bottom, left float32
	width, height            float32 // minimum size in place of the objects', when > 0
	most                     float32 // largest width, when > 0
}

func (p pad) MinSize(objects []fyne.CanvasObject) fyne.Size {
	var s fyne.Size
	for _, o := range objects {
		if o.Visible() {
			s = s.Max(o.MinSize())
		}
	}
	if p.width > 0 {
		s.Width = p.width
	}
	if p.height > 0 {
		s.Height = p.height
	}
	return s.AddWidthHeight(p.left+p.right, p.top+p.bottom)
}

func (p pad) inner(width float32) float32 {
	width -= p.left + p.right
	if p.most > 0 {
		width = min(width, p.most)
	}
	return max(width, 0)
}

func (p pad) Layout(objects []fyne.CanvasObject, size fyne.Size) {
	for _, o := range objects {
		o.Move(fyne.NewPos(p.left, p.top))
		o.Resize(fyne.NewSize(p.inner(size.Width), max(size.Height-p.top-p.bottom, 0)))
	}
}

func (p pad) heightFor(objects []fyne.CanvasObject, width float32) float32 {
	h := p.height
	if h == 0 {
		for _, o := range objects {
			if o.Visible() {
				h = max(h, HeightFor(o, p.inner(width)))
			}
		}
	}
	return h + p.top + p.bottom
}

// Scroll makes o scroll up and down when it is higher than its place. Unlike
// Fyne's own, it gives paragraphs the height they need at the width they get.
func Scroll(o fyne.CanvasObject) *container.Scroll {
	f := &fit{}
	f.box = container.New(f, o)
	return container.NewVScroll(f.box)
}

// fit is as high as its object needs at the width it was last given.
type fit struct {
	box   *fyne.Container
	width float32
}

func (f *fit) MinSize(objects []fyne.CanvasObject) fyne.Size {
	s := objects[0].MinSize()
	if f.width > 0 {
		s.Height = HeightFor(objects[0], f.width)
	}
	return s
}

func (f *fit) Layout(objects []fyne.CanvasObject, size fyne.Size) {
	f.width = size.Width
	need := HeightFor(objects[0], size.Width)
	if need > size.Height {
		f.box.Resize(fyne.NewSize(size.Width, need)) // comes back here with enough
		return
	}
	objects[0].Move(fyne.NewPos(0, 0))
	objects[0].Resize(size)
}
