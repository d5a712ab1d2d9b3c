package kit

import (
	"fmt"
	"image/color"
	"strings"
	"sync"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/widget"
)

// Shape names a drawing of Icon.
type Shape string

// The shapes. The first seven carry a state: see State.
const (
	ShapeWorking Shape = "working" // ●
	ShapeNews    Shape = "news"    // ◐
	ShapeNeeds   Shape = "needs"   // ▲
	ShapeStopped Shape = "stopped" // ■
	ShapeDone    Shape = "done"    // ✓
	ShapeFailed  Shape = "failed"  // ✕
	ShapePaused  Shape = "paused"  // ⏸

	ShapeMark      Shape = "mark" // Reeve's staff
	ShapeMissions  Shape = "missions"
	ShapeApprovals Shape = "approvals"
	ShapeFolder    Shape = "folder"
	ShapeClock     Shape = "clock"
	ShapeRules     Shape = "rules"
	ShapeSettings  Shape = "settings"
	ShapePlus      Shape = "plus"
	ShapeLeft      Shape = "left"
	ShapeRight     Shape = "right"
	ShapeDown      Shape = "down"
	ShapeSearch    Shape = "search"
	ShapeCopy      Shape = "copy"
	ShapeCheck     Shape = "check"
	ShapeBranch    Shape = "branch"
	ShapeRecover   Shape = "recover"
	ShapeQueue     Shape = "queue"
	ShapeMessage   Shape = "message"
)

// shapes are drawn on a grid of 16; "C" stands for the colour.
var shapes = map[Shape]string{
	ShapeWorking: `<circle cx="8" cy="8" r="5" fill="C"/>`,
	ShapeNews:    `<circle cx="8" cy="8" r="4.75" fill="none" stroke="C" stroke-width="1.5"/><path d="M8 3.2 A4.8 4.8 0 0 0 8 12.8 Z" fill="C"/>`,
	ShapeNeeds:   `<path d="M8 2.2 L14.2 13 L1.8 13 Z" fill="C" stroke="C" stroke-width="1" stroke-linejoin="round"/>`,
	ShapeStopped: `<rect x="3.5" y="3.5" width="9" height="9" rx="1" fill="C"/>`,
	ShapeDone:    `<path d="M3 8.6 L6.5 12 L13 4.6" fill="none" stroke="C" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/>`,
	ShapeFailed:  `<path d="M4 4 L12 12 M12 4 L4 12" fill="none" stroke="C" stroke-width="2" stroke-linecap="round"/>`,
	ShapePaused:  `<rect x="4" y="3" width="2.8" height="10" rx="0.8" fill="C"/><rect x="9.2" y="3" width="2.8" height="10" rx="0.8" fill="C"/>`,

	ShapeMark:      `<path d="M4.5 1.5 L4.5 14.5" stroke="C" stroke-width="2" fill="none" stroke-linecap="round"/><path d="M5.5 2 L14 5.2 L5.5 8.4 Z" fill="C"/>`,
	ShapeMissions:  line(`M4 1.5 L4 14.5 M4 2.5 L13 5.5 L4 8.5 Z`, "1.5"),
	ShapeApprovals: line(`M8 1.8 L13 3.6 L13 8 C13 11 10.8 13.2 8 14.2 C5.2 13.2 3 11 3 8 L3 3.6 Z M5.8 8 L7.4 9.6 L10.4 6.4`, "1.4"),
	ShapeFolder:    line(`M2 4.2 L2 12.5 L14 12.5 L14 5.2 L8 5.2 L6.4 3.2 L2 3.2 Z`, "1.4"),
	ShapeClock:     `<circle cx="8" cy="8" r="6" stroke="C" stroke-width="1.4" fill="none"/>` + line(`M8 4.6 L8 8 L10.4 9.6`, "1.4"),
	ShapeRules:     line(`M3 4 L13 4 M3 8 L13 8 M3 12 L9 12`, "1.4"),
	ShapeSettings: line(`M2.5 5 L8.5 5 M12.5 5 L13.5 5 M2.5 11 L3.5 11 M7.5 11 L13.5 11`, "1.4") +
		`<circle cx="10.5" cy="5" r="1.9" stroke="C" stroke-width="1.4" fill="none"/><circle cx="5.5" cy="11" r="1.9" stroke="C" stroke-width="1.4" fill="none"/>`,
	ShapePlus:   line(`M8 3.5 L8 12.5 M3.5 8 L12.5 8`, "1.6"),
	ShapeLeft:   line(`M9.8 4 L5.8 8 L9.8 12`, "1.5"),
	ShapeRight:  line(`M6.2 4 L10.2 8 L6.2 12`, "1.5"),
	ShapeDown:   line(`M4 6.2 L8 10.2 L12 6.2`, "1.5"),
	ShapeSearch: `<circle cx="7" cy="7" r="4.2" stroke="C" stroke-width="1.4" fill="none"/>` + line(`M10.2 10.2 L13.4 13.4`, "1.4"),
	ShapeCopy:   `<rect x="5.2" y="5.2" width="8" height="8" rx="1.4" stroke="C" stroke-width="1.3" fill="none"/>` + line(`M10.6 3 L4 3 C3.2 3 2.8 3.4 2.8 4.2 L2.8 10.6`, "1.3"),
	ShapeCheck:  line(`M3.5 8.4 L6.6 11.4 L12.5 4.9`, "1.9"),
	ShapeBranch: `<circle cx="4.5" cy="3.6" r="1.6" stroke="C" stroke-width="1.3" fill="none"/><circle cx="4.5" cy="12.4" r="1.6" stroke="C" stroke-width="1.3" fill="none"/>` +
		`<circle cx="11.5" cy="5.4" r="1.6" stroke="C" stroke-width="1.3" fill="none"/>` + line(`M4.5 5.2 L4.5 10.8 M11.5 7 C11.5 9.4 4.5 7.6 4.5 10.8`, "1.3"),
	ShapeRecover: line(`M3 8 A5 5 0 1 0 4.7 4.2 M2.6 2.6 L4.6 4.4 L2.9 6.5`, "1.6"),
	ShapeMessage: line(`M3.4 3 L12.6 3 C13.5 3 14 3.5 14 4.4 L14 9.4 C14 10.3 13.5 10.8 12.6 10.8 L7.4 10.8 L4.4 13.4 L4.4 10.8 L3.4 10.8 C2.5 10.8 2 10.3 2 9.4 L2 4.4 C2 3.5 2.5 3 3.4 3 Z`, "1.4"),
	ShapeQueue:   line(`M8 12.5 L8 3.8 M4.2 7.4 L8 3.6 L11.8 7.4`, "1.6"),
}

func line(path, width string) string {
	return `<path d="` + path + `" fill="none" stroke="C" stroke-width="` + width + `" stroke-linecap="round" stroke-linejoin="round"/>`
}

// drawn keeps each shape's resource by colour: Fyne caches rasters by resource
// name, and rows ask for the same few again and again.
var drawn = struct {
	sync.Mutex
	m map[string]*fyne.StaticResource
}{m: make(map[string]*fyne.StaticResource)}

func shapeResource(s Shape, c color.Color) fyne.Resource {
	r, g, b, _ := c.RGBA()
	hex := fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
	name := string(s) + hex + ".svg"
	drawn.Lock()
	defer drawn.Unlock()
	if res, ok := drawn.m[name]; ok {
		return res
	}
	body, ok := shapes[s]
	if !ok {
		panic("kit: no shape " + string(s))
	}
	res := fyne.NewStaticResource(name, []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">`+
		strings.ReplaceAll(body, `"C"`, `"`+hex+`"`)+`</svg>`))
	drawn.m[name] = res
	return res
}

// Icon is a shape in a colour of the palette.
type Icon struct {
	widget.BaseWidget
	shape Shape
	size  float32
	color Color
	image *canvas.Image
}

// NewIcon makes an icon of size × size. An unknown shape panics when it is
// drawn: it is a fault in the program.
func NewIcon(s Shape, size float32, c Color) *Icon {
	i := &Icon{shape: s, size: size, color: c}
	i.ExtendBaseWidget(i)
	return i
}

// Set replaces shape and colour.
func (i *Icon) Set(s Shape, c Color) {
	if i.shape != s || i.color != c {
		i.shape, i.color = s, c
		i.Refresh()
	}
}

// CreateRenderer is Fyne's.
func (i *Icon) CreateRenderer() fyne.WidgetRenderer {
	i.image = canvas.NewImageFromResource(shapeResource(i.shape, colorOf(i, i.color)))
	i.image.FillMode = canvas.ImageFillContain
	return &iconRenderer{i: i}
}

type iconRenderer struct{ i *Icon }

func (r *iconRenderer) Destroy()                     {}
func (r *iconRenderer) Objects() []fyne.CanvasObject { return []fyne.CanvasObject{r.i.image} }
func (r *iconRenderer) MinSize() fyne.Size           { return fyne.NewSquareSize(r.i.size) }
func (r *iconRenderer) Layout(size fyne.Size)        { r.i.image.Resize(size) }
func (r *iconRenderer) Refresh() {
	if res := shapeResource(r.i.shape, colorOf(r.i, r.i.color)); res != r.i.image.Resource {
		r.i.image.Resource = res
		r.i.image.Refresh()
	}
}
