package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/theme"
	"fyne.io/fyne/v2/widget"
)

const fieldHeight float32 = 38

// Field puts a Fyne entry into a box that lines up with this package's other
// controls: its own border lies a pixel inside, and its text further in. 0 is
// the usual height of 38; entries of several lines take more.
func Field(e *widget.Entry, height float32) *fyne.Container {
	if height == 0 {
		height = fieldHeight
	}
	inset := (height - fieldHeight) / 2
	if e.MultiLine {
		inset = 0
	}
	pad := fieldPadding + min(inset, 0)
	return Sized(0, height, Pad(-1, 0, 0, -1, container.NewThemeOverride(e, fieldTheme{padding: pad})))
}

// SearchEntry is the entry of NewSearch.
type SearchEntry struct {
	widget.Entry
	ground *Fill
}

// NewSearch makes a one-line field, 32 high, with a magnifier at its left and a
// hint, such as its shortcut, at its right. The container is what is placed, the
// entry what takes the focus.
func NewSearch(placeholder, hint string, changed func(text string)) (*fyne.Container, *SearchEntry) {
	e := &SearchEntry{ground: newFill(Surface, InputEdge, 6)}
	e.SetPlaceHolder(placeholder)
	e.OnChanged = changed
	e.ExtendBaseWidget(e)
	bare := container.NewThemeOverride(e, fieldTheme{padding: 8, bare: true})
	return Sized(0, 32, e.ground, Pad(0, 10, 0, 10, Row(0,
		NewIcon(ShapeSearch, 14, Quiet), Stretch(Grow(Pad(-1, 0, 0, 0, bare))), Note(hint)))), e
}

// FocusGained is Fyne's.
func (e *SearchEntry) FocusGained() {
	e.ground.width = 2
	e.ground.SetColors(Surface, Accent)
	e.Entry.FocusGained()
}

// FocusLost is Fyne's.
func (e *SearchEntry) FocusLost() {
	e.ground.width = 1
	e.ground.SetColors(Surface, InputEdge)
	e.Entry.FocusLost()
}

const fieldPadding float32 = 11

// fieldTheme is the program's theme with other space inside entries.
type fieldTheme struct {
	padding float32
	bare    bool // no border and no ground: both are drawn around the entry
}

func (f fieldTheme) Color(n fyne.ThemeColorName, v fyne.ThemeVariant) color.Color {
	if n == theme.ColorNameShadow || f.bare && n == theme.ColorNameInputBackground {
		return color.Transparent
	}
	return outer().Color(n, v)
}
func (f fieldTheme) Font(s fyne.TextStyle) fyne.Resource     { return outer().Font(s) }
func (f fieldTheme) Icon(n fyne.ThemeIconName) fyne.Resource { return outer().Icon(n) }
func (f fieldTheme) Size(n fyne.ThemeSizeName) float32 {
	switch {
	case n == theme.SizeNameInnerPadding:
		return f.padding
	case n == theme.SizeNameInputBorder && f.bare:
		return 0
	}
	return outer().Size(n)
}

// outer is the program's theme; theme.Current would be fieldTheme itself while
// the entry is drawn.
func outer() fyne.Theme { return fyne.CurrentApp().Settings().Theme() }

// Option is one choice of a Select.
type Option struct {
	Label string
	Note  string // quiet, behind the label; may be empty
}

// Select is a field that opens a menu of options.
type Select struct {
	control
	OnChanged func(i int)
	prefix    string
	shape     Shape
	options   []Option
	chosen    int
	height    float32
	style     Style
	hint      string
}

// NewSelect makes a select, 38 high; prefix is a quiet word before the choice
// and may be empty, chosen may be -1.
func NewSelect(prefix string, options []Option, chosen int, changed func(i int)) *Select {
	s := &Select{OnChanged: changed, prefix: prefix, options: options, chosen: chosen, height: fieldHeight}
	s.enter = true
	s.act = s.open
	s.move = func(k fyne.KeyName) bool {
		switch step := arrowStep(k); {
		case k == fyne.KeyLeft || k == fyne.KeyRight || step == 0:
			return false
		case s.chosen+step >= 0 && s.chosen+step < len(s.options):
			s.choose(s.chosen + step)
		}
		return true
	}
	s.extend(s)
	return s
}

// Small makes it 32 high and returns s.
func (s *Select) Small() *Select { s.height = 32; return s }

// Icon puts a shape first and returns s.
func (s *Select) Icon(shape Shape) *Select { s.shape = shape; return s }

// Mono sets the choice in mono, as for paths, and returns s.
func (s *Select) Mono() *Select { s.style = Mono; return s }

// Hint is shown while nothing is chosen; returns s.
func (s *Select) Hint(text string) *Select { s.hint = text; return s }

// Chosen is the index of the choice, or -1.
func (s *Select) Chosen() int { return s.chosen }

// SetOptions replaces options and choice without calling OnChanged.
func (s *Select) SetOptions(options []Option, chosen int) {
	s.options, s.chosen = options, chosen
	s.Refresh()
}

// Set chooses without calling OnChanged.
func (s *Select) Set(i int) {
	if s.chosen != i {
		s.chosen = i
		s.Refresh()
	}
}

func (s *Select) choose(i int) {
	if s.chosen == i {
		return
	}
	s.chosen = i
	s.Refresh()
	if s.OnChanged != nil {
		s.OnChanged(i)
	}
}

func (s *Select) open() {
	c := fyne.CurrentApp().Driver().CanvasForObject(s)
	if c == nil || len(s.options) == 0 {
		return
	}
	items := make([]*fyne.MenuItem, len(s.options))
	for i, o := range s.options {
		label := o.Label
		if o.Note != "" {
			label += "   " + o.Note
		}
		items[i] = fyne.NewMenuItem(label, func() {
			s.choose(i)
			focus(s)
		})
		items[i].Checked = i == s.chosen
	}
	menu := widget.NewPopUpMenu(fyne.NewMenu("", items...), c)
	menu.ShowAtRelativePosition(fyne.NewPos(0, s.Size().Height+2), s)
	menu.Resize(fyne.NewSize(max(s.Size().Width, menu.MinSize().Width), menu.MinSize().Height))
}

// CreateRenderer is Fyne's.
func (s *Select) CreateRenderer() fyne.WidgetRenderer {
	ground := newFill(Surface, InputEdge, 6)
	icon := NewIcon(ShapeFolder, 14, Quiet)
	prefix, value, note := Note(s.prefix), Body("").CutMiddle(), Note("").CutEnd()
	prefix.Hidden = s.prefix == ""
	row := Row(8, icon, prefix, Shrink(value), Grow(note), NewIcon(ShapeDown, 12, Quiet))
	v := &view{o: Sized(0, s.height, ground, Pad(0, 10, 0, 10, row))}
	v.style = func() {
		setIcon(icon, s.shape, Quiet)
		fill, edge, text := Surface, InputEdge, Ink
		ground.width = 1
		switch {
		case s.Disabled():
			fill, edge, text = Sunken, Edge, Quiet
		case s.focused:
			edge = Accent
			ground.width = 2
		case s.hover:
			fill = Hover
		}
		ground.SetColors(fill, edge)
		value.SetStyle(s.style)
		if s.chosen >= 0 && s.chosen < len(s.options) {
			value.SetColor(text)
			value.SetText(s.options[s.chosen].Label)
			note.SetText(s.options[s.chosen].Note)
		} else {
			value.SetColor(Quiet)
			value.SetText(s.hint)
			value.SetStyle()
			note.SetText("")
		}
	}
	v.style()
	return v
}
