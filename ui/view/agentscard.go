package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// agentsCard lists the agents on this computer, and adds, changes and removes
// those of the person's own.
type agentsCard struct {
	d          *desk
	look, add  *kit.Button
	keep, sure *kit.Button // of the question whether to remove one

	form         bool // one is being added or changed
	changing     *wire.ProviderEntry
	fields       map[string]*entry
	save, cancel *kit.Button

	question string            // the agent that is about to be removed
	busy     string            // what is asked of the service
	wrong    map[string]string // what is wrong, by field; "" is what belongs to none
}

func newAgentsCard(d *desk) *agentsCard {
	c := &agentsCard{d: d, fields: map[string]*entry{}}
	for _, f := range agentFields {
		e := newEntry()
		if f.area {
			e = newTextArea()
		}
		e.SetPlaceHolder(say.Word(f.hint))
		// What is wrong with a field counts until it is changed.
		e.OnChanged = func(string) { c.right(f.key) }
		if !f.area {
			e.OnSubmitted = func(string) { c.store() }
		}
		e.onEscape = c.leave
		c.fields[f.key] = e
	}
	c.look = kit.NewButton(kit.Plain, say.T("Look again"), d.probe).Small()
	c.add = kit.NewButton(kit.Plain, say.T("Add…"), func() { c.edit(nil) }).Icon(kit.ShapePlus).Small()
	c.save = kit.NewButton(kit.Plain, say.T("Save the agent"), c.store).Tall().Least(112)
	c.cancel = kit.NewButton(kit.QuietButton, say.T("Cancel"), c.close).Tall()
	return c
}

// agentFields are the fields of the form.
var agentFields = []struct {
	key, label, hint string
	area             bool
}{
	{key: model.AgentName, label: say.Key("Name"), hint: say.Key("Such as my-agent")},
	{key: model.AgentTitle, label: say.Key("Title"), hint: say.Key("What lists call it; the name if empty")},
	{key: model.AgentCommand, label: say.Key("Command"), hint: say.Key("A program in your PATH, or its whole path")},
	{key: model.AgentMode, label: say.Key("Session mode"), hint: say.Key("The one that it is held to, if it has modes")},
	{key: model.AgentArgs, label: say.Key("Arguments"), hint: say.Key("One to a line, such as --acp"), area: true},
	{key: model.AgentEnv, label: say.Key("Environment"), hint: say.Key("NAME=VALUE, one to a line; no secrets"), area: true},
	{key: model.AgentPass, label: say.Key("Passed on from your environment"), hint: say.Key("Names such as OPENAI_API_KEY; their values are never written down")},
}

// right takes back what was wrong with a field.
func (c *agentsCard) right(field string) {
	if c.wrong[field] != "" {
		delete(c.wrong, field)
		c.d.changed()
	}
}

func (c *agentsCard) enable() {
	link, _ := c.d.st.Link()
	free := link == model.Running && c.busy == ""
	enable(c.look, link == model.Running && !c.d.providers.asking)
	enable(c.add, free && c.d.providers.known && !c.form)
	enable(c.save, free)
}

// edit opens the form, for a new agent or to change one, whose name stays.
func (c *agentsCard) edit(e *wire.ProviderEntry) {
	c.form, c.changing, c.question, c.wrong = true, e, "", nil
	first := model.AgentName
	if e == nil {
		e = &wire.ProviderEntry{}
	} else {
		first = model.AgentCommand
	}
	c.fill(model.AgentText(*e))
	c.d.changed()
	c.d.focus(c.fields[first])
}

func (c *agentsCard) fill(text map[string]string) {
	for key, e := range c.fields {
		e.SetText(text[key])
	}
}

func (c *agentsCard) text() map[string]string {
	text := map[string]string{}
	for key, e := range c.fields {
		text[key] = e.Text
	}
	return text
}

// typed says whether the form holds something that closing it would lose.
func (c *agentsCard) typed() bool {
	var e wire.ProviderEntry
	if c.changing != nil {
		e = *c.changing
	}
	for key, was := range model.AgentText(e) {
		if c.fields[key].Text != was {
			return c.form
		}
	}
	return false
}

// leave closes a form into which nothing was typed: Escape is hit easily.
func (c *agentsCard) leave() {
	if !c.typed() {
		c.close()
	}
}

// close puts form and question away.
func (c *agentsCard) close() {
	c.form, c.changing, c.question, c.wrong = false, nil, "", nil
	c.fill(nil)
	c.d.changed()
}

func (c *agentsCard) store() {
	if c.enable(); c.save.Disabled() || !c.form {
		return
	}
	sent, replace := c.text(), c.changing != nil
	e, wrong := model.AgentEntry(sent)
	if len(wrong) > 0 {
		c.refused(wrong)
		return
	}
	c.ask(say.T("Saving %s", oneLine(e.Name)), wire.MethodProviderAdd, func() any {
		return wire.ProviderAddParams{RequestKey: requestKey(), ProviderEntry: e, Replace: replace, Env: c.d.env}
	}, func() {
		if !c.form || maps.Equal(sent, c.text()) {
			c.close()
			return
		}
		// What was typed meanwhile is a change of what is there now.
		c.changing = &e
		c.fields[model.AgentName].SetText(e.Name)
		c.d.changed()
	})
}

func (c *agentsCard) remove(name string) {
	c.ask(say.T("Removing %s", oneLine(name)), wire.MethodProviderRemove, func() any {
		return wire.ProviderRemoveParams{RequestKey: requestKey(), Name: name}
	}, c.close)
}

// ask changes something. What is refused is shown at its field, and what was
// typed stays until it was taken.
func (c *agentsCard) ask(doing, method string, params func() any, took func()) {
	if c.busy != "" {
		return
	}
	c.busy, c.wrong = doing, nil
	c.d.changed()
	c.d.withEnv(func() {
		task(c.d, func(ctx context.Context) (wire.ProviderResult, error) {
			var r wire.ProviderResult
			err := c.d.call(ctx, method, params(), &r)
			return r, err
		}, func(_ wire.ProviderResult, err error) {
			c.busy = ""
			if err != nil {
				c.refused(map[string]string{fieldOf(err): sentence(err)})
				return
			}
			took()
			c.d.probe()
		})
	})
}

// refused shows what is wrong, and goes to the first field of it.
func (c *agentsCard) refused(wrong map[string]string) {
	c.wrong = wrong
	c.d.changed()
	for _, f := range agentFields {
		if wrong[f.key] != "" && c.form {
			c.d.focus(c.fields[f.key])
			return
		}
	}
}

// fieldOf is the field of the form that a refusal is about, "" for none.
func fieldOf(err error) string {
	var refusal *wire.Error
	var about struct {
		Field string `json:"field"`
	}
	if !errors.As(err, &refusal) {
		return ""
	}
	if raw, ok := refusal.Details.(json.RawMessage); !ok || json.Unmarshal(raw, &about) != nil {
		return ""
	}
	for _, f := range agentFields {
		if f.key == about.Field {
			return f.key
		}
	}
	return ""
}

// key changes with what draw draws.
func (c *agentsCard) key() string {
	return agentsKey(c.d.providers) + fmt.Sprint(c.form, c.changing, c.question, c.busy, c.wrong)
}

func (c *agentsCard) draw() []fyne.CanvasObject {
	c.keep, c.sure = nil, nil
	all := []fyne.CanvasObject{sectionHead(say.T("Agents on this computer"), c.add, c.look)}
	if text := c.wrong[""]; text != "" {
		all = append(all, problemBox(say.T("That did not work"), text), kit.Gap(8))
	}
	if c.form {
		all = append(all, c.drawForm(), kit.Gap(8))
	}
	if c.busy != "" {
		all = append(all, kit.Pad(0, 0, 6, 2, kit.Row(0, kit.Note(c.busy))))
	}
	c.enable()
	return append(all, c.d.agentRows(c.own))
}

func (c *agentsCard) drawForm() fyne.CanvasObject {
	title := say.T("Add an agent that speaks the Agent Client Protocol")
	if c.changing != nil {
		title = say.T("Change acp:%s", oneLine(c.changing.Name))
	}
	rows := []fyne.CanvasObject{kit.Row(8, kit.Small(title, kit.Bold), kit.Grow(kit.Note(say.T("Nothing runs before a mission with it is approved.")).CutEnd()))}
	var cells []fyne.CanvasObject
	for _, f := range agentFields {
		if f.key == model.AgentName && c.changing != nil {
			continue // missions name it so
		}
		height := float32(0)
		if f.area {
			height = 84
		}
		cell := []fyne.CanvasObject{kit.Note(say.Word(f.label)), kit.FieldFor(c.fields[f.key], f.area, height)}
		if text := c.wrong[f.key]; text != "" {
			cell = append(cell, kit.NewParagraph(text, kit.SizeSmall, kit.Wrong))
		}
		cells = append(cells, kit.Grow(kit.Sized(1, 0, kit.Col(4, cell...))))
	}
	if c.changing != nil { // an odd one goes over the whole width
		rows = append(rows, kit.Columns(12, cells[0]))
		cells = cells[1:]
	}
	for len(cells) > 1 {
		rows = append(rows, kit.Columns(12, cells[0], cells[1]))
		cells = cells[2:]
	}
	rows = append(rows, kit.Columns(12, cells...), kit.Row(8, kit.Spring(), c.cancel, c.save))
	return kit.Card(kit.Pad(12, 14, 12, 14, kit.Col(10, rows...)))
}

// own is what can be done with an agent of the person's own, beside its name and
// below it.
func (c *agentsCard) own(a wire.Provider) (buttons []fyne.CanvasObject, below fyne.CanvasObject) {
	if a.Entry == nil {
		return nil, nil
	}
	name := a.Entry.Name
	change := kit.NewButton(kit.Plain, say.T("Change…"), func() { c.edit(a.Entry) }).Small()
	remove := kit.NewButton(kit.Plain, say.T("Remove…"), func() {
		c.question, c.wrong = name, nil
		c.d.changed()
		if c.keep != nil {
			c.d.focus(c.keep)
		}
	}).Small()
	if c.busy != "" || c.form || c.question != "" {
		change.Disable()
		remove.Disable()
	}
	if c.question == name {
		c.keep = kit.NewButton(kit.Plain, say.T("Keep it"), c.close).Small()
		c.sure = kit.NewButton(kit.Danger, say.T("Remove it"), func() { c.remove(name) }).Small().NoEnter()
		below = kit.Box(kit.WrongTint, kit.WrongLine, 6, kit.Pad(6, 8, 6, 12, kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 12, kit.Wrong), kit.Small(say.T("Remove this agent?"), kit.Bold),
			kit.Grow(kit.Note(say.T("Missions that run with it go on.")).CutEnd()), c.keep, c.sure)))
	}
	return []fyne.CanvasObject{change, remove}, below
}
