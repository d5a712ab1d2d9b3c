package kit

import (
	"slices"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"
)

// List is a column of rows of different heights that scrolls smoothly with
// hundreds of thousands of them: it builds only the rows in sight.
//
// A row's height is an estimate until the row is first shown, and then what
// HeightFor gives; what is in sight keeps its place when heights above it
// change. Sums are in float64 and rows are placed relative to the view, because
// float32, in which Fyne places objects, has no room for millions of units.
//
// At the bottom, the list follows: rows appended come into sight.
type List struct {
	widget.BaseWidget
	// OnScrolled, when set, is told after each change of what is in sight.
	OnScrolled func()

	self     fyne.Widget
	build    func(i int) fyne.CanvasObject
	estimate float64
	heights  sums
	measured []bool
	rows     map[int]fyne.CanvasObject

	offset  float64 // of the view's top, from the first row's
	follow  bool
	width   float32
	content *fyne.Container
	clip    *container.Clip
	bar     *scrollBar
}

// NewList makes an empty list. build makes row i; estimate is a guess at the
// height of rows.
func NewList(estimate float32, build func(i int) fyne.CanvasObject) *List {
	l := &List{}
	l.init(l, estimate, build)
	return l
}

func (l *List) init(self fyne.Widget, estimate float32, build func(i int) fyne.CanvasObject) {
	l.self, l.build, l.estimate, l.rows, l.follow = self, build, float64(estimate), make(map[int]fyne.CanvasObject), true
	l.content = &fyne.Container{}
	l.clip = container.NewClip(l.content)
	l.bar = newScrollBar(l)
	l.ExtendBaseWidget(self)
}

// Len is the number of rows.
func (l *List) Len() int { return l.heights.len() }

// Reset gives the list n rows, all to be built anew, and shows the first, or
// the last if Follow was called since.
func (l *List) Reset(n int) {
	l.heights.reset(n, l.estimate)
	l.measured = make([]bool, n)
	clear(l.rows)
	l.offset, l.follow = 0, false
	l.Refresh()
}

// Append adds n rows at the end.
func (l *List) Append(n int) { l.Insert(l.Len(), n) }

// Insert adds n rows before row at. Rows in sight stay where they are, unless
// the list follows its end.
func (l *List) Insert(at, n int) {
	if n <= 0 {
		return
	}
	if top, _ := l.heights.find(l.offset); at <= top && l.Len() > 0 && !l.follow && (at < top || l.offset > 0) {
		l.offset += float64(n) * l.estimate
	}
	l.heights.insert(at, n, l.estimate)
	l.measured = slices.Insert(l.measured, at, make([]bool, n)...)
	moved := make(map[int]fyne.CanvasObject, len(l.rows))
	for i, o := range l.rows {
		if i >= at {
			i += n
		}
		moved[i] = o
	}
	l.rows = moved
	l.Refresh()
}

// Changed has row i built anew.
func (l *List) Changed(i int) {
	delete(l.rows, i)
	l.measured[i] = false
	l.Refresh()
}

// ScrollTo puts row i at the top, as far as the end allows.
func (l *List) ScrollTo(i int) {
	l.follow = false
	l.offset = l.heights.before(i)
	l.Refresh()
}

// reveal scrolls no further than it takes to have row i in sight.
func (l *List) reveal(i int) {
	if i < 0 || i >= l.Len() || l.Size().Height <= 0 {
		return
	}
	top := l.heights.before(i)
	if bottom := top + l.heights.at(i) - float64(l.Size().Height); l.offset < bottom {
		l.scrollTo(bottom)
	}
	if l.offset > top {
		l.scrollTo(top)
	}
}

// Follow shows the end, and keeps to it until the user scrolls up.
func (l *List) Follow() {
	l.follow = true
	l.Refresh()
}

// Following tells whether the list is at its end and keeps to it.
func (l *List) Following() bool { return l.follow }

// InView gives the first row in sight and the one after the last.
func (l *List) InView() (first, end int) {
	if l.Len() == 0 {
		return 0, 0
	}
	first, _ = l.heights.find(l.offset)
	end, _ = l.heights.find(l.offset + float64(l.Size().Height) - 0.001)
	return first, min(end+1, l.Len())
}

// Scrolled is Fyne's.
func (l *List) Scrolled(e *fyne.ScrollEvent) { l.scrollBy(-float64(e.Scrolled.DY)) }

func (l *List) scrollBy(d float64) { l.scrollTo(l.offset + d) }

func (l *List) scrollTo(offset float64) {
	l.offset = offset
	l.clamp()
	l.follow = l.offset >= l.end()-1
	l.Refresh()
}

// end is the largest offset.
func (l *List) end() float64 { return max(l.heights.total()-float64(l.Size().Height), 0) }

func (l *List) clamp() { l.offset = min(max(l.offset, 0), l.end()) }

// FocusGained, FocusLost and TypedRune are Fyne's; the list takes the focus so
// that keys can scroll it.
func (l *List) FocusGained() { l.bar.lit = true; l.bar.Refresh() }

// FocusLost is Fyne's.
func (l *List) FocusLost() { l.bar.lit = false; l.bar.Refresh() }

// TypedRune is Fyne's.
func (l *List) TypedRune(rune) {}

// TypedKey scrolls by a line, a page, or to an end.
func (l *List) TypedKey(e *fyne.KeyEvent) {
	page := max(float64(l.Size().Height)-40, 40)
	switch e.Name {
	case fyne.KeyUp:
		l.scrollBy(-40)
	case fyne.KeyDown:
		l.scrollBy(40)
	case fyne.KeyPageUp:
		l.scrollBy(-page)
	case fyne.KeyPageDown, fyne.KeySpace:
		l.scrollBy(page)
	case fyne.KeyHome:
		l.scrollTo(0)
	case fyne.KeyEnd:
		l.Follow()
	default:
		passOn(l.self, e)
	}
}

// place builds and places the rows in sight, and drops the others. A row built
// for the first time may turn out higher than thought, which moves those after
// it; so it goes on until the view is full.
func (l *List) place() {
	size := l.Size()
	if size.Width <= 0 || size.Height <= 0 {
		return
	}
	width := max(size.Width-barWidth, 0)
	if width != l.width {
		l.width = width
		clear(l.measured)
	}
	if l.follow {
		l.measureEnd()
		l.offset = l.end()
	}
	l.clamp()
	objects := l.content.Objects[:0]
	seen := make(map[int]fyne.CanvasObject, len(l.rows))
	first, before := l.heights.find(l.offset)
	y := before - l.offset
	for i := first; i < l.Len() && y < float64(size.Height); i++ {
		o, h := l.row(i)
		seen[i] = o
		o.Move(fyne.NewPos(0, round(float32(y))))
		o.Resize(fyne.NewSize(width, h))
		objects = append(objects, o)
		y += float64(h)
	}
	l.rows = seen
	l.content.Objects = objects
	if limit := l.end(); l.offset > limit+0.5 { // the last rows are lower than thought
		l.offset = limit
		l.place()
	}
}

// measureEnd makes the heights of the last view's worth of rows true.
func (l *List) measureEnd() {
	var h float64
	for i := l.Len() - 1; i >= 0 && h < float64(l.Size().Height); i-- {
		_, rh := l.row(i)
		h += float64(rh)
	}
}

// row is row i and its true height.
func (l *List) row(i int) (fyne.CanvasObject, float32) {
	o, ok := l.rows[i]
	if !ok {
		o = l.build(i)
		l.rows[i] = o
	}
	if !l.measured[i] {
		l.measured[i] = true
		l.heights.set(i, float64(ceil(HeightFor(o, l.width))))
	}
	return o, float32(l.heights.at(i))
}

const barWidth float32 = 10

// CreateRenderer is Fyne's.
func (l *List) CreateRenderer() fyne.WidgetRenderer { return &listRenderer{l} }

type listRenderer struct{ l *List }

func (r *listRenderer) Destroy()                     {}
func (r *listRenderer) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{r.l.clip, r.l.bar} }
func (r *listRenderer) MinSize() fyne.Size           { return fyne.NewSize(120, 80) }

func (r *listRenderer) Layout(size fyne.Size) {
	r.l.clip.Resize(size)
	r.l.bar.Move(fyne.NewPos(size.Width-barWidth, 0))
	r.l.bar.Resize(fyne.NewSize(barWidth, size.Height))
	r.Refresh()
}

func (r *listRenderer) Refresh() {
	r.l.place()
	r.l.bar.Refresh()
	canvas.Refresh(r.l.self)
	if r.l.OnScrolled != nil {
		r.l.OnScrolled()
	}
}
