package view

import (
	"strings"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// questionView takes the answer to a question of the agent: options, or text.
type questionView struct {
	root    fyne.CanvasObject
	options []string
	chosen  map[int]bool
	text    *entry
}

func newQuestionView(q approval.Question, changed func()) *questionView {
	v := &questionView{options: q.Options, chosen: map[int]bool{}}
	if len(q.Options) == 0 {
		v.text = newEntry()
		v.text.SetPlaceHolder(say.T("Your answer"))
		v.text.OnChanged = func(string) { changed() }
		v.root = kit.FieldFor(v.text, false, 0)
		return v
	}
	label := func(o string) fyne.CanvasObject { return kit.Wrapped(approval.Visible(o).Plain()) }
	var rows []fyne.CanvasObject
	if q.Multi {
		for i, o := range q.Options {
			rows = append(rows, kit.NewCheckBox(label(o), false, func(on bool) {
				v.chosen[i] = on
				changed()
			}))
		}
	} else {
		var radios []*kit.Radio
		for _, o := range q.Options {
			r := kit.NewRadio(label(o))
			radios = append(radios, r)
			rows = append(rows, r)
		}
		kit.NewRadios(-1, func(i int) {
			v.chosen = map[int]bool{i: true}
			changed()
		}, radios...)
	}
	v.root = kit.Col(8, rows...)
	return v
}

// answer is what was chosen or written, "" for nothing yet. Several choices are
// lines.
func (v *questionView) answer() string {
	if v.text != nil {
		return strings.TrimSpace(v.text.Text)
	}
	var out []string
	for i, o := range v.options {
		if v.chosen[i] {
			out = append(out, o)
		}
	}
	return strings.Join(out, "\n")
}
