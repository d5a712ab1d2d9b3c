package view

import (
	"fmt"
	"slices"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// settingsPage says what the service is, and starts and stops it; below, which
// agents there are, which secrets are kept for them, and about this program.
type settingsPage struct {
	d       *desk
	root    *fyne.Container
	body    *fyne.Container
	start   *kit.Button
	stop    *kit.Button
	restart *kit.Button
	install *kit.Button
	agents  *agentsCard
	secrets *credentialsCard
	looks   *appearanceCard
	shown   string
}

func newSettingsPage(d *desk) *settingsPage {
	p := &settingsPage{d: d, body: kit.Col(0), agents: newAgentsCard(d), secrets: newCredentialsCard(d), looks: newAppearanceCard(d)}
	p.start = kit.NewButton(kit.Plain, say.T("Start"), func() { d.service.start(d) }).Small()
	p.stop = kit.NewButton(kit.Plain, say.T("Stop"), func() { d.service.stop(d) }).Small()
	p.restart = kit.NewButton(kit.Plain, say.T("Restart"), func() { d.service.restart(d) }).Small()
	p.install = kit.NewButton(kit.Plain, say.T("Start at every log-on"), func() { d.service.install(d) }).Small()
	p.root = kit.Col(0, kit.Pad(18, 20, 8, 20, kit.Sized(0, 32, kit.Row(8, kit.Title(say.T("Settings")), kit.Spring()))),
		kit.Grow(scroll(kit.Pad(6, 20, 20, 20, p.body))))
	return p
}

func (p *settingsPage) refresh() {
	link, text := p.d.st.Link()
	s := p.d.st.Service()
	if found := &p.d.providers; link == model.Running && (!found.known && found.problem == "" || found.stale) {
		p.d.probe()
	}
	busy := p.d.service.busy != ""
	enable(p.start, link == model.NoService && !busy)
	enable(p.stop, link == model.Running && !busy)
	enable(p.install, (link == model.Running || link == model.NoService) && !busy && !p.d.service.logon && !p.d.st.Unmanaged)
	enable(p.restart, (link == model.Running || link == model.Mismatch) && !busy)
	key := fmt.Sprint(link, text, s, p.d.service, p.agents.key(), p.secrets.key(), p.looks.key())
	p.agents.enable()
	p.secrets.enable()
	if key == p.shown {
		return
	}
	p.shown = key
	var rows []fyne.CanvasObject
	switch {
	case busy:
		rows = append(rows, setting(say.T("State"), p.d.service.busy))
	case link == model.Running:
		rows = append(rows, setting(say.T("State"), say.As("a service", "running")), setting(say.T("Version"), s.Version, kit.Mono), setting(say.T("Generation"), fmt.Sprint(s.Generation), kit.Mono),
			setting(say.T("Process"), fmt.Sprint(s.PID), kit.Mono), setting(say.T("Started"), model.Clock(s.StartedAt, p.d.now())),
			setting(say.T("Missions"), say.N(s.Live, "%d live mission", "%d live missions")), setting(say.T("Socket"), s.Socket, kit.Mono), setting(say.T("State is in"), s.StateDir, kit.Mono))
	default:
		rows = append(rows, setting(say.T("State"), text))
	}
	if p.d.service.look(p.d); p.d.service.starts != "" {
		rows = append(rows, setting(say.T("Starts"), p.d.service.starts))
	}
	all := []fyne.CanvasObject{sectionHead(say.T("Service"), p.install, p.start, p.stop, p.restart), kit.Card(kit.Pad(6, 0, 6, 0, kit.Col(0, rows...)))}
	if p.d.service.problem != "" {
		all = append(all, kit.Gap(12), problemBox(say.T("That did not work"), p.d.service.problem))
	}
	for _, n := range s.Notes {
		all = append(all, kit.Gap(8), kit.NewParagraph(model.Clean(n), kit.SizeSmall, kit.Quiet))
	}
	all = append(append(all, kit.Gap(20)), p.agents.draw()...)
	all = append(append(all, kit.Gap(20)), p.secrets.draw()...)
	all = append(append(all, kit.Gap(20)), p.looks.draw()...)
	all = append(all, kit.Gap(20), sectionHead(say.T("About")), kit.Card(kit.Pad(6, 0, 6, 0, kit.Col(0,
		setting(say.T("Reeve desktop"), p.d.o.Version, kit.Mono),
		setting(say.T("Fonts"), "Inter and IBM Plex Mono, under the SIL Open Font License 1.1"),
		kit.Pad(6, 14, 8, 14, kit.Row(8, kit.NewButton(kit.Plain, say.T("Licences of the fonts"), p.licences).Small()))))))
	kit.Set(p.body, all...)
}

// sectionHead names a part of a page, with its buttons at the right.
func sectionHead(name string, buttons ...fyne.CanvasObject) fyne.CanvasObject {
	row := append([]fyne.CanvasObject{kit.Note(name, kit.Bold), kit.Spring()}, buttons...)
	height := float32(18)
	if len(buttons) > 0 {
		height = 28
	}
	return kit.Pad(0, 0, 6, 2, kit.Sized(0, height, kit.Row(8, row...)))
}

// setting is one labelled line.
func setting(label, value string, style ...kit.Style) fyne.CanvasObject {
	return kit.Sized(0, 28, kit.Pad(0, 14, 0, 14, kit.Row(0, kit.Fix(120, kit.Note(label)), kit.Grow(kit.Small(model.Clean(value), style...).CutMiddle()))))
}

// licences shows the whole texts, as the licence of the fonts asks.
func (p *settingsPage) licences() {
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
	w := p.d.app.NewWindow(say.T("Licences of the fonts"))
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
	d       *desk
	root    *fyne.Container
	button  *kit.Button
	install *kit.Button
	shown   string
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
	p.install = kit.NewButton(kit.Plain, say.T("Start it now and at every log-on"), func() { d.service.install(d) })
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
	if link == model.NoService {
		p.d.service.look(p.d)
	}
	key := fmt.Sprint(link, text, busy, problem, p.d.st.Unmanaged)
	if key == p.shown {
		return
	}
	p.shown = key
	title, shape, color, tint := say.T("Connecting to the service"), kit.ShapeNews, kit.Quiet, kit.Sunken
	label := ""
	switch link {
	case model.NoService:
		title, shape, label = say.T("The service is not running"), kit.ShapeStopped, say.T("Start the service")
		text = say.T("Start it to go on. Nothing is lost: missions keep their state.")
	case model.Mismatch:
		title, shape, color, tint, label = say.T("The service is another version"), kit.ShapeFailed, kit.Wrong, kit.WrongTint, say.T("Restart the service")
	case model.Blind:
		title, shape, color, tint = say.T("The service tells this program nothing"), kit.ShapeFailed, kit.Wrong, kit.WrongTint
	case model.Connecting:
		text = say.T("It looks after your missions and answers in a moment.")
	}
	if busy != "" {
		title, text, label = busy, say.T("This takes a few seconds."), ""
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
	if label != "" && link == model.NoService && !p.d.st.Unmanaged {
		cells = append(cells, kit.Gap(10), centered(p.install))
	}
	if problem != "" {
		cells = append(cells, kit.Gap(22), problemBox(say.T("That did not work"), problem))
	}
	if link == model.NoService && busy == "" {
		cells = append(cells, kit.Gap(22), centered(kit.Row(4, kit.Note(say.T("From a terminal:")), kit.Small("reeve service run", kit.Mono))))
	}
	p.root.Objects = []fyne.CanvasObject{kit.Col(0, kit.Spring(), centered(kit.Sized(480, 0, kit.Col(0, cells...))), kit.Spring(), kit.Gap(30))}
	p.root.Refresh()
}
