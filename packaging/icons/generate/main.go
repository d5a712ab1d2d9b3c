// Generate draws the program's icons from their SVG sources.
//
//	go run ./packaging/icons/generate
//
// run at the top of the repository, writes assets/app-icon.png and
// assets/tray/*.png. The tray icons come from two grids, because one drawing
// blurs at the other's sizes: 16 serves 16, 32, 48 and 64 pixels, 22 serves 22
// and 24 (at 24 the drawing keeps its size and gains a pixel all round, since
// 22 does not divide 24).
//
//	go run ./packaging/icons/generate -app DIR
//
// writes the application's icon into DIR in the forms that packages want.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"

	"github.com/srwiley/oksvg"
	"github.com/srwiley/rasterx"

	"github.com/reevehq/reeve/assets"
)

// The colours of the strokes: the source's own for light panels, and the one
// that takes its place for dark panels.
const (
	darkStroke  = "#1D1F22"
	lightStroke = "#ECEBE7"
)

func main() {
	app := flag.String("app", "", "write the application's icon for packages into this `folder` instead")
	flag.Parse()
	var err error
	if *app != "" {
		err = writeApp("packaging/icons", *app)
	} else {
		err = write("packaging/icons", "assets")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate icons:", err)
		os.Exit(1)
	}
}

// write draws every icon from the SVGs in src into dst.
func write(src, dst string) error {
	icons, err := draw(src)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dst, "tray"), 0o755); err != nil {
		return err
	}
	for name, img := range icons {
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dst, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// draw returns every icon by its path below the assets folder.
func draw(src string) (map[string]image.Image, error) {
	icons := make(map[string]image.Image)
	svg, err := os.ReadFile(filepath.Join(src, "app-icon.svg"))
	if err != nil {
		return nil, err
	}
	if icons["app-icon.png"], err = raster(svg, 512, 512); err != nil {
		return nil, fmt.Errorf("draw app-icon.svg: %w", err)
	}
	for _, state := range assets.TrayStates() {
		for _, size := range assets.TraySizes() {
			grid, drawn := 16, size
			if size == 22 || size == 24 {
				grid, drawn = 22, 22
			}
			name := fmt.Sprintf("tray-%s-%dgrid.svg", state, grid)
			svg, err := os.ReadFile(filepath.Join(src, "tray", name))
			if err != nil {
				return nil, err
			}
			light := bytes.ReplaceAll(svg, []byte(darkStroke), []byte(lightStroke))
			for stroke, svg := range map[string][]byte{"dark": svg, "light": light} {
				img, err := raster(svg, drawn, size)
				if err != nil {
					return nil, fmt.Errorf("draw %s: %w", name, err)
				}
				icons[fmt.Sprintf("tray/%s-%s-%d.png", stroke, state, size)] = img
			}
		}
	}
	return icons, nil
}

// raster draws an SVG drawn pixels wide in the middle of a size × size image.
func raster(svg []byte, drawn, size int) (image.Image, error) {
	icon, err := oksvg.ReadIconStream(bytes.NewReader(svg), oksvg.StrictErrorMode)
	if err != nil {
		return nil, err
	}
	off := float64(size-drawn) / 2
	icon.SetTarget(off, off, float64(drawn), float64(drawn))
	for i := range icon.SVGPaths { // the library scales outlines, not the width of strokes
		icon.SVGPaths[i].LineWidth *= float64(drawn) / icon.ViewBox.W
	}
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	rgba := image.NewRGBA(img.Bounds())
	icon.Draw(rasterx.NewDasher(size, size, rasterx.NewScannerGV(size, size, rgba, rgba.Bounds())), 1)
	for y := range size {
		for x := range size {
			img.Set(x, y, rgba.At(x, y))
		}
	}
	return img, nil
}
