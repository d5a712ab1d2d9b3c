package view

import (
	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

// kitState is the look of a shape of the model.
func kitState(s model.Shape) kit.State {
	switch s {
	case model.ShapeWorking:
		return kit.Working
	case model.ShapeNeeds:
		return kit.NeedsYou
	case model.ShapeStopped:
		return kit.Stopped
	case model.ShapeDone:
		return kit.Succeeded
	case model.ShapeFailed:
		return kit.Failed
	case model.ShapePaused:
		return kit.Paused
	}
	return kit.WaitingForNews
}

// canPause tells whether a mission in the phase can be paused, or is about to
// do something that pausing would hold.
func canPause(phase string) bool {
	p := mission.Phase(phase)
	return p == mission.Working || p == mission.Waiting
}

func canResume(phase string) bool {
	p := mission.Phase(phase)
	return p == mission.Paused || p == mission.Blocked
}

// canRecover says that the worker is gone and a person may let the mission go
// on.
func canRecover(m wire.Mission) bool { return m.Recovery == string(mission.ApprovalRequired) }

func canStop(phase string) bool {
	p := mission.Phase(phase)
	return !p.Terminal() && p != mission.Stopping
}

// detailRow draws a line of ours with the agent's part in mono.
func detailRow(d model.Detail, before ...fyne.CanvasObject) *fyne.Container {
	var cells []fyne.CanvasObject
	cells = append(cells, before...)
	switch {
	case d.Code != "":
		if d.Text != "" {
			cells = append(cells, kit.Note(d.Text))
		}
		cells = append(cells, kit.Shrink(kit.Small(d.Code, kit.Mono).CutEnd()))
	case d.Text != "":
		cells = append(cells, kit.Shrink(kit.Note(d.Text).CutEnd()))
	}
	if d.Tail != "" {
		cells = append(cells, kit.Note("·"), kit.Note(d.Tail))
	}
	return kit.Row(5, cells...)
}

// middle puts o in the middle of its place, both ways.
func middle(o fyne.CanvasObject) fyne.CanvasObject {
	return kit.Col(0, kit.Spring(), kit.Row(0, kit.Spring(), o, kit.Spring()), kit.Spring())
}

// centered puts o in the middle of a row.
func centered(o fyne.CanvasObject) fyne.CanvasObject {
	return kit.Row(0, kit.Spring(), o, kit.Spring())
}
