package kit

import (
	"strings"
	"testing"
	"unicode/utf8"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/test"
	"pgregory.net/rapid"
)

func fixed(w, h float32) fyne.CanvasObject { return Sized(w, h, NewFill(Ink)) }

func TestRowSharesItsWidth(t *testing.T) {
	start(t, Theme{})
	a, b, c, hidden := fixed(30, 10), fixed(20, 40), fixed(10, 10), fixed(99, 99)
	hidden.Hide()
	r := Row(5, a, hidden, Gap(7), Grow(b), nil, Fix(33, c))
	if m := r.MinSize(); m != fyne.NewSize(30+5+7+20+5+33, 40) {
		t.Errorf("minimum %v", m)
	}
	r.Resize(fyne.NewSize(200, 50))
	for _, x := range []struct {
		o    fyne.CanvasObject
		pos  fyne.Position
		size fyne.Size
	}{
		{a, fyne.NewPos(0, 20), fyne.NewSize(30, 10)},
		{b, fyne.NewPos(42, 5), fyne.NewSize(120, 40)},
		{c, fyne.NewPos(167, 20), fyne.NewSize(33, 10)},
	} {
		if x.o.Position() != x.pos || x.o.Size() != x.size {
			t.Errorf("at %v %v, want %v %v", x.o.Position(), x.o.Size(), x.pos, x.size)
		}
	}
}

// Whatever is in a row or column, its objects lie on whole units, in order, and
// inside when there is room.
func TestFlexPlacesOnWholeUnits(t *testing.T) {
	start(t, Theme{})
	rapid.Check(t, func(t *rapid.T) {
		var objects, placed []fyne.CanvasObject
		for range rapid.IntRange(1, 8).Draw(t, "n") {
			o := fixed(rapid.Float32Range(1, 60).Draw(t, "w"), rapid.Float32Range(1, 60).Draw(t, "h"))
			placed = append(placed, o)
			switch rapid.IntRange(0, 3).Draw(t, "how") {
			case 0:
				o = Grow(o)
			case 1:
				o = Fix(rapid.Float32Range(1, 50).Draw(t, "fix"), o)
			case 2:
				objects = append(objects, Gap(rapid.Float32Range(0, 9).Draw(t, "gap")))
			}
			objects = append(objects, o)
		}
		vertical := rapid.Bool().Draw(t, "vertical")
		gap := float32(rapid.IntRange(0, 12).Draw(t, "space"))
		c := Row(gap, objects...)
		if vertical {
			c = Col(gap, objects...)
		}
		size := c.MinSize().Add(fyne.NewSize(rapid.Float32Range(0, 300).Draw(t, "more w"), rapid.Float32Range(0, 300).Draw(t, "more h")))
		c.Resize(size)
		var last float32
		for _, o := range placed {
			p, s := o.Position(), o.Size()
			if p.X != round(p.X) || p.Y != round(p.Y) {
				t.Fatalf("at a fraction of a unit: %v", p)
			}
			start, end := p.X, p.X+s.Width
			if vertical {
				start, end = p.Y, p.Y+s.Height
			}
			if start < last {
				t.Fatalf("objects overlap: %v starts before %v", p, last)
			}
			last = end
		}
		limit := size.Width
		if vertical {
			limit = size.Height
		}
		if last > limit+1 {
			t.Fatalf("objects reach %v, past %v", last, limit)
		}
	})
}

func TestTextsShareABaseline(t *testing.T) {
	start(t, Theme{})
	big, small, mono, nested := Title("Big"), Note("small"), Small("mono", Mono), Body("nested")
	inner := Row(4, nested)
	Row(8, big, small, mono, inner).Resize(fyne.NewSize(600, 40))
	want := big.Position().Y + big.ascent()
	for _, x := range []*Text{small, mono} {
		if got := x.Position().Y + x.ascent(); got != want {
			t.Errorf("%q stands at %v, not %v", x.text, got, want)
		}
	}
	if got := inner.Position().Y + nested.Position().Y + nested.ascent(); got != want {
		t.Errorf("the nested row stands at %v, not %v", got, want)
	}
}

// TestLongCutText: of a text that is cut, only what a line may have room for is
// laid out, and it is marked as cut whatever the room.
func TestLongCutText(t *testing.T) {
	start(t, Theme{})
	long := "通貨" + strings.Repeat("x", 1<<20) + "end"
	for _, x := range []struct {
		text *Text
		last string
	}{
		{Small(long).CutEnd(), "x…"},
		{Small(long).CutMiddle(), "end"},
	} {
		for _, width := range []float32{100, 1 << 20} {
			got := x.text.shown(width)
			if n := len([]rune(got)); n > maxCut+1 || !strings.HasPrefix(got, "通貨") || !strings.HasSuffix(got, x.last) || !strings.Contains(got, "…") {
				t.Errorf("%d characters are shown in %v: %.20q", n, width, got)
			}
		}
		if got, want := x.text.naturalWidth(), ceil(x.text.measure(x.text.shown(1<<20))); got != want || x.text.Text() != long {
			t.Errorf("it wants %v, and shows %v", got, want)
		}
	}
	whole := strings.Repeat("通", maxCut)
	for _, text := range []*Text{Small(whole).CutEnd(), Small(whole).CutMiddle()} {
		if text.shown(1<<20) != whole {
			t.Error("what has room is cut")
		}
	}
}

func TestCutText(t *testing.T) {
	start(t, Theme{})
	const path = "northwind/billing-platform-monorepo"
	for _, x := range []struct {
		text         *Text
		prefix, last string
	}{
		{Small(path).CutEnd(), "north", "…"},
		{Small(path).CutMiddle(), "north", "repo"},
	} {
		x.text.Resize(fyne.NewSize(120, 20))
		got := x.text.canvas.Text
		if !strings.HasPrefix(got, x.prefix) || !strings.HasSuffix(got, x.last) || !strings.Contains(got, "…") {
			t.Errorf("cut to %q", got)
		}
		if w := x.text.measure(got); w > 120 {
			t.Errorf("%q is %v wide", got, w)
		}
		x.text.Resize(fyne.NewSize(600, 20))
		if got := x.text.canvas.Text; got != path || x.text.Text() != path {
			t.Errorf("with room it shows %q", x.text.canvas.Text)
		}
	}
}

// Wrapping loses nothing, and no line is too long.
func TestWrap(t *testing.T) {
	measure := func(s string) float32 { return float32(utf8.RuneCountInString(s)) }
	for _, c := range []struct {
		text  string
		width float32
		want  string
	}{
		{"one two three", 7, "one two|three"},
		{"one  two", 20, "one  two"},
		{"a verylongword b", 6, "a|verylo|ngword|b"},
		{"line\n\nline", 9, "line||line"},
		{"日本語の文字", 4, "日本語の|文字"},
		{"", 5, ""},
		{" aa", 2, "aa"},
	} {
		if got := strings.Join(wrap(c.text, c.width, measure), "|"); got != c.want {
			t.Errorf("%q at %v: %q, want %q", c.text, c.width, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-d 漢かé\n]{0,60}`).Draw(t, "text")
		width := float32(rapid.IntRange(2, 20).Draw(t, "width"))
		lines := wrap(text, width, measure)
		plain := strings.NewReplacer(" ", "", "\n", "")
		if got := plain.Replace(strings.Join(lines, "")); got != plain.Replace(text) {
			t.Fatalf("%q became %q", text, lines)
		}
		for _, l := range lines {
			if n := measure(strings.TrimRight(l, " ")); n > width {
				t.Fatalf("%q is longer than %v", l, width)
			}
		}
	})
}

func TestParagraphsGetTheirHeight(t *testing.T) {
	start(t, Theme{})
	p := Wrapped(strings.Repeat("word ", 60))
	after := fixed(10, 10)
	s := Scroll(Pad(8, 8, 8, 8, Col(4, p, after)))
	w := test.NewTempWindow(t, container.NewStack(s))
	w.Resize(fyne.NewSize(300, 100))
	for _, width := range []float32{300, 200, 500} {
		w.Resize(fyne.NewSize(width, 100))
		need := p.heightFor(p.Size().Width)
		if p.Size().Height != need || after.Position().Y != need+4 {
			t.Errorf("at %v the paragraph is %v high and the next at %v; it needs %v", width, p.Size().Height, after.Position().Y, need)
		}
		if got := s.Content.Size().Height; got < need+30 {
			t.Errorf("at %v the scroller holds %v", width, got)
		}
	}
}

// A line that starts in another script is drawn whole and on the Latin baseline:
// behind a full stop, which is out of sight.
func TestForeignTextStandsOnTheBaseline(t *testing.T) {
	start(t, Theme{})
	for in, wrapped := range map[string]bool{"請求書": true, "a請求書": false, "": false, "Ünï": false, "Привет": false, "안녕": true} {
		text := Body(in)
		text.Resize(text.MinSize())
		o := test.WidgetRenderer(text).Objects()[0]
		if _, ok := o.(*container.Clip); ok != wrapped {
			t.Errorf("%q is drawn as %T", in, o)
		}
		if got := strings.TrimPrefix(text.canvas.Text, "."); got != in || text.Text() != in {
			t.Errorf("%q shows %q", in, got)
		}
		if wrapped && text.canvas.Position().X != -round(text.measure(".")) {
			t.Errorf("%q lies at %v, so that its full stop shows", in, text.canvas.Position())
		}
	}
}

func TestSetReplacesARowsObjects(t *testing.T) {
	start(t, Theme{})
	a, b := fixed(10, 10), fixed(20, 10)
	r := Row(0, a)
	r.Resize(fyne.NewSize(100, 10))
	Set(r, Spring(), b)
	if len(r.Objects) != 2 || b.Position().X != 80 {
		t.Errorf("%d objects, the new one at %v", len(r.Objects), b.Position())
	}
}
