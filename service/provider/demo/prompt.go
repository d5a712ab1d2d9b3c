package demo

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// wish is what a prompt asks for.
type wish struct {
	scope      string
	steering   []string
	directives []directive
}

type directive struct{ name, arg string }

func (w wish) has(name string) bool {
	for _, d := range w.directives {
		if d.name == name {
			return true
		}
	}
	return false
}

// pattern compiles an expression when it is needed first: every start of the
// program would pay for it otherwise.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// number is the argument of a directive, 0 without it.
func (w wish) number(name string) int {
	for _, d := range w.directives {
		if d.name == name {
			n, _ := strconv.Atoi(d.arg)
			return n
		}
	}
	return 0
}

var (
	directiveLine = pattern(`(?m)(?:^|[ \t])demo:([a-z-]+)[ \t]*([^\n]*)$`)
	listItem      = pattern(`^\d+\. `)
	addLine       = pattern(`(?is)\badd (?:a|the|this) line:?\s+(.+?)\s+to\s+(\S+?)[.!]?\s*$`)
)

// parse reads a turn's prompt. A text without the sections of a turn's prompt
// is all scope.
func parse(prompt string) wish {
	w := wish{scope: strings.TrimSpace(prompt)}
	if s, ok := section(prompt, "Scope"); ok {
		w.scope = s
		list, _ := section(prompt, "New instructions from the person")
		for line := range strings.SplitSeq(list, "\n") {
			switch {
			case listItem().MatchString(line):
				_, text, _ := strings.Cut(line, ". ")
				w.steering = append(w.steering, text)
			case line != "" && len(w.steering) > 0:
				w.steering[len(w.steering)-1] += "\n" + strings.TrimPrefix(line, "   ")
			}
		}
	}
	for _, text := range append([]string{w.scope}, w.steering...) {
		for _, m := range directiveLine().FindAllStringSubmatch(text, -1) {
			w.directives = append(w.directives, directive{m[1], strings.TrimSpace(m[2])})
		}
	}
	return w
}

// section returns the text under a heading of the second level.
func section(prompt, title string) (string, bool) {
	_, rest, ok := strings.Cut("\n"+prompt, "\n## "+title+"\n")
	if !ok {
		return "", false
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return strings.TrimSpace(text), true
}
