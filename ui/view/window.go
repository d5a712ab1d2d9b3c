package view

import (
	"strings"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"

	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// Sizes of the windows, in Fyne's units. The smallest main window is 900 × 600.
var (
	mainSize  = fyne.NewSize(1180, 760)
	leastSize = fyne.NewSize(900, 600)
)

// mainWindow has a side bar with the pages, and the state of the service below.
type mainWindow struct {
	d    *desk
	win  fyne.Window
	root fyne.CanvasObject

	nav   map[string]*kit.NavItem
	page  string
	place *fyne.Container

	missions  *missionsPage
	approvals *approvalsPage
	rules     *rulesPage
	settings  *settingsPage
	link      *linkPage
	footer    *footer
}

// Names of the pages: keys, for say.Word.
var (
	pageMissions  = say.Key("Missions")
	pageApprovals = say.Key("Approvals")
	pageRules     = say.Key("Rules and audit")
	pageSettings  = say.Key("Settings")
)

// newMainWindow builds the content; see openMain for the window.
func newMainWindow(d *desk) *mainWindow {
	m := &mainWindow{d: d, page: pageMissions}
	m.missions, m.approvals, m.rules, m.settings = newMissionsPage(d), newApprovalsPage(d), newRulesPage(d), newSettingsPage(d)
	m.link, m.footer = newLinkPage(d), newFooter(d)
	m.nav = map[string]*kit.NavItem{}
	for name, shape := range map[string]kit.Shape{pageMissions: kit.ShapeMissions, pageApprovals: kit.ShapeApprovals, pageRules: kit.ShapeRules, pageSettings: kit.ShapeSettings} {
		m.nav[name] = kit.NewNavItem(shape, say.Word(name), func() { m.open(name) })
	}
	side := kit.Over(kit.Side, kit.Sized(208, 0, kit.Pad(16, 12, 12, 12, kit.Col(2,
		kit.Pad(0, 10, 0, 10, kit.Row(8, kit.NewIcon(kit.ShapeMark, 20, kit.Accent), kit.Strong("Reeve"))),
		kit.Gap(14),
		m.nav[pageMissions], m.nav[pageApprovals], m.nav[pageRules],
		kit.Spring(),
		m.nav[pageSettings]))))
	m.place = kit.Sized(660, 0, m.missions.root)
	m.root = kit.Over(kit.Ground, kit.Col(0,
		kit.Grow(kit.Columns(0, kit.Fix(208, side), kit.VLine(), kit.Grow(m.place))),
		m.footer.root))
	m.refresh()
	return m
}

// openMain shows the main window, in front.
func (d *desk) openMain() {
	if d.main != nil {
		d.main.win.Show()
		d.main.win.RequestFocus()
		return
	}
	m := newMainWindow(d)
	d.main = m
	m.win = d.window("Reeve", "main", m.root, mainSize)
	m.win.SetCloseIntercept(func() {
		d.rememberSize("main", m.win)
		if d.hasTray {
			d.main = nil
			m.win.SetCloseIntercept(nil)
			m.win.Close()
			return
		}
		d.quit()
	})
	c := m.win.Canvas()
	c.AddShortcut(&desktop.CustomShortcut{KeyName: fyne.KeyN, Modifier: fyne.KeyModifierShortcutDefault}, func(fyne.Shortcut) { d.openForm() })
	c.AddShortcut(&desktop.CustomShortcut{KeyName: fyne.KeyF, Modifier: fyne.KeyModifierShortcutDefault}, func(fyne.Shortcut) {
		m.open(pageMissions)
		c.Focus(m.missions.search)
	})
	m.win.Show()
}

// focus puts the focus on something in the main window that it was given this
// moment: the driver can't tell yet in which window that is.
func (d *desk) focus(o interface {
	fyne.CanvasObject
	fyne.Focusable
}) {
	var c fyne.Canvas
	if d.main != nil && d.main.win != nil {
		c = d.main.win.Canvas()
	} else {
		c = d.app.Driver().CanvasForObject(o)
	}
	if c != nil {
		c.Focus(o)
	}
}

func (m *mainWindow) open(page string) {
	m.page = page
	m.refresh()
}

func (m *mainWindow) refresh() {
	link, _ := m.d.st.Link()
	pending := len(m.d.st.Pending(""))
	waiting := m.d.st.Summary(m.d.now()).Waiting
	if link != model.Running {
		pending, waiting = 0, 0
	}
	m.nav[pageMissions].SetCount(waiting, true)
	m.nav[pageApprovals].SetCount(pending, true)
	for name, item := range m.nav {
		item.SetSelected(name == m.page)
	}
	m.footer.refresh()
	var o fyne.CanvasObject
	switch {
	case m.page == pageSettings:
		m.settings.refresh()
		o = m.settings.root
	case m.link.needed():
		m.link.refresh()
		o = m.link.root
	case m.page == pageApprovals:
		m.approvals.refresh()
		o = m.approvals.root
	case m.page == pageRules:
		m.rules.refresh()
		o = m.rules.root
	default:
		m.missions.refresh()
		o = m.missions.root
	}
	show(m.place, o)
}

// window makes a window of the remembered size.
func (d *desk) window(title, name string, content fyne.CanvasObject, size fyne.Size) fyne.Window {
	w := d.app.NewWindow(title)
	w.SetPadded(false)
	w.SetContent(content)
	p := d.app.Preferences()
	width, height := p.FloatWithFallback(name+".width", float64(size.Width)), p.FloatWithFallback(name+".height", float64(size.Height))
	w.Resize(fyne.NewSize(float32(width), float32(height)))
	return w
}

// rememberSize keeps the size for the next time. Fyne knows no positions.
func (d *desk) rememberSize(name string, w fyne.Window) {
	s := w.Canvas().Size()
	if s.Width < 200 || s.Height < 200 {
		return
	}
	p := d.app.Preferences()
	p.SetFloat(name+".width", float64(s.Width))
	p.SetFloat(name+".height", float64(s.Height))
}

// footer says how the service is.
type footer struct {
	d     *desk
	root  fyne.CanvasObject
	icon  *kit.Icon
	state *kit.Text
	about *kit.Text
	right *kit.Text
	row   *fyne.Container
}

func newFooter(d *desk) *footer {
	f := &footer{d: d, icon: kit.NewIcon(kit.ShapeWorking, 10, kit.Done), state: kit.Small(""), about: kit.Note(""), right: kit.Note("").CutEnd().Right()}
	f.row = kit.Row(8, f.icon, f.state, f.about, kit.Grow(f.right))
	f.root = kit.Over(kit.Side, kit.Col(0, kit.HLine(), kit.Sized(0, 28, kit.Pad(0, 16, 0, 22, f.row))))
	return f
}

func (f *footer) refresh() {
	link, _ := f.d.st.Link()
	shape, color, text, about := kit.ShapeWorking, kit.Done, say.T("Service running"), ""
	switch link {
	case model.Running:
		if s := f.d.st.Service(); s.Version != "" {
			about = model.Clean(s.Version) + "  ·  " + say.T("generation %d", s.Generation)
			if s.Refusals > 0 {
				about += "  ·  " + say.N(s.Refusals, "%d worker refused", "%d workers refused")
			}
		}
	case model.NoService:
		shape, color, text = kit.ShapeStopped, kit.Quiet, say.T("Service stopped")
	case model.Mismatch:
		shape, color, text = kit.ShapeFailed, kit.Wrong, say.T("Another version of the service")
	case model.Blind:
		shape, color, text = kit.ShapeFailed, kit.Wrong, say.T("The service tells this program nothing")
	case model.Updating:
		shape, color, text = kit.ShapeNews, kit.Quiet, say.T("Service is being updated")
	default:
		shape, color, text = kit.ShapeNews, kit.Quiet, say.T("Connecting")
	}
	if f.d.service.busy != "" {
		shape, color, text, about = kit.ShapeNews, kit.Quiet, f.d.service.busy, ""
	}
	f.icon.Set(shape, color)
	f.state.SetText(text)
	f.about.SetText(about)
	f.right.SetText(f.notice(link))
	f.row.Refresh()
}

// notice is what the person should know about this desktop, or which agents
// are ready.
func (f *footer) notice(link model.Link) string {
	if f.d.trayKnown && !f.d.hasTray {
		return say.T("This desktop has no tray. Closing this window quits; the service goes on.")
	}
	var ready []string
	if link == model.Running {
		for _, p := range f.d.providers.list {
			if _, _, _, ok := providerStanding(p); ok {
				ready = append(ready, providerTitle(p))
			}
		}
	}
	switch len(ready) {
	case 0:
		return ""
	case 1:
		return say.T("%s ready", ready[0])
	}
	return say.T("%s and %s ready", strings.Join(ready[:len(ready)-1], ", "), ready[len(ready)-1])
}
