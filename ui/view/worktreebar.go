package view

import (
	"context"
	"errors"
	"strings"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// lossHeight is how high the list of what a removal would lose may become; it
// scrolls.
const lossHeight float32 = 144

// worktreeBar says how the mission's own worktree stands and, once the mission
// has ended, what can become of it.
type worktreeBar struct {
	v    *changesView
	root *fyne.Container
	told fyne.CanvasObject // a question, a refusal or what was done
	asks bool              // it is a question: nothing else can be done meanwhile
	busy string            // what the service is doing
	key  string
}

func newWorktreeBar(v *changesView) *worktreeBar { return &worktreeBar{v: v, root: kit.Col(0)} }

// set draws the bar when something about it changed.
func (b *worktreeBar) set(m wire.Mission) {
	if m.Worktree == nil {
		return
	}
	state, _ := encode(b.v.data.Worktree)
	tree, _ := encode(m.Worktree)
	key := string(tree) + string(state) + m.Phase + b.busy
	if key == b.key {
		return
	}
	b.key = key
	b.draw(m)
}

func (b *worktreeBar) draw(m wire.Mission) {
	t := *m.Worktree
	standing := strings.Join(model.WorktreeStanding(t, b.v.data.Worktree), "  ·  ")
	if b.busy != "" {
		standing = b.busy
	}
	base := model.Clean(t.Base)
	line := kit.Row(8, kit.NewIcon(kit.ShapeBranch, 14, kit.Quiet), kit.Shrink(kit.Small(model.Clean(t.Branch), kit.Mono, kit.Bold).CutMiddle()),
		kit.Note(say.T("from")), kit.Note(base[:min(len(base), 7)], kit.Mono), kit.Gap(4), kit.Grow(kit.Small(standing).CutEnd()))
	parts := []fyne.CanvasObject{kit.Sized(0, 28, line)}
	switch buttons := b.buttons(m); {
	case b.told != nil && b.asks:
	case len(buttons) == 1:
		parts[0] = kit.Sized(0, 28, kit.Row(8, kit.Grow(line), buttons[0]))
	case len(buttons) > 0:
		parts = append(parts, kit.Gap(6), kit.Row(8, append(buttons, kit.Spring())...))
	}
	if b.told != nil {
		parts = append(parts, kit.Gap(8), b.told)
	}
	kit.Set(b.root, kit.Pad(12, 20, 4, 20, kit.Card(kit.Pad(8, 12, 10, 12, kit.Col(0, parts...)))))
	b.v.root.Refresh()
}

func (b *worktreeBar) buttons(m wire.Mission) []fyne.CanvasObject {
	s := b.v.data.Worktree
	if m.Worktree.State != "made" || s == nil {
		return nil
	}
	button := func(label string, do func()) *kit.Button {
		x := kit.NewButton(kit.Plain, label, do).Small()
		enable(x, b.busy == "")
		return x
	}
	open := button(say.T("Open the folder"), func() { b.v.w.d.openFolder(m.Worktree.Path, b.refused(say.T("It can't be opened"))) })
	if !mission.Phase(m.Phase).Terminal() {
		return []fyne.CanvasObject{open}
	}
	remove := button(say.T("Remove"), func() {
		b.act(say.T("Removing"), say.T("Nothing was removed"), wire.WorktreeParams{Action: wire.WorktreeRemove})
	})
	if len(model.WorktreeLosses(*s)) > 0 {
		remove = button(say.T("Remove…"), b.askRemove)
	}
	if s.Missing {
		return []fyne.CanvasObject{remove}
	}
	out := []fyne.CanvasObject{button(say.T("Keep"), b.keep)}
	if s.Files > 0 {
		out = append(out, button(say.T("Commit…"), b.askCommit))
	}
	if s.Ahead > 0 && !s.Merged {
		out = append(out, button(say.T("Merge"), func() {
			b.act(say.T("Merging"), say.T("Nothing was merged"), wire.WorktreeParams{Action: wire.WorktreeMerge})
		}))
	}
	return append(out, open, remove)
}

// tell puts o into the bar; nil takes away what was there.
func (b *worktreeBar) tell(o fyne.CanvasObject) {
	b.told, b.asks = o, false
	b.redraw()
}

// ask is tell for a question, which focus goes to.
func (b *worktreeBar) ask(o fyne.CanvasObject, focus fyne.Focusable) {
	b.told, b.asks = o, true
	b.redraw()
	if w := b.v.w.win; w != nil {
		w.Canvas().Focus(focus)
	}
}

func (b *worktreeBar) redraw() {
	if m, ok := b.v.w.d.st.Mission(b.v.w.id); ok && m.Worktree != nil {
		b.draw(m)
	}
}

func (b *worktreeBar) dismiss() { b.tell(nil) }

func (b *worktreeBar) refused(title string) func(error) {
	return func(err error) {
		b.tell(problemBox(title, sentence(err), kit.NewButton(kit.Plain, say.T("Close"), b.dismiss).Small()))
	}
}

// said is a line about what was done.
func (b *worktreeBar) said(text string) {
	b.tell(kit.Box(kit.DoneTint, kit.None, 8, kit.Pad(8, 12, 8, 12, kit.Columns(8, kit.Col(0, kit.Gap(2), kit.NewIcon(kit.ShapeDone, 14, kit.Done)),
		kit.Grow(kit.NewParagraph(model.Clean(text), kit.SizeSmall, kit.Ink)), kit.Col(0, kit.NewButton(kit.QuietButton, say.T("Close"), b.dismiss).Small())))))
}

// keep does nothing but say where everything is.
func (b *worktreeBar) keep() {
	m, _ := b.v.w.d.st.Mission(b.v.w.id)
	b.said(say.T("It stays as it is, in %s, on the branch %s. You can come back to this later.", model.Path(m.Worktree.Path, b.v.w.d.o.Home), m.Worktree.Branch))
}

// act asks the service to change the worktree; what it refuses is shown here.
func (b *worktreeBar) act(doing, nothing string, p wire.WorktreeParams) {
	w := b.v.w
	p.ID, p.RequestKey = w.id, requestKey()
	b.busy, b.told = doing, nil
	w.refresh()
	task(w.d, func(ctx context.Context) (wire.WorktreeResult, error) {
		var r wire.WorktreeResult
		err := w.d.call(ctx, wire.MethodMissionWorktree, p, &r)
		return r, err
	}, func(r wire.WorktreeResult, err error) {
		b.busy, b.key = "", ""
		if err != nil {
			b.refused(nothing)(err)
			var lost *wire.Error
			if errors.As(err, &lost) && lost.Code == wire.CodeConflict {
				b.v.read() // it is not as it was shown
			}
			w.refresh()
			return
		}
		if raw, err := encode(r.Mission); err == nil && r.Mission.ID == w.id {
			_, _ = w.d.st.Delta(wire.Event{Event: wire.EvMission, Data: raw})
		}
		b.v.data.Worktree = r.State
		b.said(r.Done)
		w.refresh()
		b.v.read()
	})
}

// askCommit asks for the message of the commit.
func (b *worktreeBar) askCommit() {
	m, _ := b.v.w.d.st.Mission(b.v.w.id)
	message := newEntry()
	message.SetText(oneLine(m.Title))
	commit := kit.NewButton(kit.Plain, say.T("Commit"), nil)
	do := func() {
		if text := strings.TrimSpace(message.Text); text != "" {
			b.act(say.T("Committing"), say.T("Nothing was committed"), wire.WorktreeParams{Action: wire.WorktreeCommit, Message: text})
		}
	}
	commit.OnTapped = do
	message.OnChanged = func(text string) { enable(commit, strings.TrimSpace(text) != "") }
	message.OnSubmitted = func(string) { do() }
	message.onEscape = b.dismiss
	b.ask(kit.Col(6, kit.Note(say.T("Message of the commit")), kit.Row(8, kit.Grow(kit.FieldFor(message, false, 32)), kit.NewButton(kit.Plain, say.T("Cancel"), b.dismiss), commit)), message)
}

// askRemove lists exactly what would be lost, and repeats to the service the
// state that it listed.
func (b *worktreeBar) askRemove() {
	m, _ := b.v.w.d.st.Mission(b.v.w.id)
	s := *b.v.data.Worktree
	keep := kit.NewButton(kit.Plain, say.T("Keep it"), b.dismiss)
	remove := kit.NewButton(kit.Danger, say.T("Remove and lose it"), func() {
		b.act(say.T("Removing"), say.T("Nothing was removed"), wire.WorktreeParams{Action: wire.WorktreeRemove, Discard: s.Digest})
	}).NoEnter()
	lines := []fyne.CanvasObject{
		kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 14, kit.Wrong), kit.Grow(kit.Body(say.T("Remove the worktree and lose this?"), kit.Bold).CutEnd()), keep, remove),
		kit.Pad(0, 0, 0, 22, losses(model.WorktreeLosses(s)))}
	if stays := model.BranchStays(*m.Worktree, s); stays != "" {
		lines = append(lines, kit.Pad(0, 0, 0, 22, kit.NewParagraph(stays, kit.SizeSmall, kit.Quiet)))
	}
	b.ask(kit.Box(kit.WrongTint, kit.WrongLine, 8, kit.Pad(12, 12, 12, 12, kit.Col(8, lines...))), keep)
}

// losses lists what would be lost, in a place of limited height that scrolls.
func losses(all []model.Loss) fyne.CanvasObject {
	var rows []fyne.CanvasObject
	for _, l := range all {
		rows = append(rows, kit.Pad(4, 0, 2, 0, kit.Row(0, kit.Small(l.Text, kit.Bold))))
		for _, f := range l.Files {
			rows = append(rows, kit.Sized(0, 18, kit.Row(0, kit.Grow(kit.Small(f, kit.Mono).CutMiddle()))))
		}
		if l.More > 0 && len(l.Files) > 0 {
			rows = append(rows, kit.Sized(0, 18, kit.Row(0, kit.Note(say.T("and %d more", l.More)))))
		}
	}
	var height float32
	for _, r := range rows {
		height += r.MinSize().Height
	}
	list := kit.NewList(18, func(i int) fyne.CanvasObject { return rows[i] })
	list.Reset(len(rows))
	return kit.Sized(0, min(height, lossHeight), list)
}
