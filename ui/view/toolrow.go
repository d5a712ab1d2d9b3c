package view

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"fyne.io/fyne/v2"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// blockLines is how many lines of a tool's input, output or change the
// transcript shows; the rest opens in a window of its own.
const blockLines = 40

// tool draws one tool call: a line, and when it is open what went in and came
// out.
func (v *transcriptView) tool(i int, it model.Item) fyne.CanvasObject {
	t := it.Tool
	cells := []fyne.CanvasObject{kit.NewIcon(chevron(it.Open), 12, kit.Quiet), kit.Gap(6),
		kit.Fix(64, kit.Small(t.Name, kit.Bold).CutEnd()), kit.Gap(4), kit.Shrink(kit.Small(t.Object, kit.Mono).CutEnd())}
	right := model.Seconds(t.Seconds)
	shape, size, color := kit.ShapeWorking, float32(8), kit.Accent
	switch {
	case t.Status == "running" && t.Waits:
		right, shape, size, color = say.T("waits for you"), kit.ShapeNeeds, 11, kit.Waiting
	case t.Status == "running":
		right = say.T("running")
	case t.Plus+t.Minus > 0:
		right = fmt.Sprintf("+%d −%d", t.Plus, t.Minus)
	}
	switch t.Status {
	case "failed":
		text := t.Problem
		if text == "" {
			text = say.T("failed")
		}
		cells = append(cells, kit.Gap(10), kit.NewIcon(kit.ShapeFailed, 11, kit.Wrong), kit.Gap(5), kit.Shrink(kit.NewText(text, kit.SizeSmall, kit.Wrong).CutEnd()))
	case "unknown":
		cells = append(cells, kit.Gap(10), kit.NewIcon(kit.ShapeNeeds, 11, kit.Waiting), kit.Gap(5), kit.NewText(say.T("no result known"), kit.SizeSmall, kit.Waiting))
	case "denied", "cancelled":
		text := say.T("cancelled")
		if t.Status == "denied" {
			text = say.As("an approval", "denied")
		}
		cells = append(cells, kit.Gap(10), kit.NewIcon(kit.ShapeStopped, 10, kit.Quiet), kit.Gap(5), kit.Note(text))
	case "running":
		cells = append(cells, kit.Gap(10), kit.NewIcon(shape, size, color))
	}
	cells = append(cells, kit.Spring(), kit.Gap(8), kit.Note(right))
	row := kit.NewPress(kit.Sized(0, 24, kit.Row(0, cells...)), 6, func() { v.toggle(i) })
	if !it.Open {
		return v.at(it.At, row)
	}
	return v.at(it.At, kit.Col(0, row, kit.Pad(2, 0, 6, 0, v.inside(t))))
}

// inside is a tool's input, change and output, every character visible.
func (v *transcriptView) inside(t *model.ToolRow) fyne.CanvasObject {
	var blocks []fyne.CanvasObject
	add := func(name, text string, diff bool) {
		if text != "" {
			blocks = append(blocks, v.block(t.Name+": "+name, name, text, diff))
		}
	}
	add(say.T("Command"), t.Command, false)
	if t.Command == "" && t.Diff == "" {
		add(say.T("Input"), indented(t.Input), false)
	}
	add(say.T("Change"), t.Diff, true)
	output := t.Output
	if t.Cut > 0 {
		output += "\n" + say.T("(%d more bytes were not kept)", t.Cut)
	}
	add(say.T("Output"), output, false)
	if len(blocks) == 0 {
		blocks = append(blocks, kit.Note(say.T("Nothing went in or came out.")))
	}
	return kit.Col(6, blocks...)
}

func (v *transcriptView) block(title, name, text string, diff bool) fyne.CanvasObject {
	lines := spans(approval.Visible(text).Lines)
	if diff {
		lines = diffSpans(text)
	}
	var body fyne.CanvasObject
	total := len(lines)
	if diff {
		rows := kit.ParseDiff(lines)
		total = len(rows)
		body = kit.Diff(rows[:min(blockLines, total)], 18)
	} else {
		body = kit.Pad(6, 12, 6, 0, kit.Code(lines[:min(blockLines, total)], kit.SizeSmall, 18))
	}
	parts := []fyne.CanvasObject{body}
	if total > blockLines {
		parts = append(parts, kit.HLine(), kit.Pad(3, 8, 3, 8, kit.Row(6, kit.NewButton(kit.QuietButton, say.N(total, "Show all %d lines", "Show all %d lines"), func() {
			v.d.openText(title, lines, diff)
		}).Small())))
	}
	ground := kit.Sunken
	if diff {
		ground = kit.Surface
	}
	return kit.Col(3, kit.Note(name), kit.Box(ground, kit.Line, 6, kit.Pad(1, 1, 1, 1, kit.Col(0, parts...))))
}

// openText shows text of any length in a window of its own.
func (d *desk) openText(title string, lines [][]kit.Span, diff bool) {
	var body fyne.CanvasObject
	if diff {
		body = kit.DiffList(kit.ParseDiff(lines), 18)
	} else {
		body = kit.CodeList(lines, kit.SizeSmall, 18)
	}
	w := d.window(title, "text", kit.Over(kit.Surface, body), fyne.NewSize(860, 640))
	w.SetOnClosed(func() { d.rememberSize("text", w) })
	w.Canvas().SetOnTypedKey(func(e *fyne.KeyEvent) {
		if e.Name == fyne.KeyEscape {
			w.Close()
		}
	})
	w.Show()
}

// openPatch shows a change of any length in a window of its own.
func (d *desk) openPatch(title, patch string) {
	task(d, func(context.Context) ([][]kit.Span, error) { return diffSpans(strings.TrimSuffix(patch, "\n")), nil },
		func(lines [][]kit.Span, _ error) { d.openText(title, lines, true) })
}

// spans turns the rules' spans into those that are drawn.
func spans(lines [][]approval.Span) [][]kit.Span {
	out := make([][]kit.Span, len(lines))
	for i, l := range lines {
		out[i] = make([]kit.Span, len(l))
		for j, s := range l {
			out[i][j] = kit.Span{Text: s.Text, Token: s.Token}
		}
	}
	return out
}

func indented(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" || string(raw) == "{}" {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
