package approval

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Pattern is what a rule may stand for beside the exact request, and the
// sentence that a person is shown before they agree to it.
//
// Its text is, of a command, words and a star ("npm test *"); of a change, a
// file or a folder with a slash at its end ("docs/"); of an MCP tool, its server
// and name and a star.
type Pattern struct {
	Text     string `json:"text"`
	Sentence string `json:"sentence"`
}

// patterned are the commands that an allow rule may stand for more than one of:
// the program, and as many words as name what it does. Their other words, as
// long as they are no options, choose what to work on and never what to run.
//
// What is not here is only ever allowed word for word: shells and interpreters;
// programs that run others (sudo, env, xargs, find, make, docker, npx, go run);
// those that install, since what is installed runs; git commands that run hooks
// or other programs (commit, rebase, bisect, submodule, config) or reach out.
var patterned = map[string]map[string]int{
	"git":   {"status": 2, "diff": 2, "log": 2, "show": 2, "blame": 2, "grep": 2, "ls-files": 2, "describe": 2, "shortlog": 2, "rev-parse": 2, "add": 2},
	"go":    {"test": 2, "build": 2, "vet": 2, "list": 2, "fmt": 2, "doc": 2},
	"cargo": {"test": 2, "build": 2, "check": 2, "clippy": 2, "fmt": 2},
	"npm":   {"test": 2, "run": 3},
	"pnpm":  {"test": 2, "run": 3},
	"yarn":  {"test": 2, "run": 3},
}

// Suggest returns the patterns that a person may choose for r instead of
// exactly r, the narrowest first. There are none where not all that matters can
// be told from the text.
func Suggest(r Request) []Pattern {
	if !Standing(r) {
		return nil
	}
	var texts []string
	switch r.Class {
	case "execute":
		texts = commandPatterns(r.Command)
	case "edit":
		texts = filePatterns(r.Files)
	case "mcp":
		if text := toolPattern(r); text != "" {
			texts = []string{text}
		}
	}
	var out []Pattern
	for _, t := range texts {
		out = append(out, Pattern{t, sentence(r.Class, r.Server, r.Tool, t)})
	}
	return out
}

func sentence(class, server, tool, pattern string) string {
	switch {
	case class == "execute":
		return "“" + strings.TrimSuffix(pattern, " *") + "” with any further plain words: no options, no paths to outside, no other shell syntax"
	case class == "edit" && strings.HasSuffix(pattern, "/"):
		return "any change to any file in the folder " + pattern + ", removals too"
	case class == "edit":
		return "any change to the file " + pattern + ", its removal too"
	}
	return "the tool " + tool + " of the MCP server " + server + " with any arguments"
}

// commandPatterns fixes the words that name what is done and everything up to
// the last option, with the word after it, which may be its value.
func commandPatterns(command string) []string {
	words, ok := plainWords(command)
	if !ok {
		return nil
	}
	n := kept(words)
	if n == 0 {
		return nil
	}
	for i := n; i < len(words); i++ {
		if strings.HasPrefix(words[i], "-") {
			n = min(i+2, len(words))
		}
	}
	for _, w := range words[n:] {
		if !free(w) {
			return nil
		}
	}
	return []string{strings.Join(words[:n], " ") + " *"}
}

// kept is how many of the words have to be fixed before any can be free, 0 if
// none may. After an option at the end a free word could be its value, and so
// the program that it runs.
func kept(words []string) int {
	if len(words) < 2 {
		return 0
	}
	n := patterned[words[0]][words[1]]
	if n > len(words) || strings.HasPrefix(words[len(words)-1], "-") || slices.ContainsFunc(words[:n], func(w string) bool { return strings.HasPrefix(w, "-") }) {
		return 0
	}
	return n
}

// allowsCommand reports whether the pattern stands for the whole of command and
// everything in it was shown or may be free.
func allowsCommand(pattern, command string) bool {
	fixed, star := strings.CutSuffix(pattern, " *")
	want, ok := plainWords(fixed)
	if !ok || !star || kept(want) == 0 {
		return false
	}
	words, ok := plainWords(command)
	if !ok || len(words) < len(want) || !slices.Equal(words[:len(want)], want) {
		return false
	}
	return !slices.ContainsFunc(words[len(want):], func(w string) bool { return !free(w) })
}

// free reports whether a plain word may stand where the person saw a star: no
// option, no assignment, no path that leads out of the folder.
func free(w string) bool {
	return w[0] != '-' && w[0] != '/' && !strings.Contains(w, "=") && !slices.Contains(strings.Split(w, "/"), "..") &&
		!(len(w) > 1 && w[1] == ':') // a drive
}

// plainWords returns the words of a command that is nothing else: one simple
// command of plain words. Both what it is made of and what the shell's grammar
// makes of it have to say so.
func plainWords(command string) ([]string, bool) {
	if command == "" || len(command) > maxCommand {
		return nil, false
	}
	for i := range len(command) {
		if c := command[i]; c != ' ' && !plainByte(c) {
			return nil, false
		}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) != 1 || len(file.Last) > 0 {
		return nil, false
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || s.Semicolon.IsValid() || len(s.Redirs)+len(s.Comments)+len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	var words []string
	for _, a := range call.Args {
		if len(a.Parts) != 1 {
			return nil, false
		}
		lit, ok := a.Parts[0].(*syntax.Lit)
		if !ok {
			return nil, false
		}
		words = append(words, lit.Value)
	}
	return words, slices.Equal(words, strings.FieldsFunc(command, func(c rune) bool { return c == ' ' }))
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_@%+=:,./-", c) >= 0
}

// deniesExactly reports whether asked is command, or would run it among others.
func deniesExactly(command, asked string) bool {
	if asked == "" {
		return false
	}
	if command == asked {
		return true
	}
	own := calls(command)
	if len(own) != 1 || slices.Contains(own[0], unknown) || Programs(command).Unclear != "" || len(Programs(command).Redirects) > 0 {
		return false // made of several: only all of it was denied
	}
	return slices.ContainsFunc(calls(asked), func(words []string) bool { return slices.Equal(words, own[0]) })
}

// deniesCommand reports whether anything that asked would run is what pattern
// stands for: inside substitutions, behind other programs, with options between
// its words.
func deniesCommand(pattern, asked string) bool {
	fixed, star := strings.CutSuffix(pattern, " *")
	want, ok := plainWords(fixed)
	if !ok {
		return false
	}
	return slices.ContainsFunc(calls(asked), func(words []string) bool {
		return base(words[0]) == base(want[0]) && along(want[1:], words[1:], star)
	})
}

// along reports whether words go along want, options and their values passed
// over: it keeps all places of words that can be reached.
func along(want, words []string, star bool) bool {
	at := map[int]bool{0: true}
	for _, w := range want {
		next := map[int]bool{}
		for i := range len(words) {
			if !at[i] {
				continue
			}
			if words[i] == w {
				next[i+1] = true
			}
			if strings.HasPrefix(words[i], "-") {
				at[i+1], at[i+2] = true, true
			}
		}
		at = next
	}
	return star && len(at) > 0 || at[len(words)]
}

// unknown stands for a word that the shell works out when the command runs.
const unknown = "\x00"

// maxWords bounds what calls collects; more would be no command of anybody.
const maxWords = 100_000

// calls lists the words of every simple command in command, those included that
// other programs would run.
func calls(command string) [][]string {
	w := &walker{}
	w.parse(command, "")
	return w.calls
}

// filePatterns are the file itself and the folder that all files are in.
func filePatterns(files []string) []string {
	if len(files) == 0 {
		return nil
	}
	var out []string
	if len(files) == 1 {
		out = append(out, files[0])
	}
	dir := path.Dir(files[0])
	for _, f := range files {
		for dir != "." && !strings.HasPrefix(f, dir+"/") {
			dir = path.Dir(dir)
		}
	}
	if dir != "." {
		out = append(out, dir+"/")
	}
	return out
}

func allowsFiles(pattern string, files []string) bool {
	return len(files) > 0 && !slices.ContainsFunc(files, func(f string) bool { return !ofPattern(pattern, f) })
}

func deniesFiles(pattern string, files []string) bool {
	return slices.ContainsFunc(files, func(f string) bool { return ofPattern(pattern, f) })
}

func ofPattern(pattern, file string) bool {
	return pattern == file || strings.HasSuffix(pattern, "/") && strings.HasPrefix(file, pattern)
}

func toolPattern(r Request) string {
	if r.Server == "" || r.Tool == "" {
		return ""
	}
	return r.Server + " " + r.Tool + " *"
}
