package main

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/assets"
)

const top = "../../.."

// The icons that are built in are those the SVGs say.
func TestCommittedIconsMatchTheirSources(t *testing.T) {
	icons, err := draw(filepath.Join(top, "packaging/icons"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range icons {
		b, err := os.ReadFile(filepath.Join(top, "assets", name))
		if err != nil {
			t.Errorf("%v; run go run ./packaging/icons/generate", err)
			continue
		}
		got, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !same(got, want) {
			t.Errorf("%s is not what its SVG says; run go run ./packaging/icons/generate", name)
		}
	}
	files, err := filepath.Glob(filepath.Join(top, "assets/tray/*.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if icons["tray/"+filepath.Base(f)] == nil {
			t.Errorf("%s has no source", f)
		}
	}
}

// same allows for the last digits of other floating-point units.
func same(a, b image.Image) bool {
	if a.Bounds() != b.Bounds() {
		return false
	}
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			r1, g1, b1, a1 := a.At(x, y).RGBA()
			r2, g2, b2, a2 := b.At(x, y).RGBA()
			for _, d := range []int{int(r1) - int(r2), int(g1) - int(g2), int(b1) - int(b2), int(a1) - int(a2)} {
				if d > 0x400 || d < -0x400 {
					return false
				}
			}
		}
	}
	return true
}

// Without colour, by the covered area alone, each state differs from every other
// at every size.
func TestTrayStatesDifferInShape(t *testing.T) {
	for _, size := range assets.TraySizes() {
		shapes := map[assets.TrayState]image.Image{}
		for _, s := range assets.TrayStates() {
			img, err := png.Decode(bytes.NewReader(assets.Tray(s, size)))
			if err != nil {
				t.Fatal(err)
			}
			for other, o := range shapes {
				var apart, covered float64
				for y := range size {
					for x := range size {
						_, _, _, a := img.At(x, y).RGBA()
						_, _, _, b := o.At(x, y).RGBA()
						apart += max(float64(a)-float64(b), float64(b)-float64(a))
						covered += max(float64(a), float64(b))
					}
				}
				if apart/covered < 0.2 {
					t.Errorf("at %d, %s and %s differ in %.0f%% of their area only", size, s, other, 100*apart/covered)
				}
			}
			shapes[s] = img
		}
	}
}
