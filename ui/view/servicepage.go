package view

import (
	"fmt"
	"slices"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// servicePage says what the service is, and starts and stops it.
type servicePage struct {
	d       *desk
	root    *fyne.Container
	body    *fyne.Container
	start   *kit.Button
	stop    *kit.Button
	restart *kit.Button
	shown   string
}

func newServicePage(d *desk) *servicePage {
	p := &servicePage{d: d, body: kit.Col(0)}
	p.start = kit.NewButton(kit.Plain, "Start", func() { d.service.start(d) })
	p.stop = kit.NewButton(kit.Plain, "Stop", func() { d.service.stop(d) })
	p.restart = kit.NewButton(kit.Plain, "Restart", func() { d.service.restart(d) })
	p.root = kit.Col(0, kit.Pad(18, 20, 14, 20, kit.Row(8, kit.Title("Service"), kit.Spring(), p.start, p.stop, p.restart)),
		kit.Grow(scroll(kit.Pad(0, 20, 20, 20, p.body))))
	return p
}

func (p *servicePage) refresh() {
	link, text := p.d.st.Link()
	s := p.d.st.Service()
	busy := p.d.service.busy != ""
	enable(p.start, link == model.NoService && !busy)
	enable(p.stop, link == model.Running && !busy)
	enable(p.restart, (link == model.Running || link == model.Mismatch) && !busy)
	key := fmt.Sprint(link, text, s, p.d.service)
	if key == p.shown {
		return
	}
	p.shown = key
	fact := func(label, value string, style ...kit.Style) fyne.CanvasObject {
		return kit.Sized(0, 28, kit.Pad(0, 14, 0, 14, kit.Row(0, kit.Fix(120, kit.Note(label)), kit.Grow(kit.Small(model.Clean(value), style...).CutMiddle()))))
	}
	var rows []fyne.CanvasObject
	switch {
	case busy:
		rows = append(rows, fact("State", p.d.service.busy))
	case link == model.Running:
		rows = append(rows, fact("State", "running"), fact("Version", s.Version, kit.Mono), fact("Generation", fmt.Sprint(s.Generation), kit.Mono),
			fact("Process", fmt.Sprint(s.PID), kit.Mono), fact("Started", model.Clock(s.StartedAt, p.d.now())),
			fact("Missions", model.Count(s.Live, "live mission", "live missions")), fact("Socket", s.Socket, kit.Mono), fact("State is in", s.StateDir, kit.Mono))
	default:
		rows = append(rows, fact("State", text))
	}
	all := []fyne.CanvasObject{kit.Card(kit.Pad(6, 0, 6, 0, kit.Col(0, rows...)))}
	if p.d.service.problem != "" {
		all = append(all, kit.Gap(12), problemBox("That did not work", p.d.service.problem))
	}
	for _, n := range s.Notes {
		all = append(all, kit.Gap(8), kit.NewParagraph(model.Clean(n), kit.SizeSmall, kit.Quiet))
	}
	all = append(all, kit.Gap(20), kit.Note("About", kit.Bold), kit.Gap(6), kit.Card(kit.Pad(6, 0, 6, 0, kit.Col(0,
		fact("Reeve desktop", p.d.o.Version, kit.Mono),
		fact("Fonts", "Inter and IBM Plex Mono, under the SIL Open Font License 1.1"),
		kit.Pad(6, 14, 8, 14, kit.Row(8, kit.NewButton(kit.Plain, "Licences of the fonts", p.licences).Small()))))))
	kit.Set(p.body, all...)
}

// licences shows the whole texts, as the licence of the fonts asks.
func (p *servicePage) licences() {
	texts := assets.FontLicences()
	var names []string
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	var lines [][]kit.Span
	for _, name := range names {
		lines = append(lines, kit.Lines(name+"\n\n"+texts[name]+"\n")...)
	}
	w := p.d.app.NewWindow("Licences of the fonts")
	w.SetPadded(false)
	w.SetContent(kit.Over(kit.Surface, kit.Pad(12, 0, 12, 0, kit.CodeList(lines, kit.SizeSmall, 18))))
	w.Resize(fyne.NewSize(760, 560))
	w.Show()
}

// enable turns a control on or off where that changes something.
func enable(c fyne.Disableable, on bool) {
	if on == !c.Disabled() {
		return
	}
	if on {
		c.Enable()
	} else {
		c.Disable()
	}
}

// visible shows or hides an object where that changes something.
func visible(o fyne.CanvasObject, on bool) {
	if on == o.Visible() {
		return
	}
	if on {
		o.Show()
	} else {
		o.Hide()
	}
}

// problemBox says what went wrong and what to do, where it happened.
func problemBox(title, text string, buttons ...fyne.CanvasObject) fyne.CanvasObject {
	lines := []fyne.CanvasObject{kit.Row(8, kit.NewIcon(kit.ShapeFailed, 14, kit.Wrong), kit.Grow(kit.Body(title, kit.Bold).CutEnd()))}
	if text != "" {
		lines = append(lines, kit.NewParagraph(text, kit.SizeSmall, kit.Ink))
	}
	if len(buttons) > 0 {
		lines = append(lines, kit.Row(8, buttons...))
	}
	return kit.Box(kit.WrongTint, kit.WrongLine, 8, kit.Pad(12, 12, 12, 12, kit.Col(8, lines...)))
}

// linkPage stands in for missions and approvals while there is no service to
// ask.
type linkPage struct {
	d      *desk
	root   *fyne.Container
	button *kit.Button
	shown  string
}

func newLinkPage(d *desk) *linkPage {
	p := &linkPage{d: d, root: kit.Sized(0, 0)}
	p.button = kit.NewButton(kit.Primary, "", func() {
		if link, _ := d.st.Link(); link == model.Mismatch {
			d.service.restart(d)
			return
		}
		d.service.start(d)
	})
	return p
}

// needed says whether there is nothing else to show: the service is away, or
// was never there yet. While it comes back, what is known stays in sight.
func (p *linkPage) needed() bool {
	switch link, _ := p.d.st.Link(); link {
	case model.Running, model.Updating:
		return false
	case model.Connecting:
		return !p.d.st.Known(wire.TopicMissions)
	}
	return true
}

// sentenceText is a sentence in the middle, or a paragraph where it is long.
func sentenceText(text string) fyne.CanvasObject {
	if len(text) < 70 {
		return centered(kit.NewText(text, kit.SizeBody, kit.Quiet))
	}
	return centered(kit.Sized(460, 0, kit.NewParagraph(text, kit.SizeBody, kit.Quiet)))
}

func (p *linkPage) refresh() {
	link, text := p.d.st.Link()
	busy, problem := p.d.service.busy, p.d.service.problem
	key := fmt.Sprint(link, text, busy, problem)
	if key == p.shown {
		return
	}
	p.shown = key
	title, shape, color, tint := "Connecting to the service", kit.ShapeNews, kit.Quiet, kit.Sunken
	label := ""
	switch link {
	case model.NoService:
		title, shape, label = "The service is not running", kit.ShapeStopped, "Start the service"
		text = "Start it to go on. Nothing is lost: missions keep their state."
	case model.Mismatch:
		title, shape, color, tint, label = "The service is another version", kit.ShapeFailed, kit.Wrong, kit.WrongTint, "Restart the service"
	case model.Connecting:
		text = "It looks after your missions and answers in a moment."
	}
	if busy != "" {
		title, text, label = busy, "This takes a few seconds.", ""
	}
	cells := []fyne.CanvasObject{
		centered(kit.Box(tint, kit.None, 16, kit.Sized(64, 64, middle(kit.NewIcon(shape, 30, color))))), kit.Gap(20),
		centered(kit.Title(title)), kit.Gap(10),
		sentenceText(text),
	}
	if label != "" {
		p.button.SetLabel(label)
		cells = append(cells, kit.Gap(22), centered(p.button))
	}
	if problem != "" {
		cells = append(cells, kit.Gap(22), problemBox("That did not work", problem))
	}
	if link == model.NoService && busy == "" {
		cells = append(cells, kit.Gap(22), centered(kit.Row(4, kit.Note("From a terminal:"), kit.Small("reeve service run", kit.Mono))))
	}
	p.root.Objects = []fyne.CanvasObject{kit.Col(0, kit.Spring(), centered(kit.Sized(480, 0, kit.Col(0, cells...))), kit.Spring(), kit.Gap(30))}
	p.root.Refresh()
}
