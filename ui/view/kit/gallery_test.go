package kit

import (
	"flag"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"
)

var update = flag.Bool("update", false, "write the pictures in testdata anew")

// gallery is every widget, by picture; each is drawn in light and in dark.
var gallery = []struct {
	name  string
	width float32
	build func() fyne.CanvasObject
}{
	{"text", 560, galleryText},
	{"buttons", 640, galleryButtons},
}

func TestGallery(t *testing.T) {
	for _, g := range gallery {
		for mode, name := range map[Mode]string{Light: "light", Dark: "dark"} {
			t.Run(g.name+"-"+name, func(t *testing.T) {
				compare(t, g.name+"-"+name, picture(t, mode, g.width, g.build))
			})
		}
	}
}

// The pictures must not depend on when the theme was set: built in one mode and
// switched, a widget looks as if it was built in the other.
func TestThemeSwitchesAtRunTime(t *testing.T) {
	for _, g := range gallery {
		t.Run(g.name, func(t *testing.T) {
			built := picture(t, Dark, g.width, g.build)
			w := show(t, Light, g.width, g.build)
			test.ApplyTheme(t, Theme{Mode: Dark})
			if n := different(built, w.Canvas().Capture()); n > 0 {
				save(t, g.name+"-switched", w.Canvas().Capture())
				t.Errorf("%d pixels keep the colours of the theme before", n)
			}
		})
	}
}

func show(t *testing.T, mode Mode, width float32, build func() fyne.CanvasObject) fyne.Window {
	t.Helper()
	test.NewTempApp(t)
	test.ApplyTheme(t, Theme{Mode: mode})
	o := Pad(16, 16, 16, 16, build())
	w := test.NewTempWindow(t, Over(Ground, o))
	w.SetPadded(false)
	w.Resize(fyne.NewSize(width, HeightFor(o, width)))
	return w
}

func picture(t *testing.T, mode Mode, width float32, build func() fyne.CanvasObject) image.Image {
	t.Helper()
	return show(t, mode, width, build).Canvas().Capture()
}

// compare checks got against testdata/name.png, pixel by pixel with a little
// room for other floating-point units.
func compare(t *testing.T, name string, got image.Image) {
	t.Helper()
	path := filepath.Join("testdata", name+".png")
	if *update {
		writePNG(t, path, got)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if n := different(want, got); n > 0 {
		save(t, name, got)
		t.Errorf("%s: %d pixels differ; look at testdata/failed/%s.png, and run with -update if it is right", path, n, name)
	}
}

func different(a, b image.Image) int {
	if a.Bounds() != b.Bounds() {
		return -1 + max(1, a.Bounds().Dx()*a.Bounds().Dy())
	}
	n := 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			for _, d := range []int{int(r1) - int(r2), int(g1) - int(g2), int(b1) - int(b2)} {
				if d > 0x800 || d < -0x800 {
					n++
					break
				}
			}
		}
	}
	return n
}

func save(t *testing.T, name string, img image.Image) {
	t.Helper()
	writePNG(t, filepath.Join("testdata", "failed", name+".png"), img)
}

func writePNG(t *testing.T, path string, img image.Image) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
}

func galleryText() fyne.CanvasObject {
	return Col(8,
		Row(10, Title("Missions"), Strong("strong 16"), Body("body 14"), Small("small 12"), Note("note 12"), Small("mono", Mono), Small("bold", Bold), Small("italic", Italic)),
		Row(8, Shrink(Body("A title that is much too long for the place that it has in this row", Bold).CutEnd()), Note("after"), Spring(), Note("right")),
		Row(8, Fix(180, Small("northwind/billing-platform-monorepo", Mono).CutMiddle()), Fix(80, Small("+84", Mono).Right()), Fix(80, Small("middle").Middle())),
		Row(8, Body("請求書の日付 with Latin"), Small("src/請求/日付計算.ts", Mono)),
		HLine(),
		Card(Pad(12, 12, 12, 12, Row(8, NewIcon(ShapeMark, 20, Accent), Strong("Reeve")))),
	)
}

func galleryButtons() fyne.CanvasObject {
	disabled := NewButton(Tint, "Allow once", nil)
	disabled.Disable()
	disabled2 := NewButton(Primary, "Continue to approval", nil)
	disabled2.Disable()
	focused := NewButton(Plain, "Deny", nil).Least(84)
	focused.FocusGained()
	hover := NewButton(Plain, "Hovered", nil)
	hover.MouseIn(nil)
	return Col(12,
		Row(8, NewButton(Primary, "Review", nil), NewButton(Plain, "New mission", nil).Icon(ShapePlus), NewButton(QuietButton, "Deny and say why…", nil), NewButton(Danger, "Stop…", nil).Icon(ShapeStopped), NewButton(Tint, "Allow once", nil).Least(108)),
		Row(8, focused, hover, NewButton(QuietDanger, "Deny and stop", nil), Spring(), NewButton(Plain, "Allow for this mission", nil).After(ShapeDown)),
		Row(8, disabled, disabled2, NewButton(Plain, "Small", nil).Small(), NewButton(Primary, "Review", nil).Small(), NewButton(Plain, "Choose…", nil).Tall()),
	)
}
