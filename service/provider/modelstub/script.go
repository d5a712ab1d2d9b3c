package modelstub

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// kind of a part of an answer.
type kind int

const (
	say   kind = iota // text
	think             // visible reasoning
	tool              // a tool call
	slow              // text in pieces, with a pause between
	fail              // an HTTP error
	limit             // an HTTP error that says when it ends
	drop              // text in pieces, then a cut connection
)

// part is one directive.
type part struct {
	kind  kind
	text  string          // say, think
	name  string          // tool
	input json.RawMessage // tool
	n     int             // slow, drop: pieces; fail: status; limit: seconds
	ms    int             // slow: pause between pieces
	times int             // fail: how often, 0 is always
}

// step is one answer of the model: parts that were joined by &.
type step []part

func (s step) tools() int {
	n := 0
	for _, p := range s {
		if p.kind == tool {
			n++
		}
	}
	return n
}

const opening = "<<"

var kinds = map[string]kind{"say": say, "think": think, "tool": tool, "slow": slow, "error": fail, "limit": limit, "drop": drop}

// parse reads the steps that text scripts for a turn, counted from 1. Text
// around the directives is ignored. A malformed directive is an error, so that
// a test which misspells one does not pass by accident.
func parse(text string, turn int) ([]step, error) {
	var common, own []step
	into, join := &common, false
	sections := false
	for {
		at := strings.Index(text, opening)
		if at < 0 {
			break
		}
		rest := text[at+len(opening):]
		word, _, ok := strings.Cut(rest, ":")
		k, known := kinds[word]
		switch {
		case ok && word == "turn":
			arg, after, closed := strings.Cut(rest[len("turn:"):], ">>")
			n, err := strconv.Atoi(arg)
			if !closed || err != nil {
				return nil, fmt.Errorf("bad directive <<turn:%s", arg)
			}
			into = new([]step)
			if n == turn {
				into, sections = &own, true
			}
			text, join = after, false
			continue
		case !ok || !known:
			text, join = rest, false
			continue
		}
		p, after, err := parsePart(k, rest[len(word)+1:])
		if err != nil {
			return nil, err
		}
		if join && len(*into) > 0 {
			last := len(*into) - 1
			(*into)[last] = append((*into)[last], p)
		} else {
			*into = append(*into, step{p})
		}
		text, join = after, strings.HasPrefix(after, "&")
	}
	if sections {
		return own, nil
	}
	return common, nil
}

func parsePart(k kind, s string) (part, string, error) {
	p := part{kind: k}
	if k == tool {
		name, rest, ok := strings.Cut(s, " ")
		if !ok {
			return p, "", fmt.Errorf("bad directive <<tool:%.40s: want a name, a space and JSON", s)
		}
		d := json.NewDecoder(strings.NewReader(rest))
		if err := d.Decode(&p.input); err != nil {
			return p, "", fmt.Errorf("bad directive <<tool:%s: %w", name, err)
		}
		rest = rest[d.InputOffset():]
		if !strings.HasPrefix(rest, ">>") {
			return p, "", fmt.Errorf("bad directive <<tool:%s: no >> after the JSON", name)
		}
		p.name = name
		return p, rest[2:], nil
	}
	arg, rest, ok := strings.Cut(s, ">>")
	if !ok {
		return p, "", fmt.Errorf("bad directive: no >> after %.40q", s)
	}
	if k == say || k == think {
		p.text = arg
		return p, rest, nil
	}
	first, second, two := strings.Cut(arg, ":")
	n, err := strconv.Atoi(first)
	if err == nil && two {
		var m int
		m, err = strconv.Atoi(second)
		p.ms, p.times = m, m
	}
	if err != nil {
		return p, "", fmt.Errorf("bad directive argument %q: want numbers", arg)
	}
	p.n = n
	return p, rest, nil
}

// choose returns the step that follows after results tool results, and its
// place. Past the end the model says that it is done.
func choose(steps []step, results int) (step, int) {
	for i, s := range steps {
		if results == 0 || s.tools() == 0 {
			return s, i
		}
		results -= s.tools()
	}
	return step{{kind: say, text: "done"}}, len(steps)
}
