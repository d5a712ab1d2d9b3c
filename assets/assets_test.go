package assets_test

import (
	"bytes"
	"image/png"
	"strings"
	"testing"

	"github.com/reevehq/reeve/assets"
)

func TestTrayIconsHaveTheirSize(t *testing.T) {
	for _, state := range assets.TrayStates() {
		for _, size := range assets.TraySizes() {
			dark, light := assets.Tray(state, size), assets.TrayLight(state, size)
			for _, b := range [][]byte{dark, light} {
				c, err := png.DecodeConfig(bytes.NewReader(b))
				if err != nil {
					t.Fatal(err)
				}
				if c.Width != size || c.Height != size {
					t.Errorf("%s at %d is %d × %d", state, size, c.Width, c.Height)
				}
			}
			if bytes.Equal(dark, light) {
				t.Errorf("%s at %d is the same on light and dark panels", state, size)
			}
		}
	}
	for ask, want := range map[int]int{1: 16, 17: 22, 23: 24, 40: 48, 64: 64, 256: 64} {
		if !bytes.Equal(assets.Tray(assets.TrayIdle, ask), assets.Tray(assets.TrayIdle, want)) {
			t.Errorf("asked for %d, not given %d", ask, want)
		}
	}
}

func TestAppIcon(t *testing.T) {
	c, err := png.DecodeConfig(bytes.NewReader(assets.AppIcon()))
	if err != nil || c.Width != 512 || c.Height != 512 {
		t.Errorf("%v, %d × %d", err, c.Width, c.Height)
	}
}

func TestFontsCarryTheirLicences(t *testing.T) {
	for name, f := range map[string][]byte{"regular": assets.FontRegular, "semi-bold": assets.FontSemiBold, "italic": assets.FontItalic, "mono": assets.FontMono, "mono semi-bold": assets.FontMonoSemiBold} {
		if !bytes.HasPrefix(f, []byte("OTTO")) && !bytes.HasPrefix(f, []byte{0, 1, 0, 0}) {
			t.Errorf("%s is no OpenType font", name)
		}
	}
	texts := assets.FontLicences()
	if len(texts) != 2 {
		t.Errorf("%d licences, want 2", len(texts))
	}
	for name, text := range texts {
		if !strings.Contains(text, "SIL OPEN FONT LICENSE Version 1.1") {
			t.Errorf("%s is not the OFL", name)
		}
	}
}
