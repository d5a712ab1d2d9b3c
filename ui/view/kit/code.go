package kit

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"
)

// Span is a piece of a line of code.
type Span struct {
	Text  string // the exact text
	Token string // if not empty, drawn as a chip in place of Text
}

// Lines makes lines of one span each from text, without looking for anything
// that cannot be seen: not for text somebody else wrote and the user decides on.
func Lines(text string) [][]Span {
	var out [][]Span
	for l := range strings.SplitSeq(text, "\n") {
		out = append(out, []Span{{Text: l}})
	}
	return out
}

// run is a piece of one colour, or a chip.
type run struct {
	text  string
	color Color
	chip  bool
}

// codeLine is one line of code in mono. A line too long for its place goes on
// below, so that nothing of it is out of sight.
type codeLine struct {
	widget.BaseWidget
	runs []run
	size float32
	lead float32

	width float32 // for which rows holds
	rows  [][]run
	box   *fyne.Container
}

func newCodeLine(runs []run, size, lead float32) *codeLine {
	c := &codeLine{runs: runs, size: size, lead: lead, width: -1}
	c.ExtendBaseWidget(c)
	return c
}

// plainRuns are a line's spans in one colour, tabs as four spaces.
func plainRuns(spans []Span, c Color) []run {
	var out []run
	for _, s := range spans {
		if s.Token != "" {
			out = append(out, run{text: s.Token, color: Waiting, chip: true})
		} else if s.Text != "" {
			out = append(out, run{text: strings.ReplaceAll(s.Text, "\t", "    "), color: c})
		}
	}
	return out
}

const (
	chipInset = 4 // inside a chip, each side
	chipGap   = 1 // outside
)

func (c *codeLine) measure(s string, chip bool) float32 {
	if chip {
		return ceil(fyne.MeasureText(s, c.size-3, (Mono|Bold).fyne()).Width) + 2*(chipInset+chipGap)
	}
	return fyne.MeasureText(s, c.size, Mono.fyne()).Width
}

func (c *codeLine) wrapAt(width float32) [][]run {
	if c.width == width {
		return c.rows
	}
	c.width = width
	c.rows = [][]run{nil}
	var x float32
	add := func(r run, w float32) {
		last := len(c.rows) - 1
		c.rows[last] = append(c.rows[last], r)
		x += w
	}
	next := func() { c.rows, x = append(c.rows, nil), 0 }
	for _, r := range chunked(c.runs) {
		w := c.measure(r.text, r.chip)
		if r.chip {
			if x > 0 && x+w > width {
				next()
			}
			add(r, w)
			continue
		}
		for x+w > width+0.5 && width > 0 {
			n := fits(r.text, width-x, func(s string) float32 { return c.measure(s, false) })
			head := r.text[:n]
			hw := c.measure(head, false)
			if x > 0 && x+hw > width { // not even one character fits
				next()
				continue
			}
			if n == len(r.text) {
				break
			}
			add(run{text: head, color: r.color}, hw)
			next()
			r.text = r.text[n:]
			w = c.measure(r.text, false)
		}
		add(r, w)
	}
	return c.rows
}

// chunk is how many runes are measured at once. Breaking a line measures what is
// left of it again and again, which would take for ever on a line of megabytes.
const chunk = 256

func chunked(runs []run) []run {
	var out []run
	for _, r := range runs {
		for !r.chip && utf8.RuneCountInString(r.text) > chunk {
			n := runeEnd(r.text, chunk)
			out = append(out, run{text: r.text[:n], color: r.color})
			r.text = r.text[n:]
		}
		out = append(out, r)
	}
	return out
}

// runeEnd is the length in bytes of the first n runes of s.
func runeEnd(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func (c *codeLine) heightFor(width float32) float32 { return float32(len(c.wrapAt(width))) * c.lead }

// CreateRenderer is Fyne's.
func (c *codeLine) CreateRenderer() fyne.WidgetRenderer {
	c.box = &fyne.Container{}
	return &codeRenderer{c}
}

type codeRenderer struct{ c *codeLine }

func (r *codeRenderer) Destroy()                     {}
func (r *codeRenderer) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{r.c.box} }

func (r *codeRenderer) MinSize() fyne.Size {
	n := 1
	if w := r.c.Size().Width; w > 0 {
		n = len(r.c.wrapAt(w))
	}
	return fyne.NewSize(80, float32(n)*r.c.lead)
}

func (r *codeRenderer) Layout(size fyne.Size) {
	c := r.c
	c.box.Resize(size)
	c.box.Objects = nil
	base := round((c.lead + capHeight*c.size) / 2)
	for i, runs := range c.wrapAt(size.Width) {
		top := float32(i) * c.lead
		var x float32
		for _, run := range runs {
			w := c.measure(run.text, run.chip)
			if run.chip {
				r.chip(run, round(x)+chipGap, top, base, w-2*chipGap)
			} else {
				t := canvas.NewText(run.text, colorOf(c, run.color))
				t.TextSize, t.TextStyle = c.size, Mono.fyne()
				r.place(t, Mono, x, top+base)
			}
			x += w
		}
	}
}

func (r *codeRenderer) chip(run run, x, top, base, w float32) {
	h := round(r.c.size * 1.15)
	ground := canvas.NewRectangle(colorOf(r.c, WaitingTint))
	ground.StrokeColor, ground.StrokeWidth, ground.CornerRadius = colorOf(r.c, Waiting), 1, 4
	ground.Move(fyne.NewPos(x, top+round((r.c.lead-h)/2)))
	ground.Resize(fyne.NewSize(w, h))
	r.c.box.Objects = append(r.c.box.Objects, ground)
	t := canvas.NewText(run.text, colorOf(r.c, Waiting))
	t.TextSize, t.TextStyle = r.c.size-3, (Mono | Bold).fyne()
	r.place(t, Mono|Bold, x+chipInset, top+round((r.c.lead+capHeight*t.TextSize)/2))
}

func (r *codeRenderer) place(t *canvas.Text, style Style, x, base float32) {
	r.c.box.Objects = append(r.c.box.Objects, placeText(t, round(x), base-ascent(t.TextSize, style)))
}

func (r *codeRenderer) Refresh() {
	r.Layout(r.c.Size())
	canvas.Refresh(r.c)
}

// Chip draws the name of one character that cannot be seen, as in code.
func Chip(token string, size float32) fyne.CanvasObject {
	c := newCodeLine([]run{{text: token, color: Waiting, chip: true}}, size, round(size*1.5))
	return Sized(c.measure(token, true), c.lead, c)
}

// CodeBlock shows code with line numbers on a sunken ground, every character of
// it: long lines wrap. Each line is 24 high or a multiple.
func CodeBlock(lines [][]Span) *fyne.Container {
	return Box(Sunken, Line, 6, Pad(8, 12, 8, 0, Code(lines, SizeBody, 24)))
}

// Code is the lines of a CodeBlock without its ground, at any size and distance
// of lines.
func Code(lines [][]Span, size, lead float32) *fyne.Container {
	digits := max(2, len(strconv.Itoa(len(lines))))
	gutter := 12 + ceil(float32(digits)*fyne.MeasureText("0", SizeSmall, Mono.fyne()).Width)
	rows := make([]fyne.CanvasObject, len(lines))
	for i, l := range lines {
		number := Sized(gutter, lead, Row(0, Grow(Note(strconv.Itoa(i+1), Mono).Right())))
		rows[i] = Columns(14, Fix(gutter, Col(0, number)), Grow(newCodeLine(plainRuns(l, Ink), size, lead)))
	}
	return Col(0, rows...)
}
