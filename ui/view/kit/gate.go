package kit

import "fyne.io/fyne/v2"

// Gate keeps keys that were already down when a question appeared from
// answering it: a key counts only if it went down while the gate was open. One
// gate serves all buttons of a window, because the focus can move between a
// key's way down and its way up.
type Gate struct {
	// Open tells whether keys count yet; nil means always.
	Open func() bool
	// OnEnter is what Enter does on each of the gate's buttons; nil: nothing.
	OnEnter func()

	down  map[fyne.KeyName]bool // true: went down while open, and not used yet
}

// Reset makes every key that is down now one that does not count, as when the
// window turns to the next question.
func (g *Gate) Reset() {
	for k := range g.down {
		g.down[k] = false
	}
}

func (g *Gate) press(k fyne.KeyName) bool {
	if g.down == nil {
		g.down = map[fyne.KeyName]bool{}
	}
	if _, held := g.down[k]; held { // it never came up
		return false
	}
	g.down[k] = g.Open == nil || g.Open()
	return g.down[k]
}

func (g *Gate) release(k fyne.KeyName) { delete(g.down, k) }

// take uses a press up, so that its repeats do nothing.
func (g *Gate) take(k fyne.KeyName) bool {
	ok := g.down[k]
	if ok {
		g.down[k] = false
	}
	return ok
}

// GatedButton is a Button whose keys pass a Gate. Space presses it, Enter does
// what the gate says.
type GatedButton struct {
	Button
	gate *Gate
}

// NewGatedButton makes one.
func NewGatedButton(g *Gate, kind Kind, label string, tapped func()) *GatedButton {
	b := &GatedButton{gate: g}
	b.kind, b.label, b.height, b.OnTapped = kind, label, 32, tapped
	b.act = func() {
		if b.OnTapped != nil {
			b.OnTapped()
		}
	}
	b.extend(b)
	return b
}

// Wide sets the smallest width and returns b.
func (b *GatedButton) Wide(width float32) *GatedButton { b.least = width; return b }

// KeyDown is Fyne's.
func (b *GatedButton) KeyDown(e *fyne.KeyEvent) {
	if b.gate.press(e.Name) {
		b.Button.KeyDown(e)
	}
}

// KeyUp is Fyne's.
func (b *GatedButton) KeyUp(e *fyne.KeyEvent) {
	b.gate.release(e.Name)
	b.Button.KeyUp(e)
}

// TypedKey is Fyne's.
func (b *GatedButton) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeyReturn, fyne.KeyEnter:
		if b.gate.take(e.Name) && b.gate.OnEnter != nil {
			b.gate.OnEnter()
		}
	case fyne.KeySpace:
		if b.gate.take(e.Name) {
			b.Button.TypedKey(e)
		}
	default:
		b.Button.TypedKey(e)
	}
}
