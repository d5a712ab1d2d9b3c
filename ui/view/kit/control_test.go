package kit

import (
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"
)

// press does what the desktop driver does for a key that goes down and up.
func press(w interface {
	KeyDown(*fyne.KeyEvent)
	TypedKey(*fyne.KeyEvent)
	KeyUp(*fyne.KeyEvent)
}, k fyne.KeyName) {
	e := &fyne.KeyEvent{Name: k}
	w.KeyDown(e)
	w.TypedKey(e)
	w.KeyUp(e)
}

// repeat is a key that was down before, or stays down.
func repeat(w interface{ TypedKey(*fyne.KeyEvent) }, k fyne.KeyName) {
	w.TypedKey(&fyne.KeyEvent{Name: k})
}

func TestButtonKeys(t *testing.T) {
	start(t, Theme{})
	n := 0
	b := NewButton(Plain, "Deny", func() { n++ })
	w := test.NewTempWindow(t, b)
	var passed []fyne.KeyName
	w.Canvas().SetOnTypedKey(func(e *fyne.KeyEvent) { passed = append(passed, e.Name) })
	w.Canvas().Focus(b)

	expect := func(what string, want int) {
		t.Helper()
		if n != want {
			t.Errorf("%s: %d activations, want %d", what, n, want)
		}
		n = 0
	}
	press(b, fyne.KeySpace)
	expect("space", 1)
	press(b, fyne.KeyReturn)
	press(b, fyne.KeyEnter)
	expect("both enters", 2)
	repeat(b, fyne.KeySpace)
	repeat(b, fyne.KeyReturn)
	expect("keys held from before", 0)
	b.KeyDown(&fyne.KeyEvent{Name: fyne.KeySpace})
	for range 5 {
		repeat(b, fyne.KeySpace)
	}
	expect("a key that stays down", 1)
	b.KeyDown(&fyne.KeyEvent{Name: fyne.KeySpace})
	b.FocusLost()
	b.FocusGained()
	repeat(b, fyne.KeySpace)
	expect("a key held across a change of focus", 0)
	test.Tap(b)
	expect("click", 1)

	press(b, fyne.KeyEscape)
	if len(passed) != 1 || passed[0] != fyne.KeyEscape {
		t.Errorf("the window got %v, want Escape", passed)
	}
	b.NoEnter()
	press(b, fyne.KeyReturn)
	expect("enter on a button without", 0)
	if len(passed) != 2 || passed[1] != fyne.KeyReturn {
		t.Errorf("the window got %v, want Enter too", passed)
	}

	b.Disable()
	press(b, fyne.KeySpace)
	test.Tap(b)
	expect("disabled", 0)
}

func TestFocusSkipsDisabled(t *testing.T) {
	start(t, Theme{})
	a, b, c := NewButton(Plain, "a", nil), NewButton(Plain, "b", nil), NewCheckBox(Body("c"), false, nil)
	b.Disable()
	w := test.NewTempWindow(t, Row(8, a, b, c))
	w.Canvas().FocusNext()
	if !a.focused {
		t.Error("the first button has no focus")
	}
	w.Canvas().FocusNext()
	if b.focused || !c.focused || a.focused {
		t.Errorf("focus is at a=%v b=%v c=%v, want c", a.focused, b.focused, c.focused)
	}
}

func TestButtonSizes(t *testing.T) {
	start(t, Theme{})
	for h, b := range map[float32]*Button{
		32: NewButton(Plain, "x", nil),
		28: NewButton(Plain, "x", nil).Small(),
		38: NewButton(Plain, "x", nil).Tall(),
	} {
		if got := b.MinSize().Height; got != h {
			t.Errorf("height %v, want %v", got, h)
		}
	}
	if w := NewButton(Plain, "x", nil).Least(108).MinSize().Width; w != 108 {
		t.Errorf("width %v, want 108", w)
	}
	b := NewButton(Plain, "x", nil)
	before := b.MinSize().Width
	b.SetLabel("a longer label")
	if b.MinSize().Width <= before {
		t.Error("a longer label does not make it wider")
	}
}

func TestCheckBox(t *testing.T) {
	start(t, Theme{})
	var got []bool
	c := NewCheckBox(Body("Read"), false, func(on bool) { got = append(got, on) })
	test.Tap(c)
	press(c, fyne.KeySpace)
	c.Set(true)
	press(c, fyne.KeyReturn)
	if len(got) != 2 || !got[0] || got[1] || !c.On() {
		t.Errorf("told %v, now %v", got, c.On())
	}
}

func TestRadios(t *testing.T) {
	start(t, Theme{})
	a, b, c := NewRadio(Body("a")), NewRadio(Body("b")), NewRadio(Body("c"))
	b.Disable()
	var got []int
	g := NewRadios(-1, func(i int) { got = append(got, i) }, a, b, c)
	w := test.NewTempWindow(t, Row(8, a, b, c))
	test.Tap(b)
	press(a, fyne.KeySpace)
	w.Canvas().Focus(a)
	press(a, fyne.KeyDown)
	if !c.focused || !c.Chosen() || a.Chosen() || g.Chosen() != 2 {
		t.Error("down does not go to the next that can be chosen")
	}
	press(c, fyne.KeyRight)
	test.Tap(c)
	if len(got) != 2 || got[0] != 0 || got[1] != 2 {
		t.Errorf("told %v, want [0 2]", got)
	}
}

func TestPickers(t *testing.T) {
	start(t, Theme{})
	var got []int
	tabs := NewTabs(0, func(i int) { got = append(got, i) }, "Transcript", "Changes", "Turns")
	w := test.NewTempWindow(t, Row(0, tabs))
	before := tabs.MinSize()
	press(tabs, fyne.KeyRight)
	press(tabs, fyne.KeyEnd)
	press(tabs, fyne.KeyRight)
	press(tabs, fyne.KeyHome)
	test.TapAt(tabs, fyne.NewPos(tabs.cells[1].Position().X+4, 20))
	if want := []int{1, 2, 0, 1}; len(got) != 4 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("told %v, want %v", got, want)
	}
	if tabs.MinSize() != before {
		t.Error("choosing moves the others")
	}
	tabs.SetCount(1, 12)
	if tabs.MinSize().Width <= before.Width {
		t.Error("a count takes no room")
	}
	_ = w

	got = nil
	s := NewSegments(0, func(i int) { got = append(got, i) }, "All", "Live")
	test.NewTempWindow(t, Row(0, s))
	test.TapAt(s, s.cells[1].Position().AddXY(3, 3))
	press(s, fyne.KeyLeft)
	if len(got) != 2 || got[0] != 1 || got[1] != 0 {
		t.Errorf("told %v, want [1 0]", got)
	}
}

func TestSlider(t *testing.T) {
	start(t, Theme{})
	var got []int
	s := NewSlider(15, 240, 15, nil, func(v int) { got = append(got, v) })
	s.Resize(fyne.NewSize(16+225, 40))
	steps := []struct {
		what string
		do   func()
		want int
	}{
		{"below the start", func() { press(s, fyne.KeyLeft) }, 15},
		{"right", func() { press(s, fyne.KeyRight) }, 30},
		{"page up", func() { press(s, fyne.KeyPageUp) }, 90},
		{"page down", func() { press(s, fyne.KeyPageDown) }, 30},
		{"end", func() { press(s, fyne.KeyEnd) }, 240},
		{"past the end", func() { press(s, fyne.KeyRight) }, 240},
		{"home", func() { press(s, fyne.KeyHome) }, 15},
		{"click at 1 h", func() { test.TapAt(s, fyne.NewPos(8+45, 8)) }, 60},
		{"click between two steps", func() { test.TapAt(s, fyne.NewPos(8+51, 8)) }, 60},
		{"drag past the end", func() {
			s.Dragged(&fyne.DragEvent{PointEvent: fyne.PointEvent{Position: fyne.NewPos(900, 8)}})
		}, 240},
		{"set between two steps", func() { s.Set(53) }, 60},
	}
	for _, x := range steps {
		x.do()
		if s.Value() != x.want {
			t.Errorf("%s: %d, want %d", x.what, s.Value(), x.want)
		}
	}
	if len(got) != 7 {
		t.Errorf("told of %v, want the seven changes by the user", got)
	}
	s.Disable()
	press(s, fyne.KeyEnd)
	if s.Value() != 60 {
		t.Error("moves while disabled")
	}
}

func TestSelect(t *testing.T) {
	start(t, Theme{})
	var got []int
	s := NewSelect("Model", []Option{{Label: "sonnet"}, {Label: "opus", Note: "slower"}}, 0, func(i int) { got = append(got, i) })
	w := test.NewTempWindow(t, Sized(300, 200, Col(0, s)))
	press(s, fyne.KeyDown)
	press(s, fyne.KeyDown)
	if len(got) != 1 || got[0] != 1 || s.Chosen() != 1 {
		t.Errorf("told %v, want [1]", got)
	}
	press(s, fyne.KeySpace)
	if w.Canvas().Overlays().Top() == nil {
		t.Fatal("space opens no menu")
	}
	press2 := func(k fyne.KeyName) { w.Canvas().Focused().TypedKey(&fyne.KeyEvent{Name: k}) }
	press2(fyne.KeyDown)
	press2(fyne.KeyReturn)
	if len(got) != 2 || got[1] != 0 {
		t.Errorf("told %v, want [1 0]", got)
	}
}

func TestNavItem(t *testing.T) {
	start(t, Theme{})
	n := 0
	i := NewNavItem(ShapeMissions, "Missions", func() { n++ })
	test.Tap(i)
	press(i, fyne.KeyReturn)
	if n != 2 {
		t.Errorf("%d activations, want 2", n)
	}
}

func TestSearchShowsItsFocus(t *testing.T) {
	start(t, Theme{})
	var text string
	box, entry := NewSearch("Filter", "Ctrl F", func(s string) { text = s })
	w := test.NewTempWindow(t, box)
	w.Canvas().Focus(entry)
	if entry.ground.stroke != Accent {
		t.Error("no ring with the focus")
	}
	test.Type(entry, "retry")
	if text != "retry" {
		t.Errorf("told %q", text)
	}
	w.Canvas().Unfocus()
	if entry.ground.stroke != InputEdge {
		t.Error("a ring without the focus")
	}
}
