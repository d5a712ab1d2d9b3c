package approval

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// runner is a program whose arguments name another one that it runs.
type runner struct {
	valued  string // short options that take a value, as letters
	long    []string
	before  int    // arguments that stand before the program
	assigns bool   // NAME=value may stand before it
	opaque  string // short options after which the program cannot be found
}

var runners = map[string]runner{
	"sudo":     {valued: "ugpCrtThUDR", long: []string{"--user", "--group", "--host", "--prompt", "--chdir", "--chroot", "--role", "--type", "--other-user", "--close-from", "--command-timeout"}, assigns: true, opaque: "eslv"},
	"doas":     {valued: "uC", opaque: "s"},
	"env":      {valued: "uC", long: []string{"--unset", "--chdir"}, assigns: true, opaque: "S"},
	"nice":     {valued: "n", long: []string{"--adjustment"}},
	"ionice":   {valued: "cn", long: []string{"--class", "--classdata"}},
	"nohup":    {},
	"setsid":   {},
	"stdbuf":   {valued: "ioe", long: []string{"--input", "--output", "--error"}},
	"timeout":  {valued: "ks", long: []string{"--kill-after", "--signal"}, before: 1},
	"time":     {valued: "fo", long: []string{"--format", "--output"}},
	"xargs":    {valued: "InPLdEas", long: []string{"--max-args", "--max-procs", "--max-lines", "--delimiter", "--arg-file", "--max-chars", "--replace"}},
	"exec":     {valued: "a"},
	"command":  {opaque: "vV"},
	"builtin":  {},
	"busybox":  {},
	"chroot":   {long: []string{"--userspec", "--groups"}, before: 1},
	"watch":    {valued: "nq", long: []string{"--interval"}},
	"strace":   {valued: "eopsuPabIOSUXE"},
	"parallel": {valued: "jSN", long: []string{"--jobs"}},
}

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true}

// wrapped lists the program that name runs because of its arguments.
func (w *walker) wrapped(name string, args []*syntax.Word) {
	switch {
	case shells[name]:
		w.shell(args)
	case name == "eval":
		w.script(args)
	case name == "find":
		for i, a := range args[:max(len(args)-1, 0)] {
			switch text, _ := literal(a); text {
			case "-exec", "-execdir", "-ok", "-okdir":
				rest := args[i+1:]
				for n, a := range rest {
					if text, _ := literal(a); n > 0 && (text == ";" || text == "+") {
						rest = rest[:n]
						break
					}
				}
				w.words(rest, JoinInside)
			}
		}
	default:
		if r, ok := runners[name]; ok {
			w.runner(name, r, args)
		}
	}
}

// runner skips the options of a program to find the one that it runs.
func (w *walker) runner(name string, r runner, args []*syntax.Word) {
	before := r.before
	for i := 0; i < len(args); i++ {
		text, known := literal(args[i])
		switch {
		case known && text == "--":
		case known && strings.HasPrefix(text, "--"):
			for _, option := range r.long {
				if text == option {
					i++
				}
			}
		case known && len(text) > 1 && text[0] == '-':
			if strings.ContainsAny(text[1:], r.opaque) {
				if name == "command" {
					return // only looks the program up
				}
				w.unclear("It is not clear which program " + name + " would run.")
				return
			}
			if strings.IndexByte(r.valued, text[len(text)-1]) >= 0 && strings.IndexAny(text[1:], r.valued) == len(text)-2 {
				i++
			}
		case known && r.assigns && strings.Contains(text, "="):
			name, _, _ := strings.Cut(text, "=")
			w.assigned(name)
		case !known && r.assigns && assignment(args[i]):
		case before > 0:
			before--
		default:
			w.words(args[i:], JoinInside)
			return
		}
	}
}

// shell finds the script of bash -c.
func (w *walker) shell(args []*syntax.Word) {
	for i := 0; i < len(args); i++ {
		text, known := literal(args[i])
		switch {
		case !known:
			w.unclear("It is not clear what a shell in the command would run.")
			return
		case text == "" || text[0] != '-' && text[0] != '+':
			return // a script file
		case text == "--rcfile", text == "--init-file":
			i++
		case strings.HasPrefix(text, "--"):
		case strings.ContainsRune(text, 'c'):
			for i++; i < len(args); i++ { // options may stand between -c and the script
				if s, known := literal(args[i]); !known || s[0] != '-' && s[0] != '+' {
					w.script(args[i : i+1])
					return
				}
			}
			return
		case strings.HasSuffix(text, "o"), strings.HasSuffix(text, "O"):
			i++
		}
	}
}

// script parses words that a program would hand to a shell.
func (w *walker) script(args []*syntax.Word) {
	var text []string
	for _, a := range args {
		s, known := literal(a)
		if !known {
			w.unclear("A part of the command is put together only when it runs.")
			return
		}
		text = append(text, s)
	}
	if w.depth == maxShells {
		w.unclear("The command has too many shells within shells to be taken apart.")
		return
	}
	w.depth++
	w.parse(strings.Join(text, " "), JoinInside)
	w.depth--
}

func assignment(word *syntax.Word) bool {
	if len(word.Parts) == 0 {
		return false
	}
	lit, ok := word.Parts[0].(*syntax.Lit)
	return ok && strings.Contains(lit.Value, "=")
}

func base(name string) string { return path.Base(strings.ReplaceAll(name, `\`, "/")) }
