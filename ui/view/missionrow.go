package view

import (
	"fmt"
	"math"
	"time"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// rowHeight is the height of a mission in the list.
const rowHeight = 56

// Widths of the list below which a row leaves something out.
const (
	foldCost     = 800
	foldProvider = 680
)

// missionRow is one mission in the list. It stays the same object while the
// mission is listed, so that the focus stays on its button.
type missionRow struct {
	d     *desk
	press *kit.Press
	act   *kit.Button
	wide  float32 // the column of the button
	shown model.Row
	since time.Time // since when the button does what it does
	drawn bool
	busy  bool
}

func newMissionRow(d *desk, id string, wide float32) *missionRow {
	r := &missionRow{d: d, wide: wide}
	r.act = kit.NewButton(kit.Plain, "", r.do).Small().Least(wide)
	r.press = kit.NewPress(kit.Sized(0, rowHeight), 7, func() { d.openMission(id) })
	return r
}

// actionLabel is what the button of a row says.
func actionLabel(a model.Action) string {
	switch a {
	case model.Review:
		return say.T("Review")
	case model.Resume:
		return say.T("Resume")
	case model.Recover:
		return say.As("a list", "Recover…")
	case model.Settle:
		return say.T("Settle…")
	}
	return ""
}

// actionWidth is that of the widest button that a row can have, so that the
// columns of all rows stand in line.
func actionWidth() float32 {
	wide := float32(84)
	for _, a := range []model.Action{model.Review, model.Resume, model.Recover, model.Settle} {
		wide = max(wide, fyne.MeasureText(actionLabel(a), kit.SizeBody, fyne.TextStyle{}).Width+14)
	}
	return wide
}

// do is what the row's one button does. Just after it changed, it does nothing:
// the press was meant for what stood there before.
func (r *missionRow) do() {
	if r.d.now().Sub(r.since) < armDelay {
		return
	}
	switch r.shown.Action {
	case model.Review:
		r.d.review(r.shown.Approval)
	case model.Resume:
		r.d.act(model.DoResume, r.shown.ID)
	case model.Recover:
		r.d.openRecover(r.shown.ID)
	case model.Settle:
		r.d.openEffects(r.shown.ID)
	}
}

func (r *missionRow) set(row model.Row) {
	// The bar is 136 wide: what moves it by less than a pixel is no change.
	row.Fraction = math.Round(row.Fraction*136) / 136
	if r.drawn && row == r.shown {
		return
	}
	if r.drawn && row.Action != r.shown.Action {
		r.since = r.d.now()
	}
	r.shown, r.drawn = row, true
	r.press.SetContent(r.draw())
}

func (r *missionRow) draw() fyne.CanvasObject {
	row, state := r.shown, kitState(r.shown.Shape)
	title := []fyne.CanvasObject{kit.Shrink(kit.Body(row.Title, kit.Bold).CutEnd())}
	if row.Unread {
		title = append(title, unreadDot())
	}
	if row.Messages > 0 {
		title = append(title, kit.Row(3, kit.NewIcon(kit.ShapeMessage, 13, kit.Accent), kit.NewText(fmt.Sprint(row.Messages), kit.SizeSmall, kit.Accent, kit.Bold)))
	}
	if row.Doubts > 0 && row.Action != model.Settle {
		title = append(title, kit.NewText(say.N(row.Doubts, "%d uncertain effect", "%d uncertain effects"), kit.SizeSmall, kit.Waiting, kit.Bold))
	}
	var word []fyne.CanvasObject
	if row.Shape == model.ShapeWorking || row.Shape == model.ShapeWaiting {
		word = append(word, kit.NewText(capital(row.Word), kit.SizeSmall, state.Color(), kit.Bold))
	}
	twoLines := func(top, bottom fyne.CanvasObject) *fyne.Container {
		return kit.Col(0, kit.Fix(21, top), kit.Fix(18, bottom))
	}
	provider := twoLines(
		kit.Row(0, kit.Grow(kit.Small(row.Provider).CutEnd())),
		kit.Row(0, kit.Grow(kit.Note(row.Folder).CutMiddle())))
	left := kit.Small(row.Time)
	if row.Urgent {
		left.SetStyle(kit.Bold)
	}
	var times *fyne.Container
	if row.Bar {
		color := kit.Accent
		switch row.Shape {
		case model.ShapeNeeds:
			color = kit.Waiting
		case model.ShapePaused, model.ShapeWaiting, model.ShapeStopped:
			color = kit.Quiet
		}
		times = twoLines(kit.Row(0, left, kit.Spring(), kit.Note(row.End)), kit.NewTimeBar(float32(row.Fraction), color))
	} else {
		times = twoLines(kit.Row(0, kit.Grow(left.CutEnd())), kit.Row(0, kit.Grow(kit.Note(row.End).CutEnd())))
	}
	cost := twoLines(
		kit.Row(0, kit.Spring(), kit.Small(row.Cost)),
		kit.Row(0, kit.Spring(), kit.Note(row.Tokens)))

	var button fyne.CanvasObject = kit.Sized(r.wide, 28)
	if label := actionLabel(row.Action); label != "" {
		kind := kit.Plain
		if row.Action == model.Review {
			kind = kit.Primary
		}
		r.act.SetKind(kind)
		r.act.SetLabel(label)
		button = r.act
	}
	costCell := kit.Sized(100, 0, kit.Pad(0, 0, 0, 16, cost))
	providerCell := kit.Sized(168, 0, kit.Pad(0, 20, 0, 0, provider))
	cells := kit.Row(0,
		state.Icon(14), kit.Gap(12),
		kit.Grow(twoLines(kit.Row(8, title...), detailRow(row.Detail, word...))), kit.Gap(20),
		kit.Fix(168, providerCell),
		kit.Fix(136, times),
		kit.Fix(100, costCell), kit.Gap(16),
		kit.Fix(r.wide, button))
	return kit.Sized(0, rowHeight, kit.Pad(0, 12, 0, 14,
		kit.Fold(420, foldProvider, kit.Fold(420, foldCost, cells, costCell), providerCell)))
}

func unreadDot() fyne.CanvasObject {
	return kit.NewIcon(kit.ShapeWorking, 10, kit.Accent)
}

// rowsCard draws rows as a card with hairlines between.
func rowsCard(tinted bool, rows ...fyne.CanvasObject) fyne.CanvasObject {
	if tinted {
		return kit.TintedRows(kit.WaitingTint, kit.WaitingLine, 40, rows...)
	}
	return kit.Rows(40, rows...)
}
