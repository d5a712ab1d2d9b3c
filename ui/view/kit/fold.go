package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
)

// Fold lays o out in whatever width there is, from least on; where that is
// under width, the objects in away are left out of o.
func Fold(least, width float32, o fyne.CanvasObject, away ...fyne.CanvasObject) *fyne.Container {
	return container.New(&fold{least: least, width: width, away: away, folded: -1}, o)
}

type fold struct {
	least, width float32
	away         []fyne.CanvasObject
	folded       int // 0: nothing is away; 1: away; -1: not laid out yet
}

func (f *fold) apply(width float32) {
	want := 0
	if width < f.width {
		want = 1
	}
	if f.folded == want {
		return
	}
	f.folded = want
	for _, o := range f.away {
		if want == 1 {
			o.Hide()
		} else {
			o.Show()
		}
	}
}

func (f *fold) MinSize(objects []fyne.CanvasObject) fyne.Size {
	return fyne.NewSize(f.least, objects[0].MinSize().Height)
}

func (f *fold) Layout(objects []fyne.CanvasObject, size fyne.Size) {
	f.apply(size.Width)
	objects[0].Move(fyne.NewPos(0, 0))
	objects[0].Resize(size)
}

func (f *fold) heightFor(objects []fyne.CanvasObject, width float32) float32 {
	f.apply(width)
	return HeightFor(objects[0], width)
}
