package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func appIcons(t *testing.T) map[string][]byte {
	t.Helper()
	svg, err := os.ReadFile(filepath.Join(top, "packaging/icons/app-icon.svg"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := appFiles(svg)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func wantPNG(t *testing.T, name string, data []byte, size int) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if b := img.Bounds(); b.Dx() != size || b.Dy() != size {
		t.Errorf("%s is %v, want %d pixels", name, b, size)
	}
	return img
}

func TestHicolorHasEverySize(t *testing.T) {
	files, pictures := appIcons(t), 0
	for name, data := range files {
		var size int
		if n, _ := fmt.Sscanf(name, "hicolor/%d", &size); n == 1 {
			pictures++
			wantPNG(t, name, data, size)
		}
	}
	if pictures != 9 {
		t.Errorf("%d sizes, want 9", pictures)
	}
	if !strings.HasPrefix(string(files["hicolor/scalable/apps/"+appID+".svg"]), "<svg") {
		t.Error("no drawing")
	}
}

// The container is walked as macOS does, by the lengths it says.
func TestIcns(t *testing.T) {
	b := appIcons(t)["reeve.icns"]
	if string(b[:4]) != "icns" || int(binary.BigEndian.Uint32(b[4:])) != len(b) {
		t.Fatalf("head % x of %d bytes", b[:8], len(b))
	}
	want := map[string]int{"icp4": 16, "icp5": 32, "icp6": 64, "ic07": 128, "ic08": 256, "ic09": 512, "ic10": 1024, "ic11": 32, "ic12": 64, "ic13": 256, "ic14": 512}
	for b = b[8:]; len(b) > 0; {
		kind, n := string(b[:4]), binary.BigEndian.Uint32(b[4:])
		wantPNG(t, kind, b[8:n], want[kind])
		delete(want, kind)
		b = b[n:]
	}
	if len(want) > 0 {
		t.Errorf("without %v", want)
	}
}

func TestIco(t *testing.T) {
	files := appIcons(t)
	b := files["reeve.ico"]
	count := int(binary.LittleEndian.Uint16(b[4:]))
	end := 6 + 16*count
	for i := range count {
		entry := b[6+16*i:]
		size := (int(entry[0])+255)%256 + 1
		from, n := int(binary.LittleEndian.Uint32(entry[12:])), int(binary.LittleEndian.Uint32(entry[8:]))
		if from != end {
			t.Errorf("picture %d begins at %d, want %d", i, from, end)
		}
		end = from + n
		data := b[from:end]
		if size == 256 {
			wantPNG(t, "256", data, 256)
			continue
		}
		if mask := size * ((size + 31) / 32 * 4); n != 40+4*size*size+mask {
			t.Errorf("%d pixels take %d bytes", size, n)
		}
		want := wantPNG(t, "hicolor", files[fmt.Sprintf("hicolor/%dx%d/apps/%s.png", size, size, appID)], size).(*image.NRGBA)
		for y := range size {
			for x := range size {
				p := data[40+4*((size-1-y)*size+x):]
				if c := want.NRGBAAt(x, y); [4]byte(p[:4]) != [4]byte{c.B, c.G, c.R, c.A} {
					t.Fatalf("%d: pixel %d,%d is % x, want %v", size, x, y, p[:4], c)
				}
			}
		}
	}
	if end != len(b) {
		t.Errorf("%d bytes, pictures end at %d", len(b), end)
	}
}
