package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ui/model"
)

// style colours text on a terminal that wants it.
type style bool

func (s style) paint(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(t string) string   { return s.paint("1", t) }
func (s style) quiet(t string) string  { return s.paint("2", t) }
func (s style) needs(t string) string  { return s.paint("33", t) }
func (s style) wrong(t string) string  { return s.paint("31", t) }
func (s style) done(t string) string   { return s.paint("32", t) }
func (s style) accent(t string) string { return s.paint("34", t) }

func (s style) shape(shape model.Shape, text string) string {
	switch shape {
	case model.ShapeNeeds:
		return s.needs(text)
	case model.ShapeFailed:
		return s.wrong(text)
	case model.ShapeDone:
		return s.done(text)
	case model.ShapeWorking:
		return s.accent(text)
	}
	return s.quiet(text)
}

// shown writes a text with nothing hidden in it, its tokens set off.
func (s style) shown(text approval.Shown) []string {
	lines := make([]string, 0, len(text.Lines))
	for _, spans := range text.Lines {
		var b strings.Builder
		for _, span := range spans {
			if span.Token == "" {
				b.WriteString(span.Text)
				continue
			}
			one := approval.Shown{Lines: [][]approval.Span{{span}}}
			b.WriteString(s.paint("7;33", one.Plain()))
		}
		lines = append(lines, b.String())
	}
	if !s {
		// Plain also guards the marks themselves.
		return strings.Split(text.Plain(), "\n")
	}
	return lines
}

// printJSON writes one value on one line.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// human is where words for people go: beside the JSON, never into it.
func (a *app) human() io.Writer {
	if a.json {
		return a.Stderr
	}
	return a.Stdout
}

// interactive reports whether a person can be asked.
func (a *app) interactive() bool { return a.InTerminal() && a.OutTerminal() }

// cell is one field of a table.
type cell struct {
	text  string
	paint func(string) string
}

func plain(text string) cell { return cell{text: text} }

// table writes rows in columns. The last column is not padded, and an empty one
// takes no room.
func table(w io.Writer, indent string, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(c.text))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		b.WriteString(indent)
		for i, c := range row {
			text := c.text
			if c.paint != nil {
				text = c.paint(text)
			}
			b.WriteString(text)
			if i < len(row)-1 && widths[i] > 0 {
				b.WriteString(strings.Repeat(" ", widths[i]-columns(c.text)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// columns is how many columns of a terminal s takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		switch k := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case k == width.EastAsianWide || k == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// clip shortens s to n columns.
func clip(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		used += columns(string(r))
		if used > n-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}
