package view

import (
	"fmt"
	"reflect"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// moreRows is how many ended missions of earlier days are listed at first, and
// how many each press on "Show more" adds.
const moreRows = 50

// missionsPage is the list of missions, or what teaches the first one.
type missionsPage struct {
	d      *desk
	root   *fyne.Container
	filter model.Filter
	query  string
	limit  int

	waiting, working, cost *kit.Text
	waitMark               *kit.Icon
	summary                *fyne.Container
	search                 *kit.SearchEntry
	list                   *fyne.Container
	scroll                 fyne.CanvasObject
	empty                  *emptyView
	full                   *fyne.Container

	rows    map[string]*missionRow
	actions float32    // the width of the rows' buttons
	order   [][]string // group name and ids, as they are laid out
}

func newMissionsPage(d *desk) *missionsPage {
	p := &missionsPage{d: d, filter: model.FilterAll, limit: moreRows, rows: map[string]*missionRow{}, actions: actionWidth()}
	p.waitMark = kit.NewIcon(kit.ShapeNeeds, 11, kit.Waiting)
	p.waiting, p.working, p.cost = kit.NewText("", kit.SizeSmall, kit.Waiting, kit.Bold), kit.Note(""), kit.Note("")
	p.summary = kit.Row(10)
	filters := []model.Filter{model.FilterAll, model.FilterLive, model.FilterFinished}
	segments := kit.NewSegments(0, func(i int) {
		p.filter = filters[i]
		p.refresh()
	}, say.T("All"), say.T("Live"), say.T("Finished"))
	var field *fyne.Container
	field, p.search = kit.NewSearch(say.T("Filter"), "Ctrl F", func(text string) {
		p.query = text
		p.refresh()
	})
	fieldCell := kit.Fix(188, field)
	create := kit.NewButton(kit.Plain, say.T("New mission"), d.openForm).Icon(kit.ShapePlus)
	summaryCell := kit.Row(0, kit.Gap(14), p.summary)
	head := kit.Fold(620, 860, kit.Row(0, kit.Title(say.T("Missions")), summaryCell, kit.Spring(), segments, kit.Gap(10), fieldCell, kit.Gap(10), create), summaryCell)
	p.list = kit.Col(0)
	p.scroll = scroll(kit.Pad(0, 20, 12, 20, p.list))
	p.full = kit.Col(0, kit.Pad(18, 20, 14, 20, head), kit.Grow(p.scroll))
	p.empty = newEmptyView(d)
	p.root = kit.Sized(0, 0, p.full)
	return p
}

func (p *missionsPage) refresh() {
	now := p.d.now()
	groups := p.d.st.Missions(now, p.filter, p.query)
	none := len(groups) == 0 && p.filter == model.FilterAll && p.query == ""
	if none {
		p.empty.refresh()
	}
	show(p.root, map[bool]fyne.CanvasObject{true: p.empty.root, false: p.full}[none])
	if none {
		return
	}
	p.head(p.d.st.Summary(now))
	order, more := p.shorten(groups)
	for _, g := range groups {
		for _, r := range g.Rows {
			row := p.rows[r.ID]
			if row == nil {
				row = newMissionRow(p.d, r.ID, p.actions)
				p.rows[r.ID] = row
			}
			row.set(r)
		}
	}
	if !reflect.DeepEqual(order, p.order) {
		p.order = order
		p.layout(more)
	}
}

// head says how many wait and work.
func (p *missionsPage) head(sum model.Summary) {
	var parts []fyne.CanvasObject
	if sum.Waiting > 0 {
		p.waiting.SetText(say.N(sum.Waiting, "%d waits for you", "%d wait for you"))
		parts = append(parts, kit.Row(5, p.waitMark, p.waiting))
	}
	if sum.Working > 0 {
		p.working.SetText(say.N(sum.Working, "%d working", "%d working"))
		parts = append(parts, p.working)
	}
	if sum.Cost != "" {
		p.cost.SetText(sum.Cost)
		parts = append(parts, p.cost)
	}
	kit.Set(p.summary, parts...)
}

// shorten cuts the group of earlier days and names what is left in order.
func (p *missionsPage) shorten(groups []model.Group) (order [][]string, more int) {
	for i, g := range groups {
		if g.Name == model.GroupEarlier && len(g.Rows) > p.limit {
			more = len(g.Rows) - p.limit
			groups[i].Rows = g.Rows[:p.limit]
		}
		ids := []string{g.Name, fmt.Sprint(len(g.Rows))}
		for _, r := range groups[i].Rows {
			ids = append(ids, r.ID)
		}
		order = append(order, ids)
	}
	return order, more
}

func (p *missionsPage) layout(more int) {
	var all []fyne.CanvasObject
	listed := map[string]bool{}
	for i, g := range p.order {
		name, count, ids := g[0], g[1], g[2:]
		color := kit.Quiet
		if name == model.GroupWaits {
			color = kit.Waiting
		}
		if i > 0 {
			all = append(all, kit.Gap(12))
		}
		all = append(all, kit.Pad(0, 0, 0, 2, kit.Row(6,
			kit.NewText(say.Word(name), kit.SizeSmall, color, kit.Bold), kit.NewText(count, kit.SizeSmall, color))), kit.Gap(6))
		var rows []fyne.CanvasObject
		for _, id := range ids {
			listed[id] = true
			rows = append(rows, p.rows[id].press)
		}
		all = append(all, rowsCard(name == model.GroupWaits, rows...))
	}
	if more > 0 {
		all = append(all, kit.Gap(8), kit.Row(0, kit.NewButton(kit.Plain, say.T("Show %d more", min(more, moreRows)), func() {
			p.limit += moreRows
			p.refresh()
		}).Small()))
	}
	if len(p.order) == 0 {
		all = append(all, kit.Gap(40), centered(kit.Note(say.T("No mission matches the filter."))))
	}
	for id := range p.rows {
		if !listed[id] {
			delete(p.rows, id)
		}
	}
	kit.Set(p.list, all...)
	p.scroll.Refresh()
}

// show puts one object into a container that holds one.
func show(c *fyne.Container, o fyne.CanvasObject) {
	if len(c.Objects) == 1 && c.Objects[0] == o {
		return
	}
	c.Objects = []fyne.CanvasObject{o}
	c.Refresh()
}

// emptyView teaches the first step.
type emptyView struct {
	d      *desk
	root   *fyne.Container
	agents *fyne.Container
	shown  providers
	drawn  bool
}

func newEmptyView(d *desk) *emptyView {
	e := &emptyView{d: d, agents: kit.Col(0)}
	mark := kit.Box(kit.AccentTint, kit.None, 16, kit.Sized(64, 64, middle(kit.NewIcon(kit.ShapeMark, 34, kit.Accent))))
	create := kit.NewButton(kit.Primary, say.T("New mission"), d.openForm).Icon(kit.ShapePlus)
	mid := kit.Sized(460, 0, kit.Col(0,
		centered(mark), kit.Gap(20),
		centered(kit.Title(say.T("Hand over a first piece of work"))), kit.Gap(10),
		centered(kit.NewText(say.T("Choose a repository, say what should be done and for how long."), kit.SizeBody, kit.Quiet)), kit.Gap(3),
		centered(kit.NewText(say.T("You see and approve everything before it starts."), kit.SizeBody, kit.Quiet)), kit.Gap(22),
		centered(create), kit.Gap(32),
		kit.Note(say.T("Agents on this computer"), kit.Bold), kit.Gap(8),
		e.agents, kit.Gap(20),
		centered(kit.Row(4, kit.Note(say.T("From a terminal:")), kit.Small("reeve start", kit.Mono), kit.Note(say.T("or, to try it with no account,")), kit.Small("reeve demo", kit.Mono)))))
	e.root = kit.Col(0, kit.Pad(18, 20, 0, 20, kit.Row(0, kit.Title(say.T("Missions")))), kit.Grow(scroll(kit.Pad(6, 20, 12, 20, kit.Col(0, kit.Spring(), centered(mid), kit.Spring(), kit.Gap(30))))))
	return e
}

func (e *emptyView) refresh() {
	p := e.d.providers
	if !p.known || p.stale {
		e.d.probe()
	}
	if e.drawn && reflect.DeepEqual(p.list, e.shown.list) && p.problem == e.shown.problem && p.known == e.shown.known {
		return
	}
	e.shown, e.drawn = p, true
	var rows []fyne.CanvasObject
	for _, a := range p.offered() {
		shape, color, text, _ := providerStanding(a)
		if !a.Found && a.Fix != "" {
			text, _ = model.Mend(wire.Provider{Fix: a.Fix})
		}
		top := func(o fyne.CanvasObject) fyne.CanvasObject {
			return kit.Col(0, kit.Sized(0, 18, kit.Row(0, kit.Grow(o))))
		}
		rows = append(rows, kit.Pad(11, 12, 11, 14, kit.Columns(10,
			kit.Fix(14, kit.Col(0, kit.Gap(2), kit.NewIcon(shape, 14, color))), kit.Fix(110, top(kit.Body(providerTitle(a)).CutEnd())),
			kit.Fix(64, top(kit.Note(model.Clean(a.Version), kit.Mono).CutEnd())), kit.Grow(kit.NewParagraph(text, kit.SizeSmall, kit.Quiet)))))
	}
	if len(rows) == 0 {
		text := say.T("Looking for agents")
		if p.problem != "" {
			text = p.problem
		}
		rows = append(rows, kit.Sized(0, 40, kit.Pad(0, 14, 0, 14, kit.Row(0, kit.Grow(kit.Note(text).CutEnd())))))
	}
	kit.Set(e.agents, kit.Rows(38, rows...))
}
