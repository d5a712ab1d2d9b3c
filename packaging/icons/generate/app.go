package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
)

// appID names the program to desktops; icons, desktop entry and metadata carry
// it, and the windows of reeve-desktop say it.
const appID = "io.github.reevehq.reeve"

// writeApp draws the application's icon in the forms that packages want, into
// dst: hicolor/ for Linux, reeve.ico for Windows, reeve.icns for macOS.
func writeApp(src, dst string) error {
	svg, err := os.ReadFile(filepath.Join(src, "app-icon.svg"))
	if err != nil {
		return err
	}
	files, err := appFiles(svg)
	if err != nil {
		return fmt.Errorf("draw app-icon.svg: %w", err)
	}
	for name, data := range files {
		path := filepath.Join(dst, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// appFiles returns the icon files by their path.
func appFiles(svg []byte) (map[string][]byte, error) {
	files := map[string][]byte{"hicolor/scalable/apps/" + appID + ".svg": svg}
	drawn := make(map[int]image.Image)
	pngs := make(map[int][]byte)
	for _, size := range []int{16, 22, 24, 32, 48, 64, 128, 256, 512, 1024} {
		img, err := raster(svg, size, size)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			return nil, err
		}
		drawn[size], pngs[size] = img, b.Bytes()
		if size < 1024 {
			files[fmt.Sprintf("hicolor/%dx%d/apps/%s.png", size, size, appID)] = b.Bytes()
		}
	}
	files["reeve.ico"] = ico(drawn, pngs)
	files["reeve.icns"] = icns(pngs)
	return files, nil
}

// icns is Apple's container: a length, then each picture as a PNG under the
// name of its size; twice the pixels serve the size below on fine screens.
func icns(pngs map[int][]byte) []byte {
	var body bytes.Buffer
	for _, p := range []struct {
		kind string
		size int
	}{
		{"icp4", 16}, {"icp5", 32}, {"icp6", 64}, {"ic07", 128}, {"ic08", 256}, {"ic09", 512},
		{"ic11", 32}, {"ic12", 64}, {"ic13", 256}, {"ic14", 512}, {"ic10", 1024},
	} {
		body.WriteString(p.kind)
		binary.Write(&body, binary.BigEndian, uint32(8+len(pngs[p.size])))
		body.Write(pngs[p.size])
	}
	out := binary.BigEndian.AppendUint32([]byte("icns"), uint32(8+body.Len()))
	return append(out, body.Bytes()...)
}

// ico is Windows' container: a directory, then the pictures. The small ones are
// bitmaps, because not everything that reads icons takes a PNG below 256 pixels.
func ico(drawn map[int]image.Image, pngs map[int][]byte) []byte {
	sizes := []int{16, 24, 32, 48, 64, 256}
	var head, body bytes.Buffer
	binary.Write(&head, binary.LittleEndian, [3]uint16{0, 1, uint16(len(sizes))})
	for _, size := range sizes {
		data := pngs[size]
		if size < 256 {
			data = bitmap(drawn[size])
		}
		head.Write([]byte{byte(size), byte(size), 0, 0}) // 256 is written as 0
		binary.Write(&head, binary.LittleEndian, [2]uint16{1, 32})
		binary.Write(&head, binary.LittleEndian, [2]uint32{uint32(len(data)), uint32(6 + 16*len(sizes) + body.Len())})
		body.Write(data)
	}
	return append(head.Bytes(), body.Bytes()...)
}

// bitmap is a picture as icons hold it: a header that counts the mask's lines
// too, lines from the bottom up, and an empty mask, as the picture has an alpha
// channel.
func bitmap(img image.Image) []byte {
	size := img.Bounds().Dx()
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, struct {
		Size           uint32
		Width, Height  int32
		Planes, Bits   uint16
		Compression    uint32
		Bytes          uint32
		PerX, PerY     int32
		Used, Relevant uint32
	}{Size: 40, Width: int32(size), Height: int32(2 * size), Planes: 1, Bits: 32})
	for y := size - 1; y >= 0; y-- {
		for x := range size {
			c := img.(*image.NRGBA).NRGBAAt(x, y)
			b.Write([]byte{c.B, c.G, c.R, c.A})
		}
	}
	b.Write(make([]byte, size*((size+31)/32*4)))
	return b.Bytes()
}
