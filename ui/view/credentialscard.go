package view

import (
	"fmt"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// credentialsCard lists the secrets that are kept, by name, and adds, replaces
// and removes them. A secret is typed here and goes to the service; it never
// comes back.
type credentialsCard struct {
	d    *desk
	add  *kit.Button
	keep *kit.Button // of the question whether to remove one

	form                 bool // one is being added or replaced
	name, secret, phrase *entry
	in                   *kit.Segments
	save, cancel         *kit.Button
	unlock               *entry
	open                 *kit.Button

	question string // the credential that is about to be removed
	busy     string // what is asked of the service
	problem  string
}

func newCredentialsCard(d *desk) *credentialsCard {
	c := &credentialsCard{d: d}
	field := func(hint string, hidden bool, submitted func()) *entry {
		e := newEntry()
		e.Password = hidden
		e.SetPlaceHolder(hint)
		e.OnChanged = func(string) { c.enable() }
		e.OnSubmitted = func(string) { submitted() }
		e.onEscape = func() { c.close() }
		return e
	}
	c.name, c.secret, c.phrase = field(say.T("Name, such as ANTHROPIC_API_KEY"), false, c.store), field(say.T("Secret"), true, c.store), field(say.T("Passphrase of the encrypted file"), true, c.store)
	c.unlock = field(say.T("Passphrase of the encrypted file"), true, c.unlockFile)
	c.in = kit.NewSegments(0, func(int) { c.changed() }, say.T("Keychain"), say.T("Encrypted file"))
	c.add = kit.NewButton(kit.Plain, say.T("Add…"), func() { c.edit("") }).Icon(kit.ShapePlus).Small()
	c.save = kit.NewButton(kit.Plain, say.As("a secret", "Keep it"), c.store).Tall().Least(92)
	c.cancel = kit.NewButton(kit.QuietButton, say.T("Cancel"), c.close).Tall()
	c.open = kit.NewButton(kit.Plain, say.T("Unlock"), c.unlockFile).Tall().Least(92)
	return c
}

func (c *credentialsCard) changed() {
	c.enable()
	c.d.changed()
}

func (c *credentialsCard) enable() {
	link, _ := c.d.st.Link()
	free := link == model.Running && c.busy == ""
	enable(c.add, free && c.d.credentials.known && !c.form)
	enable(c.save, free && c.name.Text != "" && c.secret.Text != "" && (c.in.Chosen() == 0 || c.phrase.Text != ""))
	enable(c.open, free && c.unlock.Text != "")
}

// edit opens the form, for a new credential or to replace one. Where the
// keychain can't be used the file is offered first.
func (c *credentialsCard) edit(name string) {
	c.form, c.question, c.problem = true, "", ""
	c.name.SetText(name)
	c.in.Set(0)
	if model.KeychainTrouble(c.d.credentials.list.Keychain) != "" {
		c.in.Set(1)
	}
	c.changed()
	first := c.name
	if name != "" {
		first = c.secret
	}
	c.d.focus(first)
}

// close puts the form and the question away, with what was typed.
func (c *credentialsCard) close() {
	c.form, c.question, c.problem = false, "", ""
	for _, e := range []*entry{c.name, c.secret, c.phrase, c.unlock} {
		e.SetText("")
	}
	c.changed()
}

func (c *credentialsCard) store() {
	if c.enable(); c.save.Disabled() {
		return
	}
	p := wire.CredentialSetParams{Name: c.name.Text, Secret: c.secret.Text, In: wire.InKeychain}
	if c.in.Chosen() == 1 {
		p.In, p.Passphrase = wire.InFile, c.phrase.Text
	}
	c.ask(say.T("Keeping %s", oneLine(p.Name)), wire.MethodCredentialSet, p)
}

func (c *credentialsCard) unlockFile() {
	if c.enable(); !c.open.Disabled() {
		c.ask(say.T("Opening the encrypted file"), wire.MethodCredentialHand, wire.CredentialHandParams{Passphrase: c.unlock.Text})
	}
}

// ask changes something, and shows here what is refused. What was typed stays
// until it was taken.
func (c *credentialsCard) ask(doing, method string, params any) {
	if c.busy != "" {
		return
	}
	c.busy, c.problem = doing, ""
	c.changed()
	c.d.credentialCall(method, params, func(err error) {
		c.busy, c.problem = "", sentence(err)
		if err == nil {
			c.close()
		}
	})
}

// key changes with what draw draws.
func (c *credentialsCard) key() string {
	s := c.d.credentials
	return fmt.Sprint(s.list, s.known, s.problem, c.form, c.in.Chosen(), c.question, c.busy, c.problem)
}

// draw is the card, and what is above it.
func (c *credentialsCard) draw() []fyne.CanvasObject {
	s := &c.d.credentials
	all := []fyne.CanvasObject{sectionHead(say.T("Credentials"), c.add)}
	if text := model.KeychainTrouble(s.list.Keychain); text != "" {
		all = append(all, kit.Box(kit.WaitingTint, kit.WaitingLine, 8, kit.Pad(9, 12, 9, 12, kit.Columns(8,
			kit.Col(0, kit.Gap(2), kit.NewIcon(kit.ShapeNeeds, 14, kit.Waiting)), kit.Grow(kit.NewParagraph(text, kit.SizeSmall, kit.Ink))))), kit.Gap(8))
	}
	for _, text := range []string{s.problem, c.problem} {
		if text != "" {
			all = append(all, problemBox(say.T("That did not work"), text), kit.Gap(8))
		}
	}
	if c.form {
		all = append(all, c.drawForm(), kit.Gap(8))
	}
	rows := model.CredentialRows(s.list, c.d.now())
	var cells []fyne.CanvasObject
	locked := false
	for i, r := range rows {
		cells = append(cells, c.row(r, s.list.Credentials[i].Name))
		locked = locked || r.File && !r.Ready
	}
	if locked && !c.form {
		all = append(all, kit.Card(kit.Pad(10, 14, 10, 14, kit.Row(8, kit.Small(say.T("The encrypted file is closed"), kit.Bold), kit.Grow(kit.FieldFor(c.unlock, false, 0)), c.open))), kit.Gap(8))
	}
	switch {
	case c.busy != "":
		all = append(all, kit.Pad(0, 0, 6, 2, kit.Row(0, kit.Note(c.busy))))
	case len(cells) == 0 && s.known:
		cells = append(cells, kit.Pad(10, 14, 10, 14, kit.NewParagraph(say.T("No secret is kept. Where an agent needs an API key that your environment does not have, add it here: it lies in the keychain, and only a mission whose start names it gets it."), kit.SizeSmall, kit.Quiet)))
	case len(cells) == 0:
		text := say.T("Reading what is kept")
		if link, _ := c.d.st.Link(); link != model.Running || s.problem != "" {
			text = say.T("What is kept is not known")
		}
		cells = append(cells, kit.Sized(0, 40, kit.Pad(0, 14, 0, 14, kit.Row(0, kit.Grow(kit.Note(text).CutEnd())))))
	}
	if len(cells) > 0 {
		all = append(all, kit.Rows(40, cells...))
	}
	c.enable()
	return all
}

func (c *credentialsCard) drawForm() fyne.CanvasObject {
	lines := []fyne.CanvasObject{
		kit.Row(8, kit.Small(say.T("Keep a secret"), kit.Bold), kit.Grow(kit.Note(say.T("An agent's tools can read what the agent is given.")).CutEnd()), c.in),
		kit.Row(8, kit.Fix(300, kit.FieldFor(c.name, false, 0)), kit.Grow(kit.FieldFor(c.secret, false, 0))),
	}
	last := []fyne.CanvasObject{kit.Spring(), c.cancel, c.save}
	if c.in.Chosen() == 1 {
		last = []fyne.CanvasObject{kit.Grow(kit.FieldFor(c.phrase, false, 0)), c.cancel, c.save}
		lines = append(lines, kit.NewParagraph(say.T("The file is as safe as its passphrase, which is kept nowhere: without it the secrets in it are lost."), kit.SizeSmall, kit.Quiet))
	}
	return kit.Card(kit.Pad(12, 14, 12, 14, kit.Col(8, append(lines, kit.Row(8, last...))...)))
}

// row is one credential; name is its name as the service has it.
func (c *credentialsCard) row(r model.CredentialRow, name string) fyne.CanvasObject {
	shape, color, word := kit.ShapeCheck, kit.Done, say.T("Ready")
	if !r.Ready {
		shape, color, word = kit.ShapeNews, kit.Quiet, say.T("Not at hand")
		if r.Wanted {
			shape, color, word = kit.ShapeNeeds, kit.Waiting, say.T("A mission waits for it")
		}
	}
	replace := kit.NewButton(kit.Plain, say.T("Replace…"), func() { c.edit(name) }).Small()
	remove := kit.NewButton(kit.Plain, say.T("Remove…"), func() {
		c.form, c.question, c.problem, c.keep = false, name, "", nil
		c.changed()
		if c.keep != nil {
			c.d.focus(c.keep)
		}
	}).Small()
	if c.busy != "" || c.form || c.question != "" {
		replace.Disable()
		remove.Disable()
	}
	lines := []fyne.CanvasObject{
		kit.Fix(21, kit.Row(8, kit.Shrink(kit.Body(r.Name, kit.Mono).CutEnd()), kit.NewText(word, kit.SizeSmall, color, kit.Bold), kit.Spring())),
		kit.Fix(18, kit.Row(0, kit.Grow(kit.Note(capital(r.About)).CutEnd()))),
	}
	if r.Problem != "" {
		lines = append(lines, kit.NewParagraph(r.Problem, kit.SizeSmall, kit.Ink))
	}
	whole := []fyne.CanvasObject{kit.Columns(12, kit.Fix(16, kit.Col(0, kit.Gap(3), kit.NewIcon(shape, 14, color))), kit.Grow(kit.Col(0, lines...)), kit.Col(0, kit.Row(6, replace, remove)))}
	if c.question == name {
		c.keep = kit.NewButton(kit.Plain, say.T("Keep it"), c.close).Small()
		sure := kit.NewButton(kit.Danger, say.T("Remove it"), func() {
			c.ask(say.T("Removing %s", r.Name), wire.MethodCredentialRemove, wire.CredentialRemoveParams{Name: name})
		}).Small().NoEnter()
		whole = append(whole, kit.Gap(8), kit.Pad(0, 0, 0, 28, kit.Box(kit.WrongTint, kit.WrongLine, 6, kit.Pad(6, 8, 6, 12, kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 12, kit.Wrong), kit.Small(say.T("Remove this secret?"), kit.Bold),
			kit.Grow(kit.Note(say.T("It is forgotten everywhere that Reeve put it.")).CutEnd()), c.keep, sure)))))
	}
	return kit.Pad(10, 14, 10, 12, kit.Col(0, whole...))
}
