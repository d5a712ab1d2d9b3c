package view

import (
	"context"
	"fmt"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// providers is what was found on this machine, as the service said last.
type providers struct {
	list    []wire.Provider
	known   bool
	stale   bool // the connection is new: ask again
	asking  bool
	problem string
}

// probe asks the service what agents there are, in the person's environment.
func (d *desk) probe() {
	p := &d.providers
	if link, _ := d.st.Link(); p.asking || link != model.Running {
		return
	}
	p.asking, p.stale = true, false
	d.withEnv(func() {
		task(d, func(ctx context.Context) (wire.ProviderListResult, error) {
			var r wire.ProviderListResult
			err := d.call(ctx, wire.MethodProviderList, wire.ProviderListParams{Env: d.env}, &r)
			return r, err
		}, func(r wire.ProviderListResult, err error) {
			p.asking, p.problem = false, sentence(err)
			if err == nil {
				p.list, p.known, p.problem = r.Providers, true, model.Clean(r.Problem)
			}
			d.changed()
		})
	})
}

// offered are the agents that a person may want to choose: those that were
// found, and the two that most people mean. Settings has all.
func (p *providers) offered() []wire.Provider {
	var out []wire.Provider
	for _, a := range p.list {
		if a.Found || a.Own || a.Name == "claude" || a.Name == "codex" {
			out = append(out, a)
		}
	}
	return out
}

// standing says of a provider in a line how it is found, with its shape.
func providerStanding(p wire.Provider) (shape kit.Shape, color kit.Color, text string, usable bool) {
	switch {
	case !p.Found:
		return kit.ShapeFailed, kit.Quiet, say.T("not found on this computer"), false
	case p.SignedIn != nil && !*p.SignedIn:
		return kit.ShapeFailed, kit.Wrong, say.T("not signed in"), false
	case p.Problem != "":
		return kit.ShapeFailed, kit.Wrong, model.Clean(p.Problem), false
	case p.SignedIn != nil && p.Name != "acp:demo": // which has no account
		return kit.ShapeCheck, kit.Done, say.T("signed in"), true
	}
	return kit.ShapeCheck, kit.Done, say.T("ready"), true
}

func providerTitle(p wire.Provider) string {
	if p.Title != "" {
		return model.Clean(p.Title)
	}
	return model.ProviderTitle(p.Name)
}

// agentsKey changes with what agentRows draws.
func agentsKey(p providers) string {
	key := fmt.Sprint(p.known, p.problem)
	for _, a := range p.list {
		key += fmt.Sprintf("%+v", a)
		if a.Entry != nil {
			key += fmt.Sprintf("%+v", *a.Entry)
		}
		if a.SignedIn != nil {
			key += fmt.Sprint(*a.SignedIn)
		}
	}
	return key
}

// agentRows lists what was found on this machine: where each agent is, whether
// it is signed in, and what is to be done where it can't be used. own says what
// can be done with one of the person's own.
func (d *desk) agentRows(own func(wire.Provider) ([]fyne.CanvasObject, fyne.CanvasObject)) fyne.CanvasObject {
	p := &d.providers
	var rows []fyne.CanvasObject
	for _, a := range p.list {
		buttons, below := own(a)
		rows = append(rows, d.agentRow(a, buttons, below))
	}
	switch {
	case len(rows) == 0 && p.problem == "" && !p.known:
		rows = append(rows, kit.Sized(0, 40, kit.Pad(0, 14, 0, 14, kit.Row(0, kit.Grow(kit.Note(say.T("Looking for agents")).CutEnd())))))
	case len(rows) == 0 && p.problem == "":
		rows = append(rows, kit.Sized(0, 40, kit.Pad(0, 14, 0, 14, kit.Row(0, kit.Grow(kit.Note(say.T("The service knows no agents.")).CutEnd())))))
	}
	list := kit.Rows(40, rows...)
	switch {
	case p.problem == "":
		return list
	case len(rows) == 0:
		return problemBox(say.T("The agents could not be looked for"), p.problem)
	}
	return kit.Col(8, problemBox(say.T("Not every agent could be looked for"), p.problem), list)
}

func (d *desk) agentRow(a wire.Provider, buttons []fyne.CanvasObject, below fyne.CanvasObject) fyne.CanvasObject {
	shape, color, text, usable := providerStanding(a)
	if !usable && a.Found && (a.SignedIn == nil || *a.SignedIn) {
		text = say.T("can't be used") // why stands below
	}
	own := ""
	if a.Own {
		own = say.T("added by you")
	}
	lines := []fyne.CanvasObject{
		kit.Fix(20, kit.Row(8, kit.Shrink(kit.Body(providerTitle(a), kit.Bold).CutEnd()), kit.Note(model.Clean(a.Version), kit.Mono), kit.Note(own), kit.Spring(),
			kit.NewText(capital(text), kit.SizeSmall, color, kit.Bold))),
	}
	if a.Path != "" {
		lines = append(lines, kit.Fix(18, kit.Row(0, kit.Grow(kit.Note(model.Path(a.Path, d.o.Home), kit.Mono).CutMiddle()))))
	}
	if a.Endpoint != "" {
		lines = append(lines, kit.Fix(18, kit.Row(6, kit.Note(say.T("Endpoint")), kit.Shrink(kit.Small(model.Clean(a.Endpoint), kit.Mono).CutMiddle()),
			kit.Note(say.T("not the agent's own default")), kit.Spring())))
	}
	if !usable || a.Fix != "" {
		said, mend := model.Mend(a)
		if said != "" {
			lines = append(lines, kit.Gap(4), kit.NewParagraph(said, kit.SizeSmall, kit.Ink))
		}
		if mend != "" {
			copied := kit.NewButton(kit.Plain, say.T("Copy"), func() { d.app.Clipboard().SetContent(mend) }).Icon(kit.ShapeCopy).Small()
			lines = append(lines, kit.Gap(6), kit.Row(8,
				kit.Grow(kit.Box(kit.Sunken, kit.Line, 6, kit.Sized(0, 28, kit.Pad(5, 10, 5, 10, kit.PlainCode([][]kit.Span{{{Text: mend}}}, kit.SizeSmall, 18))))), copied))
		}
	}
	row := []fyne.CanvasObject{kit.Fix(16, kit.Col(0, kit.Gap(3), kit.NewIcon(shape, 14, color))), kit.Grow(kit.Col(0, lines...))}
	if len(buttons) > 0 {
		row = append(row, kit.Col(0, kit.Row(6, buttons...)))
	}
	if below == nil {
		return kit.Pad(10, 14, 10, 12, kit.Columns(12, row...))
	}
	return kit.Pad(10, 14, 10, 12, kit.Col(0, kit.Columns(12, row...), kit.Gap(8), kit.Pad(0, 0, 0, 28, below)))
}
