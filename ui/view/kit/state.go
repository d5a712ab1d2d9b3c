package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/widget"

	"github.com/reevehq/reeve/ui/say"
)

// State is how something stands. It is never shown by colour alone: each state
// has a shape and a word.
type State int

// The states.
const (
	Working State = iota
	WaitingForNews
	NeedsYou
	Stopped
	Succeeded
	Failed
	Paused
)

var states = [...]struct {
	shape       Shape
	word        string
	color, tint Color
}{
	Working:        {ShapeWorking, say.Key("working"), Accent, AccentTint},
	WaitingForNews: {ShapeNews, say.Key("waiting for news"), Quiet, Sunken},
	NeedsYou:       {ShapeNeeds, say.Key("needs you"), Waiting, WaitingTint},
	Stopped:        {ShapeStopped, say.Key("stopped"), Quiet, Sunken},
	Succeeded:      {ShapeDone, say.Key("done"), Done, DoneTint},
	Failed:         {ShapeFailed, say.Key("failed"), Wrong, WrongTint},
	Paused:         {ShapePaused, say.Key("paused"), Quiet, Sunken},
}

// Shape is the state's drawing.
func (s State) Shape() Shape { return states[s].shape }

// Word says the state, in the user's language.
func (s State) Word() string { return say.Word(states[s].word) }

// Color is the colour of the state's shape and word.
func (s State) Color() Color { return states[s].color }

// Tint is the ground behind them.
func (s State) Tint() Color { return states[s].tint }

// Icon draws the state's shape, size × size.
func (s State) Icon(size float32) *Icon { return NewIcon(s.Shape(), size, s.Color()) }

// Badge shows a state as a rounded label with shape and word.
type Badge struct {
	widget.BaseWidget
	state State
	word  string
}

// NewBadge makes a badge; an empty word means the state's own.
func NewBadge(s State, word string) *Badge {
	b := &Badge{state: s, word: word}
	b.ExtendBaseWidget(b)
	return b
}

// Set replaces state and word. The row around it is to be refreshed.
func (b *Badge) Set(s State, word string) { b.state, b.word = s, word; b.Refresh() }

// CreateRenderer is Fyne's.
func (b *Badge) CreateRenderer() fyne.WidgetRenderer {
	ground := newFill(None, None, 11)
	icon := NewIcon(ShapeDone, 11, Quiet)
	text := Small("", Bold)
	v := &view{o: Sized(0, 22, ground, Pad(0, 10, 0, 8, Row(5, icon, text)))}
	v.style = func() {
		ground.SetColors(b.state.Tint(), None)
		icon.Set(b.state.Shape(), b.state.Color())
		text.SetColor(b.state.Color())
		text.SetText(b.word)
		if b.word == "" {
			text.SetText(b.state.Word())
		}
	}
	v.style()
	return v
}

// Pill is a small rounded label, as for counts.
func Pill(text *Text, ground Color) *fyne.Container {
	return Sized(0, 18, newFill(ground, None, 9), Pad(0, 7, 0, 7, Row(0, text)))
}

// TimeBar shows what remains of a time as a bar that drains to the left.
type TimeBar struct {
	widget.BaseWidget
	left  float32
	color Color
	track bool
}

// NewTimeBar makes a bar; left is the share that remains, 0 to 1.
func NewTimeBar(left float32, c Color) *TimeBar {
	b := &TimeBar{left: left, color: c, track: true}
	b.ExtendBaseWidget(b)
	return b
}

// NoTrack leaves out the empty part, as for a chart's bars, and returns b.
func (b *TimeBar) NoTrack() *TimeBar { b.track = false; return b }

// Set replaces what remains, 0 to 1, and the colour.
func (b *TimeBar) Set(left float32, c Color) {
	if b.left != left || b.color != c {
		b.left, b.color = left, c
		b.Refresh()
	}
}

// CreateRenderer is Fyne's.
func (b *TimeBar) CreateRenderer() fyne.WidgetRenderer {
	r := &barRenderer{b: b, track: newFill(Track, None, 2), bar: newFill(None, None, 2)}
	r.Refresh()
	return r
}

type barRenderer struct {
	b          *TimeBar
	track, bar *Fill
}

func (r *barRenderer) Destroy()                     {}
func (r *barRenderer) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{r.track, r.bar} }
func (r *barRenderer) MinSize() fyne.Size           { return fyne.NewSize(24, 4) }

func (r *barRenderer) Layout(size fyne.Size) {
	y := round((size.Height - 4) / 2)
	r.track.Move(fyne.NewPos(0, y))
	r.track.Resize(fyne.NewSize(size.Width, 4))
	left := min(max(r.b.left, 0), 1)
	r.bar.Hidden = left == 0
	r.bar.Move(fyne.NewPos(0, y))
	r.bar.Resize(fyne.NewSize(max(4, round(size.Width*left)), 4))
}

func (r *barRenderer) Refresh() {
	r.track.Hidden = !r.b.track
	r.bar.SetColors(r.b.color, None)
	r.Layout(r.b.Size())
	r.bar.Refresh()
}
