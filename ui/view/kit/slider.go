package kit

import (
	"fyne.io/fyne/v2"
)

// Tick is a labelled place on a Slider.
type Tick struct {
	Value int
	Label string
}

// Slider picks a whole number between two bounds, in steps. Arrow keys move by
// a step, Page Up and Page Down by four, Home and End to the bounds.
type Slider struct {
	control
	OnChanged       func(v int)
	low, high, step int
	value           int
	ticks           []Tick
}

// NewSlider makes a slider at low. The bounds must differ and step be positive.
func NewSlider(low, high, step int, ticks []Tick, changed func(v int)) *Slider {
	s := &Slider{OnChanged: changed, low: low, high: high, step: step, value: low, ticks: ticks}
	s.move = s.key
	s.extend(s)
	return s
}

// Value is the number chosen.
func (s *Slider) Value() int { return s.value }

// Set moves the slider to the step nearest to v without calling OnChanged.
func (s *Slider) Set(v int) {
	if v = s.snap(v); v != s.value {
		s.value = v
		s.Refresh()
	}
}

func (s *Slider) snap(v int) int {
	v = min(max(v, s.low), s.high)
	return min(s.low+(v-s.low+s.step/2)/s.step*s.step, s.high)
}

func (s *Slider) slide(v int) {
	if v = s.snap(v); v == s.value || s.Disabled() {
		return
	}
	s.Set(v)
	if s.OnChanged != nil {
		s.OnChanged(v)
	}
}

func (s *Slider) key(k fyne.KeyName) bool {
	switch k {
	case fyne.KeyLeft, fyne.KeyDown:
		s.slide(s.value - s.step)
	case fyne.KeyRight, fyne.KeyUp:
		s.slide(s.value + s.step)
	case fyne.KeyPageUp:
		s.slide(s.value + 4*s.step)
	case fyne.KeyPageDown:
		s.slide(s.value - 4*s.step)
	case fyne.KeyHome:
		s.slide(s.low)
	case fyne.KeyEnd:
		s.slide(s.high)
	default:
		return false
	}
	return true
}

// Tapped moves the knob to the pointer.
func (s *Slider) Tapped(e *fyne.PointEvent) { s.to(e.Position.X) }

// Dragged moves the knob with the pointer.
func (s *Slider) Dragged(e *fyne.DragEvent) { s.to(e.Position.X) }

// DragEnd is Fyne's.
func (s *Slider) DragEnd() {}

func (s *Slider) to(x float32) {
	if w := s.Size().Width - 2*knobRadius; w > 0 {
		s.slide(s.low + int(round((x-knobRadius)/w*float32(s.high-s.low))))
	}
}

const knobRadius float32 = 8

// CreateRenderer is Fyne's.
func (s *Slider) CreateRenderer() fyne.WidgetRenderer {
	r := &sliderRenderer{
		s:     s,
		track: newFill(Track, None, 2),
		bar:   newFill(Accent, None, 2),
		ring:  newRing(11),
		knob:  newFill(Surface, Accent, 8),
	}
	r.knob.width = 2
	for _, t := range s.ticks {
		r.marks = append(r.marks, NewFill(InputEdge))
		r.labels = append(r.labels, Note(t.Label))
	}
	r.style()
	return r
}

type sliderRenderer struct {
	s                      *Slider
	track, bar, ring, knob *Fill
	marks                  []*Fill
	labels                 []*Text
}

func (r *sliderRenderer) Destroy() {}

func (r *sliderRenderer) Objects() []fyne.CanvasObject {
	all := []fyne.CanvasObject{r.track, r.bar}
	for i := range r.marks {
		all = append(all, r.marks[i], r.labels[i])
	}
	return append(all, r.ring, r.knob)
}

func (r *sliderRenderer) MinSize() fyne.Size {
	if len(r.labels) == 0 {
		return fyne.NewSize(120, 18)
	}
	return fyne.NewSize(240, 40)
}

func (r *sliderRenderer) at(v int, width float32) float32 {
	share := float32(v-r.s.low) / float32(r.s.high-r.s.low)
	return round(knobRadius + (width-2*knobRadius)*share)
}

func (r *sliderRenderer) Layout(size fyne.Size) {
	const y = 9
	place := func(f *Fill, x, y, w, h float32) {
		f.Move(fyne.NewPos(x, y))
		f.Resize(fyne.NewSize(w, h))
	}
	knob := r.at(r.s.value, size.Width)
	place(r.track, knobRadius, y-2, size.Width-2*knobRadius, 4)
	place(r.bar, knobRadius, y-2, max(knob-knobRadius, 0), 4)
	place(r.knob, knob-knobRadius, y-knobRadius, 2*knobRadius, 2*knobRadius)
	place(r.ring, knob-knobRadius-3, y-knobRadius-3, 2*knobRadius+6, 2*knobRadius+6)
	for i, t := range r.s.ticks {
		x := r.at(t.Value, size.Width)
		place(r.marks[i], x, y+6, 1, 5)
		m := r.labels[i].MinSize()
		r.labels[i].Move(fyne.NewPos(round(min(max(x-m.Width/2, 0), size.Width-m.Width)), 22))
		r.labels[i].Resize(m)
	}
}

func (r *sliderRenderer) style() {
	r.ring.Hidden = !r.s.focused
	if r.s.Disabled() {
		r.bar.SetColors(InputEdge, None)
		r.knob.SetColors(Sunken, Edge)
	} else {
		r.bar.SetColors(Accent, None)
		r.knob.SetColors(Surface, Accent)
	}
}

func (r *sliderRenderer) Refresh() {
	r.style()
	r.Layout(r.s.Size())
	r.knob.Refresh()
}
