package view

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// filesWidth is the width of the list of changed files.
const filesWidth = 336

// changes is what mission.changes said, its patch divided by files.
type changes struct {
	wire.ChangesResult
	patches map[string]string
}

// readChanges asks what changed in a mission's checkout, in one file or all.
func (d *desk) readChanges(id, path string, done func(changes, error)) {
	task(d, func(ctx context.Context) (changes, error) {
		var c changes
		if err := d.call(ctx, wire.MethodMissionChanges, wire.ChangesParams{ID: id, Path: path}, &c.ChangesResult); err != nil {
			return c, err
		}
		raw := []byte(c.Patch)
		var ref wire.BlobRef
		if json.Unmarshal(raw, &ref) == nil && ref.Blob != "" {
			whole, err := d.blob(ctx, ref)
			if err != nil {
				return c, err
			}
			raw = whole
		}
		var patch string
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &patch); err != nil {
				return c, fmt.Errorf("the service sent changes that can't be read: %w", err)
			}
		}
		c.Patch = nil
		c.patches = model.SplitPatch(patch)
		return c, nil
	}, done)
}

// changesView is the tab with what changed in the checkout: the files, the
// change of one of them, and the worktree if the mission has its own.
type changesView struct {
	w    *missionWindow
	root *fyne.Container
	tree *worktreeBar

	summary, lines, others *kit.Text
	head                   *fyne.Container
	again                  *kit.Button
	place                  *fyne.Container // the files, or what is to be said in their stead
	pair                   fyne.CanvasObject
	list                   *kit.PickList
	files                  []model.ChangedFile
	name                   *kit.Text
	plus, minus            *kit.Text
	title                  *fyne.Container
	diff                   *fyne.Container

	data    changes
	loaded  bool
	asked   int    // questions so far: only the last answer counts
	busy    bool   // one is under way
	stage   string // of the mission when the changes were read last
	problem string
	said    string // of place
	shown   int    // files shown so far: only the last one counts
}

func newChangesView(w *missionWindow) *changesView {
	v := &changesView{w: w, summary: kit.Small("", kit.Bold), lines: kit.Note("", kit.Mono), others: kit.NewText("", kit.SizeSmall, kit.Waiting),
		name: kit.Small("", kit.Mono, kit.Bold).CutMiddle(), plus: kit.NewText("", kit.SizeSmall, kit.Done, kit.Mono), minus: kit.NewText("", kit.SizeSmall, kit.Wrong, kit.Mono)}
	v.tree = newWorktreeBar(v)
	v.again = kit.NewButton(kit.QuietButton, say.T("Look again"), v.read).Small()
	v.list = kit.NewPickList(26, v.fileRow, func(int) { v.showFile() })
	v.head = kit.Row(10, v.summary, v.lines, v.others, kit.Spring(), v.again)
	v.title = kit.Row(8, kit.Shrink(v.name), kit.Spring(), v.plus, v.minus)
	v.diff = kit.Sized(0, 0)
	right := kit.Col(0, kit.Sized(0, 34, kit.Pad(0, 14, 0, 14, v.title)), kit.HLine(), kit.Grow(kit.Over(kit.Surface, v.diff)))
	v.pair = kit.Columns(0, kit.Fix(filesWidth, kit.Pad(6, 2, 6, 12, v.list)), kit.VLine(), kit.Grow(right))
	v.place = kit.Sized(0, 0)
	v.root = kit.Col(0, v.tree.root, kit.Sized(0, 40, kit.Pad(0, 12, 0, 20, v.head)), kit.HLine(), kit.Grow(v.place))
	return v
}

// fileRow draws one changed file.
func (v *changesView) fileRow(i int) fyne.CanvasObject {
	return kit.Sized(0, 26, kit.Pad(0, 8, 0, 8, fileLine(v.files[i], 8)))
}

// fileLine is a changed file in a line: letter, name, counts.
func fileLine(f model.ChangedFile, gap float32) fyne.CanvasObject {
	color := kit.Quiet
	switch f.Letter {
	case "A":
		color = kit.Done
	case "D":
		color = kit.Wrong
	}
	plus, minus := f.Counts()
	cells := []fyne.CanvasObject{kit.Fix(12, kit.NewText(f.Letter, kit.SizeSmall, color, kit.Mono, kit.Bold)), kit.Grow(kit.Small(f.Name, kit.Mono).CutMiddle())}
	if f.NotAgent {
		cells = append(cells, kit.NewText(say.T("not agent"), kit.SizeSmall, kit.Waiting))
	}
	if f.Binary {
		cells = append(cells, kit.Note(say.T("binary")))
	} else {
		cells = append(cells, kit.Fix(32, kit.NewText(plus, kit.SizeSmall, kit.Done, kit.Mono).Right()), kit.Fix(32, kit.NewText(minus, kit.SizeSmall, kit.Wrong, kit.Mono).Right()))
	}
	return kit.Row(gap, cells...)
}

// set takes the mission as it is now, and reads the changes again when a turn
// or the mission has ended since.
func (v *changesView) set(m wire.Mission) {
	link, _ := v.w.d.st.Link()
	stage := ""
	if m.Turn > 0 {
		ended := 0 // the last turn that has
		for _, t := range m.Turns {
			if t.EndedAt != nil {
				ended = t.Number
			}
		}
		stage = fmt.Sprint(ended, mission.Phase(m.Phase).Terminal(), m.Recovery)
		if m.Worktree != nil {
			stage += m.Worktree.State + m.Worktree.Merged
		}
	}
	if v.w.win != nil && link == model.Running && stage != "" && stage != v.stage {
		v.stage = stage
		v.read()
	}
	v.tree.set(m)
	v.draw(m)
}

// read asks for the changes.
func (v *changesView) read() {
	v.asked++
	n := v.asked
	v.busy = true
	enable(v.again, false)
	v.w.d.readChanges(v.w.id, "", func(c changes, err error) {
		if n == v.asked {
			v.take(c, err)
		}
	})
}

func (v *changesView) take(c changes, err error) {
	v.busy, v.problem = false, sentence(err)
	enable(v.again, true)
	if err == nil {
		was := v.chosen()
		v.data, v.loaded = c, true
		v.files = model.ChangedFiles(c.ChangesResult)
		v.list.Set(-1)
		v.list.Reset(len(v.files))
		at := 0
		for i, f := range v.files {
			if f.Path == was {
				at = i
			}
		}
		if len(v.files) > 0 {
			v.list.Set(at)
			v.showFile()
		}
	}
	m, _ := v.w.d.st.Mission(v.w.id)
	v.tree.set(m)
	v.draw(m)
	v.w.counted(len(v.files))
}

// chosen is the path of the file that is shown.
func (v *changesView) chosen() string {
	if i := v.list.Chosen(); i >= 0 && i < len(v.files) {
		return v.files[i].Path
	}
	return ""
}

// draw says how much changed, or why nothing is shown.
func (v *changesView) draw(m wire.Mission) {
	files, lines := model.ChangesSummary(v.data.ChangesResult)
	if !v.loaded {
		files = say.T("Changes")
	} else {
		files = say.T("%s changed since the mission began", files)
	}
	not := 0
	for _, f := range v.files {
		if f.NotAgent {
			not++
		}
	}
	v.summary.SetText(files)
	v.lines.SetText(lines)
	v.others.SetText("")
	if not > 0 {
		v.others.SetText(say.T("%d not by the agent", not))
	}
	visible(v.again, m.Turn > 0)
	v.head.Refresh()
	said := ""
	switch {
	case v.problem != "":
		said = v.problem
	case m.Turn == 0 && mission.Phase(m.Phase).Terminal():
		said = say.T("Nothing ran.")
	case m.StartedAt == nil:
		said = say.T("Nothing runs before you approve it.")
	case m.Turn == 0:
		said = say.T("The agent is starting.")
	case !v.loaded:
		said = say.T("Reading what changed")
	case len(v.files) == 0:
		said = say.T("Nothing in the checkout changed since the mission began.")
	}
	if said == v.said && len(v.place.Objects) > 0 {
		return
	}
	v.said = said
	switch {
	case v.problem != "":
		show(v.place, kit.Pad(16, 20, 16, 20, kit.Col(0, problemBox(say.T("The changes can't be read"), v.problem, kit.NewButton(kit.Plain, say.T("Try again"), v.read).Small()))))
	case said != "":
		show(v.place, middle(kit.NewText(said, kit.SizeBody, kit.Quiet)))
	default:
		show(v.place, v.pair)
	}
}

// showFile shows the change of the chosen file. One that the whole patch had no
// room for is asked for by itself.
func (v *changesView) showFile() {
	f := v.files[v.list.Chosen()]
	plus, minus := f.Counts()
	v.name.SetText(f.Name)
	v.plus.SetText(plus)
	v.minus.SetText(minus)
	v.title.Refresh()
	v.shown++
	n, patch, have := v.shown, v.data.patches[f.Path], false
	_, have = v.data.patches[f.Path]
	if have && !v.data.PatchCut {
		v.drawDiff(n, patch, false)
		return
	}
	v.w.d.readChanges(v.w.id, f.Path, func(c changes, err error) {
		switch {
		case n != v.shown:
		case err != nil:
			show(v.diff, kit.Pad(16, 16, 16, 16, kit.Col(0, problemBox(say.T("This change can't be read"), sentence(err), kit.NewButton(kit.Plain, say.T("Try again"), v.showFile).Small()))))
		default:
			v.drawDiff(n, c.patches[f.Path], c.PatchCut)
		}
	})
}

// drawDiff makes the rows of a patch beside the UI goroutine, for it may be
// long.
func (v *changesView) drawDiff(n int, patch string, cut bool) {
	task(v.w.d, func(context.Context) ([]kit.DiffLine, error) { return diffLines(patch), nil }, func(rows []kit.DiffLine, _ error) {
		if n != v.shown {
			return
		}
		var body fyne.CanvasObject = kit.Pad(2, 0, 2, 0, kit.DiffList(rows, 18))
		if len(rows) == 0 {
			body = middle(kit.Note(say.T("There is nothing to show of it as text.")))
		}
		if cut {
			body = kit.Col(0, kit.Grow(body), kit.HLine(), kit.Sized(0, 32, kit.Pad(0, 14, 0, 14, kit.Row(8, kit.NewIcon(kit.ShapeNeeds, 12, kit.Waiting),
				kit.Grow(kit.Small(say.T("The change is longer than what is shown here. Look at the rest in the checkout.")).CutEnd())))))
		}
		show(v.diff, body)
	})
}

// diffLines are a patch's rows, every character visible.
func diffLines(patch string) []kit.DiffLine {
	patch = strings.TrimSuffix(patch, "\n")
	if patch == "" {
		return nil
	}
	return kit.ParseDiff(diffSpans(patch))
}

// diffSpans makes visible what hides in a unified diff. The sign of a line is
// no part of it: what follows is its indentation, and not a gap in it.
func diffSpans(patch string) [][]kit.Span {
	lines := strings.Split(patch, "\n")
	signs := make([]string, len(lines))
	for i, l := range lines {
		if l != "" && strings.ContainsRune("+- ", rune(l[0])) {
			signs[i], lines[i] = l[:1], l[1:]
		}
	}
	out := spans(approval.Visible(strings.Join(lines, "\n")).Lines)
	if len(out) != len(lines) { // some other character ended a line
		return spans(approval.Visible(patch).Lines)
	}
	for i, sign := range signs {
		switch {
		case sign == "":
		case len(out[i]) > 0 && out[i][0].Token == "":
			out[i][0].Text = sign + out[i][0].Text
		default:
			out[i] = append([]kit.Span{{Text: sign}}, out[i]...)
		}
	}
	return out
}
