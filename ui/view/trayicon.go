package view

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ui/model"
)

// traySize is the size of the icon in pixels; panels scale it down.
const traySize = 64

// halo is how far the dark edge reaches around the light strokes, in pixels of
// traySize: one pixel where a panel draws the icon at 22.
const halo = 3

// trayIcon is the icon of a state: light strokes with a dark edge, because no
// desktop tells whether its panel is light or dark.
func trayIcon(s model.TrayState) fyne.Resource {
	state := assets.TrayState(s)
	name := "tray-" + string(state) + ".png"
	light, err := png.Decode(bytes.NewReader(assets.TrayLight(state, traySize)))
	if err != nil {
		return fyne.NewStaticResource(name, assets.Tray(state, traySize))
	}
	var out bytes.Buffer
	if err := png.Encode(&out, edged(light, color.NRGBA{R: 0x1d, G: 0x1f, B: 0x22, A: 0xff})); err != nil {
		return fyne.NewStaticResource(name, assets.Tray(state, traySize))
	}
	return fyne.NewStaticResource(name, out.Bytes())
}

// edged draws img over an edge of colour c around all that is not clear.
func edged(img image.Image, c color.NRGBA) image.Image {
	b := img.Bounds()
	out := image.NewNRGBA(b)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			var most float64
			for dy := -halo; dy <= halo; dy++ {
				for dx := -halo; dx <= halo; dx++ {
					near := image.Pt(x+dx, y+dy)
					reach := math.Min(1, math.Max(0, halo+0.5-math.Hypot(float64(dx), float64(dy))))
					if reach == 0 || !near.In(b) {
						continue
					}
					_, _, _, a := img.At(near.X, near.Y).RGBA()
					most = math.Max(most, reach*float64(a)/0xffff)
				}
			}
			edge := c
			edge.A = uint8(most * 0xff)
			out.SetNRGBA(x, y, edge)
		}
	}
	draw.Draw(out, b, img, b.Min, draw.Over)
	return out
}
