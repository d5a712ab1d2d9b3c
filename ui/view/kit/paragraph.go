package kit

import (
	"strings"
	"unicode"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"
)

// Paragraph is text that wraps at the width it gets. Rows and columns of this
// package give it the height it then needs.
type Paragraph struct {
	widget.BaseWidget
	text  string
	size  float32
	color Color
	style Style
	lead  float32 // distance of lines

	width float32 // for which lines holds
	lines []string
	box   *fyne.Container
}

// NewParagraph makes a paragraph; newlines in text are kept.
func NewParagraph(text string, size float32, color Color, style ...Style) *Paragraph {
	lead := float32(20)
	if size <= SizeSmall {
		lead = 18
	}
	p := &Paragraph{text: text, size: size, color: color, style: styles(style), lead: lead, width: -1}
	p.ExtendBaseWidget(p)
	return p
}

// Wrapped is a paragraph of body text.
func Wrapped(text string, style ...Style) *Paragraph {
	return NewParagraph(text, SizeBody, Ink, style...)
}

// Text returns the text.
func (p *Paragraph) Text() string { return p.text }

// SetText replaces the text; the container around has to be refreshed when the
// height can change.
func (p *Paragraph) SetText(text string) {
	if p.text != text {
		p.text, p.width = text, -1
		p.Refresh()
	}
}

func (p *Paragraph) wrapAt(width float32) []string {
	if p.width != width {
		p.width = width
		p.lines = wrap(p.text, width, func(s string) float32 {
			return fyne.MeasureText(s, p.size, p.style.fyne()).Width
		})
	}
	return p.lines
}

func (p *Paragraph) heightFor(width float32) float32 {
	return float32(len(p.wrapAt(width))) * p.lead
}

// CreateRenderer is Fyne's.
func (p *Paragraph) CreateRenderer() fyne.WidgetRenderer {
	p.box = &fyne.Container{}
	return &paragraphRenderer{p}
}

type paragraphRenderer struct{ p *Paragraph }

func (r *paragraphRenderer) Destroy()                     {}
func (r *paragraphRenderer) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{r.p.box} }

// MinSize is narrow, and as high as the text is at its present width.
func (r *paragraphRenderer) MinSize() fyne.Size {
	n := 1
	if r.p.Size().Width > 0 {
		n = len(r.p.wrapAt(r.p.Size().Width))
	}
	return fyne.NewSize(40, float32(n)*r.p.lead)
}

func (r *paragraphRenderer) Layout(size fyne.Size) {
	p := r.p
	lines := p.wrapAt(size.Width)
	p.box.Objects = make([]fyne.CanvasObject, len(lines))
	top := round((p.lead+capHeight*p.size)/2) - ascent(p.size, p.style)
	for i, s := range lines {
		t := canvas.NewText(s, colorOf(p, p.color))
		t.TextSize, t.TextStyle = p.size, p.style.fyne()
		p.box.Objects[i] = placeText(t, 0, float32(i)*p.lead+top)
	}
	p.box.Resize(size)
}

func (r *paragraphRenderer) Refresh() {
	r.Layout(r.p.Size())
	canvas.Refresh(r.p)
}

// wrap breaks text at spaces, between ideographs and, where a word is longer
// than the line, inside the word.
func wrap(text string, width float32, measure func(string) float32) []string {
	var out []string
	space := measure(" ")
	for par := range strings.SplitSeq(text, "\n") {
		var line strings.Builder
		var used float32
		flush := func() {
			out = append(out, line.String())
			line.Reset()
			used = 0
		}
		for i, word := range strings.Split(par, " ") {
			glue := i > 0
			for _, piece := range pieces(word) {
				w := measure(piece)
				need := w
				if glue {
					need += space
				}
				if used+need > width {
					glue = false // a space at a break shows nothing
					if used > 0 {
						flush()
					}
				}
				if glue {
					line.WriteByte(' ')
					used += space
					glue = false
				}
				for w > width && len([]rune(piece)) > 1 {
					n := fits(piece, width-used, measure)
					line.WriteString(piece[:n])
					piece = piece[n:]
					flush()
					w = measure(piece)
				}
				line.WriteString(piece)
				used += w
			}
			if glue { // an empty word: a run of spaces
				line.WriteByte(' ')
				used += space
			}
		}
		flush()
	}
	return out
}

// fits is the length in bytes of the longest start of s, at least one rune, that
// is no wider than width.
func fits(s string, width float32, measure func(string) float32) int {
	ends := make([]int, 0, len(s))
	for i := range s {
		if i > 0 {
			ends = append(ends, i)
		}
	}
	ends = append(ends, len(s))
	lo, hi := 0, len(ends)-1
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if measure(s[:ends[mid]]) <= width {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return ends[lo]
}

// pieces splits a word where a line may break without a space: after each
// ideograph or kana, and at least every chunk runes.
func pieces(word string) []string {
	var out []string
	start, n := 0, 0
	for i, r := range word {
		if i > start && (n >= chunk || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)) {
			out = append(out, word[start:i])
			start, n = i, 0
		}
		n++
	}
	return append(out, word[start:])
}
