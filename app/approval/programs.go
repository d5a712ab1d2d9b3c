package approval

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// How a program is joined to what stands before it.
const (
	JoinThen       = "then"       // ; newline && ||
	JoinInto       = "into"       // |
	JoinInside     = "inside"     // $( ) backticks <( ), or run by the program before it
	JoinBackground = "background" // started with & and not waited for
)

const (
	maxCommand = 64 << 10 // bytes that are parsed; more would be slow and no person reads it
	maxNesting = 200      // brackets within brackets
	maxShells  = 4        // bash -c within bash -c
)

// Structure is what a shell command would run.
type Structure struct {
	Programs  []Program
	Redirects []string // as written, such as ">out.txt"
	Unclear   string   // why the list may not be the whole truth; empty if it is
}

// Program is one program of a command.
type Program struct {
	Program string // the name as the shell would read it; as written where that is unclear
	Join    string // empty for the first, unless it runs in the background
}

// String describes the programs in one line: "go then rm into tee".
func (s Structure) String() string {
	var b strings.Builder
	for _, p := range s.Programs {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		switch p.Join {
		case "":
		case JoinBackground:
			b.WriteString("in the background ")
		default:
			b.WriteString(p.Join + " ")
		}
		b.WriteString(p.Program)
	}
	return b.String()
}

// Programs names every program that command would run in a shell, in the order
// in which they are written, and how they are joined. It looks through
// programs that run another one, such as sudo, env, xargs and bash -c.
//
// The list serves the eye and grants nothing: what a script or an interpreter
// does inside is not in it. Where the text does not tell which program runs,
// Unclear says so.
func Programs(command string) Structure {
	w := &walker{}
	w.parse(command, "")
	return w.out
}

type walker struct {
	out    Structure
	calls  [][]string // the words of each program, for rules
	held   int        // words in calls
	source string     // what is being parsed
	depth  int        // of shells within shells
}

func (w *walker) add(program, join string) {
	if join == "" && len(w.out.Programs) > 0 {
		join = JoinThen
	}
	w.out.Programs = append(w.out.Programs, Program{program, join})
}

// written returns a piece of the command as it stands there.
func (w *walker) written(from, to syntax.Pos) string {
	return w.source[from.Offset():to.Offset()]
}

func (w *walker) unclear(why string) {
	if w.out.Unclear == "" {
		w.out.Unclear = why
	}
}

func (w *walker) parse(command, join string) {
	if len(command) > maxCommand || nesting(command) > maxNesting {
		w.unclear("The command is too long or too deeply nested to be taken apart.")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		w.unclear("The command could not be read as a shell command.")
		return
	}
	outer := w.source
	w.source = command
	w.statements(file.Stmts, join, JoinThen)
	w.source = outer
}

// statements lists programs in order: the first one with the join first.
func (w *walker) statements(list []*syntax.Stmt, first, rest string) {
	for i, s := range list {
		if i == 0 {
			w.statement(s, first)
		} else {
			w.statement(s, rest)
		}
	}
}

func (w *walker) statement(s *syntax.Stmt, join string) {
	if s.Background || s.Coprocess {
		join = JoinBackground
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(c, join)
	case *syntax.BinaryCmd:
		w.statement(c.X, join)
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			w.statement(c.Y, JoinInto)
		} else {
			w.statement(c.Y, JoinThen)
		}
	case nil:
	default:
		w.nested(c, join, JoinThen)
	}
	for _, r := range s.Redirs {
		w.out.Redirects = append(w.out.Redirects, w.written(r.Pos(), r.Word.End()))
		w.nested(r, JoinInside, JoinInside)
	}
}

// nested lists the statements and substitutions below n, which is no statement
// itself.
func (w *walker) nested(n syntax.Node, first, rest string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.statements(n.Stmts, JoinInside, JoinInside)
			return false
		case *syntax.ProcSubst:
			w.statements(n.Stmts, JoinInside, JoinInside)
			return false
		case *syntax.Assign:
			if n.Name != nil {
				w.assigned(n.Name.Value)
			}
		case *syntax.Stmt:
			w.statement(n, first)
			first = rest
			return false
		}
		return true
	})
}

// assigned notes variables that decide what a program's name means.
func (w *walker) assigned(name string) {
	switch name {
	case "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "IFS":
		w.unclear("The command sets " + name + ", so its programs may not be the ones that they are named after.")
	}
}

func (w *walker) call(c *syntax.CallExpr, join string) {
	if len(c.Args) > 0 {
		w.words(c.Args, join)
	}
	for _, a := range c.Assigns {
		w.nested(a, JoinInside, JoinInside)
	}
	for _, a := range c.Args {
		w.nested(a, JoinInside, JoinInside)
	}
}

// words lists the program that a simple command names, and the one that this
// program runs in turn.
func (w *walker) words(args []*syntax.Word, join string) {
	w.keep(args)
	name, known := literal(args[0])
	if !known {
		w.add(w.written(args[0].Pos(), args[0].End()), join)
		w.unclear("The name of a program is not written out: the shell works it out when the command runs.")
		return
	}
	w.add(name, join)
	w.wrapped(base(name), args[1:])
}

// keep collects the words of a simple command.
func (w *walker) keep(args []*syntax.Word) {
	if w.held += len(args); w.held > maxWords {
		return
	}
	words := make([]string, len(args))
	for i, a := range args {
		text, known := literal(a)
		if !known {
			text = unknown
		}
		words[i] = text
	}
	w.calls = append(w.calls, words)
}

// literal returns what the shell makes of a word, if that needs nothing but
// the word: no variables, no substitutions, no patterns, no braces.
func literal(word *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			s, ok := unescape(p.Value)
			if !ok {
				return "", false
			}
			b.WriteString(s)
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(unescapeQuoted(lit.Value))
			}
		default:
			return "", false
		}
	}
	return b.String(), b.Len() > 0
}

// unescape removes backslashes from an unquoted word and refuses patterns.
func unescape(s string) (string, bool) {
	if s == "[" {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) && s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case '*', '?', '[':
			return "", false
		case '{':
			if rest := s[i:]; strings.Contains(rest, ",") || strings.Contains(rest, "..") {
				return "", false
			}
			b.WriteByte('{')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), true
}

// unescapeQuoted does so inside double quotes, where a backslash escapes only a
// few characters.
func unescapeQuoted(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`", "\\\n", "").Replace(s)
}

// nesting returns a bound on how deep the parser would have to go.
func nesting(s string) int {
	depth, deepest := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return deepest
}
