package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// printer writes the entries of a session as a person reads them: the agent's
// words as they come, everything else a line each.
type printer struct {
	*app
	folder string            // of the mission: paths are shown as they lie in it
	full   bool              // with what tools printed
	words  string            // the kind of the text that the cursor stands in
	calls  map[string]string // tool calls under way, by their name and object
	asked  []wire.Permission // what waited for an answer when it was read
	told   map[string]bool   // approvals that were shown already
	wrote  bool
}

// asks shows an approval that waits, with what answers it.
func (p *printer) asks(id string, wants model.Detail) {
	if p.told[id] {
		return
	}
	if p.told == nil {
		p.told = map[string]bool{}
	}
	p.told[id] = true
	p.line(p.style.needs("▲ "+clip(wants.String(), 100)) + "  reeve allow " + short(id))
}

// pending shows what still waits at the end of the session.
func (p *printer) pending() {
	for _, d := range p.asked {
		p.asks(d.Request, p.wants(d))
	}
	p.asked = nil
}

func (p *printer) wants(d wire.Permission) model.Detail {
	return model.Wants(wire.Approval{Kind: d.Kind, Subject: d.Subject, Folder: p.folder})
}

// resolved shows how an approval was settled, and what it was about if that was
// not shown yet. What a rule allowed is one quiet line.
func (p *printer) resolved(d wire.PermissionResolved) {
	i := slices.IndexFunc(p.asked, func(a wire.Permission) bool { return a.Request == d.Request })
	rule := strings.HasPrefix(d.By, "rule ")
	if i >= 0 {
		if !rule && !p.told[d.Request] {
			p.line(p.style.needs("▲ " + clip(p.wants(p.asked[i]).String(), 100)))
		}
		p.asked = slices.Delete(p.asked, i, i+1)
	}
	text := oneLine(d.Outcome)
	if rule {
		name := strings.TrimPrefix(d.By, "rule ")
		text = "allowed unasked (" + oneLine(name) + ")"
		if strings.HasPrefix(name, "r-") {
			text = oneLine(d.Outcome) + " by your rule " + short(oneLine(name))
		}
	} else if d.By != "" {
		text += " by " + oneLine(d.By)
	}
	if d.Reason != "" {
		text += ": “" + oneLine(d.Reason) + "”"
	}
	p.line("      " + p.style.quiet(text))
}

// endLine ends a text that stands open.
func (p *printer) endLine() {
	if p.words != "" {
		fmt.Fprintln(p.Stdout)
		p.words = ""
	}
}

func (p *printer) line(text string) {
	p.endLine()
	fmt.Fprintln(p.Stdout, text)
	p.wrote = true
}

func (p *printer) text(kind, text string) {
	text = model.Clean(text)
	if p.words != kind {
		p.endLine()
		if text = strings.TrimLeft(text, "\n"); text == "" {
			return
		}
	}
	p.words = kind
	if kind == wire.KindThought {
		text = p.style.quiet(text)
	}
	fmt.Fprint(p.Stdout, text)
}

// read decodes the data of an entry; what can't be read is left out.
func read[T any](e wire.Entry) (T, bool) {
	var v T
	err := json.Unmarshal(e.Data, &v)
	return v, err == nil
}

func (p *printer) entry(e wire.Entry) {
	s := p.style
	clock := s.quiet(e.At.In(p.Now().Location()).Format("15:04")) + " "
	switch e.Kind {
	case wire.KindTurnStarted:
		if d, ok := read[wire.TurnStarted](e); ok {
			p.endLine()
			if p.wrote {
				fmt.Fprintln(p.Stdout)
			}
			p.line(clock + s.bold(fmt.Sprintf("Turn %d", d.Number)))
			for _, text := range d.Steering {
				p.line(s.accent("You: ") + model.Clean(text))
			}
		}
	case wire.KindText, wire.KindThought:
		if d, ok := read[wire.Text](e); ok {
			p.text(e.Kind, d.Text)
		}
	case wire.KindPlan:
		if d, ok := read[wire.Plan](e); ok {
			for _, step := range d.Steps {
				mark := map[string]string{"completed": "✓", "in_progress": "●"}[step.Status]
				if mark == "" {
					mark = "◦"
				}
				p.line(s.quiet("  "+mark+" ") + oneLine(step.Text))
			}
		}
	case wire.KindToolStarted:
		if d, ok := read[wire.ToolStarted](e); ok {
			name := strings.TrimSpace(model.ToolName(d.Tool, d.Kind) + "  " + clip(model.ToolObject(d, p.folder), 100))
			if p.calls == nil {
				p.calls = map[string]string{}
			}
			if p.calls[d.Call] == name {
				return
			}
			p.calls[d.Call] = name
			p.line(clock + "▸ " + name)
		}
	case wire.KindToolFinished:
		if d, ok := read[wire.ToolFinished](e); ok {
			p.toolFinished(d)
		}
	case wire.KindPermissionAsked:
		if d, ok := read[wire.Permission](e); ok {
			p.asked = append(p.asked, d)
		}
	case wire.KindPermissionResolved:
		if d, ok := read[wire.PermissionResolved](e); ok {
			p.resolved(d)
		}
	case wire.KindNotice:
		if d, ok := read[wire.Notice](e); ok {
			text := clock + oneLine(d.Text)
			if d.Level == "error" {
				text = clock + s.wrong("✕ "+oneLine(d.Text))
			}
			p.line(text)
		}
	case wire.KindSessionStarted:
		if d, ok := read[wire.SessionStarted](e); ok {
			p.line(clock + s.quiet(strings.TrimSpace(model.ProviderTitle(d.Provider)+" "+oneLine(d.Version)+" "+oneLine(d.Model))))
		}
	case wire.KindSessionEnded:
		if d, ok := read[wire.SessionEnded](e); ok {
			p.line(clock + s.quiet(model.WorkerEnded(d)))
		}
	case wire.KindTurnFinished:
		if d, ok := read[wire.TurnFinished](e); ok {
			parts := []string{fmt.Sprintf("turn %s", strings.ReplaceAll(oneLine(d.Outcome), "_", " "))}
			for _, part := range []string{model.Seconds(d.Seconds), model.Tokens(d.Usage), model.Cost(d.Usage.CostUSD)} {
				if part != "" {
					parts = append(parts, part)
				}
			}
			text := strings.Join(parts, ", ")
			if d.Message != "" {
				text += ": " + oneLine(d.Message)
			}
			if d.Outcome == "failed" {
				text = s.wrong(text)
			} else {
				text = s.quiet(text)
			}
			p.line(clock + text)
		}
	}
}

func (p *printer) toolFinished(d wire.ToolFinished) {
	s := p.style
	mark, paint := "✓", s.done
	switch d.Status {
	case "failed":
		mark, paint = "✕", s.wrong
	case "denied", "cancelled":
		mark, paint = "■", s.quiet
	}
	text := oneLine(d.Status)
	if d.Exit != nil && *d.Exit != 0 {
		text += fmt.Sprintf(", exit %d", *d.Exit)
	}
	if seconds := model.Seconds(d.Seconds); seconds != "" {
		text += ", " + seconds
	}
	name := p.calls[d.Call]
	delete(p.calls, d.Call)
	if len(p.calls) > 0 && name != "" {
		// Several ran at once: say which one this is.
		text += "  " + name
	}
	p.line("      " + paint(mark+" "+text))
	body := d.Diff
	if body == "" {
		body = d.Output
	}
	if !p.full || body == "" {
		return
	}
	for line := range strings.Lines(model.Clean(body)) {
		line = strings.TrimRight(line, "\n")
		if d.Diff != "" {
			line = p.diffLine(line)
		}
		p.line("        " + line)
	}
	if d.Cut > 0 {
		p.line(s.quiet(fmt.Sprintf("        %d more bytes were left out", d.Cut)))
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(model.Clean(s)), " ") }
