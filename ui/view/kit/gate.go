package kit

import "fyne.io/fyne/v2"

// Gate keeps keys that were already down when a question appeared from
// answering it. A key counts when it went down and came up again while the gate
// was open, and did not repeat between: where the keyboard repeats a key that
// is held, a window that is new sees its first repeat as a press. One gate
// serves all buttons of a window, because the focus can move in between.
type Gate struct {
	// Open tells whether keys count yet; nil means always.
	Open func() bool
	// OnEnter is what Enter does on each of the gate's buttons; nil: nothing.
	OnEnter func()

	down map[fyne.KeyName]*keyPress
}

type keyPress struct {
	at    *GatedButton
	typed int
	good  bool
}

// Reset makes every key that is down now one that does not count, as when the
// window turns to the next question.
func (g *Gate) Reset() {
	for _, p := range g.down {
		p.good = false
	}
}

func (g *Gate) press(b *GatedButton, k fyne.KeyName) {
	if g.down == nil {
		g.down = map[fyne.KeyName]*keyPress{}
	}
	if g.down[k] == nil {
		g.down[k] = &keyPress{at: b, good: g.Open == nil || g.Open()}
	}
}

func (g *Gate) typed(k fyne.KeyName) {
	if p := g.down[k]; p != nil {
		p.typed++
	}
}

func (g *Gate) release(b *GatedButton, k fyne.KeyName) bool {
	p := g.down[k]
	delete(g.down, k)
	return p != nil && p.good && p.typed == 1 && p.at == b
}

// GatedButton is a Button whose keys pass a Gate. Space presses it, Enter does
// what the gate says, both when the key comes up.
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
func (b *GatedButton) KeyDown(e *fyne.KeyEvent) { b.gate.press(b, e.Name) }

// FocusLost is Fyne's. A window that loses the focus sees all its keys come up,
// those that are held too, so from here on they don't count.
func (b *GatedButton) FocusLost() {
	b.gate.Reset()
	b.Button.FocusLost()
}

// KeyUp is Fyne's.
func (b *GatedButton) KeyUp(e *fyne.KeyEvent) {
	if !b.gate.release(b, e.Name) {
		return
	}
	switch e.Name {
	case fyne.KeySpace:
		b.activate()
	case fyne.KeyReturn, fyne.KeyEnter:
		if b.gate.OnEnter != nil {
			b.gate.OnEnter()
		}
	}
}

// TypedKey is Fyne's.
func (b *GatedButton) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeyReturn, fyne.KeyEnter, fyne.KeySpace:
		b.gate.typed(e.Name)
	default:
		b.Button.TypedKey(e)
	}
}
