package kit

import (
	"image/color"
	"math"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"
	"fyne.io/fyne/v2/theme"
)

// Every combination in use: what is written on each ground, and the edges that
// tell where something can be filled in or has the focus.
func TestContrast(t *testing.T) {
	text := map[Color][]Color{
		Ground:        {Ink, Quiet, Accent, Waiting, Wrong, Done},
		Side:          {Ink, Quiet, Accent, Waiting, Wrong, Done},
		Surface:       {Ink, Quiet, Accent, Waiting, Wrong, Done, Keyword, Literal, Comment, Number},
		Sunken:        {Ink, Quiet, Accent, Waiting, Wrong, Done},
		Raised:        {Ink, Quiet, Wrong},
		Hover:         {Ink, Quiet, Wrong},
		Selected:      {Ink, Quiet, Waiting},
		Accent:        {OnAccent},
		AccentTint:    {Ink, Quiet, Accent, Done},
		WaitingTint:   {Ink, Quiet, Waiting, Wrong},
		WrongTint:     {Ink, Quiet, Wrong},
		DoneTint:      {Ink, Quiet, Done},
		Added:         {Ink, Quiet, Done, Keyword, Literal, Comment, Number},
		Removed:       {Ink, Quiet, Wrong, Keyword, Literal, Comment, Number},
		AddedGutter:   {Quiet},
		RemovedGutter: {Quiet},
	}
	edges := map[Color][]Color{
		Ground:  {InputEdge, Accent},
		Side:    {Accent}, // nothing to fill in lies there but what brings its Surface
		Surface: {InputEdge, Accent},
	}
	for name, variant := range map[string]fyne.ThemeVariant{"light": theme.VariantLight, "dark": theme.VariantDark} {
		check := func(pairs map[Color][]Color, least float64) {
			for ground, inks := range pairs {
				for _, ink := range inks {
					if c := contrast(paletteColor(ground, variant), paletteColor(ink, variant)); c < least {
						t.Errorf("%s: %s on %s has a contrast of %.2f, less than %.1f", name, ink, ground, c, least)
					}
				}
			}
		}
		check(text, 4.5)
		check(edges, 3)
	}
}

func contrast(a, b color.NRGBA) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(c color.NRGBA) float64 {
	f := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*f(c.R) + 0.7152*f(c.G) + 0.0722*f(c.B)
}

func TestThemeFollowsTheSystemUnlessTold(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		ask  fyne.ThemeVariant
		want fyne.ThemeVariant
	}{
		{System, theme.VariantLight, theme.VariantLight},
		{System, theme.VariantDark, theme.VariantDark},
		{Light, theme.VariantDark, theme.VariantLight},
		{Dark, theme.VariantLight, theme.VariantDark},
	} {
		th := Theme{Mode: c.mode}
		if got := th.Color(Ink, c.ask); got != paletteColor(Ink, c.want) {
			t.Errorf("mode %d asked for %d gives %v", c.mode, c.ask, got)
		}
		if got := th.Color(theme.ColorNameForeground, c.ask); got != paletteColor(Ink, c.want) {
			t.Errorf("mode %d asked for %d gives stock widgets %v", c.mode, c.ask, got)
		}
	}
}

// Every shape must be drawable: a misspelt one would panic in the field.
func TestShapesDraw(t *testing.T) {
	start(t, Theme{})
	for s := range shapes {
		i := NewIcon(s, 16, Ink)
		w := test.NewTempWindow(t, i)
		blank := true
		img := w.Canvas().Capture()
		first := img.At(0, 0)
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				blank = blank && img.At(x, y) == first
			}
		}
		if blank {
			t.Errorf("%s draws nothing", s)
		}
	}
	for s := Working; s <= Paused; s++ {
		if s.Word() == "" || shapes[s.Shape()] == "" {
			t.Errorf("state %d lacks a word or a shape", s)
		}
		for o := Working; o < s; o++ {
			if o.Word() == s.Word() || o.Shape() == s.Shape() {
				t.Errorf("states %d and %d look or read the same", o, s)
			}
		}
	}
}
