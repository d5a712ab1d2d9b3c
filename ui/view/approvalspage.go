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

// approvalsPage lists what waits, what was answered lately, and what workers
// were refused.
type approvalsPage struct {
	d        *desk
	root     *fyne.Container
	list     *fyne.Container
	pending  []string
	answered []string
	refusals int
	drawn    bool
}

// answeredRows and refusalRows are how many of each are listed.
const (
	answeredRows = 20
	refusalRows  = 20
)

func newApprovalsPage(d *desk) *approvalsPage {
	p := &approvalsPage{d: d, list: kit.Col(0)}
	p.root = kit.Col(0, kit.Pad(18, 20, 14, 20, kit.Row(0, kit.Title(say.T("Approvals")))),
		kit.Grow(scroll(kit.Pad(0, 20, 12, 20, p.list))))
	return p
}

func (p *approvalsPage) refresh() {
	pending, answered, refusals := p.d.st.Pending(""), p.d.st.Answered(answeredRows), p.d.st.Refusals()
	ids := func(list []wire.Approval) (out []string) {
		for _, a := range list {
			out = append(out, a.ID+a.State)
		}
		return out
	}
	a, b := ids(pending), ids(answered)
	if p.drawn && reflect.DeepEqual(a, p.pending) && reflect.DeepEqual(b, p.answered) && len(refusals) == p.refusals {
		return
	}
	p.pending, p.answered, p.refusals, p.drawn = a, b, len(refusals), true

	var all []fyne.CanvasObject
	section := func(name string, count int, color kit.Color, tinted bool, rows []fyne.CanvasObject) {
		if len(rows) == 0 {
			return
		}
		if len(all) > 0 {
			all = append(all, kit.Gap(12))
		}
		all = append(all, kit.Pad(0, 0, 0, 2, kit.Row(6, kit.NewText(name, kit.SizeSmall, color, kit.Bold), kit.NewText(fmt.Sprint(count), kit.SizeSmall, color))),
			kit.Gap(6), rowsCard(tinted, rows...))
	}
	var rows []fyne.CanvasObject
	for _, ap := range pending {
		rows = append(rows, p.row(ap, kit.NeedsYou, kit.NewButton(kit.Primary, say.T("Review"), func() { p.d.review(ap.ID) }).Small().Least(84)))
	}
	section(say.T("Wait for you"), len(pending), kit.Waiting, true, rows)
	rows = nil
	for _, ap := range answered {
		state := kit.Stopped
		switch ap.State {
		case "allowed":
			state = kit.Succeeded
		case "denied":
			state = kit.Failed
		}
		rows = append(rows, p.row(ap, state, nil))
	}
	section(say.T("Answered lately"), len(answered), kit.Quiet, false, rows)
	rows = nil
	for _, r := range refusals[:min(len(refusals), refusalRows)] {
		title := say.T("A worker was refused")
		if m, ok := p.d.st.Mission(r.Mission); ok {
			title = model.Clean(m.Title)
		}
		rows = append(rows, kit.Sized(0, rowHeight, kit.Pad(0, 12, 0, 14, kit.Row(0,
			kit.NewIcon(kit.ShapeFailed, 14, kit.Wrong), kit.Gap(12),
			kit.Grow(kit.Col(0, kit.Fix(21, kit.Row(8, kit.Shrink(kit.Body(title, kit.Bold).CutEnd()))), kit.Fix(18, kit.Row(0, kit.Grow(kit.Note(model.RefusalText(r)).CutEnd()))))),
			kit.Gap(16), kit.Note(model.Clock(r.At, p.d.now()))))))
	}
	section(say.T("Refused to workers"), len(refusals), kit.Quiet, false, rows)
	if len(all) == 0 {
		all = append(all, kit.Gap(80), centered(kit.Strong(say.T("Nothing waits for you"))), kit.Gap(8),
			centered(kit.NewText(say.T("When a mission is proposed or an agent asks for something, it appears here, in the tray and as a notification."), kit.SizeBody, kit.Quiet)))
	}
	kit.Set(p.list, all...)
}

func (p *approvalsPage) row(a wire.Approval, state kit.State, button fyne.CanvasObject) fyne.CanvasObject {
	now := p.d.now()
	when := say.T("asked %s", model.Clock(a.CreatedAt, now))
	if text := model.Settled(a, now); text != "" {
		when = text
	}
	end := kit.Fix(84, kit.Sized(84, 28))
	if button != nil {
		end = kit.Fix(84, button)
	}
	whenCell := kit.Sized(320, 0, kit.Pad(0, 16, 0, 16, kit.Row(0, kit.Grow(kit.Note(when).CutEnd().Right()))))
	return kit.Sized(0, rowHeight, kit.Pad(0, 12, 0, 14, kit.Fold(360, 700, kit.Row(0,
		state.Icon(14), kit.Gap(12),
		kit.Grow(kit.Col(0,
			kit.Fix(21, kit.Row(8, kit.Shrink(kit.Body(model.Clean(a.Title), kit.Bold).CutEnd()))),
			kit.Fix(18, detailRow(p.d.st.Wants(a), kit.Note(model.ProviderTitle(a.Provider)))))),
		kit.Fix(320, whenCell), end), whenCell)))
}
