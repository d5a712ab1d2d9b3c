package view

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"github.com/reevehq/reeve/ui/view/kit"
)

// sight knows which parts of an approval the person can have seen to their end:
// what lies below the edge of the window has been shown to nobody.
type sight struct {
	pane  *container.Scroll
	parts map[int]fyne.CanvasObject // what draws each part, in the body
	seen  map[int]bool
}

// page makes the body scroll, and looks again whenever other parts of it come
// into sight.
func (w *approvalWindow) page() fyne.CanvasObject {
	w.pane = kit.Scroll(kit.Pad(0, 24, 16, 24, w.body))
	w.pane.OnScrolled = func(fyne.Position) { w.look() }
	return container.New(watched{w.look}, container.NewThemeOverride(w.pane, flat{}))
}

// watched lays an object out, and tells of it.
type watched struct{ then func() }

func (l watched) MinSize(objects []fyne.CanvasObject) fyne.Size { return objects[0].MinSize() }

func (l watched) Layout(objects []fyne.CanvasObject, size fyne.Size) {
	objects[0].Resize(size)
	l.then()
}

// look notes what is in sight.
func (w *approvalWindow) look() {
	if w.note() {
		w.changed()
	}
}

// note reports whether a part came into sight that was not before. What is seen
// before the delay has passed counts only if it is still there after it.
func (w *approvalWindow) note() bool {
	if !w.armed() || w.pane == nil || w.pane.Size().Height <= 0 {
		return false
	}
	news := false
	low := w.pane.Offset.Y + w.pane.Size().Height
	for i, o := range w.parts {
		end := w.body.Position().Y + o.Position().Y + o.Size().Height
		if w.v.Parts[i].Open && !w.seen[i] && o.Size().Height > 0 && end <= low+1 {
			w.seen[i], news = true, true
		}
	}
	return news
}

// sawAll reports whether all that an answer would allow has been in sight.
func (w *approvalWindow) sawAll() bool {
	for i, p := range w.v.Parts {
		if p.Required && !w.seen[i] {
			return false
		}
	}
	return true
}

// canAllow reports whether the person was shown everything, and could see it.
func (w *approvalWindow) canAllow() bool { return w.v.CanAllow() && w.sawAll() }

// scrollKey moves the body by the keys that move pages.
func (w *approvalWindow) scrollKey(k fyne.KeyName) {
	const line = 48
	page := w.pane.Size().Height - line
	y := w.pane.Offset.Y
	switch k {
	case fyne.KeyDown:
		y += line
	case fyne.KeyUp:
		y -= line
	case fyne.KeyPageDown:
		y += page
	case fyne.KeyPageUp:
		y -= page
	case fyne.KeyHome:
		y = 0
	case fyne.KeyEnd:
		y = w.pane.Content.Size().Height
	default:
		return
	}
	y = max(0, min(y, w.pane.Content.Size().Height-w.pane.Size().Height))
	w.pane.ScrollToOffset(fyne.NewPos(0, y))
	w.look()
}

// fit makes the window as high as what it shows wants.
func (w *approvalWindow) fit() {
	now, wanted := w.win.Canvas().Size(), w.size()
	if wanted.Height > now.Height {
		w.win.Resize(fyne.NewSize(max(now.Width, wanted.Width), wanted.Height))
	}
}
