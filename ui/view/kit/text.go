package kit

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"
)

// Style is a set of text styles.
type Style int

// The styles; combine them with |.
const (
	Bold Style = 1 << iota
	Mono
	Italic
)

func (s Style) fyne() fyne.TextStyle {
	return fyne.TextStyle{Bold: s&Bold != 0, Monospace: s&Mono != 0, Italic: s&Italic != 0, TabWidth: 4}
}

func styles(s []Style) Style {
	var all Style
	for _, x := range s {
		all |= x
	}
	return all
}

// Text is one line of text in a colour of the palette.
type Text struct {
	widget.BaseWidget
	text   string
	size   float32
	color  Color
	style  Style
	cut    cut
	align  fyne.TextAlign
	canvas *canvas.Text
}

type cut int

const (
	cutNone cut = iota
	cutEnd
	cutMiddle
)

// NewText makes a text of any size and colour; see Body, Small, Note, Strong and
// Title for the usual ones.
func NewText(text string, size float32, color Color, style ...Style) *Text {
	t := &Text{text: text, size: size, color: color, style: styles(style)}
	t.ExtendBaseWidget(t)
	return t
}

// Body is text of 14.
func Body(text string, style ...Style) *Text { return NewText(text, SizeBody, Ink, style...) }

// Small is text of 12.
func Small(text string, style ...Style) *Text { return NewText(text, SizeSmall, Ink, style...) }

// Note is quiet text of 12.
func Note(text string, style ...Style) *Text { return NewText(text, SizeSmall, Quiet, style...) }

// Strong is bold text of 16.
func Strong(text string) *Text { return NewText(text, SizeStrong, Ink, Bold) }

// Title is bold text of 20.
func Title(text string) *Text { return NewText(text, SizeTitle, Ink, Bold) }

// CutEnd lets the text be narrower than it is, ending in an ellipsis, and
// returns t.
func (t *Text) CutEnd() *Text { t.cut = cutEnd; return t }

// CutMiddle is CutEnd with the ellipsis in the middle, for paths, whose ends
// tell most.
func (t *Text) CutMiddle() *Text { t.cut = cutMiddle; return t }

// Right sets the text at the right of its place and returns t.
func (t *Text) Right() *Text { t.align = fyne.TextAlignTrailing; return t }

// Middle sets the text in the middle of its place and returns t.
func (t *Text) Middle() *Text { t.align = fyne.TextAlignCenter; return t }

// Text returns the whole text, cut or not.
func (t *Text) Text() string { return t.text }

// SetText replaces the text. The row around it keeps its layout until it is
// refreshed; give texts that change a Fix or Grow place.
func (t *Text) SetText(text string) {
	if t.text != text {
		t.text = text
		t.Refresh()
	}
}

// SetColor replaces the colour.
func (t *Text) SetColor(c Color) {
	if t.color != c {
		t.color = c
		t.Refresh()
	}
}

// SetStyle replaces the style.
func (t *Text) SetStyle(style ...Style) {
	if s := styles(style); t.style != s {
		t.style = s
		t.Refresh()
	}
}

// maxCut is how many characters of a text that may be cut are laid out: no line
// has room for more, and measuring takes as long as what is measured.
const maxCut = 1000

func (t *Text) naturalWidth() float32 {
	if t.cut == cutNone {
		return ceil(t.measure(t.text))
	}
	r, whole := t.ends()
	return ceil(t.measure(t.keep(r, len(r), whole)))
}

// ends is what may be shown of a text that may be cut, and whether that is all.
func (t *Text) ends() (r []rune, whole bool) {
	head, tail := maxCut, 0
	if t.cut == cutMiddle {
		head, tail = maxCut/2, maxCut/2
	}
	rest := t.text
	for ; head > 0 && rest != ""; head-- {
		c, n := utf8.DecodeRuneInString(rest)
		r, rest = append(r, c), rest[n:]
	}
	at := len(r)
	for ; tail > 0 && rest != ""; tail-- {
		c, n := utf8.DecodeLastRuneInString(rest)
		r, rest = append(r, c), rest[:len(rest)-n]
	}
	slices.Reverse(r[at:])
	return r, rest == ""
}

// keep is the text with n characters of r in it, and without an ellipsis only
// when whole says that these are all.
func (t *Text) keep(r []rune, n int, whole bool) string {
	if whole && n == len(r) {
		return t.text
	}
	if t.cut == cutMiddle {
		head := (n + 1) / 2
		return string(r[:head]) + "…" + string(r[len(r)-(n-head):])
	}
	return strings.TrimRightFunc(string(r[:n]), unicode.IsSpace) + "…"
}

func (t *Text) measure(s string) float32 {
	return fyne.MeasureText(s, t.size, t.style.fyne()).Width
}

// ascent is the distance from the top of a line to its baseline.
func (t *Text) ascent() float32 { return ascent(t.size, t.style) }

func ascent(size float32, style Style) float32 {
	_, b := fyne.CurrentApp().Driver().RenderedTextSize("X", size, style.fyne(), nil)
	return ceil(b)
}

// shown is the text as it fits into width.
func (t *Text) shown(width float32) string {
	if t.cut == cutNone {
		return t.text
	}
	r, whole := t.ends()
	if all := t.keep(r, len(r), whole); ceil(t.measure(all)) <= width {
		return all
	}
	lo, hi := 0, max(len(r)-1, 0)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if t.measure(t.keep(r, mid, whole)) <= width {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return t.keep(r, lo, whole)
}

// CreateRenderer is Fyne's.
func (t *Text) CreateRenderer() fyne.WidgetRenderer {
	t.canvas = canvas.NewText("", nil)
	r := &textRenderer{t: t}
	r.style()
	return r
}

type textRenderer struct {
	t      *Text
	object fyne.CanvasObject // the canvas text, or what wraps it
}

func (r *textRenderer) Destroy() {}
func (r *textRenderer) Objects() []fyne.CanvasObject {
	if r.object == nil {
		return []fyne.CanvasObject{r.t.canvas}
	}
	return []fyne.CanvasObject{r.object}
}

func (r *textRenderer) style() {
	t := r.t
	t.canvas.Color = colorOf(t, t.color)
	t.canvas.TextSize = t.size
	t.canvas.TextStyle = t.style.fyne()
}

func (r *textRenderer) MinSize() fyne.Size {
	t := r.t
	s := fyne.MeasureText("X", t.size, t.style.fyne())
	if t.cut != cutNone {
		return fyne.NewSize(min(12, t.naturalWidth()), ceil(s.Height))
	}
	return fyne.NewSize(t.naturalWidth(), ceil(s.Height))
}

func (r *textRenderer) Layout(size fyne.Size) {
	t := r.t
	t.canvas.Text = t.shown(size.Width)
	var x float32
	switch t.align {
	case fyne.TextAlignTrailing:
		x = size.Width - ceil(t.measure(t.canvas.Text))
	case fyne.TextAlignCenter:
		x = (size.Width - ceil(t.measure(t.canvas.Text))) / 2
	}
	y := max(size.Height-ceil(t.canvas.MinSize().Height), 0) / 2
	r.object = placeText(t.canvas, round(x), round(y))
	t.canvas.Refresh()
}

func (r *textRenderer) Refresh() {
	r.style()
	r.Layout(r.t.Size())
}

// placeText puts a text's top left at x, y and returns the object to draw.
//
// Fyne draws a whole line at the ascent of the font its first character comes
// from, in a picture as high as Latin text is. A line that starts with, say, an
// ideograph would stand too low and lose its feet; so it is begun with a full
// stop, which is clipped away.
func placeText(t *canvas.Text, x, y float32) fyne.CanvasObject {
	size := t.MinSize() // painters centre a text that is given more
	if !foreign(t.Text) {
		t.Move(fyne.NewPos(x, y))
		t.Resize(size)
		return t
	}
	dot := fyne.MeasureText(".", t.TextSize, t.TextStyle).Width
	t.Text = "." + t.Text
	t.Move(fyne.NewPos(-round(dot), 0))
	t.Resize(t.MinSize())
	clip := container.NewClip(&fyne.Container{Objects: []fyne.CanvasObject{t}})
	clip.Move(fyne.NewPos(x, y))
	clip.Resize(fyne.NewSize(ceil(size.Width)+1, ceil(size.Height)))
	return clip
}

// foreign tells whether s starts with a character the embedded fonts may lack.
func foreign(s string) bool {
	for _, c := range s {
		return c >= 0x250 && (c < 0x370 || c > 0x52F) && (c < 0x1E00 || c > 0x2122)
	}
	return false
}
